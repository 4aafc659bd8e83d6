//! Selection and sorting by a relation that may contradict itself.
//!
//! Both functions guarantee this for any relation: if the items fall into groups in which every
//! item of an earlier group goes before every item of a later one, the result keeps the order of
//! the groups. Inside a group of contradicting items the result depends on their positions, not on
//! chance. Neither function panics on contradictions, as std's sorts may, and neither is quadratic.

use std::cmp::Ordering;

/// The maximum number of items to sort by insertion, which is faster than partitioning them.
const INSERTION_MAX: usize = 20;
/// The minimum number of items for a pivot that is the median of three medians.
const NINTHER_MIN: usize = 64;

/// Moves `count` items to the front such that no item after them is in an earlier group. The rest
/// of the slice is unspecified and may lack some of the other items.
///
/// `scratch` grows to twice the number of items and never shrinks. O(n) expected, O(n log n) at
/// worst.
pub(super) fn select_first<T: Copy>(
    mut items: &mut [T],
    mut count: usize,
    scratch: &mut Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    // A transitive relation halves the remaining items every other round. For any other relation,
    // or an input that defeats the choice of pivots, the merge sort takes over.
    let mut rounds_left = 2 * (items.len() | 1).ilog2() + 4;
    while count > 0 && count < items.len() {
        if items.len() <= INSERTION_MAX {
            return insertion_sort(items, &compare);
        }
        if rounds_left == 0 {
            return merge_sort(items, scratch, &compare);
        }
        rounds_left -= 1;
        let pivot = pivot(items, &compare);
        let (less, equal) = partition(items, pivot, scratch, &compare);
        if count <= less {
            items = &mut items[..less];
        } else if count <= less + equal {
            return;
        } else {
            items = &mut items[less + equal..];
            count -= less + equal;
        }
    }
}

/// Splits the items by a pivot into those before it, those equal to it, and those after it. Returns
/// the lengths of the first two parts.
fn partition<T: Copy>(
    items: &mut [T],
    pivot: T,
    scratch: &mut Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
) -> (usize, usize) {
    let length = items.len();
    if scratch.len() < 2 * length {
        scratch.resize(2 * length, pivot);
    }
    let (greater_items, equal_items) = scratch.split_at_mut(length);
    let (mut less, mut equal, mut greater) = (0, 0, 0);
    for at in 0..length {
        let item = items[at];
        // Every item is written to two places and stays in at most one. A branch would be
        // unpredictable and wrong half of the time.
        items[less] = item;
        greater_items[greater] = item;
        let order = compare(&item, &pivot);
        less += usize::from(order.is_lt());
        greater += usize::from(order.is_gt());
        if order.is_eq() {
            equal_items[equal] = item;
            equal += 1;
        }
    }
    items[less..less + equal].copy_from_slice(&equal_items[..equal]);
    items[less + equal..].copy_from_slice(&greater_items[..greater]);
    (less, equal)
}

/// Returns an item that is probably near the middle.
fn pivot<T: Copy>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> T {
    let median = |a: T, b: T, c: T| {
        let (low, high) = if compare(&b, &a).is_lt() {
            (b, a)
        } else {
            (a, b)
        };
        if compare(&c, &low).is_lt() {
            low
        } else if compare(&c, &high).is_lt() {
            c
        } else {
            high
        }
    };
    let eighth = items.len() / 8;
    if items.len() < NINTHER_MIN {
        return median(items[eighth], items[4 * eighth], items[7 * eighth]);
    }
    let [a, b, c] = [1, 4, 7].map(|at| {
        let middle = at * eighth;
        let (low, high) = (middle - eighth / 2, middle + eighth / 2);
        median(items[low], items[middle], items[high])
    });
    median(a, b, c)
}

fn insertion_sort<T: Copy>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let item = items[end];
        let mut at = end;
        while at > 0 && compare(&item, &items[at - 1]).is_lt() {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}

/// Sorts stably, with the guarantee of this module. `scratch` grows to the number of items and
/// never shrinks. Always O(n log n) comparisons.
pub(super) fn merge_sort<T: Copy>(
    items: &mut [T],
    scratch: &mut Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    let length = items.len();
    for run in items.chunks_mut(INSERTION_MAX) {
        insertion_sort(run, compare);
    }
    let mut width = INSERTION_MAX;
    while width < length {
        for pair in items.chunks_mut(2 * width) {
            if pair.len() > width {
                merge(pair, width, scratch, compare);
            }
        }
        width *= 2;
    }
}

