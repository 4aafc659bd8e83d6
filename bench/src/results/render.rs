//! The table for the terminal, as Markdown and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::machine::commit_before;
use super::run::{Run, date_text, unix_seconds};
use super::table::{Line, Verdict};
use super::targets::Section;
use super::{Measured, Unit};
use crate::write_whole;

/// A version of the JSON; raised when a member changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// For a terminal: a row each, sections apart, the count of targets met at the end.
pub fn terminal(lines: &[Line], run: &Run) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "bench",
        "ours",
        "rival",
        "× rival",
        "upstream",
        "× upstream",
        "target",
        "verdict",
    ]);
    for line in lines {
        table.add_row([
            line.target.id.clone(),
            value_text(line.ours.as_ref()),
            value_text(line.rival.as_ref()),
            gain_text(line.gain_over_rival()),
            upstream_text(line),
            gain_text(line.gain_over_upstream()),
            target_text(line),
            line.verdict.text(),
        ]);
    }
    for column in [1, 2, 3, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n{}\n{}\n", summary(lines), circumstances(run))
}

/// How many targets were met, and which rows lack a figure.
fn summary(lines: &[Line]) -> String {
    let count =
        |wanted: fn(&Verdict) -> bool| lines.iter().filter(|line| wanted(&line.verdict)).count();
    let met = count(|verdict| {
        matches!(
            verdict,
            Verdict::Met | Verdict::MissedRaised | Verdict::MetRaised
        )
    });
    let missed = count(|verdict| *verdict == Verdict::Missed);
    let mut text = format!("{met} targets met, {missed} missed");
    let incomplete = count(|verdict| !verdict.is_complete());
    if incomplete > 0 {
        let _ = write!(text, ", {incomplete} rows WITHOUT A FIGURE OF THIS RUN");
    }
    let cannot = count(|verdict| matches!(verdict, Verdict::Cannot(_)));
    if cannot > 0 {
        let _ = write!(text, ", {cannot} that can't be measured here");
    }
    text.push('.');
    text
}

/// When, where and of what figures were measured.
pub fn circumstances(run: &Run) -> String {
    let load = |load: Option<[f64; 3]>| match load {
        Some([one, five, fifteen]) => format!("{one:.2} {five:.2} {fifteen:.2}"),
        None => "not known".to_owned(),
    };
    let machine = &run.machine;
    format!(
        "{date}, commit {commit}, {rustc}; {cpu}, {cores} cores, {memory}, {platform}; load before \
         {before}, after {after}",
        date = run.date,
        commit = run.commit.text(),
        rustc = run.rustc,
        cpu = machine.cpu_model,
        cores = machine.cores,
        memory = Unit::Bytes.text(machine.memory_bytes as f64),
        platform = machine.platform,
        before = load(run.load_before),
        after = load(run.load_after),
    )
}

/// Markdown, a table for each section.
pub fn markdown(lines: &[Line], run: &Run) -> String {
    let mut out = String::from("# Targets and figures\n\n");
    let _ = writeln!(
        out,
        "Made by `{}`; don't edit. What each row is: [TARGETS.md](../TARGETS.md).\n",
        run.command
    );
    let _ = writeln!(
        out,
        "{}; figures count from {} on.\n\n**{}**",
        circumstances(run),
        run.fresh_since,
        summary(lines)
    );
    out.push_str(
        "\nMedians; in brackets the confidence interval of the median, or least and most of the \
         runs. The rival is the plain way of doing the same in Rust, in the same process. Upstream's \
         figures are recorded ones, on two cores of an AMD EPYC (Zen 4).\n",
    );
    for section in Section::ALL {
        let rows: Vec<&Line> = lines
            .iter()
            .filter(|line| line.target.section == section)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {}\n", section.heading());
        out.push_str("| work | ours | rival | × | upstream | × | target | verdict | bench |\n");
        out.push_str("|---|--:|--:|--:|--:|--:|--:|---|---|\n");
        for line in rows {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | `{}` |",
                line.target.work,
                interval_text(line),
                value_text(line.rival.as_ref()),
                gain_text(line.gain_over_rival()),
                line.target.upstream.as_deref().unwrap_or(""),
                gain_text(line.gain_over_upstream()),
                target_text(line),
                verdict_text(line),
                line.target.id,
            );
        }
    }
    out
}

