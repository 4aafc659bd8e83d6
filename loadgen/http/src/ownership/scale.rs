//! Server-side apply of `/scale`: the applier owns the number of replicas.

use podstorm_apiserver::{Scale, ScaleUpdate, errors};
use podstorm_objects::ApiError;
use serde_json::Value;

use super::apply::{
    check_config, check_doubled, conflict, not_applied, read_config, require_manager,
};
use super::owners::Conflict;
use super::{Writer, owners_of, replicas_way};
use crate::decode::{self, By, SCALE};
use crate::route::Target;
use crate::{Call, view};

/// Applies the Scale in the body, and returns the result.
pub(crate) fn apply_scale(call: &Call<'_>, target: &Target) -> Result<Scale, ApiError> {
    let writer = Writer::applying(call, target)?;
    require_manager(call)?;
    let dry_run = call.query.dry_run("PatchOptions")?;
    let (config, doubled) = read_config(call)?;
    check_config(("autoscaling/v1", "Scale", &target.name), &config)?;
    let mut read = decode::tree(config.into(), SCALE, By::Conversion);
    let config = read.members();
    if let Some(problem) = read.wrong {
        let why = format!("failed to create typed patch object: {problem}");
        return Err(not_applied(&why));
    }
    check_doubled(call, &doubled)?;
    let replicas = config.get("spec").and_then(|spec| spec.get("replicas"));
    let replicas = replicas
        .and_then(Value::as_i64)
        .and_then(|number| i32::try_from(number).ok());
    let replicas = replicas.ok_or_else(|| {
        errors::bad_request("spec.replicas of an applied Scale must be an integer")
    })?;
    let api = call
        .cluster()
        .api(view::stored_kind(target.kind))
        .dry_run(dry_run);
    let api = api.managed_by(&writer);
    let (namespace, name) = (&target.namespace, &target.name);
    loop {
        let stored = api.get(namespace, name)?;
        let way = replicas_way(target.kind);
        let json = stored.to_json();
        let found = way.iter().try_fold(&json, |value, name| value.get(name));
        let is_same = found == Some(&replicas.into());
        if !is_same && !call.query.flag("force") {
            let applier = writer.owner();
            let owners = owners_of(&*stored).unwrap_or_default();
            let others = owners.of_path(&way).filter(|owner| **owner != applier);
            let conflicts: Vec<Conflict> = others.map(|owner| owner.conflict(&way)).collect();
            if !conflicts.is_empty() {
                return Err(conflict(&conflicts));
            }
        }
        let update = ScaleUpdate {
            replicas,
            uid: None,
            resource_version: Some(stored.metadata().resource_version.clone()),
        };
        match api.update_scale(namespace, name, &update, call.now) {
            // Another write came first: retry.
            Err(error) if error.code == 409 => {}
            scaled => return scaled,
        }
    }
}
