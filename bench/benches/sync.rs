//! Syncs from the key to the last request, every request answered at once, beside the plain way: a
//! walk over all own pods for the counts, a list of the namespace for each sibling, and a sort
//! that parses what it compares.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use podstorm::object::Time;
use podstorm::ranking::age_bucket;
use podstorm_bench::clusters::Plan;
use podstorm_bench::hot::sync;
use podstorm_bench::plain::{
    self, PlainExpectations, PlainPod, PlainReplicaSet, Requirements, Store, store,
};
use podstorm_bench::pods::NOW_NS;

/// Most pods created or deleted at once.
const BURST: usize = 500;

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sync");
    for (variant, pods, plan) in [
        ("idle", 50, Plan::new(1, 50)),
        ("idle-round", 50, Plan::new(100, 50)),
        ("idle", 5_000, Plan::new(1, 5_000)),
        (
            "idle-min-ready",
            5_000,
            Plan {
                min_ready_seconds: 30,
                ..Plan::new(1, 5_000)
            },
        ),
    ] {
        let mut ours = sync::idle_in_turn(plan);
        group.bench_function(BenchmarkId::new(variant, pods), |bencher| {
            bencher.iter(&mut ours);
        });
        drop(ours);
        let mut plain = Plain::new(&plan);
        group.bench_function(
            BenchmarkId::new(format!("{variant}-plain"), pods),
            |bencher| {
                bencher.iter(|| plain.next());
            },
        );
    }
    group.finish();
}

fn scale(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sync");
    let mut ours = sync::create(BURST);
    group.bench_function(BenchmarkId::new("create", BURST), |bencher| {
        bencher.iter(&mut ours);
    });
    let mut plain = Plain::new(&sync::creating(BURST));
    group.bench_function(BenchmarkId::new("create-plain", BURST), |bencher| {
        bencher.iter(|| plain.next());
    });
    group.sample_size(10);
    for (variant, pods, plan) in [
        ("delete-500", 1_000, sync::deleting(1_000)),
        ("delete-500", 100_000, sync::deleting(100_000)),
        (
            "delete-500-siblings",
            20_000,
            sync::deleting_among_siblings(20_000),
        ),
    ] {
        let mut ours = None;
        group.bench_function(BenchmarkId::new(variant, pods), |bencher| {
            bencher.iter(ours.get_or_insert_with(|| sync::scale_down(plan)));
        });
        drop(ours);
        let mut plain = None;
        group.bench_function(
            BenchmarkId::new(format!("{variant}-plain"), pods),
            |bencher| {
                let plain = plain.get_or_insert_with(|| Plain::new(&plan));
                bencher.iter(|| plain.first());
            },
        );
    }
    group.finish();
}

struct Plain {
    parents: Store<PlainReplicaSet>,
    /// The parents' keys.
    keys: Vec<String>,
    turn: usize,
    /// By namespace.
    pods: Mutex<BTreeMap<String, Vec<Arc<PlainPod>>>>,
    /// By the UID of their controller.
    owned: Mutex<BTreeMap<String, Vec<Arc<PlainPod>>>>,
    expectations: PlainExpectations,
}

impl Plain {
    fn new(plan: &Plan) -> Plain {
        let (mut parents, mut keys) = (Vec::new(), Vec::new());
        let (mut pods, mut owned) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for (parent, drawn) in plan.draw() {
            let parent = PlainReplicaSet::of(&parent);
            keys.push(parent.key());
            for pod in drawn {
                let pod = Arc::new(PlainPod::of(&pod));
                pods.entry(pod.namespace.clone())
                    .or_default()
                    .push(pod.clone());
                owned.entry(parent.uid.clone()).or_default().push(pod);
            }
            parents.push((parent.key(), parent));
        }
        Plain {
            parents: store(parents),
            keys,
            turn: 0,
            pods: Mutex::new(pods),
            owned: Mutex::new(owned),
            expectations: PlainExpectations::new(),
        }
    }

    /// A sync of the next ReplicaSet.
    fn next(&mut self) -> usize {
        self.turn = (self.turn + 37) % self.keys.len();
        self.sync(&self.keys[self.turn])
    }

