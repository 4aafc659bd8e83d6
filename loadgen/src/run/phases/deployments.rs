//! Deployments in a scenario: those that it creates and those of files, what is done with them, and how
//! far their rollouts are, known from a watch of its own.

use std::sync::Arc;

use ahash::RandomState;
use compact_str::{CompactString, format_compact};
use hashbrown::HashMap;
use podstorm::client::WatchEvent;
use podstorm::deployment::rollout::rollout_status;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{AnyWatch, Cluster, WatchFrom, WatchOptions};
use podstorm_objects::{
    AnyObject, Deployment, DynamicObject, IntOrString, Kind, Now, Object, ObjectMeta, Str,
};
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::stream::BATCH;
use podstorm_sim::executor::{Next, Waker};
use serde_json::{Value, json};

use super::driver::Driver;
use super::tasks::Action;
use super::tracker::Tracker;
use crate::result::{IncompleteRollout, IncompleteRollouts};
use crate::scenario::{CreateDeployments, Limit, RollOut, SetImage};
use crate::units::counted;

/// What the name of an image that no node can pull ends with.
pub(crate) const UNPULLABLE: &str = "-unpullable";

/// The Deployments that there are, in the order in which they were first heard of.
pub(super) struct Deployments {
    /// What to watch; absent where a run has none of them.
    watched: Option<(Arc<Cluster>, Waker)>,
    times: Arc<PhaseTimes>,
    watch: Option<AnyWatch>,
    events: Vec<WatchEvent<dyn Object>>,
    drained: bool,
    all: Vec<Known>,
    by_name: HashMap<(Str, CompactString), usize, RandomState>,
    /// Whether the scenario created them: then they are numbered as its ReplicaSets would be.
    pub(super) generated: bool,
    /// From the moment a spec was written to the moment the rollout was complete, ns.
    pub(super) rollouts: ByPhase,
}

/// What is known of a Deployment.
#[derive(Default)]
struct Known {
    namespace: Str,
    name: CompactString,
    /// Its pods at 100 %.
    share: i32,
    /// Of the newest spec known here.
    generation: i64,
    /// Since when that spec is not carried out.
    since_ns: Option<i64>,
    /// Whether `kubectl rollout status` would end well, and whether it would end.
    complete: bool,
    over: bool,
    /// Came from a file with a status that tells of an unfinished rollout: it may stay so.
    came_unfinished: bool,
    /// Whether the status is of the newest spec.
    observed: bool,
    paused: bool,
    /// How often its image was changed, and the image before.
    revision: u32,
    before: Option<String>,
}

/// How far the rollouts are that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rollouts {
    /// None is left.
    Over,
    /// Those that are left can't go on by themselves: they are paused, or have pods that can't become ready.
    Stuck,
    UnderWay,
}

/// Most incomplete rollouts that a result names.
const ROLLOUTS_SHOWN: usize = 20;

/// Whether `kubectl rollout status` would end well, and whether it would end.
fn progress(deployment: &Deployment) -> (bool, bool) {
    match rollout_status(deployment, 0) {
        Ok(status) => {
            let exact = deployment.status.updated_replicas == deployment.replicas();
            (status.done && exact, status.done && exact)
        }
        Err(_) => (false, true),
    }
}

impl Deployments {
    /// None yet; without a cluster there will be none.
    pub(super) fn new(
        watched: Option<(Arc<Cluster>, Waker)>,
        times: Arc<PhaseTimes>,
    ) -> Deployments {
        Deployments {
            drained: watched.is_none(),
            watched,
            times,
            watch: None,
            events: Vec::new(),
            all: Vec::new(),
            by_name: HashMap::with_hasher(FIXED_STATE),
            generated: false,
            rollouts: ByPhase::default(),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether the last look took everything that there was.
    pub(super) fn is_drained(&self) -> bool {
        self.drained
    }

    /// Hears what has happened, which clears a doubt; when to listen again.
    pub(super) fn poll(&mut self, now: Now, loading: bool, doubted: &mut bool) -> Next {
        let Some((cluster, waker)) = &self.watched else {
            return Next::Idle;
        };
        if self.watch.is_none() {
            let options = WatchOptions {
                waker: Some(Arc::clone(waker)),
                ..WatchOptions::default()
            };
            let api = cluster.api(Kind::DEPLOYMENT);
            self.watch = api.watch(WatchFrom::Initial, options).ok();
        }
        let Some(watch) = &mut self.watch else {
            return Next::At(now.mono_ns + 1_000_000_000);
        };
        let mut events = std::mem::take(&mut self.events);
        let poll = watch.poll(BATCH, now, &mut events);
        self.drained = !poll.more;
        *doubted &= events.is_empty();
        for event in events.drain(..) {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.seen(&object, loading, now);
                }
                WatchEvent::Deleted(object) => self.gone(object.metadata()),
                WatchEvent::Bookmark { .. } => {}
                // It begins again at the next look.
                WatchEvent::Error(_) => (self.watch, self.drained) = (None, false),
            }
        }
        self.events = events;
        match poll.next_visible_ns {
            _ if !self.drained => Next::Again,
            Some(at_ns) => Next::At(at_ns),
            None => Next::Idle,
        }
    }

