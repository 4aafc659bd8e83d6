//! Repeated runs of one scenario with different seeds: the mean and spread of every metric, the
//! median run, and whether other processes took processors that a run needed.

use serde::Serialize;
use serde_json::{Value, json};

use crate::compare::significance::median;
use crate::metrics::{Better, MetricName, MetricValues, Shape, Statistic, Unit};
use crate::result::{Host, RunResult};
use crate::settings::EngineKind;
use crate::text::columns::columns;

/// The version of the JSON's schema; incremented when a member changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// The minimum duration of a run, in seconds, for the CPU time of other processes to be meaningful:
/// the system counts in hundredths of a second.
const SHORTEST: f64 = 0.2;

/// The spread of one metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The number of runs that have the metric.
    pub runs: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample; absent for a single value.
    pub deviation: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Median; the mean of the middle two of an even number.
    pub median: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of these values; `None` without values.
    pub fn from_values(values: &[f64]) -> Option<Spread> {
        let median = median(values)?;
        let runs = values.len() as f64;
        let mean = values.iter().sum::<f64>() / runs;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let squares: f64 = squares.sum();
        Some(Spread {
            runs: values.len(),
            mean,
            deviation: (values.len() > 1).then(|| (squares / (runs - 1.0)).sqrt()),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            median,
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// A metric with its values over all runs.
#[derive(Clone, Debug)]
pub struct Row {
    /// The metric.
    pub metric: MetricName,
    /// The spread of the metric's values.
    pub spread: Spread,
}

/// Returns a row for every metric that any of the results has, in the order of the catalogue.
pub fn rows(results: &[RunResult]) -> Vec<Row> {
    let all: Vec<MetricValues> = results.iter().map(MetricValues::from_result).collect();
    let names = MetricValues::names_of_all(&all).into_iter();
    let row = |metric: MetricName| {
        let values = all.iter().filter_map(|one| one.find(&metric).value);
        let spread = Spread::from_values(&values.collect::<Vec<f64>>())?;
        Some(Row { metric, spread })
    };
    names.filter_map(row).collect()
}

/// Reports whether the table shows a metric: it shows times, results and costs of the run.
fn is_shown(name: &MetricName) -> bool {
    let statistic = matches!(name.statistic, None | Some(Statistic::P50 | Statistic::P99));
    let is_whole = name.key.is_none() || name.metric.shape == Shape::Phase;
    statistic
        && is_whole
        && matches!(
            name.metric.name,
            "convergence_seconds"
                | "pod_ready_seconds"
                | "elapsed_seconds"
                | "excess_pods_created"
                | "api_calls"
                | "phase{}.seconds"
                | "host.wall_seconds"
                | "host.cpu_seconds"
                | "host.pods_per_second"
        )
}

/// Formats a table of the main metrics, one per line.
pub fn table(rows: &[Row]) -> String {
    let header = [
        "metric",
        "mean",
        "deviation",
        "of mean",
        "min",
        "median",
        "max",
        "runs",
    ];
    let line = |row: &Row| {
        let Spread {
            runs,
            mean,
            deviation,
            min,
            median,
            max,
        } = row.spread;
        let shown = |value| row.metric.unit().for_people(value);
        let share = deviation.filter(|_| mean > 0.0).map(|one| one / mean);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            row.metric.to_string(),
            shown(mean),
            or_dash(deviation.map(shown)),
            or_dash(share.map(|share| format!("{:.1} %", share * 100.0))),
            shown(min),
            shown(median),
            shown(max),
            runs.to_string(),
        ]
    };
    let shown = rows.iter().filter(|row| is_shown(&row.metric));
    let lines: Vec<Vec<String>> = shown.map(line).collect();
    columns(&header.map(str::to_owned), &lines, |at| at == 0)
}

/// Returns JSON with every result in full and the spread of every metric.
pub fn json(results: &[RunResult], wanted: usize) -> Value {
    #[derive(Serialize)]
    struct Line {
        figure: String,
        unit: Unit,
        better: Better,
        #[serde(flatten)]
        spread: Spread,
    }
    let line = |row: Row| Line {
        figure: row.metric.to_string(),
        unit: row.metric.unit(),
        better: row.metric.better(),
        spread: row.spread,
    };
    let summary: Vec<Line> = rows(results).into_iter().map(line).collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "complete": results.len() == wanted,
        "summary": summary,
        "results": results,
    })
}

