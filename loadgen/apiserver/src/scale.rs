//! The `/scale` subresource of kinds with replicas.

use std::fmt::Write as _;
use std::sync::Arc;

use podstorm_objects::{
    ApiError, Details, DynamicObject, JsonPath, Kind, LabelSelector, Labels, Map, Now,
    OwnerReference, Reason, ReplicaSet, ReplicationController, ResourceVersion, Scale, ScalePaths,
    Uid,
};
use serde_json::Value;

use super::defaulting::Within;
use super::field_manager::Writing;
use super::store::KindStore;
use super::store::counts::Verb;
use super::update::Update;
use super::validation::validate_replicas;
use super::{Api, Cluster, ClusterResource, Strategy, custom, errors};

/// A kind with replicas.
pub trait Scalable: Strategy {
    /// Returns `spec.replicas`.
    fn spec_replicas(&self) -> i32;

    /// Sets `spec.replicas`.
    fn set_spec_replicas(&mut self, replicas: i32);

    /// Returns `status.replicas`.
    fn status_replicas(&self) -> i32;

    /// Returns the selector in the form that `kubectl -l` accepts.
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

/// Implements the scale of kinds without a Rust type. The definition of a custom kind contains the
/// paths of the fields; all other kinds use the same fields.
impl Scalable for DynamicObject {
    fn spec_replicas(&self) -> i32 {
        match scale_paths(self) {
            Some(paths) => custom_replicas(self, &paths.spec_replicas).unwrap_or(0),
            None => replicas(self, "spec").unwrap_or(1),
        }
    }

    fn set_spec_replicas(&mut self, replicas: i32) {
        let paths = scale_paths(self);
        let members = paths.and_then(|paths| paths.spec_replicas.members());
        set_number(
            &mut self.fields,
            &members.unwrap_or_else(|| vec!["spec", "replicas"]),
            replicas,
        );
    }

    fn status_replicas(&self) -> i32 {
        match scale_paths(self) {
            Some(paths) => custom_replicas(self, &paths.status_replicas).unwrap_or(0),
            None => replicas(self, "status").unwrap_or(0),
        }
    }

    fn selector_text(&self) -> String {
        if let Some(paths) = scale_paths(self) {
            let path = paths.selector.as_ref();
            let whole = Value::Object(self.fields.clone());
            let found = path.and_then(|path| path.find(&whole).first().copied());
            return found.and_then(Value::as_str).unwrap_or("").to_owned();
        }
        let selector = self
            .fields
            .get("spec")
            .and_then(|spec| spec.get("selector"));
        let selector =
            selector.and_then(|selector| LabelSelector::from_json(selector.clone()).ok());
        selector.as_ref().map(selector_text).unwrap_or_default()
    }
}

fn scale_paths(object: &DynamicObject) -> Option<&'static ScalePaths> {
    object.kind().row().custom?.scale
}

fn custom_replicas(object: &DynamicObject, path: &JsonPath) -> Option<i32> {
    let whole = Value::Object(object.fields.clone());
    let number = custom::number_at(path, &whole).ok()??;
    number.try_into().ok()
}

/// Sets a number at the end of a path of members. Creates missing members on the way.
fn set_number(members: &mut Map, way: &[&str], number: i32) {
    match way {
        [] => {}
        [last] => drop(members.insert((*last).to_owned(), number.into())),
        [next, rest @ ..] => members.within(next, |inner| set_number(inner, rest, number)),
    }
}

fn replicas(object: &DynamicObject, member: &str) -> Option<i32> {
    let replicas = object.fields.get(member)?.get("replicas")?.as_i64()?;
    replicas.try_into().ok()
}

/// Checks that a custom object with a scale has a desired number of replicas.
///
/// # Errors
/// 500 if the object has no desired number of replicas.
fn check_has_replicas(object: &DynamicObject) -> Result<(), ApiError> {
    let Some(paths) = scale_paths(object) else {
        return Ok(());
    };
    let path = &paths.spec_replicas;
    match custom_replicas(object, path) {
        Some(_) => Ok(()),
        None => {
            let why = format!(
                "Internal error occurred: the spec replicas field {:?} does not exist",
                path.text()
            );
            Err(ApiError::status(500, Reason::InternalError, why))
        }
    }
}

