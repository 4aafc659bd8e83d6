//! Patches of the type `application/apply-patch+yaml`: server-side apply of an object and of its
//! `/scale`.

use http::Response;
use podstorm_apiserver::{Patch, Scale, ScaleUpdate, errors, warnings_of};
use podstorm_objects::{AnyObject, ApiError};
use serde_json::{Map, Value};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::decode::{self, By, Form, SCALE};
use crate::ownership::{MANAGED, Writer, with_group};
use crate::query::options_invalid;
use crate::route::Target;
use crate::{admission, body, shape, view};

/// Serves a patch of the type `application/apply-patch+yaml`.
pub(crate) fn apply(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let writer = Writer::applying(call, target)?;
    let (object, is_new) = applied(call, target, &writer)?;
    let mut all = Vec::new();
    if is_new {
        let of_kind = warnings_of(target.kind);
        all.extend((of_kind.name)(&object.metadata().name));
        if let Some(of_sent) = of_kind.sent
            && let Value::Object(document) = object.to_json()
        {
            all.extend(of_sent(&document));
        }
    }
    let code = if is_new { 201 } else { 200 };
    shape::answer_with(call, code, &object, &writer, &all)
}

/// Applies the configuration in the body. Returns the object, and whether it was created.
pub(crate) fn applied(
    call: &Call<'_>,
    target: &Target,
    writer: &Writer<'_>,
) -> Result<(AnyObject, bool), ApiError> {
    require_manager(call)?;
    let dry_run = call.query.dry_run("PatchOptions")?;
    let (config, doubled) = read_config(call)?;
    let kind = target.kind;
    check_config(&config, kind.api_version(), kind.name(), target)?;
    let force = call.query.flag("force");
    let api = call.api(kind).dry_run(dry_run).managed_by(writer);
    loop {
        let stored = match api.get(&target.namespace, &target.name) {
            Ok(stored) => Some(stored),
            Err(error) if error.is_not_found() && target.subresource.is_empty() => None,
            Err(error) => return Err(error),
        };
        let applied = writer.applied(&config, stored.as_deref(), force)?;
        check_doubled(call, &doubled)?;
        let Some(stored) = stored else {
            return Ok((create(call, target, applied, &api)?, true));
        };
        let names_version = config
            .get("metadata")
            .is_some_and(|of| of.get("resourceVersion").is_some());
        let patch = Patch::whole(applied);
        match view::patch(
            &api,
            kind,
            &target.subresource,
            &target.namespace,
            &target.name,
            &patch,
            call.now,
        ) {
            // Another write came first. Retry: the configuration names no version, and the patch
            // only contains the version that it was computed from.
            Err(error) if error.code == 409 && !names_version => {
                let now = api.get(&target.namespace, &target.name)?;
                if now.metadata().resource_version == stored.metadata().resource_version {
                    return Err(error);
                }
            }
            updated => return Ok((updated?, false)),
        }
    }
}

/// Creates the object of an apply. The object does not exist yet.
fn create(
    call: &Call<'_>,
    target: &Target,
    mut applied: Map<String, Value>,
    api: &podstorm_apiserver::Api<'_>,
) -> Result<AnyObject, ApiError> {
    let metadata = applied
        .entry("metadata")
        .or_insert_with(|| Map::new().into());
    if let Value::Object(metadata) = metadata {
        metadata.remove("resourceVersion");
        for (member, at) in [("name", &target.name), ("namespace", &target.namespace)] {
            let is_named = |value: &Value| !value.is_null() && value != "";
            if !at.is_empty() && !metadata.get(member).is_some_and(is_named) {
                metadata.insert(member.to_owned(), at.as_str().into());
            }
        }
    }
    admission::admit(call.cluster(), target.kind, &target.namespace, &mut applied)?;
    let object = body::object_of(call, target.kind, applied)?;
    let created = api.create(view::stored_new(call.cluster(), object)?, call.now)?;
    view::shown(target.kind, created)
}

