//! The exact check at the end of a phase: goes through the store and compares every owner with its
//! pods, whatever the watches may have said.
//!
//! Pods that files brought unready may still be: the caller says how many of each owner.

use std::fmt::Write;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::{ObjectMeta, Pod, Uid};

use crate::workloads::{self, Counts, Demand, Workload};

/// Whether a workload's status tells more of its pods than how many there are.
pub(super) fn audits_pods(workload: Workload) -> bool {
    workload.pods().is_some_and(|pods| pods.audits_pods())
}

/// Compares the owners whose status tells more of their pods with these. O(pods + owners) where there are such owners.
///
/// # Errors
/// Says which object contradicts its pods, and how.
pub(super) fn audit_pods(cluster: &Cluster) -> Result<(), String> {
    for workload in workloads::owners().filter(|it| audits_pods(*it)) {
        let page = cluster.api(workload.kind()).list(&ListOptions::default());
        let owners = page.map_or_else(|_| Vec::new(), |page| page.items);
        let mut pods: HashMap<Uid, Vec<Arc<Pod>>, RandomState> = HashMap::with_hasher(FIXED_STATE);
        for owner in &owners {
            pods.insert(owner.metadata().uid.clone(), Vec::new());
        }
        if owners.is_empty() {
            continue;
        }
        for pod in cluster.list::<Pod>(None).0 {
            if let Some(owner) = pod.metadata.controller()
                && let Some(owned) = pods.get_mut(&owner.uid)
            {
                owned.push(pod);
            }
        }
        for (owner, it) in owners.iter().filter_map(|it| Some((it, workload.pods()?))) {
            let meta = owner.metadata();
            if !meta.is_deleting() {
                it.audit(&**owner, &pods[&meta.uid])?;
            }
        }
    }
    Ok(())
}

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
        // No controller works on an object that is being deleted.
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
