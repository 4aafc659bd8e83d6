//! `serviceaccounts/NAME/token`: a token by which a service account asks the server.
//!
//! Source: `registry/core/serviceaccount/storage/token.go` of Kubernetes.

use http::Response;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Reason, Time};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::credentials::{User, random_token};
use crate::decode::Form;
use crate::reviews::{AUDIENCE, AUTHENTICATION};
use crate::route::Target;
use crate::{Call, body};

/// How long a token is good where the request doesn't say, and the shortest, s.
const USUAL_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
/// The longest, as upstream: 2^32 s.
const MOST_SECONDS: i64 = 1 << 32;

/// Answers a request for a token.
///
/// # Errors
/// 400 for a body that can't be read, 422 for a time that can't be, 404 where there is no such account.
pub(crate) fn create(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let form = Form::Named("io.k8s.api.authentication.v1.TokenRequest");
    let mut document = body::document(call, "TokenRequest", form)?;
    let request = document.members();
    let warnings = body::judge(call, (AUTHENTICATION[1], "TokenRequest"), document)?;
    let spec = request.get("spec").and_then(Value::as_object);
    let spec = spec.cloned().unwrap_or_default();
    let seconds = match spec.get("expirationSeconds").unwrap_or(&Value::Null) {
        Value::Null => USUAL_SECONDS,
        value => value.as_i64().unwrap_or_default(),
    };
    let problem = match seconds {
        ..LEAST_SECONDS => Some("may not specify a duration less than 10 minutes"),
        LEAST_SECONDS..=MOST_SECONDS => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(problem) = problem {
        return Err(invalid(seconds, problem));
    }
    let (namespace, name) = (&target.namespace, &target.name);
    let account = call.cluster().api(target.kind).get(namespace, name)?;
    let uid = account.metadata().uid.to_string();
    let audiences = audiences(&spec);
    let token = random_token()
        .map_err(|error| ApiError::status(500, Reason::InternalError, error.to_string()))?;
    let expires_ns = call.now.mono_ns.saturating_add(seconds * 1_000_000_000);
    let dry_run = call.query.dry_run("CreateOptions")?;
    if !dry_run && audiences.iter().any(|one| one == AUDIENCE) {
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.clone(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
        };
        let credentials = call.server.credentials();
        credentials.issue(&token, user, expires_ns, call.now.mono_ns);
    }
    let now = call.now.wall();
    let expires = now.unix_seconds().unwrap_or_default() + seconds;
    let bound = spec.get("boundObjectRef").cloned().unwrap_or_default();
    let document = json!({"kind": "TokenRequest", "apiVersion": AUTHENTICATION[1],
        "metadata": {"name": name, "namespace": namespace, "uid": uid,
            "creationTimestamp": now.to_string()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
        "status": {"token": token,
            "expirationTimestamp": Time::from_unix_seconds(expires).to_string()}});
    let mut response = answer::document(201, call.accepted.form, &document);
    answer::warn(&mut response, &warnings);
    Ok(response)
}

/// Whom the token is for: the server unless the request says otherwise.
fn audiences(spec: &Map<String, Value>) -> Vec<Value> {
    let asked = spec.get("audiences").and_then(Value::as_array);
    match asked {
        Some(asked) if !asked.is_empty() => asked.clone(),
        _ => vec![AUDIENCE.into()],
    }
}

fn invalid(seconds: i64, problem: &str) -> ApiError {
    let field = "spec.expirationSeconds";
    let cause = errors::invalid_value(field, &seconds.into(), problem);
    errors::invalid_of(("TokenRequest", AUTHENTICATION[0]), "", vec![cause])
}
