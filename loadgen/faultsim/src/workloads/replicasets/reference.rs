//! The reference model: the work that a ReplicaSet controller must do between two times at rest.
//! The model is a sequential controller that reads the server instead of a cache and has no
//! expectations. It follows schedules without faults in lockstep, and does not share code with the
//! controller.
//!
//! A schedule is followed from rest to rest. At rest, everything is as wanted, every cache is
//! current, and no sync is in progress. If users performed exactly one action in between, the model
//! computes the required work from the server's state right after it: the number of pods created
//! for each owner, the pods that are adopted and released, the number of pods that are deleted (and
//! which, as far as the deletion cost and, with the hardened behaviour, the pods on the same node
//! decide), and the final status. The commits must match exactly. If users performed more actions
//! before the next rest, several histories are correct because of the syncs in between, and only
//! the final state is compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_apiserver::{Change, Cluster, Commit};
use podstorm_objects::{Pod, ReplicaSet, Uid};

use super::kinds;
use super::model::{is_active, owns, said, selects};
use crate::action::{Action, Death};
use crate::plan::{PlannedCluster, TimedAction};

/// The server's state at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The ReplicaSets, and the ReplicationControllers converted to ReplicaSets, as for their
    /// controller.
    pub(super) sets: Vec<Arc<ReplicaSet>>,
    /// The pods of the cluster.
    pub(super) pods: Vec<Arc<Pod>>,
}

impl Snapshot {
    /// Returns the current state of a simulation's cluster.
    pub(super) fn take(cluster: &Cluster) -> Snapshot {
        Snapshot {
            sets: kinds::all(cluster),
            pods: cluster.list(None).0,
        }
    }

    fn live_sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        let live = self.sets.iter().filter(|set| !set.metadata.is_deleting());
        live.map(|set| &**set)
    }
}

/// The work that controllers have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// The number of created pods, by owner.
    pub(super) created: BTreeMap<Uid, usize>,
    /// The names of the deleted pods, by owner.
    pub(super) deleted: BTreeMap<Uid, BTreeSet<String>>,
    /// The adopted pods: the UID of the owner and the name of the pod.
    pub(super) adopted: BTreeSet<(Uid, String)>,
    /// The released pods: the UID of the former owner and the name of the pod.
    pub(super) released: BTreeSet<(Uid, String)>,
}

/// The work that the controller of one ReplicaSet must do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Due {
    created: usize,
    deleted: usize,
    /// The names of the pods that are deleted in any case. The next field has those among which
    /// criteria that the model does not know select the rest.
    certain: BTreeSet<String>,
    possible: BTreeSet<String>,
    adopted: BTreeSet<String>,
    released: BTreeSet<String>,
    /// The counts in the final status: replicas, fully labeled, ready, available and terminating;
    /// `None` if the count is not known.
    status: [Option<i32>; 5],
    generation: i64,
}

/// Returns the work that the controller must do for one ReplicaSet in this snapshot.
fn due(set: &ReplicaSet, snapshot: &Snapshot, behaviour: Behaviour, burst: usize) -> Due {
    let mut due = Due::default();
    let mut claimed: Vec<&Pod> = Vec::new();
    for pod in snapshot.pods.iter().filter(|pod| is_active(pod)) {
        let owner = pod.metadata.controller().map(|owner| &owner.uid);
        let name = pod.metadata.name.to_string();
        match (owner, selects(set, pod)) {
            (Some(owner), true) if *owner == set.metadata.uid => claimed.push(pod),
            (Some(owner), false) if *owner == set.metadata.uid => {
                due.released.insert(name);
            }
            (None, true) => {
                due.adopted.insert(name);
                claimed.push(pod);
            }
            _ => {}
        }
    }
    let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
    due.created = wanted.saturating_sub(claimed.len());
    due.deleted = claimed.len().saturating_sub(wanted);
    choose(&mut due, &claimed, behaviour, burst);
    let template = &set.spec.template.metadata.labels;
    let labelled = |pod: &&Pod| pod.metadata.labels.contains_all(template);
    let all = set.spec.replicas.unwrap_or(1);
    let fully = claimed.iter().all(labelled).then_some(all);
    due.status = [Some(all), fully, Some(all), Some(all), Some(0)];
    due.generation = set.metadata.generation;
    due
}

