//! The `/scale` subresource of ReplicaSets and ReplicationControllers.

use std::fmt::Write as _;
use std::sync::Arc;

use podstorm_objects::{
    ApiError, Details, Kind, LabelSelector, Labels, Now, ReplicaSet, ReplicationController,
    ResourceVersion, Time, Uid,
};

use super::store::counts::{Verb, WriteEffects};
use super::update::Update;
use super::validation::validate_replicas;
use super::{Api, Cluster, ClusterResource, errors};

/// A kind with a number of replicas.
pub trait Scalable: ClusterResource {
    /// `spec.replicas`.
    fn spec_replicas(&self) -> i32;

    /// Sets `spec.replicas`.
    fn set_spec_replicas(&mut self, replicas: i32);

    /// `status.replicas`.
    fn status_replicas(&self) -> i32;

    /// The selector in the form that `kubectl -l` takes.
    fn selector_text(&self) -> String;
}

impl Scalable for ReplicaSet {
    fn spec_replicas(&self) -> i32 {
        self.replicas()
    }

    fn set_spec_replicas(&mut self, replicas: i32) {
        self.spec.replicas = Some(replicas);
    }

    fn status_replicas(&self) -> i32 {
        self.status.replicas
    }

    fn selector_text(&self) -> String {
        self.spec
            .selector
            .as_deref()
            .map(selector_text)
            .unwrap_or_default()
    }
}

impl Scalable for ReplicationController {
    fn spec_replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    fn set_spec_replicas(&mut self, replicas: i32) {
        self.replicas = Some(replicas);
    }

    fn status_replicas(&self) -> i32 {
        self.status.replicas
    }

    fn selector_text(&self) -> String {
        pairs_text(&self.selector).join(",")
    }
}

