//! The selection of the controllers that run in a cluster, and the settings of a served cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use podstorm::identity::Identity;
use podstorm::row::{ControllerRow, RunsIn};
use podstorm_apiserver::Plugins;
use podstorm_objects::Kind;

use crate::rows::Rows;

/// The names of the controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<&'static str>);

/// The error for a word of `--controllers` that doesn't name a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is not a controller; expected {known}, each optionally prefixed with `-`, or `*` for all"
)]
pub struct UnknownController {
    word: String,
    known: String,
}

impl Controllers {
    /// Returns the controllers whose rows satisfy `runs`.
    pub fn that(rows: &Rows, runs: impl Fn(&ControllerRow) -> bool) -> Controllers {
        let rows = rows.iter().filter(|row| runs(row));
        Controllers(rows.map(|row| row.name).collect())
    }

    /// Returns the default controllers: all except those that [only served
    /// clusters](ControllerRow::served_only) run by default.
    pub fn by_default(rows: &Rows) -> Controllers {
        Controllers::that(rows, |row| !row.served_only)
    }

    /// Returns the controllers of these kinds and those that run in every cluster, except those
    /// that [only served clusters](ControllerRow::served_only) run.
    pub fn of_kinds(rows: &Rows, kinds: &[Kind]) -> Controllers {
        Controllers::that(rows, |row| {
            let is_one = row.kind.is_some_and(|kind| kinds.contains(&kind));
            !row.served_only && (is_one || row.runs_in != RunsIn::Manager)
        })
    }

    /// Removes the other controllers of the kind that `one` works on. A kind may have several
    /// controllers: one runs Jobs, and another deletes them. Does not add `one`.
    #[must_use]
    pub fn with_one(mut self, rows: &Rows, one: &ControllerRow) -> Controllers {
        let others = rows.iter().filter(|row| row.kind == one.kind);
        for other in others.filter(|row| row.name != one.name) {
            self.0.remove(other.name);
        }
        self
    }

    /// Adds a controller.
    #[must_use]
    pub fn with(mut self, row: &ControllerRow) -> Controllers {
        self.0.insert(row.name);
        self
    }

    /// Returns all controllers.
    pub fn all(rows: &Rows) -> Controllers {
        Controllers::that(rows, |_| true)
    }

    /// Parses a list in the format of upstream's `--controllers`: `*` selects all controllers,
    /// `name` adds a controller, and `-name` excludes it. For each controller, the first word that
    /// names it decides.
    ///
    /// # Errors
    /// Fails with the first word that doesn't name a controller.
    pub fn from_words<T: AsRef<str>>(
        rows: &Rows,
        words: &[T],
    ) -> Result<Controllers, UnknownController> {
        let words = || words.iter().map(|word| word.as_ref().trim());
        for word in words().filter(|word| *word != "*") {
            if rows.find(word.strip_prefix('-').unwrap_or(word)).is_none() {
                return Err(UnknownController {
                    word: word.to_owned(),
                    known: known(rows),
                });
            }
        }
        let has_star = words().any(|word| word == "*");
        let runs = |row: &ControllerRow| {
            let decides = |word: &str| match word.strip_prefix('-') {
                Some(name) => row.is_called(name).then_some(false),
                None => row.is_called(word).then_some(true),
            };
            words().find_map(decides).unwrap_or(has_star)
        };
        Ok(Controllers::that(rows, runs))
    }

    /// Reports whether a controller runs.
    pub fn has(&self, row: &ControllerRow) -> bool {
        self.0.contains(row.name)
    }
}

/// Returns the names and aliases of all controllers, as an error message lists them.
fn known(rows: &Rows) -> String {
    let mut text = String::new();
    let last = rows.iter().count() - 1;
    for (number, row) in rows.iter().enumerate() {
        let between = match number {
            0 => "",
            _ if number == last => " and ",
            _ => ", ",
        };
        let (name, alias) = (row.name, row.alias);
        write!(text, "{between}{name} ({alias})").expect("writing to a string never fails");
    }
    text
}

