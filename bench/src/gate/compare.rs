//! Counts against budgets: a verdict for each row, and the exit status of all. Pure.

use serde::Serialize;

use super::budgets::{Budget, Budgets};
use super::measurement::{Count, Measurement, Unit};
use super::{EXIT_PASS, EXIT_REGRESSION, EXIT_TOOLCHAIN};

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Within,
    /// Less than the tolerance allows for: good, and worth blessing so that it stays.
    Faster,
    /// Out of the tolerance, but blessed with another toolchain: bless again.
    OtherToolchain,
    /// More than the tolerance allows for.
    Regression,
    /// It claims to allocate nothing, and allocates; no budget can allow that.
    NotAllocationFree,
    /// The budget is there, and nothing was measured.
    Disappeared,
    /// It was measured, and there is no budget.
    New,
}

impl Verdict {
    /// Whether the gate stays closed for it.
    pub const fn fails(self) -> bool {
        !matches!(self, Verdict::Within | Verdict::Faster)
    }

    /// The verdict in the table: in capitals where the gate stays closed.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Within => "ok",
            Verdict::Faster => "less",
            Verdict::OtherToolchain => "OTHER TOOLCHAIN",
            Verdict::Regression => "REGRESSION",
            Verdict::NotAllocationFree => "ALLOCATES",
            Verdict::Disappeared => "DISAPPEARED",
            Verdict::New => "NO BUDGET",
        }
    }
}

/// A row with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The hot path.
    pub id: String,
    /// What is counted.
    pub unit: Unit,
    /// The figure of the budget.
    pub budget: Option<f64>,
    /// How far a count may be from it, percent.
    pub tolerance_percent: Option<f64>,
    /// The count.
    pub measured: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// How the present toolchain differs from that of the budget.
    pub toolchain_differences: Vec<String>,
}

impl Judged {
    /// How much more was measured than budgeted, percent; absent when one is missing or there is
    /// nothing to be a percentage of.
    pub fn change_percent(&self) -> Option<f64> {
        let (budget, measured) = (self.budget?, self.measured?);
        if budget == measured {
            return Some(0.0);
        }
        (budget != 0.0).then(|| (measured / budget - 1.0) * 100.0)
    }
}

/// Judges every row of the budgets, in their order, and then what was measured without one. Of both only ids
/// that `is_asked` admits.
pub fn judge(
    budgets: &Budgets,
    measurement: &Measurement,
    is_asked: impl Fn(&str) -> bool,
) -> Vec<Judged> {
    let rows = budgets.row.iter().filter(|row| is_asked(&row.id));
    let with_budget = rows.map(|row| judge_row(row, budgets, measurement));
    let counts = measurement.counts.iter();
    let new = counts
        .filter(|count| is_asked(&count.id) && budgets.find(&count.id, count.unit).is_none())
        .map(|count| Judged {
            id: count.id.clone(),
            unit: count.unit,
            budget: None,
            tolerance_percent: None,
            measured: Some(count.figure),
            verdict: if breaks_promise(count) {
                Verdict::NotAllocationFree
            } else {
                Verdict::New
            },
            toolchain_differences: Vec::new(),
        });
    with_budget.chain(new).collect()
}

fn judge_row(row: &Budget, budgets: &Budgets, measurement: &Measurement) -> Judged {
    let count = measurement.find(&row.id, row.unit);
    let blessed_with = budgets.toolchain_of(row);
    let differences = measurement.toolchain.differences(blessed_with, row.unit);
    let verdict = match count {
        None => Verdict::Disappeared,
        Some(count) if breaks_promise(count) => Verdict::NotAllocationFree,
        Some(count) if (row.least()..=row.most()).contains(&count.figure) => Verdict::Within,
        Some(_) if !differences.is_empty() => Verdict::OtherToolchain,
        Some(count) if count.figure < row.figure => Verdict::Faster,
        Some(_) => Verdict::Regression,
    };
    Judged {
        id: row.id.clone(),
        unit: row.unit,
        budget: Some(row.figure),
        tolerance_percent: Some(row.tolerance_percent),
        measured: count.map(|count| count.figure),
        verdict,
        toolchain_differences: differences,
    }
}

/// Whether a path that says it allocates nothing was seen allocating.
pub(super) fn breaks_promise(count: &Count) -> bool {
    count.unit == Unit::Allocations && count.allocation_free && count.figure > 0.0
}

