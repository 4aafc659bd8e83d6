//! Workloads with rollouts, created by the scenario or loaded from files: changes to them, and the
//! progress of their rollouts.

use std::sync::Arc;

use ahash::RandomState;
use compact_str::{CompactString, format_compact};
use hashbrown::HashMap;
use podstorm::client::ApiError;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::Cluster;
use podstorm_objects::{AnyObject, Kind, Now, ObjectMeta, Str};
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use serde_json::Value;

use super::driver::Driver;
use super::tasks::Action;
use super::tracker::{Maker, Tracker};
use crate::result::{IncompleteRollout, IncompleteRollouts};
use crate::scenario::SetImage;
use crate::units::counted;
use crate::workloads::objects::change_spec;
use crate::workloads::{Limits, Workload};

/// The suffix that makes an image impossible to pull on any node.
pub(crate) const UNPULLABLE: &str = "-unpullable";

/// The objects with rollouts, in the order in which they were first seen.
pub(super) struct Rollouts {
    times: Arc<PhaseTimes>,
    all: Vec<Known>,
    by_name: HashMap<(Kind, Str, CompactString), usize, RandomState>,
    /// Whether the scenario created the objects. Its steps then number them instead of their parts.
    pub(super) generated: bool,
    /// Time from the write of a spec until its rollout was complete, ns.
    pub(super) took: ByPhase,
}

/// The known state of an object with rollouts.
struct Known {
    workload: Workload,
    namespace: Str,
    name: CompactString,
    /// The number of the object's pods at 100 %.
    share: i32,
    /// The generation of the newest known spec.
    generation: i64,
    /// When this spec was written, ns; `None` if its rollout is complete or comes from a file.
    since_ns: Option<i64>,
    /// Whether `kubectl rollout status` would succeed. The next field says whether it would return.
    complete: bool,
    over: bool,
    /// Whether the object came from a file, with an unfinished rollout. The rollout may then stay
    /// unfinished.
    came_unfinished: bool,
    /// Whether the status describes the newest spec.
    observed: bool,
    paused: bool,
    /// How often the image was changed. The next field is the image before the last change.
    revision: u32,
    before: Option<String>,
}

impl Known {
    fn maker(&self) -> Maker<'_> {
        Maker {
            kind: self.workload.kind(),
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

/// The state of the rollouts that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Every rollout is over.
    Over,
    /// All rollouts that are not over are blocked: they are paused, or have pods that can't become
    /// ready.
    Stuck,
    UnderWay,
}

/// The maximum number of incomplete rollouts that a result names.
const ROLLOUTS_SHOWN: usize = 20;

impl Rollouts {
    /// Creates a collection without objects.
    pub(super) fn new(times: Arc<PhaseTimes>) -> Rollouts {
        Rollouts {
            times,
            all: Vec::new(),
            by_name: HashMap::with_hasher(FIXED_STATE),
            generated: false,
            took: ByPhase::default(),
        }
    }

    /// Returns the number of objects.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of an object. A new object gets the next number.
    fn at(&mut self, workload: Workload, meta: &ObjectMeta, share: i32) -> usize {
        let key = (workload.kind(), meta.namespace.clone(), meta.name.clone());
        *self.by_name.entry(key).or_insert_with(|| {
            self.all.push(Known {
                workload,
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                share,
                generation: 0,
                since_ns: None,
                complete: false,
                over: false,
                came_unfinished: false,
                observed: false,
                paused: false,
                revision: 0,
                before: None,
            });
            self.all.len() - 1
        })
    }

    /// Returns the number of the object with this name; `None` if it is unknown.
    pub(super) fn find(&self, workload: Workload, namespace: &Str, name: &str) -> Option<usize> {
        let key = (workload.kind(), namespace.clone(), name.into());
        self.by_name.get(&key).copied()
    }

