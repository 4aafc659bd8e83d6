//! The committed budgets, `bench/budgets.toml`. Errors in the file are reported with their place
//! and how to fix them. The file is written in a fixed layout, so that a blessing changes only the
//! lines of its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::measurement::{Toolchain, Unit};

/// The head of the file. A blessing drops any other text before the first table.
const HEADER: &str = "\
# Budgets of the gate: the permitted cost of every hot path and whole run, in counts that repeat exactly.
# `cargo run -p podstorm-bench --bin gate` compares. To change this file, use `… -- --bless ID --reason TEXT`,
# which rewrites rows. A count above figure + tolerance is a regression. Below figure - tolerance, the
# gate asks for a blessing, to keep the gain. See bench/README.md.
";

/// The budget of one hot path in one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The id of the hot path.
    pub id: String,
    /// The permitted cost per call.
    pub figure: f64,
    /// The unit of the cost.
    pub unit: Unit,
    /// How far a count may deviate from the figure, in percent of the figure.
    pub tolerance_percent: f64,
    /// The command that measures this row.
    pub command: String,
    /// The date of the blessing, `YYYY-MM-DD`.
    pub date: String,
    /// The name of the toolchain with which the row was blessed.
    pub toolchain: String,
    /// The reason for the figure.
    pub reason: String,
}

impl Budget {
    /// Returns the highest count that passes.
    pub fn most(&self) -> f64 {
        self.figure * (1.0 + self.tolerance_percent / 100.0)
    }

    /// Returns the lowest count that needs no blessing.
    pub fn least(&self) -> f64 {
        self.figure * (1.0 - self.tolerance_percent / 100.0)
    }
}

/// The content of a budgets file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// The toolchains, by the names that the rows use.
    #[serde(default)]
    pub toolchain: BTreeMap<String, Toolchain>,
    /// The budgets, in the order of the file.
    #[serde(default)]
    pub row: Vec<Budget>,
}

impl Budgets {
    /// Parses the text of a budgets file. Errors refer to the file as `name`.
    ///
    /// # Errors
    /// Describes the problem, its place, and how to fix it.
    pub fn parse(text: &str, name: &str) -> Result<Budgets, String> {
        let budgets: Budgets = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or(String::new(), |span| {
                let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
                format!(":{line}")
            });
            format!(
                "{name}{place}: not a budgets file: {}\n{MEND}",
                error.message()
            )
        })?;
        budgets
            .check()
            .map_err(|problem| format!("{name}: {problem}\n{MEND}"))?;
        Ok(budgets)
    }

    /// Formats the content of the file.
    pub fn render(&self) -> String {
        let mut text = HEADER.to_owned();
        let body = toml::to_string(self).expect("strings and finite numbers can be written");
        write!(text, "\n{body}").expect("writing to a String does not fail");
        text
    }

    /// Returns the row for this path and unit; `None` if there is none.
    pub fn find(&self, id: &str, unit: Unit) -> Option<&Budget> {
        let is_it = |row: &&Budget| row.id == id && row.unit == unit;
        self.row.iter().find(is_it)
    }

    /// Returns the toolchain with which a row was blessed.
    ///
    /// # Panics
    /// Panics if the row belongs to other budgets.
    pub fn toolchain_of(&self, row: &Budget) -> &Toolchain {
        let found = self.toolchain.get(&row.toolchain);
        found.expect("every row's toolchain was checked when the file was read")
    }

    fn check(&self) -> Result<(), String> {
        if self.row.is_empty() {
            return Err("there is no [[row]], so nothing would be checked".into());
        }
        let mut seen = BTreeSet::new();
        for (number, row) in (1..).zip(&self.row) {
            row.problem(self)
                .or_else(|| {
                    let again = !seen.insert((&row.id, row.unit));
                    again.then(|| "an earlier row has the same id and unit".to_owned())
                })
                .map_or(Ok(()), |problem| {
                    Err(format!(
                        "row {number} ({}, {}): {problem}",
                        row.id, row.unit
                    ))
                })?;
        }
        Ok(())
    }
}

/// The advice for an unusable file.
pub(super) const MEND: &str = "Restore the file from version control, or rewrite the rows: \
    gate --bless-all --reason TEXT";

impl Budget {
    fn problem(&self, budgets: &Budgets) -> Option<String> {
        if self.id.is_empty() {
            return Some("the id is empty".into());
        }
        if !self.figure.is_finite() || self.figure < 0.0 {
            return Some(format!("figure {} is not a count", self.figure));
        }
        if !(0.0..=100.0).contains(&self.tolerance_percent) {
            return Some(format!(
                "tolerance_percent {} is not within 0 to 100",
                self.tolerance_percent
            ));
        }
        let is_date = self.date.len() == 10
            && self.date.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_date {
            return Some(format!("date \"{}\" is not YYYY-MM-DD", self.date));
        }
        if !budgets.toolchain.contains_key(&self.toolchain) {
            return Some(format!(
                "there is no [toolchain.{}] in this file",
                self.toolchain
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[toolchain.t1]
rustc = "rustc 1"
flags = "x86"
cpu = "avx2"
libc = "glibc 2"
valgrind = "3"

[[row]]
id = "queue/cycle/1"
figure = 10.5
unit = "instructions/call"
tolerance_percent = 1.0
command = "gate"
date = "2026-11-21"
toolchain = "t1"
reason = "first count"
"#;

    #[test]
    fn rendered_budgets_read_back() {
        let budgets = Budgets::parse(GOOD, "b.toml").unwrap();
        let again = Budgets::parse(&budgets.render(), "b.toml").unwrap();
        assert_eq!(again, budgets);
        assert_eq!(again.render(), budgets.render());
        assert!(budgets.render().starts_with("# Budgets of the gate"));
    }

    #[test]
    fn errors_name_the_line_or_the_row() {
        let (head, row) = GOOD.split_once("[[row]]").unwrap();
        for (from, to, words) in [
            (
                "figure = 10.5",
                "figure = ten",
                ["b.toml:11: ", "--bless-all"],
            ),
            ("date =", "day =", ["b.toml:", "day"]),
            ("reason = \"first count\"", "", ["b.toml:", "reason"]),
            ("instructions/call", "miles", ["b.toml:", "miles"]),
            ("10.5", "-1.0", ["row 1 (", "figure -1"]),
            ("10.5", "nan", ["row 1 (", "figure NaN"]),
            ("= 1.0", "= 101.0", ["row 1 (", "tolerance_percent 101"]),
            ("2026-11-21", "yesterday!", ["row 1 (", "YYYY-MM-DD"]),
            ("= \"t1\"", "= \"t2\"", ["row 1 (", "[toolchain.t2]"]),
            ("queue/cycle/1", "", ["row 1 (", "the id is empty"]),
            (
                row,
                &[row, row].join("[[row]]"),
                ["row 2 (", "queue/cycle/1"],
            ),
            (GOOD, "", ["b.toml: ", "no [[row]]"]),
            (GOOD, "# nothing\n", ["b.toml: ", "no [[row]]"]),
            (GOOD, head, ["b.toml: ", "no [[row]]"]),
        ] {
            let error = Budgets::parse(&GOOD.replace(from, to), "b.toml").unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word:?} is missing in {error}");
            }
        }
    }
}
