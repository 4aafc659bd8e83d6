//! Blessing: rewrites budgets to the measured counts, each with a reason. Pure functions.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::budgets::{Budget, Budgets};
use super::compare::breaks_promise;
use super::measurement::{Count, Measurement, Unit};

/// How far the instructions of a hot path may deviate from its budget, in percent. The counts of
/// one executable repeat exactly; unrelated code changes inlining by less than this.
const PATH_TOLERANCE_PERCENT: f64 = 1.0;
/// The same for a whole run. Its counts repeat to a few millionths, and each path is only a small
/// part of it.
const RUN_TOLERANCE_PERCENT: f64 = 0.5;

/// The effect of a blessing. Rows are named `id (unit)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blessed {
    /// The rows that were rewritten or added.
    pub written: Vec<String>,
    /// The rows that were removed because nothing measures them any longer.
    pub removed: Vec<String>,
    /// The number of rows that already had the measured count, with this toolchain.
    pub left: usize,
}

/// Rewrites the rows that `is_chosen` accepts, in both units. Rows that already have the measured
/// count keep their reason and date. All rows keep their tolerance.
///
/// # Errors
/// Fails if a path that claims to allocate nothing allocates, which no blessing can allow.
pub fn bless(
    budgets: &mut Budgets,
    measurement: &Measurement,
    is_chosen: impl Fn(&str) -> bool,
    reason: &str,
    date: &str,
) -> Result<Blessed, String> {
    let counts = measurement.counts.iter();
    let counts: Vec<&Count> = counts.filter(|count| is_chosen(&count.id)).collect();
    if let Some(broken) = counts.iter().find(|count| breaks_promise(count)) {
        return Err(format!(
            "{} claims to allocate nothing (its row in bench/src/hot/mod.rs) and allocates {} blocks a call; \
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
    let toolchain = name_of_toolchain(&mut fresh, measurement);
    for count in counts {
        let old = budgets.find(&count.id, count.unit);
        if old.is_some_and(|old| {
            let with = budgets.toolchain_of(old);
            let differences = measurement.toolchain.differences(with, count.unit);
            old.figure == count.figure && differences.is_empty()
        }) {
            blessed.left += 1;
            continue;
        }
        let name = format!("{} ({})", count.id, count.unit);
        blessed.written.push(name);
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
    // In the order of the list of hot paths, if all of them were measured.
    let order = |row: &Budget| {
        let mut counts = measurement.counts.iter();
        counts.position(|count| count.id == row.id && count.unit == row.unit)
    };
    if fresh.row.iter().all(|row| order(row).is_some()) {
        fresh.row.sort_by_key(order);
    }
    let used: BTreeSet<String> = fresh.row.iter().map(|row| row.toolchain.clone()).collect();
    fresh.toolchain.retain(|name, _| used.contains(name));
    *budgets = fresh;
    Ok(blessed)
}

fn tolerance(count: &Count) -> f64 {
    match (count.unit, count.id.starts_with("run/")) {
        // The state of a server grows from time to time: some thousandths of an allocation per
        // call.
        (Unit::Allocations, false) if count.id.starts_with("http/") => PATH_TOLERANCE_PERCENT,
        (Unit::Allocations, false) => 0.0,
        (Unit::Instructions, false) => PATH_TOLERANCE_PERCENT,
        (_, true) => RUN_TOLERANCE_PERCENT,
    }
}

/// Returns the name of the present toolchain in the file. Adds the toolchain if it is new.
fn name_of_toolchain(budgets: &mut Budgets, measurement: &Measurement) -> String {
    let mut known = budgets.toolchain.iter();
    if let Some((name, _)) = known.find(|(_, known)| **known == measurement.toolchain) {
        return name.clone();
    }
    let version = measurement.toolchain.rustc.split(' ').nth(1).unwrap_or("0");
    let mut name = format!("rust-{version}").replace('.', "-");
    let base = name.clone();
    for number in 2.. {
        if !budgets.toolchain.contains_key(&name) {
            break;
        }
        name = format!("{base}-{number}");
    }
    let toolchain = measurement.toolchain.clone();
    budgets.toolchain.insert(name.clone(), toolchain);
    name
}

/// Returns the message about an unknown id. It suggests the most similar known id.
pub(super) fn unknown<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> String {
    let shared = |known: &str| {
        let pairs = known.bytes().zip(id.bytes());
        pairs.take_while(|(left, right)| left == right).count()
    };
    let near = known.max_by_key(|known| (shared(known), Reverse(known.len())));
    let near = near.filter(|known| shared(known) > 0);
    let hint = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
    format!("no row \"{id}\" is requested, measured or budgeted{hint}")
}

#[cfg(test)]
mod tests {
    use super::super::measurement::Toolchain;
    use super::*;

    fn measurement(counts: &[(&str, f64)]) -> Measurement {
        let count = |&(id, figure): &(&str, f64)| Count {
            id: id.into(),
            unit: Unit::Instructions,
            figure,
            allocation_free: true,
        };
        Measurement {
            toolchain: Toolchain {
                rustc: "rustc 1.95.0 (abc)".into(),
                ..Toolchain::default()
            },
            counts: counts.iter().map(count).collect(),
        }
    }

    fn all(budgets: &mut Budgets, measurement: &Measurement, reason: &str) -> Blessed {
        bless(budgets, measurement, |_| true, reason, "2026-11-21").unwrap()
    }

    fn one(budgets: &mut Budgets, measurement: &Measurement, id: &str) -> Blessed {
        bless(budgets, measurement, |other| other == id, "y", "2026-12-01").unwrap()
    }

    #[test]
    fn blessing_from_nothing_writes_every_row() {
        let mut budgets = Budgets::default();
        let now = measurement(&[("a/b/1", 10.0), ("run/c/1", 1e6)]);
        let blessed = all(&mut budgets, &now, "first count");
        assert_eq!(blessed.written.len(), 2);
        assert_eq!(budgets.row[0].tolerance_percent, PATH_TOLERANCE_PERCENT);
        assert_eq!(budgets.row[1].tolerance_percent, RUN_TOLERANCE_PERCENT);
        assert_eq!(budgets.row[0].toolchain, "rust-1-95-0");
        assert_eq!(Budgets::parse(&budgets.render(), "b").unwrap(), budgets);
        // Rows that already have the measured count keep their reason.
        let before = budgets.clone();
        let again = all(&mut budgets, &now, "another reason");
        assert_eq!((again.left, again.written.len()), (2, 0));
        assert_eq!(budgets, before);
    }

    #[test]
    fn only_named_rows_are_rewritten() {
        let mut budgets = Budgets::default();
        let then = measurement(&[("a/b/1", 10.0), ("a/c/1", 20.0)]);
        all(&mut budgets, &then, "first count");
        budgets.row[0].tolerance_percent = 2.5;
        let before = budgets.clone();
        let now = measurement(&[("a/b/1", 11.0), ("a/c/1", 22.0)]);
        let blessed = one(&mut budgets, &now, "a/b/1");
        assert_eq!(blessed.written, ["a/b/1 (instructions/call)"]);
        assert_eq!(budgets.row[1], before.row[1]);
        let row = &budgets.row[0];
        assert_eq!((row.figure, row.tolerance_percent), (11.0, 2.5));
        assert_eq!((&*row.reason, &*row.date), ("y", "2026-12-01"));
    }

    #[test]
    fn a_new_toolchain_gets_a_name_and_an_unused_one_is_dropped() {
        let mut budgets = Budgets::default();
        let mut now = measurement(&[("a/b/1", 10.0), ("a/c/1", 10.0)]);
        all(&mut budgets, &now, "x");
        now.toolchain.cpu = "baseline".into();
        one(&mut budgets, &now, "a/b/1");
        let names: Vec<&String> = budgets.toolchain.keys().collect();
        assert_eq!(names, ["rust-1-95-0", "rust-1-95-0-2"]);
        assert_eq!(budgets.row[0].toolchain, "rust-1-95-0-2");
        all(&mut budgets, &now, "y");
        let names: Vec<&String> = budgets.toolchain.keys().collect();
        assert_eq!(names, ["rust-1-95-0-2"]);
    }
}
