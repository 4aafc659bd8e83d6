//! The plain implementation for the rivals: strings as keys, one lock around one map, a scan where
//! there is no index, and objects as a decoder leaves them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm::intern::FIXED_STATE;
use podstorm::object::{LabelSelector, Labels, Pod, ReplicaSet, Uid};
use podstorm::ranking::DELETION_COST_ANNOTATION;

/// A map of strings, sorted.
pub type Map = BTreeMap<String, String>;

/// A pod with unshared members, limited to those that handlers and syncs read.
#[derive(Clone, Debug, Default)]
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
    /// Converts a pod.
    pub fn from_pod(pod: &Pod) -> PlainPod {
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

    /// Reports whether the pod counts as a replica.
    pub fn is_active(&self) -> bool {
        self.phase != "Succeeded" && self.phase != "Failed" && !self.deleted
    }

    /// Returns when the pod became ready; `None` if it is not ready.
    pub fn ready_since(&self) -> Option<&str> {
        let mut conditions = self.conditions.iter();
        let ready = conditions.find(|[kind, ..]| kind == "Ready");
        ready
            .filter(|[_, status, _]| status == "True")
            .map(|[.., since]| since.as_str())
    }

    /// Returns the cost in the pod's annotation; 0 if it is not a number.
    pub fn deletion_cost(&self) -> i32 {
        let text = self.annotations.get(DELETION_COST_ANNOTATION);
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// Converts labels to a map.
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

/// A selector in the form that is evaluated: all requirements, by key, operator and values.
pub type Requirements = Vec<(String, String, BTreeSet<String>)>;

impl PlainSelector {
    /// Converts a selector.
    pub fn from_selector(selector: &LabelSelector) -> PlainSelector {
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

    /// Returns the requirements, sorted by key.
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

/// Reports whether all requirements hold.
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

/// A ReplicaSet with unshared members.
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
    /// Converts a ReplicaSet.
    pub fn from_replica_set(object: &ReplicaSet) -> PlainReplicaSet {
        let meta = &object.metadata;
        let text = |uid: &Uid| uid.to_string();
        PlainReplicaSet {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: text(&meta.uid),
            controller_uid: meta
                .controller()
                .map_or(String::new(), |owner| text(&owner.uid)),
            selector: PlainSelector::from_selector(
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

    /// Returns `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A store by `namespace/name`.
pub type Store<T> = Mutex<HashMap<String, Arc<T>, RandomState>>;

/// Creates a store of these items.
pub fn store<T>(items: impl IntoIterator<Item = (String, T)>) -> Store<T> {
    let mut map = HashMap::with_hasher(FIXED_STATE);
    map.extend(items.into_iter().map(|(key, item)| (key, Arc::new(item))));
    Mutex::new(map)
}

/// The creations and the deleted pods still to be seen, by key and behind one lock.
#[derive(Debug)]
pub struct PlainExpectations<P>(Mutex<HashMap<String, Expected<P>, RandomState>>);

type Expected<P> = (i64, BTreeSet<P>);

impl<P: Ord> PlainExpectations<P> {
    /// Replaces the expectations of a key.
    pub fn expect(&self, key: &str, creations: i64, deletions: BTreeSet<P>) {
        let mut all = self.0.lock().expect("not poisoned");
        all.insert(key.to_owned(), (creations, deletions));
    }

    /// Counts a creation.
    pub fn creation_observed(&self, key: &str) {
        if let Some((creations, _)) = self.0.lock().expect("not poisoned").get_mut(key) {
            *creations -= 1;
        }
    }

    /// Counts the deletion of a pod.
    pub fn deletion_observed(&self, key: &str, pod: &P) {
        if let Some((_, deletions)) = self.0.lock().expect("not poisoned").get_mut(key) {
            deletions.remove(pod);
        }
    }

    /// Reports whether nothing is left to be seen.
    pub fn satisfied(&self, key: &str) -> bool {
        let all = self.0.lock().expect("not poisoned");
        all.get(key)
            .is_none_or(|(creations, deletions)| *creations <= 0 && deletions.is_empty())
    }
}

impl<P> Default for PlainExpectations<P> {
    fn default() -> Self {
        PlainExpectations(Mutex::new(HashMap::with_hasher(FIXED_STATE)))
    }
}

/// A queue in which a key waits at most once, behind one lock.
#[derive(Debug)]
pub struct PlainQueue<K>(Mutex<Waiting<K>>);

/// The order, the waiting keys, and the keys being processed.
type Waiting<K> = (
    VecDeque<K>,
    HashSet<K, RandomState>,
    HashSet<K, RandomState>,
);

impl<K: Hash + Eq + Clone> PlainQueue<K> {
    /// Adds a key. Returns whether it was not waiting yet.
    pub fn add(&self, key: K) -> bool {
        let (order, dirty, processing) = &mut *self.0.lock().expect("not poisoned");
        let is_new = dirty.insert(key.clone());
        if is_new && !processing.contains(&key) {
            order.push_back(key);
        }
        is_new
    }

    /// Takes the oldest key.
    pub fn take(&self) -> Option<K> {
        let (order, dirty, processing) = &mut *self.0.lock().expect("not poisoned");
        let key = order.pop_front()?;
        dirty.remove(&key);
        processing.insert(key.clone());
        Some(key)
    }

    /// Ends the work on a key, which waits again if it was added in the meantime.
    pub fn done(&self, key: K) {
        let (order, dirty, processing) = &mut *self.0.lock().expect("not poisoned");
        processing.remove(&key);
        if dirty.contains(&key) {
            order.push_back(key);
        }
    }

    /// Drops all waiting keys.
    pub fn clear(&self) {
        let (order, dirty, _) = &mut *self.0.lock().expect("not poisoned");
        dirty.clear();
        order.clear();
    }
}

impl<K> Default for PlainQueue<K> {
    fn default() -> Self {
        let set = || HashSet::with_hasher(FIXED_STATE);
        PlainQueue(Mutex::new((VecDeque::new(), set(), set())))
    }
}
