//! The check of invariant S7: every requested status matches exactly the pods that were in the
//! cache when the sync counted them.

use std::collections::BTreeSet;

use podstorm::client::{ApiError, Reason, Request};
use podstorm_objects::{Now, Pod, ReplicaSet, ReplicaSetStatus};

use super::super::model::{counts, said};
use super::oracle::SyncState;
use crate::invariants::Checked;

/// Checks that a requested status matches the seen pods. A second attempt writes the first status
/// again: with upstream's behaviour on whatever object it has found, with the hardened behaviour if
/// it writes at all.
pub(super) fn is_honest(
    sync: &mut SyncState,
    object: &ReplicaSet,
    now: Now,
    clock_offsets_ns: &BTreeSet<i64>,
) -> Checked {
    let Some(read) = &sync.set else {
        let text = format!("a status of {} is requested without reading it", sync.key);
        return Err(("S7", text));
    };
    if let Some(first) = &sync.status {
        if **first != object.status {
            let text = format!(
                "the second attempt at the status of {} has {:?}, but the first had {first:?}",
                sync.key, object.status
            );
            return Err(("S7", text));
        }
        return Ok(());
    }
    if object.metadata.resource_version == read.metadata.resource_version
        && object.status == read.status
    {
        let text = format!("the status of {} is written without a change", sync.key);
        return Err(("S7", text));
    }
    let status = &object.status;
    let has_failure = |status: &ReplicaSetStatus| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| *it.kind == *"ReplicaFailure")
    };
    let fits = status.observed_generation == read.metadata.generation
        && has_failure(status) == sync.manage_failed
        // A ReplicationController has no such count.
        && status.terminating_replicas.is_none() == sync.of_replication_controller;
    // If the wall clock goes back during a sync, pods that were available when the sync began still
    // count.
    let begun = (clock_offsets_ns.len() > 1).then_some(sync.begun_wall_ns);
    let moments = [now.wall_ns].into_iter().chain(begun);
    let walls = moments.flat_map(|at_ns| clock_offsets_ns.iter().map(move |off| at_ns + off));
    let pods = || sync.seen.values().map(|pod| &**pod);
    let is_adopted = |pod: &Pod| sync.adopted.contains(&*pod.metadata.name);
    let counted = walls.map(|wall_ns| {
        let mut counts = counts(read, pods(), is_adopted, wall_ns);
        counts[4] *= i32::from(!sync.of_replication_controller);
        counts
    });
    let counted: Vec<[i32; 5]> = counted.collect();
    let told = said(status);
    if !fits || !counted.contains(&told) {
        let text = format!(
            "the status of {} says {status:?}, and of the pods seen it is {:?} of generation {} \
             (failed: {})",
            sync.key, counted[0], read.metadata.generation, sync.manage_failed
        );
        return Err(("S7", text));
    }
    sync.status = Some(Box::new(status.clone()));
    Ok(())
}

/// Reports whether the status must show this failure as a condition.
pub(super) fn is_told(request: &Request, error: &ApiError, upstream: bool) -> bool {
    match request {
        Request::CreatePod { .. } => {
            let taken = !upstream && error.reason == Reason::AlreadyExists;
            !error.has_cause("NamespaceTerminating") && !taken
        }
        Request::DeletePod { .. } => {
            let another = !upstream && error.reason == Reason::Conflict;
            !error.is_not_found() && !another
        }
        _ => false,
    }
}
