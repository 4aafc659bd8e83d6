//! The exact check at the end of a phase: goes through the store and compares every ReplicaSet with its
//! pods, whatever the watches may have said.
//!
//! Pods that files brought unready may still be: the caller says how many of each owner.

use std::fmt::Write;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::Cluster;
use podstorm_objects::{ObjectMeta, Pod, ReplicaSet, ReplicaSetStatus, ReplicationController, Uid};

/// Compares every owner with its pods, of which `may_be_unready` says how many may be unready; owners of which nothing is
/// said are left alone. O(pods + owners).
///
/// # Errors
/// Says which owner is wrong and how, and how many are.
pub(super) fn audit(
    cluster: &Cluster,
    may_be_unready: impl Fn(&ObjectMeta) -> Option<i32>,
) -> Result<(), String> {
    // Active pods, and those of them that aren't ready.
    let mut active: HashMap<Uid, (i32, i32), RandomState> = HashMap::with_hasher(FIXED_STATE);
    // Not listed: a list of a million pods is sorted by their names, and these are added up.
    cluster.for_each::<Pod>(|pod| {
        if pod.is_active()
            && let Some(owner) = pod.metadata.controller()
        {
            let unready = i32::from(!pod.is_ready());
            match active.get_mut(&owner.uid) {
                Some(counts) => *counts = (counts.0 + 1, counts.1 + unready),
                None => drop(active.insert(owner.uid.clone(), (1, unready))),
            }
        }
    });
    let mut wrong = 0u64;
    let mut first = String::new();
    let mut check = |meta: &ObjectMeta, replicas: i32, status: &ReplicaSetStatus| {
        let (active, unready) = active.get(&meta.uid).copied().unwrap_or_default();
        let Some(may_be_unready) = may_be_unready(meta) else {
            return;
        };
        let ready = replicas - unready.min(may_be_unready);
        let counts = [
            active,
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
        ];
        let exact = counts == [replicas, replicas, ready, ready]
            && status.observed_generation == meta.generation;
        // Nobody brings an object to its pods any more that is being deleted.
        if exact || meta.is_deleting() {
            return;
        }
        wrong += 1;
        if first.is_empty() {
            let [active, shown, ready, available] = counts;
            let _infallible = write!(
                first,
                "{}/{} wants {replicas} replicas and has {active}; its status says {shown}, {ready} \
                 ready, {available} available, generation {} of {}",
                meta.namespace, meta.name, status.observed_generation, meta.generation,
            );
        }
    };
    for owner in cluster.list::<ReplicaSet>(None).0 {
        check(&owner.metadata, owner.replicas(), &owner.status);
    }
    for owner in cluster.list::<ReplicationController>(None).0 {
        check(&owner.metadata, owner.replicas.unwrap_or(1), &owner.status);
    }
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} in all: {first}"))
    }
}
