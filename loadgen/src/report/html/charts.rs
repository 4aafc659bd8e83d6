//! Scales, ticks and paths: converts numbers to the parts of an SVG chart and its labels.
//!
//! Coordinates lie in a square with sides of length [`SIDE`], which the page stretches over the
//! chart, with 0 at the top. Labels are positioned beside the drawing in percent, so that text
//! keeps its size on every screen. Shapes have classes instead of colours, so that the page follows
//! the reader's light or dark mode.

use serde::Serialize;
use serde_json::{Value, json};

use crate::report::page::{coordinate, round_step, steps_to};
use crate::result::{Bucket, Quantiles};
use crate::units::{count_for_people, number_for_people, seconds_for_people, three_digits};

/// The width and the height of a drawing.
const SIDE: f64 = 1000.0;

/// The approximate number of ticks on a vertical or a horizontal axis.
const TICKS: f64 = 5.0;
const TICKS_ALONG: f64 = 7.0;

/// A labelled tick on an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Tick {
    /// The position on the axis, in percent from its beginning.
    pub(super) at: f64,
    pub(super) label: String,
}

/// A numeric axis that starts at 0.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Axis {
    pub(super) title: String,
    pub(super) ticks: Vec<Tick>,
    /// The value at the end of the axis.
    #[serde(skip)]
    end: f64,
}

impl Axis {
    /// Returns the coordinate of a value.
    fn place(&self, value: f64) -> f64 {
        if self.end > 0.0 {
            (value / self.end).clamp(0.0, 1.0) * SIDE
        } else {
            0.0
        }
    }

    /// Returns the position of a value in percent of the axis.
    pub(super) fn percent(&self, value: f64) -> f64 {
        self.place(value) / SIDE * 100.0
    }
}

fn ticks(end: f64, step: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
    let count = (end / step + 1e-6).floor() as u32;
    let tick = |number: u32| {
        let value = f64::from(number) * step;
        Tick {
            at: if end > 0.0 { value / end * 100.0 } else { 0.0 },
            label: label(value),
        }
    };
    (0..=count).map(tick).collect()
}

/// Returns an axis that ends at a round number of at least `max`. If `is_whole` is set, its ticks
/// are integers.
pub(super) fn axis(max: f64, is_whole: bool, title: &str) -> Axis {
    let least = if is_whole { 1.0 } else { 0.0 };
    let step = round_step(max, TICKS).max(least);
    let end = steps_to(max, step) * step;
    Axis {
        title: title.to_owned(),
        ticks: ticks(end, step, short_count),
        end,
    }
}

/// Returns the horizontal axis of the charts: time or, if no time passes, the writes to the server.
pub(super) fn along(end: f64, timeless: bool) -> Axis {
    match timeless {
        false => time_axis(end),
        true => Axis {
            title: "writes to the server, all at the same simulated time".to_owned(),
            ticks: ticks(end, round_step(end, TICKS_ALONG).max(1.0), short_count),
            end,
        },
    }
}

/// Returns a time axis that ends with the run.
fn time_axis(end_seconds: f64) -> Axis {
    let units = [
        (1e-6, 1e-3, "µs"),
        (1e-3, 1.0, "ms"),
        (1.0, 300.0, "s"),
        (60.0, 18_000.0, "min"),
        (3_600.0, f64::INFINITY, "h"),
    ];
    let unit = units.iter().find(|(_, below, _)| end_seconds < *below);
    let (unit, _, name) = unit.unwrap_or(&units[4]);
    let end = end_seconds / unit;
    Axis {
        title: format!("time ({name})"),
        ticks: ticks(end, round_step(end, TICKS_ALONG), three_digits),
        end: end_seconds,
    }
}

/// Formats a number briefly: `950`, `1.5k`, `100k`, `2M`.
pub(super) fn short_count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", three_digits(value / 1e6)),
        value if value >= 1e3 => format!("{}k", three_digits(value / 1e3)),
        value => three_digits(value),
    }
}

/// Returns the path of a step function: each value holds until the next.
pub(super) fn steps(x: &Axis, y: &Axis, along: &[f64], values: &[f64]) -> String {
    let mut path = String::new();
    let mut last = None;
    for (at, value) in along.iter().zip(values) {
        let point = (coordinate(x.place(*at)), coordinate(SIDE - y.place(*value)));
        match last {
            None => path.push_str(&format!("M{} {}", point.0, point.1)),
            Some(last) if last == point => {}
            Some((_, level)) if level == point.1 => path.push_str(&format!("H{}", point.0)),
            Some((at, _)) if at == point.0 => path.push_str(&format!("V{}", point.1)),
            Some(_) => path.push_str(&format!("H{}V{}", point.0, point.1)),
        }
        last = Some(point);
    }
    path
}

