//! Syncs from the key to the last request, with every request answered immediately, compared with
//! the plain way: a pass over all owned pods for the counts, a list of the namespace for each
//! sibling, and a sort that parses the values it compares.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use podstorm::object::Time;
use podstorm::ranking::age_bucket;
use podstorm_bench::clusters::Plan;
use podstorm_bench::hot::sync;
use podstorm_bench::plain::{
    self, PlainExpectations, PlainPod, PlainReplicaSet, Requirements, Store, store,
};
use podstorm_bench::pods::NOW_NS;

use super::Timed;

/// The maximum number of pods created or deleted in one sync.
const BURST: usize = 500;

pub(crate) fn timed() -> Vec<Timed> {
    let rival = |id: &str, plan: Plan| Timed::new(id, move || in_turn(&plan));
    let slow_rival = |id: &str, plan: Plan| Timed::slow(id, move || first(&plan));
    vec![
        rival("sync/idle-plain/50", Plan::new(1, 50)),
        rival("sync/idle-round-plain/50", Plan::new(100, 50)),
        rival("sync/idle-plain/5000", Plan::new(1, 5_000)),
        rival(
            "sync/idle-min-ready-plain/5000",
            sync::settled_min_ready(5_000),
        ),
        rival("sync/create-plain/500", sync::creating(BURST)),
        slow_rival("sync/delete-500-plain/1000", sync::deleting(1_000)),
        slow_rival("sync/delete-500-plain/100000", sync::deleting(100_000)),
        slow_rival(
            "sync/delete-500-siblings-plain/20000",
            sync::deleting_among_siblings(20_000),
        ),
    ]
}

/// Returns syncs of all ReplicaSets, one after the other.
fn in_turn(plan: &Plan) -> impl FnMut() -> u64 + use<> {
    let (plain, mut turn) = (Plain::new(plan), 0);
    move || {
        turn = (turn + 37) % plain.keys.len();
        plain.sync(&plain.keys[turn]) as u64
    }
}

/// Returns repeated syncs of the first ReplicaSet.
fn first(plan: &Plan) -> impl FnMut() -> u64 + use<> {
    let plain = Plain::new(plan);
    move || plain.sync(&plain.keys[0]) as u64
}

struct Plain {
    owners: Store<PlainReplicaSet>,
    /// The keys of the owners.
    keys: Vec<String>,
    /// The pods by namespace.
    pods: Mutex<BTreeMap<String, Vec<Arc<PlainPod>>>>,
    /// The pods by the UID of their controller.
    owned: Mutex<BTreeMap<String, Vec<Arc<PlainPod>>>>,
    expectations: PlainExpectations<String>,
}

impl Plain {
    fn new(plan: &Plan) -> Plain {
        let (mut owners, mut keys) = (Vec::new(), Vec::new());
        let (mut pods, mut owned) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for (owner, drawn) in plan.draw() {
            let owner = PlainReplicaSet::from_replica_set(&owner);
            keys.push(owner.key());
            for pod in drawn {
                let pod = Arc::new(PlainPod::from_pod(&pod));
                pods.entry(pod.namespace.clone())
                    .or_default()
                    .push(pod.clone());
                owned.entry(owner.uid.clone()).or_default().push(pod);
            }
            owners.push((owner.key(), owner));
        }
        Plain {
            owners: store(owners),
            keys,
            pods: Mutex::new(pods),
            owned: Mutex::new(owned),
            expectations: PlainExpectations::default(),
        }
    }

