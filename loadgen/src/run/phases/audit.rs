//! The exact check at the end of a phase: scans the store, independently of the watches, and
//! compares every owner with its pods.
//!
//! Pods that were not ready in the files may still not be ready. The caller provides their number
//! for each owner.

use std::fmt::Write;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::{ObjectMeta, Pod, Uid};

use crate::workloads::{self, Demand, StatusCounts, Workload};

/// Reports whether the status of this workload describes individual pods, not only their number.
pub(super) fn audits_pods(workload: Workload) -> bool {
    workload.pods().is_some_and(|pods| pods.audits_pods())
}

/// Compares the owners whose status describes individual pods with these pods. O(pods + owners), or
/// O(1) if there are no such owners.
///
/// # Errors
/// The object whose status contradicts its pods, and the contradiction.
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

/// Compares every owner with its pods. `may_be_unready` contains, for each owner, the number of
/// pods that may be unready. Owners without an entry are skipped. O(pods + owners).
///
/// # Errors
/// The first wrong owner, its contradiction, and the number of wrong owners.
pub(super) fn audit(
    cluster: &Cluster,
    may_be_unready: impl Fn(&ObjectMeta) -> Option<i32>,
) -> Result<(), String> {
    // The number of active pods and, of these, those that aren't ready.
    let mut active: HashMap<Uid, (i32, i32), RandomState> = HashMap::with_hasher(FIXED_STATE);
    // Don't list the pods: a list of a million pods sorts them by name, and here they are only
    // counted.
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
        let wanted = StatusCounts {
            replicas,
            ready,
            available: ready,
            observed_generation: meta.generation,
        };
        let exact = active == replicas && status == wanted;
        // Controllers do not work on objects that are being deleted.
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
