//! One sync of one StatefulSet. Its steps are in upstream's order, which clients can observe.
//!
//! Source: `sync` and `UpdateStatefulSet` in Kubernetes' `pkg/controller/statefulset`.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Now, Reason, ResourceVersion};
use podstorm_runtime::claim::aggregate;
use podstorm_runtime::client::{EventIntent, EventMessage, EventType};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::Shared;
use super::cache::CachedSet;
use super::pod::Form;
use super::pods::{SetPod, revision_number};
use super::status::{Health, Status};
use crate::replicaset::reconcile::next_availability_check;
use crate::revisions::{Found, Owner, Revision, delete_all, surplus};

const SECOND_NS: i64 = 1_000_000_000;

/// The maximum number of attempts to write a status when there are conflicts. Upstream pauses for
/// some milliseconds in between; this controller retries immediately, because a sync has no timer.
const STATUS_WRITES_MAX: usize = 5;

/// The errors of a sync: one message per failed request.
pub(super) type Errors = Vec<String>;

/// A sync of one StatefulSet in progress.
pub(super) struct StatefulSetSync<'a> {
    pub(super) shared: &'a Shared,
    pub(super) calls: &'a Calls,
    pub(super) key: KeyId,
    pub(super) set: &'a CachedSet,
    /// The pods of the set, including ended and terminating ones.
    pub(super) pods: Vec<SetPod>,
    /// The time at which the sync began to change pods.
    pub(super) now: Now,
}

/// The set in the forms that its current revision and its update revision restore.
pub(super) struct Forms {
    pub(super) current_revision: String,
    pub(super) update_revision: String,
    pub(super) current: Arc<Form>,
    pub(super) update: Arc<Form>,
}

/// Runs one sync of a StatefulSet.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let versions = [
        shared.claims.version().get(),
        shared.pods.version().get(),
        shared.sets.version().get(),
    ];
    let seen = shared.written.ensure_ready(&key, &versions);
    seen.map_err(|stale| SyncFailure::new("stale cache", stale.to_string()))?;
    let Some(set) = shared.sets.get(key) else {
        shared.written.clear(&key, None);
        shared.gauges.forget(key);
        return Ok(End::Forget);
    };
    if set.spec.selector.is_err() {
        // Like upstream, which only logs the error.
        return Ok(End::Forget);
    }
    let owner = Owner {
        kind: Kind::STATEFUL_SET,
        meta: &set.object.metadata,
        reference: &set.controller_ref,
        collision_count: set.status.collision_count,
    };
    let revisions = shared.revisions(&set);
    owner.adopt(&calls, &revisions).await?;
    let mut sync = StatefulSetSync {
        shared: &shared,
        calls: &calls,
        key,
        set: &set,
        pods: Vec::new(),
        now: Now::default(),
    };
    sync.claim_pods().await?;
    sync.now = calls.now();
    let status = sync.update(&owner, &revisions).await?;
    sync.look_again(&status);
    Ok(End::Forget)
}

