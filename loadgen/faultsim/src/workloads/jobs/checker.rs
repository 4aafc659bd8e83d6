//! The checks of the invariants B1 to B8 for one commit, numbered as in the module `jobs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::job::{Controller, JOBS};
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{DynamicObject, Kind, Pod, PodPhase, Uid};
use podstorm_sim::engine::observer::SyncId;

use super::circumstances::Circumstances;
use super::status::{ENDS, Read, has_succeeded, index_of, is_tracked, owner_of, restarts_of};
use super::users::selects;
use crate::simulation::{Checked, Judge, Simulation};

/// A pod as of its last commit, and its history.
#[derive(Debug)]
pub(super) struct KnownPod {
    pub(super) pod: Arc<Pod>,
    pub(super) is_gone: bool,
    has_succeeded: bool,
    has_failed: bool,
    was_deleted: bool,
    /// The time since which the pod has ended and is terminating, ns.
    held_since_ns: Option<i64>,
    /// Whether the pod had no Job for a while, or users removed its finalizer.
    is_odd: bool,
}

/// Checks the invariants of Jobs in a run.
#[derive(Debug, Default)]
pub struct JobJudge {
    pub(super) circumstances: Circumstances,
    pub(super) pods: BTreeMap<Uid, KnownPod>,
    jobs: BTreeMap<Uid, Arc<DynamicObject>>,
    /// The pods that each Job has ever listed, as succeeded and as failed.
    listed: BTreeMap<Uid, [BTreeSet<Uid>; 2]>,
    /// The number of pods that each Job has listed as succeeded and as failed.
    recount: BTreeMap<Uid, [i64; 2]>,
    /// The Job that each sync saw at its beginning. Kept after the sync has ended, because its
    /// requests may be carried out late.
    seen: BTreeMap<SyncId, Arc<DynamicObject>>,
    /// The ended pods that lost their finalizer without being counted, by sync and name. The sync
    /// must delete them.
    owed: BTreeMap<(SyncId, String), String>,
    /// The pod patches that failed, as far as the sync knows, by sync and name, with the code of
    /// the answer.
    failed: BTreeMap<(SyncId, String), u16>,
    situations: BTreeSet<&'static str>,
    /// The number of statuses that the server rejected as invalid.
    refused: u64,
    /// The number of times that a pod was counted again.
    counted_again: u64,
    /// The longest time for which an ended pod was kept, ns.
    held_ns: i64,
}

/// The HTTP code for an invalid request.
const INVALID: u16 = 422;

const LISTS: [&str; 2] = ["succeeded", "failed"];

impl JobJudge {
    /// Returns the judge of a run with these circumstances.
    pub(super) fn new(circumstances: Circumstances) -> JobJudge {
        JobJudge {
            circumstances,
            ..JobJudge::default()
        }
    }

    /// Returns the number of pods that a Job has listed as succeeded and as failed.
    pub(super) fn recount(&self, job: &Uid) -> [i64; 2] {
        self.recount.get(job).copied().unwrap_or_default()
    }

    /// Reports whether a pod had no Job for a while, or users removed its finalizer.
    pub(super) fn is_odd(&self, pod: &Pod) -> bool {
        let known = self.pods.get(&pod.metadata.uid);
        known.is_some_and(|known| known.is_odd)
    }

    /// Returns the pods that a Job owns on the server.
    pub(super) fn owned<'a>(&'a self, job: &'a Uid) -> impl Iterator<Item = &'a Arc<Pod>> {
        let there = self.pods.values().filter(|known| !known.is_gone);
        let own = there.filter(move |known| owner_of(&known.pod) == Some(job));
        own.map(|known| &known.pod)
    }

