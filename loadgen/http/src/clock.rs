//! `/podstorm/clock`: shows the cluster's time, and advances it if it is virtual.

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Now, Reason};
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::time::ADVANCE_MAX_SECONDS;

/// Serves `/podstorm/clock`.
pub(crate) fn show(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    match [Method::GET, Method::HEAD].contains(call.method) {
        true => Ok(document(call.server.0.virtual_time.is_some(), call.now)),
        false => Err(answer::method_not_allowed()),
    }
}

pub(crate) fn document(is_virtual: bool, now: Now) -> Response<Body> {
    let micros = now.wall_ns.rem_euclid(1_000_000_000) / 1000;
    let second = now.wall().to_string();
    let text = format!("{}.{micros:06}Z", second.trim_end_matches('Z'));
    let document = json!({"now": text, "seconds": now.mono_ns as f64 / 1e9, "virtual": is_virtual});
    answer::json(200, document.to_string())
}

/// Returns the number of ns by which a request for `/podstorm/clock/advance` advances the time.
///
/// # Errors
/// 405 if the method is not `POST`, or if the time is not virtual; 400 if the body has no valid
/// number of seconds.
pub(crate) fn advance_ns(method: &Method, is_virtual: bool, body: &[u8]) -> Result<i64, ApiError> {
    if method != Method::POST {
        return Err(answer::method_not_allowed());
    }
    if !is_virtual {
        let why = "this cluster runs in real time; only virtual time can be advanced (`loadgen \
                   serve --engine virtual`)";
        let reason = Reason::Other("MethodNotAllowed".into());
        return Err(ApiError::status(405, reason, why));
    }
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let seconds = document["seconds"].as_f64();
    match seconds.filter(|seconds| (0.0..=ADVANCE_MAX_SECONDS).contains(seconds)) {
        Some(seconds) => Ok((seconds * 1e9).round() as i64),
        None => Err(errors::bad_request(format!(
            "the body must be {{\"seconds\": N}} with a number from 0 to {ADVANCE_MAX_SECONDS}"
        ))),
    }
}
