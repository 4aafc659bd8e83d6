//! `--report`: a run as one self-contained HTML page that requires no network and is complete
//! without scripts.

mod charts;
mod tables;

use std::io::{self, Write};

use minijinja::context;
use minijinja::value::{Serde, Value as Html};
use serde::Serialize;
use serde_json::{Value, json};

use self::charts::Axis;
use self::tables::{phases, settings_tables, slowest, wasted, work_tables};
use crate::metrics::Unit;
use crate::report::{brake, page};
use crate::result::{Alternative, Bucket, Phase, Quantiles, RunResult};
use crate::units::{count_for_people as count, counted, number_for_people, seconds_for_people};

/// The number of intervals in the chart of the rate of API calls.
const RATE_INTERVALS: usize = 120;

/// The data for the page.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The result of the run.
    pub result: &'a RunResult,
    /// The command that repeats the run.
    pub command: &'a str,
    /// The names and values of the settings.
    pub settings: &'a [(String, String)],
}

/// Writes the page. O(samples + buckets): the size of the page does not depend on the size of the
/// cluster.
///
/// # Errors
/// Writing to `out` fails.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> io::Result<()> {
    let page = page::render(include_str!("page.html"), values(report));
    out.write_all(page.as_bytes())
}

/// Computes the values for the template.
fn values(report: &Report<'_>) -> Html {
    let (result, series) = (report.result, &report.result.series);
    let timeless = result.elapsed_seconds <= 0.0;
    let versions = series.resource_version.iter();
    let places = match timeless {
        true => versions.map(|version| *version as f64).collect(),
        false => series.seconds.clone(),
    };
    let x = charts::along(places.last().copied().unwrap_or(0.0), timeless);
    context! {
        style => page::style(),
        script => Html::from_safe_string(include_str!("script.js").to_owned()),
        data => Html::from_safe_string(data(result, &places, timeless)),
        scenario => to_html(&result.scenario),
        question => to_html(&result.question),
        answer => to_html(&result.answer),
        alternatives => to_html(&result.alternatives.iter().map(Alternative::in_words).collect::<Vec<_>>()),
        note => to_html(&brake::note(result)),
        thresholds => to_html(&result.thresholds.iter().map(|threshold| {
            json!({"met": threshold.met, "text": format!("{}: {}", threshold.threshold, threshold.seen())})
        }).collect::<Vec<_>>()),
        verdict => to_html(&verdict(result)),
        set_up => result.phases.iter().any(|phase| phase.set_up),
        converged => result.outcome.converged,
        failed => result.outcome.exit_code != 0,
        reason => to_html(&result.outcome.reason),
        violations => to_html(&result.outcome.violations),
        tiles => to_html(&tiles(result)),
        bands => to_html(&bands(result, &x, &places, timeless)),
        charts => to_html(&line_charts(result, &x, &places, timeless)),
        x => to_html(&x),
        latencies => to_html(&latencies(result)),
        slowest => to_html(&slowest(result)),
        phases => to_html(&phases(result)),
        wasted => to_html(&wasted(result)),
        work => to_html(&work_tables(result)),
        settings => to_html(&settings_tables(result, report.settings)),
        command => to_html(&report.command),
        version => to_html(&result.build.version(&result.version)),
        rustc => to_html(&result.build.rustc),
        timeless => timeless && !series.is_empty(),
        simulated => result.engine == "virtual",
    }
}

fn to_html(value: &(impl Serialize + ?Sized)) -> Html {
    Html::from(Serde(value))
}

fn verdict(result: &RunResult) -> String {
    let time = seconds_for_people(result.elapsed_seconds);
    match (result.outcome.exit_code, result.outcome.converged) {
        (0, true) => format!("converged in {time}"),
        (0, false) => format!("done in {time}"),
        (130, _) => format!("interrupted after {time}"),
        (3, _) => format!("invariant broken within {time}"),
        _ => format!("failed after {time}"),
    }
}

