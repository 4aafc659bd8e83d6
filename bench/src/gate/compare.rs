//! Compares counts with budgets: a verdict for each row, and the exit status for all rows. Pure
//! functions.

use serde::Serialize;

use super::budgets::{Budget, Budgets};
use super::measurement::{Count, Measurement, Unit};
use super::{EXIT_PASS, EXIT_REGRESSION, EXIT_TOOLCHAIN};

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The count is within the tolerance.
    Within,
    /// The count is below the tolerance: a gain, which a blessing keeps.
    Faster,
    /// The count is outside the tolerance, but the row was blessed with another toolchain: bless it
    /// again.
    OtherToolchain,
    /// The count is above the tolerance.
    Regression,
    /// The path claims to allocate nothing, but allocates. No budget can allow that.
    NotAllocationFree,
    /// There is a budget, but no count.
    Disappeared,
    /// There is a count, but no budget.
    New,
}

impl Verdict {
    /// Reports whether the verdict closes the gate.
    pub const fn fails(self) -> bool {
        !matches!(self, Verdict::Within | Verdict::Faster)
    }

    /// Returns the verdict as the table shows it: in capitals if it closes the gate.
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
    /// The id of the hot path.
    pub id: String,
    /// The unit of the count.
    pub unit: Unit,
    /// The figure of the budget; `None` if there is no budget.
    pub budget: Option<f64>,
    /// How far the count may deviate from the budget, in percent.
    pub tolerance_percent: Option<f64>,
    /// The count; `None` if nothing was measured.
    pub measured: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The differences between the present toolchain and that of the budget; empty if there are
    /// none.
    pub toolchain_differences: Vec<String>,
}

impl Judged {
    /// Returns by how much the count exceeds the budget, in percent. `None` if either is missing,
    /// or if the budget is zero.
    pub fn change_percent(&self) -> Option<f64> {
        let (budget, measured) = (self.budget?, self.measured?);
        if budget == measured {
            return Some(0.0);
        }
        (budget != 0.0).then(|| (measured / budget - 1.0) * 100.0)
    }
}

/// Judges every row of the budgets, in order, and then the counts without a row. Includes only the
/// ids that `is_asked` accepts.
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

/// Reports whether a path that claims to allocate nothing has allocated.
pub(super) fn breaks_promise(count: &Count) -> bool {
    count.unit == Unit::Allocations && count.allocation_free && count.figure > 0.0
}

/// Returns the exit status for all rows together. A real failure takes precedence over a different
/// toolchain.
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

    /// Judges a row with this id, unit and budget, given the measured count. `rustc` or `cpu` may
    /// differ from that of the budget. A path under `free/` claims to allocate nothing.
    fn judged(
        (id, unit): (&str, Unit),
        (figure, tolerance_percent): (f64, f64),
        measured: f64,
        other: &str,
    ) -> Judged {
        let toolchain = |changed: &str| Toolchain {
            rustc: if changed == "rustc" { "2" } else { "1" }.into(),
            cpu: if changed == "cpu" { "2" } else { "1" }.into(),
            ..Toolchain::default()
        };
        let row = Budget {
            id: id.into(),
            figure,
            unit,
            tolerance_percent,
            command: "gate".into(),
            date: "2026-11-21".into(),
            toolchain: "t".into(),
            reason: "a test".into(),
        };
        let budgets = Budgets {
            toolchain: [("t".to_owned(), toolchain(""))].into(),
            row: vec![row],
        };
        let count = Count {
            id: id.into(),
            unit,
            figure: measured,
            allocation_free: id.starts_with("free/"),
        };
        let measurement = Measurement {
            toolchain: toolchain(other),
            counts: vec![count],
        };
        assert!(judge(&budgets, &measurement, |id| id == "e/f/1").is_empty());
        judge(&budgets, &measurement, |_| true).remove(0)
    }

    #[test]
    fn tolerance_toolchain_and_promise_decide() {
        const INSTRUCTIONS: (&str, Unit) = ("a/b/1", Unit::Instructions);
        const ALLOCATIONS: (&str, Unit) = ("a/b/1", Unit::Allocations);
        const PROMISED: (&str, Unit) = ("free/b/1", Unit::Allocations);
        use Verdict::{Faster, NotAllocationFree, OtherToolchain, Regression, Within};
        for (row, budget, measured, other, verdict, code) in [
            // The tolerance is symmetric and inclusive.
            (INSTRUCTIONS, (200.0, 1.0), 200.0, "", Within, 0),
            (INSTRUCTIONS, (200.0, 1.0), 202.0, "", Within, 0),
            (INSTRUCTIONS, (200.0, 1.0), 202.001, "", Regression, 1),
            (INSTRUCTIONS, (200.0, 1.0), 198.0, "", Within, 0),
            (INSTRUCTIONS, (200.0, 1.0), 197.999, "", Faster, 0),
            // A budget of zero allows nothing, whatever the tolerance.
            (INSTRUCTIONS, (0.0, 100.0), 0.0, "", Within, 0),
            (INSTRUCTIONS, (0.0, 100.0), 0.001, "", Regression, 1),
            // A different toolchain requires a blessing; it is not a regression.
            (
                INSTRUCTIONS,
                (100.0, 1.0),
                150.0,
                "rustc",
                OtherToolchain,
                3,
            ),
            (INSTRUCTIONS, (100.0, 1.0), 50.0, "rustc", OtherToolchain, 3),
            (INSTRUCTIONS, (100.0, 1.0), 100.0, "rustc", Within, 0),
            (INSTRUCTIONS, (2.0, 0.0), 3.0, "cpu", OtherToolchain, 3),
            // Another machine is no excuse for allocations.
            (ALLOCATIONS, (2.0, 0.0), 3.0, "cpu", Regression, 1),
            // Neither a budget nor a toolchain is an excuse for a broken claim.
            (PROMISED, (5.0, 10.0), 5.0, "rustc", NotAllocationFree, 1),
        ] {
            let row = judged(row, budget, measured, other);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert_eq!(exit_code(&[row]), code, "{verdict:?}");
        }
    }

    #[test]
    fn a_regression_outweighs_another_toolchain() {
        let other = judged(("a/b/1", Unit::Instructions), (2.0, 0.0), 3.0, "cpu");
        assert_eq!(other.toolchain_differences, ["cpu: 1 -> 2"]);
        let regression = judged(("a/b/1", Unit::Allocations), (2.0, 0.0), 3.0, "cpu");
        for rows in [[&other, &regression], [&regression, &other]] {
            assert_eq!(exit_code(&rows.map(Judged::clone)), EXIT_REGRESSION);
        }
    }
}
