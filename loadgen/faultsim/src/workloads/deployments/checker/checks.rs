//! The checks of the invariants D1 to D7 for one commit, numbered as in the module `deployments`.

use std::sync::Arc;

use podstorm::deployment::annotations::MAX_REPLICAS;
use podstorm::deployment::find_new::by_creation;
use podstorm_objects::{Deployment, Now, ReplicaSet, Uid};
use podstorm_sim::engine::observer::SyncId;

use super::super::limits::{is_same, limits};
use super::State;
use super::seen::{Seen, SeenSet, Way, is_controlled, revision};
use crate::invariants::Checked;
use crate::workloads::replicasets::pod_counts;

impl State {
    /// Checks a write of a ReplicaSet by a sync, and records it in the sync's view.
    pub(super) fn set_written(
        &mut self,
        sync: SyncId,
        old: Option<&Arc<ReplicaSet>>,
        new: &Arc<ReplicaSet>,
        is_gone: bool,
        now: Now,
    ) -> Checked {
        let Some(mut seen) = self.seen.remove(&sync) else {
            return Ok(());
        };
        let begins_to_go = is_gone
            || new.metadata.is_deleting() && old.is_none_or(|old| !old.metadata.is_deleting());
        let checked = if begins_to_go {
            deleted(&mut seen, new)
        } else {
            let size = |set: &Arc<ReplicaSet>| set.replicas();
            let (from, to) = (old.map_or(0, size), size(new));
            seen.has_sized |= from != to;
            let before = old
                .is_none()
                .then(|| seen.before_created(&new.metadata.name));
            let view = before.as_ref().unwrap_or(&seen);
            let mut checked = of_revision(view, old, new);
            if old.is_none() {
                checked = checked.and_then(|()| created(view, new));
            }
            if to > from {
                checked = checked
                    .and_then(|()| grown(view, new))
                    .and_then(|()| self.surge(view, new));
            } else if to < from {
                checked = checked.and_then(|()| self.availability(&seen, new, from, now));
            }
            checked
        };
        self.notice(&seen, old, new, is_gone);
        let owns = |set: &ReplicaSet| is_controlled(set, &seen.deployment.metadata.uid);
        let (owned, owns) = (old.is_some_and(|old| owns(old)), owns(new));
        match old {
            Some(_) if owns && !owned => seen.adopt(&new.metadata.name),
            _ if owns && !is_gone => seen.write(new),
            _ => {}
        }
        self.seen.insert(sync, seen);
        checked
    }

    /// Checks D1 for a write that enlarges a ReplicaSet in a sync that does not scale.
    fn surge(&self, seen: &Seen, new: &ReplicaSet) -> Checked {
        if seen.scales() || seen.way() == Way::RollsBack && seen.recreates() {
            return Ok(());
        }
        let others = self
            .owned(&seen.deployment)
            .filter(|(uid, _)| **uid != new.metadata.uid);
        let others = others.map(|(uid, set)| {
            let seen = seen.sets.get(uid).map_or(0, |set| set.now.replicas());
            i64::from(set.replicas().min(seen))
        });
        let sum = others.sum::<i64>() + i64::from(new.replicas());
        let most = limits(&seen.deployment).most;
        if sum <= most {
            return Ok(());
        }
        let (name, deployment) = (&new.metadata.name, &seen.deployment.metadata.name);
        let text = format!(
            "{name} grows to {} of {sum}, but {deployment} may have {most}",
            new.replicas()
        );
        Err(("D1", text))
    }

