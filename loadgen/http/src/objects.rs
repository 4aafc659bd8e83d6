//! Requests for objects: one function per method and target.

use std::sync::Arc;

use http::{Method, Response};
use podstorm_apiserver::errors::unsupported;
use podstorm_apiserver::{PodPart, Scale, ScaleUpdate, errors, schemas, warnings_of};
use podstorm_objects::{AnyObject, ApiError, Kind, Namespace, ResourceVersion, Uid};
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::decode::By;
use crate::media::{BodyType, Shape};
use crate::query::options_invalid;
use crate::route::Target;
use crate::unstored::is_component_status;
use crate::{
    apply, body, component_status, decode, delete, kubelet, list, ownership, patched, pod_requests,
    shape, table, token_request, view, watch,
};

/// The patch types of custom objects, which have no merge rules for strategic patches.
const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// Serves a request for objects.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    serve_stored(call, target).map_err(|error| view::shown_error(target.kind, error))
}

fn serve_stored(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if is_component_status(target.kind) {
        return component_status::serve(call, target);
    }
    let on_object = !target.name.is_empty();
    // The subresources that are read and written like the object itself.
    let is_of_object = ["", "approval", "ephemeralcontainers", "resize", "status"]
        .contains(&target.subresource.as_str());
    match (call.method.clone(), target.subresource.as_str(), on_object) {
        (Method::GET, ..) if target.is_watch(&call.query) => watch::watch(call, target),
        _ if target.watched => Err(answer::method_not_allowed()),
        (Method::GET, "", false) => list::list(call, target),
        (Method::GET, _, true) if is_of_object => get(call, target),
        (Method::POST, "", false) if is_in_namespace(target) => create(call, target),
        (Method::PUT, "finalize", true) => update(call, target),
        (Method::PUT, _, true) if is_of_object => update(call, target),
        (Method::PATCH, _, true) if is_of_object => patch(call, target),
        (Method::DELETE, "", true) => delete::delete(call, target),
        (Method::DELETE, "", false)
            if is_in_namespace(target) && target.kind != Kind::NAMESPACE =>
        {
            delete::delete_all(call, target)
        }
        (Method::GET, "scale", true) => get_scale(call, target),
        (Method::PUT | Method::PATCH, "scale", true) => change_scale(call, target),
        (Method::POST, "binding", true) => {
            pod_requests::bind(call, &target.namespace, Some(&target.name))
        }
        (Method::POST, "eviction", true) => pod_requests::evict(call, target),
        (_, part, true) if kubelet::PARTS.contains(&part) => kubelet::serve(call, target),
        (Method::POST, "token", true) => token_request::create(call, target),
        _ => Err(answer::method_not_allowed()),
    }
}

fn is_in_namespace(target: &Target) -> bool {
    !target.kind.is_namespaced() || !target.namespace.is_empty()
}

/// Returns an answer with an error and the warnings that were collected before it.
fn refuse(
    call: &Call<'_>,
    target: &Target,
    error: ApiError,
    warnings: &[String],
) -> Response<Body> {
    let error = view::shown_error(target.kind, error);
    answer::warned(answer::error(&error, call.accepted.form), warnings)
}

fn get(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let wanted = version_of(call.query.text("resourceVersion"))?;
    let current = call.cluster().resource_version();
    if wanted > current {
        return Err(errors::version_too_large(wanted, current));
    }
    let object = call.api(target.kind).get(&target.namespace, &target.name)?;
    shape::answer(call, 200, &view::shown(target.kind, object)?)
}

/// Parses the `resourceVersion` of a read. 0 means any version, and so does an empty string.
///
/// # Errors
/// 500, as in upstream, if the value is not a number.
fn version_of(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    // Go's parser accepts no sign.
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.ok_or_else(|| {
        let is_large = text.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_large {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let why = format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
        );
        answer::unclassified(why)
    })
}

fn create(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    check_field_validation(call, "CreateOptions")?;
    let sent = body::object(call, target.kind, &target.namespace)?;
    let (mut object, mut warnings) = (sent.object, sent.warnings);
    place(&mut object, target)?;
    if names_version(&object.metadata().resource_version) {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(answer::unclassified(why));
    }
    let mut writer = ownership::Writer::updating(call, target, "CreateOptions")?;
    writer.admitted = sent.admitted;
    let api = call.api(target.kind).dry_run(dry_run).managed_by(&writer);
    let created =
        view::stored_new(call.cluster(), object).and_then(|object| api.create(object, call.now));
    let created = match created {
        Err(error) => return Ok(refuse(call, target, error, &warnings)),
        Ok(created) => created,
    };
    warnings.extend((warnings_of(target.kind).name)(&created.metadata().name));
    warnings.extend(sent.sent_warnings);
    let shown = view::shown(target.kind, created)?;
    shape::answer_with(call, 201, &shown, &writer, &warnings)
}