    /// Syncs a key. Returns a number that depends on the requests and counts.
    fn sync(&self, key: &str) -> usize {
        let owner = self
            .owners
            .lock()
            .expect("not poisoned")
            .get(black_box(key))
            .cloned();
        let owner = owner.expect("the ReplicaSet is cached");
        let satisfied = self.expectations.satisfied(key);
        let selector = owner.selector.convert();
        let own: Vec<Arc<PlainPod>> = {
            let owned = self.owned.lock().expect("not poisoned");
            let own = owned.get(&owner.uid).map_or(&[][..], |pods| pods);
            let active = own.iter().filter(|pod| pod.is_active());
            active
                .filter(|pod| plain::matches(&selector, &pod.labels))
                .cloned()
                .collect()
        };
        let requests = match own.len().cmp(&owner.replicas) {
            _ if !satisfied => Vec::new(),
            Ordering::Less => self.create(key, &owner, (owner.replicas - own.len()).min(BURST)),
            Ordering::Equal => Vec::new(),
            Ordering::Greater => {
                self.delete(key, &owner, &own, (own.len() - owner.replicas).min(BURST))
            }
        };
        self.expectations.expect(key, 0, BTreeSet::new());
        let labels = owner.template_labels.iter();
        let complete = |pod: &&Arc<PlainPod>| {
            labels
                .clone()
                .all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        let wait_ns = i64::from(owner.min_ready_seconds) * 1_000_000_000;
        let available = |pod: &&Arc<PlainPod>| {
            pod.ready_since()
                .is_some_and(|since| ns(since) + wait_ns <= NOW_NS)
        };
        requests.len()
            + own.iter().filter(complete).count()
            + own.iter().filter(|pod| pod.ready_since().is_some()).count()
            + own.iter().filter(available).count()
    }

    /// Creates one batch after the other, each twice as large as the previous one.
    fn create(&self, key: &str, owner: &PlainReplicaSet, count: usize) -> Vec<String> {
        self.expectations.expect(key, count as i64, BTreeSet::new());
        let (mut said, mut size) = (Vec::new(), 1);
        while said.len() < count {
            for _ in 0..size.min(count - said.len()) {
                let pod = black_box(pod_from_template(owner));
                said.push(format!("Created pod: {}{}", pod.name, said.len()));
            }
            size *= 2;
        }
        said
    }

    fn delete(
        &self,
        key: &str,
        owner: &PlainReplicaSet,
        own: &[Arc<PlainPod>],
        count: usize,
    ) -> Vec<String> {
        let related = self.related(owner);
        let mut ranked: Vec<(&Arc<PlainPod>, usize)> = own
            .iter()
            .map(|pod| (pod, related.get(&pod.node).copied().unwrap_or(0)))
            .collect();
        ranked.sort_by(compare);
        ranked.truncate(count);
        let names = ranked
            .iter()
            .map(|(pod, _)| format!("{}/{}", pod.namespace, pod.name));
        self.expectations.expect(key, 0, names.collect());
        let said = ranked
            .iter()
            .map(|(pod, _)| format!("Deleted pod: {}", pod.name));
        said.collect()
    }

    /// Returns the number of active pods of the owner's siblings on each node.
    fn related(&self, owner: &PlainReplicaSet) -> BTreeMap<String, usize> {
        let siblings: Vec<Requirements> = {
            let owners = self.owners.lock().expect("not poisoned");
            let siblings = owners.values().filter(|other| {
                other.namespace == owner.namespace && other.controller_uid == owner.controller_uid
            });
            siblings.map(|sibling| sibling.selector.convert()).collect()
        };
        let pods = self.pods.lock().expect("not poisoned");
        let mut seen = BTreeSet::new();
        let mut related = BTreeMap::new();
        for selector in siblings {
            let matching = pods[&owner.namespace]
                .iter()
                .filter(|pod| plain::matches(&selector, &pod.labels));
            for pod in matching.filter(|pod| pod.is_active()) {
                if seen.insert(&pod.name) {
                    *related.entry(pod.node.clone()).or_default() += 1;
                }
            }
        }
        related
    }
}

/// Returns the pod to create.
fn pod_from_template(owner: &PlainReplicaSet) -> PlainPod {
    PlainPod {
        namespace: owner.namespace.clone(),
        name: format!("{}-", owner.name),
        labels: owner.template_labels.clone(),
        controller: Some(plain::Controller {
            kind: "ReplicaSet".to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }),
        ..PlainPod::default()
    }
}

fn ns(text: &str) -> i64 {
    let time: Option<Time> = text.parse().ok();
    time.and_then(Time::unix_nanos).unwrap_or(0)
}

/// Compares two pods by the deletion rules that order pods. Reads all values from the pods.
fn compare(a: &(&Arc<PlainPod>, usize), b: &(&Arc<PlainPod>, usize)) -> Ordering {
    let phase = |pod: &PlainPod| match pod.phase.as_str() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let age = |text: &str| age_bucket(NOW_NS - ns(text));
    let ready_age = |pod: &PlainPod| pod.ready_since().map(age);
    let restarts = |pod: &PlainPod| Reverse(pod.restarts.iter().copied().max());
    let ((a, a_rank), (b, b_rank)) = (a, b);
    (!a.node.is_empty())
        .cmp(&!b.node.is_empty())
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| a.ready_since().is_some().cmp(&b.ready_since().is_some()))
        .then_with(|| a.deletion_cost().cmp(&b.deletion_cost()))
        .then_with(|| b_rank.cmp(a_rank))
        .then_with(|| ready_age(a).cmp(&ready_age(b)))
        .then_with(|| restarts(a).cmp(&restarts(b)))
        .then_with(|| age(&a.created).cmp(&age(&b.created)))
        .then_with(|| a.uid.cmp(&b.uid))
}