/// Returns the tiles with the main numbers at the top of the page.
fn tiles(result: &RunResult) -> Vec<Value> {
    let (pods, size) = (&result.pods, &result.settings.size);
    let (calls, syncs): (u64, u64) = (result.api_calls.values().sum(), result.syncs.values().sum());
    let nodes = size.nodes + result.input.taken.get("Node").copied().unwrap_or(0);
    let nodes = counted(nodes, "node");
    let namespaces = counted(size.namespaces, "namespace");
    let (deleted, peak) = (count(pods.deleted), count(pods.peak));
    let mut tiles = Vec::new();
    let mut add = |name: &str, value: String, note: &str| {
        let is_bad = name == "excess pods created" && result.excess_pods_created > 0;
        let class = if is_bad { "bad" } else { "" };
        tiles.push(json!({"name": name, "value": value, "note": note, "class": class}));
    };
    let note = format!("{deleted} deleted, peak {peak}");
    add("pods created", count(pods.created), &note);
    let note = format!("{nodes}, {namespaces}");
    add("ReplicaSets", count(size.workloads()), &note);
    if result.elapsed_seconds > 0.0 {
        let rate = (pods.created + pods.deleted) as f64 / result.elapsed_seconds;
        let rate = format!("{}/s", number_for_people(rate));
        add("pods created or deleted", rate, "over the whole run");
        let of = &result.convergence_seconds;
        if of.count > 0 {
            let note = format!("median {}, slowest {}", time(of.p50), time(of.max));
            add("convergence, p99", time(of.p99), &note);
        }
    }
    add("API calls", count(calls), &counted(syncs, "sync"));
    let excess = count(result.excess_pods_created);
    add("excess pods created", excess, "above the desired number");
    tiles
}

/// Formats a duration for the page.
fn time(seconds: f64) -> String {
    Unit::Seconds.for_people(seconds)
}

/// Returns the phases as bands in the background of the charts.
fn bands(result: &RunResult, x: &Axis, places: &[f64], timeless: bool) -> Vec<Value> {
    let series = &result.series;
    let mut from = 0.0;
    let band = |(number, phase): (usize, &Phase)| {
        let next = result.phases.get(number + 1);
        // If no time passes, a phase ends at the first sample of the next phase.
        let sample = || series.phase.iter().position(|of| *of > number);
        let until = match (next, timeless) {
            (Some(next), false) => x.percent(next.began_seconds),
            (Some(_), true) => sample().map_or(100.0, |at| x.percent(places[at])),
            (None, _) => 100.0,
        };
        let width = (until - from).max(0.0);
        let band = json!({"number": number + 1, "name": phase.name, "from": from, "width": width});
        from = until;
        band
    };
    result.phases.iter().enumerate().map(band).collect()
}

/// Returns the charts over the time of the run. A line's `column` names its data for the readout.
fn line_charts(result: &RunResult, x: &Axis, places: &[f64], timeless: bool) -> Vec<Value> {
    let series = &result.series;
    let chart = |id, title, about: &str, unit, lines: &[(&str, &str, &str, &[u64])]| {
        let values = lines.iter().flat_map(|(.., values)| values.iter());
        let y = charts::axis(values.max().copied().unwrap_or(0) as f64, true, unit);
        let line = |(name, class, column, values): &(&str, &str, &str, &[u64])| {
            let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            let path = charts::steps(x, &y, places, &values);
            let filled = *class == "c1";
            json!({"name": name, "class": class, "column": column, "path": path, "filled": filled})
        };
        let lines: Vec<Value> = lines.iter().map(line).collect();
        json!({"id": id, "title": title, "about": about, "y": y, "lines": lines})
    };
    let about =
        "Pods that all ReplicaSets desire, that exist, that are ready, and all pods ever created.";
    let lines: [(&str, &str, &str, &[u64]); 4] = [
        ("created so far", "c4 thin", "created", &series.pods_created),
        ("existing", "c1", "existing", &series.pods_existing),
        ("ready", "c2", "ready", &series.pods_ready),
        ("desired", "c0 dashed", "desired", &series.pods_desired),
    ];
    let pods = chart("pods", "Pods", about, "pods", &lines);
    let about = "Keys that wait for a worker; delayed keys wait for their time (retries, availability checks).";
    let lines: [(&str, &str, &str, &[u64]); 2] = [
        ("waiting", "c1", "waiting", &series.queue_depth),
        ("delayed", "c3", "delayed", &series.queue_delayed),
    ];
    let is_delayed = series.queue_delayed.iter().any(|keys| *keys > 0);
    let lines = &lines[..1 + usize::from(is_delayed)];
    let queue = chart("queue", "Work queue", about, "keys", lines);
    if timeless {
        let about = "All calls of the controllers so far; there is no rate, because no simulated time passes.";
        let lines: [(&str, &str, &str, &[u64]); 1] =
            [("calls so far", "c1", "calls", &series.api_calls)];
        return vec![
            pods,
            queue,
            chart("calls", "API calls", about, "calls", &lines),
        ];
    }
    let (ends, rates) = charts::rates(places, &series.api_calls, RATE_INTERVALS);
    let y = charts::axis(rates.iter().copied().fold(0.0, f64::max), false, "calls/s");
    let interval = seconds_for_people(result.elapsed_seconds / RATE_INTERVALS as f64);
    let path = charts::steps(x, &y, &ends, &rates);
    let calls = json!({
        "id": "calls",
        "title": "API calls per second",
        "about": format!("Calls of the controllers, including Event writes; each step is the mean of {interval}."),
        "lines": [{"name": "calls/s", "class": "c1", "column": "rate", "path": path, "filled": true}],
        "y": y,
    });
    vec![pods, queue, calls]
}

