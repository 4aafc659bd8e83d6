//! Measured figures. Benches that don't use criterion write them to a `figure.json`. The table
//! reads them from there, or from criterion's output.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use podstorm_loadgen::units::{bytes_for_people, number_for_people, three_digits};
use serde::{Deserialize, Serialize};

use super::measurements_directory;
use crate::asked::is_smoke_test;
use crate::write_whole;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Seconds of wall or CPU time. The row states which.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Per second.
    #[serde(rename = "/s")]
    PerSecond,
    /// A ratio, e.g. the throughput per thread to that of a single thread.
    #[serde(rename = "ratio")]
    Ratio,
    /// A number of things, e.g. runs.
    #[serde(rename = "count")]
    Count,
    /// 1 if a property held, 0 if it did not.
    #[serde(rename = "holds")]
    Holds,
}

impl Unit {
    /// Formats a value with its unit and three digits: `8.21 µs`, `291 B`, `0.84`.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds => seconds_text(value / 1e9),
            Unit::Seconds => seconds_text(value),
            // Bytes per pod are not rounded.
            Unit::Bytes if value < 1e4 => format!("{} B", number_for_people(value)),
            Unit::Bytes => bytes_for_people(value.round() as u64),
            Unit::PerSecond => format!("{}/s", number_for_people(value)),
            Unit::Ratio => format!("{value:.2}"),
            Unit::Count => number_for_people(value),
            Unit::Holds => if value == 1.0 { "yes" } else { "no" }.to_owned(),
        }
    }
}

fn seconds_text(seconds: f64) -> String {
    if seconds < 0.9995e-6 {
        format!("{} ns", three_digits(seconds * 1e9))
    } else if seconds < 0.9995e-3 {
        format!("{} µs", three_digits(seconds * 1e6))
    } else if seconds < 0.9995 {
        format!("{} ms", three_digits(seconds * 1e3))
    } else {
        format!("{} s", three_digits(seconds))
    }
}

/// The content of a `figure.json` file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The id under which the figure was recorded.
    pub id: String,
    /// The median of the runs, or the single value.
    pub value: f64,
    /// The unit of the value.
    pub unit: Unit,
    /// The lowest value of the runs.
    pub low: f64,
    /// The highest value of the runs.
    pub high: f64,
    /// The number of runs.
    pub runs: usize,
}

/// A figure as the table shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The median.
    pub value: f64,
    /// The unit of the values.
    pub unit: Unit,
    /// The confidence interval of the median (criterion), or the lowest and the highest value of
    /// the runs.
    pub interval: (f64, f64),
    /// The time at which the file was written.
    pub written: SystemTime,
}

/// Records a figure under an id of the targets (see the [module](super)), and reports it on
/// standard output. Does nothing in a smoke test.
///
/// # Panics
/// Panics if the target directory can't be written.
pub fn record(id: &str, value: f64, unit: Unit) {
    record_runs(id, &[value], unit);
}

/// Like [`record`], for several runs: records their median, and the lowest and highest value.
///
/// # Panics
/// Panics if there is no run, and if the target directory can't be written.
pub fn record_runs(id: &str, values: &[f64], unit: Unit) {
    if is_smoke_test() {
        return;
    }
    let figure = Figure::of_runs(id, values, unit);
    let interval = if values.len() > 1 {
        format!(
            " [{} to {}, {} runs]",
            unit.text(figure.low),
            unit.text(figure.high),
            figure.runs
        )
    } else {
        String::new()
    };
    #[expect(
        clippy::print_stdout,
        reason = "benches report here, as criterion does"
    )]
    {
        println!("{id:<50} {}{interval}", unit.text(figure.value));
    }
    figure
        .write(&measurements_directory())
        .expect("the target directory can be written");
}

impl Figure {
    pub(super) fn of_runs(id: &str, values: &[f64], unit: Unit) -> Figure {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = sorted.len() / 2;
        let value = if sorted.len().is_multiple_of(2) {
            sorted[middle - 1].midpoint(sorted[middle])
        } else {
            sorted[middle]
        };
        Figure {
            id: id.to_owned(),
            value,
            unit,
            low,
            high,
            runs: values.len(),
        }
    }

