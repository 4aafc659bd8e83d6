//! One sync of one Deployment. Its steps are in upstream's order, which clients can observe.
//!
//! Source: `syncDeployment` in Kubernetes' `pkg/controller/deployment`.

use std::sync::Arc;

use podstorm_objects::{ApiError, Deployment, Kind, LabelSelector, ReplicaSet};
use podstorm_runtime::claim::{Claim, ClaimStep};
use podstorm_runtime::client::{Answer, EventIntent, EventMessage, EventType, Request};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::Shared;
use super::cache::CachedDeployment;
use super::conditions::{PAUSED, RESUMED, TIMED_OUT, progress_deadline, progressing_is};
use super::find_new::{max_revision, new_and_old, readable_revision};
use super::sizes::{RECREATE, ROLLING_UPDATE};
use crate::replicaset::Owner;

/// A ReplicaSet in a sync: from the cache or from an answer of the server.
pub(super) type Set = Arc<ReplicaSet>;

/// The ReplicaSets of a Deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// The ReplicaSet with the Deployment's template, if there is one.
    pub(super) new: Option<Set>,
    /// All other ReplicaSets, oldest first.
    pub(super) old: Arc<[Set]>,
}

impl Sets {
    /// Returns the old ReplicaSets, and then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }
}

/// The step of a sync that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStep {
    /// The selector can't be compiled, or a required selector is absent.
    Selector,
    /// A ReplicaSet could not be adopted or released.
    Claim,
    /// A ReplicaSet has no namespace, name or UID.
    Identity,
    /// A ReplicaSet could not be created.
    Create,
    /// The name of a new ReplicaSet is taken, but the cache has no ReplicaSet with this name.
    NotCached,
    /// A ReplicaSet could not be written.
    PutSet,
    /// The status could not be written.
    Status,
    /// The Deployment could not be written.
    PutDeployment,
    /// A ReplicaSet could not be deleted.
    Delete,
    /// The size of the new ReplicaSet can't be computed.
    Sizes,
    /// The strategy is unknown.
    Strategy,
}

impl SyncStep {
    /// Returns the name of the step in one or two words, for statistics.
    pub fn label(self) -> &'static str {
        match self {
            SyncStep::Selector => "selector",
            SyncStep::Claim => "claim failed",
            SyncStep::Identity => "identity",
            SyncStep::Create => "create failed",
            SyncStep::NotCached => "not cached",
            SyncStep::PutSet => "ReplicaSet write failed",
            SyncStep::Status => "status failed",
            SyncStep::PutDeployment => "Deployment write failed",
            SyncStep::Delete => "delete failed",
            SyncStep::Sizes => "sizes",
            SyncStep::Strategy => "strategy",
        }
    }

    /// Returns the failure of this step with this message.
    pub(super) fn error(self, message: String) -> SyncFailure {
        SyncFailure {
            label: self.label(),
            message,
            is_final: false,
        }
    }

    /// Returns a function that converts a refused request to the failure of this step. In a
    /// terminating namespace the failure is final.
    pub(super) fn failure(self) -> impl Fn(ApiError) -> SyncFailure {
        move |error| SyncFailure {
            label: self.label(),
            is_final: error.has_cause("NamespaceTerminating"),
            message: error.message,
        }
    }
}

/// A sync of one Deployment in progress.
pub(super) struct DeploymentSync<'a> {
    pub(super) shared: &'a Shared,
    pub(super) calls: &'a Calls,
    pub(super) key: KeyId,
    pub(super) as_read: Arc<CachedDeployment>,
    /// The Deployment. Later steps of the sync read it, and writes send it, with the version that
    /// was read.
    pub(super) deployment: Arc<Deployment>,
    /// The ReplicaSets that this sync has claimed.
    pub(super) claimed: Sets,
    /// One more than the highest revision of the old ReplicaSets.
    pub(super) new_revision: i64,
    /// When this sync set the condition `Progressing`, in ns of the wall clock; `None` if it did
    /// not.
    pub(super) progressing_set_ns: Option<i64>,
}

/// Runs one sync of a Deployment.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(cached) = shared.caches.deployments.get(key) else {
        return Ok(End::Forget);
    };
    let mut sync = DeploymentSync {
        shared: &shared,
        calls: &calls,
        key,
        deployment: cached.object.clone(),
        as_read: cached,
        claimed: Sets::default(),
        new_revision: 0,
        progressing_set_ns: None,
    };
    sync.run().await?;
    Ok(End::Forget)
}

