//! The formats of a sweep: a table for the terminal, CSV and JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::outcome::{Cell, Sweep};
use crate::text::columns::columns;
use crate::units::counted;

/// The version of the JSON's schema; incremented when a member changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 2;

/// The maximum number of cells to show on the terminal; files contain all of them.
const CELLS_SHOWN: usize = 250;

/// Formats a table for the terminal, with one line per cell, and the conclusion. `command` returns
/// the command that repeats a cell.
pub fn table(sweep: &Sweep, command: &dyn Fn(&Cell) -> String) -> String {
    let mut text = String::new();
    let dimensions = sweep.grid.dimensions.len();
    let mut header = names(sweep);
    header.push(String::new());
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    let rows: Vec<Vec<String>> = sweep
        .cells
        .iter()
        .take(CELLS_SHOWN)
        .map(|cell| {
            let mut row = values(sweep, cell);
            row.extend(shown(sweep, cell));
            row.push(mark(cell, cheapest).to_owned());
            row
        })
        .collect();
    let last = header.len() - 1;
    text.push_str(&columns(&header, &rows, |at| at == last || at < dimensions));
    text.push('\n');
    for line in conclusion(sweep, command) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns the names of the dimensions, followed by those of the metrics.
fn names(sweep: &Sweep) -> Vec<String> {
    let names = sweep.grid.dimensions.iter().map(|one| one.name.clone());
    names
        .chain(sweep.metrics.iter().map(ToString::to_string))
        .collect()
}

/// Returns the values of the dimensions for a cell.
pub(super) fn values(sweep: &Sweep, cell: &Cell) -> Vec<String> {
    let values = sweep.grid.values(cell.number).into_iter();
    values.map(|(_, value)| value.to_owned()).collect()
}

/// Formats the values of a cell's metrics.
pub(super) fn shown(sweep: &Sweep, cell: &Cell) -> Vec<String> {
    let metrics = sweep.metrics.iter().zip(&cell.metrics);
    metrics
        .map(|(name, value)| value.map_or("-".to_owned(), |value| name.unit().for_people(value)))
        .collect()
}

/// Returns the mark that follows a cell's metrics.
pub(super) fn mark(cell: &Cell, cheapest: Option<usize>) -> &'static str {
    match (cell.violations > 0, cell.is_done, cell.meets) {
        (true, ..) => "INVARIANT BROKEN",
        (_, false, _) => "not done",
        _ if cheapest == Some(cell.number) => "<- cheapest that meets all",
        (.., Some(true)) => "meets all",
        _ => "",
    }
}

/// Returns the conclusion as a list of sentences.
pub fn conclusion(sweep: &Sweep, command: &dyn Fn(&Cell) -> String) -> Vec<String> {
    let (ran, all) = (sweep.cells.len(), sweep.grid.cells());
    let seeds = match &sweep.seeds[..] {
        _ if sweep.varies_seed() => "each with its own seed".to_owned(),
        [one] => format!("seed {one}"),
        several => format!(
            "medians of {} seeds, {} to {}",
            several.len(),
            several[0],
            several[several.len() - 1]
        ),
    };
    let mut lines = vec![match ran == all {
        true => format!("{}, {seeds}", counted(all as u64, "cell")),
        false => format!(
            "INTERRUPTED: {ran} of {} run, {seeds}",
            counted(all as u64, "cell")
        ),
    }];
    if ran > CELLS_SHOWN {
        lines.push(format!(
            "the first {CELLS_SHOWN} are shown; --csv and --json write them all"
        ));
    }
    let not_done = sweep.cells.iter().filter(|cell| !cell.is_done).count();
    if not_done > 0 {
        lines.push(format!(
            "{not_done} did not reach the end condition of their scenario; their metrics are those of \
             what ran"
        ));
    }
    if sweep.took_no_time() {
        lines.push(
            "No time passed: on the virtual engine calls and pods take no time without a latency or a client \
             limit, so most settings have no effect. Use, for example, --api-latency 5ms, \
             --pod-startup-latency 2s or --upstream-defaults, or --engine threads for real time."
                .to_owned(),
        );
    }
    if !sweep.thresholds.is_empty() {
        let texts: Vec<String> = sweep.thresholds.iter().map(ToString::to_string).collect();
        let meet = sweep.cells.iter().filter(|cell| cell.meets == Some(true));
        lines.push(format!("{} meet {}", meet.count(), texts.join(" and ")));
    }
    if let Some(cell) = sweep.cheapest() {
        lines.push(format!(
            "cheapest of them: {}",
            sweep.grid.name(cell.number)
        ));
        lines.push(format!("    {}", command(cell)));
    }
    lines
}

