//! Rollback by annotation, for old clients: the Deployment gets the template of an earlier
//! revision. `kubectl rollout undo` does the same without the controller.
//!
//! Source: `pkg/controller/deployment/rollback.go` in Kubernetes.

use std::sync::Arc;

use podstorm_objects::Labels;
use podstorm_runtime::client::{Answer, EventType, Request};
use podstorm_runtime::driver::SyncFailure;

use super::annotations::{ROLLBACK_TO, is_copied};
use super::find_new::{last_revision, readable_revision};
use super::sync::{DeploymentSync, Set, SyncStep};
use crate::template::{TemplateForm, without_hash_label};

impl DeploymentSync<'_> {
    /// Returns the revision to roll back to, where 0 means the previous one; `None` if no rollback
    /// is requested.
    pub(super) fn rollback_revision(&self) -> Option<i64> {
        let annotations = &self.deployment.metadata.annotations;
        annotations.get(ROLLBACK_TO)?.parse().ok()
    }

    pub(super) async fn roll_back(&mut self, to: i64) -> Result<(), SyncFailure> {
        const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
        let sets = self.sync_revision(true).await?;
        let all: Vec<Set> = sets.all().cloned().collect();
        let of = |set: &Set| readable_revision(&set.metadata);
        let last = || last_revision(all.iter().filter_map(of));
        let to = if to == 0 { last() } else { to };
        if to == 0 {
            let message = "Unable to find last revision.".to_owned();
            self.event(EventType::Warning, NOT_FOUND, message);
            return self.put_without_rollback().await;
        }
        let found = all.iter().find(|set| of(set) == Some(to));
        let Some(found) = found else {
            let message = "Unable to find the revision to rollback to.".to_owned();
            self.event(EventType::Warning, NOT_FOUND, message);
            return self.put_without_rollback().await;
        };
        let name = self.deployment.metadata.name.clone();
        if self.has_new_template(found, &TemplateForm::from_template(&found.spec.template)) {
            let message = format!(
                "The rollback revision contains the same template as current deployment \"{name}\""
            );
            let reason = "DeploymentRollbackTemplateUnchanged";
            self.event(EventType::Warning, reason, message);
            return self.put_without_rollback().await;
        }
        let template = without_hash_label(&found.spec.template);
        let own = self.deployment.metadata.annotations.pairs().iter();
        let own = own.filter(|(name, _)| !is_copied(name)).cloned();
        let others = found.metadata.annotations.pairs().iter();
        let others = others.filter(|(name, _)| is_copied(name)).cloned();
        let annotations = Labels::from_pairs(own.chain(others)).or_absent();
        let deployment = self.deployment_mut();
        deployment.spec.template = Arc::new(template);
        deployment.metadata.annotations = annotations;
        self.put_without_rollback().await?;
        let message = format!("Rolled back deployment \"{name}\" to revision {to}");
        self.event(EventType::Normal, "DeploymentRollback", message);
        Ok(())
    }

    async fn put_without_rollback(&mut self) -> Result<(), SyncFailure> {
        let annotations = self.deployment.metadata.annotations.without(ROLLBACK_TO);
        self.deployment_mut().metadata.annotations = annotations;
        let object = Arc::new(self.deployment.to_untyped());
        match self.calls.request(Request::Put { object }).await {
            Answer::Failed(error) => Err(SyncStep::PutDeployment.failure()(error)),
            _ => Ok(()),
        }
    }
}
