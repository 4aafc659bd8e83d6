//! The order of a sync's batches of creates and of the pods that it deletes, and the requests that
//! a sync may send at all.

use podstorm::client::Request;
use podstorm_objects::{Pod, PodPhase};
use podstorm_sim::engine::client::RequestInfo;
use podstorm_sim::faults::BatchPosition;

use super::oracle::SyncState;
use crate::invariants::Checked;

/// Checks I2: a sync sends only the requests of ReplicaSet syncs. The other checks know no other
/// requests.
pub(super) fn is_of_a_replica_set(request: &Request) -> Checked {
    match request {
        Request::CreatePod { .. }
        | Request::DeletePod { .. }
        | Request::PatchOwners { .. }
        | Request::Get { .. }
        | Request::PutStatus { .. }
        | Request::ReadVersion { .. } => Ok(()),
        Request::List { .. }
        | Request::Create { .. }
        | Request::Put { .. }
        | Request::Patch { .. }
        | Request::GetScale { .. }
        | Request::GetOwnerScale { .. }
        | Request::PutScale { .. }
        | Request::Finalize { .. }
        | Request::Delete { .. }
        | Request::DeleteCollection { .. }
        | Request::Discover
        | Request::Raw { .. } => {
            let text = format!(
                "a ReplicaSet sync sends an unexpected request: {}",
                RequestInfo::from_request(request)
            );
            Err(("I2", text))
        }
    }
}

/// Checks S6: batches have at most 1, 2, 4, … creates, and no batch follows a failed one.
pub(super) fn batch_is_in_order(sync: &mut SyncState, place: BatchPosition) -> Checked {
    if let Some(failed) = sync.failed_batch
        && place.batch > failed
    {
        let text = format!("{} continues to create after a failed batch", sync.key);
        return Err(("S6", text));
    }
    let number = match sync.batches.contains_key(&place.batch) {
        true => sync.batches.len() - 1,
        false => sync.batches.len(),
    };
    let size = sync.batches.entry(place.batch).or_default();
    *size += 1;
    let most = 1u32
        .checked_shl(u32::try_from(number).unwrap_or(31))
        .unwrap_or(u32::MAX);
    if *size > most {
        let text = format!(
            "batch {number} of {} has more than {most} creates",
            sync.key
        );
        return Err(("S6", text));
    }
    Ok(())
}

/// Returns the sort key of a pod by the first criteria for deletion: without a node, then the
/// phase, then the readiness. Pods with the lowest key are deleted first.
pub(super) fn rough_order(pod: &Pod) -> (bool, u8, bool) {
    let phase = match pod.status.phase {
        PodPhase::Running => 2,
        PodPhase::Unknown => 1,
        _ => 0,
    };
    (pod.node_name.is_some(), phase, pod.is_ready())
}
