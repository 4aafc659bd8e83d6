//! `DELETE` of an object or a collection.

use http::Response;
use podstorm_apiserver::{DeleteOptions, Deletion, Propagation, errors};
use podstorm_objects::{ApiError, Kind, Object, ResourceVersion, Uid};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::decode::Form;
use crate::query::{check_dry_run, options_invalid};
use crate::route::Target;
use crate::select::Selection;
use crate::{body, list, shape, view};

/// The namespaces that admission protects against deletion.
const KEPT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The options of a deletion.
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
    let api = call.api(target.kind).dry_run(wanted.dry_run);
    let deletion = api.delete(namespace, name, &wanted.options, call.now)?;
    let Deletion { object, removed } = deletion;
    if removed && !target.kind.row().returns_deleted {
        return Ok(answer::document(
            200,
            call.accepted.form,
            &deleted(target.kind, &*object),
        ));
    }
    shape::answer(call, 200, &view::shown(target.kind, object)?)
}

/// Returns the `Status` of a completed deletion.
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
    call.query.of_collection()?;
    let selection = Selection::from_query(target, &call.query)?;
    let wanted = wanted(call)?;
    let api = call.api(target.kind).dry_run(wanted.dry_run);
    let namespace = Some(target.namespace.as_str()).filter(|name| !name.is_empty());
    let select = |object: &dyn Object| selection.matches(object);
    let items = api.delete_collection(namespace, &select, &wanted.options, call.now)?;
    let metadata = list::ListMetadata {
        version: ResourceVersion::Number(call.cluster().resource_version()),
        ..list::ListMetadata::default()
    };
    list::answer_list(call, target.kind, items, &metadata)
}

/// Returns the options of a deletion: those of the body if there is one, otherwise those of the
/// query.
pub(crate) fn wanted(call: &Call<'_>) -> Result<Wanted, ApiError> {
    if !call.body.is_empty() {
        let form = Form::Named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let mut read = body::read(call, form)?.map_err(errors::bad_request)?;
        let document = read.members();
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
        if let Some(problem) = read.wrong {
            return Err(errors::bad_request(problem));
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

/// Parses the `DeleteOptions` of `meta/v1`. Their `apiVersion` may name any group.
pub(crate) fn of_document(document: &Map<String, Value>) -> Result<Wanted, ApiError> {
    let grace_period_seconds = member(document, "gracePeriodSeconds", "an integer", Value::as_i64)?;
    let orphan_dependents = member(
        document,
        "orphanDependents",
        "true or false",
        Value::as_bool,
    )?;
    let preconditions = member(document, "preconditions", "an object", Value::as_object)?;
    let dry_run = member(document, "dryRun", "a list of strings", |values| {
        let values = values.as_array()?.iter();
        values.map(Value::as_str).collect::<Option<Vec<_>>>()
    })?;
    let policy = member(document, "propagationPolicy", "a string", Value::as_str)?;
    let precondition = |name: &str| match preconditions {
        Some(preconditions) => member(preconditions, name, "a string", Value::as_str),
        None => Ok(None),
    };
    Ok(Wanted {
        options: DeleteOptions {
            grace_period_seconds,
            propagation: policy.map(propagation).transpose()?,
            precondition_uid: precondition("uid")?.map(Uid::new),
            precondition_rv: precondition("resourceVersion")?.map(ResourceVersion::new),
            orphan_dependents,
        },
        dry_run: check_dry_run(dry_run.unwrap_or_default().into_iter(), "DeleteOptions")?,
    })
}

/// Returns a member of the options, or `None` if it is absent.
///
/// # Errors
/// 400 if the member has the wrong type.
fn member<'v, T>(
    of: &'v Map<String, Value>,
    name: &str,
    wanted: &str,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let Some(value) = of.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let wrong = || {
        let why = format!("DeleteOptions cannot be handled: {name} must be {wanted}");
        errors::bad_request(why)
    };
    read(value).map(Some).ok_or_else(wrong)
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
