//! JSON of Deployments and their status.

use std::sync::Arc;

use super::item;
use crate::decode::{DecodeError, Members, Path, read_i32};
use crate::json::{JsonValue, Writer};
use crate::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, DeploymentStrategy,
    DynamicObject, IntOrString, Kind, LabelSelector, Object, PodTemplate, Resource, RollingUpdate,
};

spec_and_status!(Deployment, DEPLOYMENT, DeploymentSpec, DeploymentStatus);

impl Deployment {
    /// Returns the Deployment as an object without a Rust type, for servers that store it as such.
    pub fn to_untyped(&self) -> DynamicObject {
        let mut object = DynamicObject::new(Kind::DEPLOYMENT);
        object.metadata = self.metadata.clone();
        let fields = Writer::object_value(|out| {
            out.put_object("spec", |out| self.spec.write(out));
            out.member("status", |out| out.object(|out| self.status.write(out)));
        });
        if let serde_json::Value::Object(fields) = fields {
            object.fields = fields;
        }
        object
    }

    /// Reads a Deployment from an object without a Rust type. `None` if the object has another
    /// kind or a member of a wrong type. O(bytes).
    pub fn of_untyped(object: &dyn Object) -> Option<Deployment> {
        let untyped = object.downcast_ref::<DynamicObject>()?;
        if untyped.kind() != Kind::DEPLOYMENT {
            return None;
        }
        let mut out = Writer::new();
        out.object(|out| out.put_members(&untyped.fields));
        let mut deployment = Deployment::from_slice(out.as_str().as_bytes()).ok()?;
        deployment.metadata = untyped.metadata.clone();
        Some(deployment)
    }
}

impl DeploymentSpec {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<DeploymentSpec, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(DeploymentSpec {
            replicas: members.opt_i32("replicas")?,
            selector: members
                .child("selector", LabelSelector::read)?
                .map(Arc::new),
            template: members
                .child("template", PodTemplate::read)?
                .unwrap_or_default()
                .into(),
            strategy: members
                .child("strategy", DeploymentStrategy::read)?
                .unwrap_or_default(),
            min_ready_seconds: members.i32("minReadySeconds")?,
            revision_history_limit: members.opt_i32("revisionHistoryLimit")?,
            paused: members.opt_flag("paused")?.unwrap_or_default(),
            progress_deadline_seconds: members.opt_i32("progressDeadlineSeconds")?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_some("replicas", self.replicas);
        if let Some(selector) = &self.selector {
            out.member("selector", |out| out.object(|out| selector.write(out)));
        }
        out.put_object("template", |out| self.template.write(out));
        out.put_object("strategy", |out| self.strategy.write(out));
        out.put_number("minReadySeconds", self.min_ready_seconds.into());
        out.put_some("revisionHistoryLimit", self.revision_history_limit);
        out.put_some("paused", self.paused.then_some(true));
        out.put_some("progressDeadlineSeconds", self.progress_deadline_seconds);
        out.put_rest(&self.rest);
    }
}

impl DeploymentStrategy {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<DeploymentStrategy, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(DeploymentStrategy {
            kind: members.string("type")?,
            rolling_update: members.child("rollingUpdate", RollingUpdate::read)?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_text("type", &self.kind);
        if let Some(limits) = &self.rolling_update {
            out.member("rollingUpdate", |out| out.object(|out| limits.write(out)));
        }
        out.put_rest(&self.rest);
    }
}

impl RollingUpdate {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<RollingUpdate, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(RollingUpdate {
            max_unavailable: members.child("maxUnavailable", IntOrString::read)?,
            max_surge: members.child("maxSurge", IntOrString::read)?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        for (name, limit) in [
            ("maxUnavailable", &self.max_unavailable),
            ("maxSurge", &self.max_surge),
        ] {
            match limit {
                Some(IntOrString::Int(number)) => out.put(name, *number),
                Some(IntOrString::Text(text)) => out.put(name, &**text),
                None => {}
            }
        }
        out.put_rest(&self.rest);
    }
}

impl IntOrString {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<IntOrString, DecodeError> {
        match value.as_str() {
            Some(text) => Ok(IntOrString::Text(text.into())),
            None if value.is_number() => Ok(IntOrString::Int(read_i32(value, path)?)),
            None => Err(path.mismatch("a string or an integer", value)),
        }
    }
}

impl DeploymentStatus {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<DeploymentStatus, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(DeploymentStatus {
            observed_generation: members.opt_i64("observedGeneration")?.unwrap_or(0),
            replicas: members.i32("replicas")?,
            updated_replicas: members.i32("updatedReplicas")?,
            ready_replicas: members.i32("readyReplicas")?,
            available_replicas: members.i32("availableReplicas")?,
            unavailable_replicas: members.i32("unavailableReplicas")?,
            terminating_replicas: members.opt_i32("terminatingReplicas")?,
            conditions: members.list("conditions", DeploymentCondition::read)?,
            collision_count: members.opt_i32("collisionCount")?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_number("observedGeneration", self.observed_generation);
        out.put_number("replicas", self.replicas.into());
        out.put_number("updatedReplicas", self.updated_replicas.into());
        out.put_number("readyReplicas", self.ready_replicas.into());
        out.put_number("availableReplicas", self.available_replicas.into());
        out.put_number("unavailableReplicas", self.unavailable_replicas.into());
        out.put_some("terminatingReplicas", self.terminating_replicas);
        out.put_objects("conditions", &self.conditions, |out, it| it.write(out));
        out.put_some("collisionCount", self.collision_count);
        out.put_rest(&self.rest);
    }
}

impl DeploymentCondition {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<DeploymentCondition, DecodeError> {
        let mut members = item(value, path)?;
        Ok(DeploymentCondition {
            kind: members.string("type")?,
            status: members.string("status")?,
            last_update_time: members.time("lastUpdateTime")?,
            last_transition_time: members.time("lastTransitionTime")?,
            reason: members.string("reason")?,
            message: members.string("message")?,
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put("type", &*self.kind);
        out.put("status", &*self.status);
        out.put_time("lastUpdateTime", self.last_update_time);
        out.put_time("lastTransitionTime", self.last_transition_time);
        out.put_text("reason", &self.reason);
        out.put_text("message", &self.message);
        out.put_rest(&self.rest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{refusal, round_trip};
    use super::*;
    use crate::AnyObject;

    fn full() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "generation": 3},
            "spec": {
                "replicas": 0, "minReadySeconds": 10, "paused": true, "revisionHistoryLimit": 0,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img"}]}
                },
                "future": {"a": [1]}
            },
            "status": {"replicas": 3, "updatedReplicas": 2, "terminatingReplicas": 0,
                "observedGeneration": 3, "collisionCount": 0,
                "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                    "message": "m", "lastUpdateTime": "2026-01-02T03:04:05Z",
                    "lastTransitionTime": "2026-01-02T03:04:04Z"}], "new": 1}
        })
    }