/// The exit status for all of them together. A real failure outweighs another toolchain.
pub fn exit_code(rows: &[Judged]) -> u8 {
    let mut code = EXIT_PASS;
    for row in rows {
        match row.verdict {
            Verdict::OtherToolchain => code = EXIT_TOOLCHAIN,
            verdict if verdict.fails() => return EXIT_REGRESSION,
            _ => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::measurement::Toolchain;
    use super::*;

    fn toolchain() -> Toolchain {
        Toolchain {
            rustc: "rustc 1".into(),
            cpu: "avx2".into(),
            ..Toolchain::default()
        }
    }

    fn budgets(rows: &[(&str, Unit, f64, f64)]) -> Budgets {
        Budgets {
            toolchain: [("t".to_owned(), toolchain())].into(),
            row: rows
                .iter()
                .map(|&(id, unit, figure, tolerance_percent)| Budget {
                    id: id.into(),
                    figure,
                    unit,
                    tolerance_percent,
                    command: "gate".into(),
                    date: "2026-11-21".into(),
                    toolchain: "t".into(),
                    reason: "a test".into(),
                })
                .collect(),
        }
    }

    fn measurement(counts: &[(&str, Unit, f64)]) -> Measurement {
        Measurement {
            toolchain: toolchain(),
            counts: counts
                .iter()
                .map(|&(id, unit, figure)| Count {
                    id: id.into(),
                    unit,
                    figure,
                    allocation_free: id.starts_with("free/"),
                })
                .collect(),
        }
    }

    fn verdict(budget: f64, tolerance: f64, measured: f64) -> (Verdict, u8) {
        let rows = judge(
            &budgets(&[("a/b/1", Unit::Instructions, budget, tolerance)]),
            &measurement(&[("a/b/1", Unit::Instructions, measured)]),
            |_| true,
        );
        (rows[0].verdict, exit_code(&rows))
    }

    #[test]
    fn the_tolerance_is_a_line_on_either_side() {
        assert_eq!(verdict(200.0, 1.0, 200.0), (Verdict::Within, 0));
        assert_eq!(verdict(200.0, 1.0, 202.0), (Verdict::Within, 0));
        assert_eq!(verdict(200.0, 1.0, 202.001), (Verdict::Regression, 1));
        assert_eq!(verdict(200.0, 1.0, 198.0), (Verdict::Within, 0));
        assert_eq!(verdict(200.0, 1.0, 197.999), (Verdict::Faster, 0));
    }

    #[test]
    fn a_budget_of_zero_with_any_tolerance_allows_nothing() {
        assert_eq!(verdict(0.0, 100.0, 0.0), (Verdict::Within, 0));
        assert_eq!(verdict(0.0, 100.0, 0.001), (Verdict::Regression, 1));
    }

    #[test]
    fn another_toolchain_asks_for_blessing_instead_of_crying_regression() {
        let budgets = budgets(&[
            ("a/b/1", Unit::Instructions, 100.0, 1.0),
            ("a/c/1", Unit::Instructions, 100.0, 1.0),
            ("a/d/1", Unit::Instructions, 100.0, 1.0),
        ]);
        let mut measurement = measurement(&[
            ("a/b/1", Unit::Instructions, 150.0),
            ("a/c/1", Unit::Instructions, 50.0),
            ("a/d/1", Unit::Instructions, 100.0),
        ]);
        measurement.toolchain.rustc = "rustc 2".into();
        let rows = judge(&budgets, &measurement, |_| true);
        let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
        let expected = [
            Verdict::OtherToolchain,
            Verdict::OtherToolchain,
            Verdict::Within,
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(rows[0].toolchain_differences, ["rustc: rustc 1 -> rustc 2"]);
        assert_eq!(exit_code(&rows), EXIT_TOOLCHAIN);
    }

    #[test]
    fn another_machine_excuses_no_allocation() {
        let budgets = budgets(&[("a/b/1", Unit::Allocations, 2.0, 0.0)]);
        let mut measurement = measurement(&[("a/b/1", Unit::Allocations, 3.0)]);
        measurement.toolchain.cpu = "baseline".into();
        let rows = judge(&budgets, &measurement, |_| true);
        assert_eq!(rows[0].verdict, Verdict::Regression);
    }

    #[test]
    fn a_regression_outweighs_another_toolchain() {
        let budgets = budgets(&[
            ("a/b/1", Unit::Allocations, 2.0, 0.0),
            ("a/b/1", Unit::Instructions, 2.0, 0.0),
        ]);
        let mut measurement = measurement(&[
            ("a/b/1", Unit::Allocations, 3.0),
            ("a/b/1", Unit::Instructions, 3.0),
        ]);
        measurement.toolchain.cpu = "baseline".into();
        assert_eq!(
            exit_code(&judge(&budgets, &measurement, |_| true)),
            EXIT_REGRESSION
        );
    }

    #[test]
    fn no_budget_and_no_toolchain_excuses_a_broken_promise() {
        let budgets = budgets(&[("free/b/1", Unit::Allocations, 5.0, 10.0)]);
        let mut measurement = measurement(&[("free/b/1", Unit::Allocations, 5.0)]);
        measurement.toolchain.rustc = "rustc 2".into();
        let rows = judge(&budgets, &measurement, |_| true);
        assert_eq!(rows[0].verdict, Verdict::NotAllocationFree);
        assert_eq!(exit_code(&rows), EXIT_REGRESSION);
    }

    #[test]
    fn what_was_not_asked_for_is_left_aside() {
        let budgets = budgets(&[("a/b/1", Unit::Instructions, 1.0, 1.0)]);
        let measurement = measurement(&[("c/d/1", Unit::Instructions, 1.0)]);
        assert!(judge(&budgets, &measurement, |id| id == "e/f/1").is_empty());
    }
}
