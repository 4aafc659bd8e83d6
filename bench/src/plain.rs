//! The straightforward way of doing it, for rivals: texts as keys, one lock around one map, a scan
//! where there is no index, and objects as a decoder leaves them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm::object::{LabelSelector, Labels, Pod, ReplicaSet, Uid};
use podstorm::ranking::DELETION_COST_ANNOTATION;

/// A map of strings, sorted.
pub type Map = BTreeMap<String, String>;

/// A pod with members of its own, as far as handlers and syncs read them.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the members of a pod under their usual names")]
pub struct PlainPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub version: String,
    pub labels: Map,
    pub annotations: Map,
    pub controller: Option<Controller>,
    pub node: String,
    pub created: String,
    pub deleted: bool,
    pub phase: String,
    /// Type, status and time.
    pub conditions: Vec<[String; 3]>,
    pub restarts: Vec<i32>,
}

/// A controller reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the members of a reference under their usual names"
)]
pub struct Controller {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl PlainPod {
    /// The same pod, plainly.
    pub fn of(pod: &Pod) -> PlainPod {
        let meta = &pod.metadata;
        let conditions = pod.status.conditions.iter();
        let containers = pod.status.container_statuses.iter();
        PlainPod {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            version: meta.resource_version.to_string(),
            labels: map(&meta.labels),
            annotations: map(&meta.annotations),
            controller: meta.controller().map(|owner| Controller {
                kind: owner.kind.to_string(),
                name: owner.name.to_string(),
                uid: owner.uid.to_string(),
            }),
            node: pod.node_name.as_deref().unwrap_or_default().to_owned(),
            created: meta.creation_timestamp.to_string(),
            deleted: meta.is_deleting(),
            phase: format!("{:?}", pod.status.phase),
            conditions: conditions
                .map(|condition| {
                    let kind = format!("{:?}", condition.kind);
                    let status = format!("{:?}", condition.status);
                    [
                        kind,
                        status,
                        condition.last_transition_time.get().to_string(),
                    ]
                })
                .collect(),
            restarts: containers.map(|status| status.restart_count).collect(),
        }
    }

    /// Whether it counts as a replica.
    pub fn is_active(&self) -> bool {
        self.phase != "Succeeded" && self.phase != "Failed" && !self.deleted
    }

    /// When it became ready; `None` when it isn't.
    pub fn ready_since(&self) -> Option<&str> {
        let mut conditions = self.conditions.iter();
        let ready = conditions.find(|[kind, ..]| kind == "Ready");
        ready
            .filter(|[_, status, _]| status == "True")
            .map(|[.., since]| since.as_str())
    }

