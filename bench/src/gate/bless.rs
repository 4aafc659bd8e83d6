//! Blessing: budgets rewritten by what was measured, each with the reason. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::budgets::{Budget, Budgets};
use super::compare::breaks_promise;
use super::measurement::{Count, Measurement, Unit};

/// How far instructions of a hot path may move before it counts, percent. Counts of one executable
/// repeat exactly; unrelated code moves inlining by less than this.
const PATH_TOLERANCE_PERCENT: f64 = 1.0;
/// The same for a whole run, which repeats to a few millionths, and of which any one path is a small part.
const RUN_TOLERANCE_PERCENT: f64 = 0.5;

/// Which rows are to be rewritten.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// All that were measured or have a budget.
    All,
    /// Those of these ids, each in both units.
    Ids(Vec<String>),
}

/// What a blessing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blessed {
    /// Rows rewritten or added, as `id (unit)`.
    pub written: Vec<String>,
    /// Rows taken out, because nothing measures them any more.
    pub removed: Vec<String>,
    /// Rows that say what was measured, with this toolchain, already.
    pub left: usize,
}

/// Rewrites the chosen rows among those that `is_asked` admits. Rows that say the same already keep
/// their reason and date; tolerances stay.
///
/// # Errors
/// An id that has neither budget nor count; a path that claims to allocate nothing and allocates:
/// no blessing can allow that.
pub fn bless(
    budgets: &mut Budgets,
    measurement: &Measurement,
    chosen: &Chosen,
    is_asked: impl Fn(&str) -> bool,
    reason: &str,
    date: &str,
) -> Result<Blessed, String> {
    if let Chosen::Ids(ids) = chosen {
        for id in ids {
            let known = budgets.row.iter().any(|row| row.id == *id)
                || measurement.counts.iter().any(|count| count.id == *id);
            if !known || !is_asked(id) {
                return Err(unknown(id, budgets, measurement));
            }
        }
    }
    let is_chosen = |id: &str| match chosen {
        Chosen::All => is_asked(id),
        Chosen::Ids(ids) => ids.iter().any(|chosen| chosen == id),
    };
    let counts: Vec<&Count> = measurement
        .counts
        .iter()
        .filter(|count| is_chosen(&count.id))
        .collect();
    if let Some(broken) = counts.iter().find(|count| breaks_promise(count)) {
        return Err(format!(
            "{} claims to allocate nothing (allocation_free in bench/src/hot) and allocates {} blocks a call; \
             mend the path, or take the claim back there first",
            broken.id, broken.figure
        ));
    }
    let mut blessed = Blessed::default();
    let mut fresh = budgets.clone();
    fresh.row.retain(|row| {
        let keep = !is_chosen(&row.id) || measurement.find(&row.id, row.unit).is_some();
        if !keep {
            blessed.removed.push(format!("{} ({})", row.id, row.unit));
        }
        keep
    });
    let toolchain = name_of(&mut fresh, measurement);
    for count in counts {
        let old = budgets.find(&count.id, count.unit);
        let is_same = |old: &&Budget| {
            let with = budgets.toolchain_of(old);
            let differences = measurement.toolchain.differences(with, count.unit);
            old.figure == count.figure && differences.is_empty()
        };
        if old.is_some_and(|old| is_same(&old)) {
            blessed.left += 1;
            continue;
        }
        blessed
            .written
            .push(format!("{} ({})", count.id, count.unit));
        let row = Budget {
            id: count.id.clone(),
            figure: count.figure,
            unit: count.unit,
            tolerance_percent: old.map_or_else(|| tolerance(count), |old| old.tolerance_percent),
            command: format!(
                "cargo run -p podstorm-bench --bin gate -- --only {}",
                count.id
            ),
            date: date.to_owned(),
            toolchain: toolchain.clone(),
            reason: reason.to_owned(),
        };
        let is_it = |other: &&mut Budget| other.id == row.id && other.unit == row.unit;
        match fresh.row.iter_mut().find(is_it) {
            Some(place) => *place = row,
            None => fresh.row.push(row),
        }
    }
    sort(&mut fresh, measurement);
    let used: BTreeSet<String> = fresh.row.iter().map(|row| row.toolchain.clone()).collect();
    fresh.toolchain.retain(|name, _| used.contains(name));
    *budgets = fresh;
    Ok(blessed)
}