    #[test]
    fn a_deployment_round_trips() {
        let deployment: Deployment = round_trip(&full());
        let limits = deployment.spec.strategy.rolling_update.as_ref().unwrap();
        assert_eq!(limits.max_surge, Some(IntOrString::Text("25%".into())));
        assert_eq!(limits.max_unavailable, Some(IntOrString::Int(0)));
        assert_eq!(deployment.status.collision_count, Some(0));
    }

    #[test]
    fn a_deployment_survives_the_untyped_form() {
        let untyped = DynamicObject::from_json(Kind::DEPLOYMENT, full()).unwrap();
        let object: AnyObject = Arc::new(untyped);
        let deployment = Deployment::from_object(&object).unwrap();
        assert_eq!(deployment.to_json(), full());
        assert_eq!(deployment.to_untyped().to_json(), full());
        let typed: AnyObject = deployment.clone();
        assert!(Arc::ptr_eq(
            &Deployment::from_object(&typed).unwrap(),
            &deployment
        ));
        let pod: AnyObject = Arc::new(crate::Pod::default());
        assert!(Deployment::from_object(&pod).is_none());
        let other: AnyObject = Arc::new(DynamicObject::new(Kind::EVENT));
        assert!(Deployment::from_object(&other).is_none());
    }

    #[test]
    fn a_limit_is_a_number_or_a_text() {
        let strategy = json!({"rollingUpdate": {"maxSurge": true}});
        let value = json!({"spec": {"strategy": strategy}});
        assert_eq!(
            refusal::<Deployment>(value),
            "spec.strategy.rollingUpdate.maxSurge: expected a string or an integer, found the \
             boolean true"
        );
    }
}
