//! Counters and histograms under their Kubernetes names, and their text format.
//!
//! Hot paths have separate counts: the work queue has its metrics per key. This module has plain
//! shared counters; [`Labelled`] metrics, which count without a lock; and [`Family`], the form in
//! which every metric is exported.

mod labelled;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use podstorm_objects::Str;

use crate::primitives::{AtomicU64, Ordering};

pub use labelled::Labelled;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one to the counter.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count` to the counter.
    #[inline]
    pub fn add(&self, count: u64) {
        // Relaxed: a statistic that orders nothing else.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the current value of the counter.
    pub fn value(&self) -> u64 {
        // Relaxed: a statistic that orders nothing else.
        self.0.load(Ordering::Relaxed)
    }
}

/// Observations counted in fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// The number of observations in each bucket. The last bucket is for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum of all observations, as the bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram with these upper bounds, which are inclusive and ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted());
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram {
            bounds,
            counts,
            sum: AtomicU64::new(0f64.to_bits()),
        }
    }

    /// Counts one observation. O(number of bounds).
    pub fn observe(&self, value: f64) {
        self.observe_all([value]);
    }

    /// Counts several observations. Readers see the sum change in one step. O(number of bounds) per
    /// observation.
    pub fn observe_all(&self, values: impl IntoIterator<Item = f64>) {
        let (mut bucket, mut run, mut added) = (0, 0, 0.0);
        for value in values {
            let bound = self.bounds.iter().position(|&bound| value <= bound);
            let place = bound.unwrap_or(self.bounds.len());
            // Consecutive values are often in one bucket, and one atomic addition costs more than
            // counting them.
            if place != bucket {
                self.count(bucket, run);
                (bucket, run) = (place, 0);
            }
            run += 1;
            added += value;
        }
        if run == 0 {
            return;
        }
        self.count(bucket, run);
        // Relaxed, all: statistics that order nothing else.
        let mut seen = self.sum.load(Ordering::Relaxed);
        loop {
            let sum = (f64::from_bits(seen) + added).to_bits();
            match self
                .sum
                .compare_exchange_weak(seen, sum, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }

    fn count(&self, bucket: usize, observations: u64) {
        // Relaxed: a statistic that orders nothing else.
        self.counts[bucket].fetch_add(observations, Ordering::Relaxed);
    }

    /// Returns the current counts, read one after the other.
    pub fn snapshot(&self) -> HistogramSnapshot {
        // Relaxed, both: as in `observe`.
        HistogramSnapshot {
            bounds: self.bounds.to_vec(),
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
        }
    }
}

/// The state of a histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// The upper bounds, inclusive and ascending.
    pub bounds: Vec<f64>,
    /// The number of observations in each bucket, not cumulative. Has one more element than
    /// `bounds`, for the values above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all observations.
    pub sum: f64,
}

impl HistogramSnapshot {
    /// Returns the total number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A value that can be a series of a [`Labelled`] metric.
pub trait Metric {
    /// The type of the metric.
    const KIND: Kind;

    /// Returns the current value.
    fn read(&self) -> Value;
}

impl Metric for Counter {
    const KIND: Kind = Kind::Counter;

    fn read(&self) -> Value {
        Value::Number(self.value() as f64)
    }
}

impl Metric for Histogram {
    const KIND: Kind = Kind::Histogram;

    fn read(&self) -> Value {
        Value::Histogram(self.snapshot())
    }
}

/// All series of one metric, with its name and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name of the metric in upstream.
    pub name: &'static str,
    /// The help text: one sentence.
    pub help: &'static str,
    /// The type of the metric.
    pub kind: Kind,
    /// The series, each with its labels.
    pub series: Vec<Series>,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Observations that are counted in buckets.
    Histogram,
}

impl Kind {
    /// Returns the type's name in the text exposition.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The names and values of the labels.
    pub labels: Vec<(&'static str, Str)>,
    /// The value of the series.
    pub value: Value,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a counter or gauge.
    Number(f64),
    /// The value of a histogram.
    Histogram(HistogramSnapshot),
}

impl Value {
    /// Adds a value of the same type. Histograms must have the same bounds.
    fn add(&mut self, more: &Value) {
        match (self, more) {
            (Value::Number(total), Value::Number(more)) => *total += more,
            (Value::Histogram(total), Value::Histogram(more)) => {
                total.sum += more.sum;
                let counts = total.counts.iter_mut().zip(&more.counts);
                counts.for_each(|(sum, more)| *sum += more);
            }
            _ => {}
        }
    }
}

impl Family {
    /// Returns a family with a single series.
    pub fn single(
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: Vec<(&'static str, Str)>,
        value: Value,
    ) -> Self {
        Family {
            name,
            help,
            kind,
            series: vec![Series { labels, value }],
        }
    }

    /// Appends the family in the Prometheus text format, spelled exactly as Kubernetes' components
    /// spell it. A library for the format would name counters and write bucket bounds differently,
    /// and existing queries would not match.
    pub fn write_text(&self, out: &mut String) {
        let (name, help, kind) = (self.name, self.help, self.kind.as_str());
        // Writing to a `String` cannot fail, so the results are ignored.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for series in &self.series {
            let labels = |bound: Option<f64>| label_text(&series.labels, bound);
            match &series.value {
                Value::Number(number) => {
                    let _ = writeln!(out, "{name}{} {}", labels(None), float(*number));
                }
                Value::Histogram(histogram) => {
                    for (bound, total) in buckets(histogram) {
                        let _ = writeln!(out, "{name}_bucket{} {total}", labels(Some(bound)));
                    }
                    let (labels, sum) = (labels(None), float(histogram.sum));
                    let _ = writeln!(out, "{name}_sum{labels} {sum}");
                    let _ = writeln!(out, "{name}_count{labels} {}", histogram.count());
                }
            }
        }
    }
}

/// Merges the families with equal names and sorts the result by name. Adds up the values of series
/// with equal labels.
pub fn merged(families: impl IntoIterator<Item = Family>) -> Vec<Family> {
    let mut all: BTreeMap<&'static str, Family> = BTreeMap::new();
    for family in families {
        let Some(known) = all.get_mut(family.name) else {
            all.insert(family.name, family);
            continue;
        };
        for series in family.series {
            let mut same = known.series.iter_mut();
            match same.find(|one| one.labels == series.labels) {
                None => known.series.push(series),
                Some(one) => one.value.add(&series.value),
            }
        }
    }
    all.into_values().collect()
}

/// Returns these families in the Prometheus text format; see [`Family::write_text`].
pub fn text_of(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        family.write_text(&mut text);
    }
    text
}

fn label_text(labels: &[(&'static str, Str)], bound: Option<f64>) -> String {
    let escaped = |value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        value.replace('\n', "\\n")
    };
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let bound = bound.map(|bound| format!("le=\"{}\"", float(bound)));
    let all: Vec<String> = labels.chain(bound).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", all.join(",")),
    }
}

/// Returns the buckets as pairs of inclusive bound and cumulative count; the last bound is
/// infinite. Like upstream, computes each bound from the previous one, so the fourth bound of the
/// queue's histograms is 9.999999999999999e-06. A query must name the bucket in that spelling.
fn buckets(histogram: &HistogramSnapshot) -> Vec<(f64, u64)> {
    let bounds = &histogram.bounds;
    let factor = match bounds[..] {
        [first, second, ..] => (second / first).round(),
        _ => 1.0,
    };
    let mut next = bounds.first().copied().unwrap_or(0.0);
    let mut total = 0;
    let mut buckets = Vec::with_capacity(bounds.len() + 1);
    for (&bound, count) in bounds.iter().chain([&f64::INFINITY]).zip(&histogram.counts) {
        total += count;
        let is_next = (next / bound - 1.0).abs() < 1e-9;
        buckets.push((if is_next { next } else { bound }, total));
        next *= factor;
    }
    buckets
}

/// Formats a number as Go does in the text format: in the shortest form, with a two-digit exponent
/// if the number is very small or very large.
fn float(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    if exponent
        .parse()
        .is_ok_and(|power: i32| (-4..21).contains(&power))
    {
        return value.to_string();
    }
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_one_name_merge_and_equal_labels_add_up() {
        let number = |name, label: &str, number| {
            let labels = vec![("name", Str::from(label))];
            Family::single(name, "", Kind::Counter, labels, Value::Number(number))
        };
        let histogram = |value| {
            let histogram = Histogram::new(&[1.0]);
            histogram.observe(value);
            let value = Value::Histogram(histogram.snapshot());
            Family::single("c", "", Kind::Histogram, Vec::new(), value)
        };
        let all = merged([
            number("b", "x", 1.0),
            histogram(0.5),
            number("a", "x", 2.0),
            number("b", "y", 4.0),
            number("b", "x", 8.0),
            histogram(2.0),
        ]);
        let names: Vec<&str> = all.iter().map(|family| family.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let text = text_of(&all);
        for line in [
            "a{name=\"x\"} 2",
            "b{name=\"x\"} 9",
            "b{name=\"y\"} 4",
            "c_sum 2.5",
            "c_count 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn bounds_are_inclusive_and_the_rest_is_counted_too() {
        let histogram = Histogram::new(&[0.25, 0.5, 1.0, 2.0, 4.0, 8.0]);
        for value in [-1.0, 0.25, 0.26, 8.0, 9.0] {
            histogram.observe(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.counts, [2, 1, 0, 0, 0, 1, 1]);
        assert_eq!(snapshot.count(), 5);
        assert!((snapshot.sum - 16.51).abs() < 1e-9);
    }

    fn families() -> Vec<Family> {
        let bounds: Vec<f64> = (0..10).map(|power| 10f64.powi(power - 8)).collect();
        let mut counts = vec![0; 11];
        (counts[3], counts[10]) = (5, 2);
        vec![
            Family {
                name: "workqueue_queue_duration_seconds",
                help: "Seconds.",
                kind: Kind::Histogram,
                series: vec![Series {
                    labels: vec![("name", "replicaset".into())],
                    value: Value::Histogram(HistogramSnapshot {
                        bounds,
                        counts,
                        sum: 21.5,
                    }),
                }],
            },
            Family::single(
                "workqueue_adds_total",
                "Adds.",
                Kind::Counter,
                vec![("name", "a\"b\\c".into())],
                Value::Number(7.0),
            ),
        ]
    }

    #[test]
    fn bounds_are_spelled_as_upstream_spells_them() {
        let mut text = String::new();
        families()
            .iter()
            .for_each(|family| family.write_text(&mut text));
        for line in [
            "# TYPE workqueue_queue_duration_seconds histogram",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-08\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-06\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-06\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-05\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"0.001\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"10\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"+Inf\"} 7",
            "workqueue_queue_duration_seconds_sum{name=\"replicaset\"} 21.5",
            "workqueue_queue_duration_seconds_count{name=\"replicaset\"} 7",
            "# TYPE workqueue_adds_total counter",
            "workqueue_adds_total{name=\"a\\\"b\\\\c\"} 7",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "missing {line} in\n{text}"
            );
        }
    }

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e21, "1e+21"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
