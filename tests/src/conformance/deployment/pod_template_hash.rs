//! Cases of `deployment_pod_template_hash`: from template to hash and name.

use podstorm::deployment::template::{pod_template_dump, pod_template_hash, replica_set_name};

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
    let bytes = i64::try_from(dump.len()).expect("no dump is that long");
    expect_eq("dumpBytes", &bytes, &out.int("dumpBytes")?)?;
    expect_eq(
        "dumpFnv1a32",
        &fnv1a(&dump).into(),
        &out.int("dumpFnv1a32")?,
    )?;
    let hash = pod_template_hash(&template, collision_count);
    expect_eq("hash", &hash.as_str(), &&*out.text("hash")?)?;
    let name = replica_set_name(&name, &hash);
    expect_eq("name", &name.as_str(), &&*out.text("replicaSetName")?)?;
    out.finish()
}

fn fnv1a(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    text.bytes().fold(2_166_136_261, step)
}
