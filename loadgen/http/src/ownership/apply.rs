//! Server-side apply: the result of applying a configuration, and conflicts with other owners.

use std::collections::BTreeMap;

use podstorm_apiserver::errors;
use podstorm_apiserver::limits::Listed;
use podstorm_objects::{ApiError, Cause, Kind, Object, Reason};
use serde_json::{Map, Value};

use super::owners::{Application, Conflict, Owners};
use super::schema::{Type, schema_of};
use super::set::FieldSet;
use super::walk::{self, Difference};
use super::{MANAGED, Writer, ignored, owners_of, plain, replicas_way, without_owners};
use crate::decode::{self, By, Form};
use crate::{answer, view};

/// The annotation with the last configuration that a client-side `kubectl apply` wrote.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that may take over the fields of its client-side applies.
const KUBECTL: &str = "kubectl";

/// Formats an `apiVersion` as Go does, with a slash even if the group is empty.
pub(crate) fn with_group(api_version: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}")
}

impl Writer<'_> {
    /// Applies a configuration to the stored object, if there is one, and returns the result.
    ///
    /// # Errors
    /// 500, as in upstream, if the configuration does not fit its kind or its result is not a valid
    /// object; 409 if it changes fields of other managers.
    pub(crate) fn applied(
        &self,
        config: &Map<String, Value>,
        stored: Option<&dyn Object>,
        force: bool,
    ) -> Result<Map<String, Value>, ApiError> {
        let schema = schema_of(self.kind);
        let of = Type::from_schema(&schema);
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
            let of = Type::from_schema(&schema);
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
        // Normalize to the stored form. Unknown members have already been rejected.
        let mut read = decode::tree(members.into(), Form::Kind(self.kind), By::Conversion);
        let members = read.members();
        match read.wrong {
            None => Ok(members),
            Some(problem) => {
                let of = identity(self.kind, &config);
                let why = format!("failed to convert new object ({of}) to proper version");
                Err(answer::unclassified(format!("{why}: {problem}")))
            }
        }
    }
}

impl Writer<'_> {
    /// Checks that a scale may be applied.
    ///
    /// # Errors
    /// 409 if the number of replicas differs from the stored one and has other owners.
    pub(crate) fn check_scale(&self, stored: &dyn Object, replicas: i32) -> Result<(), ApiError> {
        let way = replicas_way(self.kind);
        let json = stored.to_json();
        let found = way.iter().try_fold(&json, |value, name| value.get(name));
        if found == Some(&replicas.into()) {
            return Ok(());
        }
        let applier = self.owner();
        let owners = owners_of(stored).unwrap_or_default();
        let others = owners.of_path(&way).filter(|owner| **owner != applier);
        let conflicts: Vec<Conflict> = others.map(|owner| owner.conflict(&way)).collect();
        match conflicts.is_empty() {
            true => Ok(()),
            false => Err(conflict(&conflicts)),
        }
    }
}

/// Checks the members of a configuration against the schema of its kind.
///
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
    Err(answer::unclassified(why))
}

/// Returns the string that names a configuration's object in messages.
fn identity(kind: Kind, config: &Value) -> String {
    let metadata = |member: &str| config["metadata"][member].as_str().unwrap_or("").to_owned();
    let (namespace, name) = (metadata("namespace"), metadata("name"));
    let version = with_group(kind.api_version());
    format!("{namespace}/{name}; {version}, Kind={}", kind.name())
}

/// Returns a 409: an apply would change fields of other managers. The message names as many of the
/// fields as can be [listed](Listed).
fn conflict(conflicts: &[Conflict]) -> ApiError {
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

/// Returns the fields that a client-side `kubectl apply` set and that have not changed since.
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

/// Updates the annotation of client-side applies if the object has it.
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