    /// Returns the ReplicaSets that the Deployment controls on the server.
    fn owned<'a>(
        &'a self,
        deployment: &'a Deployment,
    ) -> impl Iterator<Item = (&'a Uid, &'a Arc<ReplicaSet>)> {
        let uid = &deployment.metadata.uid;
        self.sets
            .iter()
            .filter(move |(_, set)| is_controlled(set, uid))
    }

    /// Returns the number of available pods of a ReplicaSet on the server.
    fn available(&self, set: &ReplicaSet, now: Now) -> i32 {
        let Some(pods) = self.pods.get(&set.metadata.uid) else {
            return 0;
        };
        pod_counts(set, pods.values().map(|pod| &**pod), |_| false, now.wall_ns)[3]
    }

    /// Checks D2 for a write that makes a ReplicaSet smaller than `from`.
    fn availability(&self, seen: &Seen, new: &ReplicaSet, from: i32, now: Now) -> Checked {
        let least = limits(&seen.deployment).least_available;
        if seen.scales() || least == 0 {
            return Ok(());
        }
        let uid = &new.metadata.uid;
        let newest = seen.newest().map(|set| set.now.metadata.uid.clone());
        let believed = |set: &SeenSet| set.now.status.available_replicas;
        // The status of a ReplicaSet that has shrunk may still count terminating pods.
        let beyond = |set: &SeenSet| i64::from((believed(set) - set.size_at_first()).max(0));
        let mut possible: i64 = seen.sets.values().map(beyond).sum();
        for (of, set) in &seen.sets {
            possible += i64::from(match of {
                _ if Some(of) == newest.as_ref() => believed(set),
                _ if of == uid => new.replicas(),
                _ => set.now.replicas(),
            });
        }
        let (name, deployment) = (&new.metadata.name, &seen.deployment.metadata.name);
        let shrinks = format!("{name} shrinks from {from} to {}", new.replicas());
        if possible < least && newest.as_ref() != Some(uid) {
            let text =
                format!("{shrinks}: with all others, {deployment} has {possible} of {least}");
            return Err(("D2", text));
        }
        let real = self.available(new, now);
        let known = seen.sets.get(uid).map_or(0, believed);
        if real.min(known).min(from) <= new.replicas() {
            return Ok(());
        }
        let mut left = 0;
        for (of, set) in self.owned(&seen.deployment) {
            // For this ReplicaSet, `set` is the state before the write.
            let size = if of == uid {
                new.replicas()
            } else {
                set.replicas()
            };
            left += i64::from(size.min(self.available(set, now)));
        }
        let (mut excused, owner) = (0, &seen.deployment.metadata.uid);
        for (of, seen) in &seen.sets {
            if seen.size_at_first() == 0 && Some(of) != newest.as_ref() {
                continue;
            }
            // A deleted ReplicaSet has no pods, and the pods of one that was released in the
            // meantime (this is a late write) no longer count.
            let set = self.sets.get(of).filter(|set| is_controlled(set, owner));
            let own = seen.size_at_first() - seen.now.replicas();
            let real = set.map_or(0, |set| self.available(set, now).min(set.replicas() + own));
            excused += i64::from((believed(seen) - real).max(0));
        }
        if left + excused >= least {
            return Ok(());
        }
        let text = format!(
            "{shrinks}: {left} available pods stay and {excused} were believed, of {least} that \
             {deployment} must have"
        );
        Err(("D2", text))
    }

    /// Checks a sync's write of its Deployment.
    pub(super) fn deployment_written(
        &mut self,
        sync: SyncId,
        old: &Arc<Deployment>,
        new: &Arc<Deployment>,
    ) -> Checked {
        let Some(seen) = self.seen.get(&sync) else {
            return Ok(());
        };
        let of = |it: &Deployment| revision(&it.metadata.annotations);
        let highest = seen.highest_revision();
        if new.status.collision_count > old.status.collision_count {
            self.situations
                .insert("a name is taken by another ReplicaSet");
        }
        if !is_same(&old.spec.template, &new.spec.template) {
            self.situations.insert("a Deployment is rolled back");
        }
        match of(new) {
            written if written == of(old) => Ok(()),
            Some(written) if written >= highest => Ok(()),
            written => {
                let name = &new.metadata.name;
                let text = format!("{name} gets revision {written:?}, but {highest} was seen");
                Err(("D3", text))
            }
        }
    }

    /// Checks D1 at the end of a sync that scales.
    pub(super) fn sync_ended(&mut self, sync: SyncId, has_failed: bool) -> Checked {
        let Some(seen) = self.seen.get(&sync) else {
            return Ok(());
        };
        if !seen.scales() || !seen.has_sized || has_failed {
            return Ok(());
        }
        let most = match seen.deployment.replicas() {
            0 => 0,
            _ => limits(&seen.deployment).most,
        };
        let (before, after) = (
            seen.size_sum(|set| i64::from(set.size_at_first())),
            seen.size_sum(|set| i64::from(set.now.replicas())),
        );
        let bound = match before <= most {
            true => most,
            false => seen.size_sum(|set| largest_share(&seen.deployment, set, most)),
        };
        if after <= bound {
            return Ok(());
        }
        let name = &seen.deployment.metadata.name;
        let text = format!("{name} is scaled from {before} to {after}, but may have {most}");
        Err(("D1", text))
    }

    /// Records situations, to measure how much seeds cover.
    fn notice(
        &mut self,
        seen: &Seen,
        old: Option<&Arc<ReplicaSet>>,
        new: &ReplicaSet,
        is_gone: bool,
    ) {
        let is_newest = seen.has_template(new);
        let situation = match old {
            _ if is_gone => "an old ReplicaSet is deleted",
            None if seen.sets.is_empty() => "the first ReplicaSet of a Deployment is created",
            None if seen.recreates() => "a ReplicaSet is created when old pods have ended",
            None => "a ReplicaSet is created while others exist",
            Some(old) if old.metadata.controller() != new.metadata.controller() => {
                "a ReplicaSet is adopted or released"
            }
            Some(old) if seen.scales() && old.replicas() != new.replicas() => {
                match seen
                    .sets
                    .values()
                    .filter(|set| set.size_at_first() > 0)
                    .count()
                {
                    0 | 1 => "one ReplicaSet is scaled",
                    _ => "several ReplicaSets are scaled",
                }
            }
            Some(old) if new.replicas() > old.replicas() && is_newest => "the new one grows",
            Some(old) if new.replicas() < old.replicas() && is_newest => "the new one shrinks",
            Some(old) if new.replicas() < old.replicas() => "an old one shrinks",
            Some(_) if is_newest && revision(&new.metadata.annotations) > Some(2) => {
                "a revision is raised beyond 2"
            }
            Some(_) => return,
        };
        self.situations.insert(situation);
    }
}

