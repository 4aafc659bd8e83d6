//! Views: objects in another version than the stored one. Clients see a view as a kind of its own;
//! the server converts its objects from and to the stored version.

use std::sync::Arc;

use podstorm_apiserver::validation::validate_metadata;
use podstorm_apiserver::{
    Api, Cluster, OTHER_VERSIONS, OtherVersion, Patch, PodPart, check_patched, custom, errors,
    schemas,
};
use podstorm_objects::{AnyObject, ApiError, Cause, DynamicObject, Kind, Now, Object};
use serde_json::{Map, Value};

use crate::decode::{self, By, Form, cannot_be_handled};

/// Returns the kinds that are views.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    OTHER_VERSIONS.iter().map(|view| Kind::from_row(&view.row))
}

fn view_of(kind: Kind) -> Option<&'static OtherVersion> {
    // Kinds are equal by group and resource, which a view may share with its stored kind.
    let mut views = OTHER_VERSIONS.into_iter();
    views.find(|view| std::ptr::eq(&view.row, kind.row()))
}

/// Reports whether objects of a kind may be stored in another version.
pub(crate) fn is_view(kind: Kind) -> bool {
    is_version(kind) || is_custom(kind)
}

/// Reports whether objects of a kind are always stored in another version.
pub(crate) fn is_version(kind: Kind) -> bool {
    view_of(kind).is_some()
}

/// Reports whether a kind is a custom resource. Objects of such kinds are stored as they were
/// written; versions differ only in their schemas.
fn is_custom(kind: Kind) -> bool {
    kind.row().custom.is_some()
}

/// Returns the kind in which the objects of a requested kind are stored.
pub(crate) fn stored_kind(kind: Kind) -> Kind {
    view_of(kind).map_or(kind, |view| view.stored)
}

/// Returns the JSON of a stored object, converted to the requested kind.
pub(crate) fn json(kind: Kind, object: &dyn Object) -> Value {
    let mut json = object.to_json();
    if let (true, Value::Object(members)) = (is_custom(kind), &mut json) {
        set_type(members, kind);
    }
    if let (Some(view), Value::Object(members)) = (view_of(kind), &mut json) {
        (view.to)(members);
        set_type(members, kind);
    }
    json
}

/// Returns the kind of the same objects in another version; `None` if there is no such version.
pub fn at_version(kind: Kind, api_version: &str) -> Option<Kind> {
    if is_custom(kind) {
        return kind.is_of_group(api_version).then_some(kind);
    }
    let stored = stored_kind(kind);
    let views = OTHER_VERSIONS.iter().filter(|view| view.stored == stored);
    let mut all = std::iter::once(stored).chain(views.map(|view| Kind::from_row(&view.row)));
    all.find(|kind| kind.api_version() == api_version)
}

/// Converts an object's JSON from one version to another.
pub(crate) fn converted(from: Kind, to: Kind, mut json: Value) -> Value {
    if from.api_version() == to.api_version() {
        return json;
    }
    if let Value::Object(members) = &mut json {
        if let Some(view) = view_of(from) {
            (view.from)(members, |kind, document| {
                let read = decode::tree(document, Form::Kind(kind), By::Json);
                read.wrong.is_none()
            });
        }
        if let Some(view) = view_of(to) {
            (view.to)(members);
        }
        set_type(members, to);
    }
    json
}

/// Adds the members that Go writes even if they are empty.
pub(crate) fn fill(kind: Kind, object: &mut Value) {
    if let Value::Object(members) = object {
        schemas::fill(kind, members);
        members
            .entry("metadata")
            .or_insert_with(|| Map::new().into());
    }
}

/// Converts a stored object to the requested kind.
///
/// # Errors
/// 500 if the conversion fails.
pub(crate) fn shown(kind: Kind, object: AnyObject) -> Result<AnyObject, ApiError> {
    let fails = |problem: &str| {
        let (name, version) = (&object.metadata().name, kind.api_version());
        errors::internal(format!(
            "{} \"{name}\" cannot be converted to {version}: {problem}",
            kind.group_resource()
        ))
    };
    if is_custom(kind) && !std::ptr::eq(kind.row(), object.kind().row()) {
        let custom = object.clone().downcast::<DynamicObject>();
        let custom = custom.ok_or_else(|| fails("the object is not a custom object"))?;
        return Ok(Arc::new(custom::as_version(&custom, kind)));
    }
    if view_of(kind).is_none() {
        return Ok(object);
    }
    let shown = DynamicObject::from_json(kind, json(kind, &*object));
    let mut shown = shown.map_err(|problem| fails(&problem.to_string()))?;
    schemas::fill(kind, &mut shown.fields);
    Ok(Arc::new(shown))
}

