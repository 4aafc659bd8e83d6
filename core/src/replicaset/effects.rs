//! What handlers and syncs do besides API calls, behind a trait so that tests can record it.

use podstorm_objects::{Now, ResourceVersion, Uid};
use podstorm_runtime::intern::KeyId;

use super::Controller;

/// Where keys and read-your-writes records go. The controller's own implementation puts them
/// into its queue and store.
pub trait Effects {
    /// Adds a key to the queue, without a delay.
    fn add(&self, key: KeyId);

    /// Adds a key after a delay in nanoseconds; zero and less mean now.
    fn add_after(&self, key: KeyId, delay_ns: i64);

    /// Records that a resource (index as in [`podstorm_runtime::consistency`]) was written for an owner.
    fn wrote_at(&self, owner: KeyId, uid: &Uid, resource: usize, version: &ResourceVersion);

    /// The same for several writes at once, in any order.
    fn wrote_all<'a>(
        &self,
        owner: KeyId,
        uid: &Uid,
        resource: usize,
        versions: impl Iterator<Item = &'a ResourceVersion>,
    ) {
        for version in versions {
            self.wrote_at(owner, uid, resource, version);
        }
    }

    /// Drops the records of an owner, of any UID or of that one alone.
    fn clear_written(&self, owner: KeyId, uid: Option<&Uid>);
}

/// Effects on a controller's own queue and store.
#[derive(Debug)]
pub(super) struct Live<'a> {
    pub(super) controller: &'a Controller,
    pub(super) now: Now,
}

impl Effects for Live<'_> {
    fn add(&self, key: KeyId) {
        self.controller.queue.add(key, self.now.mono_ns);
    }

    fn add_after(&self, key: KeyId, delay_ns: i64) {
        self.controller
            .queue
            .add_after(key, delay_ns, self.now.mono_ns);
    }

    fn wrote_at(&self, owner: KeyId, uid: &Uid, resource: usize, version: &ResourceVersion) {
        self.controller
            .consistency
            .wrote_at(owner, uid, resource, version);
    }

    /// Of numbered versions the newest alone is remembered, so it alone is told.
    fn wrote_all<'a>(
        &self,
        owner: KeyId,
        uid: &Uid,
        resource: usize,
        versions: impl Iterator<Item = &'a ResourceVersion>,
    ) {
        let mut newest = 0;
        for version in versions {
            match version.number() {
                Some(number) => newest = newest.max(number),
                None => self.wrote_at(owner, uid, resource, version),
            }
        }
        if newest > 0 {
            self.wrote_at(owner, uid, resource, &newest.into());
        }
    }

    fn clear_written(&self, owner: KeyId, uid: Option<&Uid>) {
        self.controller.consistency.clear(&owner, uid);
    }
}
