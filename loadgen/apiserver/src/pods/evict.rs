//! Eviction of pods.

use podstorm_objects::{ApiError, Kind, Now, Time};
use serde_json::{Map, Value, json};

use crate::{Cluster, DeleteOptions, Patch};

impl Cluster {
    /// Evicts a pod: marks it as disrupted, then deletes it. No disruption budget is asked, as the
    /// cluster stores none yet.
    ///
    /// # Errors
    /// As [`delete`](Cluster::delete).
    ///
    /// Source: `EvictionREST.Create` of Kubernetes' `pkg/registry/core/pod/storage`.
    pub fn evict(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        dry_run: bool,
        now: Now,
    ) -> Result<(), ApiError> {
        let api = self.api(Kind::POD).dry_run(dry_run);
        // The preconditions hold for the pod as it is before it is marked.
        api.dry_run(true).delete(namespace, name, options, now)?;
        let mut options = options.clone();
        if !dry_run {
            let marked = api.patch_status(namespace, name, &disrupted(now.wall()), now)?;
            if options.precondition_rv.is_some() {
                options.precondition_rv = Some(marked.metadata().resource_version.clone());
            }
        }
        api.delete(namespace, name, &options, now).map(drop)
    }
}

fn disrupted(at: Time) -> Patch {
    let condition = json!({"type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        "lastTransitionTime": at.to_string()});
    let mut status = Map::new();
    status.insert("conditions".into(), Value::Array(vec![condition]));
    let mut patch = Map::new();
    patch.insert("status".into(), Value::Object(status));
    Patch::Strategic(patch)
}
