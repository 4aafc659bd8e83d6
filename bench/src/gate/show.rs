//! The verdicts for a human reader: a table of all rows, then advice about the rows that need
//! action.

use std::collections::BTreeSet;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use podstorm_loadgen::units::count_for_people;

use super::compare::{Judged, Verdict, exit_code};
use super::{EXIT_PASS, EXIT_TOOLCHAIN};

/// Returns the whole report.
pub(super) fn report(rows: &[Judged]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "row",
        "unit",
        "budget",
        "measured",
        "change",
        "tolerance",
        "verdict",
    ]);
    for row in rows {
        let tolerance = row.tolerance_percent.map(|percent| format!("{percent} %"));
        table.add_row([
            row.id.clone(),
            row.unit.noun().to_owned(),
            figure(row.budget),
            figure(row.measured),
            change(row),
            tolerance.unwrap_or_else(|| "-".to_owned()),
            row.verdict.word().to_owned(),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "{table}\n{}{}{}\n",
        advice(rows),
        toolchains(rows),
        result(rows)
    )
}

/// Formats a figure with thousands separators and only as many decimals as it needs.
fn figure(figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".into();
    };
    let text = figure.to_string();
    let fraction = text.find('.').map_or("", |at| &text[at..]);
    count_for_people(figure as u64) + fraction
}

fn change(row: &Judged) -> String {
    match row.change_percent() {
        Some(0.0) => "=".into(),
        Some(percent) => format!("{percent:+.3} %"),
        None => "-".into(),
    }
}

/// Returns the advice for each type of verdict that occurs, with the command to run.
fn advice(rows: &[Judged]) -> String {
    let mut text = String::new();
    for (verdict, means) in [
        (
            Verdict::Regression,
            "cost more than their budget. Fix them, or bless them with a reason",
        ),
        (
            Verdict::NotAllocationFree,
            "claim to allocate nothing, but allocate. No budget allows that",
        ),
        (
            Verdict::Disappeared,
            "have a budget, but were not measured. Restore them, or bless their removal",
        ),
        (
            Verdict::New,
            "were measured, but have no budget. Bless them",
        ),
        (
            Verdict::OtherToolchain,
            "left their tolerance under another toolchain. This neither is nor rules out a \
             regression: bless them where the old toolchain still passes",
        ),
        (
            Verdict::Faster,
            "cost less than their budget by more than the tolerance. Bless them to keep the gain",
        ),
    ] {
        let of_it = rows.iter().filter(|row| row.verdict == verdict);
        let ids: BTreeSet<&str> = of_it.map(|row| row.id.as_str()).collect();
        let ids = Vec::from_iter(ids).join(" ");
        if !ids.is_empty() {
            text += &format!("\n{ids}\n  {means}\n");
            if verdict != Verdict::NotAllocationFree {
                text += &format!("  gate --bless {ids} --reason TEXT\n");
            }
        }
    }
    text
}

fn toolchains(rows: &[Judged]) -> String {
    let changed = rows
        .iter()
        .filter(|row| !row.toolchain_differences.is_empty());
    let within = changed
        .clone()
        .filter(|row| row.verdict == Verdict::Within)
        .count();
    let differences: BTreeSet<&str> = changed
        .flat_map(|row| row.toolchain_differences.iter().map(String::as_str))
        .collect();
    if differences.is_empty() {
        return String::new();
    }
    format!(
        "\nThe toolchain has changed since rows were blessed (budget -> now); {within} of them are within their \
         tolerance.\n  {}\n  gate --bless-all --reason TEXT\n",
        Vec::from_iter(differences).join("\n  ")
    )
}

fn result(rows: &[Judged]) -> String {
    let failing = rows.iter().filter(|row| row.verdict.fails()).count();
    let all = rows.len();
    match exit_code(rows) {
        EXIT_PASS => format!("\nThe gate is open: {all} rows, none regressed."),
        EXIT_TOOLCHAIN => format!(
            "\nThe gate can't tell: {failing} of {all} rows need blessing under this toolchain."
        ),
        _ => format!("\nThe gate is closed: {failing} of {all} rows."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped() {
        assert_eq!(figure(Some(1_234_567.25)), "1,234,567.25");
        assert_eq!(figure(Some(123.0)), "123");
        assert_eq!(figure(Some(0.0)), "0");
        assert_eq!(figure(None), "-");
    }
}