    fn pod_committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let pod = commit.new.clone().downcast::<Pod>();
        let pod = pod.expect("the object has this kind");
        let is_gone = commit.change == Change::Deleted;
        let uid = pod.metadata.uid.clone();
        let old = self.pods.get(&uid).map(|known| Arc::clone(&known.pod));
        let owner = owner_of(&pod).cloned();
        let was_tracked = old.as_ref().is_some_and(|old| is_tracked(old));
        let mut checked = Ok(());
        let lost = was_tracked && !is_tracked(&pod);
        if lost && let (Some(sync), Some(owner)) = (sync, &owner) {
            checked = self.released(sync, owner, &pod);
        }
        let known = self.pods.entry(uid.clone()).or_insert_with(|| KnownPod {
            pod: Arc::clone(&pod),
            is_gone,
            has_succeeded: false,
            has_failed: false,
            was_deleted: false,
            held_since_ns: None,
            is_odd: false,
        });
        known.is_odd |= owner.is_none() || lost && sync.is_none();
        let was_owned_by = old.as_ref().and_then(|old| owner_of(old));
        known.is_odd |= old.is_some() && was_owned_by != owner.as_ref();
        known.has_succeeded |= has_succeeded(&pod);
        known.has_failed |= pod.status.phase == PodPhase::Failed;
        known.was_deleted |= is_gone || pod.metadata.is_deleting();
        if pod.metadata.is_deleting() && pod.status.phase.is_terminal() {
            let now_ns = commit.now.mono_ns;
            let since_ns = *known.held_since_ns.get_or_insert(now_ns);
            if is_gone {
                self.held_ns = self.held_ns.max(now_ns - since_ns);
            }
        }
        known.is_gone = is_gone;
        known.pod = Arc::clone(&pod);
        if old.is_some() && !was_tracked && is_tracked(&pod) {
            // The pod was adopted again: its end counts once more.
            for [succeeded, failed] in self.listed.values_mut() {
                succeeded.remove(&uid);
                failed.remove(&uid);
            }
        }
        if let (None, Some(sync), Some(owner)) = (&old, sync, &owner) {
            checked = checked.and_then(|()| self.created(sync, owner, &pod));
        }
        checked
    }

    /// Checks B4 for a pod whose tracking finalizer a sync removes.
    fn released(&mut self, sync: SyncId, owner: &Uid, pod: &Pod) -> Checked {
        let meta = &pod.metadata;
        let Some(job) = self.jobs.get(owner) else {
            return Ok(());
        };
        let job = Read::from_object(job);
        let is_odd = self.pods.get(&meta.uid).is_some_and(|known| known.is_odd);
        // A terminating Job releases pods that had not ended when the sync saw them.
        let counts = !job.has_finished() && !job.job.metadata.is_deleting();
        if !pod.status.phase.is_terminal() || !counts || is_odd {
            return Ok(());
        }
        let index = index_of(pod);
        let lists = self.listed.get(owner);
        let is_listed = lists.is_some_and(|lists| lists.iter().any(|it| it.contains(&meta.uid)));
        let is_indexed = job.is_indexed();
        // An elastic Job may have had fewer indexes when the sync began.
        let seen = self.seen.get(&sync).map(|seen| Read::from_object(seen));
        let has_no_index = is_indexed
            && seen.iter().chain([&job]).any(|job| {
                let completions = job.number("completions").unwrap_or(0);
                !(0..completions).contains(&index)
            });
        // An index that has failed may have another pod, which succeeds: the first outcome stays.
        let lists_of_indexes = ["completedIndexes", "failedIndexes"];
        let is_done = is_indexed
            && lists_of_indexes
                .iter()
                .any(|list| job.indexes(list).contains(&index));
        let is_ignored = job.action(pod) == Some("Ignore");
        let is_left = job.condition("SuccessCriteriaMet").is_some() && !has_succeeded(pod);
        if is_listed || has_no_index || is_ignored || is_left || is_done && has_succeeded(pod) {
            return Ok(());
        }
        let place = (sync, meta.name.to_string());
        if !self.failed.contains_key(&place) {
            self.situations.insert("a pod ends while it is scaled down");
            let text = format!("{} of {} ended but is not counted", meta.name, job.name());
            self.owed.insert(place, text);
        }
        Ok(())
    }

    /// Checks B7 and B8 for a new pod.
    fn created(&mut self, sync: SyncId, owner: &Uid, pod: &Pod) -> Checked {
        let Some(seen) = self.seen.get(&sync) else {
            return Ok(());
        };
        let job = Read::from_object(seen);
        let (name, pod_name) = (job.name().to_owned(), &pod.metadata.name);
        let is_over = job.is_suspended() || job.has_finished() || seen.metadata.is_deleting();
        if is_over {
            return Err(("B7", format!("{pod_name} was created for {name}")));
        }
        if self.circumstances.may_exceed {
            return Ok(());
        }
        let pods = || {
            self.owned(owner)
                .filter(|pod| !pod.status.phase.is_terminal())
        };
        let active = pods().filter(|pod| pod.is_active() || job.replaces_failed());
        let active: Vec<_> = active.collect();
        let done = job.done_indexes();
        let is_open = |index: i64| job.has_index(index) && !done.contains(&index);
        // As in upstream, a pod takes no room from open indexes if its own index has failed or is
        // no longer below the completions.
        let open = active.iter().filter(|pod| is_open(index_of(pod)));
        for (count, wanted) in [(active.len(), job.most()), (open.count(), job.wanted())] {
            if count as i64 > wanted {
                let text = format!("{name} has {count} pods with {pod_name}, but wants {wanted}");
                return Err(("B8", text));
            }
        }
        let index = index_of(pod);
        if job.is_indexed() {
            let same = pods().filter(|pod| pod.is_active() && index_of(pod) == index);
            let same = same.count();
            if same > 1 || !is_open(index) {
                let text = format!("index {index} of {name} has {pod_name} as one of {same} pods");
                return Err(("B8", text));
            }
        }
        Ok(())
    }

    fn job_committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let job = commit.new.clone().downcast::<DynamicObject>();
        let job = job.expect("the object has this kind");
        let uid = job.metadata.uid.clone();
        let old = self.jobs.get(&uid).cloned();
        let new = Read::from_object(&job);
        let mut checked = Ok(());
        if let (Some(old), Some(sync)) = (&old, sync) {
            let old = Read::from_object(old);
            if old.status != new.status {
                checked = self.status_written(sync, &old, &new, commit.now.wall_ns);
            }
        }
        let lists = self.listed.entry(uid.clone()).or_default();
        let recount = self.recount.entry(uid.clone()).or_default();
        for (at, list) in LISTS.into_iter().enumerate() {
            let before = old.as_ref().map(|old| Read::from_object(old).listed(list));
            let now = new.listed(list);
            let added = now
                .difference(before.as_ref().unwrap_or(&BTreeSet::new()))
                .count();
            recount[at] += added as i64;
            lists[at].extend(now);
        }
        if commit.change == Change::Deleted {
            self.jobs.remove(&uid);
        } else {
            self.jobs.insert(uid, job);
        }
        checked
    }

    /// Checks B1 to B3, B5 and B6 for a write of a status.
    fn status_written(
        &mut self,
        sync: SyncId,
        old: &Read<'_>,
        new: &Read<'_>,
        wall_ns: i64,
    ) -> Checked {
        let name = new.name();
        if old.has_finished() {
            return Err(("B5", format!("{name} was written after its end")));
        }
        let taken = |kind: &&&str| old.condition(kind).is_some() && new.condition(kind).is_none();
        if let Some(kind) = ENDS.iter().find(taken) {
            return Err(("B5", format!("{name} has lost its condition {kind}")));
        }
        // The current indexes apply to the earlier status, too.
        let old_status = Read {
            spec: new.spec,
            ..old.clone()
        };
        let completed = |job: &Read<'_>| job.own_indexes("completedIndexes");
        let (before, after) = (completed(&old_status), completed(new));
        if !before.is_subset(&after) {
            return Err(("B1", format!("{name} has lost a completed index")));
        }
        if new.is_indexed() && new.count("succeeded") != after.len() as i64 {
            let text = format!("the count of {name} differs from its indexes");
            return Err(("B2", text));
        }
        let uid = &new.job.metadata.uid;
        for (at, list) in LISTS.into_iter().enumerate() {
            let (was, is) = (old.count(list), new.count(list));
            if new.is_indexed() && at == 0 {
                continue;
            }
            if is < was {
                let text = format!("{list} of {name} decreases from {was} to {is}");
                return Err(("B1", text));
            }
            self.list_written(sync, list, old, new)?;
            let added: Vec<Uid> = new
                .listed(list)
                .difference(&old.listed(list))
                .cloned()
                .collect();
            for pod in added {
                let lists = self.listed.get(uid);
                let is_known = lists.is_some_and(|lists| lists.iter().any(|it| it.contains(&pod)));
                if is_known && !self.circumstances.may_recount {
                    return Err(("B2", format!("{name} counts {pod} twice")));
                }
                self.counted_again += u64::from(is_known);
                self.may_be_listed(&pod, at, new)?;
            }
        }
        for index in after.difference(&before) {
            let mut pods = self
                .pods
                .values()
                .filter(|known| index_of(&known.pod) == *index);
            let has_run = pods.any(|known| {
                known.has_succeeded && (known.is_odd || owner_of(&known.pod) == Some(uid))
            });
            if !has_run {
                let text = format!("no pod of index {index} of {name} has succeeded");
                return Err(("B3", text));
            }
        }
        for kind in &ENDS[..2] {
            if old.condition(kind).is_none()
                && let Some(condition) = new.condition(kind)
            {
                let reason = condition["reason"].as_str().unwrap_or_default();
                if !self.holds(reason, new, wall_ns) {
                    let text = format!("{name} ends with reason {reason}, which does not hold");
                    return Err(("B6", text));
                }
            }
        }
        self.note(old, new);
        Ok(())
    }

    /// Checks B2 for one list and its counter.
    fn list_written(&self, sync: SyncId, list: &str, old: &Read<'_>, new: &Read<'_>) -> Checked {
        let (before, after) = (old.listed(list), new.listed(list));
        let added = after.difference(&before).count() as i64;
        let sum = |job: &Read<'_>| job.count(list) + job.listed(list).len() as i64;
        let name = new.name();
        if sum(new) - sum(old) != added {
            let text = format!("{list} of {name} does not grow by its {added} new pods");
            return Err(("B2", text));
        }
        // This is as in upstream for a pod that the Job no longer selects: a terminating Job counts
        // the pod and does not release it. Any other Job counts the pod as released if the server
        // rejects the release as invalid, for whatever reason.
        let is_its_own = |known: &KnownPod| {
            let place = (sync, known.pod.metadata.name.to_string());
            let is_let_go =
                new.job.metadata.is_deleting() || self.failed.get(&place) == Some(&INVALID);
            let is_lost = is_let_go && !selects(new.job, &known.pod);
            !known.is_gone && !known.is_odd && !is_lost
        };
        let is_tracked = |uid: &&Uid| {
            let known = self.pods.get(uid);
            known.is_some_and(|known| is_its_own(known) && is_tracked(&known.pod))
        };
        match before.difference(&after).find(is_tracked) {
            Some(pod) if !self.circumstances.may_recount => {
                Err(("B2", format!("{name} counts {pod}, which is still tracked")))
            }
            _ => Ok(()),
        }
    }

    /// Checks B3 for one pod.
    fn may_be_listed(&self, pod: &Uid, list: usize, job: &Read<'_>) -> Checked {
        let name = job.name();
        let Some(known) = self.pods.get(pod) else {
            return Err(("B3", format!("{name} lists {pod}, which never existed")));
        };
        let fails = job.condition("FailureTarget").is_some();
        let may = match list {
            0 => known.has_succeeded,
            // A Job that has failed also counts the pods that end because of that.
            _ => known.has_failed || known.was_deleted && (!job.replaces_failed() || fails),
        };
        if may {
            return Ok(());
        }
        let (pod, list) = (&known.pod.metadata.name, LISTS[list]);
        Err(("B3", format!("{name} lists {pod} as {list}")))
    }

    /// Reports whether a Job may end for the given reason.
    fn holds(&self, reason: &str, job: &Read<'_>, wall_ns: i64) -> bool {
        let indexes = |member| job.indexes(member).len() as i64;
        match reason {
            "CompletionsReached" | "BackoffLimitExceeded" if self.circumstances.lists_few => true,
            "CompletionsReached" => {
                let may_count = |pod: &Uid| {
                    let known = self.pods.get(pod);
                    self.circumstances.may_complete_short
                        && known.is_some_and(|it| it.has_succeeded)
                };
                let failed = job.listed("failed");
                let more = failed.iter().filter(|pod| may_count(pod)).count() as i64;
                job.succeeded() + more >= job.number("completions").unwrap_or(1)
            }
            "SuccessPolicy" => {
                let count = job.spec["successPolicy"]["rules"][0]["succeededCount"].as_i64();
                count.is_some_and(|count| job.succeeded() >= count)
            }
            "BackoffLimitExceeded" => {
                let limit = job.number("backoffLimit").unwrap_or(6);
                let uid = &job.job.metadata.uid;
                let own = |known: &&KnownPod| known.is_odd || owner_of(&known.pod) == Some(uid);
                let own = self.pods.values().filter(own);
                let restarts: i64 = own.map(|known| restarts_of(&known.pod)).sum();
                // As in upstream, container restarts count, and reaching the limit is already too
                // many.
                let exceeds = job.restarts() && restarts >= limit.max(1);
                job.failed() > limit || exceeds
            }
            "DeadlineExceeded" => {
                let deadline = job.number("activeDeadlineSeconds").unwrap_or(i64::MAX / 2);
                let ran_ns = job.start_ns().map_or(0, |start_ns| wall_ns - start_ns);
                // Both the start and the end may have been read from a wrong clock.
                ran_ns + 2 * self.circumstances.clock_off_ns
                    >= deadline.saturating_mul(super::SECOND)
            }
            "MaxFailedIndexesExceeded" => {
                let most = job.number("maxFailedIndexes").unwrap_or(i64::MAX);
                indexes("failedIndexes") > most
            }
            "FailedIndexes" => {
                let done = indexes("failedIndexes") + indexes("completedIndexes");
                indexes("failedIndexes") > 0 && Some(done) >= job.number("completions")
            }
            "PodFailurePolicy" => self
                .pods
                .values()
                .any(|known| known.has_failed && job.action(&known.pod) == Some("FailJob")),
            _ => false,
        }
    }

    fn note(&mut self, old: &Read<'_>, new: &Read<'_>) {
        let ends = |kind| old.condition(kind).is_none() && new.condition(kind).is_some();
        for (seen, situation) in [
            (ends("Complete"), "a Job is complete"),
            (ends("Failed"), "a Job has failed"),
            (ends("Suspended"), "a Job is suspended"),
            (
                new.count("terminating") > 0 && ends("FailureTarget"),
                "a failed Job waits for pods",
            ),
            (!new.listed("failed").is_empty(), "failed pods are listed"),
            (
                !new.listed("succeeded").is_empty(),
                "succeeded pods are listed",
            ),
            (
                !new.indexes("failedIndexes").is_empty(),
                "an index has failed",
            ),
            (
                new.count("succeeded") < old.count("succeeded"),
                "an elastic Job has lost indexes",
            ),
        ] {
            if seen {
                self.situations.insert(situation);
            }
        }
        let condition = new
            .condition("FailureTarget")
            .or_else(|| new.condition("SuccessCriteriaMet"));
        let known = [
            "CompletionsReached",
            "SuccessPolicy",
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "MaxFailedIndexesExceeded",
            "FailedIndexes",
            "PodFailurePolicy",
        ];
        let reason = condition.and_then(|it| it["reason"].as_str());
        self.situations
            .extend(known.into_iter().find(|it| Some(*it) == reason));
    }
}