/// Reports whether a new object has a version that a stored object could have, which is an error.
/// Any other version is ignored.
///
/// Source: `ObjectResourceVersion` of Kubernetes' apiserver, which etcd3's `store.Create` uses.
fn names_version(version: &ResourceVersion) -> bool {
    match version {
        ResourceVersion::Unset => false,
        ResourceVersion::Number(_) => true,
        ResourceVersion::Opaque(text) => {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain && text.parse().is_ok_and(|number: u64| number > 0)
        }
    }
}

fn update(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let dry_run = call.query.dry_run("UpdateOptions")?;
    check_field_validation(call, "UpdateOptions")?;
    let sent = body::object(call, target.kind, &target.namespace)?;
    let (mut object, warnings) = (sent.object, sent.warnings);
    place(&mut object, target)?;
    target.check_name(&object.metadata().name)?;
    let writer = ownership::Writer::updating(call, target, "UpdateOptions")?;
    let api = call.api(target.kind).dry_run(dry_run).managed_by(&writer);
    let object = view::stored(call.cluster(), object)?;
    let mut code = 200;
    let updated = match target.subresource.as_str() {
        "finalize" => finalize(call, object, dry_run),
        "status" | "approval" => api.update_status(object, call.now),
        part if let Some(part) = PodPart::of_subresource(part) => {
            api.update_part(object, part, call.now)
        }
        _ => match api.update(object.clone(), call.now) {
            Err(error) if error.is_not_found() && target.kind.row().put_creates => {
                code = 201;
                let created = api.create(object, call.now)?;
                Ok(created)
            }
            updated => updated,
        },
    };
    let updated = match updated {
        Err(error) => return Ok(refuse(call, target, error, &warnings)),
        Ok(updated) => updated,
    };
    let shown = view::shown(target.kind, updated)?;
    shape::answer_with(call, code, &shown, &writer, &warnings)
}

fn finalize(call: &Call<'_>, object: AnyObject, dry_run: bool) -> Result<AnyObject, ApiError> {
    let Some(namespace) = object.downcast::<Namespace>() else {
        return Err(answer::method_not_allowed());
    };
    let namespace = Arc::unwrap_or_clone(namespace);
    Ok(call.cluster().finalize(namespace, dry_run, call.now)?)
}

