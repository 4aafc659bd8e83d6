//! Metrics of a run that no invariant limits: how long no controller acted on a ReplicaSet that
//! needed it, and how many deletes hit the wrong pod. The metrics show the known bugs of upstream's
//! behaviour.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_apiserver::Commit;
use podstorm_objects::{Pod, Uid};
use podstorm_sim::engine::observer::Origin;

use super::oracle::OracleState;
use crate::invariants::begins_deletion;
use crate::verdict::Verdict;

/// The state from which the metrics are computed.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// The time since which a ReplicaSet does not have the wanted number of pods and no controller
    /// acts on it, ns, by UID.
    idle_since: BTreeMap<Uid, i64>,
    /// The UIDs of the ReplicaSets that existed at the last commit.
    live: BTreeSet<Uid>,
}

impl Metrics {
    /// Updates the metrics in the verdict for a commit that the oracle has already processed.
    /// O(existing ReplicaSets).
    pub(super) fn committed(
        &mut self,
        oracle: &OracleState,
        commit: &Commit,
        origin: Option<Origin>,
        verdict: &mut Verdict,
    ) {
        let now_ns = commit.now.mono_ns;
        let mut worked_for = None;
        if let (Some((old, new)), Some(origin)) = (commit.downcast::<Pod>(), origin) {
            let sync = oracle.syncs.get(&origin.sync);
            worked_for = sync
                .and_then(|sync| sync.set.as_ref())
                .map(|set| &set.metadata.uid);
            if let Some(old) = old
                && begins_deletion(Some(old), new, commit.change)
            {
                deleted(oracle, old, origin, verdict);
            }
        }
        let written = &commit.new.metadata().uid;
        if oracle.sets.get(written).is_some_and(|set| !set.gone) {
            self.live.insert(written.clone());
        }
        self.live.retain(|uid| {
            let Some(set) = oracle.sets.get(uid) else {
                return false;
            };
            let unmet = !set.gone && set.active != set.demand();
            if (!unmet || worked_for == Some(uid))
                && let Some(since_ns) = self.idle_since.remove(uid)
            {
                verdict.longest_idle_ns = verdict.longest_idle_ns.max(now_ns - since_ns);
            }
            if unmet {
                self.idle_since.entry(uid.clone()).or_insert(now_ns);
            }
            !set.gone
        });
    }

    /// Includes the idle times that have not ended by `now_ns` in the verdict's longest idle time.
    pub(super) fn add_to(&self, verdict: &mut Verdict, now_ns: i64) {
        let open = self.idle_since.values().map(|since_ns| now_ns - since_ns);
        verdict.longest_idle_ns = open.fold(verdict.longest_idle_ns, i64::max);
    }
}

fn deleted(oracle: &OracleState, pod: &Pod, origin: Origin, verdict: &mut Verdict) {
    let Some(sync) = oracle.syncs.get(&origin.sync) else {
        return;
    };
    let seen = sync.seen.get(&*pod.metadata.name);
    let wrong = seen.is_some_and(|seen| seen.metadata.uid != pod.metadata.uid);
    verdict.wrong_pods_deleted += u64::from(wrong);
    let set = oracle
        .owner_counting(pod)
        .and_then(|uid| oracle.sets.get(&uid));
    let below = set.is_some_and(|set| !set.gone && set.active < set.least_since(sync.set_version));
    verdict.deletes_below_wanted += u64::from(below);
}