    /// Records that a spec was written at `now`.
    pub(super) fn asked(
        &mut self,
        workload: Workload,
        meta: &ObjectMeta,
        share: i32,
        now: Now,
    ) -> usize {
        let at = self.at(workload, meta, share);
        let known = &mut self.all[at];
        if meta.generation > known.generation {
            (known.complete, known.over) = (false, false);
            (known.came_unfinished, known.observed) = (false, false);
            known.generation = meta.generation;
            known.since_ns = Some(now.mono_ns);
        }
        at
    }

    /// Records that an object was created or changed.
    pub(super) fn seen(&mut self, workload: Workload, object: &AnyObject, loading: bool, now: Now) {
        let progress = workload.rollouts().and_then(|it| it.progress(&**object));
        let Some(progress) = progress else {
            return;
        };
        let at = self.asked(workload, object.metadata(), progress.replicas, now);
        let known = &mut self.all[at];
        (known.complete, known.over) = (progress.is_complete, progress.is_over);
        known.paused = progress.is_paused;
        known.observed = progress.is_observed;
        if loading {
            known.came_unfinished = known.observed && !known.complete;
            known.since_ns = None;
        }
        if known.complete
            && let Some(since_ns) = known.since_ns.take()
        {
            let took_ns = u64::try_from(now.mono_ns - since_ns).unwrap_or(0);
            self.took.record(self.times.phase_at(since_ns), took_ns);
        }
    }

    /// Records that an object was deleted.
    pub(super) fn gone(&mut self, workload: Workload, meta: &ObjectMeta) {
        if let Some(at) = self.find(workload, &meta.namespace, &meta.name) {
            let known = &mut self.all[at];
            (known.complete, known.over, known.since_ns) = (true, true, None);
        }
    }

    /// Returns the objects whose rollout is incomplete. If `failed` is set, failed rollouts are
    /// omitted. Rollouts that were unfinished in the files are always omitted.
    fn unfinished(&self, failed: bool) -> impl Iterator<Item = &Known> {
        let is_unfinished = move |known: &&Known| match failed {
            true => !known.over && !known.came_unfinished,
            false => !known.complete && !known.came_unfinished,
        };
        self.all.iter().filter(is_unfinished)
    }

    /// Returns the name of one object whose rollout is incomplete and the number of such objects,
    /// for messages; `None` if there are none. O(objects).
    pub(super) fn first_unfinished(&self) -> Option<(String, usize)> {
        let mut unfinished = self.unfinished(false);
        let first = unfinished.next()?;
        let name = format!("{}/{}", first.namespace, first.name);
        Some((name, 1 + unfinished.count()))
    }

    /// Returns the state of the rollouts. If `failed` is set, failed rollouts count as over.
    /// O(objects), plus O(owners) if any rollout is not over.
    pub(super) fn standing(&self, failed: bool, tracker: &Tracker) -> Standing {
        if self.unfinished(failed).next().is_none() {
            return Standing::Over;
        }
        let stuck = tracker.stuck_makers();
        let is_stuck =
            |known: &Known| known.observed && (known.paused || stuck.contains(&known.maker()));
        match self.unfinished(failed).all(is_stuck) {
            true => Standing::Stuck,
            false => Standing::UnderWay,
        }
    }

    /// Returns the incomplete rollouts, each with the reason. O(objects + owners × rollouts shown).
    pub(super) fn incomplete(&self, tracker: &Tracker) -> IncompleteRollouts {
        let incomplete = self.all.iter().filter(|known| !known.complete);
        let shown = incomplete.clone().take(ROLLOUTS_SHOWN).map(|known| {
            let reason = match tracker.stuck_of(known.maker()) {
                _ if known.paused => "paused".to_owned(),
                Some((count, why)) => {
                    let pods = counted(u64::try_from(count).unwrap_or(0), "pod");
                    format!("{pods} can't become ready: {why}")
                }
                None if known.over => "past its progress deadline".to_owned(),
                None => "not complete in the files".to_owned(),
            };
            IncompleteRollout {
                namespace: known.namespace.to_string(),
                name: known.name.to_string(),
                reason,
            }
        });
        IncompleteRollouts {
            shown: shown.collect(),
            count: incomplete.count() as u64,
        }
    }

