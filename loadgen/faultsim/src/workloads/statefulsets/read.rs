//! The checker's view of a StatefulSet, its pods and its revisions, computed from the
//! specification, independently of the controller's code.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, ObjectMeta, OwnerReference, Pod, PodPhase, Uid};
use serde_json::{Value, json};

use super::SECOND;

/// The label of a pod with its name.
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// The label of a pod with its ordinal.
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The label of a pod with the name of the revision from which it was created.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The name of a scheduler that does not exist. Pods that request this scheduler never run.
pub(super) const NO_SCHEDULER: &str = "nobody";

/// The parts in which the templates of schedules differ: the image and the scheduler.
pub(super) type Template = (String, String);

/// Returns the parts of a pod template that identify it.
fn template_of(template: &Value) -> Template {
    let spec = &template["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&spec["containers"][0]["image"]),
        text(&spec["schedulerName"]),
    )
}

/// Returns the parts that identify the template of a revision.
pub(super) fn template_of_revision(revision: &DynamicObject) -> Template {
    let data = revision.fields.get("data").unwrap_or(&Value::Null);
    template_of(&data["spec"]["template"])
}

/// Returns the number of a revision.
pub(super) fn number_of(revision: &DynamicObject) -> i64 {
    let number = revision.fields.get("revision").and_then(Value::as_i64);
    number.unwrap_or(0)
}

/// The checker's view of a StatefulSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    pub(super) set: &'a DynamicObject,
    pub(super) spec: &'a Value,
    pub(super) status: &'a Value,
}

impl<'a> Read<'a> {
    pub(super) fn from_object(set: &'a DynamicObject) -> Read<'a> {
        let part = |name| set.fields.get(name).unwrap_or(&Value::Null);
        Read {
            set,
            spec: part("spec"),
            status: part("status"),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        &self.set.metadata.name
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.set.metadata.is_deleting()
    }

    /// Returns a count in the status; 0 if it is not set.
    pub(super) fn count(&self, member: &str) -> i64 {
        self.status[member].as_i64().unwrap_or(0)
    }

    /// Returns a string in the status; empty if it is not set.
    pub(super) fn said(&self, member: &str) -> &'a str {
        self.status[member].as_str().unwrap_or_default()
    }

    pub(super) fn replicas(&self) -> i64 {
        self.spec["replicas"].as_i64().unwrap_or(1)
    }

    /// Returns the ordinal of the first pod.
    pub(super) fn start(&self) -> i64 {
        self.spec["ordinals"]["start"].as_i64().unwrap_or(0)
    }

    /// Returns the ordinals of the pods that the set wants.
    pub(super) fn ordinals(&self) -> std::ops::Range<i64> {
        self.start()..self.start() + self.replicas()
    }

    /// Reports whether the set handles one pod after the other.
    pub(super) fn is_ordered(&self) -> bool {
        self.spec["podManagementPolicy"] != "Parallel"
    }

    pub(super) fn is_on_delete(&self) -> bool {
        self.spec["updateStrategy"]["type"] == "OnDelete"
    }

    /// Returns `updateStrategy.rollingUpdate`, if it is set.
    pub(super) fn rolling(&self) -> Option<&'a Value> {
        let rolling = &self.spec["updateStrategy"]["rollingUpdate"];
        rolling.is_object().then_some(rolling)
    }

    /// Returns the number of pods, from the lowest ordinal up, that are not updated.
    pub(super) fn partition(&self) -> i64 {
        self.rolling()
            .map_or(0, |it| it["partition"].as_i64().unwrap_or(0))
    }

    /// Returns the lowest ordinal whose pod a rolling update may replace.
    pub(super) fn first_updated(&self) -> i64 {
        self.start() + self.partition()
    }

    /// Returns `rollingUpdate.maxUnavailable`, which is a number in schedules.
    pub(super) fn max_unavailable(&self) -> i64 {
        let most = self
            .rolling()
            .and_then(|rolling| rolling["maxUnavailable"].as_i64());
        most.unwrap_or(1)
    }

    pub(super) fn history_limit(&self) -> i64 {
        self.spec["revisionHistoryLimit"].as_i64().unwrap_or(10)
    }

    pub(super) fn template(&self) -> Template {
        template_of(&self.spec["template"])
    }

    /// Reports whether pods of the set's template can't run.
    pub(super) fn is_bad(&self) -> bool {
        self.template().1 == NO_SCHEDULER
    }

    /// Returns the names of the set's claim templates.
    pub(super) fn claim_templates(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let templates = self.spec["volumeClaimTemplates"].as_array();
        let templates = templates.into_iter().flatten();
        templates.filter_map(|template| template["metadata"]["name"].as_str())
    }

    /// Returns whether claims are deleted with the set, and whether they are deleted when the set
    /// is scaled down.
    pub(super) fn retention(&self) -> [bool; 2] {
        let policy = &self.spec["persistentVolumeClaimRetentionPolicy"];
        ["whenDeleted", "whenScaled"].map(|when| policy[when] == "Delete")
    }

    /// Reports whether the set's selector matches an object. Selectors of schedules have only the
    /// label `app`.
    pub(super) fn selects(&self, meta: &ObjectMeta) -> bool {
        let wanted = self.spec["selector"]["matchLabels"]["app"].as_str();
        meta.labels.get("app").map(|value| &**value) == wanted
    }

