//! The report for people: one screen, aligned, the verdict first.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::result::{Host, Quantiles, RunResult};
use crate::settings::{EngineKind, Latency, Settings};
use crate::units::{
    bytes_for_people, count_for_people as count, latency_text, number_for_people,
    seconds_for_people, wrapped,
};

/// Columns before the figures.
const LABEL: usize = 15;

/// Columns of a list of counts, so that a line stays within 100.
const LISTED_WIDTH: usize = 72;

/// Columns of the longest name of a phase, so that a line stays within 100.
const LONGEST_PHASE: usize = 46;

/// Most violations shown; the result has them all.
const VIOLATIONS_SHOWN: usize = 5;

/// The report of a run; `host` is shown whether or not the result carries it, `command` gives the
/// command that runs the same with such settings, `written` are the files it left, each with its flag.
pub fn render(
    result: &RunResult,
    host: Option<&Host>,
    command: &dyn Fn(&Settings) -> String,
    written: &[(&'static str, String)],
) -> String {
    let mut out = String::with_capacity(4096);
    headline(&mut out, result);
    paragraph(&mut out, "question", &result.question);
    if let Some(answer) = &result.answer {
        paragraph(&mut out, "answer", answer);
    }
    cluster(&mut out, result);
    out.push('\n');
    phases(&mut out, result);
    distributions(&mut out, result);
    out.push('\n');
    pods(&mut out, result);
    line(&mut out, "API calls", &listed(&result.api_calls));
    line(&mut out, "syncs", &listed(&result.syncs));
    line(&mut out, "wasted work", &wasted(result));
    if !result.events.is_empty() {
        line(&mut out, "events", &listed(&result.events));
    }
    let versions = format!(
        "{} watch events, resource version {}",
        count(result.watch_events),
        count(result.resource_version)
    );
    line(&mut out, "server", &versions);
    input(&mut out, result);
    thresholds(&mut out, result);
    if let Some(host) = host {
        line(&mut out, "host", &host_text(host));
    }
    if let Some(note) = pace(result) {
        line(&mut out, "note", &note);
    }
    files(&mut out, written);
    verdict(&mut out, result, command);
    if result.settings.scenario.name == "stale-watch" && result.settings.scenario.path.is_none() {
        out.push('\n');
        let told = super::stale_watch::explanation(result, command);
        for (label, text) in told.paragraphs {
            paragraph(&mut out, label, &text);
        }
        line(&mut out, "try next", "");
        for command in told.commands {
            put(&mut out, format_args!("    {command}"));
        }
    }
    out
}

fn headline(out: &mut String, result: &RunResult) {
    let settings = &result.settings;
    let engine = match settings.engine {
        EngineKind::Threads => format!("threads engine, {} threads", settings.threads),
        EngineKind::Virtual => "virtual engine".to_owned(),
    };
    let time = seconds_for_people(result.elapsed_seconds);
    let ending = match (result.outcome.exit_code, result.outcome.converged) {
        (0, true) => format!("converged in {time}"),
        (0, false) => format!("done in {time}"),
        (1, true) => format!("NOT AS WANTED, though converged in {time}"),
        (130, _) => format!("interrupted after {time}"),
        (3, _) => format!("INVARIANT BROKEN within {time}"),
        _ => format!("FAILED after {time}"),
    };
    let simulated = if settings.engine == EngineKind::Virtual {
        " of simulated time"
    } else {
        ""
    };
    put(
        out,
        format_args!("{}: {ending}{simulated}", result.scenario),
    );
    put(
        out,
        format_args!("{:LABEL$}{engine}, seed {}", "", settings.seed),
    );
}

fn cluster(out: &mut String, result: &RunResult) {
    let settings = &result.settings;
    let size = &settings.size;
    let taken = &result.input.taken;
    let wanted = if taken.is_empty() { "" } else { " wanted" };
    let owners = match taken.contains_key("ReplicationController") {
        true => "ReplicaSets and ReplicationControllers",
        false => "ReplicaSets",
    };
    let nodes = match (taken.get("Node").copied().unwrap_or(0), size.nodes) {
        (own, 0) => format!("{} nodes", count(own)),
        (0, nodes) if taken.is_empty() => format!("{} nodes", count(nodes)),
        (0, nodes) => format!("{} generated nodes", count(nodes)),
        (own, nodes) => format!("{} nodes and {} generated ones", count(own), count(nodes)),
    };
    let text = format!(
        "{} pods{wanted}, {} {owners}, {nodes}, {} namespaces",
        count(size.pods),
        count(size.replicasets),
        count(size.namespaces)
    );
    line(out, "cluster", &text);
    let controller = &settings.controller;
    let limit = match controller.kube_api_qps {
        Some(qps) => format!(
            "{} QPS, burst {}",
            number_for_people(qps),
            controller.kube_api_burst
        ),
        None => "no client limit".to_owned(),
    };
    let text = format!(
        "{} workers, {} per sync, {limit}, {} behaviour",
        controller.concurrent_replicaset_syncs, controller.burst_replicas, result.behaviour
    );
    line(out, "controller", &text);
    let off: Vec<&str> = controller
        .feature_gates
        .iter()
        .filter(|(_, on)| !**on)
        .map(|(name, _)| name.as_str())
        .collect();
    if !off.is_empty() {
        line(out, "gates off", &off.join(", "));
    }
    let latencies = latencies(result);
    if !latencies.is_empty() {
        line(out, "latencies", &latencies.join("  "));
    }
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

/// As much of a text as so many columns hold.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let start: String = text.chars().take(columns - 1).collect();
    format!("{}…", start.trim_end())
}

fn phases(out: &mut String, result: &RunResult) {
    if result.phases.is_empty() {
        return;
    }
    let longest = result
        .phases
        .iter()
        .map(|phase| phase.name.chars().count())
        .max();
    let width = longest.unwrap_or(0).clamp(24, LONGEST_PHASE);
    put(
        out,
        format_args!(
            "  {:width$} {:>12} {:>12} {:>12} {:>12}",
            "phase", "time", "created", "deleted", "pods/s"
        ),
    );
    for phase in &result.phases {
        let moved = phase.pods_created + phase.pods_deleted;
        let rate = if phase.seconds > 0.0 && moved > 0 {
            number_for_people(moved as f64 / phase.seconds)
        } else {
            "-".to_owned()
        };
        let mark = if phase.converged { "" } else { "  not done" };
        put(
            out,
            format_args!(
                "  {:width$} {:>12} {:>12} {:>12} {rate:>12}{mark}",
                cut(&phase.name, width),
                seconds_for_people(phase.seconds),
                count(phase.pods_created),
                count(phase.pods_deleted),
            ),
        );
    }
    out.push('\n');
}

fn distributions(out: &mut String, result: &RunResult) {
    let rows: [(&str, &Quantiles); 4] = [
        ("convergence", &result.convergence_seconds),
        ("pod ready", &result.pod_ready_seconds),
        ("queue wait", &result.queue_duration_seconds),
        ("sync work", &result.work_duration_seconds),
    ];
    put(
        out,
        format_args!(
            "  {:13} {:>11} {:>11} {:>11} {:>11} {:>11} {:>12}",
            "", "p50", "p90", "p99", "p99.9", "max", "count"
        ),
    );
    for (name, q) in rows.iter().filter(|(_, quantiles)| quantiles.count > 0) {
        // A nanosecond is the least that the histograms hold: it stands for no time at all.
        let text = |seconds: f64| seconds_for_people(if seconds <= 1e-9 { 0.0 } else { seconds });
        let [p50, p90, p99, p999, max] = [q.p50, q.p90, q.p99, q.p999, q.max].map(text);
        put(
            out,
            format_args!(
                "  {name:13} {p50:>11} {p90:>11} {p99:>11} {p999:>11} {max:>11} {:>12}",
                count(q.count)
            ),
        );
    }
}

fn pods(out: &mut String, result: &RunResult) {
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
    line(out, "pods", &text);
    line(
        out,
        "excess pods",
        &format!("{} created", count(result.excess_pods_created)),
    );
}

fn wasted(result: &RunResult) -> String {
    let wasted = &result.wasted_work;
    let all = [
        (wasted.syncs_without_requests, "syncs without a request"),
        (wasted.stale_sync_skips, "stale syncs skipped"),
        (wasted.deletes_not_found, "deletes not found"),
        (wasted.status_conflicts, "status conflicts"),
        (wasted.surplus_pods, "surplus pods"),
    ];
    let some: Vec<String> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(*number)))
        .collect();
    if some.is_empty() {
        "none".to_owned()
    } else {
        some.join(", ")
    }
}