fn tolerance(count: &Count) -> f64 {
    match (count.unit, count.id.starts_with("run/")) {
        (Unit::Allocations, false) => 0.0,
        (Unit::Instructions, false) => PATH_TOLERANCE_PERCENT,
        (_, true) => RUN_TOLERANCE_PERCENT,
    }
}

/// Rows stand in the order of the list of hot paths; those that were not measured keep theirs, first.
fn sort(budgets: &mut Budgets, measurement: &Measurement) {
    let order = |row: &Budget| {
        let counts = &mut measurement.counts.iter();
        counts.position(|count| count.id == row.id && count.unit == row.unit)
    };
    if budgets.row.iter().all(|row| order(row).is_some()) {
        budgets.row.sort_by_key(order);
    }
}

/// The name of the present toolchain in the file, entered if it is new there.
fn name_of(budgets: &mut Budgets, measurement: &Measurement) -> String {
    let known = &mut budgets.toolchain.iter();
    if let Some((name, _)) = known.find(|(_, known)| **known == measurement.toolchain) {
        return name.clone();
    }
    let version = measurement.toolchain.rustc.split(' ').nth(1).unwrap_or("0");
    let base = format!("rust-{version}").replace('.', "-");
    let mut names =
        std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}-{number}")));
    let name = names
        .find(|name| !budgets.toolchain.contains_key(name))
        .expect("numbers do not run out");
    budgets
        .toolchain
        .insert(name.clone(), measurement.toolchain.clone());
    name
}

/// What to say about an id that is not there: the nearest that is.
pub(super) fn unknown(id: &str, budgets: &Budgets, measurement: &Measurement) -> String {
    let rows = budgets.row.iter().map(|row| row.id.as_str());
    let counts = measurement.counts.iter().map(|count| count.id.as_str());
    unknown_among(id, &rows.chain(counts).collect())
}

/// The same among these.
pub(super) fn unknown_among(id: &str, known: &BTreeSet<&str>) -> String {
    let shared = |known: &str| {
        let pairs = known.bytes().zip(id.bytes());
        pairs.take_while(|(left, right)| left == right).count()
    };
    let near = known
        .iter()
        .copied()
        .max_by_key(|known| (shared(known), Reverse(known.len())));
    let near = near.filter(|known| shared(known) > 0);
    let hint = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
    format!("no row \"{id}\" was asked for, measured or budgeted{hint}")
}

#[cfg(test)]
mod tests {
    use super::super::measurement::Toolchain;
    use super::*;

    fn measurement(counts: &[(&str, f64)]) -> Measurement {
        Measurement {
            toolchain: Toolchain {
                rustc: "rustc 1.95.0 (abc)".into(),
                ..Toolchain::default()
            },
            counts: counts
                .iter()
                .map(|&(id, figure)| Count {
                    id: id.into(),
                    unit: Unit::Instructions,
                    figure,
                    allocation_free: true,
                })
                .collect(),
        }
    }

    fn all(budgets: &mut Budgets, measurement: &Measurement, reason: &str) -> Blessed {
        let date = "2026-11-21";
        bless(budgets, measurement, &Chosen::All, |_| true, reason, date).unwrap()
    }

    fn ids(ids: &[&str]) -> Chosen {
        Chosen::Ids(ids.iter().map(|&id| id.to_owned()).collect())
    }

    #[test]
    fn blessing_from_nothing_writes_every_row() {
        let mut budgets = Budgets::default();
        let blessed = all(
            &mut budgets,
            &measurement(&[("a/b/1", 10.0), ("run/c/1", 1e6)]),
            "first count",
        );
        assert_eq!(blessed.written.len(), 2);
        assert_eq!(budgets.row[0].tolerance_percent, PATH_TOLERANCE_PERCENT);
        assert_eq!(budgets.row[1].tolerance_percent, RUN_TOLERANCE_PERCENT);
        assert_eq!(budgets.row[0].toolchain, "rust-1-95-0");
        assert_eq!(Budgets::parse(&budgets.render(), "b").unwrap(), budgets);
    }

