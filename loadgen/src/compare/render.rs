//! The text formats of a comparison: a table for the terminal, Markdown for a pull request, JSON
//! for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::identity::Weight;
use super::verdict::{Comparison, Row, Verdict};
use crate::text::columns::columns;
use crate::units::wrapped;

/// The maximum number of seeds to list.
const SEEDS_SHOWN: usize = 10;

/// The maximum number of regressions that a reason names.
const REGRESSIONS_NAMED: usize = 3;

/// The width of a paragraph beside its label, in columns.
const PARAGRAPH: usize = 90;

/// The names of the two sides.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The files of the base.
    pub base: String,
    /// The files of the new results.
    pub new: String,
}

/// Formats a table for the terminal, with the metrics that differ or, if `all` is set, every
/// metric.
pub fn table(comparison: &Comparison, sides: &Sides, all: bool) -> String {
    let mut text = String::new();
    let mut put = |label: &str, said: &str| {
        for (number, line) in wrapped(said, PARAGRAPH).iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            let _ = writeln!(text, "{label:9}{line}");
        }
    };
    for (label, said) in heads(comparison, sides) {
        put(label, &said);
    }
    put("method", &comparison.method);
    let rows = shown(comparison, all);
    if !rows.is_empty() {
        let header = header(comparison);
        let last = header.len() - 1;
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(comparison, row)).collect();
        text.push('\n');
        text.push_str(&columns(&header, &rows, |at| at == 0 || at == last));
    }
    let _ = write!(text, "\n{}\n", summary(comparison, all));
    text
}

/// Formats Markdown for a pull request.
pub fn markdown(comparison: &Comparison, sides: &Sides, all: bool) -> String {
    let mut text = format!("### {}\n\n", headline(comparison));
    for (label, said) in heads(comparison, sides) {
        let _ = writeln!(text, "* {label}: {}", escaped(&said));
    }
    let _ = writeln!(text, "* {}", escaped(&comparison.method));
    let rows = shown(comparison, all);
    if !rows.is_empty() {
        let header = header(comparison);
        let last = header.len() - 1;
        let rule = |at| if at == 0 || at == last { ":--" } else { "--:" };
        let rules: Vec<&str> = (0..header.len()).map(rule).collect();
        let _ = write!(
            text,
            "\n| {} |\n| {} |\n",
            header.join(" | "),
            rules.join(" | ")
        );
        for row in rows {
            let line = cells(comparison, row);
            let mut line: Vec<String> = line.iter().map(|cell| escaped(cell)).collect();
            if row.verdict == Verdict::Regression {
                line[last] = format!("**{}**", line[last]);
            }
            let _ = writeln!(text, "| {} |", line.join(" | "));
        }
    }
    let _ = write!(text, "\n{}\n", summary(comparison, all));
    text
}

/// Formats the whole comparison as JSON, with the names of both sides.
pub fn json(comparison: &Comparison, sides: &Sides) -> String {
    let mut value = serde_json::to_value(comparison).expect("the keys of a comparison are strings");
    if let Value::Object(members) = &mut value {
        members.insert("base".to_owned(), json!(sides.base));
        members.insert("new".to_owned(), json!(sides.new));
    }
    format!("{value:#}\n")
}

/// Formats the regressions in one line, as a run's reason to fail:
/// `worse than the baseline main: elapsed_seconds 2.1 s, was 1 s`. Empty if there are no
/// regressions.
pub fn reason(comparison: &Comparison, base: &str) -> String {
    let named: Vec<String> = comparison
        .regressed()
        .take(REGRESSIONS_NAMED)
        .map(|row| {
            let (base, new) = (value(row, row.base), value(row, row.new));
            format!("{} {new}, was {base}", row.metric)
        })
        .collect();
    if named.is_empty() {
        return String::new();
    }
    let rest = match comparison.regressions - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("worse than {base}: {}{rest}", named.join("; "))
}

/// Returns the lines above the table.
pub(super) fn heads(comparison: &Comparison, sides: &Sides) -> Vec<(&'static str, String)> {
    let side = |name: &str, seeds: &[u64]| format!("{name}, {}", seeds_text(seeds));
    let mut heads = vec![
        ("base", side(&sides.base, &comparison.base_seeds)),
        ("new", side(&sides.new, &comparison.new_seeds)),
    ];
    for difference in &comparison.differences {
        let forced = match difference.weight {
            Weight::Incomparable => " (compared because of --force)",
            Weight::Noted => "",
        };
        let (what, base, new) = (&difference.what, &difference.base, &difference.new);
        heads.push(("differs", format!("{what}: {base} -> {new}{forced}")));
    }
    if comparison.base_seeds != comparison.new_seeds {
        heads.push(("differs", "the seeds".to_owned()));
    }
    heads
}

fn seeds_text(seeds: &[u64]) -> String {
    let mut listed: Vec<String> = seeds.iter().take(SEEDS_SHOWN).map(u64::to_string).collect();
    if seeds.len() > SEEDS_SHOWN {
        listed.push("…".to_owned());
    }
    let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
    format!("{noun} {}", listed.join(" "))
}

fn shown(comparison: &Comparison, all: bool) -> Vec<&Row> {
    let wanted = |row: &&Row| all || row.verdict != Verdict::Same;
    comparison.metrics.iter().filter(wanted).collect()
}