/// JSON, for programs: every figure in the row's unit, unrounded.
pub fn json(lines: &[Line], run: &Run) -> serde_json::Value {
    let figure = |measured: &Measured| {
        json!({
            "value": measured.value,
            "low": measured.interval.0,
            "high": measured.interval.1,
            "written": date_text(measured.written),
        })
    };
    let rows: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| {
            let target = &line.target;
            json!({
                "id": target.id,
                "section": target.section,
                "work": target.work,
                "unit": target.unit,
                "better": target.better,
                "ours": line.ours.as_ref().map(figure),
                "rival": line.rival.as_ref().map(figure),
                "upstream": target.upstream_value,
                "target": target.target,
                "raised": target.raised,
                "gain": target.gain,
                "gain_over_rival": line.gain_over_rival(),
                "gain_over_upstream": line.gain_over_upstream(),
                "verdict": line.verdict.text(),
                "fresh": line.verdict.is_measured(),
            })
        })
        .collect();
    json!({ "schema_version": SCHEMA_VERSION, "run": run, "rows": rows })
}

/// Writes `targets.md` and `targets.json` into a folder.
///
/// # Errors
///
/// Where that can't be written.
pub fn write(lines: &[Line], run: &Run, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let json = format!("{:#}\n", json(lines, run));
    for (name, text) in [("targets.md", markdown(lines, run)), ("targets.json", json)] {
        write_whole("the table", &folder.join(name), &text)?;
    }
    Ok(())
}

fn value_text(measured: Option<&Measured>) -> String {
    measured.map_or_else(String::new, |measured| measured.unit.text(measured.value))
}

fn interval_text(line: &Line) -> String {
    let Some(measured) = &line.ours else {
        return String::new();
    };
    let text = measured.unit.text(measured.value);
    let (low, high) = measured.interval;
    if low == high {
        return text;
    }
    let (low, high) = (measured.unit.text(low), measured.unit.text(high));
    format!("{text} ({low} – {high})")
}

fn gain_text(gain: Option<f64>) -> String {
    gain.map_or_else(String::new, |gain| {
        if gain < 9.95 {
            format!("{gain:.1}")
        } else {
            Unit::Count.text(gain.round())
        }
    })
}

fn upstream_text(line: &Line) -> String {
    let value = line.target.upstream_value;
    value.map_or_else(String::new, |value| line.target.unit.text(value))
}

fn target_text(line: &Line) -> String {
    let target = &line.target;
    match (target.aim_text(), target.raised) {
        (Some(aim), Some(raised)) => format!("{aim}, raised: {}", target.unit.text(raised)),
        (Some(aim), None) => aim,
        (None, _) => String::new(),
    }
}

/// Returns the verdict, with what Markdown has room for: the reason of a miss, and whose a stale figure is.
fn verdict_text(line: &Line) -> String {
    let verdict = line.verdict.text();
    match (&line.verdict, &line.target.note, &line.ours) {
        (Verdict::Missed, Some(note), _) => format!("**{verdict}**: {note}"),
        (Verdict::MissedRaised, Some(note), _) => format!("{verdict}: {note}"),
        (Verdict::Missed, None, _) => format!("**{verdict}**"),
        (Verdict::Stale(_), _, Some(ours)) => {
            let commit = commit_before(unix_seconds(ours.written));
            let at = commit.map_or_else(String::new, |commit| format!(", at {commit} or after"));
            format!("**{verdict}**{at}")
        }
        (verdict, ..) if !verdict.is_complete() => format!("**{}**", verdict.text()),
        _ => verdict,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::results::machine::Machine;
    use crate::results::table;
    use crate::results::targets;

    #[test]
    fn a_table_without_figures_says_so_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let targets = targets::load_own().unwrap();
        let since = SystemTime::UNIX_EPOCH;
        let lines = table::lines(targets, folder.path(), since, &Machine::here()).unwrap();
        let mut run = Run::begin("the command".to_owned());
        run.end(since);
        let terminal = terminal(&lines, &run);
        assert!(terminal.contains("0 targets met, 0 missed"), "{terminal}");
        assert!(terminal.contains("WITHOUT A FIGURE"), "{terminal}");
        write(&lines, &run, folder.path()).unwrap();
        let markdown = fs::read_to_string(folder.path().join("targets.md")).unwrap();
        let rows = markdown.lines().filter(|line| line.starts_with("| "));
        let headings = markdown.matches("\n## ").count();
        assert_eq!(rows.count(), lines.len() + headings);
        assert!(markdown.contains("| **not measured** |"));
        let text = fs::read_to_string(folder.path().join("targets.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(lines.len()));
        assert_eq!(json["rows"][0]["fresh"], false);
    }
}
