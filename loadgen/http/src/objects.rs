//! Requests for objects: one function for each method and target.

use std::sync::Arc;

use http::{Method, Response};
use podstorm_apiserver::errors::unsupported;
use podstorm_apiserver::{Binding, Eviction, EvictionRequest, PodPart, Scale, ScaleUpdate, errors};
use podstorm_objects::{
    AnyObject, ApiError, Kind, Labels, Namespace, Reason, ResourceVersion, Uid,
};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::decode::{By, Form};
use crate::media::{Accepted, BodyType, Shape};
use crate::query::options_invalid;
use crate::route::Target;
use crate::{
    Call, body, component_status, decode, delete, kubelet, list, openapi, ownership, patched,
    reviews, table, token_request, view, warnings, watch,
};

/// The patch types of custom objects, which have no rules for strategic merges of lists.
const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// Serves a request for objects.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    serve_stored(call, target).map_err(|error| view::shown_error(target.kind, error))
}

fn serve_stored(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if component_status::is(target.kind) {
        return component_status::serve(call, target);
    }
    let on_object = !target.name.is_empty();
    // Subresources that are read and written as the object itself.
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
        (Method::POST, "binding", true) => bind(call, &target.namespace, Some(&target.name)),
        (Method::POST, "eviction", true) => evict(call, target),
        (_, part, true) if kubelet::PARTS.contains(&part) => kubelet::serve(call, target),
        (Method::POST, "token", true) => token_request::create(call, target),
        _ => Err(answer::method_not_allowed()),
    }
}

fn is_in_namespace(target: &Target) -> bool {
    !target.kind.is_namespaced() || !target.namespace.is_empty()
}

fn api<'a>(call: &'a Call<'_>, target: &Target) -> podstorm_apiserver::Api<'a> {
    call.cluster().api(view::stored_kind(target.kind))
}

/// Returns an answer with an object in the shape that the client accepts.
pub(crate) fn answer(
    call: &Call<'_>,
    code: u16,
    object: &AnyObject,
) -> Result<Response<Body>, ApiError> {
    let Accepted { form, shape } = call.accepted;
    let document = match shape {
        Shape::Object | Shape::Discovery => return Ok(answer::object(code, form, &**object)),
        Shape::Metadata(version) => table::partial(&**object, version),
        Shape::MetadataList(_) => return Err(is_no_list()),
        Shape::Table(version) => {
            let include = table::Include::of(&call.query)?;
            let kind = object.kind();
            let at = object.metadata().resource_version.to_string();
            let metadata = json!({"resourceVersion": at});
            let items = std::slice::from_ref(object);
            table::table(kind, items, version, include, metadata, call.now)
        }
    };
    Ok(answer::document(code, form, &document))
}

/// Returns a 406: the client asks for a list, but the target is one object.
pub(crate) fn is_no_list() -> ApiError {
    let why = "you requested PartialObjectMetadataList, but the requested object is not a list";
    crate::not_acceptable(why.to_owned())
}

/// As [`answer`], with warnings.
pub(crate) fn answer_with(
    call: &Call<'_>,
    code: u16,
    object: &AnyObject,
    (writer, warnings): (&ownership::Writer<'_>, &[String]),
) -> Result<Response<Body>, ApiError> {
    let mut response = answer(call, code, object)?;
    let is_changed = writer.has_changed_spec(&**object);
    let of_written = warnings::of_written(&**object, code == 201, is_changed);
    answer::warn(&mut response, &of_written);
    answer::warn(&mut response, warnings);
    Ok(response)
}

/// Returns an answer with an error and the warnings so far.
fn refuse(
    call: &Call<'_>,
    target: &Target,
    error: ApiError,
    warnings: &[String],
) -> Response<Body> {
    let error = view::shown_error(target.kind, error);
    let mut response = answer::error(&error, call.accepted.form);
    answer::warn(&mut response, warnings);
    response
}

fn get(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let wanted = version_of(call.query.text("resourceVersion"))?;
    let current = call.cluster().resource_version();
    if wanted > current {
        return Err(errors::version_too_large(wanted, current));
    }
    let object = api(call, target).get(&target.namespace, &target.name)?;
    answer(call, 200, &view::shown(target.kind, object)?)
}

/// Parses the `resourceVersion` of a read. 0 means any version.
///
/// # Errors
/// 500, as upstream, if the value is not a number.
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
        ApiError::status(500, Reason::Other(String::new()), why)
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
        return Err(ApiError::status(500, Reason::Other(String::new()), why));
    }
    let mut writer = ownership::Writer::updating(call, target, "CreateOptions")?;
    writer.admitted = sent.admitted;
    let api = api(call, target).dry_run(dry_run).managed_by(&writer);
    let created =
        view::stored_new(call.cluster(), object).and_then(|object| api.create(object, call.now));
    let created = match created {
        Err(error) => return Ok(refuse(call, target, error, &warnings)),
        Ok(created) => created,
    };
    if target.kind == Kind::POD {
        warnings.extend(warnings::of_pod_name(&created.metadata().name));
        warnings.extend(sent.pod_warnings);
    }
    let shown = view::shown(target.kind, created)?;
    answer_with(call, 201, &shown, (&writer, &warnings))
}

