//! Counters and histograms under their Kubernetes names, and their text form.
//!
//! Hot paths keep their own counts (the work queue has its metrics per key). This module has the
//! plain shared counters, and [`Family`], the form in which every metric is returned for a text
//! exposition.

use std::fmt::Write as _;

use podstorm_objects::Str;

use crate::primitives::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        // Relaxed: a statistic that nothing else is ordered by.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number now.
    pub fn value(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed)
    }
}

/// Observations counted in fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One per bound, and one for values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which are inclusive and ascending.
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

    /// Counts several observations. Readers see their sum at once. O(number of bounds) each.
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
        // Relaxed, all: statistics that nothing else is ordered by.
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
        // Relaxed: a statistic that nothing else is ordered by.
        self.counts[bucket].fetch_add(observations, Ordering::Relaxed);
    }

    /// The current counts, read one after the other.
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
    /// Inclusive upper bounds, ascending.
    pub bounds: Vec<f64>,
    /// Observations per bucket, not cumulative. One more than bounds, for values above all bounds.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl HistogramSnapshot {
    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// All series of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The upstream name.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// The type of the values.
    pub kind: Kind,
    /// The series, each with its labels.
    pub series: Vec<Series>,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

impl Kind {
    /// The type's name in the text exposition.
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
    /// Label names and values.
    pub labels: Vec<(&'static str, Str)>,
    /// The value.
    pub value: Value,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(HistogramSnapshot),
}

impl Family {
    /// A family of one series.
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

    /// Appends the family in the Prometheus text format.
    pub fn write_text(&self, out: &mut String) {
        // Writing to a `String` cannot fail, so the results are dropped.
        let _ = writeln!(out, "# HELP {} {}", self.name, self.help);
        let _ = writeln!(out, "# TYPE {} {}", self.name, self.kind.as_str());
        for series in &self.series {
            let labels = |extra: Option<(&str, String)>| label_text(&series.labels, extra);
            match &series.value {
                Value::Number(number) => {
                    let _ = writeln!(out, "{}{} {number}", self.name, labels(None));
                }
                Value::Histogram(histogram) => {
                    let mut total = 0;
                    let bounds = histogram.bounds.iter().map(f64::to_string);
                    let bounds = bounds.chain(["+Inf".to_owned()]);
                    for (bound, count) in bounds.zip(&histogram.counts) {
                        total += count;
                        let labels = labels(Some(("le", bound)));
                        let _ = writeln!(out, "{}_bucket{labels} {total}", self.name);
                    }
                    let labels = labels(None);
                    let _ = writeln!(out, "{}_sum{labels} {}", self.name, histogram.sum);
                    let _ = writeln!(out, "{}_count{labels} {total}", self.name);
                }
            }
        }
    }
}

fn label_text(labels: &[(&'static str, Str)], extra: Option<(&str, String)>) -> String {
    let labels = labels
        .iter()
        .map(|(name, value)| (*name, value.to_string()))
        .chain(extra);
    let mut text = String::new();
    for (name, value) in labels {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(
            text,
            "{}{name}=\"{value}\"",
            if text.is_empty() { "{" } else { "," }
        );
    }
    if !text.is_empty() {
        text.push('}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn label_values_are_escaped() {
        let labels = [("name", Str::from("a\"b\\c"))];
        assert_eq!(label_text(&labels, None), r#"{name="a\"b\\c"}"#);
    }
}
