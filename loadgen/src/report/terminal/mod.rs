//! The terminal report: one screen of aligned text, with the verdict first.

use std::collections::BTreeMap;
use std::fmt::Write;

use podstorm_sim::rows::Rows;

use crate::report::{brake, engine_text, workers_text};
use crate::result::{EventWriterCounts, Host, Quantiles, RunResult};
use crate::settings::{EngineKind, Latency, Settings};
use crate::units::{
    bytes_for_people, count_for_people as count, counted, cut, latency_text, number_for_people,
    seconds_for_people, wrapped,
};
use crate::workloads::{self, Workload};

/// The width of the labels.
const LABEL: usize = 15;

/// The width of a report without a terminal, which is also the maximum width.
pub const COLUMNS: usize = 100;

/// The minimum width of the tables.
const COLUMNS_MIN: usize = 80;

/// The width of the numbers after a phase's name, including the mark of an unfinished phase.
const PHASE_METRICS: usize = 65;

/// The minimum width of a phase's name.
const PHASE_NAME: usize = 24;

/// The maximum number of violations to show; the result contains all of them.
const VIOLATIONS_SHOWN: usize = 5;

/// The maximum number of incomplete rollouts to show; the result contains more.
const ROLLOUTS_SHOWN: usize = 3;

/// Writes a line without trailing spaces.
macro_rules! put {
    ($out:expr, $($format:tt)*) => {{
        let text = &mut $out.text;
        write!(text, $($format)*).expect("writing to a String does not fail");
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }};
}

/// Returns the width of a report for a terminal of this width, clamped to the supported range;
/// [`COLUMNS`] if the width is unknown.
pub fn columns(terminal: Option<usize>) -> usize {
    terminal.unwrap_or(COLUMNS).clamp(COLUMNS_MIN, COLUMNS)
}

