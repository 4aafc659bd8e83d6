//! Cases of `deployment_new_rs_replicas`: the size of the new ReplicaSet.

use podstorm::deployment::sizes::new_replica_set_size;
use serde_json::json;

use crate::conformance::Fields;

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(json!({"spec": {
        "replicas": case.int("replicas")?,
        "strategy": {"type": case.text("strategy")?,
            "rollingUpdate": {"maxSurge": case.value("maxSurge")}},
    }}))?;
    let size = |number: i64| i32::try_from(number).map_err(|error| error.to_string());
    let new_size = size(case.int("newSize")?)?;
    let old_sizes = case.all("oldSizes", |it| size(it.as_i64().unwrap_or(i64::MAX)))?;
    let sizes_sum = old_sizes.into_iter().fold(new_size, i32::wrapping_add);
    let ours = new_replica_set_size(&deployment, sizes_sum, new_size);
    let error = ours.as_ref().err().map(ToString::to_string);
    case.object("out")?
        .is(json!({"error": error, "newSize": ours.unwrap_or(0)}))
}