/// Selects the pods to delete, as far as they follow from criteria that don't change in the
/// meantime.
fn choose(due: &mut Due, claimed: &[&Pod], behaviour: Behaviour, burst: usize) {
    let name = |pod: &&Pod| pod.metadata.name.to_string();
    // An adopted pod may be scheduled and become ready in the meantime, so any pod may be selected.
    if due.deleted == 0 || !due.adopted.is_empty() {
        due.possible = claimed.iter().map(name).collect();
        return;
    }
    let together = |pod: &Pod| {
        // Each delete changes the numbers of pods on a node for the next sync, and upstream counts
        // only the owner's own pods.
        if behaviour == Behaviour::Upstream || due.deleted > burst {
            return 0;
        }
        let same = claimed.iter().filter(|it| it.node_name == pod.node_name);
        same.count()
    };
    let mut ranked: Vec<((i32, Reverse<usize>), &Pod)> = claimed
        .iter()
        .map(|pod| ((cost(pod), Reverse(together(pod))), *pod))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let last = ranked[due.deleted - 1].0;
    let with = |pass: &dyn Fn((i32, Reverse<usize>)) -> bool| {
        let pods = ranked.iter().filter(|(rank, _)| pass(*rank));
        pods.map(|(_, pod)| name(pod)).collect()
    };
    due.certain = with(&|rank| rank < last);
    due.possible = with(&|rank| rank == last);
}