/// Renders the report of a run. `host` is shown even if the result does not contain it. `command`
/// returns the command for the same run with other settings. `written` lists the files that were
/// written, each with its flag.
pub fn render(
    result: &RunResult,
    host: Option<&Host>,
    command: &dyn Fn(&Settings) -> String,
    written: &[(&'static str, String)],
    columns: usize,
) -> String {
    let mut out = Report {
        text: String::with_capacity(4096),
        columns,
    };
    let out = &mut out;
    headline(out, result);
    paragraph(out, "question", &result.question);
    match &result.answer {
        Some(answer) => paragraph(out, "answer", answer),
        None if !result.outcome.converged => {
            let success = &result.settings.scenario.success;
            paragraph(out, "answer", &format!("none. Expected: {success}"));
        }
        None => {}
    }
    for (number, other) in result.alternatives.iter().enumerate() {
        paragraph(
            out,
            if number == 0 { "with" } else { "" },
            &other.in_words(),
        );
    }
    if let Some(host) = host {
        paragraph(out, "this machine", &host_text(host));
    }
    cluster(out, result);
    out.text.push('\n');
    phases(out, result);
    distributions(out, result);
    out.text.push('\n');
    pods(out, result);
    list(out, "API calls", &result.api_calls);
    list(out, "syncs", &result.syncs);
    paragraph(out, "wasted work", &wasted(result));
    if let Some(finished) = result.finished.in_words() {
        paragraph(out, "ended", &finished);
    }
    if !result.events.is_empty() {
        let EventWriterCounts { written, dropped } = result.event_writer;
        let writer = format!("; {} written, {} dropped", count(written), count(dropped));
        let listed = listed(&result.events, capacity(out));
        paragraph(out, "events", &(listed + &writer));
    }
    let versions = format!(
        "{}, resource version {}",
        counted(result.watch_events, "watch event"),
        count(result.resource_version)
    );
    line(out, "server", &versions);
    input(out, result);
    thresholds(out, result);
    if let Some(note) = brake::note(result) {
        paragraph(out, "note", &note);
    }
    files(out, written);
    verdict(out, result, command);
    if result.settings.scenario.name == "stale-watch" && result.settings.scenario.path.is_none() {
        out.text.push('\n');
        let told = super::stale_watch::explanation(result, command);
        for (label, text) in told.paragraphs {
            paragraph(out, label, &text);
        }
        line(out, "try next", "");
        for command in told.commands {
            put!(out, "    {command}");
        }
    }
    std::mem::take(&mut out.text)
}

/// The text of the report so far, and the width of the report.
struct Report {
    text: String,
    columns: usize,
}

fn headline(out: &mut Report, result: &RunResult) {
    let settings = &result.settings;
    let engine = engine_text(settings);
    let time = seconds_for_people(result.elapsed_seconds);
    let ending = match (result.outcome.exit_code, result.outcome.converged) {
        (0, true) => format!("converged in {time}"),
        (0, false) => format!("done in {time}"),
        (1, true) => format!("FAILED: threshold not met (converged in {time})"),
        (130, _) => format!("interrupted after {time}"),
        (3, _) => format!("INVARIANT BROKEN within {time}"),
        _ => format!("FAILED after {time}"),
    };
    let simulated = match settings.engine {
        EngineKind::Virtual => " of simulated time",
        EngineKind::Threads => "",
    };
    put!(out, "{}: {ending}{simulated}", result.scenario);
    put!(out, "{:LABEL$}{engine}, seed {}", "", settings.seed);
}

fn cluster(out: &mut Report, result: &RunResult) {
    let settings = &result.settings;
    let size = &settings.size;
    let taken = &result.input.taken;
    let wanted = if taken.is_empty() { "" } else { " wanted" };
    let nodes = match (taken.get("Node").copied().unwrap_or(0), size.nodes) {
        (own, 0) => counted(own, "node"),
        (0, nodes) if taken.is_empty() => counted(nodes, "node"),
        (0, nodes) => counted(nodes, "generated node"),
        (own, nodes) => format!(
            "{} and {} generated ones",
            counted(own, "node"),
            count(nodes)
        ),
    };
    let text = format!(
        "{}{wanted}, {}, {nodes}, {}",
        counted(size.pods, "pod"),
        workloads_of(result),
        counted(size.namespaces, "namespace")
    );
    paragraph(out, "cluster", &text);
    let controller = &settings.controller;
    let limit = match controller.kube_api_qps {
        Some(qps) => {
            let (qps, burst) = (number_for_people(qps), controller.kube_api_burst);
            let each = match controllers(result) {
                1 => String::new(),
                count => format!(" for each of {count} controllers"),
            };
            format!("{qps} QPS, burst {burst}{each}")
        }
        None => "no client limit".to_owned(),
    };
    let text = format!(
        "{}, {} per sync, {limit}, {} behaviour",
        workers_text(&controller.workers),
        counted(u64::from(controller.burst_replicas), "pod"),
        result.behaviour
    );
    paragraph(out, "controller", &text);
    let known = Rows::installed().gates();
    for (label, wanted) in [("gates off", false), ("gates on", true)] {
        let is_default = |name: &str| known.get(name).is_none_or(|gate| gate.default) == wanted;
        let gates = controller.feature_gates.iter();
        let changed = gates.filter(|(name, on)| **on == wanted && !is_default(name));
        let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
        if !changed.is_empty() {
            paragraph(out, label, &changed.join(", "));
        }
    }
    let latencies = latencies(result);
    if !latencies.is_empty() {
        paragraph(out, "latencies", &latencies.join(", "));
    }
}

/// Returns the number of controllers in the run. Each has its own client, as in
/// kube-controller-manager, and therefore its own limit.
fn controllers(result: &RunResult) -> usize {
    let taken = |kind: &str| result.input.taken.get(kind).is_some_and(|count| *count > 0);
    let runs =
        |workload: &Workload| result.settings.generates(*workload) || taken(workload.kind().name());
    workloads::ALL.into_iter().filter(runs).count()
}

/// Describes the objects that the controllers work on: the generated ones, or those of the files.
fn workloads_of(result: &RunResult) -> String {
    let is_generated = result.input.taken.is_empty();
    let size = &result.settings.size;
    let is_mixed = result.settings.scenario.is_mixed();
    if is_generated && (is_mixed || !size.sized().all(|it| it.is_in_every_run())) {
        return size.in_words();
    }
    workloads::owners_in_words(|kind| match is_generated {
        true if workloads::for_kind(kind).is_some_and(|it| result.settings.generates(it)) => {
            result.settings.size.workloads()
        }
        _ => result.input.taken.get(kind.name()).copied().unwrap_or(0),
    })
}

fn latencies(result: &RunResult) -> Vec<String> {
    let latency = &result.settings.latency;
    let all: [(&str, Latency); 5] = [
        ("api", latency.api),
        ("watch", latency.watch),
        ("scheduling", latency.scheduling),
        ("startup", latency.pod_startup),
        ("termination", latency.pod_termination),
    ];
    let set = all.iter().filter(|(_, latency)| !latency.is_zero());
    set.map(|(name, latency)| format!("{name} {}", latency_text(*latency)))
        .collect()
}

fn phases(out: &mut Report, result: &RunResult) {
    if result.phases.is_empty() {
        return;
    }
    let lengths = result.phases.iter().map(|phase| phase.name.chars().count());
    let capacity = out.columns - PHASE_METRICS;
    let width = lengths.max().unwrap_or(0).max(PHASE_NAME).min(capacity);
    // The rate counts creations and deletions together.
    put!(
        out,
        "  {:width$} {:>11} {:>9} {:>9} {:>9} {:>10}",
        "phase",
        "time",
        "created",
        "deleted",
        "both/s",
        "conv. p99"
    );
    for phase in &result.phases {
        let moved = phase.pods_created + phase.pods_deleted;
        let rate = match phase.seconds > 0.0 && moved > 0 {
            true => number_for_people(moved as f64 / phase.seconds),
            false => "-".to_owned(),
        };
        let quantiles = &phase.convergence_seconds;
        let convergence = match (quantiles.count, phase.set_up) {
            (0, _) => "-".to_owned(),
            // Parentheses mark a value that is not part of the total.
            (_, true) => format!("({})", duration(quantiles.p99)),
            (_, false) => duration(quantiles.p99),
        };
        let mark = if phase.converged { "" } else { "  not done" };
        put!(
            out,
            "  {:width$} {:>11} {:>9} {:>9} {rate:>9} {convergence:>10}{mark}",
            cut(&phase.name, width),
            seconds_for_people(phase.seconds),
            count(phase.pods_created),
            count(phase.pods_deleted)
        );
    }
    out.text.push('\n');
}

fn distributions(out: &mut Report, result: &RunResult) {
    let rows: [(&str, &Quantiles); 6] = [
        ("convergence", &result.convergence_seconds),
        ("pod ready", &result.pod_ready_seconds),
        ("rollout", &result.rollout_seconds),
        ("finish", &result.finish_seconds),
        ("queue wait", &result.queue_duration_seconds),
        ("sync work", &result.work_duration_seconds),
    ];
    if rows.iter().all(|(_, quantiles)| quantiles.count == 0) {
        return;
    }
    let without = match result.phases.iter().any(|phase| phase.set_up) {
        true => "no set-up",
        false => "",
    };
    put!(
        out,
        "  {without:12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "count"
    );
    for (name, q) in rows.iter().filter(|(_, quantiles)| quantiles.count > 0) {
        let [p50, p90, p99, p999, max] = [q.p50, q.p90, q.p99, q.p999, q.max].map(duration);
        put!(
            out,
            "  {name:12} {p50:>10} {p90:>10} {p99:>10} {p999:>10} {max:>10} {:>10}",
            count(q.count)
        );
    }
}

/// Formats a duration. A nanosecond counts as zero, because it is the minimum of the histograms.
fn duration(seconds: f64) -> String {
    seconds_for_people(if seconds <= 1e-9 { 0.0 } else { seconds })
}

fn pods(out: &mut Report, result: &RunResult) {
    let pods = &result.pods;
    let mut text = format!(
        "{} created, {} bound, {} ready, {} deleted, peak {}",
        count(pods.created),
        count(pods.bound),
        count(pods.ready),
        count(pods.deleted),
        count(pods.peak)
    );
    if pods.adopted + pods.released > 0 {
        let moved = format!(
            ", {} adopted, {} released",
            count(pods.adopted),
            count(pods.released)
        );
        text.push_str(&moved);
    }
    paragraph(out, "pods", &text);
    line(
        out,
        "excess pods",
        &format!("{} created", count(result.excess_pods_created)),
    );
}

fn wasted(result: &RunResult) -> String {
    let wasted = &result.wasted_work;
    let all = [
        (wasted.syncs_without_requests, "sync", " without a request"),
        (wasted.stale_sync_skips, "stale sync", " skipped"),
        (wasted.deletes_not_found, "delete", " not found"),
        (wasted.status_conflicts, "status conflict", ""),
        (
            wasted.pods_never_ready,
            "pod",
            " removed before they were ready",
        ),
    ];
    let some: Vec<String> = all
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, noun, what)| format!("{}{what}", counted(*number, noun)))
        .collect();
    match some.is_empty() {
        true => "none".to_owned(),
        false => some.join(", "),
    }
}

