//! Workloads that end once enough of their pods have ended: how far each is, and what all have come to.

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

/// The objects that end, in the order in which they were first heard of.
pub(super) struct Finishing {
    times: Arc<PhaseTimes>,
    all: Vec<Known>,
    by_uid: HashMap<Uid, usize, RandomState>,
    /// How many are not over.
    open: usize,
    /// The pods that those that are not over want at once.
    pub(super) desired: u64,
    /// The most pods of one of them that were down at once.
    pub(super) down: DownOfOne,
    /// The active pods that are ready, and how many there are by owner: pods may be heard of before these.
    up: HashSet<Uid, RandomState>,
    up_of: HashMap<Uid, i64, RandomState>,
    /// Pods that were created for such objects.
    pub(super) pods_created: u64,
    /// From the moment an object was created to its end, ns.
    pub(super) took: ByPhase,
}

/// What is known of an object.
struct Known {
    workload: Workload,
    namespace: Str,
    name: CompactString,
    course: Course,
    /// Since when it is under way.
    since_ns: Option<i64>,
    gone: bool,
    /// The pods that it wanted at once when the phase began.
    wanted: i64,
    /// Its active pods that are ready.
    up: i64,
}

impl Known {
    /// Whether nothing is left to happen: it has ended, is gone, or is suspended and at rest.
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

    /// Whether nothing is left to happen before its next pod ends.
    fn runs(&self) -> bool {
        self.is_over() || self.course.ready.min(self.up) >= self.course.wanted_now()
    }

    /// Of the pods that it wanted when the phase began, those that are missing or not ready.
    fn down(&self) -> u64 {
        let wanted = match self.is_over() {
            true => 0,
            false => self.course.wanted_now().min(self.wanted),
        };
        u64::try_from(wanted - self.up).unwrap_or(0)
    }

    /// The pods that it wants at once.
    fn desired(&self) -> u64 {
        let wanted = match self.is_over() {
            true => 0,
            false => self.course.wanted(),
        };
        u64::try_from(wanted).unwrap_or(0)
    }
}

impl Finishing {
    /// None yet.
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

    /// An object was created, changed or deleted. While files are loaded it is not under way.
    pub(super) fn seen(
        &mut self,
        workload: Workload,
        object: &AnyObject,
        (gone, loading): (bool, bool),
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

    /// Everything that files brought has been seen, and the controllers begin. O(objects).
    pub(super) fn begin(&mut self, now: Now) {
        for known in &mut self.all {
            known.since_ns = (!known.course.is_over()).then_some(now.mono_ns);
        }
    }

    /// A pod came, changed or went.
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

    /// A phase begins: nothing but what is down now. O(objects).
    pub(super) fn begin_phase(&mut self) {
        self.down = DownOfOne::default();
        for known in &mut self.all {
            known.wanted = known.course.wanted_now();
            self.down.saw(known.workload.kind(), known.down());
        }
    }

    /// Whether each is over, or has as many ready pods as it wants at once. O(objects).
    pub(super) fn runs(&self) -> bool {
        self.all.iter().all(Known::runs)
    }

    /// Whether all are over.
    pub(super) fn is_over(&self) -> bool {
        self.open == 0
    }

    /// How many pods have succeeded or failed, of how many that the objects want in all; `None` where there are no
    /// such objects. O(objects).
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        let sum = |of: fn(&Course) -> i64| {
            let all = self.all.iter().map(|known| of(&known.course));
            u64::try_from(all.sum::<i64>()).unwrap_or(0)
        };
        let done = sum(|it| it.succeeded);
        let total = sum(|it| it.completions.unwrap_or(1));
        (!self.all.is_empty()).then_some((done, total))
    }

    /// One that is not over, and how many there are, in words.
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
            "{} of {} not over, among them {namespace}/{name}: {} succeeded{of}, {} active. Pods that run on end by \
             --pod-run-time or a script",
            self.open,
            counted(self.all.len() as u64, workload.kind().name()),
            course.succeeded,
            course.active
        ))
    }

    /// What all have come to. O(objects).
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

    /// Compares those that have ended with the pods in the store. O(pods + objects).
    ///
    /// # Errors
    /// Says which object contradicts its pods, and how.
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
