//! The differences between two texts, line by line.
//!
//! Source: Python's `difflib`; upstream's library uses the same algorithm.

use std::collections::BTreeMap;
use std::ops::Range;

/// The number of unchanged lines shown around a change.
const AROUND: usize = 3;
/// If the new text has at least this many lines, the search for matches skips frequent lines.
const LONG: usize = 200;

/// A run of lines that both texts contain: its start in each, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    old: usize,
    new: usize,
    count: usize,
}

/// Returns the changes from one text to another as a unified diff with [`AROUND`] lines of context;
/// empty if the texts are equal. O(lines²).
pub(crate) fn unified(old: &[String], new: &[String]) -> String {
    let mut matches = Vec::new();
    find_all(old, new, 0..old.len(), 0..new.len(), &mut matches);
    matches.sort_unstable();
    let mut changes = Vec::new();
    let (mut at_old, mut at_new) = (0, 0);
    let end = Match {
        old: old.len(),
        new: new.len(),
        count: 0,
    };
    for found in matches.into_iter().chain([end]) {
        if found.old > at_old || found.new > at_new {
            changes.push(((at_old, found.old), (at_new, found.new)));
        }
        (at_old, at_new) = (found.old + found.count, found.new + found.count);
    }
    let mut out = String::new();
    let mut rest = &changes[..];
    while let Some(first) = rest.first() {
        let mut count = 1;
        while let Some(next) = rest.get(count)
            && next.0.0 - rest[count - 1].0.1 <= 2 * AROUND
        {
            count += 1;
        }
        let (group, after) = rest.split_at(count);
        rest = after;
        let last = group.last().unwrap_or(first);
        let before = first.0.0.min(AROUND);
        let behind = (old.len() - last.0.1).min(AROUND);
        let range = |from: usize, to: usize| {
            let count = to - from;
            match count {
                1 => (from + 1).to_string(),
                // An empty range starts at the line before it.
                0 => format!("{from},0"),
                _ => format!("{},{count}", from + 1),
            }
        };
        out += &format!(
            "@@ -{} +{} @@\n",
            range(first.0.0 - before, last.0.1 + behind),
            range(first.1.0 - before, last.1.1 + behind)
        );
        let mut at = first.0.0 - before;
        for ((from, to), (new_from, new_to)) in group {
            put(&mut out, ' ', &old[at..*from]);
            put(&mut out, '-', &old[*from..*to]);
            put(&mut out, '+', &new[*new_from..*new_to]);
            at = *to;
        }
        put(&mut out, ' ', &old[at..at + behind]);
    }
    out
}

fn put(out: &mut String, mark: char, lines: &[String]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

/// Finds the longest common run, then those before and after it.
fn find_all(
    old: &[String],
    new: &[String],
    of_old: Range<usize>,
    of_new: Range<usize>,
    found: &mut Vec<Match>,
) {
    let longest = longest(old, new, &of_old, &of_new);
    if longest.count == 0 {
        return;
    }
    found.push(longest);
    let Match {
        old: a,
        new: b,
        count,
    } = longest;
    find_all(old, new, of_old.start..a, of_new.start..b, found);
    find_all(
        old,
        new,
        a + count..of_old.end,
        b + count..of_new.end,
        found,
    );
}

fn longest(old: &[String], new: &[String], of_old: &Range<usize>, of_new: &Range<usize>) -> Match {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= LONG {
        let most = new.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut best = Match {
        old: of_old.start,
        new: of_new.start,
        count: 0,
    };
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (at_old, line) in old.iter().enumerate().take(of_old.end).skip(of_old.start) {
        let mut next = BTreeMap::new();
        let all = places.get(line.as_str()).into_iter().flatten();
        for at_new in all.copied().filter(|at| of_new.contains(at)) {
            let before = at_new.checked_sub(1).and_then(|at| lengths.get(&at));
            let count = before.copied().unwrap_or(0) + 1;
            next.insert(at_new, count);
            if count > best.count {
                best = Match {
                    old: at_old + 1 - count,
                    new: at_new + 1 - count,
                    count,
                };
            }
        }
        lengths = next;
    }
    // Extend the run over adjacent frequent lines.
    while best.old > of_old.start
        && best.new > of_new.start
        && old[best.old - 1] == new[best.new - 1]
    {
        best = Match {
            old: best.old - 1,
            new: best.new - 1,
            count: best.count + 1,
        };
    }
    while best.old + best.count < of_old.end
        && best.new + best.count < of_new.end
        && old[best.old + best.count] == new[best.new + best.count]
    {
        best.count += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn changes_are_shown_with_the_lines_around_them() {
        let old = lines("a b c d e f g h i j k l m n o p q r s");
        let new = lines("a b c d X f g h i j k l m n o p q r s t");
        assert_eq!(
            unified(&old, &new),
            "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n@@ -17,3 +17,4 @@\n q\n r\n s\n+t\n"
        );
        assert_eq!(unified(&old, &old), "");
        assert_eq!(unified(&lines("a"), &lines("b")), "@@ -1 +1 @@\n-a\n+b\n");
    }
}
