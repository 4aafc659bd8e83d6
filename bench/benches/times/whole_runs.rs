//! Whole runs of the `loadgen` command: wall time, CPU time and peak memory, as medians of several
//! runs. They have no plain rival; TARGETS.md quotes upstream's recorded figures.

use std::path::Path;

use anyhow::Context;
use podstorm_bench::asked::Asked;
use podstorm_bench::results::machine::Machine;
use podstorm_bench::results::{Unit, record_runs, targets};
use podstorm_bench::whole::{self, Spent, call, loadgen, loadgen_as_built};

/// A run: the name and the number of pods, as in its ids; the flags; the numbers of repetitions in
/// quick and full runs; and the phase whose seconds are recorded. Without a phase, the resources of
/// the process are recorded.
type Run = (
    &'static str,
    u32,
    &'static str,
    [u32; 2],
    Option<&'static str>,
);

const RUNS: [Run; 5] = [
    (
        "up-down",
        100_000,
        "--scenario up-down --pods 100k --replicasets 2k --nodes 5k",
        [3, 7],
        None,
    ),
    (
        "churn",
        100_000,
        "--scenario churn --engine virtual --pods 100k --duration 1h --churn-rate 100/s --host-metrics",
        [1, 3],
        None,
    ),
    (
        "cold-start",
        1_000_000,
        "--scenario cold-start --pods 1m --replicasets 20k --nodes 15k",
        [1, 3],
        Some("start the controller"),
    ),
    // The API and the pods take no time, so only the work of the controllers and of the cluster
    // remains.
    (
        "deployment-rollout",
        50_000,
        "--scenario deployment-rollout --engine threads --pods 50k --replicasets 1000 --kube-api-qps 1000000 \
         --kube-api-burst 1000000 --api-latency 0ms --pod-startup-latency 0ms --pod-termination-latency 0ms",
        [1, 5],
        Some("patch day"),
    ),
    (
        "up-down",
        1_000_000,
        "--scenario up-down --pods 1m --replicasets 20k --nodes 15k",
        [1, 3],
        None,
    ),
];
const UP_DOWN_10M: &str = "--pods 10m --replicasets 200k --nodes 150k";
const VIRTUAL_100K: &str = "--scenario up-down --engine virtual --pods 100k --seed 7";

/// The flags that a smoke test adds to each run: a tiny size.
const TINY: &str = "--pods 200 --replicasets 10 --nodes 20";

/// Runs everything. For profiles of whole runs, use `loadgen run --flamegraph`.
pub(crate) fn run(asked: &Asked) -> anyhow::Result<()> {
    if !asked.wants("whole_runs") {
        Ok(())
    } else if asked.is_smoke_test {
        smoke(&loadgen_as_built()?)
    } else {
        measure(asked)
    }
}

fn measure(asked: &Asked) -> anyhow::Result<()> {
    let (binary, quick) = (loadgen()?, asked.is_quick());
    let wanted = |id: &str| asked.wants(id);

    for (name, pods, flags, [quick_runs, runs], phase) in RUNS {
        let id = format!("whole_runs/{name}/{pods}");
        if !wanted(&id) {
            continue;
        }
        let runs = repeat(&binary, flags, if quick { quick_runs } else { runs })?;
        match phase {
            Some(phase) => record_runs(&id, &phase_seconds(&runs, phase)?, Unit::Seconds),
            None => record_spent(&runs, |figure| format!("whole_runs/{name}-{figure}/{pods}")),
        }
        if name == "up-down" {
            record_controller(name, pods, &runs)?;
        }
    }
    if wanted("whole_runs/same-seed/100000") {
        let (one, other) = (
            whole::run(&binary, VIRTUAL_100K)?,
            whole::run(&binary, VIRTUAL_100K)?,
        );
        let holds = f64::from(u8::from(one.text == other.text));
        record_runs("whole_runs/same-seed/100000", &[holds], Unit::Holds);
    }
    if wanted("whole_runs/fault-seeds/60") {
        let seeds = if quick { 1_000_u32 } else { 5_000 };
        // The standard seeds, with which every change is checked.
        let spent = call(&binary, &format!("fuzz --first 1 --seeds {seeds}"))?;
        let per_minute = f64::from(seeds) / spent.cpu_seconds * 60.0;
        record_runs("whole_runs/fault-seeds/60", &[per_minute], Unit::Count);
    }
    if !quick && wanted("whole_runs/up-down/10000000") && has_memory_for_10m()? {
        let runs = repeat(&binary, UP_DOWN_10M, 1)?;
        record_spent(&runs, |figure| {
            format!("whole_runs/up-down-{figure}/10000000")
        });
    }
    Ok(())
}

