//! Cases of `claim`: adoption and release of pods, one patch at a time.

use std::sync::Arc;

use podstorm::claim::{Claim, ClaimStep};
use podstorm::client::{ApiError, Reason};
use podstorm::object::{Kind, Selector};
use serde_json::{Value, json};

use super::Fields;
use super::shared::{pod, workload};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let workload = workload(Kind::REPLICA_SET, case.value("replicaSet"))?;
    let pods = case.all("pods", pod)?;
    let can_adopt = case.text("canAdopt")?;
    let results = case.object("patchResults")?.rest();
    let owner = Arc::new(Kind::REPLICA_SET.controller_reference(&workload.metadata));
    let selector =
        Selector::compile(workload.spec.selector.as_deref()).map_err(|error| error.to_string())?;
    let mut claim = Claim::new(&workload.metadata, owner, pods, |pod| {
        selector.matches(&pod.metadata.labels)
    });
    let mut patches = Vec::new();
    let mut checks = 0;
    loop {
        match claim.step() {
            ClaimStep::Finished => break,
            ClaimStep::ReadOwner => {
                checks += 1;
                claim.adoption_checked(match can_adopt.as_str() {
                    "ok" => Ok(()),
                    _ => Err("can't adopt".to_owned()),
                });
            }
            ClaimStep::Patch(pod, patch) => {
                patches.push(json!({"name": pod.metadata.name.as_str(), "body": patch.body()}));
                let answer = match results.get(&*pod.metadata.name).and_then(Value::as_str) {
                    None => Ok(()),
                    Some("notFound") => Err(ApiError::status(404, Reason::NotFound, "gone")),
                    Some("invalid") => Err(ApiError::status(422, Reason::Invalid, "invalid")),
                    Some("conflict") => Err(ApiError::status(409, Reason::Conflict, "conflict")),
                    Some("error") => Err(ApiError::transport("error")),
                    Some(other) => return Err(format!("unknown patch result {other:?}")),
                };
                claim.patched(answer.as_ref().copied());
            }
        }
    }
    let claimed = claim.claimed().iter();
    let claimed: Value = claimed.map(|pod| pod.metadata.name.as_str()).collect();
    case.sent("patches", patches.into())?;
    let errors = claim.errors().len();
    case.is(json!({"claimed": claimed, "canAdoptCalls": checks, "errors": errors}))
}