/// Returns the distributions, each with its chart, or the reason why there is none (`instead`), its
/// statistics, and the distribution for each phase.
fn latencies(result: &RunResult) -> Vec<Value> {
    let histograms = &result.histograms;
    type Of = fn(&Phase) -> &Quantiles;
    let latency = |id, title, about, quantiles: &Quantiles, buckets: &[Bucket], of: Of| {
        let drawn = charts::distribution(buckets, quantiles);
        let number = count(quantiles.count);
        let instead = match (quantiles.count, &drawn) {
            (0, _) => "Nothing was measured.".to_owned(),
            (_, None) if quantiles.max <= 1e-8 => format!("All {number} took no time."),
            (_, None) => format!("All {number} took about {}.", time(quantiles.max)),
            _ => String::new(),
        };
        let statistics = |of: &Quantiles| {
            let seconds = [of.p50, of.p90, of.p99, of.p999, of.max].map(time);
            seconds.into_iter().chain([count(of.count)])
        };
        let names = ["p50", "p90", "p99", "p99.9", "max", "count"];
        let measured = result.phases.iter().filter(|phase| of(phase).count > 0);
        let phases: Vec<(&str, bool, Vec<String>)> = measured
            .map(|phase| (&*phase.name, phase.set_up, statistics(of(phase)).collect()))
            .collect();
        // The distribution of a single phase equals that of the whole run.
        let is_alone = matches!(phases[..], [(_, false, _)]);
        json!({
            "id": id,
            "title": title,
            "about": about,
            "drawn": drawn,
            "instead": instead,
            "quantiles": names.into_iter().zip(statistics(quantiles)).collect::<Vec<_>>(),
            "phases": if is_alone { Vec::new() } else { phases },
        })
    };
    vec![
        latency(
            "convergence",
            "Convergence of a ReplicaSet",
            "From a change of the desired state to exactly that many ready pods and an exact status.",
            &result.convergence_seconds,
            &histograms.convergence_seconds,
            |phase| &phase.convergence_seconds,
        ),
        latency(
            "pod-ready",
            "Pod start-up",
            "From the creation of a pod until it is ready.",
            &result.pod_ready_seconds,
            &histograms.pod_ready_seconds,
            |phase| &phase.pod_ready_seconds,
        ),
        latency(
            "queue-duration",
            "Waiting in the work queue",
            "From adding a key to taking it, as in workqueue_queue_duration_seconds.",
            &result.queue_duration_seconds,
            &histograms.queue_duration_seconds,
            |phase| &phase.queue_duration_seconds,
        ),
        latency(
            "work-duration",
            "Work of a sync",
            "From taking a key to the end of its sync, including API calls, as in \
             workqueue_work_duration_seconds.",
            &result.work_duration_seconds,
            &histograms.work_duration_seconds,
            |phase| &phase.work_duration_seconds,
        ),
    ]
}

/// Returns the data for the readout of the charts as JSON, escaped for a script element.
fn data(result: &RunResult, places: &[f64], timeless: bool) -> String {
    let series = &result.series;
    let names: Vec<&str> = result.phases.iter().map(|phase| &*phase.name).collect();
    let (ends, mut rates) = match timeless {
        true => Default::default(),
        false => charts::rates(places, &series.api_calls, RATE_INTERVALS),
    };
    for rate in &mut rates {
        *rate = (*rate * 10.0).round() / 10.0;
    }
    let data = json!({
        "x": places,
        "unit": if timeless { "writes" } else { "s" },
        "phases": names,
        "phase": series.phase,
        "columns": {
            "desired": series.pods_desired,
            "existing": series.pods_existing,
            "ready": series.pods_ready,
            "created": series.pods_created,
            "waiting": series.queue_depth,
            "delayed": series.queue_delayed,
            "calls": series.api_calls,
        },
        "rate": {"x": ends, "values": rates},
    });
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests;
