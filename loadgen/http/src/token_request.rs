//! `serviceaccounts/NAME/token`: tokens for service accounts, issued on request.
//!
//! Source: `registry/core/serviceaccount/storage/token.go` of Kubernetes.

use http::Response;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, ObjectMeta, Pod, Reason, Time};
use serde_json::{Map, Value, json};

use crate::account_tokens::{Bound, Claims, ISSUER, Lasting, token_id};
use crate::answer::{self, Body};
use crate::body;
use crate::call::Call;
use crate::decode::Form;
use crate::route::Target;
use crate::unstored::AUTHENTICATION;

/// The default and the minimum validity of a token in seconds.
const USUAL_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
/// The maximum validity of a token in seconds, as in upstream: 2^32.
const MOST_SECONDS: i64 = 1 << 32;

/// The validity in seconds that kubelets request for the tokens of pods. Such a token is valid for
/// a year, because programs may not reload it; its use after the requested expiry causes a warning.
///
/// Source: `WarnOnlyBoundTokenExpirationPeriod` and `ExpirationExtensionSeconds` of Kubernetes'
/// `pkg/serviceaccount`.
const OF_PODS_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// Serves a token request.
///
/// # Errors
/// 400 if the body cannot be decoded, or names an object of a kind that a token cannot be bound to;
/// 404 if the service account or the object does not exist; 409 if the object has a different UID;
/// 422 for an invalid validity, or for a service account other than the path's.
pub(crate) fn create(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let form = Form::Named("io.k8s.api.authentication.v1.TokenRequest");
    let mut document = body::document(call, "TokenRequest", form)?;
    let request = document.members();
    let warnings = body::judge(call, AUTHENTICATION[1], "TokenRequest", document)?;
    let (namespace, name) = (&target.namespace, &target.name);
    check_names(&request, target)?;
    let account = call.cluster().api(target.kind).get(namespace, name)?;
    let account = account.metadata();
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
        let field = "spec.expirationSeconds";
        return Err(invalid(
            "",
            errors::invalid_value(field, &seconds.into(), problem),
        ));
    }
    let reference = spec.get("boundObjectRef").cloned().unwrap_or_default();
    let audiences = audiences(&spec);
    let now = call.now.wall();
    let from = now.unix_seconds().unwrap_or_default();
    let claims = Claims {
        namespace: namespace.clone(),
        account: Bound::to(account),
        audiences: audiences.clone(),
        lasts: Some(Lasting {
            from,
            until: from + seconds,
        }),
        id: token_id().ok_or_else(unsigned)?,
        ..bound(call, target, &reference)?
    };
    let claims = extended(claims, seconds);
    let key = call.server.token_key().ok_or_else(unsigned)?;
    let token = key.sign(&claims.to_json()).ok_or_else(unsigned)?;
    let document = json!({"kind": "TokenRequest", "apiVersion": AUTHENTICATION[1],
        "metadata": {"name": name, "namespace": namespace, "uid": account.uid.to_string(),
            "creationTimestamp": now.to_string()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": token,
            "expirationTimestamp": Time::from_unix_seconds(from + seconds).to_string()}});
    let response = answer::document(201, call.accepted.form, &document);
    Ok(answer::warned(response, &warnings))
}

/// Checks the names in a request against the path.
///
/// # Errors
/// 422 if the request names a service account other than the path's.
fn check_names(request: &Map<String, Value>, target: &Target) -> Result<(), ApiError> {
    for (member, at) in [("name", &target.name), ("namespace", &target.namespace)] {
        let named = request
            .get("metadata")
            .and_then(|it| it.get(member)?.as_str());
        if let Some(named) = named.filter(|named| !named.is_empty() && *named != at.as_str()) {
            let field = format!("metadata.{member}");
            let why = format!("must match the service account {member} if specified");
            let cause = errors::invalid_value(&field, &named.into(), &why);
            return Err(invalid(&target.name, cause));
        }
    }
    Ok(())
}

/// Returns claims that contain only the object to which the token is bound.
///
/// # Errors
/// 404 if the object does not exist; 400 for a pod of another service account, and for kinds other
/// than Pod, Secret and Node; 409 if the object has a different UID.
fn bound(call: &Call<'_>, target: &Target, reference: &Value) -> Result<Claims, ApiError> {
    let mut claims = Claims::default();
    if !reference.is_object() {
        return Ok(claims);
    }
    let text = |member: &str| reference[member].as_str().unwrap_or("");
    let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let (namespace, cluster) = (&*target.namespace, call.cluster());
    let found = |kind: Kind, namespace: &str| cluster.api(kind).get(namespace, name);
    let object = match (group, kind) {
        ("", "Pod") => {
            let found = found(Kind::POD, namespace)?;
            let pod = found.downcast_ref::<Pod>();
            let of_pod = pod.and_then(|pod| pod.spec.get("serviceAccountName"));
            if of_pod.as_ref().and_then(Value::as_str).unwrap_or("") != target.name {
                return Err(errors::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different \
                     serviceaccount name.",
                    target.name
                )));
            }
            claims.pod = Some(Bound::to(found.metadata()));
            if let Some(node) = pod.and_then(|pod| pod.node_name.as_deref()) {
                claims.node = Some(match cluster.api(Kind::NODE).get("", node) {
                    Ok(found) => Bound::to(found.metadata()),
                    Err(_) => Bound {
                        name: node.to_owned(),
                        uid: String::new(),
                    },
                });
            }
            found
        }
        ("", "Secret") => {
            let found = found(Kind::SECRET, namespace)?;
            claims.secret = Some(Bound::to(found.metadata()));
            found
        }
        ("", "Node") => {
            let found = found(Kind::NODE, "")?;
            claims.node = Some(Bound::to(found.metadata()));
            found
        }
        _ => {
            return Err(errors::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    check_uid(object.metadata(), kind, text("uid"))?;
    Ok(claims)
}

/// Checks the UID in the reference to the bound object, if there is one.
///
/// # Errors
/// 409 if the reference's UID differs from the object's.
fn check_uid(object: &ObjectMeta, kind: &str, uid: &str) -> Result<(), ApiError> {
    if uid.is_empty() || object.uid.to_string() == uid {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object \
         might have been deleted and then recreated"
    );
    Err(errors::conflict(kind, &object.name, &why))
}

/// Extends the validity of a token requested for `seconds`, if it is a pod's token for this server.
fn extended(mut claims: Claims, seconds: i64) -> Claims {
    let is_of_pod = claims.pod.is_some() && seconds == OF_PODS_SECONDS;
    if is_of_pod
        && claims.audiences == [ISSUER]
        && let Some(lasts) = &mut claims.lasts
    {
        claims.warn_after = Some(lasts.until);
        lasts.until = lasts.from + EXTENDED_SECONDS;
    }
    claims
}

/// Returns the audiences of a token: those that were requested, or this server.
fn audiences(spec: &Map<String, Value>) -> Vec<String> {
    let asked = spec.get("audiences").and_then(Value::as_array);
    let asked = asked.into_iter().flatten().filter_map(Value::as_str);
    let asked: Vec<String> = asked.map(str::to_owned).collect();
    match asked.is_empty() {
        true => vec![ISSUER.to_owned()],
        false => asked,
    }
}

fn invalid(name: &str, cause: podstorm_objects::Cause) -> ApiError {
    errors::invalid_of("TokenRequest", AUTHENTICATION[0], name, vec![cause])
}

fn unsigned() -> ApiError {
    let why = "cannot sign a token: the system has no random numbers";
    ApiError::status(500, Reason::InternalError, why)
}
