//! What a sync of the Deployment controller sees: its caches as they are when it begins, and what it
//! writes itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::deployment::annotations::{DESIRED_REPLICAS, REVISION, ROLLBACK_TO};
use podstorm::deployment::find_new::by_creation;
use podstorm_objects::{Deployment, Labels, ReplicaSet, Uid};

use super::super::limits::{is_same, selects};

/// The revision that annotations tell, if it can be read.
pub(super) fn revision(annotations: &Labels) -> Option<i64> {
    annotations.get(REVISION)?.parse().ok()
}

/// Whether a ReplicaSet names the Deployment of that UID as its controller.
pub(super) fn is_controlled(set: &ReplicaSet, deployment: &Uid) -> bool {
    let owner = set.metadata.controller();
    owner.is_some_and(|owner| owner.uid == *deployment)
}

/// A ReplicaSet that a sync claims or has created.
#[derive(Clone, Debug)]
pub(super) struct SeenSet {
    /// As cached when the sync began; absent for one that was not.
    pub(super) first: Option<Arc<ReplicaSet>>,
    /// The same, or as the sync wrote it last.
    pub(super) now: Arc<ReplicaSet>,
    /// Whether the sync found it in its caches where it wanted to create one: by then the sync had chosen
    /// the revision that it writes.
    is_found: bool,
}

impl SeenSet {
    fn of(cached: Arc<ReplicaSet>) -> SeenSet {
        SeenSet {
            first: Some(Arc::clone(&cached)),
            now: cached,
            is_found: false,
        }
    }

    /// Its size when the sync began.
    pub(super) fn size_at_first(&self) -> i32 {
        self.first.as_ref().map_or(0, |set| set.replicas())
    }
}

/// In which way a sync goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It scales: the Deployment is paused, or has another size than a ReplicaSet was given pods for.
    Scales,
    /// It goes back to an earlier template, as an annotation asks for.
    RollsBack,
    /// It rolls out.
    Rolls,
}

/// What a sync sees.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) deployment: Arc<Deployment>,
    /// The ReplicaSets that it claims.
    pub(super) sets: BTreeMap<Uid, SeenSet>,
    /// Those that it may adopt, by name.
    free: BTreeMap<String, Arc<ReplicaSet>>,
    /// Whether it gave a ReplicaSet another size.
    pub(super) has_sized: bool,
    /// Old ReplicaSets that it deleted, by name.
    pub(super) deleted: BTreeSet<String>,
}

impl Seen {
    /// What a sync sees that begins with this Deployment and these ReplicaSets in its caches.
    pub(super) fn of(deployment: Arc<Deployment>, cached: Vec<Arc<ReplicaSet>>) -> Seen {
        let (mut sets, mut free) = (BTreeMap::new(), BTreeMap::new());
        for set in cached {
            if !selects(&deployment, &set) {
                continue;
            }
            if is_controlled(&set, &deployment.metadata.uid) {
                sets.insert(set.metadata.uid.clone(), SeenSet::of(set));
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

    /// The sync has adopted a ReplicaSet: it goes on with what was cached.
    pub(super) fn adopt(&mut self, name: &str) {
        if let Some(set) = self.free.remove(name) {
            self.sets.insert(set.metadata.uid.clone(), SeenSet::of(set));
        }
    }

    /// The sync gets the answer that it could not adopt a ReplicaSet, and goes on without it, though a request that was sent
    /// again by a layer below may have been carried out the first time.
    pub(super) fn adopt_failed(&mut self, name: &str) {
        self.sets.retain(|_, set| *set.now.metadata.name != *name);
    }

    /// The sync has written a ReplicaSet.
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

    /// The sync could not create a ReplicaSet, as there is one of its name, `cached`. The sync goes on with
    /// that, if its caches have it as the Deployment's own and with its template, though the sync may have
    /// just released it.
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

    /// The oldest ReplicaSet seen with the Deployment's template.
    pub(super) fn newest(&self) -> Option<&SeenSet> {
        let same = self.sets.values().filter(|set| self.has_template(&set.now));
        same.min_by(|a, b| by_creation(&a.now, &b.now))
    }

    /// Without the one of this name that the sync created itself: it is gone where its request, which was
    /// sent again by a layer below or was late, is carried out a second time.
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
