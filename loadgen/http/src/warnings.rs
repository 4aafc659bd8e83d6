//! Warnings to clients about requests.

use bytes::Bytes;
use http::Method;
use podstorm_apiserver::warnings_of;
use serde_json::Value;

use crate::query::Query;
use crate::route::Route;

/// Returns the warning about a request, if there is one: the kind is deprecated, or an object is
/// deleted and the request does not state what happens to its dependents.
pub(crate) fn of_request(
    route: &Route,
    method: &Method,
    query: &Query<'_>,
    body: &Bytes,
) -> Option<&'static str> {
    let Route::Objects(target) = route else {
        return None;
    };
    let of_kind = warnings_of(target.kind);
    let (mut warning, on_deletion) = (of_kind.deprecation, of_kind.undecided_deletion);
    let is_deletion = *method == Method::DELETE && target.subresource.is_empty();
    if is_deletion && !on_deletion.is_empty() && !says_of_dependents(query, body) {
        warning = on_deletion;
    }
    (!warning.is_empty()).then_some(warning)
}

/// Reports whether a deletion states what happens to the dependents.
fn says_of_dependents(query: &Query<'_>, body: &Bytes) -> bool {
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    ["propagationPolicy", "orphanDependents"]
        .into_iter()
        .any(|member| query.has(member) || !options[member].is_null())
}