/// Merges the sorted runs before and after `middle`.
fn merge<T: Copy>(
    items: &mut [T],
    middle: usize,
    scratch: &mut Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    if !compare(&items[middle], &items[middle - 1]).is_lt() {
        // No item of the later run goes before the last item of the earlier one. If both runs keep
        // the order of the groups, their concatenation does, too: the two items at the seam don't
        // contradict the groups, and neither do the items around them.
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(&items[..middle]);
    let (mut early, mut late) = (0, middle);
    for at in 0..items.len() {
        if early == middle {
            // The rest of the later run is already in place.
            return;
        }
        if late < items.len() && compare(&items[late], &scratch[early]).is_lt() {
            items[at] = items[late];
            late += 1;
        } else {
            items[at] = scratch[early];
            early += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares groups of ten. Inside a group the relation is arbitrary but deterministic.
    fn odd_relation(a: &u32, b: &u32) -> Ordering {
        if a / 10 != b / 10 {
            return a.cmp(b);
        }
        let mixed = |low: u32, high: u32| (low * 7 + high * 13) % 3;
        match a.cmp(b) {
            Ordering::Equal => Ordering::Equal,
            Ordering::Less => {
                [Ordering::Less, Ordering::Equal, Ordering::Greater][mixed(a % 10, b % 10) as usize]
            }
            Ordering::Greater => odd_relation(b, a).reverse(),
        }
    }

    /// Reports whether no item after the front is in an earlier group than an item of the front.
    fn keeps_to_groups(front: &[u32], all: &[u32]) -> bool {
        let mut expected: Vec<u32> = all.iter().map(|item| item / 10).collect();
        expected.sort_unstable();
        let mut groups: Vec<u32> = front.iter().map(|item| item / 10).collect();
        groups.sort_unstable();
        groups[..] == expected[..front.len()]
    }

    proptest! {
        #[test]
        fn contradictions_stay_within_their_groups(
            items in prop::collection::vec(0u32..200, 0..300),
            count in 0usize..300,
        ) {
            let count = count.min(items.len());
            let mut selected = items.clone();
            select_first(&mut selected, count, &mut Vec::new(), odd_relation);
            prop_assert!(keeps_to_groups(&selected[..count], &items));

            let mut sorted = items.clone();
            merge_sort(&mut sorted, &mut Vec::new(), &odd_relation);
            for count in 0..=sorted.len() {
                prop_assert!(keeps_to_groups(&sorted[..count], &items));
            }
            let mut rest = items;
            rest.sort_unstable();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, rest);
        }
    }

    #[test]
    fn no_input_takes_quadratic_time() {
        let length = 20_000u32;
        let pipe_organ = |at: u32| if at < length / 2 { at } else { length - at };
        let shapes: [(&str, Vec<u32>); 5] = [
            ("rising", (0..length).collect()),
            ("falling", (0..length).rev().collect()),
            ("pipe organ", (0..length).map(pipe_organ).collect()),
            ("saw", (0..length).map(|at| at % 57).collect()),
            ("constant", vec![1; 20_000]),
        ];
        let directed = |a: &u32, b: &u32| a.cmp(b);
        // Every item beats the next third of a circle, so no pivot is in the middle.
        let round = |a: &u32, b: &u32| match (b + length - a) % length {
            0 => Ordering::Equal,
            distance if distance < length / 3 => Ordering::Less,
            distance if distance > length - length / 3 => Ordering::Greater,
            _ => Ordering::Equal,
        };
        for (name, items) in shapes {
            for count in [1usize, 500, 10_000, 19_999] {
                let comparisons = std::cell::Cell::new(0u64);
                let counted = |order: Ordering| {
                    comparisons.set(comparisons.get() + 1);
                    order
                };
                let mut selected = items.clone();
                select_first(&mut selected, count, &mut Vec::new(), |a, b| {
                    counted(directed(a, b))
                });
                let mut expected = items.clone();
                expected.sort_unstable();
                selected[..count].sort_unstable();
                assert_eq!(selected[..count], expected[..count], "{name} {count}");
                select_first(&mut items.clone(), count, &mut Vec::new(), |a, b| {
                    counted(round(a, b))
                });
                assert!(comparisons.get() < 60 * u64::from(length), "{name} {count}");
            }
        }
    }

    #[test]
    fn merge_sort_is_stable() {
        let mut items: Vec<(u32, u32)> = (0..500).map(|at| (at * 7919 % 13, at)).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        merge_sort(
            &mut items,
            &mut Vec::new(),
            &|a: &(u32, u32), b: &(u32, u32)| a.0.cmp(&b.0),
        );
        assert_eq!(items, expected);
    }
}
