//! Tests whether two sets of values differ by more than chance, with the two-sided Mann-Whitney U
//! test.
//!
//! The values of both sides are ranked together; equal values get their mean rank. For up to 60
//! values, the p-value is exact: the share of all divisions of the ranks between the sides whose
//! rank sum is at least as far from its expectation as the observed one. For more values, it comes
//! from the normal approximation with corrections for ties and continuity.

/// The maximum number of values for which every division of the ranks is counted.
const EXACT_MAX: usize = 60;

/// A difference with a p-value below this counts as significant.
pub const SIGNIFICANT: f64 = 0.05;

/// Returns the p-value of two sets of values; `None` if a side is empty.
///
/// For up to 60 values, the time is proportional to the fourth power of their number.
pub fn p_value(base: &[f64], new: &[f64]) -> Option<f64> {
    if base.is_empty() || new.is_empty() {
        return None;
    }
    let (ranks, ties) = doubled_ranks(base, new);
    let sum: usize = ranks[..base.len()].iter().sum();
    let total = base.len() + new.len();
    // Twice the expected sum of the base's doubled ranks, so that it is an integer.
    let expected = 2 * base.len() * (total + 1);
    let distance = (2 * sum).abs_diff(expected);
    if total <= EXACT_MAX {
        Some(exact(&ranks, base.len(), expected, distance))
    } else {
        Some(normal(base.len(), new.len(), ties, distance))
    }
}

/// Returns the smallest p-value that two sets of these sizes can have.
pub fn smallest_p_value(base: usize, new: usize) -> f64 {
    let mut ways = 1.0;
    for step in 1..=base {
        ways *= (new + step) as f64 / step as f64;
    }
    (2.0 / ways).min(1.0)
}

/// Returns twice the rank of each value, the values of the base first, and the sum of t³ - t over
/// the groups of t equal values.
fn doubled_ranks(base: &[f64], new: &[f64]) -> (Vec<usize>, f64) {
    let values: Vec<f64> = base.iter().chain(new).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut ties = 0.0;
    let mut from = 0;
    while from < order.len() {
        let same = |at: &usize| values[*at] == values[order[from]];
        let to = from
            + order[from..]
                .iter()
                .take_while(|at| same(at))
                .count()
                .max(1);
        for at in &order[from..to] {
            // Twice the mean of the ranks `from + 1` to `to`.
            ranks[*at] = from + 1 + to;
        }
        let equal = (to - from) as f64;
        ties += equal.powi(3) - equal;
        from = to;
    }
    (ranks, ties)
}

/// Returns the p-value by counting the ways to choose `size` of the ranks, by rank sum.
fn exact(ranks: &[usize], size: usize, expected: usize, distance: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0_f64; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for chosen in (1..=size).rev() {
            for sum in (rank..=most).rev() {
                let more = ways[chosen - 1][sum - rank];
                ways[chosen][sum] += more;
            }
        }
    }
    let all: f64 = ways[size].iter().sum();
    let as_far = |sum: usize| (2 * sum).abs_diff(expected) >= distance;
    let far: f64 = (0..=most)
        .filter(|sum| as_far(*sum))
        .map(|sum| ways[size][sum])
        .sum();
    (far / all).min(1.0)
}

fn normal(base: usize, new: usize, ties: f64, distance: usize) -> f64 {
    let (n, m) = (base as f64, new as f64);
    let total = n + m;
    let variance = n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    // `distance` is four times the distance of the rank sum; half a rank is the continuity
    // correction.
    let z = ((distance as f64 / 4.0 - 0.5).max(0.0)) / variance.sqrt();
    (2.0 * upper_tail(z)).min(1.0)
}

/// Returns the share of a normal distribution above a non-negative `z`, with an error below 1e-7
/// (Abramowitz and Stegun 26.2.17).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let terms = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let sum: f64 = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

/// Returns the median; the mean of the middle two for an even number of values. `None` without
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-6, "{value}, not {wanted}");
    }

    /// Computed by hand: the share of all divisions that are at least as far from the middle.
    #[test]
    fn small_sets_are_exact() {
        let apart = |n: usize| {
            let base: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let new: Vec<f64> = (0..n).map(|i| 100.0 + i as f64).collect();
            p_value(&base, &new).unwrap()
        };
        assert_near(apart(1), 1.0);
        assert_near(apart(2), 2.0 / 6.0);
        assert_near(apart(3), 2.0 / 20.0);
        assert_near(apart(4), 2.0 / 70.0);
        assert_near(smallest_p_value(4, 4), 2.0 / 70.0);
        // Ranks 1, 2, 4 against 3, 5, 6: the sums of at most 7 and of at least 14 are 2 + 2 of 20.
        assert_near(
            p_value(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0]).unwrap(),
            4.0 / 20.0,
        );
    }

    #[test]
    fn equal_values_are_not_significant() {
        assert_near(p_value(&[1.0; 5], &[1.0; 5]).unwrap(), 1.0);
        // Both sums are equally far from the middle, whichever side has the 9.
        let p = p_value(&[1.0, 1.0, 1.0], &[1.0, 1.0, 9.0]).unwrap();
        assert_near(p, 1.0);
        assert_eq!(p_value(&[], &[1.0]), None);
    }

    #[test]
    fn the_approximation_agrees_with_the_exact_value() {
        let base: Vec<f64> = (0..30).map(f64::from).collect();
        let new: Vec<f64> = (0..30).map(|i| f64::from(i) + 7.5).collect();
        let counted = p_value(&base, &new).unwrap();
        let (ranks, ties) = doubled_ranks(&base, &new);
        let sum: usize = ranks[..30].iter().sum();
        let approximated = normal(30, 30, ties, (2 * sum).abs_diff(2 * 30 * 61));
        assert!(
            (counted - approximated).abs() < 0.002,
            "{counted} {approximated}"
        );
        assert!((0.001..0.1).contains(&counted), "{counted}");
        assert_near(2.0 * upper_tail(1.959_964), 0.05);
    }

    #[test]
    fn the_median_of_an_even_number_is_a_mean() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
