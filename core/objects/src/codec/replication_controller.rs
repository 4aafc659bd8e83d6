//! JSON of ReplicationControllers.

use std::sync::Arc;

use super::open;
use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Writer};
use crate::{Kind, Labels, PodTemplate, ReplicaSetStatus, ReplicationController, Resource};

object!(ReplicationController, |controller, out| {
    out.put_object("spec", |out| write_spec(controller, out));
    out.member("status", |out| {
        out.object(|out| controller.status.write(out))
    });
});

impl Resource for ReplicationController {
    const KIND: Kind = Kind::REPLICATION_CONTROLLER;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let (mut members, metadata) = open(value, Kind::REPLICATION_CONTROLLER)?;
        let status = members
            .child("status", ReplicaSetStatus::read)?
            .unwrap_or_default();
        let mut controller = members.child("spec", read_spec)?.unwrap_or_default();
        controller.metadata = metadata;
        controller.status = ReplicaSetStatus {
            terminating_replicas: None,
            ..status
        };
        Ok(controller)
    }
}

/// Reads `spec` into a ReplicationController whose other fields are empty.
fn read_spec(value: JsonValue<'_>, path: &Path<'_>) -> Result<ReplicationController, DecodeError> {
    let mut members = Members::new(value, path)?;
    Ok(ReplicationController {
        replicas: members.opt_i32("replicas")?,
        min_ready_seconds: members.i32("minReadySeconds")?,
        selector: members.labels("selector")?,
        template: members.child("template", PodTemplate::read)?.map(Arc::new),
        spec_rest: members.rest(),
        ..ReplicationController::default()
    })
}

fn write_spec(controller: &ReplicationController, out: &mut Writer) {
    out.put_some("replicas", controller.replicas);
    out.put_number("minReadySeconds", controller.min_ready_seconds.into());
    // An empty selector is written, because it matches every pod; an absent one matches none.
    if controller.selector != Labels::ABSENT {
        out.member("selector", |out| out.labels(&controller.selector));
    }
    if let Some(template) = &controller.template {
        out.member("template", |out| out.object(|out| template.write(out)));
    }
    out.put_rest(&controller.spec_rest);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{refusal, round_trip};
    use super::*;
    use crate::Object;

    #[test]
    fn a_replication_controller_round_trips() {
        let value = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 2, "minReadySeconds": 1, "selector": {"app": "web"}, "x": 1,
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c"}]}}},
            "status": {"replicas": 2, "readyReplicas": 1}
        });
        let controller: ReplicationController = round_trip(&value);
        assert_eq!(controller.selector, Labels::from_pairs([("app", "web")]));
        assert_eq!(controller.status.ready_replicas, 1);
    }

    #[test]
    fn an_absent_selector_or_template_is_not_an_empty_one() {
        let spec = |spec: Value| {
            let value = json!({"spec": spec});
            let controller = ReplicationController::from_json(value).unwrap();
            controller.to_json().get("spec").cloned()
        };
        assert_eq!(spec(json!({"selector": null})), None);
        let empty = json!({"selector": {}, "template": {}});
        assert_eq!(spec(empty.clone()), Some(empty));
    }

    #[test]
    fn a_selector_must_be_a_map_of_strings() {
        assert_eq!(
            refusal::<ReplicationController>(json!({"spec": {"selector": {"matchLabels": {}}}})),
            "spec.selector[matchLabels]: expected a string, found an object"
        );
    }
}
