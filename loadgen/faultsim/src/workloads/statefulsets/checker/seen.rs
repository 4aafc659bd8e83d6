//! The view of a sync: the caches when the sync begins, and the answers that it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::object::OwnerPatch;
use podstorm::statefulset::{Controller, SyncInput};
use podstorm_objects::{DynamicObject, Kind, Pod};

use super::super::read::Read;

/// The view of a sync.
#[derive(Debug)]
pub(super) struct Seen {
    controller: Controller,
    key: KeyId,
    pub(super) set: Arc<DynamicObject>,
    /// The pods that the set owns or could adopt.
    pods: Vec<Arc<Pod>>,
    pub(super) revisions: Vec<Arc<DynamicObject>>,
    /// The pods that the sync has adopted, by name.
    adopted: BTreeSet<String>,
    /// The pods that the sync has created, by name.
    pub(super) created: BTreeMap<String, Arc<Pod>>,
    /// The pods that the sync has deleted, by name.
    pub(super) deleted: BTreeSet<String>,
    /// The number of the sync's successful pod deletions; a pod that is not found counts, too.
    pub(super) deletions: i64,
    /// Whether a request about revisions failed, so that the sync does not know the revisions.
    pub(super) lacks_revisions: bool,
}

impl Seen {
    pub(super) fn from_cache(controller: &Controller, key: KeyId) -> Option<Seen> {
        let SyncInput {
            set,
            pods,
            revisions,
        } = controller.cached(key)?;
        Some(Seen {
            controller: controller.clone(),
            key,
            set,
            pods,
            revisions: revisions.into_iter().map(|it| it.0).collect(),
            adopted: BTreeSet::new(),
            created: BTreeMap::new(),
            deleted: BTreeSet::new(),
            deletions: 0,
            lacks_revisions: false,
        })
    }

    pub(super) fn answered(&mut self, request: &Request, answer: &Answer) {
        let is_failed = matches!(answer, Answer::Failed(_));
        let of_revision = |kind: Kind| kind == Kind::CONTROLLER_REVISION;
        match request {
            Request::PatchOwners { kind, .. } if of_revision(*kind) => {
                // The sync reads the pods only after it has adopted the revisions.
                if let Some(cached) = self.controller.cached(self.key) {
                    self.pods = cached.pods;
                }
            }
            Request::PatchOwners {
                name,
                patch: OwnerPatch::Adopt { .. },
                ..
            } if !is_failed => {
                self.adopted.insert(name.to_string());
            }
            Request::Create { object } | Request::Put { object } if of_revision(object.kind()) => {
                self.lacks_revisions |= is_failed;
            }
            Request::DeletePod { .. } => {
                let is_gone = matches!(answer, Answer::Failed(it) if it.is_not_found());
                self.deletions += i64::from(!is_failed || is_gone);
            }
            _ => {}
        }
    }

    pub(super) fn read(&self) -> Read<'_> {
        Read::from_object(&self.set)
    }

    /// Returns the pods that the sync works on, with their ordinals.
    pub(super) fn claimed(&self) -> impl Iterator<Item = (i64, &Arc<Pod>)> {
        let set = self.read();
        self.pods.iter().filter_map(move |pod| {
            let meta = &pod.metadata;
            let is_own = set.owns(meta) || self.adopted.contains(&*meta.name);
            let ordinal = set.ordinal(meta).filter(|_| is_own && set.selects(meta))?;
            Some((ordinal, pod))
        })
    }

    /// Returns the pods with this ordinal. There are several if names have leading zeros.
    pub(super) fn of_ordinal(&self, ordinal: i64) -> impl Iterator<Item = &Arc<Pod>> {
        let pods = self.claimed().filter(move |(of, _)| *of == ordinal);
        pods.map(|(_, pod)| pod)
    }

    /// Returns the pod of this name that the sync works on, if there is one.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<Pod>> {
        let mut pods = self.claimed().map(|(_, pod)| pod);
        pods.find(|pod| *pod.metadata.name == *name)
    }

    /// Reports whether the pod could be adopted, according to the caches.
    pub(super) fn is_free(&self, name: &str) -> bool {
        let set = self.read();
        self.pods.iter().any(|pod| {
            let meta = &pod.metadata;
            *meta.name == *name
                && meta.controller().is_none()
                && !meta.is_deleting()
                && set.selects(meta)
                && set.ordinal(meta).is_some()
        })
    }

    /// Returns the name of the current revision in the set's status; `None` if the revision was not
    /// seen.
    pub(super) fn current(&self) -> Option<&str> {
        let name = self.read().said("currentRevision");
        let mut revisions = self.revisions.iter();
        let is_there = revisions.any(|it| *it.metadata.name == *name);
        is_there.then_some(name)
    }
}
