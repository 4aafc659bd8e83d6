//! Pod indexes as a string, e.g. `1,3-5`.

/// Returns the number of indexes in a list of indexes. Each index must be less than `completions`.
///
/// # Errors
/// Returns the problem with the list, in upstream's words.
///
/// Source: `validateIndexesFormat` of Kubernetes' `pkg/apis/batch/validation`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    Ok(intervals(text, completions)?
        .iter()
        .map(|(first, last)| last - first + 1)
        .sum())
}

/// Returns the first index that occurs in both lists; `None` if there is none or a list is invalid.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let one = intervals(one, completions).ok()?;
    let other = intervals(other, completions).ok()?;
    // Both lists are sorted.
    one.iter().find_map(|(first, last)| {
        let next = other.partition_point(|it| it.1 < *first);
        let next = other.get(next).filter(|it| it.0 <= *last)?;
        Some(next.0.max(*first))
    })
}

fn intervals(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    if text.is_empty() {
        return Ok(all);
    }
    for part in text.split(',') {
        let (first, last) = interval(part, completions)?;
        if let Some((_, previous)) = all.last().filter(|(_, previous)| *previous >= first) {
            return Err(unordered(*previous, first));
        }
        all.push((first, last));
    }
    Ok(all)
}

fn unordered(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {text:?}"
        )),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    match text.split('-').collect::<Vec<_>>()[..] {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            match first < last {
                true => Ok((first, last)),
                false => Err(unordered(first, last)),
            }
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at \
             most two parts separated by '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_compared_with_others() {
        assert_eq!(count("", 3), Ok(0));
        assert_eq!(count("0,2-3", 4), Ok(3));
        for (text, problem) in [
            ("3", "too large index: \"3\""),
            ("a", "cannot convert string to integer for index: \"a\""),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
            ("2-1", "non-increasing order, previous: 2, current: 1"),
        ] {
            assert_eq!(count(text, 3), Err(problem.to_owned()));
        }
        assert_eq!(overlap("0-2,5", "5-7", 9), Some(5));
        assert_eq!(overlap("0-2", "3", 9), None);
        assert_eq!(overlap("1,7", "0,3-4,7-8", 9), Some(7));
        assert_eq!(overlap("1-2,5,9", "0,3-4,6-8", 10), None);
    }
}
