//! The plain implementation that the rivals use: strings as keys, one lock around one map, a scan
//! where there is no index, and objects as they come from a decoder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm::intern::FIXED_STATE;
use podstorm::object::{LabelSelector, Labels, Pod, ReplicaSet, Uid};
use podstorm::ranking::DELETION_COST_ANNOTATION;

/// A sorted map of strings.
pub type Map = BTreeMap<String, String>;

/// A pod whose members are not shared. It has only the members that handlers and syncs read.
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
    /// The type, status and time of each condition.
    pub conditions: Vec<[String; 3]>,
    pub restarts: Vec<i32>,
}

/// The reference to a controller.
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

    /// Returns the time at which the pod became ready; `None` if it is not ready.
    pub fn ready_since(&self) -> Option<&str> {
        let mut conditions = self.conditions.iter();
        let ready = conditions.find(|[kind, ..]| kind == "Ready");
        ready
            .filter(|[_, status, _]| status == "True")
            .map(|[.., since]| since.as_str())
    }

    /// Returns the deletion cost in the pod's annotation; 0 if it is absent or not a number.
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

/// A selector in the form in which it was written.
#[derive(Clone, Debug)]
pub struct PlainSelector {
    labels: Map,
    /// The key, operator and values of each expression.
    expressions: Vec<(String, String, Vec<String>)>,
}

/// A selector in the form in which it is evaluated: the key, operator and values of each
/// requirement.
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

/// Reports whether the labels satisfy all requirements.
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

/// A ReplicaSet whose members are not shared.
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

    /// Returns the key, `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A store of objects by `namespace/name`.
pub type Store<T> = Mutex<HashMap<String, Arc<T>, RandomState>>;

/// Creates a store of these items.
pub fn store<T>(items: impl IntoIterator<Item = (String, T)>) -> Store<T> {
    let mut map = HashMap::with_hasher(FIXED_STATE);
    map.extend(items.into_iter().map(|(key, item)| (key, Arc::new(item))));
    Mutex::new(map)
}

/// The number of expected creations and the set of expected deletions, by key, behind one lock.
#[derive(Debug)]
pub struct PlainExpectations<P>(Mutex<HashMap<String, Expected<P>, RandomState>>);

type Expected<P> = (i64, BTreeSet<P>);

impl<P: Ord> PlainExpectations<P> {
    /// Replaces the expectations of a key.
    pub fn expect(&self, key: &str, creations: i64, deletions: BTreeSet<P>) {
        let mut all = self.0.lock().expect("not poisoned");
        all.insert(key.to_owned(), (creations, deletions));
    }

    /// Records an observed creation.
    pub fn creation_observed(&self, key: &str) {
        if let Some((creations, _)) = self.0.lock().expect("not poisoned").get_mut(key) {
            *creations -= 1;
        }
    }

    /// Records the observed deletion of a pod.
    pub fn deletion_observed(&self, key: &str, pod: &P) {
        if let Some((_, deletions)) = self.0.lock().expect("not poisoned").get_mut(key) {
            deletions.remove(pod);
        }
    }

    /// Reports whether nothing more is expected.
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

/// The waiting keys in order, the set of waiting keys, and the set of keys being processed.
type Waiting<K> = (
    VecDeque<K>,
    HashSet<K, RandomState>,
    HashSet<K, RandomState>,
);

impl<K: Hash + Eq + Clone> PlainQueue<K> {
    /// Adds a key. Returns false if it is already waiting.
    pub fn add(&self, key: K) -> bool {
        let (order, dirty, processing) = &mut *self.0.lock().expect("not poisoned");
        let is_new = dirty.insert(key.clone());
        if is_new && !processing.contains(&key) {
            order.push_back(key);
        }
        is_new
    }

    /// Takes the oldest key; `None` if none is waiting.
    pub fn take(&self) -> Option<K> {
        let (order, dirty, processing) = &mut *self.0.lock().expect("not poisoned");
        let key = order.pop_front()?;
        dirty.remove(&key);
        processing.insert(key.clone());
        Some(key)
    }

    /// Ends the processing of a key. If the key was added in the meantime, it waits again.
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
