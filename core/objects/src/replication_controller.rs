//! The ReplicationController, and its conversion to and from a ReplicaSet.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{DecodeError, Path};
use super::{
    LabelSelector, Labels, Map, ObjectMeta, PodTemplate, ReplicaSet, ReplicaSetSpec,
    ReplicaSetStatus, Rest,
};

/// A ReplicationController.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicationController {
    /// The metadata, such as name, labels and owners.
    pub metadata: ObjectMeta,
    /// The number of pods. The server sets 1 if it is absent.
    pub replicas: Option<i32>,
    /// The number of seconds that a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// The labels that pods must have. An absent selector matches nothing, an empty one everything.
    pub selector: Labels,
    /// The template for new pods. May be absent in old objects.
    pub template: Option<Arc<PodTemplate>>,
    /// The other members of `spec`.
    pub spec_rest: Rest,
    /// The status. `terminatingReplicas` is never set.
    pub status: ReplicaSetStatus,
}

impl ReplicationController {
    /// Returns this object as a ReplicaSet. The selector map becomes `matchLabels`: an absent
    /// selector stays absent and matches nothing, an empty selector matches everything. An absent
    /// template becomes an empty one. As in upstream's conversion through its internal types, a
    /// present template gets `securityContext: {}` if it has none, and `serviceAccountName` and
    /// `serviceAccount` become equal.
    ///
    /// Copies the template's spec only if the conversion changes it.
    pub fn to_replica_set(&self) -> ReplicaSet {
        ReplicaSet {
            metadata: self.metadata.clone(),
            spec: ReplicaSetSpec {
                replicas: self.replicas,
                min_ready_seconds: self.min_ready_seconds,
                selector: (!self.selector.is_absent()).then(|| {
                    Arc::new(LabelSelector {
                        match_labels: self.selector.clone(),
                        match_expressions: Arc::default(),
                    })
                }),
                template: self.template.as_ref().map(converted).unwrap_or_default(),
                rest: self.spec_rest.clone(),
            },
            status: ReplicaSetStatus {
                terminating_replicas: None,
                ..self.status.clone()
            },
        }
    }

    /// Converts back: returns the ReplicationController to write when the controller writes
    /// `replica_set`. An empty template does not become absent. `terminatingReplicas` is dropped.
    ///
    /// # Errors
    /// Fails if the selector has expressions, which [`Self::to_replica_set`] never creates.
    pub fn from_replica_set(replica_set: &ReplicaSet) -> Result<Self, DecodeError> {
        let spec = &replica_set.spec;
        let selector = match spec.selector.as_deref() {
            None => Labels::ABSENT,
            Some(selector) if !selector.match_expressions.is_empty() => {
                let root = Path::ROOT;
                let at = root.member("spec");
                let at = at.member("selector");
                return Err(at
                    .member("matchExpressions")
                    .error("a ReplicationController can select only by label pairs"));
            }
            Some(selector) if selector.match_labels.is_absent() => {
                Labels::from_pairs::<&str, &str>([])
            }
            Some(selector) => selector.match_labels.clone(),
        };
        Ok(ReplicationController {
            metadata: replica_set.metadata.clone(),
            replicas: spec.replicas,
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(spec.template.clone()),
            spec_rest: spec.rest.clone(),
            status: ReplicaSetStatus {
                terminating_replicas: None,
                ..replica_set.status.clone()
            },
        })
    }
}

