//! Expectations, the queue and handlers at 1 to N threads, compared with plain rivals; and the
//! threaded engine. Writes `bench/results/scaling.json` and `.md`.
//!
//! `cargo bench -p podstorm-bench -- scaling` measures the throughput. With `--features
//! contention`, it counts locks and exchanges per event instead. `-- scaling/paired` measures only
//! the queue and its plain rival, in alternating rounds.

use anyhow::Context as _;
use podstorm_bench::asked::Asked;
use podstorm_bench::gate::measurement::Toolchain;
use podstorm_bench::results::machine::{Commit, Machine, load_average};
use podstorm_bench::results::{Unit, package_directory, record};
use podstorm_bench::scaling::paired::Paired;
use podstorm_bench::scaling::report::{
    CountReport, CountRow, Curve, EngineRun, Point, Report, Source, Throughput,
};
use podstorm_bench::scaling::{self, COUNTS, Subject, Worker, subjects, thread_counts};
use podstorm_bench::whole;

use super::say;

/// The number of rounds if every thread can have a core.
const ROUNDS: usize = 400;
/// With more threads than cores, there are fewer rounds by this factor, and they are longer by it,
/// so that threads lose their cores during a round.
const LONGER: usize = 20;
/// The number of attempts before the machine is considered too busy.
const ATTEMPTS: usize = 5;
/// The number of rounds of whole runs.
const ENGINE_ROUNDS: usize = 3;

pub(crate) fn run(asked: &Asked) -> anyhow::Result<()> {
    if !asked.wants("scaling") {
        return Ok(());
    }
    let cores = Machine::here().cores;
    if asked.is_smoke_test {
        for subject in subjects::all() {
            for workers in [subject.ours, subject.plain] {
                scaling::run(workers(2), 3, 500);
            }
            say(&format!("Testing {subject:?}"));
        }
        return Ok(());
    }
    let folder = package_directory().join("results");
    let mut report = Report::read(&folder.join("scaling.json"));
    if COUNTS {
        report.counts = Some(CountReport {
            source: source(" --features contention", "scaling"),
            rows: subjects::all()
                .iter()
                .flat_map(|subject| counts(subject, cores))
                .collect(),
        });
    }
    if !COUNTS && asked.wants("scaling/paired") {
        report.paired = Some(Paired::measure(
            source("", "scaling/paired"),
            &subjects::all(),
        ));
    }
    if !COUNTS && asked.wants("scaling/curves") {
        let source = source("", "scaling");
        let transfer_ns = transfer_ns(cores)?;
        let curve = |subject: &Subject| -> anyhow::Result<Curve> {
            Ok(Curve::new(subject, points(subject, cores)?, transfer_ns))
        };
        let throughput = Throughput {
            source,
            transfer_ns,
            curves: subjects::all()
                .iter()
                .map(curve)
                .collect::<Result<_, _>>()?,
            engine: engine(cores)?,
        };
        record_rows(&throughput, cores);
        report.throughput = Some(throughput);
    }
    report.write(&folder)?;
    say(&report.markdown());
    Ok(())
}

/// Records the figures of the targets: the shares of linear scaling with distinct keys, and for the
/// queue the throughput relative to one thread.
fn record_rows(throughput: &Throughput, cores: usize) {
    let several = 2..=cores;
    let distinct = throughput.curves.iter();
    for curve in distinct.filter(|curve| curve.keys == "distinct") {
        let one = curve.points[0];
        let points = curve.points.iter();
        for point in points.filter(|point| several.contains(&point.threads)) {
            let threads = point.threads;
            let linear = if curve.subject.starts_with("workqueue") {
                1.0
            } else {
                threads as f64
            };
            let row = |variant: &str, ratio: f64| {
                let id = format!("scaling/{}{variant}/{threads}", curve.subject);
                record(&id, ratio / linear, Unit::Ratio);
            };
            row("", point.ours / one.ours);
            row("-plain", point.plain / one.plain);
        }
    }
    let runs = throughput.engine.iter();
    for run in runs.filter(|run| several.contains(&run.threads)) {
        let speed_up = throughput.engine[0].wall_seconds / run.wall_seconds;
        let id = format!("scaling/engine/{}", run.threads);
        record(&id, speed_up / run.threads as f64, Unit::Ratio);
    }
}

fn source(features: &str, filter: &str) -> Source {
    let machine = Machine::here();
    Source {
        command: format!("cargo bench -p podstorm-bench{features} -- {filter}"),
        cpu_model: machine.cpu_model,
        cores: machine.cores,
        commit: Commit::here().text(),
        rustc: Toolchain::of_build().rustc,
        load_before: load_average().map(|[minute, ..]| minute),
    }
}

fn rounds(subject: &Subject, workers: fn(usize) -> Vec<Worker>, threads: usize) -> scaling::Run {
    let longer = if threads > Machine::here().cores {
        LONGER
    } else {
        1
    };
    let events = subject.events * u32::try_from(longer).expect("a small number");
    scaling::run(workers(threads), ROUNDS / longer, events)
}

fn points(subject: &Subject, cores: usize) -> anyhow::Result<Vec<Point>> {
    let throughput = |workers, threads| {
        throughput(|| rounds(subject, workers, threads))
            .with_context(|| format!("{subject:?} at {threads} threads"))
    };
    let point = |threads| {
        Ok(Point {
            threads,
            ours: throughput(subject.ours, threads)?,
            plain: throughput(subject.plain, threads)?,
        })
    };
    thread_counts(cores).into_iter().map(point).collect()
}

/// Returns the events per second of the first run in which the threads ran concurrently.
fn throughput(run: impl Fn() -> scaling::Run) -> anyhow::Result<f64> {
    (0..ATTEMPTS).find_map(|_| run().events_per_second).context(
        "in no round of several runs all threads had a core at the same time: the machine is \
             busy; measure when it is quiet",
    )
}

fn counts(subject: &Subject, cores: usize) -> Vec<CountRow> {
    let row = |threads| CountRow {
        subject: subject.name.to_owned(),
        keys: subject.keys.to_owned(),
        threads,
        per_event: rounds(subject, subject.ours, threads).per_event,
    };
    thread_counts(cores).into_iter().map(row).collect()
}

/// Returns the time from a write of a word on one core to a write on another core, when each waits
/// for the other; `None` with a single core.
fn transfer_ns(cores: usize) -> anyhow::Result<Option<f64>> {
    if cores == 1 {
        return Ok(None);
    }
    let per_second = throughput(|| scaling::run(subjects::one_line(2), ROUNDS, 20_000))?;
    Ok(Some(1e9 / per_second))
}

fn engine(cores: usize) -> anyhow::Result<Vec<EngineRun>> {
    let loadgen = whole::loadgen()?;
    let mut runs: Vec<EngineRun> = thread_counts(cores)
        .into_iter()
        .map(|threads| EngineRun {
            threads,
            wall_seconds: f64::INFINITY,
            ..EngineRun::default()
        })
        .collect();
    for _ in 0..ENGINE_ROUNDS {
        for run in &mut runs {
            let arguments = format!(
                "--scenario up-down --pods 20k --replicasets 400 --threads {}",
                run.threads
            );
            let spent = whole::run(&loadgen, &arguments)?;
            if spent.wall_seconds < run.wall_seconds {
                run.wall_seconds = spent.wall_seconds;
                run.cpu_seconds = spent.cpu_seconds;
            }
        }
    }
    Ok(runs)
}
