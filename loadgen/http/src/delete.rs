//! `DELETE` of an object or a collection.

use http::Response;
use podstorm_apiserver::{DeleteOptions, Deletion, Propagation, errors};
use podstorm_objects::{ApiError, Kind, Object, ResourceVersion, Uid};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::query::{check_dry_run, options_invalid};
use crate::route::Target;
use crate::select::Selection;
use crate::{Call, body, list, objects, view};

/// The namespaces that admission does not let anybody delete.
const KEPT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How a request wants something deleted.
pub(crate) struct Wanted {
    pub(crate) options: DeleteOptions,
    pub(crate) dry_run: bool,
}

pub(crate) fn delete(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let wanted = wanted(call)?;
    let (namespace, name) = (&target.namespace, &target.name);
    if target.kind == Kind::NAMESPACE && KEPT_NAMESPACES.contains(&name.as_str()) {
        let why = "this namespace may not be deleted";
        return Err(errors::forbidden(Kind::NAMESPACE, name, why));
    }
    let api = call
        .cluster()
        .api(view::stored_kind(target.kind))
        .dry_run(wanted.dry_run);
    let deletion = api.delete(namespace, name, &wanted.options, call.now)?;
    let Deletion { object, removed } = deletion;
    if removed && !target.kind.row().returns_deleted {
        return Ok(answer::document(
            200,
            call.accepted.form,
            &deleted(target.kind, &*object),
        ));
    }
    objects::answer(call, 200, &view::shown(target.kind, object))
}

/// The `Status` of a deletion that is done.
fn deleted(kind: Kind, object: &dyn Object) -> Value {
    let mut details = Map::new();
    details.insert("name".into(), object.metadata().name.as_str().into());
    if !kind.group().is_empty() {
        details.insert("group".into(), kind.group().into());
    }
    details.insert("kind".into(), kind.resource().into());
    details.insert("uid".into(), object.metadata().uid.to_string().into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details})
}

pub(crate) fn delete_all(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let wanted = wanted(call)?;
    let selection = Selection::of(target, &call.query)?;
    let api = call
        .cluster()
        .api(view::stored_kind(target.kind))
        .dry_run(wanted.dry_run);
    let namespace = Some(target.namespace.as_str()).filter(|name| !name.is_empty());
    let select = |object: &dyn Object| selection.matches(object);
    let items = api.delete_collection(namespace, &select, &wanted.options, call.now)?;
    let metadata = list::ListMetadata {
        version: ResourceVersion::Number(call.cluster().resource_version()),
        ..list::ListMetadata::default()
    };
    list::answer_list(call, target.kind, items, &metadata)
}

/// The options of a deletion: those of the body, else those of the query.
pub(crate) fn wanted(call: &Call<'_>) -> Result<Wanted, ApiError> {
    if !call.body.is_empty() {
        let document = body::document(call, "DeleteOptions")?;
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or("");
        if !["", "DeleteOptions"].contains(&kind) {
            let version = document.get("apiVersion").and_then(Value::as_str);
            let why = format!(
                "no kind {kind:?} is registered for version {:?} in scheme \
                 \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
                version.unwrap_or("")
            );
            return Err(errors::bad_request(why));
        }
        return of_document(&document);
    }
    let query = &call.query;
    let text = |name: &str| Some(query.text(name)).filter(|text| !text.is_empty());
    Ok(Wanted {
        options: DeleteOptions {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            propagation: text("propagationPolicy").map(propagation).transpose()?,
            precondition_uid: None,
            precondition_rv: None,
            orphan_dependents: (query.has("orphanDependents"))
                .then(|| query.flag("orphanDependents")),
        },
        dry_run: query.dry_run("DeleteOptions")?,
    })
}

/// `DeleteOptions` of `meta/v1`, of whatever group its `apiVersion` names.
pub(crate) fn of_document(document: &Map<String, Value>) -> Result<Wanted, ApiError> {
    let wrong = |member: &str, wanted: &str| {
        errors::bad_request(format!(
            "DeleteOptions cannot be handled: {member} must be {wanted}"
        ))
    };
    let text = |of: &Map<String, Value>, name: &str| match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong(name, "a text")),
    };
    let grace_period_seconds = match document.get("gracePeriodSeconds") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let whole = value.as_i64();
            Some(whole.ok_or_else(|| wrong("gracePeriodSeconds", "a whole number"))?)
        }
    };
    let orphan_dependents = match document.get("orphanDependents") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(flag)) => Some(*flag),
        Some(_) => return Err(wrong("orphanDependents", "true or false")),
    };
    let none = Map::new();
    let preconditions = match document.get("preconditions") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(preconditions)) => preconditions,
        Some(_) => return Err(wrong("preconditions", "an object")),
    };
    let dry_run = match document.get("dryRun") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => {
            let values: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
            values.ok_or_else(|| wrong("dryRun", "a list of texts"))?
        }
        Some(_) => return Err(wrong("dryRun", "a list of texts")),
    };
    let policy = text(document, "propagationPolicy")?;
    Ok(Wanted {
        options: DeleteOptions {
            grace_period_seconds,
            propagation: policy.as_deref().map(propagation).transpose()?,
            precondition_uid: text(preconditions, "uid")?.map(|uid| Uid::new(&uid)),
            precondition_rv: text(preconditions, "resourceVersion")?
                .map(|version| ResourceVersion::new(&version)),
            orphan_dependents,
        },
        dry_run: check_dry_run(dry_run.into_iter(), "DeleteOptions")?,
    })
}

fn propagation(text: &str) -> Result<Propagation, ApiError> {
    let all = [
        Propagation::Foreground,
        Propagation::Background,
        Propagation::Orphan,
    ];
    let found = all.into_iter().find(|policy| policy.as_str() == text);
    found.ok_or_else(|| {
        let policies = ["Foreground", "Background", "Orphan", "nil"];
        let cause = errors::not_supported("propagationPolicy", text, &policies);
        options_invalid("DeleteOptions", cause)
    })
}
