//! The update or creation of a Deployment's newest ReplicaSet.
//!
//! Source: `getAllReplicaSetsAndSyncRevision` and `getNewReplicaSet` in Kubernetes'
//! `pkg/controller/deployment`.

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Labels, ObjectMeta, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Rest,
};
use podstorm_runtime::client::{EventType, Reason};
use podstorm_runtime::driver::SyncFailure;

use super::annotations::REVISION;
use super::conditions::{
    CREATE_FAILED, CREATED, FOUND, PROGRESSING, condition, find, progress_deadline,
};
use super::limits::REVISION_HISTORY_BYTES_MAX;
use super::revisions::set_annotations;
use super::sizes::new_replica_set_size;
use super::sync::{DeploymentSync, Set, Sets, SyncStep};
use crate::template::{
    HASH_LABEL, TemplateForm, pod_template_hash, replica_set_name, same_template, with_hash_label,
};

impl DeploymentSync<'_> {
    /// Updates the newest ReplicaSet or, if there is none and `creates` is set, creates it. Returns
    /// all ReplicaSets. Like upstream, every call starts from the ReplicaSets that the sync
    /// claimed.
    pub(super) async fn sync_revision(&mut self, creates: bool) -> Result<Sets, SyncFailure> {
        let Sets { new, old } = self.claimed.clone();
        let new = match new {
            Some(new) => Some(self.update_new(new, self.new_revision).await?),
            None if creates => Some(self.create_new(&old, self.new_revision).await?),
            None => None,
        };
        Ok(Sets { new, old })
    }

    async fn update_new(&mut self, new: Set, new_revision: i64) -> Result<Set, SyncFailure> {
        let mut annotations = new.metadata.annotations.clone();
        let deployment = &self.deployment;
        let max = REVISION_HISTORY_BYTES_MAX;
        let changed = set_annotations(deployment, &mut annotations, new_revision, true, max);
        let min_ready_seconds = deployment.spec.min_ready_seconds;
        if changed || new.spec.min_ready_seconds != min_ready_seconds {
            let mut changed = ReplicaSet::clone(&new);
            changed.metadata.annotations = annotations;
            changed.spec.min_ready_seconds = min_ready_seconds;
            return self.put_set(changed).await;
        }
        let revision = annotations.get(REVISION).cloned().unwrap_or_default();
        let mut writes = self.set_own_revision(&revision);
        let status = &self.deployment.status;
        if progress_deadline(&self.deployment.spec).is_some() && find(status, PROGRESSING).is_none()
        {
            let message = format!("Found new replica set \"{}\"", new.metadata.name);
            self.set_progressing("True", FOUND, &message);
            writes = true;
        }
        if writes {
            self.put_status().await?;
        }
        Ok(new)
    }

    async fn create_new(&mut self, old: &[Set], new_revision: i64) -> Result<Set, SyncFailure> {
        let (body, hash_count) = self.new_set(old, new_revision)?;
        let (name, replicas) = (body.metadata.name.clone(), body.replicas());
        let has_deadline = progress_deadline(&self.deployment.spec).is_some();
        let (new, created) = match self.create_set(body).await {
            Ok(created) => (created, true),
            Err(error) if error.reason == Reason::AlreadyExists => {
                (self.find_created(&name, hash_count, &error).await?, false)
            }
            Err(error) if error.has_cause("NamespaceTerminating") => {
                return Err(SyncStep::Create.failure()(error));
            }
            Err(error) => {
                let message = format!("Failed to create new replica set \"{name}\": {error}");
                if has_deadline {
                    self.set_progressing("False", CREATE_FAILED, &message);
                    // The sync fails with the error of the create, not with this one.
                    let _written = self.put_status().await;
                }
                self.event(EventType::Warning, CREATE_FAILED, message);
                return Err(SyncStep::Create.failure()(error));
            }
        };
        if created && replicas > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.event(EventType::Normal, "ScalingReplicaSet", message);
        }
        let mut writes = self.set_own_revision(&new_revision.to_string());
        if created && has_deadline {
            let message = format!("Created new replica set \"{name}\"");
            self.set_progressing("True", CREATED, &message);
            writes = true;
        }
        if writes {
            self.put_status().await?;
        }
        Ok(new)
    }

    /// Returns the ReplicaSet to create, and the collision count that its name is based on.
    fn new_set(
        &self,
        old: &[Set],
        new_revision: i64,
    ) -> Result<(ReplicaSet, Option<i32>), SyncFailure> {
        let deployment = &*self.deployment;
        let (meta, spec) = (&deployment.metadata, &deployment.spec);
        let count = deployment.status.collision_count;
        let hash = pod_template_hash(&spec.template, count);
        let Some(selector) = &spec.selector else {
            // Upstream crashes here. The server rejects such a Deployment.
            let name = format!("{}/{}", meta.namespace, meta.name);
            let message = format!("deployment {name} has no label selector");
            return Err(SyncStep::Selector.error(message));
        };
        let mut selector = (**selector).clone();
        selector.match_labels = selector.match_labels.with(HASH_LABEL, &hash);
        let template = with_hash_label(&spec.template, &hash);
        let all = old
            .iter()
            .fold(0, |sum: i32, set| sum.wrapping_add(set.replicas()));
        let size = new_replica_set_size(deployment, all, 0)
            .map_err(|error| SyncStep::Sizes.error(error.to_string()))?;
        let mut annotations = Labels::ABSENT;
        let max = REVISION_HISTORY_BYTES_MAX;
        set_annotations(deployment, &mut annotations, new_revision, false, max);
        let mut metadata = ObjectMeta {
            name: replica_set_name(&meta.name, &hash),
            namespace: meta.namespace.clone(),
            labels: template.metadata.labels.clone(),
            annotations,
            ..ObjectMeta::default()
        };
        metadata
            .owner_references
            .push(self.as_read.controller_ref.clone());
        let spec = ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector: Some(Arc::new(selector)),
            template: Arc::new(template),
            rest: Rest::NONE,
        };
        let status = ReplicaSetStatus::default();
        Ok((
            ReplicaSet {
                metadata,
                spec,
                status,
            },
            count,
        ))
    }

    /// Handles a create whose name is taken. Either the new ReplicaSet already exists and the cache
    /// did not show it, or another one has the same hash, and the next hash must differ.
    async fn find_created(
        &mut self,
        name: &str,
        count: Option<i32>,
        error: &ApiError,
    ) -> Result<Set, SyncFailure> {
        let namespace = &self.deployment.metadata.namespace;
        let found = self.shared.caches.sets.get_named(namespace, name);
        let Some(found) = found else {
            let message = format!("replicaset.apps \"{name}\" not found");
            return Err(SyncStep::NotCached.error(message));
        };
        let owner = found.object.metadata.controller();
        let is_own = owner.is_some_and(|owner| owner.uid == self.deployment.metadata.uid);
        if is_own && self.has_new_template(&found.object, found.template_form()) {
            return Ok(found.object.clone());
        }
        self.deployment_mut().status.collision_count = Some(count.unwrap_or(0).wrapping_add(1));
        // The sync fails with the error of the create, not with this one.
        let _written = self.put_status().await;
        Err(SyncStep::Create.failure()(error.clone()))
    }

    /// Reports whether a ReplicaSet has the Deployment's template.
    pub(super) fn has_new_template(&self, set: &ReplicaSet, form: &TemplateForm) -> bool {
        let (wanted, wanted_form) = (&self.deployment.spec.template, &self.as_read.form);
        same_template(wanted, wanted_form, &set.spec.template, form)
    }

    /// Sets the revision annotation of the Deployment itself. Returns whether it changed.
    fn set_own_revision(&mut self, revision: &str) -> bool {
        let annotations = &self.deployment.metadata.annotations;
        if annotations.get(REVISION).map_or("", |text| text) == revision {
            return false;
        }
        let annotations = annotations.with(REVISION, revision);
        self.deployment_mut().metadata.annotations = annotations;
        true
    }

    /// Sets the condition `Progressing` with the current time.
    pub(super) fn set_progressing(&mut self, status: &str, reason: &str, message: &str) {
        let now = self.calls.now();
        let new = condition(PROGRESSING, status, reason, message, now.wall());
        self.progressing_set_ns = Some(now.wall_ns);
        super::conditions::set(&mut self.deployment_mut().status, new);
    }
}
