//! The tables of the page: the text of their cells.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::time;
use crate::result::{EventWriterCounts, Phase, RunResult, SlowWorkload, Waits};
use crate::units::{
    bytes_for_people, count_for_people as count, number_for_people, seconds_for_people,
};

/// Returns the rows for the slowest ReplicaSets: name, time, width of the bar in percent, phase,
/// and whether the ReplicaSet converged.
pub(super) fn slowest(result: &RunResult) -> Vec<(String, String, f64, String, bool)> {
    let all = result.slowest_workloads.iter();
    let most = all.clone().map(|one| one.seconds).fold(0.0, f64::max);
    // Omit convergences that took no time.
    let all = all.filter(|one| one.seconds > 1e-9 || !one.converged);
    let row = |one: &SlowWorkload| {
        (
            format!("{}/{}", one.namespace, one.name),
            time(one.seconds),
            one.seconds / most.max(1e-12) * 100.0,
            one.phase.clone(),
            one.converged,
        )
    };
    all.map(row).collect()
}

/// Returns the rows for the phases: name; time, created, deleted, rate, excess; and whether the
/// phase is done.
pub(super) fn phases(result: &RunResult) -> Vec<(String, [String; 5], bool)> {
    let row = |phase: &Phase| {
        let moved = phase.pods_created + phase.pods_deleted;
        let rate = if phase.seconds > 0.0 && moved > 0 {
            number_for_people(moved as f64 / phase.seconds)
        } else {
            "–".to_owned()
        };
        let cells = [
            seconds_for_people(phase.seconds),
            count(phase.pods_created),
            count(phase.pods_deleted),
            rate,
            count(phase.excess_pods_created),
        ];
        (phase.name.clone(), cells, phase.converged)
    };
    result.phases.iter().map(row).collect()
}

/// Returns the rows for wasted work: description, count, and whether the count is above zero.
pub(super) fn wasted(result: &RunResult) -> [(&'static str, String, bool); 6] {
    let wasted = &result.wasted_work;
    [
        ("syncs without any API call", wasted.syncs_without_requests),
        (
            "syncs postponed: the cache did not show the controller's own writes yet",
            wasted.stale_sync_skips,
        ),
        (
            "deletes of pods that no longer existed",
            wasted.deletes_not_found,
        ),
        (
            "status writes that hit a newer version",
            wasted.status_conflicts,
        ),
        (
            "pods removed before they were ready",
            wasted.pods_never_ready,
        ),
        (
            "pods created above the desired number",
            result.excess_pods_created,
        ),
    ]
    .map(|(name, number)| (name, count(number), number > 0))
}

/// Builds tables of two columns, each with title, headings and rows. Omits tables without rows.
fn tables<const N: usize>(all: [(&str, &str, &str, Value); N]) -> Vec<Value> {
    let some = all.into_iter().filter(|(.., rows)| *rows != json!([]));
    some.map(|(title, left, right, rows)| {
        json!({"title": title, "left": left, "right": right, "rows": rows})
    })
    .collect()
}

pub(super) fn work_tables(result: &RunResult) -> Vec<Value> {
    let (input, came) = (&result.input, pods_of_input(result));
    tables([
        (
            "API calls",
            "verb, resource, code",
            "calls",
            counts(&result.api_calls),
        ),
        ("Syncs", "outcome", "syncs", counts(&result.syncs)),
        ("Waits", "for what", "time", waits(&result.waits)),
        ("Events", "type, reason", "events", counts(&result.events)),
        (
            "Event writer",
            "outcome",
            "events",
            event_writer(&result.event_writer),
        ),
        ("Input", "kind", "objects", counts(&input.taken)),
        ("Pods of the input", "initial state", "pods", counts(&came)),
        ("Not simulated", "kind", "documents", counts(&input.ignored)),
    ])
}

/// Returns the total waits of pods, calls and keys, omitting zeros.
fn waits(waits: &Waits) -> Value {
    let all = [
        ("pods for a place on a node", waits.place_seconds),
        ("calls for the client limit", waits.client_limit_seconds),
        ("calls for their answers", waits.api_seconds),
        ("keys for a worker", waits.worker_seconds),
        ("workers for calls", waits.sync_waiting_seconds),
    ];
    let some = all.into_iter().filter(|(_, seconds)| *seconds > 0.0);
    let rows = some.map(|(what, seconds)| (what, time(seconds)));
    json!(rows.collect::<Vec<_>>())
}

fn event_writer(writer: &EventWriterCounts) -> Value {
    let all = [("written", writer.written), ("dropped", writer.dropped)];
    counts(&all.map(|(name, count)| (name.to_owned(), count)).into())
}

/// Returns the number of pods from files in each initial state.
fn pods_of_input(result: &RunResult) -> BTreeMap<String, u64> {
    let pods = result.input.pods;
    let all = [
        ("ready", pods.ready),
        ("not ready", pods.not_ready),
        ("not ready, and at the end neither", pods.still_not_ready),
        ("terminating", pods.terminating),
        ("ended", pods.ended),
    ];
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(how, count)| (how.to_owned(), count)).collect()
}

pub(super) fn settings_tables(result: &RunResult, settings: &[(String, String)]) -> Vec<Value> {
    tables([
        ("Settings", "flag", "value", json!(settings)),
        ("Machine", "metric", "value", json!(machine(result))),
    ])
}

fn counts(table: &BTreeMap<String, u64>) -> Value {
    let mut rows: Vec<(&String, &u64)> = table.iter().filter(|(_, number)| **number > 0).collect();
    // The sort is stable: entries with equal counts stay in the order of their names.
    rows.sort_by(|a, b| b.1.cmp(a.1));
    let rows = rows.iter().map(|(name, number)| (name, count(**number)));
    json!(rows.collect::<Vec<_>>())
}

fn machine(result: &RunResult) -> Vec<(&'static str, String)> {
    let Some(host) = &result.host else {
        return Vec::new();
    };
    let load = |load: Option<[f64; 3]>| {
        let shown = load.map(|[one, five, fifteen]| format!("{one} {five} {fifteen}"));
        shown.unwrap_or_else(|| "unknown".to_owned())
    };
    vec![
        ("wall time", seconds_for_people(host.wall_seconds)),
        (
            "wall time to read files",
            seconds_for_people(host.load_seconds),
        ),
        ("CPU time", seconds_for_people(host.cpu_seconds)),
        ("peak memory", bytes_for_people(host.peak_memory_bytes)),
        (
            "pod writes per second",
            number_for_people(host.pods_per_second),
        ),
        ("processors", format!("{} × {}", host.cpus, host.cpu_model)),
        ("memory", bytes_for_people(host.memory_bytes)),
        ("platform", host.platform.clone()),
        ("allocator", host.allocator.clone()),
        ("load before (1, 5, 15 min)", load(host.load_average_before)),
        ("load after", load(host.load_average_after)),
    ]
}
