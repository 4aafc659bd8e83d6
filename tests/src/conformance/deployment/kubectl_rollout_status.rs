//! Cases of `deployment_kubectl_rollout_status`: `kubectl rollout status` on one object.

use podstorm::deployment::rollout::rollout_status;

use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(case.value("deployment"))?;
    let ours = rollout_status(&deployment, case.int("revision")?);
    let mut out = case.object("out")?;
    let (message, done, error) = match ours {
        Ok(status) => (status.message + "\n", status.done, String::new()),
        Err(error) => (String::new(), false, error.to_string()),
    };
    expect_eq("message", &message, &out.text("message")?)?;
    expect_eq("done", &done, &out.flag("done")?)?;
    expect_eq("error", &error, &out.text("error")?)?;
    out.finish()
}
