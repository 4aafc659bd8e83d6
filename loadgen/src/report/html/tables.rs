//! The tables of the page: figures as the texts that their cells hold.

use std::collections::BTreeMap;

use serde::Serialize;

use super::time;
use crate::result::{Phase, RunResult, SlowReplicaSet};
use crate::units::{
    bytes_for_people, count_for_people as count, number_for_people, seconds_for_people,
};

/// Rows of the slowest ReplicaSets: name, time, width of its bar in percent, phase, whether over.
pub(super) fn slowest(result: &RunResult) -> Vec<(String, String, f64, String, bool)> {
    let all = result.slowest_replicasets.iter();
    let most = all.clone().map(|one| one.seconds).fold(0.0, f64::max);
    // Where nothing took time there is no slowest.
    let all = all.filter(|one| one.seconds > 1e-9 || !one.converged);
    let row = |one: &SlowReplicaSet| {
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

/// Rows of the phases: name, time, created, deleted, rate, excess, whether done.
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

pub(super) fn wasted(result: &RunResult) -> Vec<(&'static str, String, bool)> {
    let wasted = &result.wasted_work;
    let rows = [
        (
            "syncs that asked for no API call",
            wasted.syncs_without_requests,
        ),
        (
            "syncs put off: the cache was behind own writes",
            wasted.stale_sync_skips,
        ),
        ("deletes of pods that were gone", wasted.deletes_not_found),
        (
            "status writes that met a newer version",
            wasted.status_conflicts,
        ),
        (
            "pods that went before they were ready",
            wasted.pods_never_ready,
        ),
        (
            "pods created above what was asked for",
            result.excess_pods_created,
        ),
    ];
    rows.map(|(name, number)| (name, count(number), number > 0))
        .into()
}

/// A table of two columns.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    title: &'static str,
    left: &'static str,
    right: &'static str,
    rows: Vec<(String, String)>,
}

pub(super) fn work_tables(result: &RunResult) -> Vec<Table> {
    let table = |title, left, right, numbers| Table {
        title,
        left,
        right,
        rows: counts(numbers),
    };
    let mut tables = vec![
        table(
            "API calls",
            "verb, resource, code",
            "calls",
            &result.api_calls,
        ),
        table("Syncs", "outcome", "syncs", &result.syncs),
        table("Events", "type, reason", "events", &result.events),
        table("Input", "kind", "objects", &result.input.taken),
        table(
            "Pods of the input",
            "how they came",
            "pods",
            &pods_of_input(result),
        ),
        table("Not simulated", "kind", "documents", &result.input.ignored),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// How the pods of files came.
fn pods_of_input(result: &RunResult) -> BTreeMap<String, u64> {
    let pods = result.input.pods;
    let all = [
        ("ready", pods.ready),
        ("not ready", pods.not_ready),
        ("not ready, and at the end neither", pods.still_not_ready),
        ("on their way out", pods.terminating),
        ("ended", pods.ended),
    ];
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(how, count)| (how.to_owned(), count)).collect()
}

pub(super) fn settings_tables(result: &RunResult, settings: &[(String, String)]) -> Vec<Table> {
    let rows = |rows: &[(&'static str, String)]| {
        let rows = rows.iter();
        rows.map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    let mut tables = vec![
        Table {
            title: "Settings",
            left: "flag",
            right: "value",
            rows: settings.to_vec(),
        },
        Table {
            title: "Machine",
            left: "figure",
            right: "value",
            rows: rows(&machine(result)),
        },
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn counts(table: &BTreeMap<String, u64>) -> Vec<(String, String)> {
    let mut rows: Vec<(&String, &u64)> = table.iter().filter(|(_, number)| **number > 0).collect();
    // Stable: equal counts stay in the order of their names.
    rows.sort_by(|a, b| b.1.cmp(a.1));
    rows.iter()
        .map(|(name, number)| ((*name).clone(), count(**number)))
        .collect()
}

fn machine(result: &RunResult) -> Vec<(&'static str, String)> {
    let Some(host) = &result.host else {
        return Vec::new();
    };
    let load = |load: Option<[f64; 3]>| {
        load.map_or_else(
            || "unknown".to_owned(),
            |[one, five, fifteen]| format!("{one} {five} {fifteen}"),
        )
    };
    vec![
        ("wall time", seconds_for_people(host.wall_seconds)),
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