impl DeploymentSync<'_> {
    async fn run(&mut self) -> Result<(), SyncFailure> {
        let spec = &self.as_read.object.spec;
        if spec.selector.as_deref() == Some(&LabelSelector::default()) {
            self.refuse_to_select_all().await;
            return Ok(());
        }
        self.claim().await?;
        self.check_identities()?;
        if self.deployment.metadata.is_deleting() {
            let sets = self.sync_revision(false).await?;
            return self.plain_status(&sets).await;
        }
        self.note_pause().await?;
        if self.deployment.spec.paused {
            return self.only_scale().await;
        }
        if let Some(revision) = self.rollback_revision() {
            return self.roll_back(revision).await;
        }
        let sets = self.sync_revision(false).await?;
        if self.is_scaling_event(&sets) {
            return self.only_scale().await;
        }
        match &*self.deployment.spec.strategy.kind {
            RECREATE => self.recreate().await,
            ROLLING_UPDATE => self.roll().await,
            other => {
                let message = format!("unexpected deployment strategy type: {other}");
                Err(SyncStep::Strategy.error(message))
            }
        }
    }

    /// Handles an empty selector, which would match everything: records an Event and the observed
    /// generation.
    async fn refuse_to_select_all(&mut self) {
        let message =
            "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        self.event(EventType::Warning, "SelectingAll", message);
        let generation = self.deployment.metadata.generation;
        if self.deployment.status.observed_generation < generation {
            self.deployment_mut().status.observed_generation = generation;
            // Upstream ignores the answer, too. The next event causes a retry.
            let _written = self.put_status().await;
        }
    }

    /// Adopts and releases ReplicaSets, and finds the new one among the claimed ones.
    async fn claim(&mut self) -> Result<(), SyncFailure> {
        let cached = Arc::clone(&self.as_read);
        let meta = &cached.object.metadata;
        let selector = cached.selector.as_ref().map_err(|error| {
            let (namespace, name) = (&meta.namespace, &meta.name);
            let text = "has invalid label selector";
            SyncStep::Selector.error(format!("deployment {namespace}/{name} {text}: {error}"))
        })?;
        let candidates = self.shared.caches.candidates(&meta.namespace, &meta.uid);
        let reference = cached.controller_ref.clone();
        let matches = |set: &Owner| selector.matches(&set.object.metadata.labels);
        // Sorted by name. Upstream iterates over a map, in no fixed order.
        let mut claim = Claim::new(meta, reference, candidates, matches).by_name();
        loop {
            match claim.step() {
                ClaimStep::Finished => break,
                ClaimStep::ReadOwner => {
                    let request = Request::Get {
                        kind: Kind::DEPLOYMENT,
                        namespace: meta.namespace.clone(),
                        name: meta.name.clone(),
                    };
                    match self.calls.request(request).await {
                        Answer::Object(live) => claim.owner_read(Ok(live.metadata())),
                        Answer::Failed(error) => claim.owner_read(Err(&error)),
                        other => panic!("a read of the owner can't be answered by {other:?}"),
                    }
                }
                ClaimStep::Patch(set, patch) => {
                    let request = Request::PatchOwners {
                        kind: Kind::REPLICA_SET,
                        namespace: set.object.metadata.namespace.clone(),
                        name: set.object.metadata.name.clone(),
                        patch,
                    };
                    match self.calls.request(request).await {
                        Answer::Failed(error) => claim.patched(Err(&error)),
                        _ => claim.patched(Ok(())),
                    }
                }
            }
        }
        if let Some(message) = claim.error() {
            return Err(SyncStep::Claim.error(message));
        }
        let mut sets = claim.into_claimed();
        let template = &cached.object.spec.template;
        let new = new_and_old(
            &mut sets,
            |set| &set.object,
            |set| set.template_form(),
            template,
            &cached.form,
        );
        let new = new.map(|at| sets.remove(at));
        let highest = max_revision(
            sets.iter()
                .filter_map(|set| set.revision(readable_revision)),
        );
        self.new_revision = highest.wrapping_add(1);
        self.claimed = Sets {
            new: new.map(|set| set.object.clone()),
            old: sets.iter().map(|set| set.object.clone()).collect(),
        };
        Ok(())
    }

    /// Fails if a ReplicaSet has no name, namespace or UID, because its pods can't be found.
    fn check_identities(&self) -> Result<(), SyncFailure> {
        for set in self.claimed.all() {
            let meta = &set.metadata;
            for (member, empty) in [
                ("namespace", meta.namespace.is_empty()),
                ("name", meta.name.is_empty()),
                ("uid", meta.uid.is_empty()),
            ] {
                if empty {
                    return Err(SyncStep::Identity.error(format!("no owner {member} provided")));
                }
            }
        }
        Ok(())
    }

    /// Writes the condition that the rollout is paused or resumed, which restarts its deadline.
    async fn note_pause(&mut self) -> Result<(), SyncFailure> {
        let (spec, status) = (&self.deployment.spec, &self.deployment.status);
        if progress_deadline(spec).is_none() || progressing_is(status, TIMED_OUT) {
            return Ok(());
        }
        match (spec.paused, progressing_is(status, PAUSED)) {
            (true, false) => self.set_progressing("Unknown", PAUSED, "Deployment is paused"),
            (false, true) => self.set_progressing("Unknown", RESUMED, "Deployment is resumed"),
            _ => return Ok(()),
        }
        self.put_status().await
    }

    /// Returns the Deployment for modification. Later steps and writes see the changes.
    pub(super) fn deployment_mut(&mut self) -> &mut Deployment {
        Arc::make_mut(&mut self.deployment)
    }

    /// Records an Event about the Deployment.
    pub(super) fn event(&self, kind: EventType, reason: &'static str, message: String) {
        self.calls.event(EventIntent {
            regarding: self.as_read.reference.clone(),
            kind,
            reason,
            message: EventMessage::Text(message.into()),
        });
    }
}
