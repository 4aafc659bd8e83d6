//! Workloads that finish once enough of their pods have finished, such as Jobs: the progress of
//! each, and their totals.

use std::sync::Arc;

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::{HashMap, HashSet};
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::{AnyObject, Now, ObjectMeta, Pod, Str, Uid};
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::stream::ObjectEvent;

use super::tracker::DownOfOne;
use crate::result::Finished;
use crate::units::counted;
use crate::workloads::{self, Course, Ended, Workload};

/// The workloads that finish, in the order in which they were first seen.
pub(super) struct Finishing {
    times: Arc<PhaseTimes>,
    all: Vec<Known>,
    by_uid: HashMap<Uid, usize, RandomState>,
    /// The number of workloads that have not finished.
    open: usize,
    /// The number of pods that the unfinished workloads want at a time.
    pub(super) desired: u64,
    /// The maximum number of pods of one workload that were down at the same time, by kind.
    pub(super) down: DownOfOne,
    /// The active ready pods. The next field has their number by owner, because pods may be seen
    /// before their owners.
    up: HashSet<Uid, RandomState>,
    up_of: HashMap<Uid, i64, RandomState>,
    /// The number of pods created for workloads that finish.
    pub(super) pods_created: u64,
    /// Time from the creation of a workload until it finished, ns.
    pub(super) took: ByPhase,
}

/// The known state of a workload.
struct Known {
    workload: Workload,
    namespace: Str,
    name: CompactString,
    course: Course,
    /// Since when the workload is in progress, ns; `None` if it is not.
    since_ns: Option<i64>,
    gone: bool,
    /// The number of pods that the workload wanted at a time when the phase began.
    wanted: i64,
    /// The number of the workload's active ready pods.
    up: i64,
}

impl Known {
    /// Reports whether the workload needs no more work: it has finished, was deleted, or is
    /// suspended and at rest.
    fn is_over(&self) -> bool {
        let Course {
            is_suspended,
            active,
            terminating,
            uncounted,
            ..
        } = self.course;
        let rests = active == 0 && terminating == 0 && uncounted == 0;
        self.gone || self.course.is_over() || is_suspended && rests
    }

    /// Reports whether nothing will happen before the next of the workload's pods finishes.
    fn runs(&self) -> bool {
        self.is_over() || self.course.ready.min(self.up) >= self.course.wanted_now()
    }

    /// Returns how many of the pods that the workload wanted when the phase began are missing or
    /// not ready.
    fn down(&self) -> u64 {
        let wanted = match self.is_over() {
            true => 0,
            false => self.course.wanted_now().min(self.wanted),
        };
        u64::try_from(wanted - self.up).unwrap_or(0)
    }

    /// Returns the number of pods that the workload wants at a time.
    fn desired(&self) -> u64 {
        let wanted = match self.is_over() {
            true => 0,
            false => self.course.wanted(),
        };
        u64::try_from(wanted).unwrap_or(0)
    }
}

impl Finishing {
    /// Creates a collection without workloads.
    pub(super) fn new(times: Arc<PhaseTimes>) -> Finishing {
        Finishing {
            times,
            all: Vec::new(),
            by_uid: HashMap::with_hasher(FIXED_STATE),
            open: 0,
            desired: 0,
            down: DownOfOne::default(),
            up: HashSet::with_hasher(FIXED_STATE),
            up_of: HashMap::with_hasher(FIXED_STATE),
            pods_created: 0,
            took: ByPhase::default(),
        }
    }

    /// Records that a workload was created, changed or deleted. A workload is not in progress while
    /// files are loaded.
    pub(super) fn seen(
        &mut self,
        workload: Workload,
        object: &AnyObject,
        gone: bool,
        loading: bool,
        now: Now,
    ) {
        let course = workload.finishes().and_then(|it| it.course(&**object));
        let Some(course) = course else {
            return;
        };
        let meta = object.metadata();
        let at = match self.by_uid.get(&meta.uid) {
            Some(at) => *at,
            None => self.add(workload, meta, course, loading, now),
        };
        let known = &mut self.all[at];
        let (was_over, desired) = (known.is_over(), known.desired());
        (known.course, known.gone) = (course, gone);
        self.desired = self.desired + known.desired() - desired;
        self.down.saw(workload.kind(), known.down());
        match (was_over, known.is_over()) {
            (false, true) => self.open -= 1,
            (true, false) => self.open += 1,
            _ => {}
        }
        if known.course.is_over()
            && let Some(since_ns) = known.since_ns.take()
        {
            let took_ns = u64::try_from(now.mono_ns - since_ns).unwrap_or(0);
            self.took.record(self.times.phase_at(since_ns), took_ns);
        }
    }

    fn add(
        &mut self,
        workload: Workload,
        meta: &ObjectMeta,
        course: Course,
        loading: bool,
        now: Now,
    ) -> usize {
        let at = self.all.len();
        let known = Known {
            workload,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            course,
            since_ns: (!loading).then_some(now.mono_ns),
            gone: false,
            wanted: 0,
            up: self.up_of.get(&meta.uid).copied().unwrap_or(0),
        };
        self.open += usize::from(!known.is_over());
        self.desired += known.desired();
        self.all.push(known);
        self.by_uid.insert(meta.uid.clone(), at);
        at
    }

