//! Formats the explanation of a drain for the terminal.

use super::{Answer, Verdict};
use crate::text::columns::columns;
use crate::workloads::explain::Layout;
use crate::workloads::explain::table::{paragraph, section};

/// Formats the whole explanation. Lines have at most `layout.width` columns, except in tables.
pub(super) fn render(answer: &Answer, layout: Layout) -> String {
    let width = usize::from(layout.width);
    let limit = layout.limit.unwrap_or(usize::MAX);
    let mut out = String::new();
    paragraph(&mut out, &headline(answer), width);
    if !answer.pods.is_empty() {
        let header = ["", "pod", "controller", "budget", "why"].map(str::to_owned);
        let rows = answer.pods.iter().take(limit).map(|it| {
            let fate = word(it.fate).to_owned();
            let pod = format!("{}/{}", it.namespace, it.name);
            let owner = it.owner.clone().unwrap_or_default();
            vec![fate, pod, owner, it.budgets.join(", "), it.why.clone()]
        });
        out.push('\n');
        out += &columns(&header, &rows.collect::<Vec<_>>(), |_| true);
        let left = answer.pods.len().saturating_sub(limit);
        if left > 0 {
            out += &format!("and {left} more: --all shows them\n");
        }
    }
    if !answer.budgets.is_empty() {
        let header =
            ["budget", "pods", "ready", "wanted", "allows", "go", "wait"].map(str::to_owned);
        let rows = answer.budgets.iter().map(|it| {
            let mut row = vec![format!("{}/{}", it.namespace, it.name)];
            let counts = [it.expected, it.healthy, it.desired, it.allowed];
            row.extend(counts.map(|count| count.to_string()));
            row.extend([it.goes, it.waits].map(|count| count.to_string()));
            row
        });
        out.push('\n');
        out += &columns(&header, &rows.collect::<Vec<_>>(), |at| at == 0);
    }
    for note in &answer.notes {
        section(&mut out, note, width);
    }
    out
}

fn word(fate: Verdict) -> &'static str {
    match fate {
        Verdict::Goes => "goes",
        Verdict::Waits => "waits",
        Verdict::Stuck => "stuck",
        Verdict::Stays => "stays",
    }
}

/// Returns the headline: `Node n1: of 5 pods 3 can go immediately, 1 must wait, …`.
fn headline(answer: &Answer) -> String {
    let count = |fate| answer.pods.iter().filter(|it| it.fate == fate).count();
    let counts = [
        (Verdict::Goes, "can go immediately"),
        (Verdict::Waits, "must wait for a budget"),
        (Verdict::Stuck, "can't go until an operator intervenes"),
        (
            Verdict::Stays,
            if count(Verdict::Stays) == 1 {
                "stays"
            } else {
                "stay"
            },
        ),
    ];
    let some = counts.into_iter().filter(|(fate, _)| count(*fate) > 0);
    let words: Vec<String> = some
        .map(|(fate, words)| format!("{} {words}", count(fate)))
        .collect();
    let node = &answer.node;
    let cordon = if answer.is_cordoned {
        ", which is cordoned"
    } else {
        ""
    };
    match words.is_empty() {
        true => format!("Node {node}{cordon} has no pods."),
        false => format!(
            "Node {node}{cordon} has {} pods: {}.",
            answer.pods.len(),
            words.join(", ")
        ),
    }
}
