//! What clients are warned of because of the kind alone, whatever the answer is.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::query::Query;
use crate::route::Route;

const ENDPOINTS: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const JOB: &str = "child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                   suppress this warning";

/// The warnings of a request for objects: of a deprecated kind, and of a Job that is deleted without a word
/// on its pods.
pub(crate) fn of(route: &Route, method: &Method, query: &Query<'_>, body: &Bytes) -> Vec<String> {
    let Route::Objects(target) = route else {
        return Vec::new();
    };
    let is_whole = target.subresource.is_empty();
    let warning = match (target.kind.group(), target.kind.resource()) {
        ("", "endpoints") if is_whole => ENDPOINTS,
        ("batch", "jobs") if method == Method::DELETE && is_whole && !says_of_pods(query, body) => {
            JOB
        }
        _ => return Vec::new(),
    };
    vec![warning.to_owned()]
}

/// Whether a deletion says what becomes of the dependents.
fn says_of_pods(query: &Query<'_>, body: &Bytes) -> bool {
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    ["propagationPolicy", "orphanDependents"]
        .into_iter()
        .any(|member| query.has(member) || !options[member].is_null())
}