/// Returns the template with a `securityContext` and with both service-account members equal.
fn converted(template: &Arc<PodTemplate>) -> Arc<PodTemplate> {
    if template.spec.is_converted {
        return template.clone();
    }
    let mut members = template.spec.to_map(None);
    let text = |key: &str| {
        let text = members.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let account = text("serviceAccountName").or_else(|| text("serviceAccount"));
    members
        .entry("securityContext")
        .or_insert_with(|| Map::new().into());
    if let Some(account) = account {
        members.insert("serviceAccountName".into(), account.as_str().into());
        members.insert("serviceAccount".into(), account.into());
    }
    let spec = template.spec.with_members(members);
    Arc::new(PodTemplate {
        spec: spec
            .expect("`securityContext` may be an object, and both accounts strings")
            .into(),
        ..PodTemplate::clone(template)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, Resource};

    fn read(spec: Value) -> ReplicationController {
        let value = json!({"metadata": {"name": "web"}, "spec": spec,
            "status": {"replicas": 3, "terminatingReplicas": 1}});
        ReplicationController::from_json(value).unwrap()
    }

    #[test]
    fn absent_and_empty_selectors_stay_distinct() {
        let selector = |value| {
            read(json!({"selector": value}))
                .to_replica_set()
                .spec
                .selector
        };
        assert_eq!(selector(json!(null)), None);
        assert_eq!(selector(json!({})).unwrap().to_json(), json!({}));
        assert_eq!(
            selector(json!({"a": "b"})).unwrap().to_json(),
            json!({"matchLabels": {"a": "b"}})
        );
        for value in [json!(null), json!({}), json!({"a": "b"})] {
            let controller = read(json!({"selector": value, "template": {}}));
            let back =
                ReplicationController::from_replica_set(&controller.to_replica_set()).unwrap();
            assert_eq!(back.selector, controller.selector);
            assert_eq!(back.status, controller.status);
            assert_eq!(back.status.terminating_replicas, None);
        }
    }

    #[test]
    fn an_absent_template_becomes_an_empty_one() {
        let replica_set = read(json!({})).to_replica_set();
        assert_eq!(*replica_set.spec.template, PodTemplate::default());
        let back = ReplicationController::from_replica_set(&replica_set).unwrap();
        assert_eq!(back.template, Some(Arc::default()));
    }

    #[test]
    fn the_conversion_fills_security_context_and_service_account() {
        let spec = |spec: Value| {
            let controller = read(json!({"template": {"spec": spec}}));
            let template = controller.to_replica_set().spec.template.clone();
            Value::Object(template.spec.to_map(None))
        };
        assert_eq!(spec(json!({})), json!({"securityContext": {}}));
        assert_eq!(
            spec(json!({"serviceAccountName": "a", "serviceAccount": "b"})),
            json!({"securityContext": {}, "serviceAccountName": "a", "serviceAccount": "a"})
        );
        assert_eq!(
            spec(json!({"serviceAccount": "b"})),
            json!({"securityContext": {}, "serviceAccountName": "b", "serviceAccount": "b"})
        );
    }

    #[test]
    fn the_conversion_keeps_the_names_of_volumes() {
        let volumes = json!([{"name": "kube-api-access-aaaaa"}]);
        let controller = read(json!({"template": {"spec": {"volumes": volumes}}}));
        let replica_set = controller.to_replica_set();
        let template = replica_set.spec.template.to_json();
        assert_eq!(
            template["spec"],
            json!({"volumes": volumes, "securityContext": {}})
        );
        let back = ReplicationController::from_replica_set(&replica_set).unwrap();
        assert_eq!(back.to_json()["spec"]["template"], template);
    }

    #[test]
    fn a_template_that_needs_no_change_is_shared() {
        let controller = read(json!({"template": {"spec": {"securityContext": {"a": 1},
            "serviceAccountName": "x", "serviceAccount": "x"}}}));
        let replica_set = controller.to_replica_set();
        assert!(Arc::ptr_eq(
            controller.template.as_ref().unwrap(),
            &replica_set.spec.template
        ));
    }

    #[test]
    fn selector_expressions_cannot_be_converted_back() {
        let replica_set = ReplicaSet::from_json(json!({"spec": {"selector": {
            "matchExpressions": [{"key": "a", "operator": "Exists"}]}}}))
        .unwrap();
        assert!(ReplicationController::from_replica_set(&replica_set).is_err());
    }
}
