//! Formats the explanation of a StatefulSet for the terminal.

use super::Answer;
use crate::text::columns::columns;
use crate::units::counted;
use crate::workloads::explain::Layout;
use crate::workloads::replicaset::explain::table::{paragraph, rows_left_out, section};

/// Formats the whole explanation. Lines have at most `layout.width` columns, except in tables. Only
/// wide tables contain statuses and revisions.
pub(super) fn render(answer: &Answer, layout: Layout) -> String {
    let width = usize::from(layout.width);
    let limit = layout.limit.unwrap_or(usize::MAX);
    let mut out = String::new();
    paragraph(&mut out, &headline(answer), width);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, asked) in answer.syncs.iter().enumerate() {
        let told = |request: &str| {
            request.ends_with(" pods") || request.contains("persistentvolumeclaims")
        };
        let shown = asked.iter().filter(|it| layout.wide || told(&it.request));
        rows.extend(shown.map(|it| {
            let number = (number + 1).to_string();
            vec![number, it.request.clone(), it.name.clone(), it.why.clone()]
        }));
    }
    if rows.is_empty() {
        let text = "No sync creates, changes or deletes a pod or claim.";
        section(&mut out, text, width);
    } else {
        out.push('\n');
        let header = ["sync", "request", "name", "why"].map(str::to_owned);
        let shown = &rows[..limit.min(rows.len())];
        out += &columns(&header, shown, |at| at != 0);
        rows_left_out(&mut out, rows.len(), limit);
    }
    if let Some(failure) = &answer.failure {
        section(&mut out, &format!("The last sync fails: {failure}"), width);
    }
    for wait in &answer.waits {
        let text = format!("Then it waits for {}: {}.", wait.pod, wait.why);
        section(&mut out, &text, width);
    }
    for note in &answer.notes {
        section(&mut out, note, width);
    }
    let rollout = format!("kubectl rollout status: {}", answer.rollout);
    section(&mut out, &rollout, width);
    out
}

/// Returns the headline: `StatefulSet shop/web is stuck: 3 replicas wanted, 3 pods, 2 of them
/// ready; OrderedReady, RollingUpdate, partition 0.`
fn headline(answer: &Answer) -> String {
    let Answer {
        namespace,
        name,
        state,
        replicas,
        pods,
        ready,
        pod_management,
        strategy,
        partition,
        ..
    } = answer;
    let count = |number: i64, what: &str| counted(u64::try_from(number).unwrap_or(0), what);
    format!(
        "StatefulSet {namespace}/{name} is {state}: {} wanted, {}, {ready} of them ready; {pod_management}, {strategy}, \
         partition {partition}.",
        count(*replicas, "replica"),
        count(*pods, "pod"),
    )
}
