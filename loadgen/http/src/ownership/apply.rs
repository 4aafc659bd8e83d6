//! Server-side apply: patches of the type `application/apply-patch+yaml`.

use std::collections::BTreeMap;

use http::Response;
use podstorm_apiserver::limits::Listed;
use podstorm_apiserver::{Patch, errors};
use podstorm_objects::{AnyObject, ApiError, Cause, Kind, Object, Reason};
use serde_json::{Map, Value};

use super::owners::{Application, Conflict, Owners};
use super::schema::{Type, schema_of};
use super::set::FieldSet;
use super::walk::{self, Difference};
use super::{MANAGED, Writer, ignored, owners_of, plain, without_owners};
use crate::answer::Body;
use crate::decode::{self, By, Form};
use crate::query::options_invalid;
use crate::route::Target;
use crate::{Call, admission, body, objects, view, warnings};

/// The annotation with the last configuration of a client-side `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that may take over fields from its client-side applies.
const KUBECTL: &str = "kubectl";

/// Serves a patch of the type `application/apply-patch+yaml`.
pub(crate) fn apply(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let writer = Writer::applying(call, target)?;
    let (object, is_new) = applied(call, target, &writer)?;
    let mut all = Vec::new();
    if is_new && target.kind == Kind::POD {
        all.extend(warnings::of_pod_name(&object.metadata().name));
        if let Value::Object(pod) = object.to_json() {
            all.extend(warnings::of_new_pod(&pod));
        }
    }
    let code = if is_new { 201 } else { 200 };
    objects::answer_with(call, code, &object, (&writer, &all))
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
    check_config((kind.api_version(), kind.name(), &target.name), &config)?;
    let force = call.query.flag("force");
    let api = call.cluster().api(view::stored_kind(kind));
    let api = api.dry_run(dry_run).managed_by(writer);
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
        let what = (kind, target.subresource.as_str());
        match view::patch(
            &api,
            what,
            (&target.namespace, &target.name),
            &patch,
            call.now,
        ) {
            // Another write came first, and the patch names the version that it was computed from:
            // retry.
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

/// Creates an object that is applied and does not exist yet.
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
    let place = (target.kind, target.namespace.as_str());
    admission::admit(call.cluster(), place, &mut applied)?;
    let object = body::object_of(call, target.kind, applied)?;
    let created = api.create(view::stored_new(call.cluster(), object)?, call.now)?;
    view::shown(target.kind, created)
}

/// # Errors
/// 422 if there is no field manager.
pub(super) fn require_manager(call: &Call<'_>) -> Result<(), ApiError> {
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
pub(super) fn read_config(call: &Call<'_>) -> Result<(Map<String, Value>, Vec<String>), ApiError> {
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

/// # Errors
/// 400 for repeated members if `fieldValidation` is `Strict`.
pub(super) fn check_doubled(call: &Call<'_>, doubled: &[String]) -> Result<(), ApiError> {
    match (doubled.first(), call.query.text("fieldValidation")) {
        (Some(told), "Strict") => Err(errors::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {told}"
        ))),
        _ => Ok(()),
    }
}

/// # Errors
/// 400 if the configuration is not for the path's object, or has `managedFields`.
pub(super) fn check_config(
    (api_version, kind, name): (&str, &str, &str),
    config: &Map<String, Value>,
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
    let named = of_metadata("name").and_then(Value::as_str).unwrap_or("");
    if !named.is_empty() && named != name {
        return Err(errors::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Formats an `apiVersion` as Go does, with a slash even if the group is empty.
fn with_group(api_version: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}")
}

impl Writer<'_> {
    /// Applies a configuration to the stored object, if there is one, and returns the result.
    ///
    /// # Errors
    /// 500, as upstream, if the configuration does not fit its kind or its result is not a valid
    /// object; 409 if it changes fields of other managers.
    fn applied(
        &self,
        config: &Map<String, Value>,
        stored: Option<&dyn Object>,
        force: bool,
    ) -> Result<Map<String, Value>, ApiError> {
        let schema = schema_of(self.kind);
        let of = Type::of(&schema);
        let version = self.kind.api_version();
        let config = Value::Object(config.clone());
        check_types(self.kind, &config, of)?;
        let object = stored.map_or_else(|| Map::new().into(), |old| view::json(self.kind, old));
        let object = without_owners(object);
        let ignored = ignored(self.kind, self.subresource);
        let owners = match stored {
            None => Owners::default(),
            Some(stored) => owners_of(stored)
                .filter(|owners| !owners.is_empty())
                .unwrap_or_else(|| {
                    let empty = plain(Map::new().into(), self.kind);
                    let there = plain(object.clone(), self.kind);
                    let there = Difference::between(&empty, &there, of).ignoring(&ignored);
                    Owners::before_first_apply(&there.added, version, &self.now)
                }),
        };
        let difference = |new: &Value, version: &str| {
            let kind = view::at_version(self.kind, version)?;
            let schema = schema_of(kind);
            let of = Type::of(&schema);
            let old = stored.map_or_else(|| Map::new().into(), |old| view::json(kind, old));
            let new = view::converted(self.kind, kind, new.clone());
            let (old, new) = (plain(old, kind), plain(new, kind));
            Some(Difference::between(&old, &new, of).ignoring(&ignored))
        };
        let mut application = Application {
            applier: self.owner(),
            api_version: version,
            of,
            config: &config,
            ignored: &ignored,
            force,
            now: &self.now,
        };
        let mut result = application.apply(&object, owners.clone(), &difference);
        if let Err(conflicts) = &mut result
            && self.manager == KUBECTL
        {
            let allowed = allowed_conflicts(&object, of);
            for conflict in &mut *conflicts {
                conflict.fields = conflict.fields.without(&allowed);
            }
            conflicts.retain(|one| !one.fields.is_empty());
            if conflicts.is_empty() {
                application.force = true;
                result = application.apply(&object, owners, &difference);
            }
        }
        let (mut applied, owners) = result.map_err(|conflicts| conflict(&conflicts))?;
        if self.manager == KUBECTL {
            renew_last_applied(&mut applied, &config);
        }
        if let Value::Object(members) = &mut applied
            && !owners.is_empty()
            // A configuration may have no metadata.
            && let Value::Object(metadata) =
                members.entry("metadata").or_insert_with(|| Map::new().into())
        {
            let owners = serde_json::from_str(&owners.to_text()).unwrap_or_default();
            metadata.insert(MANAGED.to_owned(), owners);
        }
        let Value::Object(members) = applied else {
            return Err(errors::bad_request(
                "the applied configuration is not an object",
            ));
        };
        // Normalize to the stored form. Unknown members were rejected before.
        let mut read = decode::tree(members.into(), Form::Kind(self.kind), By::Conversion);
        let members = read.members();
        match read.wrong {
            None => Ok(members),
            Some(problem) => {
                let of = identity(self.kind, &config);
                let why = format!("failed to convert new object ({of}) to proper version");
                Err(not_applied(&format!("{why}: {problem}")))
            }
        }
    }
}

/// # Errors
/// 500 for a member of a wrong type, an unknown member, or repeated keys.
fn check_types(kind: Kind, config: &Value, of: Type<'_>) -> Result<(), ApiError> {
    let problems = walk::problems(config, of);
    let problems = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!(
            "errors:\n{}",
            several
                .iter()
                .map(|one| format!("  {one}\n"))
                .collect::<String>()
        ),
    };
    let of = identity(kind, config);
    let why = format!("failed to create typed patch object ({of}): {problems}");
    Err(not_applied(&why))
}

/// Returns the name of a configuration's object in messages.
fn identity(kind: Kind, config: &Value) -> String {
    let metadata = |member: &str| config["metadata"][member].as_str().unwrap_or("").to_owned();
    let (namespace, name) = (metadata("namespace"), metadata("name"));
    let version = with_group(kind.api_version());
    format!("{namespace}/{name}; {version}, Kind={}", kind.name())
}

/// Returns a 500: the configuration cannot become an object. Upstream uses the same code.
pub(super) fn not_applied(why: &str) -> ApiError {
    ApiError::status(500, Reason::Other(String::new()), why)
}

/// Returns a 409: an apply would change fields of other managers. It names as many fields as can be
/// [listed](Listed).
pub(super) fn conflict(conflicts: &[Conflict]) -> ApiError {
    let mut listed = Listed::default();
    let mut owners = Vec::new();
    for conflict in conflicts {
        conflict.fields.list_paths(&mut listed);
        owners.resize(listed.len(), conflict.owner.as_str());
    }
    let is_full = listed.is_full();
    let fields = listed.into_vec();
    let message = match (fields.as_slice(), owners.as_slice()) {
        ([field], [owner]) => {
            format!("Apply failed with 1 conflict: conflict with {owner}: {field}")
        }
        _ => {
            let mut of_owners: BTreeMap<&str, String> = BTreeMap::new();
            for (field, owner) in fields.iter().zip(&owners) {
                let text = of_owners.entry(owner).or_default();
                text.extend(["\n- ", field]);
            }
            let texts = of_owners.into_iter();
            let texts = texts.map(|(owner, fields)| format!("conflicts with {owner}:{fields}"));
            let texts: Vec<String> = texts.collect();
            let more = if is_full {
                "\nthere may be more conflicts"
            } else {
                ""
            };
            let (number, texts) = (fields.len(), texts.join("\n"));
            format!("Apply failed with {number} conflicts: {texts}{more}")
        }
    };
    let causes = fields.into_iter().zip(owners).map(|(field, owner)| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {owner}"),
        field,
    });
    causes.fold(
        ApiError::status(409, Reason::Conflict, message),
        ApiError::with_cause,
    )
}

/// Returns the fields that a client-side `kubectl apply` has set and that have not changed since.
fn allowed_conflicts(object: &Value, of: Type<'_>) -> FieldSet {
    let annotation = object["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok());
    last.map_or_else(FieldSet::default, |last| {
        let difference = Difference::between(&last, object, of);
        walk::fields_of(&last, of)
            .without(&difference.changed)
            .without(&difference.added)
            .without(&difference.removed)
    })
}

/// Updates the annotation of client-side applies, if the object has one.
fn renew_last_applied(object: &mut Value, config: &Value) {
    let annotation = object
        .pointer_mut("/metadata/annotations")
        .and_then(|of| of.get_mut(LAST_APPLIED));
    if let Some(annotation) =
        annotation.filter(|text| text.as_str().is_some_and(|it| !it.is_empty()))
    {
        let mut config = config.clone();
        let own = config
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut);
        own.map(|annotations| annotations.remove(LAST_APPLIED));
        *annotation = format!("{config}\n").into();
    }
}