    /// Its number; a new one gets the next.
    fn at(&mut self, meta: &ObjectMeta, share: i32) -> usize {
        let key = (meta.namespace.clone(), meta.name.clone());
        *self.by_name.entry(key).or_insert_with(|| {
            self.all.push(Known {
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                share,
                ..Known::default()
            });
            self.all.len() - 1
        })
    }

    /// That of a name.
    pub(super) fn find(&self, namespace: &Str, name: &str) -> Option<usize> {
        let key = (namespace.clone(), CompactString::from(name));
        self.by_name.get(&key).copied()
    }

    /// A spec was written at `now`.
    fn asked(&mut self, meta: &ObjectMeta, share: i32, now: Now) -> usize {
        let at = self.at(meta, share);
        let known = &mut self.all[at];
        if meta.generation > known.generation {
            (known.complete, known.over) = (false, false);
            (known.came_unfinished, known.observed) = (false, false);
            known.generation = meta.generation;
            known.since_ns = Some(now.mono_ns);
        }
        at
    }

    fn seen(&mut self, object: &AnyObject, loading: bool, now: Now) {
        let Some(deployment) = Deployment::of(object) else {
            return;
        };
        let meta = &deployment.metadata;
        let at = self.asked(meta, deployment.replicas(), now);
        let known = &mut self.all[at];
        (known.complete, known.over) = progress(&deployment);
        known.paused = deployment.spec.paused;
        known.observed = deployment.status.observed_generation == meta.generation;
        if loading {
            known.came_unfinished = known.observed && !known.complete;
            known.since_ns = None;
        }
        if known.complete
            && let Some(since_ns) = known.since_ns.take()
        {
            let took_ns = u64::try_from(now.mono_ns - since_ns).unwrap_or(0);
            self.rollouts.record(self.times.phase_at(since_ns), took_ns);
        }
    }

    fn gone(&mut self, meta: &ObjectMeta) {
        if let Some(at) = self.find(&meta.namespace, &meta.name) {
            let known = &mut self.all[at];
            (known.complete, known.over, known.since_ns) = (true, true, None);
        }
    }

    /// Those whose rollout is not complete; with `failed` those that have failed count as over.
    fn unfinished(&self, failed: bool) -> impl Iterator<Item = &Known> {
        let is_unfinished = move |known: &&Known| match failed {
            true => !known.over && !known.came_unfinished,
            false => !known.complete && !known.came_unfinished,
        };
        self.all.iter().filter(is_unfinished)
    }

    /// One whose rollout is not complete, for messages, and how many there are. O(Deployments).
    pub(super) fn first_unfinished(&self) -> Option<(String, usize)> {
        let mut unfinished = self.unfinished(false);
        let first = unfinished.next()?;
        let name = format!("{}/{}", first.namespace, first.name);
        Some((name, 1 + unfinished.count()))
    }

    /// How far the rollouts are; with `failed` those that have failed count as over. O(owners) where one is
    /// not over, O(Deployments) otherwise.
    pub(super) fn rollouts(&self, failed: bool, tracker: &Tracker) -> Rollouts {
        if self.unfinished(failed).next().is_none() {
            return Rollouts::Over;
        }
        let stuck = tracker.stuck_deployments();
        let is_stuck = |known: &Known| {
            let name = (&*known.namespace, known.name.as_str());
            known.observed && (known.paused || stuck.contains(&name))
        };
        match self.unfinished(failed).all(is_stuck) {
            true => Rollouts::Stuck,
            false => Rollouts::UnderWay,
        }
    }

    /// The rollouts that are not complete, each with the reason. O(Deployments + owners × those shown).
    pub(super) fn incomplete(&self, tracker: &Tracker) -> IncompleteRollouts {
        let incomplete = self.all.iter().filter(|known| !known.complete);
        let shown = incomplete.clone().take(ROLLOUTS_SHOWN).map(|known| {
            let (namespace, name) = (&*known.namespace, known.name.as_str());
            let reason = match tracker.stuck_of(namespace, name) {
                _ if known.paused => "paused".to_owned(),
                Some((count, why)) => {
                    let pods = counted(u64::try_from(count).unwrap_or(0), "pod");
                    format!("{pods} can't become ready: {why}")
                }
                None if known.over => "past its progress deadline".to_owned(),
                None => "not complete in the files".to_owned(),
            };
            IncompleteRollout {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                reason,
            }
        });
        IncompleteRollouts {
            shown: shown.collect(),
            count: incomplete.count() as u64,
        }
    }

    /// How many rollouts have failed: they made no progress within their deadline.
    pub(super) fn failed(&self) -> u64 {
        let failed = |known: &&Known| known.over && !known.complete;
        self.all.iter().filter(failed).count() as u64
    }

