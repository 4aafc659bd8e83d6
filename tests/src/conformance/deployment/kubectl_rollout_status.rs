//! Cases of `deployment_kubectl_rollout_status`: `kubectl rollout status` on one object.

use podstorm::deployment::rollout::rollout_status;
use serde_json::json;

use crate::conformance::Fields;

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(case.value("deployment"))?;
    let ours = rollout_status(&deployment, case.int("revision")?);
    let ours = match ours {
        Ok(status) => json!({"message": status.message + "\n", "done": status.done}),
        Err(error) => json!({"error": error.to_string()}),
    };
    case.object("out")?.is(ours)
}
