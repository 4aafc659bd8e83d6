//! The verdicts for a reader: a table of all rows, then what is to be done about those that need it.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use podstorm_loadgen::units::count_for_people;

use super::compare::{Judged, Verdict, exit_code};
use super::measurement::Unit;
use super::{EXIT_PASS, EXIT_TOOLCHAIN};

/// The whole report.
pub(super) fn report(rows: &[Judged]) -> String {
    let mut text = table(rows);
    advise(&mut text, rows);
    text
}

fn table(rows: &[Judged]) -> String {
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
        table.add_row([
            row.id.clone(),
            unit(row.unit).to_owned(),
            figure(row.budget),
            figure(row.measured),
            change(row),
            row.tolerance_percent
                .map_or_else(|| "-".into(), |percent| format!("{percent} %")),
            verdict(row.verdict).to_owned(),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Instructions => "instructions",
        Unit::Allocations => "allocations",
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Within => "ok",
        Verdict::Faster => "less",
        Verdict::OtherToolchain => "OTHER TOOLCHAIN",
        Verdict::Regression => "REGRESSION",
        Verdict::NotAllocationFree => "ALLOCATES",
        Verdict::Disappeared => "DISAPPEARED",
        Verdict::New => "NO BUDGET",
    }
}

/// With thousands apart and no more decimals than it has.
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

/// A line for each kind of verdict that wants something done, with the command that does it.
fn advise(text: &mut String, rows: &[Judged]) {
    let ids = |verdict: Verdict| {
        let of_it = rows.iter().filter(|row| row.verdict == verdict);
        let ids: BTreeSet<&str> = of_it.map(|row| row.id.as_str()).collect();
        ids.into_iter().collect::<Vec<_>>().join(" ")
    };
    for (verdict, means) in [
        (
            Verdict::Regression,
            "cost more than their budget. Mend them, or bless them with the reason",
        ),
        (
            Verdict::NotAllocationFree,
            "claim to allocate nothing and allocate; no budget allows that",
        ),
        (
            Verdict::Disappeared,
            "have a budget and were not measured. Bring them back, or bless their end",
        ),
        (Verdict::New, "were measured and have no budget. Bless them"),
        (
            Verdict::OtherToolchain,
            "left their tolerance under another toolchain. That is no regression of ours, \
            nor can it show one: bless them where the old toolchain still passes",
        ),
        (
            Verdict::Faster,
            "cost less than their tolerance allows for. Bless them, so that it stays so",
        ),
    ] {
        let ids = ids(verdict);
        if ids.is_empty() {
            continue;
        }
        line(text, &format!("\n{ids}\n  {means}"));
        if verdict != Verdict::NotAllocationFree {
            line(text, &format!("  gate --bless {ids} --reason TEXT"));
        }
    }
    let differences: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.toolchain_differences.iter().map(String::as_str))
        .collect();
    if !differences.is_empty() {
        let within = rows
            .iter()
            .filter(|row| row.verdict == Verdict::Within && !row.toolchain_differences.is_empty());
        line(
            text,
            &format!(
                "\nThe toolchain changed since rows were blessed (budget -> now); {} of them are within their tolerance.",
                within.count()
            ),
        );
        for difference in differences {
            line(text, &format!("  {difference}"));
        }
        line(text, "  gate --bless-all --reason TEXT");
    }
    let failing = rows.iter().filter(|row| row.verdict.fails()).count();
    let all = rows.len();
    line(
        text,
        &match exit_code(rows) {
            EXIT_PASS => format!("\nThe gate is open: {all} rows, none regressed."),
            EXIT_TOOLCHAIN => format!(
                "\nThe gate can't tell: {failing} of {all} rows need blessing under this toolchain."
            ),
            _ => format!("\nThe gate is closed: {failing} of {all} rows."),
        },
    );
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, budget: Option<f64>, measured: Option<f64>, verdict: Verdict) -> Judged {
        Judged {
            id: id.into(),
            unit: Unit::Instructions,
            budget,
            tolerance_percent: budget.map(|_| 1.0),
            measured,
            verdict,
            toolchain_differences: Vec::new(),
        }
    }

    #[test]
    fn a_failure_names_the_row_the_change_and_the_mend() {
        let rows = [
            row("a/b/1", Some(1_000.0), Some(1_100.0), Verdict::Regression),
            row("a/c/1", Some(1_000.0), Some(1_000.0), Verdict::Within),
            row("a/d/1", Some(1_000.0), None, Verdict::Disappeared),
        ];
        let text = report(&rows);
        for expected in [
            "REGRESSION",
            "+10.000 %",
            "1,100",
            "gate --bless a/b/1 --reason TEXT",
            "DISAPPEARED",
            "The gate is closed: 2 of 3 rows.",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }

    #[test]
    fn a_changed_toolchain_is_said_even_when_all_is_within() {
        let mut within = row("a/b/1", Some(5.0), Some(5.0), Verdict::Within);
        within.toolchain_differences = vec!["rustc: 1 -> 2".into()];
        let text = report(&[within]);
        assert!(text.contains("rustc: 1 -> 2"), "{text}");
        assert!(text.contains("The gate is open"), "{text}");
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(figure(Some(1_234_567.25)), "1,234,567.25");
        assert_eq!(figure(Some(123.0)), "123");
        assert_eq!(figure(Some(0.0)), "0");
        assert_eq!(figure(None), "-");
    }
}
