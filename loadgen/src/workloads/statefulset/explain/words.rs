//! Describes the requests, waits and notes of a StatefulSet in words.

use podstorm::client::Request;
use podstorm::statefulset::course::Course;
use podstorm::statefulset::identity::{REVISION_LABEL, ordinal_of};
use podstorm::statefulset::spec::SetSpec;
use podstorm::statefulset::waits::{Wait, WaitReason};
use podstorm_objects::{DynamicObject, Kind, ObjectMeta, Pod};
use podstorm_sim::engine::client::RequestInfo;
use podstorm_sim::nodes::{problem, why_unready};
use serde_json::Value;

use super::{Asked, Found, Waiting, spec_of};
use crate::units::{NS_PER_SECOND, counted, duration_text};
use crate::workloads::replicaset::explain::find::some_of;

/// Returns the name of the revision from which a pod was created; empty without the label.
fn revision_of(meta: &ObjectMeta) -> &str {
    meta.labels.get(REVISION_LABEL).map_or("", |it| &**it)
}

fn revision_in_words(revision: &str) -> String {
    match revision {
        "" => "no revision".to_owned(),
        revision => format!("revision {revision}"),
    }
}

/// Returns the `updateStrategy.type` of a set.
pub(super) fn strategy(set: &DynamicObject) -> String {
    let strategy = set
        .fields
        .get("spec")
        .map(|spec| &spec["updateStrategy"]["type"]);
    let strategy = strategy.and_then(Value::as_str);
    strategy.unwrap_or("RollingUpdate").to_owned()
}

/// Describes a request before it is executed; `None` for a read.
pub(super) fn asked(found: &Found, request: &Request) -> Option<Asked> {
    let (name, why) = match request {
        Request::CreatePod { pod, name, .. } => {
            let ordinal = ordinal_of(&pod.metadata);
            let of = revision_in_words(revision_of(&pod.metadata));
            let why = format!("ordinal {ordinal} has no pod; it is created from {of}");
            (name.as_deref().unwrap_or_default().to_owned(), why)
        }
        Request::DeletePod { name, .. } => {
            let pod = found.pods.iter().find(|pod| pod.metadata.name == *name)?;
            (name.to_string(), why_deleted(found, pod))
        }
        Request::Create { object } => {
            let name = object.metadata().name.to_string();
            let why = match object.kind() == Kind::CONTROLLER_REVISION {
                true => "no revision has the template of today",
                false => "the claim of a claim template, for a pod that has none",
            };
            (name, why.to_owned())
        }
        Request::Put { object } => {
            let kind = object.kind();
            let why = if kind == Kind::CONTROLLER_REVISION {
                "the template of today is that of this older revision, which becomes the newest"
            } else if kind == Kind::PERSISTENT_VOLUME_CLAIM {
                "its owners differ from persistentVolumeClaimRetentionPolicy"
            } else {
                "its name, labels, volumes or claims do not match its ordinal"
            };
            (object.metadata().name.to_string(), why.to_owned())
        }
        Request::PutStatus { object } => {
            let course = Course::from_object(&**object)?;
            let Course {
                pods,
                ready,
                current,
                updated,
                ..
            } = course;
            let why = format!(
                "the status reports {}, {ready} ready, {current} of the current revision, {updated} of the update revision",
                counted(u64::try_from(pods).unwrap_or(0), "pod")
            );
            (object.metadata().name.to_string(), why)
        }
        Request::PatchOwners { name, .. } => {
            let why = "adopted or released, depending on name and selector";
            (name.to_string(), why.to_owned())
        }
        Request::Delete { name, .. } => {
            let why = "there are more old revisions than revisionHistoryLimit allows";
            (name.to_string(), why.to_owned())
        }
        _ => return None,
    };
    Some(Asked {
        request: RequestInfo::from_request(request).to_string(),
        name,
        why,
    })
}

/// Describes why a sync deletes a pod.
fn why_deleted(found: &Found, pod: &Pod) -> String {
    let spec = spec_of(&found.set);
    let ordinal = ordinal_of(&pod.metadata);
    if pod.status.phase.is_terminal() {
        return "it has ended, and is recreated".to_owned();
    }
    if !spec.has_ordinal(ordinal) {
        let last = spec.start + spec.replicas - 1;
        let wanted = match spec.replicas {
            0 => "no ordinal is wanted".to_owned(),
            1 => format!("only ordinal {last} is wanted"),
            _ => format!("the ordinals {} to {last} are wanted", spec.start),
        };
        return format!("{wanted}, and the highest pod goes first");
    }
    let of = revision_in_words(revision_of(&pod.metadata));
    format!("it is of {of}, and the rolling update goes from the last ordinal down")
}

