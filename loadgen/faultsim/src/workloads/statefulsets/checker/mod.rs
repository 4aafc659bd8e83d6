//! The checks of the invariants N1 to N8 for one commit, numbered as in the module `statefulsets`:
//! for [`pods`](self), [`claims`], [`revisions`] and the [`status`], given the view of the sync
//! ([`seen`]).

mod claims;
mod pods;
mod revisions;
mod seen;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::statefulset::Controller;
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{DynamicObject, Kind, Pod, Uid};
use podstorm_sim::engine::observer::SyncId;

use super::circumstances::Circumstances;
use super::read::{NO_SCHEDULER, Read, Template, template_of_revision};
use crate::invariants::begins_deletion;
use crate::simulation::{Checked, Judge, Simulation};
use seen::Seen;

/// Checks the invariants of StatefulSets in a run.
#[derive(Debug, Default)]
pub struct SetJudge {
    circumstances: Circumstances,
    /// The template of every revision so far, by the revision's name, which is derived from the
    /// template.
    templates: BTreeMap<String, Template>,
    /// The view of each sync. Kept after the sync has ended, because its requests may be carried
    /// out late.
    seen: BTreeMap<SyncId, Seen>,
    situations: BTreeSet<&'static str>,
    /// The template of each set, and the time since which it has this template, ns.
    sets: BTreeMap<Uid, (Template, i64)>,
    /// The sets that got the status of another set of the same name.
    misplaced: BTreeSet<Uid>,
    /// The time since which each unschedulable pod exists, ns.
    idle: BTreeMap<Uid, i64>,
    /// The longest time for which a broken pod was kept after its set got another template, ns.
    kept_ns: i64,
    /// The number of statuses that the server rejected as invalid.
    refused: u64,
    /// The number of pods that were deleted in place of a seen pod with the same name.
    mistaken: u64,
    /// The number of rollouts that were marked as complete before all pods were available.
    early: u64,
}

impl SetJudge {
    /// Returns the judge of a run with these circumstances.
    pub(super) fn new(circumstances: Circumstances) -> SetJudge {
        SetJudge {
            circumstances,
            ..SetJudge::default()
        }
    }

    /// Reports whether the named revision has this template.
    fn is_of(&self, revision: &str, template: &Template) -> bool {
        self.templates.get(revision) == Some(template)
    }

    /// Returns the latest time that the controller's clock may show.
    fn latest_ns(&self, commit: &Commit) -> i64 {
        commit.now.wall_ns + self.circumstances.clock_off_ns
    }

    fn pod_committed(&mut self, commit: &Commit, seen: Option<&mut Seen>) -> Checked {
        let Some((old, new)) = commit.downcast::<Pod>() else {
            return Ok(());
        };
        self.count_kept(commit, old, new);
        let Some(seen) = seen else {
            return Ok(());
        };
        match old {
            None => self.pod_created(commit, seen, new),
            Some(old) if begins_deletion(Some(old), new, commit.change) => {
                self.pod_deleted(commit, seen, old)
            }
            // A second deletion removes the pod whose deletion the first one has begun.
            Some(_) if commit.change == Change::Deleted => Ok(()),
            Some(old) if old.metadata.owner_references != new.metadata.owner_references => {
                self.pod_claimed(seen, new)
            }
            Some(_) => self.pod_corrected(seen, new),
        }
    }

    /// Measures how long a broken pod is kept.
    fn count_kept(&mut self, commit: &Commit, old: Option<&Pod>, new: &Pod) {
        let (uid, now_ns) = (&new.metadata.uid, commit.now.mono_ns);
        if old.is_none() && new.spec.scheduler_name.is_some() {
            self.idle.insert(uid.clone(), now_ns);
        }
        if !begins_deletion(old, new, commit.change) {
            return;
        }
        let owner = new.metadata.controller();
        let set = owner.and_then(|owner| self.sets.get(&owner.uid));
        if let Some(((template, changed_ns), since_ns)) = set.zip(self.idle.remove(uid))
            && template.1 != NO_SCHEDULER
        {
            self.kept_ns = self.kept_ns.max(now_ns - since_ns.max(*changed_ns));
        }
    }

    fn object_committed(&mut self, commit: &Commit, seen: Option<&mut Seen>) -> Checked {
        let of = |object: &podstorm_objects::AnyObject| object.clone().downcast::<DynamicObject>();
        let Some(new) = of(&commit.new) else {
            return Ok(());
        };
        let old = commit.old.as_ref().and_then(of);
        let (kind, is_gone) = (new.kind(), commit.change == Change::Deleted);
        if kind == Kind::CONTROLLER_REVISION {
            let template = template_of_revision(&new);
            self.templates
                .insert(new.metadata.name.to_string(), template);
        }
        if kind == Kind::STATEFUL_SET {
            let (uid, template) = (&new.metadata.uid, Read::from_object(&new).template());
            let known = self
                .sets
                .get(uid)
                .is_some_and(|(known, _)| *known == template);
            if !known {
                self.sets
                    .insert(uid.clone(), (template, commit.now.mono_ns));
            }
        }
        let Some(seen) = seen else {
            return Ok(());
        };
        if kind == Kind::PERSISTENT_VOLUME_CLAIM {
            self.claim_written(seen, old.as_deref(), &new, is_gone)
        } else if kind == Kind::CONTROLLER_REVISION {
            self.revision_written(seen, old.as_deref(), &new, is_gone)
        } else if kind == Kind::STATEFUL_SET {
            self.status_written(seen, &new, commit)
        } else {
            Ok(())
        }
    }
}

impl Judge for SetJudge {
    type Workload = Controller;

    fn begins(&mut self, sync: SyncId, controller: &Controller, _: usize, key: KeyId) {
        if let Some(seen) = Seen::from_cache(controller, key) {
            self.seen.insert(sync, seen);
        }
    }

    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        // The view is taken out temporarily, because the checks change both it and `self`.
        let mut seen = sync.and_then(|sync| self.seen.remove(&sync));
        let checked = match commit.new.kind() == Kind::POD {
            true => self.pod_committed(commit, seen.as_mut()),
            false => self.object_committed(commit, seen.as_mut()),
        };
        if let (Some(sync), Some(seen)) = (sync, seen) {
            self.seen.insert(sync, seen);
        }
        checked
    }

    fn answered(&mut self, sync: SyncId, request: &Request, answer: &Answer) {
        if let (Request::PutStatus { .. }, Answer::Failed(error)) = (request, answer) {
            self.refused += u64::from(error.code == 422);
        }
        if let Some(seen) = self.seen.get_mut(&sync) {
            seen.answered(request, answer);
        }
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        super::at_rest::missing(&self.misplaced, simulation)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("statuses rejected as invalid", self.refused),
            (
                "pods deleted in place of another with the same name",
                self.mistaken,
            ),
            (
                "longest time that a broken pod was kept, s",
                self.kept_ns.unsigned_abs() / 1_000_000_000,
            ),
            ("rollouts completed too early", self.early),
        ]
    }

    fn situations(&self) -> Vec<&'static str> {
        self.situations.iter().copied().collect()
    }

    #[cfg(test)]
    fn plants(request: &Request) -> Option<Vec<Request>> {
        super::planted_tests::requests(request)
    }

    #[cfg(test)]
    fn spoils(controller: &Controller, queue: usize, key: KeyId, now: podstorm_objects::Now) {
        use podstorm::driver::Workload as _;
        super::planted_tests::sync_begins(&controller.queues()[queue], key, now);
    }
}