    /// What its annotation says; 0 where that is no number.
    pub fn deletion_cost(&self) -> i32 {
        let text = self.annotations.get(DELETION_COST_ANNOTATION);
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// The map of these labels.
pub fn map(labels: &Labels) -> Map {
    let pairs = labels.pairs().iter();
    pairs
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

/// A selector as written.
#[derive(Clone, Debug)]
pub struct PlainSelector {
    labels: Map,
    /// Key, operator, values.
    expressions: Vec<(String, String, Vec<String>)>,
}

/// A selector as evaluated: all of these, by key, operator and values.
pub type Requirements = Vec<(String, String, BTreeSet<String>)>;

impl PlainSelector {
    /// The same selector, plainly.
    pub fn of(selector: &LabelSelector) -> PlainSelector {
        let expressions = selector.match_expressions.iter();
        PlainSelector {
            labels: map(&selector.match_labels),
            expressions: expressions
                .map(|written| {
                    let values = written.values.iter().map(|value| value.to_string());
                    (
                        written.key.to_string(),
                        written.operator.to_string(),
                        values.collect(),
                    )
                })
                .collect(),
        }
    }

    /// What has to hold, sorted by key.
    pub fn convert(&self) -> Requirements {
        let pairs = self.labels.iter();
        let pairs = pairs.map(|(key, value)| {
            (
                key.clone(),
                "In".to_owned(),
                BTreeSet::from([value.clone()]),
            )
        });
        let expressions = self.expressions.iter().map(|(key, operator, values)| {
            (
                key.clone(),
                operator.clone(),
                values.iter().cloned().collect(),
            )
        });
        let mut all: Requirements = pairs.chain(expressions).collect();
        all.sort();
        all
    }
}

/// Whether all of it holds.
pub fn matches(requirements: &Requirements, labels: &Map) -> bool {
    requirements.iter().all(|(key, operator, values)| {
        let value = labels.get(key);
        match operator.as_str() {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    })
}

/// A ReplicaSet, plainly.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "the members of a ReplicaSet under their usual names"
)]
pub struct PlainReplicaSet {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub controller_uid: String,
    pub selector: PlainSelector,
    pub template_labels: Map,
    pub replicas: usize,
    pub min_ready_seconds: i32,
}

impl PlainReplicaSet {
    /// The same ReplicaSet, plainly.
    pub fn of(object: &ReplicaSet) -> PlainReplicaSet {
        let meta = &object.metadata;
        let text = |uid: &Uid| uid.to_string();
        PlainReplicaSet {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: text(&meta.uid),
            controller_uid: meta
                .controller()
                .map_or(String::new(), |owner| text(&owner.uid)),
            selector: PlainSelector::of(
                object
                    .spec
                    .selector
                    .as_deref()
                    .unwrap_or(&LabelSelector::default()),
            ),
            template_labels: map(&object.spec.template.metadata.labels),
            replicas: usize::try_from(object.replicas()).unwrap_or(0),
            min_ready_seconds: object.spec.min_ready_seconds,
        }
    }

    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A store by `namespace/name`.
pub type Store<T> = Mutex<HashMap<String, Arc<T>, RandomState>>;

/// A store of these.
pub fn store<T>(items: impl IntoIterator<Item = (String, T)>) -> Store<T> {
    let mut map = HashMap::with_hasher(FIXED_STATE);
    map.extend(items.into_iter().map(|(key, item)| (key, Arc::new(item))));
    Mutex::new(map)
}

/// Creations and deletions to be seen, and the pods to be seen deleted, behind one lock.
#[derive(Debug)]
pub struct PlainExpectations(Mutex<HashMap<String, Expected, RandomState>>);

#[derive(Debug, Default)]
struct Expected {
    creations: i64,
    deletions: BTreeSet<String>,
}

impl PlainExpectations {
    /// None.
    pub fn new() -> PlainExpectations {
        PlainExpectations(Mutex::new(HashMap::with_hasher(FIXED_STATE)))
    }

    /// Replaces what a key expects.
    pub fn expect(&self, key: &str, creations: i64, deletions: BTreeSet<String>) {
        let expected = Expected {
            creations,
            deletions,
        };
        self.0
            .lock()
            .expect("not poisoned")
            .insert(key.to_owned(), expected);
    }

    /// Counts a creation.
    pub fn creation_observed(&self, key: &str) {
        if let Some(expected) = self.0.lock().expect("not poisoned").get_mut(key) {
            expected.creations -= 1;
        }
    }

    /// Counts the deletion of a pod, by `namespace/name`.
    pub fn deletion_observed(&self, key: &str, pod: &str) {
        if let Some(expected) = self.0.lock().expect("not poisoned").get_mut(key) {
            expected.deletions.remove(pod);
        }
    }

    /// Whether nothing is to be seen any more.
    pub fn satisfied(&self, key: &str) -> bool {
        let all = self.0.lock().expect("not poisoned");
        all.get(key)
            .is_none_or(|expected| expected.creations <= 0 && expected.deletions.is_empty())
    }
}

impl Default for PlainExpectations {
    fn default() -> Self {
        PlainExpectations::new()
    }
}

/// A queue in which a key waits once, behind one lock.
#[derive(Debug, Default)]
pub struct PlainQueue(Mutex<(VecDeque<String>, BTreeSet<String>)>);

impl PlainQueue {
    /// Adds a key that doesn't wait yet.
    pub fn add(&self, key: String) {
        let mut queue = self.0.lock().expect("not poisoned");
        if queue.1.insert(key.clone()) {
            queue.0.push_back(key);
        }
    }

    /// Takes all keys; returns how many there were.
    pub fn drain(&self) -> usize {
        let mut queue = self.0.lock().expect("not poisoned");
        queue.1.clear();
        queue.0.drain(..).count()
    }
}