impl StatefulSetSync<'_> {
    /// Updates revisions, pods and the status. Deletes surplus revisions even after a failure.
    async fn update(
        &self,
        owner: &Owner<'_>,
        revisions: &[Revision],
    ) -> Result<Status, SyncFailure> {
        let mut status = Status::default();
        let found = self.find_revisions(owner, revisions).await;
        let mut errors = match &found {
            Ok(found) => self
                .perform(found, &mut status)
                .await
                .err()
                .unwrap_or_default(),
            Err(failed) => vec![failed.clone()],
        };
        let is_live = |revision: &Revision| {
            let found = found.iter();
            let mut found = found.flat_map(|found| [found.current.name(), found.update.name()]);
            let number = revision_number(revision.name());
            found.any(|name| name == revision.name())
                || self.pods.iter().any(|pod| pod.revision == number)
        };
        let limit = self.set.spec.read.history_limit;
        let deleted = delete_all(self.calls, surplus(revisions, is_live, limit)).await;
        errors.extend(deleted.err().map(|failure| failure.message));
        match aggregate(&errors) {
            None => Ok(status),
            Some(text) => Err(SyncFailure::new("update failed", text)),
        }
    }

    /// Returns the current revision and the revision for the current template.
    async fn find_revisions(
        &self,
        owner: &Owner<'_>,
        revisions: &[Revision],
    ) -> Result<Found, String> {
        let data = self.set.data()?;
        let compares = self.shared.options.compares_templates;
        let is_same = |revision: &Revision| compares && self.set.is_same_template(revision);
        let current = &self.set.status.current_revision;
        let found = owner
            .find(self.calls, revisions, data, current, is_same)
            .await;
        found.map_err(|failure| failure.message)
    }

    /// Changes the pods. Writes the status even after a failure.
    async fn perform(&self, found: &Found, status: &mut Status) -> Result<(), Errors> {
        let form = |revision| self.set.form(revision).map_err(|error| vec![error]);
        let forms = Forms {
            current_revision: found.current.name().to_owned(),
            update_revision: found.update.name().to_owned(),
            current: form(&found.current)?,
            update: form(&found.update)?,
        };
        *status = Status {
            observed_generation: self.set.object.metadata.generation,
            current_revision: forms.current_revision.clone(),
            update_revision: forms.update_revision.clone(),
            collision_count: found.collision_count,
            ..Status::default()
        };
        status.count(&self.pods, self.health());
        let managed = match self.set.object.metadata.is_deleting() {
            true => Ok(()),
            false => self.manage(&forms, status).await,
        };
        let written = self.write_status(status).await;
        managed?;
        written.map_err(|error| vec![error])
    }

    async fn write_status(&self, status: &mut Status) -> Result<(), String> {
        if self.shared.options.uses_max_unavailable {
            let most = self.set.spec.read.max_unavailable();
            most.map_err(|error| error.to_string())?;
        }
        let when_available = self.shared.options.complete_when_available;
        status.complete_rolling_update(&self.set.spec.read, when_available);
        if !status.differs_from(&self.set.status) {
            return Ok(());
        }
        let mut object = Arc::clone(&self.set.object);
        let mut writes = 0;
        loop {
            let mut changed = DynamicObject::clone(&object);
            changed.fields.insert("status".to_owned(), status.to_json());
            writes += 1;
            let error = match self.calls.put_status(changed).await {
                Ok(stored) => {
                    self.wrote(Kind::STATEFUL_SET, &stored.metadata.resource_version);
                    return Ok(());
                }
                Err(error) => error,
            };
            if error.reason != Reason::Conflict || writes == STATUS_WRITES_MAX {
                return Err(error.message);
            }
            if let Some(set) = self.shared.sets.get(self.key) {
                object = Arc::clone(&set.object);
            }
        }
    }

    /// Adds the key for the time at which the next pod becomes available.
    fn look_again(&self, status: &Status) {
        let seconds = self.set.spec.read.min_ready_seconds;
        if seconds <= 0 || status.ready == status.available {
            return;
        }
        let pods = self.pods.iter().map(|pod| &*pod.pod);
        let next_ns = next_availability_check(pods, seconds, self.now.wall_ns);
        let now = self.calls.now();
        let passed_ns = now.wall_ns.saturating_sub(self.now.wall_ns);
        let delay_ns = match next_ns {
            Some(next_ns) => next_ns.saturating_sub(passed_ns).max(0),
            None => i64::from(seconds) * SECOND_NS,
        };
        self.shared.queue[0].add_after(self.key, delay_ns, now.mono_ns);
    }

    pub(super) fn health(&self) -> Health {
        Health {
            min_ready_seconds: self.set.spec.read.min_ready_seconds,
            now_ns: self.now.wall_ns,
        }
    }

    /// Records the version of a write. The cache must reach it before the next sync.
    pub(super) fn wrote(&self, kind: Kind, version: &ResourceVersion) {
        if self.shared.options.waits_for_caches {
            let uid = &self.set.object.metadata.uid;
            self.shared.written.wrote_at(self.key, uid, kind, version);
        }
    }

    /// Records an Event about the set.
    pub(super) fn event(&self, kind: EventType, reason: &'static str, text: &str) {
        self.calls.event(EventIntent {
            regarding: self.set.reference.clone(),
            kind,
            reason,
            message: EventMessage::Text(text.into()),
        });
    }
}
