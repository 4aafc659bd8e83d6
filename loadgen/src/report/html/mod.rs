//! `--report`: a run as one page that needs nothing else: no network, no script to be complete.

mod charts;
mod tables;

use std::io::{self, Write};

use minijinja::value::{Serde, Value as Html};
use minijinja::{Environment, context};
use serde::Serialize;
use serde_json::json;

use self::charts::{Along, Axis, Distribution, Line};
use self::tables::{phases, settings_tables, slowest, wasted, work_tables};
use crate::result::{Bucket, Phase, Quantiles, RunResult};
use crate::units::{count_for_people as count, counted, number_for_people, seconds_for_people};

/// Stretches of time for which the rate of API calls is drawn.
const RATE_STRETCHES: usize = 120;

/// What the page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run.
    pub result: &'a RunResult,
    /// The command that repeats it.
    pub command: &'a str,
    /// Its settings, name and value.
    pub settings: &'a [(String, String)],
}

/// A figure at the head of the page.
#[derive(Debug, Serialize)]
struct Tile {
    name: &'static str,
    value: String,
    note: String,
    class: &'static str,
}

/// A chart over the time of the run.
#[derive(Debug, Serialize)]
struct Chart {
    id: &'static str,
    title: &'static str,
    about: String,
    y: Axis,
    lines: Vec<Line>,
}

/// A phase, as a band behind the charts.
#[derive(Debug, Serialize)]
struct Band {
    number: usize,
    name: String,
    from: f64,
    width: f64,
}

/// A distribution with its figures.
#[derive(Debug, Serialize)]
struct Latency {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    drawn: Option<Distribution>,
    /// Why nothing is drawn.
    instead: String,
    quantiles: Vec<(&'static str, String)>,
    /// The same of each phase that has any, with whether it only set the cluster up.
    phases: Vec<(String, bool, Vec<String>)>,
}

/// Writes the page. O(samples + buckets): its size does not grow with the cluster.
///
/// # Errors
/// What the writer's are.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> io::Result<()> {
    let mut environment = Environment::new();
    environment
        .add_template("page.html", include_str!("page.html"))
        .expect("the template is well-formed: a test renders it");
    let page = environment
        .get_template("page.html")
        .and_then(|template| template.render(values(report)))
        .map_err(io::Error::other)?;
    out.write_all(page.as_bytes())
}

/// Everything the template asks for.
fn values(report: &Report<'_>) -> Html {
    let Report {
        result,
        command,
        settings,
    } = *report;
    let series = &result.series;
    let timeless = result.elapsed_seconds <= 0.0;
    let along = if timeless {
        Along::Writes(&series.resource_version)
    } else {
        Along::Time(&series.seconds)
    };
    let places = along.values();
    let x = along.axis();
    context! {
        style => Html::from_safe_string(include_str!("style.css").to_owned()),
        script => Html::from_safe_string(include_str!("script.js").to_owned()),
        data => Html::from_safe_string(data(result, &places, timeless)),
        scenario => of(&result.scenario),
        question => of(&result.question),
        answer => of(&result.answer),
        thresholds => of(&result.thresholds.iter().map(|threshold| Bound {
            met: threshold.met,
            text: format!("{}: {}", threshold.threshold, threshold.seen()),
        }).collect::<Vec<_>>()),
        verdict => of(&verdict(result)),
        set_up => result.phases.iter().any(|phase| phase.set_up),
        converged => result.outcome.converged,
        failed => result.outcome.exit_code != 0,
        reason => of(&result.outcome.reason),
        violations => of(&result.outcome.violations),
        tiles => of(&tiles(result)),
        bands => of(&bands(result, &x, &places, timeless)),
        charts => of(&line_charts(result, &x, &places, timeless)),
        x => of(&x),
        latencies => of(&latencies(result)),
        slowest => of(&slowest(result)),
        phases => of(&phases(result)),
        wasted => of(&wasted(result)),
        work => of(&work_tables(result)),
        settings => of(&settings_tables(result, settings)),
        command => of(&command),
        version => of(&result.build.version(&result.version)),
        rustc => of(&result.build.rustc),
        timeless => timeless && !series.is_empty(),
        simulated => result.engine == "virtual",
    }
}

