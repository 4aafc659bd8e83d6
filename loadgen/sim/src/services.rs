//! The controllers of a served cluster: their names, which of them run, and how they are set.

use std::collections::BTreeSet;
use std::fmt::Write;

/// A controller that a served cluster can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// ReplicaSets.
    ReplicaSet,
    /// ReplicationControllers.
    ReplicationController,
    /// Deployments.
    Deployment,
    /// The garbage collector.
    GarbageCollector,
    /// The end of namespaces that are being deleted.
    Namespace,
    /// Pod garbage collection.
    PodGarbageCollector,
    /// Disruption budgets.
    Disruption,
}

/// Every controller with its name and its older name, both of which upstream knows.
///
/// Source: `cmd/kube-controller-manager/names` in Kubernetes.
const NAMES: [(ControllerName, &str, &str); 7] = [
    (
        ControllerName::ReplicaSet,
        "replicaset-controller",
        "replicaset",
    ),
    (
        ControllerName::ReplicationController,
        "replicationcontroller-controller",
        "replicationcontroller",
    ),
    (
        ControllerName::Deployment,
        "deployment-controller",
        "deployment",
    ),
    (
        ControllerName::GarbageCollector,
        "garbage-collector-controller",
        "garbagecollector",
    ),
    (
        ControllerName::Namespace,
        "namespace-controller",
        "namespace",
    ),
    (
        ControllerName::PodGarbageCollector,
        "pod-garbage-collector-controller",
        "podgc",
    ),
    (
        ControllerName::Disruption,
        "disruption-controller",
        "disruption",
    ),
];

/// The controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<ControllerName>);

/// A word of `--controllers` that names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is no controller; there are {known}, and each may have a `-` before it; `*` is all"
)]
pub struct UnknownController {
    word: String,
    known: String,
}

impl Controllers {
    /// All of them.
    pub fn all() -> Controllers {
        Controllers(NAMES.iter().map(|row| row.0).collect())
    }

    /// Those of a list as upstream's `--controllers` takes it: `*` is all, `name` is that one, and
    /// `-name` is all that the list names but that one. The first word about a controller decides.
    ///
    /// # Errors
    /// A word that names none.
    pub fn of<T: AsRef<str>>(words: &[T]) -> Result<Controllers, UnknownController> {
        let words = || words.iter().map(|word| word.as_ref().trim());
        for word in words().filter(|word| *word != "*") {
            if find(word.strip_prefix('-').unwrap_or(word)).is_none() {
                return Err(UnknownController {
                    word: word.to_owned(),
                    known: known(),
                });
            }
        }
        let has_star = words().any(|word| word == "*");
        let runs = |controller: &ControllerName| {
            let decides = |word: &str| match word.strip_prefix('-') {
                Some(name) => (find(name) == Some(*controller)).then_some(false),
                None => (find(word) == Some(*controller)).then_some(true),
            };
            words().find_map(decides).unwrap_or(has_star)
        };
        let all = NAMES.iter().map(|row| row.0);
        Ok(Controllers(all.filter(runs).collect()))
    }

    /// Whether a controller runs.
    pub fn has(&self, name: ControllerName) -> bool {
        self.0.contains(&name)
    }
}

fn find(word: &str) -> Option<ControllerName> {
    let row = NAMES.iter().find(|row| row.1 == word || row.2 == word);
    row.map(|row| row.0)
}

/// The names, as a message lists them.
fn known() -> String {
    let mut text = String::new();
    for (number, (_, name, older)) in NAMES.iter().enumerate() {
        let between = match number {
            0 => "",
            _ if number + 1 == NAMES.len() => " and ",
            _ => ", ",
        };
        write!(text, "{between}{name} ({older})").expect("a text takes everything");
    }
    text
}

/// The controllers around those of workloads, in a served cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    /// Those that run, the controllers of workloads among them.
    pub controllers: Controllers,
    /// `--terminated-pod-gc-threshold`: ended pods beyond this number are deleted; none are when it
    /// is not positive.
    pub terminated_pod_gc_threshold: i64,
    /// `--event-ttl`: how long after its last write an Event is deleted, ns; never where it is not positive. A
    /// cluster that has Events then never comes to rest before they are gone.
    pub event_ttl_ns: i64,
    /// Whether a namespace that is being deleted is left alone as long as upstream leaves it. If
    /// not, it is looked at at once, and again soon after something went.
    pub namespaces_wait: bool,
}

impl Default for Services {
    fn default() -> Services {
        Services {
            controllers: Controllers::all(),
            terminated_pod_gc_threshold: 12_500,
            event_ttl_ns: 0,
            namespaces_wait: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(words: &[&str]) -> Vec<&'static str> {
        let on = Controllers::of(words).unwrap();
        let rows = NAMES.iter().filter(|row| !on.has(row.0));
        rows.map(|row| row.2).collect()
    }

    #[test]
    fn a_list_says_which_controllers_run() {
        assert_eq!(Controllers::of(&["*"]), Ok(Controllers::all()));
        assert_eq!(off(&["*", "-podgc"]), ["podgc"]);
        assert_eq!(off(&["-namespace-controller", "*"]), ["namespace"]);
        let first = off(&["*", "replicaset", "-replicaset"]);
        assert_eq!(first.len(), 0, "the first decides");
        let one = ["garbage-collector-controller"];
        assert_eq!(off(&one).len(), NAMES.len() - 1);
        let none = off(&["-podgc"]);
        assert_eq!(none.len(), NAMES.len(), "nothing is on without a star");
        assert_eq!(off(&[]).len(), NAMES.len());
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names() {
        let error = Controllers::of(&["*", "-daemonset"])
            .unwrap_err()
            .to_string();
        let begins = error.starts_with("\"-daemonset\" is no controller");
        assert!(begins, "{error}");
        let names = error.contains("pod-garbage-collector-controller (podgc)");
        assert!(names, "{error}");
        assert!(Controllers::of(&["-*"]).is_err());
        assert!(Controllers::of(&[""]).is_err());
    }
}
