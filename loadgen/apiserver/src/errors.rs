//! The error responses of the API server, with upstream's messages.
//!
//! Clients compare the code, the reason and the causes. Messages appear in Events and conditions.

use std::fmt::Display;

use podstorm_objects::{ApiError, Cause, Details, Kind, ObjectMeta, Reason, ResourceVersion, Uid};

use crate::Places;
use crate::limits::BYTES_MAX;

/// The total size in bytes beyond which no more problems of an object are listed. All problems of a
/// large list would be many times as large as the request.
pub(crate) const CAUSES_BYTES_MAX: usize = BYTES_MAX;
/// The retry delay of errors that have one, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Adds the object's name and the resource of its kind to an error.
fn about(error: ApiError, kind: Kind, name: &str) -> ApiError {
    error.with_details(Details {
        name: name.to_owned(),
        group: kind.group().to_owned(),
        kind: kind.resource().to_owned(),
        ..Details::default()
    })
}

/// A 400: the request is malformed.
pub fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::status(400, Reason::BadRequest, message)
}

/// A 404: no object has this name.
pub fn not_found(kind: Kind, name: &str) -> ApiError {
    let message = format!("{} \"{name}\" not found", kind.group_resource());
    let error = ApiError::status(404, Reason::NotFound, message);
    about(error, kind, name)
}

/// A 400: no kind has this `apiVersion` and `kind`. Clients report it before they send a request.
pub fn no_matches(api_version: &str, kind: &str) -> ApiError {
    let version = api_version.strip_prefix('/').unwrap_or(api_version);
    let message = format!("no matches for kind {kind:?} in version {version:?}");
    ApiError::status(400, Reason::BadRequest, message)
}

/// A 405: objects of the kind have no `/scale`. Clients that know the resource's subresources
/// report it.
pub fn no_scale(kind: Kind) -> ApiError {
    let resource = kind.group_resource();
    let message = format!("{resource} does not implement the scale subresource");
    ApiError::status(405, Reason::new("MethodNotAllowed"), message)
}

/// A 404: the server does not serve the kind, or the kind does not have the subresource.
pub fn unknown_resource() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError::status(404, Reason::NotFound, message).with_details(Details::default())
}

/// A 415: the server does not accept the type of the request's body.
pub fn unsupported(accepted: &str) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         {accepted}"
    );
    ApiError::status(415, Reason::Other("UnsupportedMediaType".into()), message)
}

/// A 409: the name is taken. `terminating` states whether the existing object is being deleted.
pub fn already_exists(kind: Kind, name: &str, terminating: bool) -> ApiError {
    let prefix = if terminating {
        "object is being deleted: "
    } else {
        ""
    };
    let message = format!(
        "{prefix}{} \"{name}\" already exists",
        kind.group_resource()
    );
    let error = ApiError::status(409, Reason::AlreadyExists, message);
    about(error, kind, name)
}

/// A 409: every generated name was taken. `name` is the last attempt.
pub fn name_not_generated(kind: Kind, name: &str) -> ApiError {
    let message = format!(
        "{} \"{name}\" already exists, the server was not able to generate a unique name for the \
         object",
        kind.group_resource()
    );
    let error = ApiError::status(409, Reason::AlreadyExists, message);
    about(error, kind, name).with_retry_after(RETRY_AFTER_SECONDS)
}

/// A 409: the request conflicts with the object's state. `resource` is e.g. `pods/binding`.
pub fn conflict(resource: &str, name: &str, why: &str) -> ApiError {
    let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
    let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
    ApiError::status(409, Reason::Conflict, message).with_details(Details {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..Details::default()
    })
}

/// A 409: the object has a newer version than the writer read.
pub fn stale(kind: Kind, name: &str) -> ApiError {
    let why = "the object has been modified; please apply your changes to the latest version and \
               try again";
    conflict(&kind.group_resource(), name, why)
}