/// Converts an error about a stored object to one about the requested kind.
pub(crate) fn shown_error(kind: Kind, mut error: ApiError) -> ApiError {
    let stored = stored_kind(kind);
    if !is_view(kind) || stored.group() == kind.group() {
        return error;
    }
    let (of_stored, of_kind) = (stored.group_resource(), kind.group_resource());
    for rest in [
        "",
        "object is being deleted: ",
        "Operation cannot be fulfilled on ",
    ] {
        if let Some(rest_of) = error.message.strip_prefix(&format!("{rest}{of_stored} \"")) {
            error.message = format!("{rest}{of_kind} \"{rest_of}");
        }
    }
    // Validation and precondition errors keep the stored kind.
    if let Some(details) = &mut error.details
        && details.group == stored.group()
        && details.kind == stored.resource()
    {
        details.group = kind.group().to_owned();
    }
    error
}

/// Returns an object's JSON, converted to the stored kind, from which columns are computed.
pub(crate) fn stored_json(kind: Kind, json: &Value) -> Value {
    converted(kind, stored_kind(kind), json.clone())
}

/// Converts a new object from a client to the stored kind.
///
/// # Errors
/// 400 if the conversion fails, 422 if the object violates the view's rules.
pub(crate) fn stored_new(cluster: &Cluster, object: AnyObject) -> Result<AnyObject, ApiError> {
    stored_over(cluster, object, None)
}

/// Converts an object from a client to the stored kind. The object updates the stored one.
///
/// # Errors
/// The same as [`stored_new`].
pub(crate) fn stored(cluster: &Cluster, object: AnyObject) -> Result<AnyObject, ApiError> {
    if !is_version(object.kind()) {
        return Ok(object);
    }
    let metadata = object.metadata();
    let stored = cluster.api(stored_kind(object.kind()));
    let old = stored.get(&metadata.namespace, &metadata.name);
    let old = old.ok().map(|old| old.to_json());
    stored_over(cluster, object, old.as_ref())
}

fn stored_over(
    cluster: &Cluster,
    object: AnyObject,
    old: Option<&Value>,
) -> Result<AnyObject, ApiError> {
    let kind = object.kind();
    let Some(view) = view_of(kind) else {
        return Ok(object);
    };
    let stored = stored_kind(kind);
    let json = converted(kind, stored, object.to_json());
    let mut causes = Vec::new();
    if old.is_none() && view.checks_metadata {
        causes = validate_metadata(kind, object.metadata());
    }
    causes.extend((view.check)(&json, old));
    refuse_broken(stored, &object.metadata().name, causes)?;
    let read = cluster.api(stored).read(json)?;
    read.map_err(|problem| cannot_be_handled(kind, &problem.to_string()))
}

/// Rejects an object that violates rules.
///
/// # Errors
/// 422 with the violations, if there are any.
fn refuse_broken(kind: Kind, name: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
    match causes {
        causes if causes.is_empty() => Ok(()),
        causes => Err(errors::invalid(kind, name, causes)),
    }
}

fn set_type(members: &mut Map<String, Value>, kind: Kind) {
    members.insert("apiVersion".into(), kind.api_version().into());
    members.insert("kind".into(), kind.name().into());
}

/// The maximum number of tries of a patch that conflicts with concurrent writes.
///
/// Source: `MaxRetryWhenPatchConflicts` of Kubernetes' apiserver.
const PATCH_TRIES: u32 = 5;