/// Describes what the set waits for.
pub(super) fn waiting(wait: &Wait, found: &Found) -> Waiting {
    let pod = found.pods.iter().find(|pod| pod.metadata.name == *wait.pod);
    let (rule, claim, why) = match &wait.reason {
        WaitReason::Terminating => (
            "terminating",
            None,
            "it is terminating; the next pod follows once it no longer exists".to_owned(),
        ),
        WaitReason::NotReady => {
            let unbound = pod.and_then(|pod| unbound_claim(found, pod));
            let why = match (&unbound, pod) {
                (Some(claim), _) => format!("its claim {claim} is not bound"),
                (None, Some(pod)) => format!("it is not ready: {}", why_unready(pod)),
                (None, None) => String::new(),
            };
            ("not-ready", unbound, why)
        }
        WaitReason::NotAvailable(left_ns) => {
            let seconds = left_ns.saturating_add(NS_PER_SECOND - 1) / NS_PER_SECOND;
            let left = duration_text(seconds * NS_PER_SECOND);
            let why = format!("it is ready, and available {left} from now, after minReadySeconds");
            ("min-ready-seconds", None, why)
        }
        WaitReason::StaleClaim(claim) => {
            let why = format!(
                "it is not created: its claim {claim} belongs to the previous pod of this name, and is deleted with it. \
                 No change of a claim wakes the set"
            );
            ("stale-claim", Some(claim.clone()), why)
        }
    };
    Waiting {
        rule,
        pod: wait.pod.clone(),
        claim,
        revision: wait.revision.clone(),
        why,
    }
}

/// Returns the first claim without a volume, of a pod without a node; `None` if there is none.
fn unbound_claim(found: &Found, pod: &Pod) -> Option<String> {
    let is_unbound = |name: &str| {
        let mut claims = found.claims.iter();
        let claim = claims.find(|claim| claim.metadata.name == *name)?;
        let phase = claim.fields.get("status").map(|status| &status["phase"]);
        Some(phase.is_none_or(|phase| phase != "Bound"))
    };
    let claims = pod.spec.claims(&pod.metadata.name).into_iter();
    let mut claims = claims.filter(|claim| is_unbound(&claim.name) == Some(true));
    let waits = pod.node_name.is_none();
    claims
        .next()
        .filter(|_| waits)
        .map(|claim| claim.name.to_string())
}

/// Describes why a wait does not end until an operator deletes the pod; `None` if it may end by
/// itself.
pub(super) fn stuck(wait: &Wait, found: &Found, spec: &SetSpec, course: &Course) -> Option<String> {
    if spec.is_parallel || wait.is_condemned || wait.reason != WaitReason::NotReady {
        return None;
    }
    let Wait { pod, revision, .. } = wait;
    let namespace = &found.set.metadata.namespace;
    let command = format!("kubectl delete pod -n {namespace} {pod}");
    if *revision != course.update_revision {
        return Some(format!(
            "Reverted but stuck: {pod} is of {}, the template of today is revision {}, and with podManagementPolicy \
             OrderedReady no sync gets to replacing {pod} before it is ready (kubernetes/kubernetes#67250). If it doesn't \
             become ready, delete it by hand: {command}",
            revision_in_words(revision),
            course.update_revision
        ));
    }
    let broken = found.pods.iter().find(|it| it.metadata.name == *pod);
    let why = broken.and_then(|pod| problem(pod))?;
    Some(format!(
        "{pod} can't become ready: {why}. It is of the template of today; a corrected or reverted template alone does not \
         replace it, as no sync gets so far before it is ready: change the template, then delete the pod by hand: {command}"
    ))
}

/// Returns other remarks about a set.
pub(super) fn notes(found: &Found, spec: &SetSpec, course: &Course) -> Vec<String> {
    let is_outdated = |pod: &&std::sync::Arc<Pod>| {
        let ordinal = ordinal_of(&pod.metadata);
        spec.has_ordinal(ordinal) && revision_of(&pod.metadata) != course.update_revision
    };
    let outdated = || found.pods.iter().filter(is_outdated);
    let names = |pods: &mut dyn Iterator<Item = &std::sync::Arc<Pod>>| -> Vec<String> {
        pods.map(|pod| pod.metadata.name.to_string()).collect()
    };
    let mut notes = Vec::new();
    if spec.strategy.is_on_delete {
        let old = names(&mut outdated());
        if !old.is_empty() {
            notes.push(format!(
                "OnDelete: {} stay unchanged until an operator deletes them.",
                some_of(&old)
            ));
        }
        return notes;
    }
    let first = spec.start.saturating_add(course.partition.unwrap_or(0));
    let kept = names(&mut outdated().filter(|pod| ordinal_of(&pod.metadata) < first));
    if !kept.is_empty() {
        notes.push(format!(
            "The partition {} keeps {} as they are; if recreated, they are of {}.",
            course.partition.unwrap_or(0),
            some_of(&kept),
            revision_in_words(&course.current_revision)
        ));
    }
    notes
}
