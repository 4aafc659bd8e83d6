//! Sets of completion indexes in the format of a Job's status: `0,2-5,7`.
//!
//! Source: `orderedIntervals` in Kubernetes' `pkg/controller/job`.

use std::fmt::{self, Display, Formatter, Write as _};

use compact_str::CompactString;

/// A set of completion indexes: ordered intervals with inclusive ends, no two of them adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses the indexes in a status, for a Job with this number of completions. Cuts off indexes
    /// that are too large and skips parts that can't be parsed. Does not sort, because the server
    /// accepts only ordered indexes. O(parts).
    pub fn parse(text: &str, completions: i64) -> Indexes {
        let mut all = Indexes::default();
        for part in text.split(',') {
            let mut ends = part.split('-');
            let Some(Ok(first)) = ends.next().map(str::parse::<i64>) else {
                continue;
            };
            if first >= completions {
                break;
            }
            let last = match ends.next().map(str::parse::<i64>) {
                None => first,
                Some(Ok(last)) => last.min(completions - 1),
                Some(Err(_)) => continue,
            };
            match all.0.last_mut() {
                Some(before) if before.1 == first - 1 => before.1 = last,
                _ => all.0.push((first, last)),
            }
        }
        all
    }

    /// Creates a set from ordered indexes, which may repeat. O(indexes).
    pub fn of_ordered(indexes: impl IntoIterator<Item = i64>) -> Indexes {
        let mut all = Indexes::default();
        for index in indexes {
            all.join(index, index);
        }
        all
    }

    /// Creates a set from non-negative indexes in any order. O(indexes + the largest index), or
    /// O(indexes · log indexes) if they are sparse.
    pub fn of_unordered(indexes: impl IntoIterator<Item = i64>) -> Indexes {
        /// The number of bits in a bitmap that cost as much time as sorting one index.
        const BITS_PER_INDEX: usize = 1024;
        let mut indexes: Vec<i64> = indexes.into_iter().collect();
        if indexes.is_sorted() {
            return Indexes::of_ordered(indexes);
        }
        let largest = indexes.iter().copied().max().unwrap_or(0);
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        if largest / BITS_PER_INDEX > indexes.len() {
            indexes.sort_unstable();
            return Indexes::of_ordered(indexes);
        }
        let mut bits = vec![0_u64; largest / 64 + 1];
        for index in indexes {
            let at = usize::try_from(index).expect("indexes are not negative");
            bits[at / 64] |= 1 << (at % 64);
        }
        let words = (0..).step_by(64).zip(bits);
        Indexes::of_ordered(words.flat_map(|(first, mut word)| {
            std::iter::from_fn(move || {
                let lowest = word.trailing_zeros();
                word &= word.checked_sub(1)?;
                Some(first + i64::from(lowest))
            })
        }))
    }

    /// Returns the indexes that are in either set. O(intervals).
    #[must_use]
    pub fn union(&self, other: &Indexes) -> Indexes {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut all = Indexes::default();
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
                (Some(_), None) => a.next(),
                (_, Some(_)) => b.next(),
                (None, None) => return all,
            };
            let (first, last) = *next.expect("the iterator was peeked");
            all.join(first, last);
        }
    }

    /// Returns the indexes of this set that `other` lacks. O(intervals).
    #[must_use]
    pub fn without(&self, other: &Indexes) -> Indexes {
        let mut all = Indexes::default();
        for &(first, last) in &self.0 {
            let mut next = first;
            let at = other.0.partition_point(|(_, end)| *end < first);
            for &(from, to) in other.0[at..].iter().take_while(|(from, _)| *from <= last) {
                if next < from {
                    all.0.push((next, from - 1));
                }
                next = to + 1;
            }
            if next <= last {
                all.0.push((next, last));
            }
        }
        all
    }

    /// Adds an interval that begins no earlier than the last one in the set.
    fn join(&mut self, first: i64, last: i64) {
        match self.0.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => self.0.push((first, last)),
        }
    }

    /// Returns the number of indexes. O(intervals).
    pub fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether the set contains an index. O(log intervals).
    pub fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Returns the intervals in order, with inclusive ends.
    pub fn intervals(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// Returns the first `count` indexes below `completions` that are not in the set, in order.
    /// O(count + intervals).
    pub fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::with_capacity(count.min(1024));
        let mut next = 0;
        let ends = self.0.iter().copied().chain([(completions, completions)]);
        for (first, last) in ends {
            while next < first.min(completions) {
                if missing.len() == count {
                    return missing;
                }
                missing.push(next);
                next += 1;
            }
            next = last.saturating_add(1).max(next);
        }
        missing
    }
}

/// Formats the set as a status has it. Two adjacent indexes are written separately: `3,4`.
impl Display for Indexes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            match last - first {
                1 => write!(f, "{first},{last}")?,
                2.. => write!(f, "{first}-{last}")?,
                _ => write!(f, "{first}")?,
            }
        }
        Ok(())
    }
}

/// Returns the name prefix of the pods with one index. Truncates the name of the Job if it is long.
pub fn indexed_name_prefix(job: &str, index: i64) -> CompactString {
    /// The maximum length in bytes. It leaves room for the five characters that the server adds.
    const PREFIX_BYTES_MAX: usize = 58;
    let end = compact_str::format_compact!("-{index}-");
    let most = PREFIX_BYTES_MAX.saturating_sub(end.len());
    let kept = &job[..job.floor_char_boundary(most)];
    compact_str::format_compact!("{kept}{end}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn unordered_indexes_are_sorted(
            indexes in proptest::collection::vec(prop_oneof![0..200_i64, 0..3_000_000_i64], 0..40),
        ) {
            let ordered: BTreeSet<i64> = indexes.iter().copied().collect();
            prop_assert_eq!(Indexes::of_unordered(indexes), Indexes::of_ordered(ordered));
        }

        #[test]
        fn index_sets_behave_like_sets_of_numbers(
            a in proptest::collection::btree_set(0..60_i64, 0..40),
            b in proptest::collection::btree_set(0..60_i64, 0..40),
            completions in 0..70_i64,
            count in 0..20_usize,
        ) {
            let (x, y) = (Indexes::of_ordered(a.clone()), Indexes::of_ordered(b.clone()));
            let both: BTreeSet<i64> = a.union(&b).copied().collect();
            let union = x.union(&y);
            prop_assert_eq!(&union, &Indexes::of_ordered(both.clone()));
            prop_assert_eq!(union.count(), both.len() as i64);
            let others: BTreeSet<i64> = a.difference(&b).copied().collect();
            prop_assert_eq!(x.without(&y), Indexes::of_ordered(others));
            for index in -1..70 {
                prop_assert_eq!(union.has(index), both.contains(&index));
            }
            let missing: Vec<i64> = (0..completions).filter(|it| !both.contains(it)).take(count).collect();
            prop_assert_eq!(union.first_missing(count, completions), missing);
            let cut: BTreeSet<i64> = both.into_iter().filter(|it| *it < completions).collect();
            prop_assert_eq!(Indexes::parse(&union.to_string(), completions), Indexes::of_ordered(cut));
        }
    }
}