/// Returns the rate of a counter per unit of `along`, over `intervals` equal intervals: the bounds
/// of the intervals, and the rate from each bound on. Both are empty if no time passes.
pub(super) fn rates(along: &[f64], counter: &[u64], intervals: usize) -> (Vec<f64>, Vec<f64>) {
    let (Some(&end), Some(&first)) = (along.last(), counter.first()) else {
        return (Vec::new(), Vec::new());
    };
    let width = end / intervals as f64;
    if width.is_nan() || width <= 0.0 {
        return (Vec::new(), Vec::new());
    }
    let (mut ends, mut rates) = (vec![0.0], Vec::new());
    let (mut seen, mut before) = (0, first);
    for number in 1..=intervals {
        let until = match number == intervals {
            true => end,
            false => width * number as f64,
        };
        while seen + 1 < along.len() && along[seen + 1] <= until {
            seen += 1;
        }
        rates.push((counter[seen] - before) as f64 / width);
        before = counter[seen];
        ends.push(until);
    }
    // Repeat the last rate, so that it extends to the end.
    rates.push(rates.last().copied().unwrap_or(0.0));
    (ends, rates)
}

/// Returns the chart of a distribution: bars, axes, and marks, which are vertical lines with names.
/// The bounds of the buckets grow by a constant factor, so all bars have the same width and the
/// axis is logarithmic. The name of a mark is placed to its left if there is no space to its right.
/// `None` for fewer than two buckets.
pub(super) fn distribution(buckets: &[Bucket], quantiles: &Quantiles) -> Option<Value> {
    let buckets = &without_gap(buckets)[..];
    if buckets.len() < 2 {
        return None;
    }
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let share = |count: u64| count as f64 / total.max(1) as f64 * 100.0;
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    let y = axis(share(most), false, "% of all");
    let width = SIDE / buckets.len() as f64;
    let bars = (0..).zip(buckets).filter(|(_, bucket)| bucket.count > 0);
    let bars = bars.map(|(number, bucket)| {
        let share = share(bucket.count);
        let height = y.place(share).max(4.0);
        let (count, percent) = (count_for_people(bucket.count), number_for_people(share));
        json!({
            "x": coordinate(f64::from(number) * width + width * 0.06),
            "y": coordinate(SIDE - height),
            "width": coordinate(width * 0.88),
            "height": coordinate(height),
            "title": format!("{}: {count} ({percent} %)", range(bucket)),
        })
    });
    let (p50, p90, p99) = (quantiles.p50, quantiles.p90, quantiles.p99);
    let marks = [("p50", p50), ("p90", p90), ("p99", p99)];
    let marks = marks.iter().filter_map(|(name, seconds)| {
        let at = place_in(buckets, *seconds)?;
        Some(json!({"at": at, "before": at > 85.0, "name": name}))
    });
    Some(json!({
        "bars": bars.collect::<Vec<_>>(),
        "x": bounds_as_ticks(buckets),
        "y": y,
        "marks": marks.collect::<Vec<_>>(),
    }))
}

fn range(bucket: &Bucket) -> String {
    if bucket.up_to <= NO_TIME {
        return "no time".to_owned();
    }
    let (from, to) = (bucket.above, bucket.up_to);
    format!("{} to {}", seconds_for_people(from), seconds_for_people(to))
}

/// Returns the buckets without the empty ones between the first, if this is the bucket of zero, and
/// the smallest duration: the two are then adjacent.
fn without_gap(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut shown = buckets.to_vec();
    let used = shown.iter().skip(1).position(|bucket| bucket.count > 0);
    if let (Some(first), Some(unused)) = (shown.first_mut(), used)
        && first.up_to <= NO_TIME
        && unused > 2
    {
        first.above = 0.0;
        shown.drain(1..unused);
    }
    shown
}

/// Returns the position of a value on the axis of the buckets, in percent; `None` beyond the last
/// bucket.
fn place_in(buckets: &[Bucket], seconds: f64) -> Option<f64> {
    let index = buckets.iter().position(|bucket| seconds <= bucket.up_to)?;
    let bucket = buckets[index];
    let within = match bucket.above > 0.0 && seconds > bucket.above {
        true => (seconds / bucket.above).ln() / (bucket.up_to / bucket.above).ln(),
        false => 0.0,
    };
    Some((index as f64 + within) / buckets.len() as f64 * 100.0)
}

/// The duration up to which a value counts as zero, in seconds: the smallest bucket of the queue's
/// metric.
const NO_TIME: f64 = 1e-8;