/// Patches an object in the version that the client requested.
///
/// # Errors
/// The same as [`Api::patch`]; also 409 if a concurrent write came first in each of [`PATCH_TRIES`]
/// tries.
pub(crate) fn patch(
    api: &Api<'_>,
    kind: Kind,
    subresource: &str,
    namespace: &str,
    name: &str,
    patch: &Patch,
    now: Now,
) -> Result<AnyObject, ApiError> {
    let view = view_of(kind);
    let of_status = matches!(subresource, "approval" | "status");
    if view.is_none() && !is_custom(kind) {
        return match PodPart::of_subresource(subresource) {
            Some(part) => api.patch_part(namespace, name, part, patch, now),
            None if of_status => api.patch_status(namespace, name, patch, now),
            None => api.patch(namespace, name, patch, now),
        };
    }
    let mut tries_left = PATCH_TRIES;
    loop {
        tries_left -= 1;
        let old = api.get(namespace, name)?;
        let version = old.metadata().resource_version.to_string();
        let mut json = shown(kind, Arc::clone(&old))?.to_json();
        patch.apply(kind, &mut json)?;
        api.check_patched(patch, &mut json)?;
        let is_of_any_version = json["metadata"]["resourceVersion"] == version;
        json = converted(kind, stored_kind(kind), json);
        if let Some(view) = view {
            let causes = (view.check)(&json, Some(&old.to_json()));
            refuse_broken(stored_kind(kind), name, causes)?;
        }
        let read = api.read(json)?;
        let mut object = read.map_err(|problem| cannot_be_handled(kind, &problem.to_string()))?;
        let metadata = Arc::get_mut(&mut object).expect("the object is not shared yet");
        check_patched(kind, metadata.metadata_mut(), old.metadata())?;
        let patched = match of_status {
            true => api.update_status(object, now),
            false => api.update(object, now),
        };
        let was_changed = || {
            let now = api.get(namespace, name);
            now.is_ok_and(|now| now.metadata().resource_version.to_string() != version)
        };
        match patched {
            // Another write came first. Retry a patch that names no version, on the new object.
            Err(error)
                if error.code == 409 && tries_left > 0 && is_of_any_version && was_changed() => {}
            patched => return patched.and_then(|patched| shown(kind, patched)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use podstorm_apiserver::{ClusterOptions, FieldManager};
    use podstorm_objects::ObjectMeta;
    use podstorm_objects::json::Writer;
    use serde_json::json;

    use super::*;

    const NOW: Now = Now {
        mono_ns: 0,
        wall_ns: 0,
    };

    /// An object whose document is invalid for its kind.
    #[derive(Debug)]
    struct Odd(ObjectMeta);

    impl Object for Odd {
        fn kind(&self) -> Kind {
            Kind::EVENT
        }

        fn metadata(&self) -> &ObjectMeta {
            &self.0
        }

        fn metadata_mut(&mut self) -> &mut ObjectMeta {
            &mut self.0
        }

        fn write_json(&self, _: &mut Writer) {}

        fn to_json(&self) -> Value {
            json!({"metadata": "none"})
        }
    }

    #[test]
    fn an_object_that_cannot_be_converted_is_an_error() {
        let odd = Odd(ObjectMeta {
            name: "a".into(),
            ..ObjectMeta::default()
        });
        let kind = kinds().next().expect("the kind has a view");
        let error = shown(kind, Arc::new(odd)).expect_err("the document is invalid");
        assert_eq!(error.code, 500);
        let begin = "Internal error occurred: events.events.k8s.io \"a\" cannot be converted to";
        assert!(error.message.starts_with(begin), "{}", error.message);
    }

    /// A field manager that writes the patched object before the patch does.
    #[derive(Debug)]
    struct Faster<'a> {
        cluster: &'a Cluster,
        times: AtomicU32,
        at_most: u32,
    }

    impl FieldManager for Faster<'_> {
        fn patched(
            &self,
            _: Option<(&Map<String, Value>, bool)>,
            _: &mut Value,
        ) -> Result<(), ApiError> {
            // Relaxed: there is one thread.
            let times = self.times.fetch_add(1, Ordering::Relaxed);
            if times < self.at_most {
                let annotations =
                    json!({"metadata": {"annotations": {"times": times.to_string()}}});
                let Value::Object(members) = annotations else {
                    unreachable!("an object");
                };
                let api = self
                    .cluster
                    .api(kinds().nth(1).map(stored_kind).expect("an object"));
                api.patch("default", "a", &Patch::Merge(members), NOW)?;
            }
            Ok(())
        }

        fn written(&self, _: Option<&dyn Object>, _: &mut dyn Object) {}

        fn written_by_server(&self, _: Option<&dyn Object>, _: &mut dyn Object) {}
    }

    #[test]
    fn a_conflicting_patch_is_tried_five_times() {
        let cluster = Cluster::new(ClusterOptions::default());
        let create = |kind: Kind, json: Value| {
            let api = cluster.api(kind);
            let object = api.read(json).expect("a served kind").expect("an object");
            api.create(object, NOW).expect("a valid object")
        };
        create(Kind::NAMESPACE, json!({"metadata": {"name": "default"}}));
        let kind = kinds().nth(1).expect("two versions");
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let scaler = json!({"metadata": {"name": "a", "namespace": "default"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": target}});
        create(stored_kind(kind), scaler);
        for (at_most, tried, code) in [(4, 5, 200), (5, 5, 409), (u32::MAX, 5, 409)] {
            let faster = Faster {
                cluster: &cluster,
                times: AtomicU32::new(0),
                at_most,
            };
            let members = json!({"spec": {"maxReplicas": 4}});
            let members = members.as_object().expect("an object").clone();
            let api = cluster.api(stored_kind(kind)).managed_by(&faster);
            let change = Patch::Merge(members);
            let patched = patch(&api, kind, "", "default", "a", &change, NOW);
            assert_eq!(
                patched.map_or_else(|error| error.code, |_| 200),
                code,
                "{at_most}"
            );
            assert_eq!(faster.times.load(Ordering::Relaxed), tried, "{at_most}");
        }
    }

    #[test]
    fn annotations_of_a_wrong_type_are_ignored() {
        const PREFIX: &str = "autoscaling.alpha.kubernetes.io";
        let kind = kinds().nth(1).expect("two versions");
        for text in [
            "no JSON",
            "{}",
            "[1]",
            r#"[{"type": "Pods", "pods": {"metricName": 1}}]"#,
        ] {
            let mut annotations = Map::new();
            for (name, text) in [
                ("metrics", text),
                ("current-metrics", text),
                ("behavior", "[]"),
                ("conditions", "{}"),
            ] {
                annotations.insert(format!("{PREFIX}/{name}"), text.into());
            }
            let scaler = json!({
                "metadata": {"annotations": annotations},
                "spec": {"maxReplicas": 5},
                "status": {"currentCPUUtilizationPercentage": 40},
            });
            let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": 40}}});
            let read = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {}, "spec": {"maxReplicas": 5}, "status": {"currentMetrics": [cpu]}});
            assert_eq!(stored_json(kind, &scaler), read, "{text}");
        }
    }
}
