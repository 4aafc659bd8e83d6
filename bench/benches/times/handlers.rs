//! Event handlers, from the change that the cache reports to the key in the queue, compared with
//! the plain way: one lock around each store, strings as keys, and for an orphan a check of every
//! selector in the namespace. The time excludes taking the keys, on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use podstorm_bench::hot::Work;
use podstorm_bench::hot::handlers::{self, Events};
use podstorm_bench::plain::{
    self, PlainExpectations, PlainPod, PlainQueue, PlainReplicaSet, Store, store,
};

use super::Timed;

const REPLICA_SETS: usize = 2_000;

/// Draws the events for a number of ReplicaSets.
type Make = fn(usize) -> Events;

pub(crate) fn timed() -> Vec<Timed> {
    let events: [(&str, Make); 4] = [
        ("owned-created", handlers::created),
        ("owned-updated", handlers::updated),
        ("owned-deleted", handlers::deleted),
        ("orphan", handlers::orphan),
    ];
    let rival = |(variant, events): (&str, Make)| {
        let id = format!("handlers/{variant}-plain/{REPLICA_SETS}");
        Timed::slow(id, move || Plain::new(&events(REPLICA_SETS)))
    };
    events.map(rival).into()
}

/// An event: the old pod, the new pod, and whether the pod was deleted.
type Change = (Option<PlainPod>, PlainPod, bool);

struct Plain {
    owners: Store<PlainReplicaSet>,
    expectations: PlainExpectations<String>,
    queue: PlainQueue<String>,
    changes: Vec<Change>,
    next: usize,
}

impl Plain {
    fn new(events: &Events) -> Plain {
        let owners = events
            .owners()
            .iter()
            .map(|owner| PlainReplicaSet::from_replica_set(owner));
        let changes = events.changes().map(|change| {
            let old = change.old.as_deref().map(PlainPod::from_pod);
            (old, PlainPod::from_pod(&change.new), change.deleted)
        });
        let changes: Vec<Change> = changes.collect();
        Plain {
            owners: store(owners.map(|owner| (owner.key(), owner))),
            expectations: PlainExpectations::default(),
            queue: PlainQueue::default(),
            next: changes.len(),
            changes,
        }
    }

    /// Returns the owner to which the pod's controller reference resolves; `None` if there is none.
    fn resolve(&self, pod: &PlainPod) -> Option<String> {
        let reference = pod.controller.as_ref()?;
        if reference.kind != "ReplicaSet" {
            return None;
        }
        let key = format!("{}/{}", pod.namespace, reference.name);
        let owner = self.owners.lock().expect("not poisoned").get(&key)?.clone();
        (owner.uid == reference.uid).then(|| owner.key())
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
                let owners = self.owners.lock().expect("not poisoned");
                let seconds = owners.get(&key).map_or(0, |owner| owner.min_ready_seconds);
                assert_eq!(seconds, 0, "nothing is delayed here");
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
        let owners = self.owners.lock().expect("not poisoned");
        let mut keys: Vec<String> = owners
            .values()
            .filter(|owner| owner.namespace == pod.namespace)
            .filter(|owner| plain::matches(&owner.selector.convert(), &pod.labels))
            .map(|owner| owner.key())
            .collect();
        keys.sort();
        for key in keys {
            self.queue.add(key);
        }
    }

    fn expect_all(&self) {
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
}

impl Work for Plain {
    /// Takes the keys of a completed round, and sets the observed expectations again.
    fn prepare(&mut self) -> u64 {
        if self.next.is_multiple_of(REPLICA_SETS) {
            self.queue.clear();
        }
        if self.next == self.changes.len() {
            self.next = 0;
            self.expect_all();
        }
        let round = (self.next / REPLICA_SETS + 1) * REPLICA_SETS;
        (round.min(self.changes.len()) - self.next) as u64
    }

    fn work(&mut self) -> u64 {
        let (old, new, gone) = black_box(&self.changes[self.next]);
        self.next += 1;
        match old {
            _ if *gone => self.deleted(new),
            None if new.deleted => self.deleted(new),
            None => self.added(new),
            Some(old) => self.updated(old, new),
        }
        0
    }
}