    #[test]
    fn only_the_rows_named_are_rewritten() {
        let mut budgets = Budgets::default();
        all(
            &mut budgets,
            &measurement(&[("a/b/1", 10.0), ("a/c/1", 20.0)]),
            "first count",
        );
        budgets.row[0].tolerance_percent = 2.5;
        let before = budgets.clone();
        let now = measurement(&[("a/b/1", 11.0), ("a/c/1", 22.0)]);
        let blessed = bless(
            &mut budgets,
            &now,
            &ids(&["a/b/1"]),
            |_| true,
            "a check more",
            "2026-12-01",
        )
        .unwrap();
        assert_eq!(blessed.written, ["a/b/1 (instructions/call)"]);
        assert_eq!(budgets.row[1], before.row[1]);
        assert_eq!(budgets.row[0].figure, 11.0);
        assert_eq!(budgets.row[0].reason, "a check more");
        assert_eq!(budgets.row[0].date, "2026-12-01");
        assert_eq!(budgets.row[0].tolerance_percent, 2.5);
    }

    #[test]
    fn rows_that_say_the_same_already_keep_their_reason() {
        let mut budgets = Budgets::default();
        let now = measurement(&[("a/b/1", 10.0)]);
        all(&mut budgets, &now, "first count");
        let before = budgets.clone();
        let blessed = all(&mut budgets, &now, "another reason");
        assert_eq!((blessed.left, blessed.written.len()), (1, 0));
        assert_eq!(budgets, before);
    }

    #[test]
    fn a_row_that_disappeared_is_taken_out_when_named() {
        let mut budgets = Budgets::default();
        all(
            &mut budgets,
            &measurement(&[("a/b/1", 1.0), ("a/c/1", 2.0)]),
            "x",
        );
        let now = measurement(&[("a/b/1", 1.0)]);
        let blessed = bless(
            &mut budgets,
            &now,
            &ids(&["a/c/1"]),
            |_| true,
            "gone",
            "2026-12-01",
        );
        assert_eq!(blessed.unwrap().removed, ["a/c/1 (instructions/call)"]);
        assert_eq!(budgets.row.len(), 1);
    }

    #[test]
    fn an_unknown_row_is_refused_with_the_nearest_and_nothing_is_changed() {
        let mut budgets = Budgets::default();
        let now = measurement(&[("queue/cycle/1", 1.0), ("sync/idle/50", 2.0)]);
        all(&mut budgets, &now, "x");
        let before = budgets.clone();
        let error = bless(
            &mut budgets,
            &now,
            &ids(&["sync/idle/5"]),
            |_| true,
            "x",
            "2026-12-01",
        )
        .unwrap_err();
        assert!(error.contains("did you mean \"sync/idle/50\"?"), "{error}");
        assert_eq!(budgets, before);
    }

    #[test]
    fn a_new_toolchain_gets_a_name_and_an_unused_one_goes() {
        let mut budgets = Budgets::default();
        let mut now = measurement(&[("a/b/1", 10.0), ("a/c/1", 10.0)]);
        all(&mut budgets, &now, "x");
        now.toolchain.cpu = "baseline".into();
        bless(
            &mut budgets,
            &now,
            &ids(&["a/b/1"]),
            |_| true,
            "y",
            "2026-12-01",
        )
        .unwrap();
        let names: Vec<&String> = budgets.toolchain.keys().collect();
        assert_eq!(names, ["rust-1-95-0", "rust-1-95-0-2"]);
        assert_eq!(budgets.row[0].toolchain, "rust-1-95-0-2");
        all(&mut budgets, &now, "y");
        let names: Vec<&String> = budgets.toolchain.keys().collect();
        assert_eq!(names, ["rust-1-95-0-2"]);
    }

    #[test]
    fn an_allocation_where_none_is_claimed_can_not_be_blessed() {
        let mut now = measurement(&[("a/b/1", 1.0)]);
        now.counts[0].unit = Unit::Allocations;
        let (mut budgets, date) = (Budgets::default(), "2026-12-01");
        let error = bless(&mut budgets, &now, &Chosen::All, |_| true, "x", date).unwrap_err();
        assert!(error.contains("claims to allocate nothing"), "{error}");
    }
}