/// Returns the median run by elapsed time, then by the slowest convergences, then by seed. For an
/// even number of runs, the earlier of the middle two; `None` without runs.
pub fn median_run(results: &[RunResult]) -> Option<&RunResult> {
    let mut order: Vec<&RunResult> = results.iter().collect();
    order.sort_by(|a, b| {
        let by_time = a.elapsed_seconds.total_cmp(&b.elapsed_seconds);
        let [p99, other] = [a, b].map(|one| one.convergence_seconds.p99);
        by_time
            .then(p99.total_cmp(&other))
            .then(a.seed.cmp(&b.seed))
    });
    order.get(order.len().saturating_sub(1) / 2).copied()
}

/// Returns a note if other processes took processors that the runs needed; otherwise `None`.
pub fn crowded(results: &[RunResult]) -> Option<String> {
    let taken = results.iter().filter_map(|result| {
        let host = result.host.as_ref()?;
        let (engine, threads) = (result.settings.engine, result.settings.threads);
        let wanted = match engine {
            EngineKind::Virtual => 1,
            EngineKind::Threads => threads.clamp(1, host.cpus.max(1)),
        };
        Some((taken_by_others(host, wanted)?, host.cpus, engine))
    });
    let taken: Vec<(f64, usize, EngineKind)> = taken.collect();
    let &(_, cpus, engine) = taken.first()?;
    let most = taken.iter().map(|(taken, ..)| *taken).fold(0.0, f64::max);
    let what = match engine {
        EngineKind::Threads => "times and rates",
        EngineKind::Virtual => "wall time and pods per second",
    };
    Some(format!(
        "the machine was busy during {} of {} runs: other processes used up to {most:.1} of {cpus} \
         CPUs, so {what} are worse than on an idle machine",
        taken.len(),
        results.len(),
    ))
}

/// Returns how many processors other processes used on average; `None` if the run did not need more
/// than they left, or if this can't be determined. The run needed more if the machine was full and
/// the rest was less than what the run could use. A run that only waits leaves processors idle.
fn taken_by_others(host: &Host, wanted: usize) -> Option<f64> {
    let others = host.other_cpu_seconds? / host.wall_seconds;
    let own = host.cpu_seconds / host.wall_seconds;
    let cpus = host.cpus as f64;
    let is_full = own + others > 0.9 * cpus;
    let is_short = cpus - others < 0.9 * wanted as f64;
    (host.wall_seconds >= SHORTEST && is_full && is_short).then_some(others)
}

