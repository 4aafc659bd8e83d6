//! What pairs of timings say about the ratio of two programs. Pure.
//!
//! Each pair is measured back to back, so that what the machine was doing meanwhile touches both; the ratio
//! within a pair stands, the times don't.

/// Pairs below which nothing can be concluded: if the two programs took the same time, all of six pairs would
/// agree by chance in 2 of 2^6 cases (3 %), all of five in 2 of 2^5 (6 %).
pub const PAIRS_MIN: usize = 6;
/// Probability that the interval may miss at either end.
const TAIL: f64 = 0.025;

/// The ratio of new to old time, by pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the old times, in their unit.
    pub old: f64,
    /// Median of the new times.
    pub new: f64,
    /// Median of the pairs' ratios.
    pub ratio: f64,
    /// Lower end of an interval that holds the median ratio with a probability of 95 % or more, however the
    /// ratios are distributed: one of the ratios.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs.
    pub pairs: usize,
    /// Pairs in which the new one took longer.
    pub slower: usize,
    /// Pairs in which it took less.
    pub faster: usize,
}

/// What can be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The interval lies above 1 and every pair agrees.
    Slower,
    /// The interval lies below 1 and every pair agrees.
    Faster,
    /// Neither.
    NoDifferenceSeen,
}

impl Estimate {
    /// From `(old, new)` times of each pair, in any unit; O(pairs log pairs).
    ///
    /// Returns none when there are fewer than [`PAIRS_MIN`] pairs, or one holds no positive time.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Estimate> {
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        let all_times = pairs.iter().all(|&(old, new)| is_time(old) && is_time(new));
        let beyond = beyond(pairs.len()).filter(|_| all_times)?;
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let ratios = sorted(|(old, new)| new / old);
        Some(Estimate {
            old: median(&sorted(|(old, _)| *old)),
            new: median(&sorted(|(_, new)| *new)),
            ratio: median(&ratios),
            low: ratios[beyond],
            high: ratios[ratios.len() - 1 - beyond],
            pairs: ratios.len(),
            slower: ratios.iter().filter(|ratio| **ratio > 1.0).count(),
            faster: ratios.iter().filter(|ratio| **ratio < 1.0).count(),
        })
    }

    /// What it comes to: a difference only if the interval excludes 1 and the signs agree.
    pub fn conclusion(&self) -> Conclusion {
        if self.low > 1.0 && self.slower == self.pairs {
            Conclusion::Slower
        } else if self.high < 1.0 && self.faster == self.pairs {
            Conclusion::Faster
        } else {
            Conclusion::NoDifferenceSeen
        }
    }
}

/// How many of so many sorted values lie beyond either end of the interval; none when no interval is wide
/// enough. Each value is below the median with probability 1/2, so how many are is binomial.
fn beyond(values: usize) -> Option<usize> {
    let mut exactly = 0.5_f64.powi(i32::try_from(values).ok()?);
    let (mut at_most, mut below) = (exactly, 0);
    while at_most <= TAIL {
        below += 1;
        exactly *= (values + 1 - below) as f64 / below as f64;
        at_most += exactly;
    }
    below.checked_sub(1)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ratio_is_found_through_any_drift() {
        let drift = [1.0, 3.0, 0.5, 10.0, 2.0, 4.0];
        let pairs = drift.map(|drift| (drift, drift * 1.1));
        let estimate = Estimate::of(&pairs).unwrap();
        assert!((estimate.ratio - 1.1).abs() < 1e-9);
        assert!(estimate.low > 1.09 && estimate.high < 1.11, "{estimate:?}");
        assert_eq!(estimate.conclusion(), Conclusion::Slower);
        assert_eq!(estimate.old, 2.5);
        assert!((estimate.new - 2.75).abs() < 1e-9);
    }

    #[test]
    fn signs_that_disagree_conclude_nothing() {
        let pairs = [0.5, 0.6, 0.4, 1.01, 0.5, 0.5, 0.6, 0.4, 0.7].map(|new| (1.0, new));
        let estimate = Estimate::of(&pairs).unwrap();
        assert_eq!((estimate.faster, estimate.slower), (8, 1));
        assert!(estimate.high < 1.0);
        assert_eq!(estimate.conclusion(), Conclusion::NoDifferenceSeen);
    }

    #[test]
    fn less_time_is_faster() {
        let pairs = [0.5, 0.6, 0.4, 0.5, 0.5, 0.5].map(|new| (1.0, new));
        let estimate = Estimate::of(&pairs).unwrap();
        assert_eq!(estimate.conclusion(), Conclusion::Faster);
        assert!((estimate.ratio - 0.5).abs() < 1e-9);
    }

    #[test]
    fn five_pairs_or_no_times_are_too_little() {
        assert_eq!(Estimate::of(&[(1.0, 2.0); 5]), None);
        assert!(Estimate::of(&[(1.0, 2.0); PAIRS_MIN]).is_some());
        let mut pairs = [(1.0, 2.0); 9];
        pairs[3].0 = 0.0;
        assert_eq!(Estimate::of(&pairs), None);
    }

    #[test]
    fn ends_of_the_interval_are_those_of_the_sign_test() {
        // From tables of the binomial distribution with p = 1/2.
        let expected = [
            (0, None),
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
        ];
        for (values, count) in expected.into_iter().chain([(12, Some(2)), (20, Some(5))]) {
            assert_eq!(beyond(values), count, "{values}");
        }
        assert_eq!(beyond(100), Some(39));
    }
}
