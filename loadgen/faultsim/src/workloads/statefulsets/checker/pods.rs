//! The checks of invariants N1 to N5 and N8 for the pods that a sync creates, claims, corrects and
//! deletes.

use podstorm_apiserver::Commit;
use podstorm_objects::Pod;

use super::SetJudge;
use super::seen::Seen;
use crate::simulation::Checked;
use crate::workloads::statefulsets::read::{
    POD_INDEX, POD_NAME, is_running_and_ready, revision_of,
};

impl SetJudge {
    /// Checks N1, N2, N5 and N8 for a new pod.
    pub(super) fn pod_created(&mut self, commit: &Commit, seen: &mut Seen, pod: &Pod) -> Checked {
        let set = seen.read();
        let (name, meta) = (&*pod.metadata.name, &pod.metadata);
        if set.is_deleting() {
            let text = format!("{name} was created although its set was terminating");
            return Err(("N8", text));
        }
        let ordinal = set
            .ordinal(meta)
            .filter(|ordinal| *name == *set.pod(*ordinal));
        let Some(ordinal) = ordinal.filter(|it| set.ordinals().contains(it)) else {
            let wanted = set.ordinals();
            let text = format!("{name} was created, but the wanted ordinals are {wanted:?}");
            return Err(("N1", text));
        };
        if let Some(pod) = seen.of_ordinal(ordinal).next() {
            let there = &pod.metadata.name;
            return Err(("N1", format!("{name} was created although {there} exists")));
        }
        let label = |key: &str| meta.labels.get(key).map(|value| &**value);
        let index = ordinal.to_string();
        let is_labelled =
            label(POD_NAME) == Some(name) && label(POD_INDEX) == Some(&index) && set.selects(meta);
        let may_strip = self.circumstances.may_strip;
        if !may_strip && (!is_labelled || !set.owns(meta)) {
            let text = format!("{name} was created without its labels or owner");
            return Err(("N1", text));
        }
        self.has_predecessors(commit, seen, ordinal, "created")?;
        self.is_alone(seen, name)?;
        if !may_strip {
            self.has_right_revision(seen, ordinal, pod)?;
        }
        seen.created
            .insert(name.to_owned(), std::sync::Arc::new(pod.clone()));
        Ok(())
    }

    /// Checks N2 and N3: an ordered set makes one change at a time.
    fn is_alone(&self, seen: &Seen, name: &str) -> Checked {
        let others = seen.created.keys().chain(&seen.deleted);
        let other = others.into_iter().find(|it| **it != *name);
        let most = if self.circumstances.uses_max_unavailable {
            seen.read().max_unavailable()
        } else {
            1
        };
        match other {
            Some(other) if seen.read().is_ordered() && most == 1 => {
                Err(("N2", format!("{name} follows {other} in one sync")))
            }
            _ => Ok(()),
        }
    }

    /// Checks N2: in an ordered set, every pod below this ordinal was seen ready.
    fn has_predecessors(&self, commit: &Commit, seen: &Seen, ordinal: i64, deed: &str) -> Checked {
        let set = seen.read();
        if !set.is_ordered() {
            return Ok(());
        }
        let wall_ns = self.latest_ns(commit);
        let is_healthy = |below: i64| {
            let mut pods = seen.of_ordinal(below);
            pods.any(|pod| set.is_healthy(pod, wall_ns))
        };
        match (set.start()..ordinal).find(|below| !is_healthy(*below)) {
            None => Ok(()),
            Some(below) => {
                let (pod, below) = (set.pod(ordinal), set.pod(below));
                Err(("N2", format!("{pod} was {deed}, but {below} is not ready")))
            }
        }
    }

    /// Checks N5: a new pod below the partition has the current revision.
    fn has_right_revision(&self, seen: &Seen, ordinal: i64, pod: &Pod) -> Checked {
        let set = seen.read();
        let revision = revision_of(&pod.metadata);
        let stay = match set.rolling() {
            Some(_) => set.partition(),
            None if set.is_on_delete() => 0,
            None => set.count("currentReplicas"),
        };
        let is_right = match seen.current() {
            Some(current) if ordinal < set.start() + stay => revision == current,
            _ => self.is_of(revision, &set.template()),
        };
        if is_right {
            return Ok(());
        }
        let pod = &pod.metadata.name;
        Err(("N5", format!("{pod} was created from {revision}")))
    }

    /// Checks N3, N4, N5 and N8 for the deletion of a pod.
    pub(super) fn pod_deleted(&mut self, commit: &Commit, seen: &mut Seen, old: &Pod) -> Checked {
        let set = seen.read();
        let name = old.metadata.name.to_string();
        if set.is_deleting() {
            let text = format!("{name} was deleted although its set was terminating");
            return Err(("N8", text));
        }
        let known = seen.named(&name).or_else(|| seen.created.get(&name));
        let Some(pod) = known.cloned() else {
            return Err(("N3", format!("{name} was deleted without being seen")));
        };
        self.mistaken += u64::from(pod.metadata.uid != old.metadata.uid);
        let ordinal = set.ordinal(&pod.metadata).unwrap_or(-1);
        self.is_alone(seen, &name)?;
        if !set.ordinals().contains(&ordinal) {
            self.may_be_condemned(commit, seen, ordinal, &pod)?;
        } else if pod.status.phase.is_terminal() {
            self.has_predecessors(commit, seen, ordinal, "deleted")?;
            self.situations.insert("a pod that has ended is replaced");
        } else {
            self.may_be_updated(commit, seen, ordinal, &pod)?;
        }
        seen.deleted.insert(name);
        Ok(())
    }

