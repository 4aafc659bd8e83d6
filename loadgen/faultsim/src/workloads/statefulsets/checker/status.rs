//! The checks of invariant N7 for statuses: each is a count of the seen pods.

use std::collections::BTreeSet;

use podstorm_apiserver::Commit;
use podstorm_objects::{DynamicObject, Pod, PodPhase};

use super::SetJudge;
use super::seen::Seen;
use crate::simulation::Checked;
use crate::workloads::statefulsets::read::{Read, is_running_and_ready, revision_of};

impl SetJudge {
    pub(super) fn status_written(
        &mut self,
        seen: &Seen,
        new: &DynamicObject,
        commit: &Commit,
    ) -> Checked {
        let (set, written) = (seen.read(), Read::from_object(new));
        let name = set.name();
        if set.set.metadata.uid != new.metadata.uid {
            // As in upstream, a write is retried after a conflict on whatever object then has the
            // name.
            self.misplaced.insert(new.metadata.uid.clone());
        }
        let wrong = |text: String| Err(("N7", format!("{name} {text}")));
        let (observed, generation) = (
            written.count("observedGeneration"),
            set.set.metadata.generation,
        );
        if observed != generation {
            return wrong(format!(
                "has observed generation {observed} instead of {generation}"
            ));
        }
        let (update, current) = (
            written.said("updateRevision"),
            written.said("currentRevision"),
        );
        if !self.is_of(update, &set.template()) {
            return wrong(format!(
                "has update revision {update} with a different template"
            ));
        }
        let is_complete = self.is_complete(set, written);
        let wanted = match seen.current() {
            Some(current) if !is_complete => current,
            _ => update,
        };
        if current != wanted {
            return wrong(format!(
                "has current revision {current} instead of {wanted}"
            ));
        }
        if is_complete && seen.current().is_some_and(|it| it != update) {
            self.situations.insert("a rolling update is complete");
            let is_early = written.count("availableReplicas") < set.replicas();
            self.early += u64::from(is_early);
        }
        self.is_recount(seen, written, commit)
    }

    /// Reports whether a status marks the rollout as complete.
    fn is_complete(&self, set: Read<'_>, written: Read<'_>) -> bool {
        let are_available = || written.count("availableReplicas") == set.replicas();
        set.is_complete(written) && (!self.circumstances.completes_available || are_available())
    }

    /// Checks that the counts are those of the seen pods.
    fn is_recount(&self, seen: &Seen, written: Read<'_>, commit: &Commit) -> Checked {
        let set = seen.read();
        let ordinals: Vec<i64> = seen.claimed().map(|(ordinal, _)| ordinal).collect();
        let distinct: BTreeSet<i64> = ordinals.iter().copied().collect();
        if distinct.len() != ordinals.len() {
            // It is not specified which of two pods with the same ordinal counts.
            return Ok(());
        }
        let counted = seen
            .claimed()
            .filter(|(ordinal, _)| set.is_deleting() || *ordinal >= 0);
        let pods: Vec<&Pod> = counted.map(|(_, pod)| &**pod).collect();
        let count = |is: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| is(pod)).count() as i64;
        let is_created = |pod: &Pod| pod.status.phase != PodPhase::Unset;
        let is_at = |pod: &Pod, revision: &str| {
            is_created(pod) && !pod.metadata.is_deleting() && revision_of(&pod.metadata) == revision
        };
        let (update, current) = (
            written.said("updateRevision"),
            written.said("currentRevision"),
        );
        let latest_ns = self.latest_ns(commit);
        let available = |pod: &Pod| is_running_and_ready(pod) && set.is_available(pod, latest_ns);
        let updated = count(&|pod| is_at(pod, update));
        let (most_current, deletions) = match self.is_complete(set, written) {
            true => (updated, 0),
            false => (count(&|pod| is_at(pod, current)), seen.deletions),
        };
        let replicas = count(&is_created);
        let ready = count(&is_running_and_ready);
        for (member, least, most) in [
            ("replicas", replicas, replicas),
            ("readyReplicas", ready, ready),
            ("updatedReplicas", updated, updated),
            ("availableReplicas", 0, count(&available)),
            ("currentReplicas", most_current - deletions, most_current),
        ] {
            let said = written.count(member);
            if !(least..=most).contains(&said) {
                let text = format!("{} has {said} {member} of {most}", set.name());
                return Err(("N7", text));
            }
        }
        Ok(())
    }
}
