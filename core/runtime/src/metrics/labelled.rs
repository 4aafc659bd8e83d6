//! Metrics whose series are created when they are first counted.
//!
//! The series form a list that only grows. Each link in the list is written once.

use std::borrow::Cow;

use podstorm_objects::Str;

use super::{Counter, Family, Metric, Series};
use crate::primitives::OnceLock;

/// The maximum number of series of a [`Labelled`] metric, besides `other`. Series are never
/// removed.
const SERIES_MAX: usize = 100;

/// The value of every label in the series that counts everything beyond the first [`SERIES_MAX`]
/// series.
const OTHER: &str = "other";

/// A metric with `N` labels. As in upstream, a series exists only once it has been counted. There
/// are at most 100 series. Further combinations of label values share one more series, which has
/// the value `other` for each label.
///
/// Finding and changing an existing series takes no lock. Threads may share a series.
#[derive(Debug)]
pub struct Labelled<T, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    new: fn() -> T,
    first: Place<T, N>,
}

/// The place of a series in the list, occupied or not. Written once.
type Place<T, const N: usize> = OnceLock<Box<OneSeries<T, N>>>;

#[derive(Debug)]
struct OneSeries<T, const N: usize> {
    values: [Cow<'static, str>; N],
    value: T,
    next: Place<T, N>,
}

impl<T: Metric, const N: usize> Labelled<T, N> {
    /// Creates a metric without series. `new` creates the value of each series.
    pub fn new(
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        new: fn() -> T,
    ) -> Self {
        Labelled {
            name,
            help,
            labels,
            new,
            first: Place::new(),
        }
    }

    /// Returns the series with these label values. Allocates if the series is new. O(series).
    pub fn series(&self, values: [Cow<'static, str>; N]) -> &T {
        let add = |values: &[Cow<'static, str>; N]| {
            Box::new(OneSeries {
                values: values.clone(),
                value: (self.new)(),
                next: Place::new(),
            })
        };
        let mut place = &self.first;
        for _ in 0..SERIES_MAX {
            let series = place.get_or_init(|| add(&values));
            if series.values == values {
                return &series.value;
            }
            place = &series.next;
        }
        let others = [const { Cow::Borrowed(OTHER) }; N];
        &place.get_or_init(|| add(&others)).value
    }

    /// Returns all series with their current values, sorted by label values.
    pub fn family(&self) -> Family {
        let first = self.first.get();
        let mut all: Vec<_> = std::iter::successors(first, |last| last.next.get()).collect();
        all.sort_unstable_by_key(|series| &series.values);
        let series = all.into_iter().map(|series| Series {
            labels: (self.labels.into_iter())
                .zip(series.values.iter().map(|value| Str::from(&**value)))
                .collect(),
            value: series.value.read(),
        });
        Family {
            name: self.name,
            help: self.help,
            kind: T::KIND,
            series: series.collect(),
        }
    }
}

impl<const N: usize> Labelled<Counter, N> {
    /// Adds `count` to the series with these label values, unless it is 0. See
    /// [`Labelled::series`].
    pub fn add(&self, values: [&'static str; N], count: u64) {
        if count > 0 {
            self.series(values.map(Cow::Borrowed)).add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Histogram, Value, text_of};
    use super::*;

    #[test]
    fn a_labelled_metric_has_the_counted_series() {
        let counted = Labelled::new("a_total", "A.", ["of", "by"], Counter::default);
        counted.add(["x", "y"], 0);
        assert_eq!(counted.family().series, []);
        counted.add(["x", "z"], 2);
        counted
            .series(["x".into(), "z".to_owned().into()])
            .increment();
        counted.add(["x", "y"], 1);
        let timed = Labelled::new("b", "B.", ["of"], || Histogram::new(&[1.0]));
        timed.series(["x".into()]).observe(0.5);
        let text = text_of(&[counted.family(), timed.family()]);
        for line in [
            "# TYPE a_total counter",
            "a_total{of=\"x\",by=\"y\"} 1",
            "a_total{of=\"x\",by=\"z\"} 3",
            "# TYPE b histogram",
            "b_bucket{of=\"x\",le=\"1\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn a_labelled_metric_counts_excess_series_as_other() {
        let counted = Labelled::new("a_total", "A.", ["of", "by"], Counter::default);
        let values = |number: usize| ["x".into(), format!("{number:03}").into()];
        for number in 0..SERIES_MAX + 3 {
            counted.series(values(number)).increment();
        }
        counted.series(values(SERIES_MAX - 1)).add(7);
        let series = counted.family().series;
        assert_eq!(series.len(), SERIES_MAX + 1);
        let text = text_of(&[counted.family()]);
        for line in [
            "a_total{of=\"other\",by=\"other\"} 3",
            "a_total{of=\"x\",by=\"000\"} 1",
            "a_total{of=\"x\",by=\"099\"} 8",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn threads_counting_the_same_series_lose_nothing() {
        let counted = Labelled::new("a_total", "A.", ["of"], Counter::default);
        let names = ["a", "b", "c", "d", "e"];
        std::thread::scope(|scope| {
            for first in 0..names.len() {
                let counted = &counted;
                scope.spawn(move || {
                    for at in 0..1_000 {
                        counted.add([names[(first + at) % names.len()]], 1);
                    }
                });
            }
        });
        let series = counted.family().series;
        assert_eq!(series.len(), names.len());
        for (one, name) in series.iter().zip(names) {
            assert_eq!(one.labels, [("of", Str::from(name))]);
            assert_eq!(one.value, Value::Number(1_000.0));
        }
    }
}