fn cost(pod: &Pod) -> i32 {
    let cost = pod
        .metadata
        .annotations
        .get("controller.kubernetes.io/pod-deletion-cost");
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Compares a run with the reference model.
#[derive(Debug, Default)]
pub(super) struct Lockstep {
    behaviour: Behaviour,
    burst: usize,
    /// The work that is due since the last rest, by the UID of the ReplicaSet; `None` if it is not
    /// known.
    due: Option<BTreeMap<Uid, Due>>,
    /// Whether everything is at rest now.
    rests: bool,
    steps: u32,
    done: Done,
    exact: u64,
    ends: u64,
    sometimes: BTreeSet<&'static str>,
}

impl Lockstep {
    /// Returns the comparison for a run without faults; `None` if a user action is not complete at
    /// one time.
    pub(super) fn new(
        steps: &[TimedAction<Action>],
        cluster: &PlannedCluster,
        behaviour: Behaviour,
    ) -> Option<Lockstep> {
        let simple = steps.iter().all(|step| {
            step.class.is_none()
                && match &step.action {
                    Action::Kill { how, .. } => matches!(how, Death::Deleted | Death::Removed),
                    Action::Scale { .. }
                    | Action::Touch { .. }
                    | Action::CreateOrphans { .. }
                    | Action::CreatePod { .. }
                    | Action::RemovePod { .. }
                    | Action::DeleteOwner { .. } => true,
                    _ => false,
                }
        });
        simple.then(|| Lockstep {
            behaviour,
            burst: cluster.burst_replicas as usize,
            due: Some(BTreeMap::new()),
            rests: true,
            ..Lockstep::default()
        })
    }

    /// Returns the number of comparisons so far: of every operation, and of only the final state.
    pub(super) fn compared(&self) -> [u64; 2] {
        [self.exact, self.ends]
    }

    /// Returns the kinds of work that were compared at least once.
    pub(super) fn sometimes(&self) -> &BTreeSet<&'static str> {
        &self.sometimes
    }

    /// Records a write by a controller.
    pub(super) fn committed(&mut self, commit: &Commit) {
        let Some((old, new)) = commit.downcast::<Pod>() else {
            return;
        };
        let owner = |pod: &Pod| pod.metadata.controller().map(|owner| owner.uid.clone());
        let name = new.metadata.name.to_string();
        let Some(old) = old else {
            if let Some(owner) = owner(new) {
                *self.done.created.entry(owner).or_default() += 1;
            }
            return;
        };
        let ends = new.metadata.is_deleting() || commit.change == Change::Deleted;
        match (owner(old), owner(new)) {
            (Some(owner), _) if ends && !old.metadata.is_deleting() => {
                self.done.deleted.entry(owner).or_default().insert(name);
            }
            (None, Some(owner)) => {
                self.done.adopted.insert((owner, name));
            }
            (Some(owner), None) => {
                self.done.released.insert((owner, name));
            }
            _ => {}
        }
    }

    /// Records the state after a user action.
    pub(super) fn stepped(&mut self, snapshot: &Snapshot) {
        self.steps += 1;
        let known = self.rests && self.steps == 1;
        self.rests = false;
        let (behaviour, burst) = (self.behaviour, self.burst);
        self.due = known.then(|| {
            let due = |set: &ReplicaSet| due(set, snapshot, behaviour, burst);
            let live = snapshot.live_sets();
            live.map(|set| (set.metadata.uid.clone(), due(set)))
                .collect()
        });
    }

    /// Records that users act before everything is at rest.
    pub(super) fn goes_on(&mut self) {
        self.rests = false;
    }

    /// Compares the work when everything is at rest.
    ///
    /// # Errors
    /// Fails with the first difference from the model.
    pub(super) fn rests(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let done = std::mem::take(&mut self.done);
        let due = self.due.take();
        // From now on, no work is due until users act.
        self.due = Some(snapshot.live_sets().map(settled).collect());
        (self.rests, self.steps) = (true, 0);
        let Some(due) = due else {
            self.ends += 1;
            return snapshot
                .live_sets()
                .try_for_each(|set| as_wanted(set, snapshot));
        };
        self.exact += 1;
        // Events about deleted or terminating objects may arrive after those of their pods.
        for (uid, due) in &due {
            self.note(due);
            self.compare(uid, due, &done, snapshot)?;
        }
        let strange = |uid: &Uid| !due.contains_key(uid);
        let adopted = done.adopted.iter().chain(&done.released);
        let mut others = adopted.map(|(uid, _)| uid).chain(done.deleted.keys());
        if let Some(uid) = others.find(|uid| strange(uid)) {
            return Err(format!("pods were written for {uid}, which is deleted"));
        }
        Ok(())
    }

    fn note(&mut self, due: &Due) {
        for (is_so, what) in [
            (due.created > 0, "the model agrees on creates"),
            (due.deleted > 0, "the model agrees on deletes"),
            (
                !due.certain.is_empty(),
                "the model agrees on the pods to delete",
            ),
            (!due.adopted.is_empty(), "the model agrees on adoptions"),
        ] {
            if is_so {
                self.sometimes.insert(what);
            }
        }
    }

    fn compare(
        &self,
        uid: &Uid,
        due: &Due,
        done: &Done,
        snapshot: &Snapshot,
    ) -> Result<(), String> {
        let mut sets = snapshot.live_sets();
        let Some(set) = sets.find(|set| set.metadata.uid == *uid) else {
            return Ok(());
        };
        let name = &set.metadata.name;
        let differs = |what: &str, is: String, must: String| {
            Err(format!("{name}: {what} {is}, but the model expects {must}"))
        };
        let created = done.created.get(uid).copied().unwrap_or(0);
        if created != due.created {
            return differs("created", created.to_string(), due.created.to_string());
        }
        let deleted = done.deleted.get(uid).cloned().unwrap_or_default();
        let among = |name: &String| due.certain.contains(name) || due.possible.contains(name);
        if deleted.len() != due.deleted
            || !due.certain.is_subset(&deleted)
            || !deleted.iter().all(among)
        {
            let must = format!(
                "{}: {:?} and others among {:?}",
                due.deleted, due.certain, due.possible
            );
            return differs("deleted", format!("{deleted:?}"), must);
        }
        for (what, done, due) in [
            ("adopted", &done.adopted, &due.adopted),
            ("released", &done.released, &due.released),
        ] {
            let own = done.iter().filter(|(owner, _)| owner == uid);
            let names: BTreeSet<String> = own.map(|(_, name)| name.clone()).collect();
            if names != *due {
                return differs(what, format!("{names:?}"), format!("{due:?}"));
            }
        }
        let status = &set.status;
        let mut told = said(status).map(Some);
        told[1] = told[1].filter(|_| due.status[1].is_some());
        if told != due.status || status.observed_generation != due.generation {
            let is = format!("{told:?} of generation {}", status.observed_generation);
            let must = format!("{:?} of generation {}", due.status, due.generation);
            return differs("the status has", is, must);
        }
        Ok(())
    }
}

/// Returns the work that is due for a ReplicaSet at rest: none, with an unchanged status.
fn settled(set: &ReplicaSet) -> (Uid, Due) {
    let due = Due {
        status: said(&set.status).map(Some),
        generation: set.metadata.generation,
        ..Due::default()
    };
    (set.metadata.uid.clone(), due)
}

fn as_wanted(set: &ReplicaSet, snapshot: &Snapshot) -> Result<(), String> {
    let own = |pod: &&Arc<Pod>| is_active(pod) && owns(set, pod);
    let (is, must) = (
        snapshot.pods.iter().filter(own).count(),
        set.spec.replicas.unwrap_or(1),
    );
    if i32::try_from(is) == Ok(must) {
        return Ok(());
    }
    Err(format!(
        "{} has {is} pods at the end, but the model expects {must}",
        set.metadata.name
    ))
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
