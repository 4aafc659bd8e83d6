//! The exact check at the end of a phase: goes through the store and compares every owner with its
//! pods, whatever the watches may have said.
//!
//! Pods that files brought unready may still be: the caller says how many of each owner.

use std::fmt::Write;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::{ObjectMeta, Pod, Uid};

use crate::workloads::{self, Counts, Demand};

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
    let mut check = |meta: &ObjectMeta, Demand { replicas, status }: Demand| {
        let (active, unready) = active.get(&meta.uid).copied().unwrap_or_default();
        let Some(may_be_unready) = may_be_unready(meta) else {
            return;
        };
        let ready = replicas - unready.min(may_be_unready);
        let wanted = Counts {
            replicas,
            ready,
            available: ready,
            observed_generation: meta.generation,
        };
        let exact = active == replicas && status == wanted;
        // Nobody brings an object to its pods any more that is being deleted.
        if exact || meta.is_deleting() {
            return;
        }
        wrong += 1;
        if first.is_empty() {
            let _infallible = write!(
                first,
                "{}/{} wants {replicas} replicas and has {active}; its status says {}, {} ready, {} available, \
                 generation {} of {}",
                meta.namespace,
                meta.name,
                status.replicas,
                status.ready,
                status.available,
                status.observed_generation,
                meta.generation,
            );
        }
    };
    for workload in workloads::owners() {
        let Some(pods) = workload.pods() else {
            continue;
        };
        let page = cluster.api(workload.kind()).list(&ListOptions::default());
        for owner in page.into_iter().flat_map(|page| page.items) {
            if let Some(demand) = pods.demand(&*owner) {
                check(owner.metadata(), demand);
            }
        }
    }
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} in all: {first}"))
    }
}
