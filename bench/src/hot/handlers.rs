//! Event handlers: from a pod's change, as the cache reports it, to the expectations and to the key
//! in the queue. `cache/update` covers the preceding work of the cache.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::{Delta, PodChange};
use podstorm::object::{ConditionStatus, Pod, ReplicaSet};

use super::Work;
use crate::clusters::{Cluster, NOW, Plan, next_version};

/// The number of pods per ReplicaSet.
const PODS_EACH: usize = 10;

/// Changes to handle, in rounds of one change per ReplicaSet.
#[derive(Debug)]
pub struct Events {
    cluster: Cluster,
    rounds: VecDeque<Vec<PodChange>>,
    next: usize,
    awaited: Awaited,
}

/// The expectations that every ReplicaSet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Creations,
    /// The deletions of all pods of the ReplicaSet.
    Deletions,
}

impl Events {
    fn new(cluster: Cluster, rounds: VecDeque<Vec<PodChange>>, awaited: Awaited) -> Events {
        let events = Events {
            cluster,
            rounds,
            next: 0,
            awaited,
        };
        events.cluster.drain();
        events.expect();
        events
    }

    /// Returns the ReplicaSets as they are cached.
    pub fn owners(&self) -> &[Arc<ReplicaSet>] {
        &self.cluster.replica_sets
    }

    /// Returns all changes, round after round.
    pub fn changes(&self) -> impl Iterator<Item = &PodChange> {
        self.rounds.iter().flatten()
    }

    /// Starts the next round: takes all keys, and sets the observed expectations again.
    fn next_round(&mut self) {
        self.next = 0;
        self.rounds.rotate_left(1);
        assert_eq!(
            self.cluster.controller.queue().len(),
            self.cluster.keys.len(),
            "every ReplicaSet was woken"
        );
        self.cluster.drain();
        if self.awaited == Awaited::Deletions && self.is_satisfied() {
            self.expect();
        }
    }

    fn is_satisfied(&self) -> bool {
        let expectations = self.cluster.controller.expectations();
        expectations.satisfied(self.cluster.keys[0], NOW.mono_ns)
    }

    fn expect(&self) {
        let expectations = self.cluster.controller.expectations();
        for (key, pods) in self.cluster.keys.iter().zip(&self.cluster.pods) {
            match self.awaited {
                Awaited::Nothing => {}
                Awaited::Creations => expectations.expect_creations(*key, 1 << 40, NOW.mono_ns),
                Awaited::Deletions => {
                    let names = pods.iter().map(|pod| pod.metadata.name.clone());
                    expectations.expect_deletions(*key, names, NOW.mono_ns);
                }
            }
        }
    }
}

impl Work for Events {
    /// Starts a round, which is one change per ReplicaSet, if the last round has ended.
    fn prepare(&mut self) -> u64 {
        if self.next == self.rounds[0].len() {
            self.next_round();
        }
        (self.rounds[0].len() - self.next) as u64
    }

    fn work(&mut self) -> u64 {
        let change = black_box(&self.rounds[0][self.next]);
        self.cluster.controller.pod_changed(change, NOW);
        self.next += 1;
        self.next as u64
    }
}

/// Returns the changes of created pods whose ReplicaSets expect creations.
pub fn created(replica_sets: usize) -> Events {
    let cluster = Plan::new(replica_sets, PODS_EACH).build();
    let rounds = one_round(&cluster, |index| {
        let mut pod = Pod::clone(&cluster.pods[index][0]);
        pod.metadata.name.push_str("-new");
        cluster
            .controller
            .pods()
            .apply(Delta::Applied(Arc::new(pod)))
    });
    Events::new(cluster, rounds, Awaited::Creations)
}

/// Returns the changes of updated pods: half of them have just become ready, the others have
/// another change in their status.
pub fn updated(replica_sets: usize) -> Events {
    let cluster = Plan::new(replica_sets, PODS_EACH).build();
    let rounds = one_round(&cluster, |index| {
        let pods = cluster.controller.pods();
        let mut pod = Pod::clone(&cluster.pods[index][0]);
        let after = next_version(&pod);
        if index % 2 == 0 {
            let conditions = &mut pod.status.conditions;
            conditions.update(|condition| condition.status = ConditionStatus::False);
        }
        pods.apply(Delta::Applied(Arc::new(pod)));
        pods.apply(Delta::Applied(after))
    });
    Events::new(cluster, rounds, Awaited::Nothing)
}

/// Returns the changes of deleted pods whose ReplicaSets expect the deletion of all their pods.
pub fn deleted(replica_sets: usize) -> Events {
    let cluster = Plan::new(replica_sets, PODS_EACH).build();
    let rounds = (0..PODS_EACH)
        .flat_map(|place| {
            one_round(&cluster, |index| {
                let pod = cluster.pods[index][place].clone();
                cluster.controller.pods().apply(Delta::Deleted(pod))
            })
        })
        .collect();
    Events::new(cluster, rounds, Awaited::Deletions)
}

/// Returns the changes of new pods without an owner. For each ReplicaSet, one of them matches.
pub fn orphan(replica_sets: usize) -> Events {
    let cluster = Plan::new(replica_sets, PODS_EACH).build();
    let rounds = one_round(&cluster, |index| {
        let pod = Arc::new(cluster.orphan(index));
        cluster.controller.pods().apply(Delta::Applied(pod))
    });
    Events::new(cluster, rounds, Awaited::Nothing)
}

/// Returns a change for each ReplicaSet, in a seemingly random order.
fn one_round(
    cluster: &Cluster,
    mut change: impl FnMut(usize) -> PodChange,
) -> VecDeque<Vec<PodChange>> {
    let count = cluster.keys.len();
    // The factor is prime, so that each ReplicaSet occurs once.
    let order = (0..count).map(|turn| turn * 7_919 % count);
    [order.map(&mut change).collect()].into()
}
