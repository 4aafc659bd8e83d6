//! Reviews: the identity and the permissions of a request's sender. Everything is allowed.
//!
//! Source: `registry/authentication` and `registry/authorization` of Kubernetes; recorded answers
//! of 1.36.

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind};
use serde_json::{Value, json};

use crate::account_tokens::ISSUER;
use crate::account_users::Authenticated;
use crate::answer::{self, Body};
use crate::call::Call;
use crate::credentials::NotAuthenticated;
use crate::decode::Form;
use crate::media::Shape;
use crate::unstored::AUTHORIZATION;
use crate::{body, pod_requests, shape, table};

/// Serves a review. `namespace` is empty except for a `LocalSubjectAccessReview`.
///
/// # Errors
/// 405 for any method except `POST`; 400 and 422 for an invalid review.
pub(crate) fn serve(
    call: &Call<'_>,
    kind: Kind,
    namespace: &str,
) -> Result<Response<Body>, ApiError> {
    if *call.method != Method::POST {
        return Err(answer::method_not_allowed());
    }
    if kind.name() == "Binding" {
        return pod_requests::bind(call, namespace, None);
    }
    let mut document = body::document(call, kind.name(), Form::Kind(kind))?;
    let mut review = document.members();
    body::check_type(kind, &review)?;
    let warnings = body::judge(call, kind.api_version(), kind.name(), document)?;
    let metadata = review.remove("metadata").filter(Value::is_object);
    let mut metadata = metadata.unwrap_or_else(|| json!({}));
    let spec = review.remove("spec").filter(Value::is_object);
    let mut spec = spec.unwrap_or_else(|| json!({}));
    let status = match kind.name() {
        "SelfSubjectReview" => {
            metadata["creationTimestamp"] = call.now.wall().to_string().into();
            json!({"userInfo": call.user.to_json()})
        }
        "TokenReview" => token(call, &spec)?,
        "SelfSubjectRulesReview" => {
            if spec["namespace"].as_str().unwrap_or("").is_empty() {
                return Err(errors::bad_request("no namespace on request"));
            }
            spec = json!({});
            json!({"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false})
        }
        _ => {
            check_attributes(kind, namespace, &spec)?;
            json!({"allowed": true})
        }
    };
    let mut document = json!({"kind": kind.name(), "apiVersion": kind.api_version(),
        "metadata": metadata, "status": status});
    if kind.name() != "SelfSubjectReview" {
        document["spec"] = spec;
    }
    let document = match call.accepted.shape {
        Shape::Metadata(version) => table::metadata_alone(kind, &document, version),
        Shape::MetadataList(_) => return Err(shape::is_no_list()),
        _ => document,
    };
    let response = answer::document(201, call.accepted.form, &document);
    Ok(answer::warned(response, &warnings))
}

/// Returns the status of a token review, with the user of the token.
fn token(call: &Call<'_>, spec: &Value) -> Result<Value, ApiError> {
    let token = spec["token"].as_str().unwrap_or("");
    if token.is_empty() {
        let why = "token is required for TokenReview in authentication";
        return Err(errors::bad_request(why));
    }
    let asked = spec["audiences"].as_array().into_iter().flatten();
    let asked: Vec<&str> = asked.filter_map(Value::as_str).collect();
    let audiences = match &*asked {
        [] => &[ISSUER],
        asked => asked,
    };
    Ok(match call.server.authenticate(token, audiences) {
        Ok(Authenticated { user, audiences }) => {
            json!({"authenticated": true, "user": user.to_json(), "audiences": audiences})
        }
        Err(NotAuthenticated::Unknown) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(NotAuthenticated::Invalid(why)) => {
            json!({"user": {}, "error": format!("[invalid bearer token, {why}]")})
        }
    })
}

/// Checks that an access review is valid and names a user and an action.
fn check_attributes(kind: Kind, namespace: &str, spec: &Value) -> Result<(), ApiError> {
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut causes = Vec::new();
    match (resource.is_null(), other.is_null()) {
        (false, false) => causes.push(errors::invalid_value(
            "spec.nonResourceAttributes",
            other,
            "cannot be specified in combination with resourceAttributes",
        )),
        (true, true) => causes.push(errors::invalid_value(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let names_nobody = |member: &str| {
        let value = &spec[member];
        value.as_array().is_none_or(Vec::is_empty) && value.as_str().is_none_or(str::is_empty)
    };
    if kind.name() != "SelfSubjectAccessReview" && names_nobody("user") && names_nobody("groups") {
        let why = "at least one of user or group must be specified";
        causes.push(errors::invalid_value("spec.user", &"".into(), why));
    }
    if !causes.is_empty() {
        // Sic: upstream names the group and leaves the kind empty.
        return Err(errors::invalid_of("", AUTHORIZATION[0], "", causes));
    }
    if kind.is_namespaced() && resource["namespace"] != namespace {
        return Err(errors::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    Ok(())
}