/// Returns the header of the table. It has a column for p-values only if there are any.
pub(super) fn header(comparison: &Comparison) -> Vec<String> {
    let mut header = vec!["figure", "base", "new", "new/base"];
    if has_p_values(comparison) {
        header.push("p");
    }
    header.extend(["tolerance", "verdict"]);
    header.into_iter().map(str::to_owned).collect()
}

pub(super) fn cells(comparison: &Comparison, row: &Row) -> Vec<String> {
    let mut cells = vec![
        row.metric.to_string(),
        value(row, row.base),
        value(row, row.new),
        row.ratio
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
    ];
    if has_p_values(comparison) {
        let text = |p: f64| {
            if p < 0.001 {
                "<0.001".to_owned()
            } else {
                format!("{p:.3}")
            }
        };
        cells.push(row.p_value.map_or_else(|| "-".to_owned(), text));
    }
    let is_better_or_worse = row.better != crate::metrics::Better::Neither;
    cells.push(if is_better_or_worse {
        row.tolerance.clone()
    } else {
        "-".to_owned()
    });
    cells.push(row.verdict.text().to_owned());
    cells
}

fn has_p_values(comparison: &Comparison) -> bool {
    comparison.metrics.iter().any(|row| row.p_value.is_some())
}

fn value(row: &Row, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| row.unit.for_people(value))
}

fn count(comparison: &Comparison, verdict: Verdict) -> usize {
    let rows = comparison.metrics.iter();
    rows.filter(|row| row.verdict == verdict).count()
}

pub(super) fn headline(comparison: &Comparison) -> String {
    match (comparison.regressions, count(comparison, Verdict::Better)) {
        (0, 0) => "no regression".to_owned(),
        (0, better) => format!("no regression, {better} better"),
        (1, better) => format!("1 REGRESSION, {better} better"),
        (some, better) => format!("{some} REGRESSIONS, {better} better"),
    }
}

/// Formats in one line how many metrics got each verdict.
pub(super) fn summary(comparison: &Comparison, all: bool) -> String {
    let mut text = headline(comparison);
    for verdict in [
        Verdict::WithinTolerance,
        Verdict::Noise,
        Verdict::Changed,
        Verdict::OnlyInBase,
        Verdict::OnlyInNew,
    ] {
        match count(comparison, verdict) {
            0 => {}
            some => {
                let _ = write!(text, ", {some} {}", verdict.text());
            }
        }
    }
    let same = count(comparison, Verdict::Same);
    let hint = if same > 0 && !all {
        " (shown with --all)"
    } else {
        ""
    };
    let _ = write!(text, ", {same} the same{hint}");
    text
}

/// Escapes a string for a cell of a Markdown table.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '<' | '`' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::result;
    use super::super::{Tolerances, compare};
    use super::*;

    fn comparison() -> Comparison {
        let base = result(json!({}));
        let new = result(json!({
            "elapsed_seconds": 12.0, "behaviour": "hardened", "excess_pods_created": 2,
            "pods": {"created": 102},
        }));
        compare(&[base], &[new], &Tolerances::default(), &[])
    }

    fn sides() -> Sides {
        Sides {
            base: "a.json".to_owned(),
            new: "b|c.json".to_owned(),
        }
    }

    #[test]
    fn the_table_shows_what_differs() {
        let text = table(&comparison(), &sides(), false);
        for words in [
            "base     a.json, seed 1\n",
            "differs  behaviour: upstream -> hardened\n",
            " elapsed_seconds      10 s  12 s     1.200         5%  REGRESSION\n",
            "2 REGRESSIONS, 0 better, 1 changed, ",
            "the same (shown with --all)",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(!text.contains("phase{up}"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert!(table(&comparison(), &sides(), true).contains("phase{up}"));
    }

    #[test]
    fn cells_of_markdown_tables_contain_no_bars() {
        let text = markdown(&comparison(), &sides(), false);
        assert!(text.starts_with("### 2 REGRESSIONS, 0 better\n"), "{text}");
        assert!(text.contains("b\\|c.json"), "{text}");
        let row = "| elapsed\\_seconds | 10 s | 12 s | 1.200 | 5% | **REGRESSION** |";
        assert!(text.contains(row), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.len() >= 4, "{text}");
        for row in rows {
            assert_eq!(row.matches("| ").count(), 6, "{row}");
        }
    }

    #[test]
    fn json_contains_every_metric() {
        let value: Value = serde_json::from_str(&json(&comparison(), &sides())).unwrap();
        assert_eq!(value["base"], "a.json");
        assert_eq!(value["regressions"], 2);
        assert_eq!(value["differences"][0]["what"], "behaviour");
        let metrics = value["figures"].as_array().unwrap();
        assert!(metrics.iter().any(|row| row["verdict"] == "same"));
        let mut rows = metrics.iter();
        let elapsed = rows.find(|row| row["figure"] == "elapsed_seconds");
        assert_eq!(elapsed.unwrap()["ratio"], 1.2);
    }

    #[test]
    fn the_reason_names_the_regressions() {
        assert_eq!(
            reason(&comparison(), "the baseline main"),
            "worse than the baseline main: elapsed_seconds 12 s, was 10 s; excess_pods_created 2, \
             was 0"
        );
    }
}
