//! Converts histograms with many buckets to distributions with few buckets that have round bounds.

use hdrhistogram::Histogram;

use crate::result::Bucket;

/// The number of buckets per decade of a wide distribution…
const PER_DECADE: i32 = 10;

/// …and of a distribution that spans less than two decades.
const PER_DECADE_NARROW: i32 = 40;

/// Converts a distribution in nanoseconds to buckets in seconds. Equal values, including zeros,
/// share one bucket. A span of 13 decades gives at most about 130 buckets, a span of two decades at
/// most 80.
pub(super) fn of_histogram(histogram: &Histogram<u64>) -> Vec<Bucket> {
    if histogram.is_empty() {
        return Vec::new();
    }
    // Here and below, the smallest of several values that the histogram can't distinguish
    // represents all of them.
    let least = |value: u64| histogram.lowest_equivalent(value).max(1);
    let (min, max) = (least(histogram.min()), least(histogram.max()));
    let narrow = max / min < 100;
    let per_decade = if narrow {
        PER_DECADE_NARROW
    } else {
        PER_DECADE
    };
    let first = step_not_below(min as f64, per_decade);
    let last = step_not_below(max as f64, per_decade);
    let mut buckets: Vec<Bucket> = (first..=last)
        .map(|step| Bucket {
            above: bound_ns(step - 1, per_decade) / 1e9,
            up_to: bound_ns(step, per_decade) / 1e9,
            count: 0,
        })
        .collect();
    // Zeros belong to the first bucket.
    if histogram.min() == 0 {
        buckets[0].above = 0.0;
    }
    let mut at = 0;
    for value in histogram.iter_recorded() {
        let ns = least(value.value_iterated_to()) as f64;
        while at + 1 < buckets.len() && ns > bound_ns(first + at as i32, per_decade) {
            at += 1;
        }
        buckets[at].count += value.count_since_last_iteration();
    }
    buckets
}

/// Returns the smallest step whose bound is not below the value.
fn step_not_below(ns: f64, per_decade: i32) -> i32 {
    let near = (ns.log10() * f64::from(per_decade)).round() as i32;
    // The bounds are rounded, so the logarithm may be off by one step.
    (near - 1..=near + 1)
        .find(|step| bound_ns(*step, per_decade) >= ns)
        .unwrap_or(near + 2)
}

/// Returns the bound of a step, rounded to three digits: a round number that is the same on every
/// machine, even if the last bits of their math libraries differ.
fn bound_ns(step: i32, per_decade: i32) -> f64 {
    let (decade, within) = (step.div_euclid(per_decade), step.rem_euclid(per_decade));
    let digits = (10f64.powf(f64::from(within) / f64::from(per_decade)) * 100.0).round();
    digits * 10f64.powi(decade) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values
            .into_iter()
            .for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[track_caller]
    fn assert_sound(buckets: &[Bucket], count: u64) {
        let counted: u64 = buckets.iter().map(|bucket| bucket.count).sum();
        assert_eq!(counted, count);
        assert!(buckets.iter().all(|bucket| bucket.above < bucket.up_to));
        assert!(buckets.windows(2).all(|two| two[0].up_to == two[1].above));
        assert!(buckets.first().is_none_or(|first| first.count > 0));
        assert!(buckets.last().is_none_or(|last| last.count > 0));
    }

    #[test]
    fn every_value_is_within_the_bounds_of_its_bucket() {
        for value in [
            0,
            1,
            2,
            9,
            10,
            11,
            999,
            1_000,
            2_500,
            3_155_000_000,
            86_400_000_000_000,
        ] {
            let buckets = of_histogram(&histogram([value]));
            assert_sound(&buckets, 1);
            let [bucket] = buckets[..] else {
                panic!("{value}: {buckets:?}")
            };
            let seconds = value as f64 / 1e9;
            assert!(bucket.up_to * 1.001 >= seconds, "{value}: {bucket:?}");
            assert!(bucket.above <= seconds, "{value}: {bucket:?}");
        }
    }

    #[test]
    fn narrow_distributions_have_more_buckets_per_decade() {
        let wide = of_histogram(&histogram((0..13).map(|decade| 10u64.pow(decade))));
        assert_sound(&wide, 13);
        assert!(wide.len() <= 131, "{}", wide.len());
        let narrow = of_histogram(&histogram((100..200).map(|ms| ms * 1_000_000)));
        assert_sound(&narrow, 100);
        assert!((12..=14).contains(&narrow.len()), "{}", narrow.len());
        assert!((narrow[0].up_to - 0.1).abs() < 1e-9, "{narrow:?}");
    }
}
