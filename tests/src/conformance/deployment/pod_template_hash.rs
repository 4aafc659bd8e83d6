//! Cases of `deployment_pod_template_hash`: the hash of a template and the name that contains it.

use podstorm::template::{pod_template_dump, pod_template_hash, replica_set_name};
use serde_json::json;

use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("kind")?;
    let (template, _) = super::template(case.value("template"))?;
    let collision_count = case.opt_int("collisionCount")?;
    let collision_count = collision_count.map(i32::try_from).transpose();
    let collision_count = collision_count.map_err(|error| error.to_string())?;
    let name = case.text("deploymentName")?;
    let mut out = case.object("out")?;

    let dump = pod_template_dump(&template);
    if let Some(recorded) = out.take("dump") {
        expect_eq("dump", &dump.as_str().into(), &recorded)?;
    }
    let hash = pod_template_hash(&template, collision_count);
    out.is(json!({
        "dumpBytes": dump.len(), "dumpFnv1a32": fnv1a(&dump), "hash": hash.as_str(),
        "replicaSetName": replica_set_name(&name, &hash).as_str(),
    }))
}

fn fnv1a(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    text.bytes().fold(2_166_136_261, step)
}