/// Reports whether a new object names a version that could be a stored one, which is an error. Any
/// other version is ignored.
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
    let name = &object.metadata().name;
    if *name != target.name.as_str() {
        return Err(errors::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let writer = ownership::Writer::updating(call, target, "UpdateOptions")?;
    let api = api(call, target).dry_run(dry_run).managed_by(&writer);
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
    answer_with(call, code, &shown, (&writer, &warnings))
}

fn finalize(call: &Call<'_>, object: AnyObject, dry_run: bool) -> Result<AnyObject, ApiError> {
    let Some(namespace) = object.downcast::<Namespace>() else {
        return Err(answer::method_not_allowed());
    };
    let namespace = Arc::unwrap_or_clone(namespace);
    Ok(call.cluster().finalize(namespace, dry_run, call.now)?)
}

/// Sets the object's namespace to the path's, or to none if the kind is cluster-scoped.
///
/// Source: `rest.EnsureObjectNamespaceMatchesRequestNamespace` of Kubernetes' apiserver.
///
/// # Errors
/// 400 if the object names another namespace.
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
    if BodyType::of(call.headers) == Some(BodyType::ApplyPatch) {
        return ownership::apply(call, target);
    }
    if call.query.flag("force") {
        let why = "may not be specified for non-apply patch";
        let cause = errors::forbidden_field("force", why);
        return Err(options_invalid("PatchOptions", cause));
    }
    let dry_run = call.query.dry_run("PatchOptions")?;
    check_field_validation(call, "PatchOptions")?;
    let is_custom = target.kind.row().custom.is_some();
    if is_custom && BodyType::of(call.headers) == Some(BodyType::StrategicPatch) {
        return Err(unsupported(PATCHES_OF_CUSTOM));
    }
    let (patch, doubled) = patched::read(call)?;
    let mut writer = ownership::Writer::updating(call, target, "PatchOptions")?;
    writer.doubled = doubled;
    let api = api(call, target).dry_run(dry_run).managed_by(&writer);
    let (namespace, name) = (&target.namespace, &target.name);
    let what = (target.kind, target.subresource.as_str());
    let patched = match view::patch(&api, what, (namespace, name), &patch, call.now) {
        Err(error) => return Ok(refuse(call, target, error, &strict_of(call, &writer))),
        Ok(patched) => patched,
    };
    let warnings = strict_of(call, &writer);
    answer_with(call, 200, &patched, (&writer, &warnings))
}

/// Returns the strict decoder's findings about a patch and its result, as warnings.
fn strict_of(call: &Call<'_>, writer: &ownership::Writer<'_>) -> Vec<String> {
    match call.query.text("fieldValidation") {
        "Ignore" => Vec::new(),
        _ => writer.unknown_fields(),
    }
}

fn get_scale(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let scale = api(call, target).scale(&target.namespace, &target.name)?;
    answer_scale(call, target, &scale)
}

fn change_scale(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if BodyType::of(call.headers) == Some(BodyType::ApplyPatch) {
        let scale = ownership::apply_scale(call, target)?;
        return answer_scale(call, target, &scale);
    }
    let api = api(call, target);
    let (namespace, name) = (&target.namespace, &target.name);
    let read = if call.method == Method::PATCH {
        let (patch, doubled) = patched::read(call)?;
        let mut document = scale_json(target, &api.scale(namespace, name)?);
        // The patch applies to any version unless it names one.
        document["metadata"]["resourceVersion"] = Value::Null;
        patch.apply_to(openapi::schema_named(decode::SCALE_SCHEMA), &mut document)?;
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
    let warnings = body::judge(call, ("autoscaling/v1", "Scale"), read)?;
    let named = document["metadata"]["name"].as_str().unwrap_or("");
    if named != name {
        return Err(errors::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({name})"
        )));
    }
    let replicas = document["spec"]["replicas"].as_i64().unwrap_or(0);
    let text = |member: &str| {
        let text = document["metadata"][member].as_str();
        text.filter(|text| !text.is_empty())
    };
    let update = ScaleUpdate {
        // Decoding has checked that it fits in 32 bits.
        replicas: i32::try_from(replicas).unwrap_or_default(),
        uid: text("uid").map(Uid::new),
        resource_version: text("resourceVersion").map(ResourceVersion::new),
    };
    let writer = ownership::Writer::updating(call, target, "UpdateOptions")?;
    let api = api
        .dry_run(call.query.dry_run("UpdateOptions")?)
        .managed_by(&writer);
    let scale = api.update_scale(namespace, name, &update, call.now)?;
    let mut response = answer_scale(call, target, &scale)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

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
            let include = table::Include::of(&call.query)?;
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