    /// Writes the file for the figure's id, completely or not at all.
    pub(super) fn write(&self, measurements: &Path) -> io::Result<()> {
        let folder = measurements.join(&self.id).join("new");
        fs::create_dir_all(&folder)?;
        let text = serde_json::to_string_pretty(self)? + "\n";
        let written = write_whole("the figure", &folder.join("figure.json"), &text);
        written.map_err(io::Error::other)
    }
}

/// The part of criterion's `estimates.json` that the table needs.
#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: ConfidenceInterval,
}

#[derive(Deserialize)]
struct ConfidenceInterval {
    lower_bound: f64,
    upper_bound: f64,
}

/// Returns the figure that was measured under an id, or `None`. If both files exist, the newer one
/// counts.
///
/// # Errors
/// Fails if a file can't be read or parsed.
pub fn read(measurements: &Path, id: &str) -> anyhow::Result<Option<Measured>> {
    let folder = measurements.join(id).join("new");
    let figure = read_file(&folder.join("figure.json"), |text| {
        let figure: Figure = serde_json::from_str(text)?;
        Ok((figure.value, figure.unit, (figure.low, figure.high)))
    })?;
    let estimates = read_file(&folder.join("estimates.json"), |text| {
        let median = serde_json::from_str::<Estimates>(text)?.median;
        let interval = median.confidence_interval;
        Ok((
            median.point_estimate,
            Unit::Nanoseconds,
            (interval.lower_bound, interval.upper_bound),
        ))
    })?;
    Ok([figure, estimates]
        .into_iter()
        .flatten()
        .max_by_key(|measured| measured.written))
}

type Content = (f64, Unit, (f64, f64));

fn read_file(
    path: &Path,
    parse: impl Fn(&str) -> serde_json::Result<Content>,
) -> anyhow::Result<Option<Measured>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let (value, unit, interval) = parse(&text).with_context(|| path.display().to_string())?;
    let written = fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .with_context(|| path.display().to_string())?;
    Ok(Some(Measured {
        value,
        unit,
        interval,
        written,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), "memory/pod/1").unwrap(), None);
        let figure = Figure::of_runs("memory/pod/1", &[3.0, 1.0, 2.0, 10.0], Unit::Bytes);
        figure.write(folder.path()).unwrap();
        let read = read(folder.path(), "memory/pod/1").unwrap().unwrap();
        assert_eq!(
            (read.value, read.unit, read.interval),
            (2.5, Unit::Bytes, (1.0, 10.0))
        );
    }

    #[test]
    fn an_estimate_is_criterions_median_in_nanoseconds() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("queue/cycle/5/new");
        fs::create_dir_all(&new).unwrap();
        let median = r#"{"confidence_interval":{"confidence_level":0.95,"lower_bound":9.0,"upper_bound":11.0},"point_estimate":10.0,"standard_error":0.1}"#;
        let other = median.replace("10.0", "99.0");
        let text = format!(r#"{{"mean":{other},"median":{median},"slope":null}}"#);
        fs::write(new.join("estimates.json"), text).unwrap();
        let read = read(folder.path(), "queue/cycle/5").unwrap().unwrap();
        assert_eq!((read.value, read.interval), (10.0, (9.0, 11.0)));
        assert_eq!(read.unit, Unit::Nanoseconds);
    }

    #[test]
    fn a_broken_file_is_reported_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b/c/new");
        fs::create_dir_all(&new).unwrap();
        fs::write(new.join("estimates.json"), "{").unwrap();
        let error = read(folder.path(), "a/b/c").unwrap_err();
        assert!(error.to_string().contains("estimates.json"), "{error:#}");
    }

    #[test]
    fn values_are_shown_with_three_digits() {
        let cases = [
            (Unit::Nanoseconds, 5.0, "5 ns"),
            (Unit::Nanoseconds, 8_213.0, "8.21 µs"),
            (Unit::Nanoseconds, 149e6, "149 ms"),
            (Unit::Seconds, 1.5, "1.5 s"),
            (Unit::Seconds, 0.02, "20 ms"),
            (Unit::Bytes, 8_600.0, "8,600 B"),
            (Unit::Bytes, 150e6, "150 MB"),
            (Unit::Bytes, 1.2e9, "1.2 GB"),
            (Unit::PerSecond, 1_234_567.0, "1,234,567/s"),
            (Unit::Ratio, 0.8, "0.80"),
            (Unit::Count, 0.0, "0"),
            (Unit::Holds, 1.0, "yes"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.text(value), text);
        }
    }
}