    /// Returns the number of failed rollouts, which made no progress within their deadline.
    pub(super) fn failed(&self) -> u64 {
        let failed = |known: &&Known| known.over && !known.complete;
        self.all.iter().filter(failed).count() as u64
    }

    /// Returns the namespace of each object.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Str> {
        self.all.iter().map(|known| &known.namespace)
    }

    /// Checks that the rollouts that are known as complete are also complete in the store.
    ///
    /// # Errors
    /// The rollout that is not complete.
    pub(super) fn audit(&self, cluster: &Cluster) -> Result<(), String> {
        for known in self.all.iter().filter(|known| known.complete) {
            let (namespace, name) = (&known.namespace, &known.name);
            let found = cluster.api(known.workload.kind()).get(namespace, name).ok();
            let rolls_out = known.workload.rollouts();
            let progress = rolls_out
                .zip(found)
                .and_then(|(it, found)| it.progress(&*found));
            if progress.is_some_and(|progress| !progress.is_complete) {
                return Err(format!("the rollout of {namespace}/{name} is not complete"));
            }
        }
        Ok(())
    }

    /// Returns the number of an object's pods at 100 %.
    pub(super) fn share(&self, at: usize) -> i32 {
        self.all.get(at).map_or(0, |known| known.share)
    }
}

impl Driver {
    /// Returns the object with rollouts that a number in a step refers to: an object that the
    /// scenario created, or the object that owns a workload from files. `None` for other workloads.
    pub(super) fn maker_of(&self, number: u64) -> Option<usize> {
        let number = usize::try_from(number).ok()?;
        if self.rollouts.generated {
            return (number < self.rollouts.count()).then_some(number);
        }
        let owner = &self.tracker.owners[*self.generated.get(number)?];
        let (workload, name) = owner.maker.as_ref()?;
        self.rollouts.find(*workload, &owner.namespace, name)
    }

    /// Records that an object's spec was written, or the error.
    fn changed(&mut self, at: usize, changed: Result<ObjectMeta, ApiError>, now: Now) -> Action {
        let workload = self.rollouts.all[at].workload;
        if let Some(meta) = self.note("changing", workload.kind(), changed) {
            let share = self.rollouts.share(at);
            self.rollouts.asked(workload, &meta, share, now);
        }
        Action::Wrote
    }

    /// Sets the desired number of pods of an object.
    pub(super) fn scale_maker(&mut self, at: usize, replicas: i32, now: Now) -> Action {
        let known = &self.rollouts.all[at];
        let (namespace, name) = (&known.namespace, &known.name);
        let scaled = known
            .workload
            .scale(&self.cluster, namespace, name, replicas, now);
        self.changed(at, scaled, now)
    }

    /// Sets another image for an object and, if `limits` is given, the limits of its rolling
    /// updates.
    pub(super) fn set_image(
        &mut self,
        at: usize,
        set: &SetImage,
        limits: Option<Limits>,
        now: Now,
    ) -> Action {
        let known = &mut self.rollouts.all[at];
        let old = format_compact!("-r{}", known.revision);
        known.revision += 1;
        let new = format_compact!("-r{}", known.revision);
        let end = if set.unpullable { UNPULLABLE } else { "" };
        let back = set.back.then(|| known.before.take()).flatten();
        let mut before = None;
        let change = |spec: &mut Value| {
            if let Some((rolls_out, limits)) = known.workload.rollouts().zip(limits) {
                rolls_out.set_limits(spec, limits);
            }
            // Change only the first of several containers: one change is enough for a new template.
            let image = &mut spec["template"]["spec"]["containers"][0]["image"];
            let text = image.as_str().unwrap_or_default().to_owned();
            let base = text.strip_suffix(UNPULLABLE).unwrap_or(&text);
            let base = base.strip_suffix(old.as_str()).unwrap_or(base);
            *image = back.unwrap_or_else(|| format!("{base}{new}{end}")).into();
            before = Some(text);
        };
        let api = self.cluster.api(known.workload.kind());
        let changed = change_spec(&api, &known.namespace, &known.name, change, now);
        known.before = before;
        self.changed(at, changed, now)
    }
}
