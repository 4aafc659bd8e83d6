//! Cases of `deployment_annotations`: the revision and the annotations of the newest ReplicaSet.

use podstorm::deployment::set_annotations;
use podstorm::object::Labels;
use serde_json::json;

use crate::conformance::Fields;

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(json!({
        "metadata": {"annotations": case.value("deploymentAnnotations")},
        "spec": {"replicas": case.value("replicas"), "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": case.value("maxSurge"), "maxUnavailable": 1}}},
    }))?;
    let read = |value| Labels::from_json(value).map_err(|error| error.to_string());
    let mut annotations = read(case.value("replicaSetAnnotations"))?;
    let revision = case.text("newRevision")?;
    let revision = revision
        .parse()
        .map_err(|_| format!("revision {revision}"))?;
    let exists = case.flag("exists")?;
    let most = usize::try_from(case.int("historyLimitChars")?).map_err(|it| it.to_string())?;
    let changed = set_annotations(&deployment, &mut annotations, revision, exists, most);
    case.object("out")?
        .is(json!({"changed": changed, "replicaSetAnnotations": annotations.to_json()}))
}