    /// A sync of the first ReplicaSet.
    fn first(&self) -> usize {
        self.sync(&self.keys[0])
    }

    /// Syncs a key, and returns the requests and counts as a number.
    fn sync(&self, key: &str) -> usize {
        let parent = self
            .parents
            .lock()
            .expect("not poisoned")
            .get(black_box(key))
            .cloned();
        let parent = parent.expect("it is cached");
        let satisfied = self.expectations.satisfied(key);
        let selector = parent.selector.convert();
        let own: Vec<Arc<PlainPod>> = {
            let owned = self.owned.lock().expect("not poisoned");
            let own = owned.get(&parent.uid).map_or(&[][..], |pods| pods);
            let active = own.iter().filter(|pod| pod.is_active());
            active
                .filter(|pod| plain::matches(&selector, &pod.labels))
                .cloned()
                .collect()
        };
        let requests = match own.len().cmp(&parent.replicas) {
            _ if !satisfied => Vec::new(),
            Ordering::Less => self.create(key, &parent, (parent.replicas - own.len()).min(BURST)),
            Ordering::Equal => Vec::new(),
            Ordering::Greater => {
                self.delete(key, &parent, &own, (own.len() - parent.replicas).min(BURST))
            }
        };
        self.expectations.expect(key, 0, BTreeSet::new());
        let labels = parent.template_labels.iter();
        let complete = |pod: &&Arc<PlainPod>| {
            labels
                .clone()
                .all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        let wait_ns = i64::from(parent.min_ready_seconds) * 1_000_000_000;
        let available = |pod: &&Arc<PlainPod>| {
            pod.ready_since()
                .is_some_and(|since| ns(since) + wait_ns <= NOW_NS)
        };
        requests.len()
            + own.iter().filter(complete).count()
            + own.iter().filter(|pod| pod.ready_since().is_some()).count()
            + own.iter().filter(available).count()
    }

    /// Batch after batch, twice as large each.
    fn create(&self, key: &str, parent: &PlainReplicaSet, count: usize) -> Vec<String> {
        self.expectations.expect(key, count as i64, BTreeSet::new());
        let (mut said, mut size) = (Vec::new(), 1);
        while said.len() < count {
            for _ in 0..size.min(count - said.len()) {
                let body = black_box(body(parent));
                said.push(format!("Created pod: {}{}", body.name, said.len()));
            }
            size *= 2;
        }
        said
    }

    fn delete(
        &self,
        key: &str,
        parent: &PlainReplicaSet,
        own: &[Arc<PlainPod>],
        count: usize,
    ) -> Vec<String> {
        let related = self.related(parent);
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

    /// How many active pods of the parent's siblings each node has.
    fn related(&self, parent: &PlainReplicaSet) -> BTreeMap<String, usize> {
        let siblings: Vec<Requirements> = {
            let parents = self.parents.lock().expect("not poisoned");
            let siblings = parents.values().filter(|other| {
                other.namespace == parent.namespace && other.controller_uid == parent.controller_uid
            });
            siblings.map(|sibling| sibling.selector.convert()).collect()
        };
        let pods = self.pods.lock().expect("not poisoned");
        let mut seen = BTreeSet::new();
        let mut related = BTreeMap::new();
        for selector in siblings {
            let matching = pods[&parent.namespace]
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

/// The pod to create.
fn body(parent: &PlainReplicaSet) -> PlainPod {
    PlainPod {
        namespace: parent.namespace.clone(),
        name: format!("{}-", parent.name),
        uid: String::new(),
        version: String::new(),
        labels: parent.template_labels.clone(),
        annotations: plain::Map::new(),
        controller: Some(plain::Controller {
            kind: "ReplicaSet".to_owned(),
            name: parent.name.clone(),
            uid: parent.uid.clone(),
        }),
        node: String::new(),
        created: String::new(),
        deleted: false,
        phase: String::new(),
        conditions: Vec::new(),
        restarts: Vec::new(),
    }
}

fn ns(text: &str) -> i64 {
    let time: Option<Time> = text.parse().ok();
    time.and_then(Time::unix_nanos).unwrap_or(0)
}

/// Which of two pods goes first, by rules that order pods, read from the pods as they are.
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

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = idle, scale
}
criterion_main!(benches);
