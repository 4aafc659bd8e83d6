//! JSON of ReplicaSets, their status, and pod templates.

use std::sync::Arc;

use serde_json::Value;

use super::item;
use super::pod::{ReadSpec, put_spec};
use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Tape, Writer};
use crate::{
    LabelSelector, ObjectMeta, PodTemplate, ReplicaSet, ReplicaSetCondition, ReplicaSetSpec,
    ReplicaSetStatus,
};

spec_and_status!(ReplicaSet, REPLICA_SET, ReplicaSetSpec, ReplicaSetStatus);

impl ReplicaSetSpec {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<ReplicaSetSpec, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(ReplicaSetSpec {
            replicas: members.opt_i32("replicas")?,
            min_ready_seconds: members.i32("minReadySeconds")?,
            selector: members
                .child("selector", LabelSelector::read)?
                .map(Arc::new),
            template: members
                .child("template", PodTemplate::read)?
                .unwrap_or_default()
                .into(),
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_some("replicas", self.replicas);
        out.put_number("minReadySeconds", self.min_ready_seconds.into());
        if let Some(selector) = &self.selector {
            out.member("selector", |out| out.object(|out| selector.write(out)));
        }
        out.put_object("template", |out| self.template.write(out));
        out.put_rest(&self.rest);
    }
}

impl PodTemplate {
    /// Reads a pod template. Null reads as an empty template.
    ///
    /// # Errors
    /// Fails if a member has a wrong type.
    pub fn from_json(value: Value) -> Result<PodTemplate, DecodeError> {
        PodTemplate::read(Tape::new(&value).root(), &Path::ROOT)
    }

    pub(super) fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<PodTemplate, DecodeError> {
        let mut members = Members::new(value, path)?;
        let metadata = members
            .child("metadata", ObjectMeta::read)?
            .unwrap_or_default();
        let spec = |value: JsonValue<'_>, path: &Path<'_>| ReadSpec::read(value, path, None);
        let read = members.child("spec", spec)?.unwrap_or_default();
        Ok(PodTemplate {
            metadata,
            spec: read.spec,
            node_name: read.node_name,
            token_volume: read.token_volume,
        })
    }

    /// Returns the JSON object. Omits empty `metadata` and `spec`.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    /// Calls `look` with the JSON object. O(bytes): the text is written, then parsed.
    pub fn look<R>(&self, look: impl FnOnce(JsonValue<'_>) -> R) -> R {
        let mut out = Writer::new();
        out.object(|out| self.write(out));
        look(Tape::of_written(out.as_str()).root())
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.put_object("metadata", |out| self.metadata.write(out));
        put_spec(
            out,
            &self.spec,
            self.node_name.as_ref(),
            self.token_volume,
            None,
        );
    }
}

impl ReplicaSetStatus {
    /// Reads `status`. Null reads as an empty status.
    ///
    /// # Errors
    /// Fails if a member has a wrong type.
    pub fn from_json(value: Value) -> Result<ReplicaSetStatus, DecodeError> {
        ReplicaSetStatus::read(Tape::new(&value).root(), &Path::ROOT)
    }

    pub(super) fn read(
        value: JsonValue<'_>,
        path: &Path<'_>,
    ) -> Result<ReplicaSetStatus, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(ReplicaSetStatus {
            replicas: members.i32("replicas")?,
            fully_labeled_replicas: members.i32("fullyLabeledReplicas")?,
            ready_replicas: members.i32("readyReplicas")?,
            available_replicas: members.i32("availableReplicas")?,
            terminating_replicas: members.opt_i32("terminatingReplicas")?,
            observed_generation: members.opt_i64("observedGeneration")?.unwrap_or(0),
            conditions: members.list("conditions", ReplicaSetCondition::read)?,
            rest: members.rest(),
        })
    }