/// Sets the object's namespace to the path's, or removes it if the kind is cluster-scoped.
///
/// Source: `rest.EnsureObjectNamespaceMatchesRequestNamespace` of Kubernetes' apiserver.
///
/// # Errors
/// 400 if the object has a different namespace.
fn place(object: &mut AnyObject, target: &Target) -> Result<(), ApiError> {
    let metadata = Arc::get_mut(object)
        .expect("the object is not shared yet")
        .metadata_mut();
    if metadata.namespace.is_empty() || !target.kind.is_namespaced() {
        metadata.namespace = target.namespace.as_str().into();
    } else if *metadata.namespace != *target.namespace {
        return Err(errors::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Checks the query parameter `fieldValidation`.
///
/// # Errors
/// 422 for an invalid value of `fieldValidation`.
fn check_field_validation(call: &Call<'_>, options: &str) -> Result<(), ApiError> {
    match call.query.text("fieldValidation") {
        "" | "Ignore" | "Strict" | "Warn" => Ok(()),
        other => {
            let words = ["", "Ignore", "Strict", "Warn"];
            let cause = errors::not_supported("fieldValidation", other, &words);
            Err(options_invalid(options, cause))
        }
    }
}

fn patch(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if BodyType::from_headers(call.headers) == Some(BodyType::ApplyPatch) {
        return apply::apply(call, target);
    }
    if call.query.flag("force") {
        let why = "may not be specified for non-apply patch";
        let cause = errors::forbidden_field("force", why);
        return Err(options_invalid("PatchOptions", cause));
    }
    let dry_run = call.query.dry_run("PatchOptions")?;
    check_field_validation(call, "PatchOptions")?;
    let is_custom = target.kind.row().custom.is_some();
    if is_custom && BodyType::from_headers(call.headers) == Some(BodyType::StrategicPatch) {
        return Err(unsupported(PATCHES_OF_CUSTOM));
    }
    let (patch, doubled) = patched::read(call)?;
    let mut writer = ownership::Writer::updating(call, target, "PatchOptions")?;
    writer.doubled = doubled;
    let api = call.api(target.kind).dry_run(dry_run).managed_by(&writer);
    let Target {
        kind,
        namespace,
        name,
        subresource,
        ..
    } = target;
    let patched = view::patch(&api, *kind, subresource, namespace, name, &patch, call.now);
    let patched = match patched {
        Err(error) => return Ok(refuse(call, target, error, &strict_of(call, &writer))),
        Ok(patched) => patched,
    };
    let warnings = strict_of(call, &writer);
    shape::answer_with(call, 200, &patched, &writer, &warnings)
}

/// Returns the strict decoder's findings about a patch and its result, as warnings.
fn strict_of(call: &Call<'_>, writer: &ownership::Writer<'_>) -> Vec<String> {
    match call.query.text("fieldValidation") {
        "Ignore" => Vec::new(),
        _ => writer.unknown_fields(),
    }
}

fn get_scale(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let scale = call
        .api(target.kind)
        .scale(&target.namespace, &target.name)?;
    answer_scale(call, target, &scale)
}

fn change_scale(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if BodyType::from_headers(call.headers) == Some(BodyType::ApplyPatch) {
        let scale = apply::apply_scale(call, target)?;
        return answer_scale(call, target, &scale);
    }
    let api = call.api(target.kind);
    let (namespace, name) = (&target.namespace, &target.name);
    let read = if call.method == Method::PATCH {
        let (patch, doubled) = patched::read(call)?;
        let mut document = scale_json(target, &api.scale(namespace, name)?);
        // The patch applies to any version unless it contains one.
        document["metadata"]["resourceVersion"] = Value::Null;
        patch.apply_to(schemas::schema_named(decode::SCALE_SCHEMA), &mut document)?;
        let made = document.clone();
        let mut read = decode::tree(document, decode::SCALE, By::Json);
        if let Some(problem) = read.wrong {
            return Err(patched::invalid_scale(&made, &problem));
        }
        read.strict.splice(..0, doubled);
        read
    } else {
        let read = body::document(call, "Scale", decode::SCALE)?;
        check_is_scale(&read.value)?;
        read
    };
    let document = read.value.clone();
    let warnings = body::judge(call, "autoscaling/v1", "Scale", read)?;
    target.check_name(document["metadata"]["name"].as_str().unwrap_or(""))?;
    let replicas = document["spec"]["replicas"].as_i64().unwrap_or(0);
    let text = |member: &str| {
        let text = document["metadata"][member].as_str();
        text.filter(|text| !text.is_empty())
    };
    let update = ScaleUpdate {
        // Decoding has checked that the number fits in 32 bits.
        replicas: i32::try_from(replicas).unwrap_or_default(),
        uid: text("uid").map(Uid::new),
        resource_version: text("resourceVersion").map(ResourceVersion::new),
    };
    let writer = ownership::Writer::updating(call, target, "UpdateOptions")?;
    let api = api
        .dry_run(call.query.dry_run("UpdateOptions")?)
        .managed_by(&writer);
    let scale = api.update_scale(namespace, name, &update, call.now)?;
    let response = answer_scale(call, target, &scale)?;
    Ok(answer::warned(response, &warnings))
}

/// Checks the type of a Scale.
///
/// # Errors
/// 400 if the document is not a Scale.
fn check_is_scale(document: &Value) -> Result<(), ApiError> {
    let text = |member: &str| document[member].as_str().unwrap_or("");
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if matches!(kind, "" | "Scale") {
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or("");
    Err(errors::bad_request(format!(
        "{kind} in version \"{api_version}\" cannot be handled as a Scale: converting \
         ({version}.{kind}) to (autoscaling.Scale): unknown conversion"
    )))
}

fn answer_scale(
    call: &Call<'_>,
    target: &Target,
    scale: &Scale,
) -> Result<Response<Body>, ApiError> {
    let json = scale_json(target, scale);
    let document = match call.accepted.shape {
        Shape::Table(version) => {
            let include = table::Include::from_query(&call.query)?;
            table::of_scale(target.kind, json, version, include, call.now)
        }
        Shape::Metadata(version) => table::metadata_alone(target.kind, &json, version),
        _ => json,
    };
    Ok(answer::document(200, call.accepted.form, &document))
}

fn scale_json(target: &Target, scale: &Scale) -> Value {
    let mut status = json!({"replicas": scale.status_replicas});
    if !scale.selector.is_empty() {
        status["selector"] = scale.selector.as_str().into();
    }
    let mut spec = json!({});
    if scale.replicas != 0 {
        spec["replicas"] = scale.replicas.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": target.name, "namespace": target.namespace,
            "uid": scale.uid.to_string(),
            "resourceVersion": scale.resource_version.to_string(),
            "creationTimestamp": scale.creation_timestamp.to_string()},
        "spec": spec, "status": status})
}