fn input(out: &mut Report, result: &RunResult) {
    if !result.input.taken.is_empty() {
        list(out, "input", &result.input.taken);
    }
    let pods = result.input.pods.in_words();
    if !pods.is_empty() {
        line(out, "pods came", &pods);
    }
    for (number, text) in result
        .incomplete_rollouts
        .lines(ROLLOUTS_SHOWN)
        .iter()
        .enumerate()
    {
        paragraph(out, if number == 0 { "rollouts" } else { "" }, text);
    }
    if !result.input.ignored.is_empty() {
        let listed = listed(&result.input.ignored, capacity(out));
        paragraph(out, "left out", &format!("{listed} (not simulated)"));
    }
}

/// Writes each threshold with its measured value.
fn thresholds(out: &mut Report, result: &RunResult) {
    for (number, outcome) in result.thresholds.iter().enumerate() {
        let verdict = if outcome.met { "met" } else { "NOT MET" };
        let text = format!("{verdict}: {} ({})", outcome.threshold, outcome.seen());
        paragraph(out, if number == 0 { "thresholds" } else { "" }, &text);
    }
}

fn host_text(host: &Host) -> String {
    let mut text = format!("{} wall", seconds_for_people(host.wall_seconds));
    if host.load_seconds > 0.0 {
        let load = seconds_for_people(host.load_seconds);
        text.push_str(&format!(" ({load} to read files)"));
    }
    if host.peak_memory_bytes > 0 {
        text.push_str(&format!(
            ", {} CPU, {} peak memory, {} pod writes/s",
            seconds_for_people(host.cpu_seconds),
            bytes_for_people(host.peak_memory_bytes),
            number_for_people(host.pods_per_second)
        ));
    }
    text
}