    /// Returns the JSON object. `replicas` is always written, other counts only if they are not
    /// zero, and `terminatingReplicas` whenever it is set.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.put("replicas", self.replicas);
        out.put_number("fullyLabeledReplicas", self.fully_labeled_replicas.into());
        out.put_number("readyReplicas", self.ready_replicas.into());
        out.put_number("availableReplicas", self.available_replicas.into());
        out.put_some("terminatingReplicas", self.terminating_replicas);
        out.put_number("observedGeneration", self.observed_generation);
        out.put_objects("conditions", &self.conditions, |out, it| it.write(out));
        out.put_rest(&self.rest);
    }
}

impl ReplicaSetCondition {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<ReplicaSetCondition, DecodeError> {
        let mut members = item(value, path)?;
        Ok(ReplicaSetCondition {
            kind: members.string("type")?,
            status: members.string("status")?,
            last_transition_time: members.time("lastTransitionTime")?,
            reason: members.string("reason")?,
            message: members.string("message")?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put("type", &*self.kind);
        out.put("status", &*self.status);
        out.put_time("lastTransitionTime", self.last_transition_time);
        out.put_text("reason", &self.reason);
        out.put_text("message", &self.message);
        out.put_rest(&self.rest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{refusal, round_trip, wrong_values};
    use super::*;
    use crate::{Object, Resource};

    fn full() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "shop", "generation": 3},
            "spec": {
                "replicas": 0, "minReadySeconds": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img"}], "nodeName": "n1"}
                },
                "future": {"a": [1]}
            },
            "status": {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3,
                "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                    "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}], "new": 1}
        })
    }

    #[test]
    fn a_replica_set_round_trips() {
        let rs: ReplicaSet = round_trip(&full());
        assert_eq!(rs.spec.replicas, Some(0));
        assert_eq!(rs.status.terminating_replicas, Some(0));
        assert_eq!(rs.spec.template.node_name.as_deref(), Some("n1"));
        assert_eq!(rs.spec.template.spec.get("nodeName"), None);
        assert_eq!(rs.to_json(), full());
    }

    #[test]
    fn a_volume_name_of_the_template_is_restored() {
        let mut value = full();
        let spec = &mut value["spec"]["template"]["spec"];
        spec["volumes"] = json!([{"name": "kube-api-access-aaaaa"}]);
        spec["containers"][0]["volumeMounts"] = json!([{"name": "kube-api-access-aaaaa"}]);
        let rs = ReplicaSet::from_json(value.clone()).unwrap();
        assert!(rs.spec.template.token_volume.is_some());
        assert_eq!(rs.to_json(), value);
        let text = value
            .to_string()
            .replace("kube-api-access-aaaaa", "kube-api-access-bbbbb");
        let other = ReplicaSet::from_json(serde_json::from_str(&text).unwrap()).unwrap();
        assert_ne!(rs, other);
    }

    #[test]
    fn an_absent_selector_is_not_an_empty_one() {
        let read = |spec: Value| ReplicaSet::from_json(json!({"spec": spec})).unwrap();
        assert_eq!(read(json!({"selector": null})).spec.selector, None);
        assert_eq!(read(json!({})).spec.selector, None);
        let empty = read(json!({"selector": {}}));
        let selector = empty.spec.selector.as_deref();
        assert_eq!(selector, Some(&LabelSelector::default()));
        assert_eq!(empty.to_json()["spec"], json!({"selector": {}}));
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        let cases = r#"
{"spec": {"template": {"spec": {"containers": [{"image": 3}]}}}} => spec.template.spec.containers[0].image: expected a string, found the number 3
{"spec": {"replicas": 2147483648}} => spec.replicas: expected a 32-bit integer, found the number 2147483648
{"status": {"conditions": [null]}} => status.conditions[0]: expected an object, found null
{"apiVersion": "v1", "kind": "Pod"} => the object: expected apps/v1 ReplicaSet, found v1 Pod
"#;
        for (value, problem) in wrong_values(cases) {
            assert_eq!(refusal::<ReplicaSet>(value), problem);
        }
    }
}