/// Reports whether the machine has the memory that the row needs. If it does not, the table states
/// so.
fn has_memory_for_10m() -> anyhow::Result<bool> {
    let rows = targets::load_own()?;
    let row = rows
        .iter()
        .find(|row| row.id == "whole_runs/up-down-peak/10000000")
        .context("bench/targets.toml has no row for ten million pods")?;
    Ok(row.lacks(&Machine::here()).is_none())
}

fn repeat(binary: &Path, arguments: &str, runs: u32) -> anyhow::Result<Vec<Spent>> {
    (0..runs).map(|_| whole::run(binary, arguments)).collect()
}

/// Returns the duration of a phase in each run, in seconds.
fn phase_seconds(runs: &[Spent], phase: &str) -> anyhow::Result<Vec<f64>> {
    let of = |spent: &Spent| spent.phase(phase, "seconds");
    runs.iter().map(of).collect()
}

/// Records the resources of the whole process, from start to end.
pub(crate) fn record_spent(runs: &[Spent], id: impl Fn(&str) -> String) {
    type Figure = fn(&Spent) -> f64;
    let figures: [(&str, Figure, Unit); 3] = [
        ("wall", |spent| spent.wall_seconds, Unit::Seconds),
        ("cpu", |spent| spent.cpu_seconds, Unit::Seconds),
        ("peak", |spent| spent.peak_memory_bytes, Unit::Bytes),
    ];
    for (figure, of, unit) in figures {
        let values: Vec<f64> = runs.iter().map(of).collect();
        record_runs(&id(figure), &values, unit);
    }
}

/// Records the controller's share: the time in syncs per 1,000 created pods, and the number of pods
/// created per second during the creation.
fn record_controller(name: &str, pods: u32, runs: &[Spent]) -> anyhow::Result<()> {
    let sync_seconds = |spent: &Spent| {
        let (count, mean) = (
            "/work_duration_seconds/count",
            "/work_duration_seconds/mean",
        );
        let total = spent.number(count)? * spent.number(mean)?;
        Ok(total / spent.number("/pods/created")? * 1_000.0)
    };
    let rate = |spent: &Spent| {
        let phase = |member| spent.phase("scale to 100 %", member);
        Ok(phase("pods_created")? / phase("seconds")?)
    };
    let seconds: anyhow::Result<Vec<f64>> = runs.iter().map(sync_seconds).collect();
    let rates: anyhow::Result<Vec<f64>> = runs.iter().map(rate).collect();
    record_runs(
        &format!("whole_runs/{name}-sync/{pods}"),
        &seconds?,
        Unit::Seconds,
    );
    record_runs(
        &format!("whole_runs/{name}-creates/{pods}"),
        &rates?,
        Unit::PerSecond,
    );
    Ok(())
}

/// Runs every type of run at its smallest size, and checks that the figures are where they are
/// read.
fn smoke(binary: &Path) -> anyhow::Result<()> {
    let up_down = whole::run(binary, &format!("--scenario up-down {TINY}"))?;
    record_controller("up-down", 200, &[up_down])?;
    let cold_start = whole::run(binary, &format!("--scenario cold-start {TINY}"))?;
    cold_start.phase("start the controller", "seconds")?;
    let rollout = whole::run(binary, &format!("--scenario deployment-rollout {TINY}"))?;
    rollout.phase("patch day", "seconds")?;
    let churn = "--scenario churn --engine virtual --duration 2s";
    whole::run(binary, &format!("{churn} {TINY}"))?;
    call(binary, "fuzz --first 1 --seeds 4")?;
    let same = format!("--scenario up-down --engine virtual --seed 7 {TINY}");
    let (one, other) = (whole::run(binary, &same)?, whole::run(binary, &same)?);
    assert_eq!(one.text, other.text);
    Ok(())
}
