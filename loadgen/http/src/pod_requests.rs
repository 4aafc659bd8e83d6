//! Requests about pods whose bodies are other objects: Bindings and Evictions.

use http::Response;
use podstorm_apiserver::{Binding, Eviction, EvictionRequest, errors};
use podstorm_objects::{ApiError, Labels, ResourceVersion, Uid};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::decode::Form;
use crate::query::options_invalid;
use crate::route::Target;
use crate::{body, delete, unstored};

/// Serves a `POST` of a Binding, either to a pod or to the collection with the pod's name in the
/// body.
pub(crate) fn bind(
    call: &Call<'_>,
    namespace: &str,
    name: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let dry_run = call.query.dry_run("CreateOptions")?;
    let kind = unstored::binding();
    let mut read = body::document(call, kind.name(), Form::Kind(kind))?;
    let document = read.members();
    body::check_type(kind, &document)?;
    let warnings = body::judge(call, kind.api_version(), kind.name(), read)?;
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

/// Checks that the target of a binding is a node.
///
/// # Errors
/// 500 (sic) for a target that is not a node.
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
    Err(answer::unclassified(message))
}

/// Serves a `POST` of an Eviction of a pod.
pub(crate) fn evict(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let in_query: Vec<&str> = call.query.all("dryRun").collect();
    call.query.dry_run("CreateOptions")?;
    let form = Form::Named("io.k8s.api.policy.v1.Eviction");
    let mut read = body::document(call, "Eviction", form)?;
    let eviction = read.members();
    check_eviction_type(&eviction)?;
    let warnings = body::judge(call, "policy/v1", "Eviction", read)?;
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
    let dry_run = EvictionRequest::check(&target.name, named, &in_query, &in_body)?;
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
        // Not 201: the `Status` is a failure, and the answer has its code.
        Eviction::Refused(status) => Err(status),
    }
}

/// Checks the type of an eviction.
///
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
    answer::warned(answer::document(201, call.accepted.form, &status), warnings)
}