    /// Returns the ordinal of a pod in this set: -1 if the ordinal in the name is invalid, and
    /// `None` for a name that is not of this set.
    pub(super) fn ordinal(&self, pod: &ObjectMeta) -> Option<i64> {
        let (parent, digits) = pod.name.rsplit_once('-')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = || digits.parse::<i32>().map_or(-1, i64::from);
        (is_number && parent == self.name()).then(number)
    }

    /// Reports whether a pod has a volume for each of its claims.
    pub(super) fn has_storage(&self, pod: &Pod) -> bool {
        let volumes = pod.spec.get("volumes").unwrap_or_default();
        let volumes = volumes.as_array();
        self.claim_templates().all(|template| {
            let claim = format!("{template}-{}", pod.metadata.name);
            let mut volumes = volumes.into_iter().flatten();
            volumes.any(|it| it["persistentVolumeClaim"]["claimName"] == *claim)
        })
    }

    /// Returns the name of the set's pod with this ordinal.
    pub(super) fn pod(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.name())
    }

    /// Reports whether the set controls an object.
    pub(super) fn owns(&self, meta: &ObjectMeta) -> bool {
        let controller = meta.controller();
        controller.is_some_and(|owner| owner.uid == self.set.metadata.uid)
    }

    /// Reports whether a rolling update is complete, according to the counts in a status.
    pub(super) fn is_complete(&self, status: Read<'_>) -> bool {
        let counts = ["replicas", "readyReplicas", "updatedReplicas"];
        let mut counts = counts.iter().map(|it| status.count(it));
        !self.is_on_delete() && counts.all(|count| count == self.replicas())
    }

    /// Reports whether a claim of a pod has owners that the controller must not change.
    pub(super) fn is_hands_off(&self, pod: &ObjectMeta, refs: &[Arc<OwnerReference>]) -> bool {
        [(Kind::STATEFUL_SET, &self.set.metadata), (Kind::POD, pod)]
            .into_iter()
            .any(|(kind, meta)| {
                let first = refs.iter().find(|it| is_named(it, kind, meta));
                first.is_some_and(|it| it.uid != meta.uid)
            })
    }

    /// Returns the UIDs of the owners that a claim of a pod should have, in order, given its
    /// current owners.
    pub(super) fn claim_owners(&self, pod: &ObjectMeta, refs: &[Arc<OwnerReference>]) -> Vec<Uid> {
        let set = &self.set.metadata;
        let is_ours = |it: &&Arc<OwnerReference>| {
            is_named(it, Kind::STATEFUL_SET, set) || is_named(it, Kind::POD, pod)
        };
        let others = refs.iter().filter(|it| !is_ours(it));
        let mut owners: Vec<Uid> = others.clone().map(|it| it.uid.clone()).collect();
        let [goes_with_set, goes_when_scaled] = self.retention();
        let is_controlled = others.clone().any(|it| it.controller == Some(true));
        if is_controlled && (goes_with_set || goes_when_scaled) {
            return owners;
        }
        let is_wanted = self
            .ordinal(pod)
            .is_some_and(|it| self.ordinals().contains(&it));
        match (goes_when_scaled, goes_with_set) {
            (true, _) if !is_wanted => owners.push(pod.uid.clone()),
            (_, true) => owners.push(set.uid.clone()),
            _ => {}
        }
        owners
    }
}

fn is_named(reference: &OwnerReference, kind: Kind, meta: &ObjectMeta) -> bool {
    *reference.kind == *kind.name()
        && *reference.api_version == *kind.api_version()
        && *reference.name == *meta.name
}

/// Returns the wall time from which a ready pod is available, ns; `None` if the pod is not ready.
fn available_from_ns(pod: &Pod, min_ready_seconds: i64) -> Option<i64> {
    match (pod.is_ready(), min_ready_seconds) {
        (false, _) => None,
        (true, 0) => Some(i64::MIN),
        (true, seconds) => Some(pod.ready_time().unix_nanos()? + seconds * SECOND),
    }
}

impl Read<'_> {
    /// Reports whether a pod is available at this wall time, regardless of its phase.
    pub(super) fn is_available(&self, pod: &Pod, wall_ns: i64) -> bool {
        let seconds = self.spec["minReadySeconds"].as_i64().unwrap_or(0);
        available_from_ns(pod, seconds).is_some_and(|from_ns| from_ns <= wall_ns)
    }

    /// Reports whether an ordered set may continue after this pod, at this wall time.
    pub(super) fn is_healthy(&self, pod: &Pod, wall_ns: i64) -> bool {
        is_running_and_ready(pod) && self.is_available(pod, wall_ns) && !pod.metadata.is_deleting()
    }
}

pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == PodPhase::Running && pod.is_ready()
}

/// Returns the name of the revision in a pod's label.
pub(super) fn revision_of(pod: &ObjectMeta) -> &str {
    let revision = pod.labels.get(REVISION);
    revision.map_or("", |revision| &**revision)
}

/// Returns `spec.template` for a template number, with `app` as the value of the label `app`.
pub(super) fn template(app: &str, number: u32, is_bad: bool) -> Value {
    let scheduler = if is_bad {
        json!(NO_SCHEDULER)
    } else {
        Value::Null
    };
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "app", "image": format!("app:{number}")}],
            "schedulerName": scheduler,
        },
    })
}
