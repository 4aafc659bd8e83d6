//! What pairs of timings say about the ratio of two programs. Pure.
//!
//! Each pair is measured back to back, so that what the machine was doing meanwhile touches both; the ratio
//! within a pair stands, the times don't.

/// How often the pairs are drawn anew for the interval.
const DRAWS: usize = 10_000;
/// The seed of the draws: the same pairs always give the same interval.
const SEED: u64 = 0x0070_6169_7273;
/// Pairs below which nothing is concluded.
pub const PAIRS_MIN: usize = 3;

/// The ratio of new to old time, by pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the ratios.
    pub ratio: f64,
    /// Lower end of the 95 % bootstrap interval of the median.
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
    /// From `(old, new)` times of each pair, in any unit; O(pairs) per draw.
    ///
    /// Returns none when there are fewer than [`PAIRS_MIN`] pairs, or one holds no positive time.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Estimate> {
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        let all_times = pairs.iter().all(|&(old, new)| is_time(old) && is_time(new));
        if pairs.len() < PAIRS_MIN || !all_times {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(old, new)| (new / old).ln()).collect();
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut drawn = vec![0.0; logs.len()];
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                drawn.fill_with(|| logs[random.usize(..logs.len())]);
                median(&mut drawn)
            })
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        let tail = DRAWS / 40;
        Some(Estimate {
            ratio: median(&mut logs.clone()).exp(),
            low: medians[tail].exp(),
            high: medians[DRAWS - 1 - tail].exp(),
            pairs: logs.len(),
            slower: logs.iter().filter(|log| **log > 0.0).count(),
            faster: logs.iter().filter(|log| **log < 0.0).count(),
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

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ratio_is_found_through_any_drift() {
        let drift = [1.0, 3.0, 0.5, 10.0, 2.0];
        let pairs = drift.map(|drift| (drift, drift * 1.1));
        let estimate = Estimate::of(&pairs).unwrap();
        assert!((estimate.ratio - 1.1).abs() < 1e-9);
        assert!(estimate.low > 1.09 && estimate.high < 1.11, "{estimate:?}");
        assert_eq!(estimate.conclusion(), Conclusion::Slower);
    }

    #[test]
    fn signs_that_disagree_conclude_nothing() {
        let pairs = [(1.0, 0.5), (1.0, 0.6), (1.0, 0.4), (1.0, 1.01), (1.0, 0.5)];
        let estimate = Estimate::of(&pairs).unwrap();
        assert_eq!((estimate.faster, estimate.slower), (4, 1));
        assert_eq!(estimate.conclusion(), Conclusion::NoDifferenceSeen);
    }

    #[test]
    fn less_time_is_faster() {
        let pairs = [(1.0, 0.5), (1.0, 0.6), (1.0, 0.4)];
        let estimate = Estimate::of(&pairs).unwrap();
        assert_eq!(estimate.conclusion(), Conclusion::Faster);
        assert!((estimate.ratio - 0.5).abs() < 1e-9);
    }

    #[test]
    fn two_pairs_or_no_times_are_too_little() {
        assert_eq!(Estimate::of(&[(1.0, 2.0), (1.0, 2.0)]), None);
        assert_eq!(Estimate::of(&[(0.0, 2.0), (1.0, 2.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn the_same_pairs_give_the_same_interval() {
        let pairs = [(1.0, 1.2), (1.0, 0.9), (1.0, 1.1), (1.0, 1.3)];
        assert_eq!(Estimate::of(&pairs), Estimate::of(&pairs));
    }
}