/// A change of scale. The default has no preconditions.
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
    /// Returns the scale of an object.
    ///
    /// # Errors
    /// 404 if there is no such object.
    pub fn get_scale<R: Scalable + ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Scale, ApiError> {
        self.get::<R>(namespace, name).map(|object| scale(&*object))
    }

    /// Changes only `spec.replicas`. The generation is incremented if the number differs.
    ///
    /// # Errors
    /// 404; 409 for a different UID or version; 422 for a negative number; 504 when the time limit
    /// of the request is exceeded.
    pub fn update_scale<R: Scalable + ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::UpdateScale);
        self.update_scale_in(R::store(self), namespace, name, update, writing, now)
    }

    fn update_scale_in<R: Scalable>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        Writing { effects, manager }: Writing<'_>,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        if let Some(cause) = validate_replicas(update.replicas).pop() {
            return Err(scale_invalid(name, cause));
        }
        let kind = store.kind();
        self.modify(store, namespace, name, now, |old| {
            let metadata = old.metadata();
            if let Some(uid) = update.uid.as_ref().filter(|uid| **uid != metadata.uid) {
                return Err(errors::put_uid_mismatch(kind, metadata, uid));
            }
            let version = &metadata.resource_version;
            if update
                .resource_version
                .as_ref()
                .is_some_and(|wanted| wanted != version)
            {
                return Err(errors::stale(kind, name));
            }
            let is_new = old.spec_replicas() != update.replicas;
            if !is_new && manager.is_none() {
                return Ok(Update::Keep);
            }
            let mut new = R::clone(old);
            if is_new {
                new.set_spec_replicas(update.replicas);
                new.metadata_mut().generation += 1;
            }
            if let Some(manager) = manager {
                manager.written(Some(&**old), &mut new);
            }
            Ok(Update::Write(new, effects))
        })
    }
}

impl Cluster {
    /// Returns the scale of the object that an owner reference names, with the errors of a client
    /// that knows the served kinds.
    ///
    /// # Errors
    /// 404 for a missing object; [`no_matches`](errors::no_matches) and [`no_scale`](errors::no_scale).
    pub fn owner_scale(&self, namespace: &str, owner: &OwnerReference) -> Result<Scale, ApiError> {
        let (version, name) = (&*owner.api_version, &*owner.kind);
        let mut kinds = self.kinds().into_iter();
        let kind = kinds.find(|kind| kind.name() == name && kind.api_version() == version);
        let kind = kind.ok_or_else(|| errors::no_matches(version, name))?;
        let scale = self.api(kind).scale(namespace, &owner.name);
        scale.map_err(
            |error| match error.is_not_found() && !kind.row().has_scale {
                true => errors::no_scale(kind),
                false => error,
            },
        )
    }
}

impl Api<'_> {
    /// See [`Cluster::get_scale`].
    ///
    /// # Errors
    /// The same as [`Cluster::get_scale`], and 404 for a kind without a scale.
    pub fn scale(&self, namespace: &str, name: &str) -> Result<Scale, ApiError> {
        if self.kind == Kind::REPLICA_SET {
            return self.cluster.get_scale::<ReplicaSet>(namespace, name);
        }
        if self.kind == Kind::REPLICATION_CONTROLLER {
            return self
                .cluster
                .get_scale::<ReplicationController>(namespace, name);
        }
        let get = |store: &KindStore<DynamicObject>| {
            let object = store.get(namespace, name)?;
            check_has_replicas(&object)?;
            Ok(scale(&*object))
        };
        self.with_scalable(get)
    }

    /// See [`Cluster::update_scale`]. Returns the new scale.
    ///
    /// # Errors
    /// The same as [`Cluster::update_scale`], and 404 for a kind without a scale.
    pub fn update_scale(
        &self,
        namespace: &str,
        name: &str,
        update: &ScaleUpdate,
        now: Now,
    ) -> Result<Scale, ApiError> {
        let writing = self.writing(Verb::UpdateScale);
        let cluster = self.cluster;
        if self.kind == Kind::REPLICA_SET {
            let store = ReplicaSet::store(cluster);
            return cluster
                .update_scale_in(store, namespace, name, update, writing, now)
                .map(|object| scale(&*object));
        }
        if self.kind == Kind::REPLICATION_CONTROLLER {
            let store = ReplicationController::store(cluster);
            return cluster
                .update_scale_in(store, namespace, name, update, writing, now)
                .map(|object| scale(&*object));
        }
        self.with_scalable(|store| {
            cluster
                .update_scale_in(store, namespace, name, update, writing, now)
                .map(|object| scale(&*object))
        })
    }

    /// Calls `act` with the store of a kind that has a scale but no Rust type.
    fn with_scalable<T>(
        &self,
        act: impl FnOnce(&KindStore<DynamicObject>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if !self.kind.row().has_scale {
            return Err(errors::unknown_resource());
        }
        self.cluster.with_dynamic_store(self.kind, act)?
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

/// Returns a 422 about a `Scale`, which is not a stored kind.
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

/// Formats the selector as a query. The requirements are sorted by key.
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
        let controller: ReplicationController = read(workload("a", json!({"app": "web"})));
        cluster.create(controller, at(0)).unwrap();
        let scale = cluster.get_scale::<ReplicationController>("default", "a");
        assert_eq!(scale.unwrap().selector, "app=web");
    }

    #[test]
    fn scaling_changes_only_replicas_and_the_generation() {
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
        assert_eq!(
            cluster.resource_version(),
            version,
            "an equal scale is not written"
        );
        assert_eq!(scale(&to(0)).unwrap().metadata.generation, 3);
        assert_eq!(fields(scale(&to(-1))), ["spec.replicas"]);
        let missing = cluster.update_scale::<ReplicaSet>("default", "none", &to(1), at(0));
        assert_eq!(refused(missing), "404 NotFound");
    }
}
