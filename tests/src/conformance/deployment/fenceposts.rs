//! Cases of `deployment_fenceposts`: `maxSurge` and `maxUnavailable`.

use podstorm::deployment::sizes::{fenceposts, max_surge, max_unavailable};
use serde_json::json;

use crate::conformance::Fields;

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(json!({"spec": {
        "replicas": case.int("replicas")?,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": case.value("maxSurge"), "maxUnavailable": case.value("maxUnavailable")}},
    }}))?;
    let limits = deployment.spec.strategy.rolling_update.clone();
    let limits = limits.unwrap_or_default();
    let (surge, unavailable) = (limits.max_surge.as_ref(), limits.max_unavailable.as_ref());
    let resolved = fenceposts(surge, unavailable, deployment.replicas());
    let error = resolved.as_ref().err().map(ToString::to_string);
    let resolved = resolved.unwrap_or_default();
    case.object("out")?.is(json!({
        "error": error, "surge": resolved.surge, "unavailable": resolved.unavailable,
        "controllerMaxSurge": max_surge(&deployment),
        "controllerMaxUnavailable": max_unavailable(&deployment),
    }))
}