fn input(out: &mut String, result: &RunResult) {
    if !result.input.taken.is_empty() {
        line(out, "input", &listed(&result.input.taken));
    }
    let pods = result.input.pods.in_words();
    if !pods.is_empty() {
        line(out, "pods came", &pods);
    }
    if !result.input.ignored.is_empty() {
        line(
            out,
            "left out",
            &format!("{} (not simulated)", listed(&result.input.ignored)),
        );
    }
}

/// Each threshold with the value seen.
fn thresholds(out: &mut String, result: &RunResult) {
    for (number, outcome) in result.thresholds.iter().enumerate() {
        let verdict = if outcome.met { "met" } else { "NOT MET" };
        let text = format!("{verdict}: {} ({})", outcome.threshold, outcome.seen());
        line(out, if number == 0 { "thresholds" } else { "" }, &text);
    }
}

fn host_text(host: &Host) -> String {
    let mut text = format!(
        "{} wall, {} CPU, {} peak memory, {} pod writes/s",
        seconds_for_people(host.wall_seconds),
        seconds_for_people(host.cpu_seconds),
        bytes_for_people(host.peak_memory_bytes),
        number_for_people(host.pods_per_second)
    );
    if host.peak_memory_bytes == 0 {
        text = format!("{} wall", seconds_for_people(host.wall_seconds));
    }
    text
}