fn of(value: &(impl Serialize + ?Sized)) -> Html {
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

/// A threshold as the page shows it.
#[derive(Serialize)]
struct Bound {
    met: bool,
    text: String,
}

fn tiles(result: &RunResult) -> Vec<Tile> {
    let tile = |name, value: String, note: String| Tile {
        name,
        value,
        note,
        class: "",
    };
    let (pods, size) = (&result.pods, &result.settings.size);
    let moved = pods.created + pods.deleted;
    let rate = (result.elapsed_seconds > 0.0)
        .then(|| number_for_people(moved as f64 / result.elapsed_seconds));
    let calls: u64 = result.api_calls.values().sum();
    let syncs: u64 = result.syncs.values().sum();
    let mut tiles = vec![
        tile(
            "pods created",
            count(pods.created),
            format!("{} deleted, peak {}", count(pods.deleted), count(pods.peak)),
        ),
        tile(
            "ReplicaSets",
            count(size.replicasets),
            format!(
                "{}, {}",
                counted(
                    size.nodes + result.input.taken.get("Node").copied().unwrap_or(0),
                    "node"
                ),
                counted(size.namespaces, "namespace")
            ),
        ),
    ];
    if let Some(rate) = rate {
        tiles.push(tile(
            "pods created or deleted",
            format!("{rate}/s"),
            "over the whole run".into(),
        ));
    }
    if result.convergence_seconds.count > 0 && result.elapsed_seconds > 0.0 {
        let quantiles = &result.convergence_seconds;
        tiles.push(tile(
            "convergence, p99",
            time(quantiles.p99),
            format!(
                "median {}, slowest {}",
                time(quantiles.p50),
                time(quantiles.max)
            ),
        ));
    }
    tiles.push(tile(
        "API calls",
        count(calls),
        format!("{} syncs", count(syncs)),
    ));
    tiles.push(Tile {
        name: "excess pods created",
        value: count(result.excess_pods_created),
        note: "above what was asked for".into(),
        class: if result.excess_pods_created > 0 {
            "bad"
        } else {
            ""
        },
    });
    tiles
}

/// A duration; a nanosecond is the least that the histograms hold and stands for none.
fn time(seconds: f64) -> String {
    seconds_for_people(if seconds <= 1e-9 { 0.0 } else { seconds })
}

fn bands(result: &RunResult, x: &Axis, places: &[f64], timeless: bool) -> Vec<Band> {
    let series = &result.series;
    let mut bands: Vec<Band> = Vec::new();
    let mut from = 0.0;
    for (number, phase) in result.phases.iter().enumerate() {
        let next = result.phases.get(number + 1);
        // Where no time passes, a phase ends at the first sample of the next.
        let sample = || series.phase.iter().position(|of| *of > number);
        let until = match (next, timeless) {
            (Some(next), false) => x.percent(next.began_seconds),
            (Some(_), true) => sample().map_or(100.0, |at| x.percent(places[at])),
            (None, _) => 100.0,
        };
        bands.push(Band {
            number: number + 1,
            name: phase.name.clone(),
            from,
            width: (until - from).max(0.0),
        });
        from = until;
    }
    bands
}

fn line_charts(result: &RunResult, x: &Axis, places: &[f64], timeless: bool) -> Vec<Chart> {
    let series = &result.series;
    let floats = |column: &[u64]| -> Vec<f64> { column.iter().map(|n| *n as f64).collect() };
    let most = |columns: &[&[u64]]| {
        let all = columns.iter().flat_map(|column| column.iter());
        all.max().copied().unwrap_or(0) as f64
    };
    let pods_y = charts::count_axis(
        most(&[
            &series.pods_desired,
            &series.pods_existing,
            &series.pods_created,
        ]),
        "pods",
    );
    let line = |y: &Axis, name, class, column, values: &[u64]| Line {
        name,
        class,
        column,
        path: charts::steps(x, y, places, &floats(values)),
        filled: class == "c1",
    };
    let pods = Chart {
        id: "pods",
        title: "Pods",
        about:
            "What the ReplicaSets together ask for, what exists, what is ready, and all pods ever \
                created."
                .into(),
        lines: vec![
            line(
                &pods_y,
                "created so far",
                "c4 thin",
                "created",
                &series.pods_created,
            ),
            line(&pods_y, "existing", "c1", "existing", &series.pods_existing),
            line(&pods_y, "ready", "c2", "ready", &series.pods_ready),
            line(
                &pods_y,
                "desired",
                "c0 dashed",
                "desired",
                &series.pods_desired,
            ),
        ],
        y: pods_y,
    };
    let queue_y = charts::count_axis(most(&[&series.queue_depth, &series.queue_delayed]), "keys");
    let mut queue_lines = vec![line(
        &queue_y,
        "waiting",
        "c1",
        "waiting",
        &series.queue_depth,
    )];
    if series.queue_delayed.iter().any(|keys| *keys > 0) {
        queue_lines.push(line(
            &queue_y,
            "delayed",
            "c3",
            "delayed",
            &series.queue_delayed,
        ));
    }
    let queue = Chart {
        id: "queue",
        title: "Work queue",
        about: "Keys that wait for a worker; delayed ones wait for their time (retries, checks of \
                availability)."
            .into(),
        lines: queue_lines,
        y: queue_y,
    };
    let calls = if timeless {
        let y = charts::count_axis(most(&[&series.api_calls]), "calls");
        Chart {
            id: "calls",
            title: "API calls",
            about:
                "All calls of the controller so far: no simulated time passes, so there is no rate."
                    .into(),
            lines: vec![line(&y, "calls so far", "c1", "calls", &series.api_calls)],
            y,
        }
    } else {
        let (ends, rates) = charts::rates(places, &series.api_calls, RATE_STRETCHES);
        let y = charts::rate_axis(rates.iter().copied().fold(0.0, f64::max), "calls/s");
        Chart {
            id: "calls",
            title: "API calls per second",
            about: format!(
                "Of the controller, its Event writes included; each step is the mean of {}.",
                seconds_for_people(result.elapsed_seconds / RATE_STRETCHES as f64)
            ),
            lines: vec![Line {
                name: "calls/s",
                class: "c1",
                column: "rate",
                path: charts::steps(x, &y, &ends, &rates),
                filled: true,
            }],
            y,
        }
    };
    vec![pods, queue, calls]
}

fn latencies(result: &RunResult) -> Vec<Latency> {
    let histograms = &result.histograms;
    type Of = fn(&Phase) -> &Quantiles;
    let latency = |id, title, about, quantiles: &Quantiles, buckets: &[Bucket], of: Of| {
        let drawn = charts::distribution(buckets, quantiles);
        let instead = match (quantiles.count, &drawn) {
            (0, _) => "Nothing was measured.".to_owned(),
            (number, None) if quantiles.max <= 1e-8 => {
                format!("All {} took no time.", count(number))
            }
            (number, None) => format!("All {} took about {}.", count(number), time(quantiles.max)),
            _ => String::new(),
        };
        let figures = |quantiles: &Quantiles| {
            let figures = [
                ("p50", quantiles.p50),
                ("p90", quantiles.p90),
                ("p99", quantiles.p99),
                ("p99.9", quantiles.p999),
                ("max", quantiles.max),
            ];
            let mut figures: Vec<_> = figures.map(|(name, seconds)| (name, time(seconds))).into();
            figures.push(("count", count(quantiles.count)));
            figures
        };
        let measured = result.phases.iter().filter(|phase| of(phase).count > 0);
        let phases: Vec<_> = measured
            .map(|phase| {
                let cells = figures(of(phase)).into_iter().map(|(_, text)| text);
                (phase.name.clone(), phase.set_up, cells.collect())
            })
            .collect();
        Latency {
            id,
            title,
            about,
            drawn,
            instead,
            quantiles: figures(quantiles),
            // One phase alone is what the whole is.
            phases: match &phases[..] {
                [(_, false, _)] => Vec::new(),
                _ => phases,
            },
        }
    };
    vec![
        latency(
            "convergence",
            "Convergence of a ReplicaSet",
            "From a change of what is asked for to exactly that many ready pods and an exact status.",
            &result.convergence_seconds,
            &histograms.convergence_seconds,
            |phase| &phase.convergence_seconds,
        ),
        latency(
            "pod-ready",
            "Pod start-up",
            "From a pod's creation to its being ready.",
            &result.pod_ready_seconds,
            &histograms.pod_ready_seconds,
            |phase| &phase.pod_ready_seconds,
        ),
        latency(
            "queue-duration",
            "Waiting in the work queue",
            "From adding a key to taking it: what workqueue_queue_duration_seconds counts.",
            &result.queue_duration_seconds,
            &histograms.queue_duration_seconds,
            |phase| &phase.queue_duration_seconds,
        ),
        latency(
            "work-duration",
            "Work of a sync",
            "From taking a key to the end of its sync, API calls included: what \
             workqueue_work_duration_seconds counts.",
            &result.work_duration_seconds,
            &histograms.work_duration_seconds,
            |phase| &phase.work_duration_seconds,
        ),
    ]
}

/// What the readout of the charts reads; safe within a script element.
fn data(result: &RunResult, places: &[f64], timeless: bool) -> String {
    let series = &result.series;
    let names: Vec<&str> = result
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    let (ends, rates) = if timeless {
        (Vec::new(), Vec::new())
    } else {
        charts::rates(places, &series.api_calls, RATE_STRETCHES)
    };
    let rates: Vec<f64> = rates
        .iter()
        .map(|rate| (rate * 10.0).round() / 10.0)
        .collect();
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