/// A 500: a resource version is not a number. Upstream gives no reason.
pub fn unreadable_version(version: &str) -> ApiError {
    let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
    ApiError::status(500, Reason::Other(String::new()), message)
}

/// A 409: the object has a different UID than the request expects.
pub fn uid_mismatch(resource: &str, name: &str, wanted: &Uid, found: &Uid) -> ApiError {
    let why =
        format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    conflict(resource, name, &why)
}

/// A 409: a `PUT` has a different UID than the object. Upstream's storage adds its key.
pub fn put_uid_mismatch(kind: Kind, object: &ObjectMeta, wanted: &Uid) -> ApiError {
    let found = &object.uid;
    let why = format!("UID in precondition: {wanted}, UID in object meta: {found}");
    stored_otherwise(kind, object, &why)
}

/// A 409: a request has a different version than the object. Upstream's storage adds its key.
pub fn put_version_mismatch(kind: Kind, object: &ObjectMeta, wanted: &ResourceVersion) -> ApiError {
    let found = &object.resource_version;
    let why = format!(
        "ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"
    );
    stored_otherwise(kind, object, &why)
}

fn stored_otherwise(kind: Kind, object: &ObjectMeta, precondition: &str) -> ApiError {
    let prefix = match (kind.group(), kind.resource()) {
        ("", "nodes") => "minions",
        ("", "replicationcontrollers") => "controllers",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        (_, resource) => resource,
    };
    let namespace = match kind.is_namespaced() {
        true => format!("{}/", object.namespace),
        false => String::new(),
    };
    let name = &object.name;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{prefix}/{namespace}{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {precondition}"
    );
    conflict(&kind.group_resource(), name, &why)
}

/// A 409: a deletion expects a different UID than the object's.
pub fn deletion_uid_mismatch(kind: Kind, name: &str, wanted: &Uid, found: &Uid) -> ApiError {
    let why = format!(
        "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The \
         object might have been deleted and then recreated"
    );
    deletion_conflict(kind, name, &why)
}

/// A 409: a deletion expects a different version than the object's.
pub fn deletion_version_mismatch(
    kind: Kind,
    name: &str,
    wanted: impl Display,
    found: impl Display,
) -> ApiError {
    let why = format!(
        "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in \
         record ({found}). The object might have been modified"
    );
    deletion_conflict(kind, name, &why)
}

/// A 409 that contains the kind instead of the resource, as upstream does here.
fn deletion_conflict(kind: Kind, name: &str, why: &str) -> ApiError {
    let resource = match kind.group() {
        "" => kind.name().to_owned(),
        group => format!("{}.{group}", kind.name()),
    };
    conflict(&resource, name, why)
}

/// A 422: the object breaks these rules. The message joins them like upstream's error list.
///
/// # Panics
/// Panics if there are no causes.
pub fn invalid(kind: Kind, name: &str, causes: Vec<Cause>) -> ApiError {
    invalid_of(kind.name(), kind.group(), name, causes)
}

