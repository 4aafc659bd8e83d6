//! Formats the explanation of a rollout for the terminal.

use super::{ExplainedStep, Rollout};
use crate::text::columns::columns;
use crate::workloads::replicaset::explain::table::paragraph;
use crate::workloads::replicaset::explain::words::counted;

/// Formats the whole explanation, in lines of at most `width` columns. With `wide`, includes the
/// requests that change no size.
pub(crate) fn render(rollout: &Rollout, wide: bool, width: u16) -> String {
    let width = usize::from(width);
    let mut out = String::new();
    paragraph(&mut out, &headline(rollout), width);
    for problem in &rollout.problems {
        paragraph(&mut out, problem, width);
    }
    out.push('\n');
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut number, mut told) = (0, 0);
    for step in &rollout.steps {
        match step {
            ExplainedStep::Waits(until) => {
                // Two waits may follow each other without a visible sync between them.
                rows.push(vec![
                    String::new(),
                    String::new(),
                    String::new(),
                    until.clone(),
                ]);
            }
            ExplainedStep::Sync(asked) => {
                number += 1;
                for asked in asked {
                    let pods = match asked.replicas {
                        Some((from, to)) => format!("{from} -> {to}"),
                        None if wide => String::new(),
                        None => {
                            told += 1;
                            continue;
                        }
                    };
                    let what = match wide {
                        true => format!("{} {}", asked.request, asked.name),
                        false => asked.name.clone(),
                    };
                    rows.push(vec![number.to_string(), what, pods, asked.why.clone()]);
                }
            }
        }
    }
    if rows.is_empty() {
        paragraph(&mut out, "No sync changes the size of a ReplicaSet.", width);
    } else {
        let header = [
            "sync",
            if wide { "request" } else { "ReplicaSet" },
            "pods",
            "why",
        ];
        let header = header.map(str::to_owned);
        out += &columns(&header, &rows, |at| at != 0);
    }
    out.push('\n');
    if told > 0 {
        let writes = counted(told, "write");
        let text =
            format!("In addition: {writes} of the status and of annotations, shown by -o wide.");
        paragraph(&mut out, &text, width);
    }
    let end = format!("In the end: {}", rollout.end);
    paragraph(&mut out, &end, width);
    out
}

/// Returns the headline: `Deployment shop/web: 10 pods wanted, at most 13 in all (maxSurge 3), at
/// least 8 available …`.
fn headline(rollout: &Rollout) -> String {
    let Rollout {
        namespace,
        name,
        replicas,
        max_surge,
        max_unavailable,
        ..
    } = rollout;
    let limits = match &*rollout.strategy {
        "RollingUpdate" => format!(
            "at most {} in all (maxSurge {max_surge}), at least {} available (maxUnavailable \
             {max_unavailable})",
            replicas + max_surge,
            replicas - max_unavailable
        ),
        other => format!("strategy {other}"),
    };
    let paused = match rollout.paused {
        true => " It is paused: only a change of its size has an effect.",
        false => "",
    };
    format!("Deployment {namespace}/{name}: {replicas} pods wanted, {limits}.{paused}")
}