/// Writes the names of the files, as many per line as fit.
fn files(out: &mut Report, written: &[(&'static str, String)]) {
    let names: Vec<&str> = written.iter().map(|(_, path)| path.as_str()).collect();
    if !names.is_empty() {
        paragraph(out, "written", &names.join("  "));
    }
}

fn verdict(out: &mut Report, result: &RunResult, command: &dyn Fn(&Settings) -> String) {
    let outcome = &result.outcome;
    if outcome.exit_code == 0 && outcome.violations.is_empty() {
        return;
    }
    out.text.push('\n');
    for one in wrapped(&outcome.reason, out.columns) {
        put!(out, "{one}");
    }
    for violation in outcome.violations.iter().take(VIOLATIONS_SHOWN) {
        put!(out, "  broken: {violation}");
    }
    if outcome.violations.len() > VIOLATIONS_SHOWN {
        let more = outcome.violations.len() - VIOLATIONS_SHOWN;
        put!(out, "  and {} more in the result", count(more as u64));
    }
    if outcome.exit_code == 3 {
        let replay = command(&result.settings);
        put!(out, "seed {}; to run it again: {replay}", result.seed);
    }
}

/// Writes the largest counts by name, `create pods 201: 100,000`, as many as fit on a line, and the
/// number of the remaining ones: `and 3 smaller counts`.
fn list(out: &mut Report, label: &str, counts: &BTreeMap<String, u64>) {
    let listed = listed(counts, capacity(out));
    line(out, label, &listed);
}

fn capacity(out: &Report) -> usize {
    out.columns - LABEL - ", and 99 smaller counts".len()
}

fn listed(counts: &BTreeMap<String, u64>, capacity: usize) -> String {
    let mut entries: Vec<(&String, &u64)> = counts.iter().filter(|(_, n)| **n > 0).collect();
    // The sort is stable: entries with equal counts stay in the order of their names.
    entries.sort_by(|a, b| b.1.cmp(a.1));
    let mut text = String::new();
    for (at, (name, n)) in entries.iter().enumerate() {
        let entry = format!("{name}: {}", count(**n));
        if at > 0 && text.len() + ", ".len() + entry.len() > capacity {
            let left = (entries.len() - at) as u64;
            text.push_str(&format!(", and {}", counted(left, "smaller count")));
            break;
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&entry);
    }
    match text.is_empty() {
        true => "none".to_owned(),
        false => text,
    }
}

fn line(out: &mut Report, label: &str, text: &str) {
    let width = LABEL - 2;
    put!(out, "  {label:width$}{text}");
}

/// Writes a paragraph beside its label, on as many lines as needed.
fn paragraph(out: &mut Report, label: &str, text: &str) {
    for (number, one) in wrapped(text, out.columns - LABEL).iter().enumerate() {
        line(out, if number == 0 { label } else { "" }, one);
    }
}

#[cfg(test)]
mod tests;
