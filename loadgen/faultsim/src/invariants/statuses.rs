//! S7: every status that a controller asks for is that of the pods which its cache had when the sync
//! counted them, to the last count.

use std::collections::BTreeSet;

use podstorm::client::{ApiError, Reason, Request};
use podstorm_objects::{Now, Pod, PodPhase, ReplicaSet};

use super::super::model::{is_active, selects};
use super::books::SyncBook;
use super::checks::Checked;

/// What a status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    replicas: i32,
    fully_labeled: i32,
    ready: i32,
    available: i32,
    terminating: Option<i32>,
    generation: i64,
    failure: bool,
}

/// Whether a status that is asked for is true to the pods seen. With upstream's behaviour a second
/// attempt writes the first one's status again, on whatever it has found: so it does hardened, where
/// it writes at all.
pub(super) fn is_honest(
    sync: &mut SyncBook,
    object: &ReplicaSet,
    now: Now,
    clock_offsets_ns: &BTreeSet<i64>,
) -> Checked {
    let Some(read) = &sync.set else {
        let text = format!("a status of {} is asked for without reading it", sync.key);
        return Err(("S7", text));
    };
    if let Some(first) = &sync.status {
        if **first != object.status {
            let text = format!(
                "the second attempt at the status of {} says {:?}, and the first said {first:?}",
                sync.key, object.status
            );
            return Err(("S7", text));
        }
        return Ok(());
    }
    if object.metadata.resource_version == read.metadata.resource_version
        && object.status == read.status
    {
        return Err((
            "S7",
            format!("the status of {} is written, and it is there", sync.key),
        ));
    }
    let status = &object.status;
    let told = Counts {
        replicas: status.replicas,
        fully_labeled: status.fully_labeled_replicas,
        ready: status.ready_replicas,
        available: status.available_replicas,
        terminating: status.terminating_replicas,
        generation: status.observed_generation,
        failure: status
            .conditions
            .iter()
            .any(|it| *it.kind == *"ReplicaFailure"),
    };
    // A wall clock that goes back in the middle of a sync takes nothing from pods that had been ready
    // for long enough when it began.
    let begun = (clock_offsets_ns.len() > 1).then_some(sync.begun_wall_ns);
    let moments = [now.wall_ns].into_iter().chain(begun);
    let walls = moments.flat_map(|at_ns| clock_offsets_ns.iter().map(move |off| at_ns + off));
    let counted: Vec<Counts> = walls.map(|wall_ns| count(sync, read, wall_ns)).collect();
    if !counted.contains(&told) {
        let text = format!(
            "the status of {} says {told:?}, and of the pods seen it is {:?}",
            sync.key, counted[0]
        );
        return Err(("S7", text));
    }
    sync.status = Some(Box::new(status.clone()));
    Ok(())
}

/// Whether such a failure shows as a condition.
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

/// What there is to say of the pods that the sync has seen.
fn count(sync: &SyncBook, set: &ReplicaSet, wall_ns: i64) -> Counts {
    let mut counts = Counts {
        replicas: 0,
        fully_labeled: 0,
        ready: 0,
        available: 0,
        // A ReplicationController has no such count.
        terminating: (!sync.of_replication_controller).then_some(0),
        generation: set.metadata.generation,
        failure: sync.manage_failed,
    };
    for (name, seen) in &sync.seen {
        let pod = &*seen.0;
        let owner = pod.metadata.controller();
        let own = owner.is_some_and(|owner| owner.uid == set.metadata.uid) && selects(set, pod);
        if own && is_terminating(pod) {
            counts.terminating = counts.terminating.map(|count| count + 1);
        }
        if !is_active(pod) || !(own || sync.adopted.contains(name)) {
            continue;
        }
        counts.replicas += 1;
        let template = &set.spec.template.metadata.labels;
        counts.fully_labeled += i32::from(pod.metadata.labels.contains_all(template));
        counts.ready += i32::from(pod.is_ready());
        counts.available += i32::from(is_available(pod, set, wall_ns));
    }
    counts
}

fn is_terminating(pod: &Pod) -> bool {
    let ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
    pod.metadata.is_deleting() && !ended
}

fn is_available(pod: &Pod, set: &ReplicaSet, wall_ns: i64) -> bool {
    let enough_ns = i64::from(set.spec.min_ready_seconds) * 1_000_000_000;
    if !pod.is_ready() || enough_ns == 0 {
        return pod.is_ready();
    }
    let mut conditions = pod.status.conditions.iter();
    let ready = conditions.find(|it| it.kind == podstorm_objects::ConditionType::Ready);
    let since_ns = ready.and_then(|it| it.last_transition_time.get().unix_nanos());
    since_ns.is_some_and(|since_ns| since_ns + enough_ns <= wall_ns)
}