/// Serves a `POST` of a Binding, to a pod or to the collection with the pod's name in the body.
pub(crate) fn bind(
    call: &Call<'_>,
    namespace: &str,
    name: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let kind = reviews::binding();
    let mut read = body::document(call, kind.name(), Form::Kind(kind))?;
    let document = read.members();
    body::check_type(kind, &document)?;
    let warnings = body::judge(call, (kind.api_version(), kind.name()), read)?;
    let metadata = document.get("metadata").unwrap_or(&Value::Null);
    let named = metadata["name"].as_str().unwrap_or("");
    if name.is_some_and(|name| !named.is_empty() && named != name) {
        let why = "name in URL does not match name in Binding object";
        return Err(errors::bad_request(why));
    }
    let target = document.get("target").unwrap_or(&Value::Null);
    let node = target["name"].as_str().unwrap_or("");
    check_binding_target(target["kind"].as_str().unwrap_or(""), node)?;
    let labels = |member: &str| match &metadata[member] {
        Value::Null => Ok(Labels::default()),
        pairs => Labels::from_json(pairs.clone()),
    };
    let read = |member| {
        labels(member).map_err(|problem| errors::bad_request(format!("Binding: {problem}")))
    };
    let uid = metadata["uid"].as_str().filter(|uid| !uid.is_empty());
    let version = metadata["resourceVersion"].as_str().unwrap_or("");
    let binding = Binding {
        node: node.into(),
        uid: uid.map(Uid::new),
        resource_version: ResourceVersion::new(version),
        annotations: read("annotations")?,
        labels: read("labels")?,
        dry_run,
    };
    let name = name.unwrap_or(named);
    call.cluster()
        .bind_as(namespace, name, &binding, call.now)?;
    Ok(succeeded(call, &warnings))
}

/// # Errors
/// 500, sic, for a target that is not a node.
fn check_binding_target(kind: &str, node: &str) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    if !["", "Node"].contains(&kind) {
        problems.push(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if node.is_empty() {
        problems.push("target.name: Required value".to_owned());
    }
    let message = match &problems[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(ApiError::status(500, Reason::Other(String::new()), message))
}

fn evict(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let in_query: Vec<&str> = call.query.all("dryRun").collect();
    call.query.dry_run("CreateOptions")?;
    let form = Form::Named("io.k8s.api.policy.v1.Eviction");
    let mut read = body::document(call, "Eviction", form)?;
    let eviction = read.members();
    check_eviction_type(&eviction)?;
    let warnings = body::judge(call, ("policy/v1", "Eviction"), read)?;
    let named = eviction.get("metadata").and_then(|of| of.get("name"));
    let named = named.and_then(Value::as_str).unwrap_or("");
    let none = Map::new();
    let options = eviction.get("deleteOptions").and_then(Value::as_object);
    let options = options.unwrap_or(&none);
    let in_body = options.get("dryRun").and_then(Value::as_array);
    let in_body: Vec<&str> = in_body
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names = (target.name.as_str(), named);
    let dry_run = EvictionRequest::check(names, (&in_query, &in_body))?;
    let unsafe_option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if options.get(unsafe_option) == Some(&Value::Bool(true)) {
        let why = "is not allowed with eviction, try again after removing the option";
        let cause = errors::invalid_value(unsafe_option, &true.into(), why);
        return Err(options_invalid("DeleteOptions", cause));
    }
    let options = delete::of_document(options)?.options;
    let (namespace, name) = (&target.namespace, &target.name);
    let evicted = call
        .cluster()
        .evict(namespace, name, &options, dry_run, call.now)?;
    match evicted {
        Eviction::Evicted => Ok(succeeded(call, &warnings)),
        // Not 201: the `Status` is a failure, and its code is that of the answer.
        Eviction::Refused(status) => Err(status),
    }
}

/// # Errors
/// 400 if the body is not an Eviction of `policy/v1` or `policy/v1beta1`. Absent members are
/// accepted.
fn check_eviction_type(eviction: &Map<String, Value>) -> Result<(), ApiError> {
    let member = |name: &str| eviction.get(name).and_then(Value::as_str).unwrap_or("");
    let (kind, api_version) = (member("kind"), member("apiVersion"));
    let versions = ["", "policy/v1", "policy/v1beta1"];
    if ["", "Eviction"].contains(&kind) && versions.contains(&api_version) {
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    Err(errors::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a Eviction: converting \
         ({version}.{kind}) to (policy.Eviction): unknown conversion"
    )))
}

/// Returns a 201 with a successful `Status`.
fn succeeded(call: &Call<'_>, warnings: &[String]) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "code": 201});
    let mut response = answer::document(201, call.accepted.form, &status);
    answer::warn(&mut response, warnings);
    response
}