    /// The namespace of each.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Str> {
        self.all.iter().map(|known| &known.namespace)
    }

    /// Compares with the store: what counts as complete here is so there.
    ///
    /// # Errors
    /// Says which Deployment is not.
    pub(super) fn audit(&self) -> Result<(), String> {
        for known in self.all.iter().filter(|known| known.complete) {
            let Some((cluster, _)) = &self.watched else {
                break;
            };
            let (namespace, name) = (&known.namespace, &known.name);
            let found = cluster.api(Kind::DEPLOYMENT).get(namespace, name);
            let found = found.ok().and_then(|found| Deployment::of(&found));
            if found.is_some_and(|found| !progress(&found).0) {
                return Err(format!("the rollout of {namespace}/{name} is not complete"));
            }
        }
        Ok(())
    }

    /// The pods of that number at 100 %.
    pub(super) fn share(&self, at: usize) -> i32 {
        self.all.get(at).map_or(0, |known| known.share)
    }
}

impl Driver {
    /// The Deployment that a step means by a number, if it is one: of the scenario's own, or the one that
    /// a ReplicaSet of files belongs to.
    pub(super) fn deployment_of(&self, number: u64) -> Option<usize> {
        let number = usize::try_from(number).ok()?;
        if self.deployments.generated {
            return (number < self.deployments.count()).then_some(number);
        }
        let owner = &self.tracker.owners[*self.generated.get(number)?];
        self.deployments
            .find(&owner.namespace, owner.deployment.as_deref()?)
    }

    pub(super) fn create_deployment(
        &mut self,
        number: u64,
        count: u64,
        create: &CreateDeployments,
        now: Now,
    ) -> Action {
        self.deployments.generated = true;
        let replicas = self.amount(create.replicas, (number, count));
        let object = self.objects.deployment(number, replicas, &self.settings);
        let object = Arc::new(object.to_untyped());
        let created = self.cluster.api(Kind::DEPLOYMENT).create(object, now);
        if let Some(created) = self.note("creating a Deployment", created) {
            let share = self.objects.share(number);
            self.deployments.asked(created.metadata(), share, now);
        }
        Action::Wrote
    }

    /// Reads a Deployment, changes its spec, and writes it.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Value), now: Now) -> Action {
        let known = &self.deployments.all[at];
        let api = self.cluster.api(Kind::DEPLOYMENT);
        let changed = api.get(&known.namespace, &known.name).and_then(|found| {
            let mut object = found.downcast_ref::<DynamicObject>().cloned();
            if let Some(spec) = object.as_mut().and_then(|it| it.fields.get_mut("spec")) {
                change(spec);
            }
            match object {
                Some(object) => api.update(Arc::new(object), now),
                None => Ok(found),
            }
        });
        if let Some(changed) = self.note("changing a Deployment", changed) {
            let share = self.deployments.share(at);
            self.deployments.asked(changed.metadata(), share, now);
        }
        Action::Wrote
    }

    /// Sets the number of pods of a Deployment.
    pub(super) fn scale_deployment(&mut self, at: usize, replicas: i32, now: Now) -> Action {
        self.change(at, |spec| spec["replicas"] = replicas.into(), now)
    }

    /// Gives a Deployment another image, and with `limits` the limits of its rolling updates.
    pub(super) fn set_image(
        &mut self,
        at: usize,
        set: &SetImage,
        limits: Option<&RollOut>,
        now: Now,
    ) -> Action {
        let known = &mut self.deployments.all[at];
        let old = format_compact!("-r{}", known.revision);
        known.revision += 1;
        let new = format_compact!("-r{}", known.revision);
        let (bad, back) = (
            set.unpullable,
            set.back.then(|| known.before.take()).flatten(),
        );
        let mut before = None;
        let limits = limits.map(|limits| {
            let limit = |limit: Limit| match limit.int_or_string() {
                IntOrString::Int(count) => json!(count),
                IntOrString::Text(text) => json!(&*text),
            };
            json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": limit(limits.max_surge),
                "maxUnavailable": limit(limits.max_unavailable),
            }})
        });
        let change = |spec: &mut Value| {
            if let Some(strategy) = limits {
                spec["strategy"] = strategy;
            }
            // Of several containers the first: one change is a new template.
            let image = &mut spec["template"]["spec"]["containers"][0]["image"];
            let text = image.as_str().unwrap_or_default().to_owned();
            let base = text.strip_suffix(UNPULLABLE).unwrap_or(&text);
            let base = base.strip_suffix(old.as_str()).unwrap_or(base);
            let end = if bad { UNPULLABLE } else { "" };
            *image = back.unwrap_or_else(|| format!("{base}{new}{end}")).into();
            before = Some(text);
        };
        let action = self.change(at, change, now);
        self.deployments.all[at].before = before;
        action
    }
}