/// Returns the exit code for all runs: that of the worst run.
pub fn exit_code(results: &[RunResult]) -> u8 {
    let codes = results.iter().map(|result| result.outcome.exit_code);
    codes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run;
    use crate::settings::Settings;
    use std::sync::atomic::AtomicBool;

    /// Returns the results of runs with these seeds, in which calls and pods take random times.
    fn results(seeds: std::ops::RangeInclusive<u64>) -> Vec<RunResult> {
        let of_seed = |seed| {
            let flags = format!(
                "--scenario up-down --engine virtual --pods 60 --seed {seed} --api-latency p50=3ms,p99=40ms \
                 --pod-startup-latency p50=1s,p99=3s"
            );
            let settings = Settings::of_flags(&flags, 1).unwrap();
            run(&settings, Vec::new(), &(), &AtomicBool::new(false))
        };
        seeds.map(of_seed).collect()
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(Spread::from_values(&[]), None);
        let one = Spread::from_values(&[4.0]).unwrap();
        assert_eq!((one.runs, one.mean, one.deviation), (1, 4.0, None));
        // The sum of squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16, divided by 7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let spread = Spread::from_values(&values).unwrap();
        let deviation = spread.deviation.unwrap();
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let Spread { mean, min, max, .. } = spread;
        assert_eq!((mean, min, spread.median, max), (5.0, 2.0, 4.5, 9.0));
    }

    #[test]
    fn all_metrics_are_summarized_and_the_main_ones_shown() {
        let results = results(1..=3);
        let rows = rows(&results);
        let row = |name: &str| {
            let mut rows = rows.iter();
            rows.find(|row| row.metric.to_string() == name).unwrap()
        };
        let elapsed: Vec<f64> = results.iter().map(|one| one.elapsed_seconds).collect();
        let spread = row("elapsed_seconds").spread;
        assert_eq!(Some(spread), Spread::from_values(&elapsed));
        assert!(spread.deviation.unwrap() > 0.0);
        let text = table(&rows);
        for words in [
            " metric ",
            "\n convergence_seconds p50 ",
            "\n convergence_seconds p99 ",
            "\n phase{scale to 50 %}.seconds ",
            "\n host.pods_per_second ",
            "\n host.cpu_seconds ",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(
            !text.contains("p999") && !text.contains("create pods"),
            "{text}"
        );
        let json = json(&results, 4);
        assert_eq!(json["complete"], false);
        assert_eq!(json["results"][2]["seed"], 3);
        let lines = json["summary"].as_array().unwrap();
        assert_eq!(lines.len(), rows.len());
        let is_elapsed = |line: &&Value| line["figure"] == "elapsed_seconds";
        let line = lines.iter().find(is_elapsed).unwrap();
        assert_eq!(
            (&line["runs"], &line["unit"]),
            (&json!(3), &json!("seconds"))
        );
    }

    #[test]
    fn the_median_run_is_in_the_middle() {
        let mut results = results(1..=3);
        for (result, elapsed) in results.iter_mut().zip([5.0, 1.0, 3.0]) {
            result.elapsed_seconds = elapsed;
        }
        let seed = |results: &[RunResult]| median_run(results).map(|one| one.seed);
        assert_eq!(seed(&results), Some(3));
        assert_eq!(seed(&results[..2]), Some(2));
        assert_eq!(seed(&[]), None);
        results[1].outcome.exit_code = 3;
        assert_eq!(exit_code(&results), 3);
    }

    #[test]
    fn a_run_is_crowded_if_others_took_processors_it_wanted() {
        let taken = |own: f64, others: f64, wanted| {
            let host = Host {
                wall_seconds: 10.0,
                cpu_seconds: own * 10.0,
                other_cpu_seconds: Some(others * 10.0),
                cpus: 2,
                ..Host::default()
            };
            taken_by_others(&host, wanted).is_some()
        };
        // The run uses one thread; the other process has the other processor.
        assert!(!taken(1.0, 1.0, 1));
        assert!(taken(0.7, 1.3, 1));
        assert!(taken(1.3, 0.7, 2));
        assert!(!taken(1.9, 0.05, 2));
        // The run only waits.
        assert!(!taken(0.1, 0.9, 2));
        assert!(taken(0.1, 1.8, 2));
        let mut results = results(1..=2);
        let host = results[1].host.as_mut().unwrap();
        (host.wall_seconds, host.cpu_seconds, host.cpus) = (10.0, 6.0, 2);
        host.other_cpu_seconds = Some(14.0);
        results[0].host = None;
        let text = crowded(&results).unwrap();
        assert!(text.contains("during 1 of 2 runs"), "{text}");
        assert!(text.contains("up to 1.4 of 2 CPUs, so wall time"), "{text}");
    }
}