/// Like [`invalid`], for a name and a group instead of a [`Kind`].
///
/// # Panics
/// Panics if there are no causes.
pub fn invalid_of(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> ApiError {
    assert!(
        !causes.is_empty(),
        "an invalid object has at least one cause"
    );
    let text = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
    // The message contains a repeated problem only once.
    let mut texts: Places<String> = Places::default();
    for text in causes.iter().map(text) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let all = match texts.all() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let is_full = causes.iter().map(bytes_of).sum::<usize>() > CAUSES_BYTES_MAX;
    let more = if is_full {
        "; there may be more problems"
    } else {
        ""
    };
    let dot = if group.is_empty() { "" } else { "." };
    let message = format!("{kind}{dot}{group} \"{name}\" is invalid: {all}{more}");
    ApiError::status(422, Reason::Invalid, message).with_details(Details {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        causes,
        ..Details::default()
    })
}

/// Returns the approximate size of a cause in a response, in bytes.
pub(crate) fn bytes_of(cause: &Cause) -> usize {
    const NAMES: usize = 64;
    NAMES + cause.field.len() + cause.message.len()
}

/// A 422: a `PUT` of this kind must contain a version but does not. Upstream names the resource
/// here instead of the kind.
pub fn version_needed(kind: Kind, name: &str) -> ApiError {
    let cause = invalid_value(
        "metadata.resourceVersion",
        &0.into(),
        "must be specified for an update",
    );
    let resource = kind.group_resource();
    let message = format!(
        "{resource} \"{name}\" is invalid: {}: {}",
        cause.field, cause.message
    );
    about(ApiError::status(422, Reason::Invalid, message), kind, name).with_cause(cause)
}

/// A 403: the namespace is being deleted, so nothing can be created in it.
pub fn namespace_terminating(kind: Kind, name: &str, namespace: &str) -> ApiError {
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    forbidden(kind, name, &why).with_cause(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    })
}

/// A 403: quota, authorization or admission refuses the request.
pub fn forbidden(kind: Kind, name: &str, why: &str) -> ApiError {
    let message = format!("{} \"{name}\" is forbidden: {why}", kind.group_resource());
    let error = ApiError::status(403, Reason::Forbidden, message);
    about(error, kind, name)
}

/// A 410: the history no longer reaches back to `version`. `oldest` is the oldest version that is
/// still available.
pub fn expired(version: u64, oldest: u64) -> ApiError {
    let message = format!("too old resource version: {version} ({oldest})");
    ApiError::status(410, Reason::Expired, message)
}

/// A 410: a list can't continue at its version. The token continues the list in the newest state.
///
/// Source: `inconsistentContinue` in `storage/etcd3/errors.go` of Kubernetes' apiserver.
pub fn continue_expired(continue_token: String) -> ApiError {
    let message = "The provided continue parameter is too old to display a consistent list \
                   result. You can start a new list without the continue parameter, or use the \
                   continue token in this response to retrieve the remainder of the results. \
                   Continuing with the provided token results in an inconsistent list - objects \
                   that were created, modified, or deleted between the time the first chunk was \
                   returned and now may show up in the list.";
    ApiError::status(410, Reason::Expired, message).with_details(Details {
        continue_token,
        ..Details::default()
    })
}

/// A 500: the server failed because of a bug.
pub fn internal(problem: impl std::fmt::Display) -> ApiError {
    let message = format!("Internal error occurred: {problem}");
    ApiError::status(500, Reason::InternalError, message)
}

/// A 504: the server has not reached this version yet.
pub fn version_too_large(version: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    ApiError::status(504, Reason::Timeout, message)
        .with_cause(Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        })
        .with_retry_after(RETRY_AFTER_SECONDS)
}

/// A cause of a 422: a required field is missing.
pub fn required(field: impl Into<String>, detail: &str) -> Cause {
    let message = if detail.is_empty() {
        "Required value".to_owned()
    } else {
        format!("Required value: {detail}")
    };
    Cause {
        reason: "FieldValueRequired".into(),
        message,
        field: field.into(),
    }
}

/// A cause of a 422: a field has an invalid value. If `value` is a string, it is quoted.
pub fn invalid_value(field: impl Into<String>, value: &serde_json::Value, detail: &str) -> Cause {
    let colon = if detail.is_empty() { "" } else { ": " };
    let message = format!("Invalid value: {value}{colon}{detail}");
    Cause {
        reason: "FieldValueInvalid".into(),
        message,
        field: field.into(),
    }
}

/// Like [`invalid_value`], where upstream prints the problem in place of the value.
pub fn problem(field: impl Into<String>, problem: &str) -> Cause {
    Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {problem}"),
        field: field.into(),
    }
}

/// A cause of a 422: a field has a value that is not supported.
pub fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Cause {
    not_supported_value(field, format_args!("{value:?}"), supported)
}

