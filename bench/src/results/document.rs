//! `bench/TARGETS.md`: the performance targets as a page, generated from `targets.toml`.

use std::fmt::Write as _;

use super::targets::{Section, Target};

const HEADER: &str = "\
# Performance targets

Generated from [targets.toml](targets.toml) by `cargo run -p podstorm-bench --bin targets -- --document`; a
test fails if this page is out of date. Measured results: [results/targets.md](results/targets.md).

\"Upstream\" is the code of the Kubernetes 1.36.2 ReplicaSet controller, measured on a two-core virtual machine
(AMD EPYC, Zen 4): medians, one thread unless stated otherwise. \"Target\" is for the same work on such a machine,
in a release build; \"raised\" is a stricter target, set after the first one was met. Absolute times change with
the machine and its load: judge by the ratio, and gate on instructions and allocations. \"Limit\" is the physical
limit for any program: bytes that must move, operations that must be done.

The timed work is: ranking, from cached pods (the cache keeps their ranking fields) to the chosen set; an
expectation cycle with a dense key; a queue cycle, including its metrics; a handled event, from the cache's
delta to the queue; a sync, from the key to its last request, with immediate answers. Ranking input: 95 % of the
pods are ready, 5 % have a deletion cost, 8 % have restarted; ready times span 30 days; there are n/10 nodes.

Whole runs create, bind, make ready and delete every pod with versioned writes and watch events. For comparison,
the real controller with a real API server and etcd on the same two cores creates 670 to 1,140 pods/s. Per 1,000
pods, the controller itself spends 0.33 to 0.45 CPU-seconds (including HTTP and protobuf), the API server 1.3 to
2.2, and etcd 0.2 to 0.5. With its default client limit, the controller creates 21 pods/s. Published elsewhere:
1,000 pods/s at 130,000 nodes (GKE) and 500 pods/s at 100,000 nodes (EKS, from a secondary source). These
figures take the place of a plain rival of whole runs.
";

/// Returns the whole page.
pub fn render(targets: &[Target]) -> String {
    let mut out = String::from(HEADER);
    for section in Section::ALL {
        let rows: Vec<&Target> = targets
            .iter()
            .filter(|target| target.section == section)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {}\n", section.heading());
        out.push_str("| work | upstream | target | raised | allocations | limit | bench |\n");
        out.push_str("|---|---|--:|--:|---|---|---|\n");
        for row in &rows {
            let text = |aim: Option<String>| aim.unwrap_or_else(|| "–".to_owned());
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | `{}` |",
                row.work,
                row.upstream.as_deref().unwrap_or("–"),
                text(row.aim_text()),
                text(row.raised.map(|raised| row.target_text(raised))),
                row.allocations.as_deref().unwrap_or("–"),
                row.limit,
                row.id,
            );
        }
        remarks(&mut out, &rows);
    }
    out
}

/// Adds the remarks that don't fit into the table: the plain rival, the machine that the target
/// needs, and the reason if the target is not measured.
fn remarks(out: &mut String, rows: &[&Target]) {
    out.push('\n');
    for row in rows {
        let _ = write!(out, "* `{}`: ", row.id);
        match row.rival.strip_prefix("none") {
            Some(why) => {
                let _ = write!(out, "no plain rival{why}.");
            }
            None => {
                let _ = write!(out, "plain rival: {}.", row.rival);
            }
        }
        if let Some(cores) = row.cores {
            let _ = write!(out, " Needs a machine with {cores} cores.");
        }
        if let Some(memory) = row.memory_gb {
            let _ = write!(out, " Needs a machine with {memory} GB of memory.");
        }
        if let Some(why) = &row.unmeasured {
            let _ = write!(out, " **Not measured**: {why}.");
        }
        if let Some(note) = &row.note {
            let _ = write!(out, " Note: {note}.");
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{package_directory, targets};

    #[test]
    fn the_page_is_up_to_date() {
        let page = render(&targets::load_own().unwrap());
        let written = std::fs::read_to_string(package_directory().join("TARGETS.md")).unwrap();
        assert!(
            page == written,
            "bench/TARGETS.md is out of date: run `cargo run -p podstorm-bench --bin targets -- --document`"
        );
    }
}