impl Judge for JobJudge {
    type Workload = Controller;

    fn begins(&mut self, sync: SyncId, controller: &Controller, queue: usize, key: KeyId) {
        if queue == JOBS
            && let Some((job, _)) = controller.cached(key)
        {
            self.seen.insert(sync, job);
        }
    }

    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let kind = commit.new.kind();
        if kind == Kind::POD {
            self.pod_committed(commit, sync)
        } else if kind == Kind::JOB {
            self.job_committed(commit, sync)
        } else {
            Ok(())
        }
    }

    fn answered(&mut self, sync: SyncId, request: &Request, answer: &Answer) {
        let failed = match answer {
            Answer::Failed(error) => Some(error.code),
            _ => None,
        };
        match request {
            Request::Patch { kind, name, .. } if *kind == Kind::POD => {
                if let Some(code) = failed {
                    let place = (sync, name.to_string());
                    self.owed.remove(&place);
                    self.failed.insert(place, code);
                }
            }
            Request::PutStatus { .. } => {
                self.refused += u64::from(failed == Some(INVALID));
            }
            // The next sync sees whether the attempt succeeded.
            Request::DeletePod { name, .. } => {
                self.owed.remove(&(sync, name.to_string()));
            }
            _ => {}
        }
    }

    fn ended(&mut self, sync: SyncId) -> Checked {
        let mut owed = self.owed.iter().filter(|((of, _), _)| *of == sync);
        owed.next()
            .map_or(Ok(()), |(_, text)| Err(("B4", text.clone())))
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        super::at_rest::missing(self, simulation)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("statuses rejected as invalid", self.refused),
            ("pods counted again", self.counted_again),
            (
                "longest time that an ended pod was kept, s",
                self.held_ns.unsigned_abs() / 1_000_000_000,
            ),
        ]
    }

    fn situations(&self) -> Vec<&'static str> {
        self.situations.iter().copied().collect()
    }

    #[cfg(test)]
    fn plants(request: &Request) -> Option<Vec<Request>> {
        super::planted_tests::requests(request)
    }
}
