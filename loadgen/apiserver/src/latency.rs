//! Latencies: distributions of durations, and seeded samplers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Latency {
    /// A constant duration.
    Constant(i64),
    /// A uniform distribution between two durations.
    Uniform(i64, i64),
    /// A log-normal distribution with this median and 99th percentile.
    Lognormal {
        /// The median.
        p50: i64,
        /// The 99th percentile.
        p99: i64,
    },
}

impl Latency {
    /// Zero latency.
    pub const ZERO: Latency = Latency::Constant(0);

    /// Reports whether every draw is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Latency::Constant(0) | Latency::Uniform(0, 0))
    }
}

/// A sampler of one distribution. Equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub struct LatencySampler {
    latency: Latency,
    random: fastrand::Rng,
    /// The mean of the logarithm in a log-normal distribution. `sigma` is the standard deviation.
    mu: f64,
    sigma: f64,
}

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

impl LatencySampler {
    /// Creates a sampler of a distribution.
    pub fn new(latency: Latency, seed: u64) -> LatencySampler {
        LatencySampler::with_random(latency, fastrand::Rng::with_seed(seed))
    }

    /// Changes the distribution. The random number generator keeps its state.
    pub fn set_latency(&mut self, latency: Latency) {
        *self = LatencySampler::with_random(latency, self.random.clone());
    }

    fn with_random(latency: Latency, random: fastrand::Rng) -> LatencySampler {
        let (mu, sigma) = match latency {
            Latency::Lognormal { p50, p99 } if p50 > 0 && p99 > p50 => {
                let (mu, high) = ((p50 as f64).ln(), (p99 as f64).ln());
                (mu, (high - mu) / Z99)
            }
            Latency::Lognormal { p50, .. } => ((p50.max(1) as f64).ln(), 0.0),
            _ => (0.0, 0.0),
        };
        LatencySampler {
            latency,
            random,
            mu,
            sigma,
        }
    }

    /// Reports whether every draw is zero.
    pub fn is_zero(&self) -> bool {
        self.latency.is_zero()
    }

    /// Draws a duration in nanoseconds, never negative. Uses at most two random numbers.
    pub fn draw_ns(&mut self) -> i64 {
        match self.latency {
            Latency::Constant(ns) => ns.max(0),
            Latency::Uniform(low, high) if low < high => self.random.i64(low..=high).max(0),
            Latency::Uniform(low, _) => low.max(0),
            Latency::Lognormal { p50, .. } if p50 <= 0 => 0,
            Latency::Lognormal { .. } => {
                // Rounded, because a median of 8 would otherwise give 7.99…; the cast saturates.
                (self.mu + self.sigma * self.normal()).exp().round() as i64
            }
        }
    }

    /// Draws a standard normal number with the Box-Muller transform.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.f64()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(latency: Latency, count: usize) -> Vec<i64> {
        let mut sampler = LatencySampler::new(latency, 5);
        let mut all: Vec<i64> = (0..count).map(|_| sampler.draw_ns()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn constants_and_ranges_are_respected() {
        assert_eq!(sorted(Latency::Constant(7), 3), [7, 7, 7]);
        let all = sorted(Latency::Uniform(10, 20), 1000);
        assert_eq!((all[0], all[999]), (10, 20));
        assert_eq!(sorted(Latency::Uniform(5, 5), 2), [5, 5]);
    }

    #[test]
    fn a_lognormal_has_its_median_and_99th_percentile() {
        let all = sorted(
            Latency::Lognormal {
                p50: 3_000_000,
                p99: 40_000_000,
            },
            100_000,
        );
        let near = |value: i64, wanted: f64| (value as f64 / wanted - 1.0).abs() < 0.05;
        assert!(near(all[50_000], 3e6), "{}", all[50_000]);
        assert!(near(all[99_000], 4e7), "{}", all[99_000]);
        assert_eq!(sorted(Latency::Lognormal { p50: 8, p99: 8 }, 2), [8, 8]);
    }

    #[test]
    fn equal_seeds_draw_equal_sequences() {
        let latency = Latency::Lognormal {
            p50: 1000,
            p99: 9000,
        };
        let mut a = LatencySampler::new(latency, 1);
        let mut b = LatencySampler::new(latency, 1);
        assert!((0..100).all(|_| a.draw_ns() == b.draw_ns()));
    }
}
