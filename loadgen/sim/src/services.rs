//! The controllers of a cluster: which of them run, and how those of a served cluster are set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use podstorm::identity::Identity;
use podstorm::row::{ControllerRow, RunsIn};
use podstorm_apiserver::Plugins;
use podstorm_objects::Kind;

use crate::rows::Rows;

/// The controllers that run, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<&'static str>);

/// A word of `--controllers` that names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is not a controller; there are {known}, and each may have a `-` before it; `*` is all"
)]
pub struct UnknownController {
    word: String,
    known: String,
}

impl Controllers {
    /// Those of the rows that `runs` says so of.
    pub fn that(rows: &Rows, runs: impl Fn(&ControllerRow) -> bool) -> Controllers {
        let rows = rows.iter().filter(|row| runs(row));
        Controllers(rows.map(|row| row.name).collect())
    }

    /// Those that run if nothing else is said: all but those that [only served
    /// clusters](ControllerRow::served_only) run by default.
    pub fn by_default(rows: &Rows) -> Controllers {
        Controllers::that(rows, |row| !row.served_only)
    }

    /// Those of objects of these kinds, and those that every cluster has of its own.
    pub fn of_kinds(rows: &Rows, kinds: &[Kind]) -> Controllers {
        Controllers::that(rows, |row| {
            let is_one = row.kind.is_some_and(|kind| kinds.contains(&kind));
            !row.served_only && (is_one || row.runs_in != RunsIn::Manager)
        })
    }

    /// The same, with that one alone of the controllers of its kind. A kind may have several: Jobs are run by one and
    /// deleted by another.
    #[must_use]
    pub fn with_one(mut self, rows: &Rows, one: &ControllerRow) -> Controllers {
        let others = rows.iter().filter(|row| row.kind == one.kind);
        for other in others.filter(|row| row.name != one.name) {
            self.0.remove(other.name);
        }
        self
    }

    /// The same, with that one.
    #[must_use]
    pub fn with(mut self, row: &ControllerRow) -> Controllers {
        self.0.insert(row.name);
        self
    }

    /// All of them.
    pub fn all(rows: &Rows) -> Controllers {
        Controllers::that(rows, |_| true)
    }

    /// Those of a list as upstream's `--controllers` takes it: `*` is all, `name` is that one, and
    /// `-name` is all that the list names but that one. The first word about a controller decides.
    ///
    /// # Errors
    /// A word that names none.
    pub fn of<T: AsRef<str>>(rows: &Rows, words: &[T]) -> Result<Controllers, UnknownController> {
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

    /// Whether a controller runs.
    pub fn has(&self, row: &ControllerRow) -> bool {
        self.0.contains(row.name)
    }
}

/// The names, as a message lists them.
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
        write!(text, "{between}{name} ({alias})").expect("a text takes everything");
    }
    text
}

/// The controllers around those of workloads, in a served cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    /// Those that run, the controllers of workloads among them.
    pub controllers: Controllers,
    /// The numbers of their rows that are set, by the names of their flags.
    pub numbers: BTreeMap<&'static str, i64>,
    /// `--event-ttl`: how long after its last write an Event is deleted, ns; never where it is not positive. A
    /// cluster that has Events then never comes to rest before they are gone.
    pub event_ttl_ns: i64,
    /// Whether a namespace that is being deleted is left alone as long as upstream leaves it. If
    /// not, it is looked at at once, and again soon after something went.
    pub namespaces_wait: bool,
    /// What the controllers of service accounts give namespaces and Secrets.
    pub identity: Identity,
    /// The admission plugins of the API server.
    pub plugins: Plugins,
}

impl Default for Services {
    /// Those of the installed controllers that run [by default](Controllers::by_default).
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
        let on = Controllers::of(&rows, words).unwrap();
        let rows = rows.iter().filter(|row| !on.has(row));
        rows.map(|row| row.alias).collect()
    }

    #[test]
    fn a_list_says_which_controllers_run() {
        let rows = &Rows::upstream();
        assert_eq!(Controllers::of(rows, &["*"]), Ok(Controllers::all(rows)));
        assert_eq!(off(&["*", "-podgc"]), ["podgc"]);
        assert_eq!(off(&["-namespace-controller", "*"]), ["namespace"]);
        let first = off(&["*", "replicaset", "-replicaset"]);
        assert_eq!(first.len(), 0, "the first decides");
        let one = ["garbage-collector-controller"];
        assert_eq!(off(&one).len(), rows.iter().count() - 1);
        let none = off(&["-podgc"]);
        let all = rows.iter().count();
        assert_eq!(none.len(), all, "nothing is on without a star");
        assert_eq!(off(&[]).len(), all);
    }

    #[test]
    fn those_of_served_clusters_run_elsewhere_only_where_they_are_selected() {
        let rows = &Rows::upstream();
        let left = |on: &Controllers| {
            let rows = rows.iter().filter(|row| row.served_only && on.has(row));
            rows.map(|row| row.alias).collect::<Vec<_>>()
        };
        assert!(left(&Controllers::by_default(rows)).is_empty());
        assert!(left(&Services::default().controllers).is_empty());
        assert!(left(&Controllers::of_kinds(rows, &[Kind::REPLICA_SET])).is_empty());
        assert!(left(&Controllers::of_kinds(rows, &[Kind::JOB])).is_empty());
        let budgets = Controllers::of(rows, &["disruption"]).expect("a known name");
        assert_eq!(left(&budgets), ["disruption"]);
        let all = left(&Controllers::all(rows));
        assert!(["podgc", "disruption"].iter().all(|it| all.contains(it)));
    }

    #[test]
    fn of_the_controllers_of_a_kind_one_may_run_alone() {
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
    fn an_unknown_name_is_refused_with_the_names() {
        let rows = &Rows::upstream();
        let error = Controllers::of(rows, &["*", "-daemonset"])
            .unwrap_err()
            .to_string();
        let begins = error.starts_with("\"-daemonset\" is not a controller");
        assert!(begins, "{error}");
        let names = error.contains("pod-garbage-collector-controller (podgc)");
        assert!(names, "{error}");
        assert!(Controllers::of(rows, &["-*"]).is_err());
        assert!(Controllers::of(rows, &[""]).is_err());
    }
}