    /// Checks N3: pods beyond the ordinals are deleted from the highest ordinal down.
    fn may_be_condemned(
        &mut self,
        commit: &Commit,
        seen: &Seen,
        ordinal: i64,
        pod: &Pod,
    ) -> Checked {
        let set = seen.read();
        self.situations.insert("a set is scaled down");
        if !set.is_ordered() {
            return Ok(());
        }
        let name = &pod.metadata.name;
        self.has_predecessors(commit, seen, set.ordinals().end, "deleted")
            .map_err(|(_, text)| ("N3", text.replace(&set.pod(set.ordinals().end), name)))?;
        let wall_ns = self.latest_ns(commit);
        let beyond = || {
            let others = seen.claimed().filter(|(of, other)| {
                !set.ordinals().contains(of) && *of >= 0 && other.metadata.name != *name
            });
            others.map(|(of, other)| (of, other, set.is_healthy(other, wall_ns)))
        };
        if let Some((_, above, _)) = beyond().find(|(of, ..)| *of > ordinal) {
            let above = &above.metadata.name;
            return Err(("N3", format!("{name} was deleted before {above}")));
        }
        let is_healthy = set.is_healthy(pod, wall_ns);
        let below = beyond().find(|(of, _, is_healthy)| *of < ordinal && !is_healthy);
        match below {
            Some((_, below, _)) if !is_healthy && self.circumstances.clock_off_ns == 0 => {
                let below = &below.metadata.name;
                let text = format!("{name} was deleted, but {below} is not ready either");
                Err(("N3", text))
            }
            _ => Ok(()),
        }
    }

    /// Checks N4 and N5: a pod that has not ended and is not beyond the ordinals is deleted only
    /// for an update.
    fn may_be_updated(&mut self, commit: &Commit, seen: &Seen, ordinal: i64, pod: &Pod) -> Checked {
        let set = seen.read();
        let (name, template) = (&pod.metadata.name, set.template());
        if set.is_on_delete() {
            return Err(("N4", format!("{name} was deleted, which only users may do")));
        }
        let is_updated = |pod: &Pod| self.is_of(revision_of(&pod.metadata), &template);
        if is_updated(pod) {
            return Err(("N4", format!("{name} was deleted, but is up to date")));
        }
        if ordinal < set.first_updated() {
            let text = format!("{name} was deleted below the partition");
            return Err(("N5", text));
        }
        let wall_ns = self.latest_ns(commit);
        let is_available =
            |pod: &Pod| set.is_available(pod, wall_ns) && !pod.metadata.is_deleting();
        if self.circumstances.replaces_broken && !set.is_healthy(pod, commit.now.wall_ns) {
            // With the hardened controller, the deletion of such a pod is no loss, and the pod does
            // not block the deletion of others.
            self.situations.insert("a broken pod is replaced");
            return self.has_predecessors(commit, seen, ordinal, "deleted");
        }
        if set.is_ordered() {
            self.has_predecessors(commit, seen, set.ordinals().end, "deleted")
                .map_err(|(_, text)| ("N4", text.replace(&set.pod(set.ordinals().end), name)))?;
        }
        if self.circumstances.uses_max_unavailable {
            return self.leaves_enough(seen, &is_available, name);
        }
        let waits_for = (ordinal + 1..set.ordinals().end).find(|above| {
            let mut pods = seen.of_ordinal(*above);
            !pods.any(|pod| is_updated(pod) && is_available(pod))
        });
        match waits_for {
            None => {
                let situation = match is_running_and_ready(pod) {
                    true => "a ready pod is replaced",
                    false => "a pod that is not ready is replaced",
                };
                self.situations.insert(situation);
                Ok(())
            }
            Some(above) => {
                let above = set.pod(above);
                let text = format!("{name} was deleted, but {above} is not updated");
                Err(("N4", text))
            }
        }
    }

    /// Checks N4 with the feature gate for `maxUnavailable`.
    fn leaves_enough(
        &self,
        seen: &Seen,
        is_available: &dyn Fn(&Pod) -> bool,
        name: &str,
    ) -> Checked {
        let set = seen.read();
        let has_available = |ordinal: &i64| {
            let mut pods = seen.of_ordinal(*ordinal);
            pods.any(|pod| is_available(pod) && !seen.deleted.contains(&*pod.metadata.name))
        };
        let available = set.ordinals().filter(has_available).count() as i64;
        let most = set.max_unavailable().max(1);
        if set.replicas() - available >= most {
            let text = format!(
                "{name} was deleted, but only {available} pods were available and {most} may be unavailable"
            );
            return Err(("N4", text));
        }
        Ok(())
    }

    /// Checks N1 for a pod that gets or loses its owner.
    pub(super) fn pod_claimed(&mut self, seen: &Seen, pod: &Pod) -> Checked {
        let (set, name) = (seen.read(), &pod.metadata.name);
        if !set.owns(&pod.metadata) {
            // The pod was released.
            return match seen.named(name) {
                Some(_) => Err(("N1", format!("{name} was released, but belongs to the set"))),
                None => Ok(()),
            };
        }
        self.situations.insert("a pod is adopted");
        if set.is_deleting() || !seen.is_free(name) {
            return Err(("N1", format!("{name} was adopted")));
        }
        Ok(())
    }

    /// Checks N1: a written pod gets its identity back.
    pub(super) fn pod_corrected(&mut self, seen: &Seen, pod: &Pod) -> Checked {
        let (set, meta) = (seen.read(), &pod.metadata);
        self.situations.insert("a pod is corrected");
        let label = meta.labels.get(POD_NAME).map(|value| &**value);
        let ordinal = set.ordinal(meta).unwrap_or(-1);
        if label == Some(&*meta.name) && *meta.name == *set.pod(ordinal) {
            return Ok(());
        }
        Err((
            "N1",
            format!("{} was written with a wrong name label", meta.name),
        ))
    }
}
