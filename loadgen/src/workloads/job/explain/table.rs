//! Formats the explanation of a Job for the terminal.

use super::{Answer, Finding};
use crate::text::columns::columns;
use crate::workloads::explain::Layout;
use crate::workloads::replicaset::explain::table::{paragraph, rows_left_out, section};

/// Formats the whole explanation. Lines have at most `layout.width` columns, except in tables.
pub(super) fn render(answer: &Answer, layout: Layout) -> String {
    let width = usize::from(layout.width);
    let limit = layout.limit.unwrap_or(usize::MAX);
    let mut out = String::new();
    paragraph(&mut out, &headline(answer), width);
    let why = match answer.state {
        "complete" => "Why it is complete",
        "failed" => "Why it failed",
        _ => "Why it is not finished",
    };
    for (title, findings) in [
        ("The next sync", &answer.next),
        (why, &answer.why),
        ("Pods that are recreated, and when", &answer.retries),
        (
            "Failed pods, and the rule that matches each",
            &answer.failures,
        ),
    ] {
        if findings.is_empty() {
            continue;
        }
        out += &format!("\n{title}\n");
        out += &table(findings, limit);
    }
    if !answer.removals.is_empty() {
        out += &format!(
            "\nWhen the parallelism falls to {}, pods go in this order\n",
            answer.removals_to
        );
        let header = ["", "sync", "pod", "index", "rule", "before the next by"].map(str::to_owned);
        let shown = answer.removals.iter().take(limit);
        let rows = shown.map(|it| {
            let index = it.index.map_or_else(String::new, |index| index.to_string());
            let (place, sync) = (it.place.to_string(), it.sync.to_string());
            vec![
                place,
                sync,
                it.pod.clone(),
                index,
                it.rule.to_owned(),
                it.why.clone(),
            ]
        });
        out += &columns(&header, &rows.collect::<Vec<_>>(), |at| {
            ![0, 1, 3].contains(&at)
        });
        rows_left_out(&mut out, answer.removals.len(), limit);
    }
    for note in &answer.notes {
        section(&mut out, note, width);
    }
    out
}

/// Returns the headline: `Job shop/batch is running: 4 of 10 completions, parallelism 3, …`.
fn headline(answer: &Answer) -> String {
    let Answer {
        namespace,
        name,
        state,
        parallelism,
        active,
        ready,
        terminating,
        succeeded,
        failed,
        now,
        ..
    } = answer;
    let of = match answer.completions {
        Some(completions) => format!("{succeeded} of {completions} completions"),
        None => format!("{succeeded} succeeded, one suffices"),
    };
    format!(
        "Job {namespace}/{name} is {state} at {now}: {of}, {failed} failed, parallelism {parallelism}; {active} active, \
         {ready} of them ready, {terminating} on their way out."
    )
}

fn table(findings: &[Finding], limit: usize) -> String {
    let header = ["rule", "pod", "index", "time", "why"].map(str::to_owned);
    let shown = findings.iter().take(limit).map(|finding| {
        let Finding {
            rule,
            pod,
            index,
            time,
            why,
        } = finding;
        let index = index.map(|index| index.to_string());
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            rule.clone(),
            optional(pod),
            optional(&index),
            optional(time),
            why.clone(),
        ]
    });
    let mut out = columns(&header, &shown.collect::<Vec<_>>(), |at| at != 2);
    rows_left_out(&mut out, findings.len(), limit);
    out
}