/// Writes CSV: a header, then one record per cell. Values are in seconds, counts or bytes.
///
/// # Errors
/// Writing to `out` fails.
pub fn csv(sweep: &Sweep, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut header = names(sweep);
    header.extend(["runs", "done", "meets_thresholds", "cheapest"].map(str::to_owned));
    writer.write_record(&header)?;
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    for cell in &sweep.cells {
        let mut record = values(sweep, cell);
        let number =
            |value: &Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        record.extend(cell.metrics.iter().map(number));
        record.push(cell.results.len().to_string());
        record.push(cell.is_done.to_string());
        let meets = cell.meets.map(|meets| meets.to_string());
        record.push(meets.unwrap_or_default());
        record.push((cheapest == Some(cell.number)).to_string());
        writer.write_record(&record)?;
    }
    writer.flush()
}

/// Returns the sweep as JSON: the grid, the medians, and every result in full.
pub fn json(sweep: &Sweep) -> Value {
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    let metrics = sweep.metrics.iter().map(
        |name| json!({"figure": name.to_string(), "unit": name.unit(), "better": name.better()}),
    );
    let cells = sweep.cells.iter().map(|cell| {
        let values: BTreeMap<_, _> = sweep.grid.values(cell.number).into_iter().collect();
        let medians = sweep.metrics.iter().zip(&cell.metrics);
        let medians: BTreeMap<_, _> = medians
            .map(|(name, value)| (name.to_string(), value))
            .collect();
        json!({
            "values": values,
            "figures": medians,
            "done": cell.is_done,
            "meets_thresholds": cell.meets,
            "cheapest": cheapest == Some(cell.number),
            "results": cell.results,
        })
    });
    json!({
        "schema_version": SCHEMA_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "dimensions": sweep.grid.dimensions,
        // Absent if the seed is a dimension: each cell's result then contains its seed.
        "seeds": (!sweep.varies_seed()).then_some(&sweep.seeds),
        "figures": metrics.collect::<Vec<_>>(),
        "thresholds": sweep.thresholds,
        "complete": sweep.is_complete(),
        "cells": cells.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sweep;
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_cell_and_names_the_cheapest() {
        let sweep = sweep("1h");
        let text = table(&sweep, &|cell| format!("loadgen run # {}", cell.number));
        let head = " pods  kube-api-qps  elapsed  convergence p99";
        assert!(text.starts_with(head), "{text}");
        for words in [
            "<- cheapest that meets all\n",
            "6 cells, medians of 2 seeds, 1 to 2\n",
            "6 meet elapsed < 1h\n",
            "cheapest of them: pods=20, kube-api-qps=5\n    loadgen run # 0\n",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert_eq!(text.matches("meets all").count(), 6, "{text}");
        let mut own = sweep;
        own.grid.dimensions[0].name = "seed".to_owned();
        assert!(table(&own, &|_| String::new()).contains("6 cells, each with its own seed"));
        assert_eq!(json(&own)["seeds"], Value::Null);
    }

    #[test]
    fn csv_has_a_record_for_each_cell() {
        let mut bytes = Vec::new();
        csv(&sweep("1h"), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            lines[0],
            "pods,kube-api-qps,elapsed,convergence p99,excess,host.wall_seconds,runs,done,\
             meets_thresholds,cheapest"
        );
        assert!(lines[1].starts_with("20,5,"), "{text}");
        assert!(lines[1].ends_with(",0,,2,true,true,true"), "{text}");
    }

    #[test]
    fn json_contains_every_result() {
        let json = json(&sweep("1ms"));
        assert_eq!(json["complete"], true);
        assert_eq!(json["seeds"], json!([1, 2]));
        assert_eq!(json["cells"].as_array().unwrap().len(), 6);
        let cell = &json["cells"][1];
        assert_eq!(cell["values"]["kube-api-qps"], "10");
        assert_eq!(cell["meets_thresholds"], false);
        assert_eq!(cell["results"][1]["seed"], 2);
        let settings = &cell["results"][1]["settings"];
        assert_eq!(settings["controller"]["kube_api_qps"], 10.0);
    }
}