/// Returns the maximum size of a ReplicaSet if there are already too many pods: its current size,
/// or its share of `most`. Upstream computes the share from the maximum number of pods when the
/// controller last sized it. A ReplicaSet that a user has resized since may therefore grow, and the
/// others can't always compensate, because none can have less than 0 pods.
fn largest_share(deployment: &Deployment, set: &SeenSet, most: i64) -> i64 {
    let size = i64::from(set.size_at_first());
    let annotations = set.first.as_ref().map(|set| &set.metadata.annotations);
    let whole = annotations.and_then(|it| it.get(MAX_REPLICAS)?.parse().ok());
    let whole = match whole {
        None | Some(0) => i64::from(deployment.status.replicas),
        Some(whole) => whole,
    };
    match whole {
        0 => size,
        _ => size.max((2 * size * most + whole) / (2 * whole)),
    }
}

/// Checks D3 for a write of a ReplicaSet.
fn of_revision(seen: &Seen, old: Option<&Arc<ReplicaSet>>, new: &ReplicaSet) -> Checked {
    let written = revision(&new.metadata.annotations);
    let holds = match old {
        Some(old) => written >= revision(&old.metadata.annotations),
        None => written > Some(seen.highest_revision()),
    };
    if holds {
        return Ok(());
    }
    let before = old.map(|old| revision(&old.metadata.annotations));
    let (name, highest) = (&new.metadata.name, seen.highest_revision());
    let text = format!("{name} gets revision {written:?} after {before:?}, but {highest} was seen");
    Err(("D3", text))
}

/// Checks D5 for a new ReplicaSet.
fn created(seen: &Seen, new: &ReplicaSet) -> Checked {
    let (name, deployment) = (&new.metadata.name, &seen.deployment.metadata.name);
    if seen.deployment.spec.paused {
        let text = format!("{name} is created, but {deployment} is paused");
        return Err(("D5", text));
    }
    let same = |set: &&SeenSet| is_same(&set.now.spec.template, &new.spec.template);
    match seen.sets.values().find(same) {
        Some(set) => {
            let other = &set.now.metadata.name;
            Err((
                "D5",
                format!("{name} is created, but {other} has its template"),
            ))
        }
        None => Ok(()),
    }
}

/// Checks D4 and D6 for a ReplicaSet that grows.
fn grown(seen: &Seen, new: &ReplicaSet) -> Checked {
    if seen.scales() {
        return Ok(());
    }
    let name = &new.metadata.name;
    let older = seen.newest().map(|newest| &newest.now).filter(|newest| {
        newest.metadata.uid != new.metadata.uid && by_creation(newest, new).is_lt()
    });
    if !seen.has_template(new) || older.is_some() {
        let text = format!(
            "{name} grows to {}, but it is an old ReplicaSet",
            new.replicas()
        );
        return Err(("D4", text));
    }
    let has_pods = |set: &&SeenSet| {
        let set = &set.now;
        set.metadata.uid != new.metadata.uid && (set.replicas() > 0 || set.status.replicas > 0)
    };
    if seen.recreates()
        && seen.way() != Way::RollsBack
        && let Some(set) = seen.sets.values().find(has_pods)
    {
        let other = &set.now.metadata.name;
        return Err(("D6", format!("{name} grows, but {other} still has pods")));
    }
    Ok(())
}

/// Checks D7 against the state when the sync began. Upstream deletes only by name, so it may delete
/// another ReplicaSet that was created under the name in the meantime.
fn deleted(seen: &mut Seen, set: &ReplicaSet) -> Checked {
    let newest = seen.newest().map(|it| it.now.metadata.uid.clone());
    let first = seen.sets.values().filter_map(|it| it.first.as_ref());
    let old = first.filter(|it| Some(&it.metadata.uid) != newest.as_ref());
    // The same request may be carried out twice, and then delete another object.
    seen.deleted.remove(&*set.metadata.name);
    let left = old.filter(|it| !it.metadata.is_deleting()).count() - seen.deleted.len();
    seen.deleted.insert(set.metadata.name.to_string());
    let mut first = seen.sets.values().filter_map(|it| it.first.as_ref());
    let of_it = first.find(|it| it.metadata.name == set.metadata.name);
    let is_unused = of_it.is_some_and(|it| it.replicas() == 0 && it.status.replicas == 0);
    let is_old = of_it.is_some_and(|it| Some(&it.metadata.uid) != newest.as_ref());
    let limit = seen.deployment.spec.revision_history_limit;
    let limit = limit.filter(|limit| *limit != i32::MAX);
    let is_beyond = limit.is_some_and(|limit| left as i64 > i64::from(limit));
    if is_unused && is_old && is_beyond {
        return Ok(());
    }
    let name = &set.metadata.name;
    let text = format!(
        "{name} is deleted (unused {is_unused}, old {is_old}, beyond the limit {is_beyond})"
    );
    Err(("D7", text))
}