/// The controllers that run, and the settings that apply only to a served cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    /// The controllers that run, including those of workloads.
    pub controllers: Controllers,
    /// The values of the rows' number flags that are set, by the flag's name.
    pub numbers: BTreeMap<&'static str, i64>,
    /// `--event-ttl`: the time after its last write at which an Event is deleted, ns. Events are
    /// never deleted if it is not positive. A cluster with Events comes to rest only after their
    /// deletion.
    pub event_ttl_ns: i64,
    /// Whether the namespace controller uses upstream's delays between its checks of a terminating
    /// namespace. If not, it checks immediately, and again soon after each deletion.
    pub namespaces_wait: bool,
    /// The service accounts and Secrets that the identity controllers maintain.
    pub identity: Identity,
    /// The admission plugins of the API server.
    pub plugins: Plugins,
}

impl Default for Services {
    /// Returns the installed controllers that run [by default](Controllers::by_default).
    fn default() -> Services {
        Services {
            controllers: Controllers::by_default(Rows::installed()),
            numbers: BTreeMap::new(),
            event_ttl_ns: 0,
            namespaces_wait: false,
            identity: Identity::default(),
            plugins: Plugins::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(words: &[&str]) -> Vec<&'static str> {
        let rows = Rows::upstream();
        let on = Controllers::from_words(&rows, words).unwrap();
        let rows = rows.iter().filter(|row| !on.has(row));
        rows.map(|row| row.alias).collect()
    }

    #[test]
    fn a_list_selects_the_controllers_that_run() {
        let rows = &Rows::upstream();
        assert_eq!(
            Controllers::from_words(rows, &["*"]),
            Ok(Controllers::all(rows))
        );
        assert_eq!(off(&["*", "-podgc"]), ["podgc"]);
        assert_eq!(off(&["-namespace-controller", "*"]), ["namespace"]);
        let first = off(&["*", "replicaset", "-replicaset"]);
        assert_eq!(first.len(), 0, "the first word decides");
        let one = ["garbage-collector-controller"];
        assert_eq!(off(&one).len(), rows.iter().count() - 1);
        let none = off(&["-podgc"]);
        let all = rows.iter().count();
        assert_eq!(none.len(), all, "nothing is on without a star");
        assert_eq!(off(&[]).len(), all);
    }

    #[test]
    fn served_only_controllers_run_elsewhere_only_if_selected() {
        let rows = &Rows::upstream();
        let left = |on: &Controllers| {
            let rows = rows.iter().filter(|row| row.served_only && on.has(row));
            rows.map(|row| row.alias).collect::<Vec<_>>()
        };
        assert!(left(&Controllers::by_default(rows)).is_empty());
        assert!(left(&Services::default().controllers).is_empty());
        assert!(left(&Controllers::of_kinds(rows, &[Kind::REPLICA_SET])).is_empty());
        assert!(left(&Controllers::of_kinds(rows, &[Kind::JOB])).is_empty());
        let budgets = Controllers::from_words(rows, &["disruption"]).expect("a known name");
        assert_eq!(left(&budgets), ["disruption"]);
        let all = left(&Controllers::all(rows));
        assert!(["podgc", "disruption"].iter().all(|it| all.contains(it)));
    }

    #[test]
    fn one_controller_of_a_kind_can_run_without_the_others() {
        let rows = &Rows::upstream();
        let [jobs, ttl] = ["job", "ttl-after-finished"].map(|name| rows.find(name).unwrap());
        let both = Controllers::of_kinds(rows, &[Kind::JOB, Kind::REPLICA_SET]);
        assert!(both.has(jobs) && both.has(ttl));
        let one = both.clone().with_one(rows, ttl);
        assert!(!one.has(jobs) && one.has(ttl));
        let sets = rows.find("replicaset").unwrap();
        assert!(one.has(sets));
        assert_eq!(both.clone().with_one(rows, sets), both);
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_known_names() {
        let rows = &Rows::upstream();
        let error = Controllers::from_words(rows, &["*", "-daemonset"])
            .unwrap_err()
            .to_string();
        let begins = error.starts_with("\"-daemonset\" is not a controller");
        assert!(begins, "{error}");
        let names = error.contains("pod-garbage-collector-controller (podgc)");
        assert!(names, "{error}");
        assert!(Controllers::from_words(rows, &["-*"]).is_err());
        assert!(Controllers::from_words(rows, &[""]).is_err());
    }
}