    /// Marks the start of the controllers, after all objects from files were seen. O(objects).
    pub(super) fn begin(&mut self, now: Now) {
        for known in &mut self.all {
            known.since_ns = (!known.course.is_over()).then_some(now.mono_ns);
        }
    }

    /// Records that a pod was added, changed or removed.
    pub(super) fn pod_item(&mut self, item: &ObjectEvent<Pod>) {
        let (pod, is_gone) = match item {
            ObjectEvent::Reset => return,
            ObjectEvent::Added(pod) | ObjectEvent::Modified(pod) => (pod, false),
            ObjectEvent::Deleted(pod) => (pod, true),
        };
        let meta = &pod.metadata;
        let Some((workload, owner)) = workloads::controller(meta) else {
            return;
        };
        if workload.finishes().is_none() {
            return;
        }
        let is_up = !is_gone && pod.is_active() && pod.is_ready();
        if is_up == self.up.contains(&meta.uid) {
            return;
        }
        let by = match is_up {
            true => self.up.insert(meta.uid.clone()).into(),
            false => -i64::from(self.up.remove(&meta.uid)),
        };
        let up = self.up_of.entry(owner.uid.clone()).or_default();
        *up += by;
        if let Some(at) = self.by_uid.get(&owner.uid) {
            let known = &mut self.all[*at];
            known.up = *up;
            self.down.saw(workload.kind(), known.down());
        }
    }

    /// Starts a phase: resets the peak to the number of pods that are down now. O(objects).
    pub(super) fn begin_phase(&mut self) {
        self.down = DownOfOne::default();
        for known in &mut self.all {
            known.wanted = known.course.wanted_now();
            self.down.saw(known.workload.kind(), known.down());
        }
    }

    /// Reports whether each workload has finished or has as many ready pods as it wants at a time.
    /// O(objects).
    pub(super) fn runs(&self) -> bool {
        self.all.iter().all(Known::runs)
    }

    /// Reports whether all workloads have finished.
    pub(super) fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Returns how many pods have succeeded or failed, and how many the workloads want in total;
    /// `None` if there are no such workloads. O(objects).
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        let sum = |of: fn(&Course) -> i64| {
            let all = self.all.iter().map(|known| of(&known.course));
            u64::try_from(all.sum::<i64>()).unwrap_or(0)
        };
        let done = sum(|it| it.succeeded);
        let total = sum(|it| it.completions.unwrap_or(1));
        (!self.all.is_empty()).then_some((done, total))
    }

    /// Describes one unfinished workload and states how many there are; `None` if all have
    /// finished.
    pub(super) fn first_open(&self) -> Option<String> {
        let first = self.all.iter().find(|known| !known.is_over())?;
        let Known {
            workload,
            namespace,
            name,
            course,
            ..
        } = first;
        let of = match course.completions {
            Some(completions) => format!(" of {completions}"),
            None => String::new(),
        };
        Some(format!(
            "{} of {} not over, among them {namespace}/{name}: {} succeeded{of}, {} active. Pods that keep running end by \
             --pod-run-time or a script",
            self.open,
            counted(self.all.len() as u64, workload.kind().name()),
            course.succeeded,
            course.active
        ))
    }

    /// Returns the totals of all workloads. O(objects).
    pub(super) fn finished(&self) -> Finished {
        let ended = |how: Ended| {
            let all = self.all.iter();
            all.filter(|known| known.course.end == Some(how)).count() as u64
        };
        let sum = |of: fn(&Course) -> i64| {
            let all = self.all.iter().map(|known| of(&known.course));
            u64::try_from(all.sum::<i64>()).unwrap_or(0)
        };
        let succeeded = sum(|it| it.succeeded);
        Finished {
            complete: ended(Ended::Complete),
            failed: ended(Ended::Failed),
            open: self.open as u64,
            pods_created: self.pods_created,
            pods_succeeded: succeeded,
            pods_failed: sum(|it| it.failed),
            pods_wasted: self.pods_created.saturating_sub(succeeded),
        }
    }

    /// Compares finished workloads with the pods in the store. O(pods + objects).
    ///
    /// # Errors
    /// The object whose status contradicts its pods, and the contradiction.
    pub(super) fn audit(&self, cluster: &Cluster) -> Result<(), String> {
        if self.all.is_empty() {
            return Ok(());
        }
        let mut pods: HashMap<Uid, Vec<Arc<Pod>>, RandomState> = HashMap::with_hasher(FIXED_STATE);
        for pod in cluster.list::<Pod>(None).0 {
            if let Some(owner) = pod.metadata.controller()
                && self.by_uid.contains_key(&owner.uid)
            {
                pods.entry(owner.uid.clone()).or_default().push(pod);
            }
        }
        for workload in workloads::ALL {
            let Some(finishes) = workload.finishes() else {
                continue;
            };
            let page = cluster.api(workload.kind()).list(&ListOptions::default());
            for object in page.into_iter().flat_map(|page| page.items) {
                let own = pods.get(&object.metadata().uid);
                finishes.audit(&*object, own.map_or(&[], |own| own))?;
            }
        }
        Ok(())
    }
}