/// Checks that the request names a field manager.
///
/// # Errors
/// 422 if there is no field manager.
fn require_manager(call: &Call<'_>) -> Result<(), ApiError> {
    if call.query.text("fieldManager").is_empty() {
        let cause = errors::required("fieldManager", "is required for apply patch");
        return Err(options_invalid("PatchOptions", cause));
    }
    Ok(())
}

/// Decodes the configuration. Returns it with the strict decoder's messages about repeated members.
///
/// # Errors
/// 400 if the body cannot be decoded.
fn read_config(call: &Call<'_>) -> Result<(Map<String, Value>, Vec<String>), ApiError> {
    let read = decode::yaml(&call.body, Form::Any).map_err(|why| {
        let why = format!("error decoding YAML: error converting YAML to JSON: {why}");
        errors::bad_request(why)
    })?;
    match (read.value, read.found) {
        (Value::Object(config), _) => Ok((config, read.strict)),
        (Value::Null, _) => Ok((Map::new(), read.strict)),
        (_, found) => Err(errors::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {found} into Go value of type map[string]interface {{}}"
        ))),
    }
}

/// Rejects repeated members if the request is strict.
///
/// # Errors
/// 400 for repeated members if `fieldValidation` is `Strict`.
fn check_doubled(call: &Call<'_>, doubled: &[String]) -> Result<(), ApiError> {
    match (doubled.first(), call.query.text("fieldValidation")) {
        (Some(told), "Strict") => Err(errors::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {told}"
        ))),
        _ => Ok(()),
    }
}

/// Checks that a configuration is for the object in the path.
///
/// # Errors
/// 400 if the configuration is for another object, or has `managedFields`.
fn check_config(
    config: &Map<String, Value>,
    api_version: &str,
    kind: &str,
    target: &Target,
) -> Result<(), ApiError> {
    let text = |member: &str| config.get(member).and_then(Value::as_str).unwrap_or("");
    let found = (text("apiVersion"), text("kind"));
    if found != (api_version, kind) {
        let found = format!(
            "invalid object type: {}, Kind={}",
            with_group(found.0),
            found.1
        );
        return Err(errors::bad_request(found));
    }
    let metadata = config.get("metadata");
    let of_metadata = |member: &str| metadata.and_then(|of| of.get(member));
    if of_metadata(MANAGED).is_some_and(|owners| !owners.is_null()) {
        return Err(errors::bad_request("metadata.managedFields must be nil"));
    }
    match of_metadata("name").and_then(Value::as_str).unwrap_or("") {
        "" => Ok(()),
        named => target.check_name(named),
    }
}

/// Applies a Scale. The field manager owns the number of replicas afterwards.
pub(crate) fn apply_scale(call: &Call<'_>, target: &Target) -> Result<Scale, ApiError> {
    let writer = Writer::applying(call, target)?;
    require_manager(call)?;
    let dry_run = call.query.dry_run("PatchOptions")?;
    let (config, doubled) = read_config(call)?;
    check_config(&config, "autoscaling/v1", "Scale", target)?;
    let mut read = decode::tree(config.into(), SCALE, By::Conversion);
    let config = read.members();
    if let Some(problem) = read.wrong {
        let why = format!("failed to create typed patch object: {problem}");
        return Err(answer::unclassified(why));
    }
    check_doubled(call, &doubled)?;
    let replicas = config.get("spec").and_then(|spec| spec.get("replicas"));
    let replicas = replicas
        .and_then(Value::as_i64)
        .and_then(|number| i32::try_from(number).ok());
    let replicas = replicas.ok_or_else(|| {
        errors::bad_request("spec.replicas of an applied Scale must be an integer")
    })?;
    let api = call.api(target.kind).dry_run(dry_run).managed_by(&writer);
    let (namespace, name) = (&target.namespace, &target.name);
    loop {
        let stored = api.get(namespace, name)?;
        if !call.query.flag("force") {
            writer.check_scale(&*stored, replicas)?;
        }
        let update = ScaleUpdate {
            replicas,
            uid: None,
            resource_version: Some(stored.metadata().resource_version.clone()),
        };
        match api.update_scale(namespace, name, &update, call.now) {
            // Another write came first: retry.
            Err(error) if error.code == 409 => {}
            scaled => return scaled,
        }
    }
}