/// `autoscaling/v1` `Scale` of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The object's UID.
    pub uid: Uid,
    /// The object's version.
    pub resource_version: ResourceVersion,
    /// When the object was created.
    pub creation_timestamp: Time,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.replicas`.
    pub status_replicas: i32,
    /// `status.selector`.
    pub selector: String,
}

/// A change of scale; the default has no preconditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleUpdate {
    /// The new number of replicas.
    pub replicas: i32,
    /// The UID that the object must have.
    pub uid: Option<Uid>,
    /// The version that the object must have.
    pub resource_version: Option<ResourceVersion>,
}

impl Cluster {
    /// The scale of an object.
    ///
    /// # Errors
    /// 404.
    pub fn get_scale<R: Scalable>(&self, namespace: &str, name: &str) -> Result<Scale, ApiError> {
        self.get::<R>(namespace, name).map(|object| scale(&*object))
    }

    /// Changes `spec.replicas` alone; the generation grows if it differs.
    ///
    /// # Errors
    /// 404; 409 for another UID or version; 422 for a negative number.
    pub fn update_scale<R: Scalable>(
        &self,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let effects = WriteEffects::of(Verb::UpdateScale);
        self.update_scale_as(namespace, name, update, effects, now)
    }

    fn update_scale_as<R: Scalable>(
        &self,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        effects: WriteEffects,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        if let Some(cause) = validate_replicas(update.replicas).pop() {
            return Err(scale_invalid(name, cause));
        }
        self.modify(R::store(self), namespace, name, now, |old| {
            let metadata = old.metadata();
            if let Some(uid) = update.uid.as_ref().filter(|uid| **uid != metadata.uid) {
                let resource = format!("{}/scale", R::KIND.group_resource());
                return Err(errors::uid_mismatch(&resource, name, uid, &metadata.uid));
            }
            let version = &metadata.resource_version;
            if update
                .resource_version
                .as_ref()
                .is_some_and(|wanted| wanted != version)
            {
                return Err(errors::stale(R::KIND, name));
            }
            if old.spec_replicas() == update.replicas {
                return Ok(Update::Keep);
            }
            let mut new = R::clone(old);
            new.set_spec_replicas(update.replicas);
            new.metadata_mut().generation += 1;
            Ok(Update::Write(new, effects))
        })
    }
}

/// What is done with the scale of an object of a kind that is known only at run time.
macro_rules! of_scalable {
    ($kind:expr, $act:ident) => {
        if $kind == Kind::REPLICA_SET {
            $act!(ReplicaSet)
        } else if $kind == Kind::REPLICATION_CONTROLLER {
            $act!(ReplicationController)
        } else {
            Err(errors::unknown_resource())
        }
    };
}

impl Api<'_> {
    /// See [`Cluster::get_scale`].
    ///
    /// # Errors
    /// As there; 404 where the kind has no scale.
    pub fn scale(&self, namespace: &str, name: &str) -> Result<Scale, ApiError> {
        macro_rules! get {
            ($object:ty) => {
                self.cluster.get_scale::<$object>(namespace, name)
            };
        }
        of_scalable!(self.kind, get)
    }

    /// See [`Cluster::update_scale`]; returns the new scale.
    ///
    /// # Errors
    /// As there; 404 where the kind has no scale.
    pub fn update_scale(
        &self,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        now: Now,
    ) -> Result<Scale, ApiError> {
        let effects = self.effects(Verb::UpdateScale);
        macro_rules! update {
            ($object:ty) => {
                self.cluster
                    .update_scale_as::<$object>(namespace, name, update, effects, now)
                    .map(|object| scale(&*object))
            };
        }
        of_scalable!(self.kind, update)
    }
}

fn scale<R: Scalable>(object: &R) -> Scale {
    let metadata = object.metadata();
    Scale {
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        creation_timestamp: metadata.creation_timestamp,
        replicas: object.spec_replicas(),
        status_replicas: object.status_replicas(),
        selector: object.selector_text(),
    }
}

/// 422 about a `Scale`, which is not a stored kind.
fn scale_invalid(name: &str, cause: podstorm_objects::Cause) -> ApiError {
    let message = format!(
        "Scale.autoscaling \"{name}\" is invalid: {}: {}",
        cause.field, cause.message
    );
    ApiError::status(422, podstorm_objects::Reason::Invalid, message).with_details(Details {
        name: name.to_owned(),
        group: "autoscaling".to_owned(),
        kind: "Scale".to_owned(),
        causes: vec![cause],
        ..Details::default()
    })
}

fn pairs_text(labels: &Labels) -> Vec<String> {
    labels
        .pairs()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

/// The selector as a query, its requirements sorted by key.
fn selector_text(selector: &LabelSelector) -> String {
    let pairs = selector.match_labels.pairs();
    let mut parts: Vec<(&str, String)> = pairs
        .iter()
        .map(|(key, value)| (&**key, format!("{key}={value}")))
        .collect();
    for requirement in &*selector.match_expressions {
        let key = &*requirement.key;
        let mut values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
        values.sort_unstable();
        let mut text = String::new();
        let written = match &*requirement.operator {
            "In" => write!(text, "{key} in ({})", values.join(",")),
            "NotIn" => write!(text, "{key} notin ({})", values.join(",")),
            "Exists" => write!(text, "{key}"),
            _ => write!(text, "!{key}"),
        };
        written.expect("writing to a string does not fail");
        parts.push((key, text));
    }
    parts.sort_by(|a, b| a.0.cmp(b.0));
    parts
        .into_iter()
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_scale_shows_counts_and_selector() {
        let cluster = cluster();
        let selector = json!({"selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "b", "operator": "NotIn", "values": ["x"]},
                {"key": "c", "operator": "DoesNotExist"},
                {"key": "app", "operator": "Exists"}]}});
        let labels = json!({"app": "web", "a": "x"});
        let template = json!({"template": {"metadata": {"labels": labels}}});
        let spec = json!({"spec": merged(selector, template)});
        let stored = cluster.create(replica_set("a", spec), at(0)).unwrap();
        let scale = cluster.get_scale::<ReplicaSet>("default", "a").unwrap();
        assert_eq!(scale.selector, "a in (x,y),app=web,app,b notin (x),!c");
        assert_eq!((scale.replicas, scale.status_replicas), (2, 0));
        assert_eq!(scale.uid, stored.metadata.uid);
        let value = workload("a", json!({"app": "web"}));
        cluster
            .create(read::<ReplicationController>(value), at(0))
            .unwrap();
        let scale = cluster
            .get_scale::<ReplicationController>("default", "a")
            .unwrap();
        assert_eq!(scale.selector, "app=web");
    }

    #[test]
    fn scaling_changes_replicas_and_generation_alone() {
        let cluster = cluster();
        let before = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let scale = |update: &ScaleUpdate| {
            cluster.update_scale::<ReplicaSet>("default", "a", update, at(0))
        };
        let to = |replicas| ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        let after = scale(&to(5)).unwrap();
        assert_eq!((after.replicas(), after.metadata.generation), (5, 2));
        let mut same = ReplicaSet::clone(&after);
        same.spec.replicas = before.spec.replicas;
        assert_eq!(same.spec, before.spec);
        let version = cluster.resource_version();
        assert_eq!(scale(&to(5)).unwrap().metadata.generation, 2);
        assert_eq!(cluster.resource_version(), version, "no change, no write");
        assert_eq!(scale(&to(0)).unwrap().metadata.generation, 3);
        assert_eq!(fields(scale(&to(-1))), ["spec.replicas"]);
        let stale = ScaleUpdate {
            resource_version: Some(version.into()),
            ..to(4)
        };
        assert_eq!(refused(scale(&stale)), "409 Conflict");
        let foreign = ScaleUpdate {
            uid: Some("x".into()),
            ..to(4)
        };
        let error = scale(&foreign).unwrap_err();
        assert!(
            error.message.contains("replicasets.apps/scale"),
            "{}",
            error.message
        );
        assert_eq!(error.code, 409);
        let missing = cluster.update_scale::<ReplicaSet>("default", "none", &to(1), at(0));
        assert_eq!(refused(missing), "404 NotFound");
    }
}