/// The files, as many on a line as fit.
fn files(out: &mut String, written: &[(&'static str, String)]) {
    let names: Vec<&str> = written.iter().map(|(_, path)| path.as_str()).collect();
    if !names.is_empty() {
        paragraph(out, "written", &names.join("  "));
    }
}

/// Says when a setting, and not the core, set the pace.
fn pace(result: &RunResult) -> Option<String> {
    let settings = &result.settings;
    let calls: u64 = result.api_calls.values().sum();
    if let Some(qps) = settings.controller.kube_api_qps
        && result.elapsed_seconds > 0.0
        && calls as f64 / result.elapsed_seconds > 0.8 * qps
    {
        return Some(format!(
            "the client limit of {} QPS set the pace, not the core",
            number_for_people(qps)
        ));
    }
    let set = !latencies(result).is_empty() || settings.min_ready_seconds > 0;
    set.then(|| "times include the latencies asked for, they are not the core's alone".to_owned())
}

fn verdict(out: &mut String, result: &RunResult, command: &dyn Fn(&Settings) -> String) {
    let outcome = &result.outcome;
    if outcome.exit_code == 0 && outcome.violations.is_empty() {
        return;
    }
    out.push('\n');
    if !outcome.reason.is_empty() {
        put(out, format_args!("{}", outcome.reason));
    }
    for violation in outcome.violations.iter().take(VIOLATIONS_SHOWN) {
        put(out, format_args!("  broken: {violation}"));
    }
    if outcome.violations.len() > VIOLATIONS_SHOWN {
        let more = outcome.violations.len() - VIOLATIONS_SHOWN;
        put(
            out,
            format_args!("  and {} more in the result", count(more as u64)),
        );
    }
    if outcome.exit_code == 3 {
        let replay = command(&result.settings);
        put(
            out,
            format_args!("seed {}; to run it again: {replay}", result.seed),
        );
    }
}

/// The largest entries of a count by name, `create pods 201: 100,000`, as many as a line takes,
/// and how many are left.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let mut entries: Vec<(&String, &u64)> = counts.iter().filter(|(_, n)| **n > 0).collect();
    // Stable: equal counts stay in the order of their names.
    entries.sort_by(|a, b| b.1.cmp(a.1));
    let mut text = String::new();
    for (at, (name, n)) in entries.iter().enumerate() {
        let entry = format!("{name}: {}", count(**n));
        if at > 0 && text.len() + entry.len() > LISTED_WIDTH {
            text.push_str(&format!(", {} more", entries.len() - at));
            break;
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&entry);
    }
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}

fn line(out: &mut String, label: &str, text: &str) {
    let width = LABEL - 2;
    put(out, format_args!("  {label:width$}{text}"));
}

/// A text over as many lines as it takes, beside its label.
fn paragraph(out: &mut String, label: &str, text: &str) {
    for (number, one) in wrapped(text, 100 - LABEL).iter().enumerate() {
        line(out, if number == 0 { label } else { "" }, one);
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
    // Columns may end in blanks.
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::result;

    #[test]
    fn the_report_fits_one_screen() {
        let text = render(
            &result(),
            Some(&Host::default()),
            &|_| "loadgen run".to_owned(),
            &[("--json", "result.json".into())],
        );
        assert!(text.starts_with("up-down: converged in 1.25 s\n"), "{text}");
        assert!(text.lines().count() <= 24, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
        assert!(text.contains("create pods 201: 100,000"), "{text}");
        assert!(!text.contains("note"), "{text}");
        assert!(text.contains("  written      result.json\n"), "{text}");
    }

    #[test]
    fn a_broken_invariant_comes_with_the_command_that_repeats_it() {
        let mut result = result();
        result.outcome.exit_code = 3;
        result.outcome.violations = vec!["too many pods".into(); 7];
        let command = |_: &Settings| "loadgen run --seed 1".to_owned();
        let text = render(&result, Some(&Host::default()), &command, &[]);
        assert!(text.contains("INVARIANT BROKEN"), "{text}");
        assert!(
            text.contains("to run it again: loadgen run --seed 1"),
            "{text}"
        );
        assert!(text.contains("and 2 more"), "{text}");
    }

    #[test]
    fn a_client_limit_that_set_the_pace_is_told() {
        let mut result = result();
        result.settings.controller.kube_api_qps = Some(20.0);
        result.elapsed_seconds = 5_000.0;
        assert!(pace(&result).unwrap().contains("20 QPS"));
        result.elapsed_seconds = 500_000.0;
        assert_eq!(pace(&result), None);
    }
}
