//! The view of a sync of the Deployment controller: the caches when the sync begins, and the sync's
//! own writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::deployment::annotations::{DESIRED_REPLICAS, REVISION, ROLLBACK_TO};
use podstorm::deployment::find_new::by_creation;
use podstorm_objects::{Deployment, Labels, ReplicaSet, Uid};

use super::super::limits::{is_same, selects};

/// Returns the revision in the annotations; `None` if there is no valid one.
pub(super) fn revision(annotations: &Labels) -> Option<i64> {
    annotations.get(REVISION)?.parse().ok()
}

/// Reports whether the ReplicaSet's controller is the Deployment with this UID.
pub(super) fn is_controlled(set: &ReplicaSet, deployment: &Uid) -> bool {
    let owner = set.metadata.controller();
    owner.is_some_and(|owner| owner.uid == *deployment)
}

/// A ReplicaSet that a sync claims or has created.
#[derive(Clone, Debug)]
pub(super) struct SeenSet {
    /// The cached state when the sync began; `None` if it was not cached.
    pub(super) first: Option<Arc<ReplicaSet>>,
    /// The state in the view of the sync: the cached one, or the one that the sync wrote last.
    pub(super) now: Arc<ReplicaSet>,
    /// Whether the sync found the ReplicaSet in its caches when it tried to create it. By then, the
    /// sync had already selected the revision that it writes.
    is_found: bool,
}

impl SeenSet {
    fn from_cached(cached: Arc<ReplicaSet>) -> SeenSet {
        SeenSet {
            first: Some(Arc::clone(&cached)),
            now: cached,
            is_found: false,
        }
    }

    /// Returns the size of the ReplicaSet when the sync began; 0 if it was not cached.
    pub(super) fn size_at_first(&self) -> i32 {
        self.first.as_ref().map_or(0, |set| set.replicas())
    }
}

/// The kind of work that a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The sync scales: the Deployment is paused, or its size differs from the size that is
    /// recorded on a ReplicaSet.
    Scales,
    /// The sync returns to an earlier template, as an annotation requests.
    RollsBack,
    /// The sync rolls out the template.
    Rolls,
}

/// The view of a sync.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) deployment: Arc<Deployment>,
    /// The ReplicaSets that the Deployment controls.
    pub(super) sets: BTreeMap<Uid, SeenSet>,
    /// The ReplicaSets that the Deployment may adopt, by name.
    free: BTreeMap<String, Arc<ReplicaSet>>,
    /// Whether the sync has resized a ReplicaSet.
    pub(super) has_sized: bool,
    /// The names of the old ReplicaSets that the sync has deleted.
    pub(super) deleted: BTreeSet<String>,
}

impl Seen {
    /// Returns the view of a sync that begins with this Deployment and these ReplicaSets in its
    /// caches.
    pub(super) fn new(deployment: Arc<Deployment>, cached: Vec<Arc<ReplicaSet>>) -> Seen {
        let (mut sets, mut free) = (BTreeMap::new(), BTreeMap::new());
        for set in cached {
            if !selects(&deployment, &set) {
                continue;
            }
            if is_controlled(&set, &deployment.metadata.uid) {
                sets.insert(set.metadata.uid.clone(), SeenSet::from_cached(set));
            } else if set.metadata.controller().is_none() {
                free.insert(set.metadata.name.to_string(), set);
            }
        }
        Seen {
            deployment,
            sets,
            free,
            has_sized: false,
            deleted: BTreeSet::new(),
        }
    }

    /// Records an adoption. The sync continues with the cached state of the ReplicaSet.
    pub(super) fn adopt(&mut self, name: &str) {
        if let Some(set) = self.free.remove(name) {
            self.sets
                .insert(set.metadata.uid.clone(), SeenSet::from_cached(set));
        }
    }

    /// Records a failed adoption. The sync continues without the ReplicaSet, although a request
    /// that a lower layer resent may have been carried out the first time.
    pub(super) fn adopt_failed(&mut self, name: &str) {
        self.sets.retain(|_, set| *set.now.metadata.name != *name);
    }

    /// Records the write of a ReplicaSet.
    pub(super) fn write(&mut self, set: &Arc<ReplicaSet>) {
        let uid = &set.metadata.uid;
        let first = self.sets.remove(uid).and_then(|seen| seen.first);
        let (now, is_found) = (Arc::clone(set), false);
        let set = SeenSet {
            first,
            now,
            is_found,
        };
        self.sets.insert(uid.clone(), set);
    }

    /// Records that the sync could not create a ReplicaSet because the name is in use, by the
    /// ReplicaSet `cached` in the caches. The sync continues with that one if the Deployment
    /// controls it and it has the Deployment's template, even if the sync has just released it.
    pub(super) fn find(&mut self, cached: Arc<ReplicaSet>) {
        let is_own = is_controlled(&cached, &self.deployment.metadata.uid);
        if !is_own || !self.has_template(&cached) {
            return;
        }
        let found = SeenSet {
            first: None,
            now: Arc::clone(&cached),
            is_found: true,
        };
        self.sets.insert(cached.metadata.uid.clone(), found);
    }

    pub(super) fn way(&self) -> Way {
        let (deployment, replicas) = (&self.deployment, self.deployment.replicas());
        let wish = deployment.metadata.annotations.get(ROLLBACK_TO);
        let has_stale = || {
            let first = self.sets.values().filter_map(|set| set.first.as_ref());
            let mut active = first.filter(|set| set.replicas() > 0);
            active.any(|set| {
                let desired = set.metadata.annotations.get(DESIRED_REPLICAS);
                let desired = desired.and_then(|text| text.parse::<i32>().ok());
                desired.is_some_and(|desired| desired != replicas)
            })
        };
        if deployment.spec.paused {
            Way::Scales
        } else if wish.is_some_and(|text| text.parse::<i64>().is_ok()) {
            Way::RollsBack
        } else if has_stale() {
            Way::Scales
        } else {
            Way::Rolls
        }
    }

    pub(super) fn scales(&self) -> bool {
        self.way() == Way::Scales
    }

    pub(super) fn recreates(&self) -> bool {
        *self.deployment.spec.strategy.kind == *"Recreate"
    }

    pub(super) fn has_template(&self, set: &ReplicaSet) -> bool {
        is_same(&set.spec.template, &self.deployment.spec.template)
    }

    /// Returns the oldest seen ReplicaSet with the Deployment's template, if there is one.
    pub(super) fn newest(&self) -> Option<&SeenSet> {
        let same = self.sets.values().filter(|set| self.has_template(&set.now));
        same.min_by(|a, b| by_creation(&a.now, &b.now))
    }

    /// Returns the view without the ReplicaSet of this name that the sync itself created. The
    /// ReplicaSet may have been deleted before the create request, which was late or was resent by
    /// a lower layer, is carried out a second time.
    pub(super) fn before_created(&self, name: &str) -> Seen {
        let mut before = self.clone();
        let is_own = |set: &SeenSet| set.first.is_none() && *set.now.metadata.name == *name;
        before.sets.retain(|_, set| !is_own(set));
        before
    }

    pub(super) fn highest_revision(&self) -> i64 {
        let sets = self.sets.values().filter(|set| !set.is_found);
        let revisions = sets.filter_map(|set| revision(&set.now.metadata.annotations));
        revisions.fold(0, i64::max)
    }

    pub(super) fn size_sum(&self, of: impl Fn(&SeenSet) -> i64) -> i64 {
        self.sets.values().map(of).sum()
    }
}
