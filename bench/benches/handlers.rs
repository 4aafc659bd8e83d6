//! Event handlers: from the change that the cache tells to the key in the queue, beside the plain
//! way: one lock around each store, texts as keys, and for an orphan every selector of the
//! namespace. Neither side's time has the taking of the keys in it.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement as _, WallTime};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use podstorm_bench::hot::handlers::{self, Events};
use podstorm_bench::plain::{
    self, PlainExpectations, PlainPod, PlainQueue, PlainReplicaSet, Store, store,
};

const REPLICA_SETS: usize = 2_000;

fn owned(criterion: &mut Criterion) {
    compare(criterion, "owned-created", || {
        handlers::created(REPLICA_SETS)
    });
    compare(criterion, "owned-updated", || {
        handlers::updated(REPLICA_SETS)
    });
    compare(criterion, "owned-deleted", || {
        handlers::deleted(REPLICA_SETS)
    });
}

fn orphans(criterion: &mut Criterion) {
    compare(criterion, "orphan", || handlers::orphan(REPLICA_SETS));
}

fn compare(criterion: &mut Criterion, variant: &str, events: impl Fn() -> Events) {
    let mut group = criterion.benchmark_group("handlers");
    let mut ours = None;
    group.bench_function(BenchmarkId::new(variant, REPLICA_SETS), |bencher| {
        let ours = ours.get_or_insert_with(&events);
        bencher.iter_custom(|count| timed(count, ours));
    });
    drop(ours);
    let mut plain = None;
    group.sample_size(10);
    group.bench_function(
        BenchmarkId::new(format!("{variant}-plain"), REPLICA_SETS),
        |bencher| {
            let plain = plain.get_or_insert_with(|| Plain::new(&events()));
            bencher.iter_custom(|count| timed(count, plain));
        },
    );
    group.finish();
}

/// Events in rounds.
trait Rounds {
    /// Prepares the next round where none is left of this one.
    fn prepare(&mut self);
    /// How many events are left of the round.
    fn left(&self) -> usize;
    /// Handles the next event.
    fn handle(&mut self);
}

/// The time of so many events without that of preparing them.
fn timed(mut count: u64, events: &mut impl Rounds) -> Duration {
    let mut total = Duration::ZERO;
    while count > 0 {
        events.prepare();
        let now = count.min(events.left() as u64);
        let start = WallTime.start();
        for _ in 0..now {
            events.handle();
        }
        total += WallTime.end(start);
        count -= now;
    }
    total
}

impl Rounds for Events {
    fn prepare(&mut self) {
        if Events::left(self) == 0 {
            self.next_round();
        }
    }

    fn left(&self) -> usize {
        Events::left(self)
    }

    fn handle(&mut self) {
        black_box(Events::handle(self));
    }
}

/// An event: old and new pod, and whether it is gone.
type Change = (Option<PlainPod>, PlainPod, bool);

struct Plain {
    parents: Store<PlainReplicaSet>,
    expectations: PlainExpectations,
    queue: PlainQueue,
    changes: Vec<Change>,
    next: usize,
}

impl Plain {
    fn new(events: &Events) -> Plain {
        let parents = events
            .owners()
            .iter()
            .map(|parent| PlainReplicaSet::of(parent));
        let changes = events.changes().map(|change| {
            let old = change.old.as_deref().map(PlainPod::of);
            (old, PlainPod::of(&change.new), change.deleted)
        });
        let changes: Vec<Change> = changes.collect();
        Plain {
            parents: store(parents.map(|parent| (parent.key(), parent))),
            expectations: PlainExpectations::new(),
            queue: PlainQueue::default(),
            next: changes.len(),
            changes,
        }
    }

    /// The parent that a controller reference means.
    fn resolve(&self, pod: &PlainPod) -> Option<String> {
        let owner = pod.controller.as_ref()?;
        if owner.kind != "ReplicaSet" {
            return None;
        }
        let key = format!("{}/{}", pod.namespace, owner.name);
        let parent = self
            .parents
            .lock()
            .expect("not poisoned")
            .get(&key)?
            .clone();
        (parent.uid == owner.uid).then(|| parent.key())
    }

    fn added(&self, pod: &PlainPod) {
        if pod.controller.is_none() {
            return self.wake_matching(pod);
        }
        if let Some(key) = self.resolve(pod) {
            self.expectations.creation_observed(&key);
            self.queue.add(key);
        }
    }

    fn updated(&self, old: &PlainPod, new: &PlainPod) {
        if old.version == new.version {
            return;
        }
        if new.deleted {
            return self.deleted(new);
        }
        if old.controller != new.controller
            && let Some(key) = self.resolve(old)
        {
            self.queue.add(key);
        }
        if new.controller.is_none() {
            if old.labels != new.labels || old.controller != new.controller {
                self.wake_matching(new);
            }
            return;
        }
        if let Some(key) = self.resolve(new) {
            self.queue.add(key.clone());
            if old.ready_since().is_none() && new.ready_since().is_some() {
                let parents = self.parents.lock().expect("not poisoned");
                let seconds = parents
                    .get(&key)
                    .map_or(0, |parent| parent.min_ready_seconds);
                assert_eq!(seconds, 0, "nothing is added later here");
            }
        }
    }

    fn deleted(&self, pod: &PlainPod) {
        if let Some(key) = self.resolve(pod) {
            let name = format!("{}/{}", pod.namespace, pod.name);
            self.expectations.deletion_observed(&key, &name);
            self.queue.add(key);
        }
    }

    fn wake_matching(&self, pod: &PlainPod) {
        let parents = self.parents.lock().expect("not poisoned");
        let mut keys: Vec<String> = parents
            .values()
            .filter(|parent| parent.namespace == pod.namespace)
            .filter(|parent| plain::matches(&parent.selector.convert(), &pod.labels))
            .map(|parent| parent.key())
            .collect();
        keys.sort();
        keys.into_iter().for_each(|key| self.queue.add(key));
    }
}

impl Rounds for Plain {
    fn left(&self) -> usize {
        let round = (self.next / REPLICA_SETS + 1) * REPLICA_SETS;
        round.min(self.changes.len()) - self.next
    }

    /// Takes the keys of a round that is over, and expects anew what has all been seen.
    fn prepare(&mut self) {
        if self.next.is_multiple_of(REPLICA_SETS) {
            self.queue.drain();
        }
        if self.next < self.changes.len() {
            return;
        }
        self.next = 0;
        let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (old, pod, gone) in &self.changes {
            if let Some(owner) = pod.controller.as_ref().filter(|_| old.is_none() || *gone) {
                let pods = expected.entry(format!("{}/{}", pod.namespace, owner.name));
                let name = gone.then(|| format!("{}/{}", pod.namespace, pod.name));
                pods.or_default().extend(name);
            }
        }
        for (key, deletions) in expected {
            self.expectations.expect(&key, 1 << 40, deletions);
        }
    }

    fn handle(&mut self) {
        let (old, new, gone) = black_box(&self.changes[self.next]);
        self.next += 1;
        match old {
            _ if *gone => self.deleted(new),
            None if new.deleted => self.deleted(new),
            None => self.added(new),
            Some(old) => self.updated(old, new),
        }
    }
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = owned, orphans
}
criterion_main!(benches);