/// Returns at most about six bounds as ticks, preferably powers of ten.
fn bounds_as_ticks(buckets: &[Bucket]) -> Vec<Tick> {
    let count = buckets.len();
    let mut bounds: Vec<f64> = buckets.iter().map(|bucket| bucket.above).collect();
    bounds.extend(buckets.last().map(|bucket| bucket.up_to));
    // Skip the bounds of the zero bucket, which are not on the scale.
    let zero = usize::from(buckets.len() > 1 && buckets[0].up_to < buckets[1].above) * 2;
    let is_decade = |seconds: f64| {
        let power = seconds.log10();
        seconds > 0.0 && (power - power.round()).abs() < 1e-6
    };
    let decades: Vec<usize> = (zero..=count).filter(|at| is_decade(bounds[*at])).collect();
    let every = |places: &[usize]| -> Vec<usize> {
        let stride = places.len().div_ceil(6).max(1);
        places.iter().copied().step_by(stride).collect()
    };
    let chosen = match decades.len() >= 3 {
        true => every(&decades),
        false => every(&(zero..=count).collect::<Vec<usize>>()),
    };
    let tick = |at: usize| Tick {
        at: at as f64 / count as f64 * 100.0,
        label: seconds_for_people(bounds[at]),
    };
    let zero_tick = (zero > 0).then(|| Tick {
        at: 50.0 / count as f64,
        label: "0".to_owned(),
    });
    let chosen = chosen.into_iter().map(tick);
    zero_tick.into_iter().chain(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn axes_have_a_few_round_ticks_and_cover_their_values() {
        let thousands = ["0", "20k", "40k", "60k", "80k", "100k"];
        assert_eq!(labels(&axis(100_000.0, true, "")), thousands);
        assert_eq!(labels(&axis(3.0, true, "")), ["0", "1", "2", "3"]);
        assert_eq!(labels(&axis(0.0, true, "")), ["0", "1"]);
        for max in [1.0, 7.0, 49.0, 501.0, 1_234_567.0, 9.9e9] {
            let axis = axis(max, true, "");
            assert!((3..=8).contains(&axis.ticks.len()) || max < 3.0, "{axis:?}");
            assert!(axis.end >= max, "{axis:?}");
            assert!((axis.ticks.last().unwrap().at - 100.0).abs() < 1e-6);
        }
    }

    #[test]
    fn time_axes_have_a_suitable_unit_and_end_with_the_run() {
        for (end, title) in [
            (2e-4, "time (µs)"),
            (0.25, "time (ms)"),
            (1.3, "time (s)"),
            (2_000.0, "time (min)"),
            (40_000.0, "time (h)"),
        ] {
            let axis = time_axis(end);
            assert_eq!(axis.title, title);
            assert!((4..=11).contains(&axis.ticks.len()), "{axis:?}");
            assert!((axis.percent(end) - 100.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_path_of_steps_moves_right_then_up() {
        let (x, y) = (time_axis(10.0), axis(4.0, true, ""));
        let path = steps(&x, &y, &[0.0, 5.0, 5.0, 10.0], &[0.0, 2.0, 4.0, 4.0]);
        assert_eq!(path, "M0 1000H500V500V0H1000");
    }

    #[test]
    fn rates_add_up_to_the_counter() {
        let along = [0.0, 0.5, 0.5, 3.0, 10.0];
        let counter = [0, 10, 30, 60, 100];
        let (ends, rates) = rates(&along, &counter, 5);
        assert_eq!(ends, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let width = 2.0;
        let total: f64 = rates[..5].iter().map(|rate| rate * width).sum();
        assert!((total - 100.0).abs() < 1e-9, "{rates:?}");
        assert!((rates[0] - 15.0).abs() < 1e-9, "{rates:?}");
        assert_eq!(super::rates(&[0.0, 0.0], &[0, 5], 4), (vec![], vec![]));
    }

    #[test]
    fn bars_are_adjacent_and_marks_lie_among_them() {
        let bucket = |above: f64, count| Bucket {
            above,
            up_to: above * 10.0,
            count,
        };
        let buckets = [bucket(0.01, 1), bucket(0.1, 0), bucket(1.0, 3)];
        let quantiles = Quantiles {
            p50: 10f64.sqrt(),
            p90: 10.0,
            p99: 10.0,
            ..Quantiles::default()
        };
        let drawn = distribution(&buckets, &quantiles).unwrap();
        let bars = drawn["bars"].as_array().unwrap();
        assert_eq!(bars.len(), 2, "empty buckets have no bar");
        let title = drawn["bars"][1]["title"].as_str().unwrap();
        assert!(title.ends_with("3 (75 %)"), "{drawn}");
        let mark = drawn["marks"][0]["at"].as_f64().unwrap();
        assert!((mark - 250.0 / 3.0).abs() < 0.1, "{drawn}");
        assert_eq!(drawn["x"].as_array().unwrap().len(), 4);
        assert!(distribution(&buckets[..1], &quantiles).is_none());
    }

    #[test]
    fn the_zero_bucket_is_adjacent_to_the_scale() {
        let bucket = |decade: i32, count| Bucket {
            above: 10f64.powi(decade - 1),
            up_to: 10f64.powi(decade),
            count,
        };
        let mut buckets: Vec<Bucket> = (-9..=0).map(|decade| bucket(decade, 0)).collect();
        (buckets[0].count, buckets[8].count, buckets[9].count) = (5, 1, 1);
        let drawn = distribution(&buckets, &Quantiles::default()).unwrap();
        assert_eq!(drawn["bars"].as_array().unwrap().len(), 3);
        let title = drawn["bars"][0]["title"].as_str().unwrap();
        assert!(title.starts_with("no time: 5"), "{drawn}");
        let ticks = drawn["x"].as_array().unwrap().iter();
        let labels: Vec<&str> = ticks.map(|tick| tick["label"].as_str().unwrap()).collect();
        assert_eq!(labels[0], "0");
        assert_eq!(labels.last(), Some(&"1 s"));
        assert!(labels.len() <= 4, "{labels:?}");
    }
}