/// Like [`not_supported`], for a value that is printed unquoted.
pub fn not_supported_value(
    field: impl Into<String>,
    value: impl Display,
    supported: &[&str],
) -> Cause {
    let supported: Vec<String> = supported.iter().map(|text| format!("{text:?}")).collect();
    let supported = supported.join(", ");
    Cause {
        reason: "FieldValueNotSupported".into(),
        message: format!("Unsupported value: {value}: supported values: {supported}"),
        field: field.into(),
    }
}

/// A cause of a 422: a value that must be unique is repeated.
pub fn duplicate(field: impl Into<String>, value: impl Display) -> Cause {
    Cause {
        reason: "FieldValueDuplicate".into(),
        message: format!("Duplicate value: {value}"),
        field: field.into(),
    }
}

/// A cause of a 422: a field has too many bytes.
pub fn too_long(field: impl Into<String>, bytes_max: impl Display) -> Cause {
    Cause {
        reason: "FieldValueTooLong".into(),
        message: format!("Too long: may not be more than {bytes_max} bytes"),
        field: field.into(),
    }
}

/// A cause of a 422: a list or map has too many entries.
pub fn too_many(field: impl Into<String>, count: usize, most: impl Display) -> Cause {
    Cause {
        reason: "FieldValueTooMany".into(),
        message: format!("Too many: {count}: must have at most {most} items"),
        field: field.into(),
    }
}

/// A cause of a 422: a field may not be set or changed.
pub fn forbidden_field(field: impl Into<String>, detail: &str) -> Cause {
    let message = format!("Forbidden: {detail}");
    Cause {
        reason: "FieldValueForbidden".into(),
        message,
        field: field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_code_reason_and_upstreams_message() {
        let errors = [
            not_found(Kind::POD, "a"),
            not_found(Kind::REPLICA_SET, "a"),
            already_exists(Kind::POD, "a", false),
            already_exists(Kind::POD, "a", true),
            name_not_generated(Kind::POD, "a"),
            stale(Kind::REPLICA_SET, "a"),
            namespace_terminating(Kind::POD, "a", "n"),
            expired(3, 9),
            version_too_large(9, 3),
        ];
        let wanted = r#"
404 pods "a" not found
404 replicasets.apps "a" not found
409 pods "a" already exists
409 object is being deleted: pods "a" already exists
409 pods "a" already exists, the server was not able to generate a unique name for the object
409 Operation cannot be fulfilled on replicasets.apps "a": the object has been modified; please apply your changes to the latest version and try again
403 pods "a" is forbidden: unable to create new content in namespace n because it is being terminated
410 too old resource version: 3 (9)
504 Timeout: Too large resource version: 9, current: 3
"#;
        let found = errors.map(|error| format!("{} {}", error.code, error.message));
        assert_eq!(found.join("\n"), wanted.trim());
        assert!(namespace_terminating(Kind::POD, "a", "n").has_cause("NamespaceTerminating"));
        let taken = name_not_generated(Kind::POD, "a");
        assert_eq!(taken.retry_after_seconds(), Some(1));
    }

    #[test]
    fn an_invalid_error_lists_its_causes() {
        let one = required("metadata.name", "name or generateName is required");
        let two = invalid_value("spec.replicas", &(-1).into(), "must be non-negative");
        let error = invalid(Kind::REPLICA_SET, "a", vec![one.clone()]);
        assert_eq!(
            error.message,
            "ReplicaSet.apps \"a\" is invalid: metadata.name: Required value: name or \
             generateName is required"
        );
        let error = invalid(Kind::POD, "a", vec![one, two]);
        assert_eq!(
            error.message,
            "Pod \"a\" is invalid: [metadata.name: Required value: name or generateName is \
             required, spec.replicas: Invalid value: -1: must be non-negative]"
        );
        assert_eq!(error.causes().len(), 2);
    }
}
