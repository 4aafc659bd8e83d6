//! Pods whose lives are played step by step: every pod of a served cluster, and in runs the pods
//! that have a script or a deadline, or end by themselves. Other pods cost nothing here.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_apiserver::DeleteOptions;
use podstorm_objects::{
    Address, ConditionType, Now, Pod, PodPhase, PodStatus, ResourceVersion, Str, Uid, hash_state,
};

use super::{PodAction, PodLifecycle};
use crate::nodes::change::{STATUS_ATTEMPTS, has_ended_container};
use crate::nodes::pod_life::{Circumstances, Place, PodLife, Recent, SpecRules, Stage};
use crate::nodes::script::{SCRIPT, Script, ScriptError};
use crate::nodes::status::internal_ip;

/// The delay before a failed write is retried, ns.
const RETRY_NS: i64 = 1_000_000_000;

/// The lives in progress.
#[derive(Debug)]
pub(super) struct Lives {
    by_pod: HashMap<Uid, Box<Played>, RandomState>,
    /// The rules of the spec that was used last.
    rules: Option<Arc<SpecRules>>,
    /// The parts of statuses that were built for earlier pods.
    recent: Recent,
}

#[derive(Debug)]
struct Played {
    life: PodLife,
    /// The value of the script annotation from which the life was built.
    script: Option<Str>,
    /// The address of the pod, once it is assigned.
    pod_ip: Option<Address>,
    /// The monotonic time at which the life is played again, ns; `None` if it is not queued.
    queued_ns: Option<i64>,
    /// The stage that the stored status shows, and the version of that status.
    shown: Option<(Stage, ResourceVersion)>,
}

/// The result of a status write.
enum Written {
    Yes,
    /// The pod no longer exists.
    Gone,
    /// The server rejects the write for now.
    No,
}

impl Default for Lives {
    fn default() -> Lives {
        Lives {
            by_pod: HashMap::with_hasher(hash_state()),
            rules: None,
            recent: Recent::default(),
        }
    }
}

impl PodLifecycle {
    /// Reports whether the life of the pod is played step by step.
    #[inline]
    pub(super) fn is_played(&self, pod: &Pod) -> bool {
        self.plays_all
            || has_script(pod)
            || pod.spec.active_deadline_seconds.is_some()
            || self.clients().is_some_and(|rules| rules.finishes(pod))
    }

    /// Reports whether a running pod that is played must be played again, because its status or its
    /// script may have changed.
    pub(super) fn concerns_life(&self, pod: &Pod) -> bool {
        if pod.status.phase != PodPhase::Running {
            return false;
        }
        if has_ended_container(pod) {
            return true;
        }
        let is_under_way = || self.lives.by_pod.contains_key(&pod.metadata.uid);
        let has_gates = || {
            let mut conditions = pod.status.conditions.iter();
            let has_foreign = conditions.any(|it| it.kind == ConditionType::Other);
            has_foreign && pod.spec.get("readinessGates").is_some()
        };
        has_script(pod) || (self.plays_all && (is_under_way() || has_gates()))
    }

    /// Forgets a deleted pod.
    #[inline]
    pub(super) fn forget(&mut self, pod: &Pod) {
        if !self.lives.by_pod.is_empty() {
            self.lives.by_pod.remove(&pod.metadata.uid);
        }
        if self.plays_all {
            self.foreign.forget(&pod.metadata.uid);
        }
    }

    /// Plays a pod that was queued, if it is still due.
    pub(super) fn play_queued(&mut self, pod: &Pod, now: Now) {
        let played = self.lives.by_pod.get_mut(&pod.metadata.uid);
        let is_due = |it: &&mut Box<Played>| it.queued_ns.is_some_and(|due| due <= now.mono_ns);
        if let Some(played) = played.filter(is_due) {
            played.queued_ns = None;
            self.play(pod, now);
        }
    }

    /// Plays the life of a pod up to now, and performs the actions that are due.
    pub(super) fn play(&mut self, pod: &Pod, now: Now) {
        self.play_after(pod, now, |_| {});
    }

    /// Plays the pod like [`play`](PodLifecycle::play), but first applies `happens` to the pod's
    /// life.
    pub(super) fn play_after(&mut self, pod: &Pod, now: Now, happens: impl FnOnce(&mut PodLife)) {
        let meta = &pod.metadata;
        let found = self.cluster.get::<Pod>(&meta.namespace, &meta.name);
        let live = found.ok().filter(|live| live.metadata.uid == meta.uid);
        let Some(mut live) = live.filter(|live| live.node_name.is_some()) else {
            return self.forget(pod);
        };
        if live.status.phase.is_terminal() {
            self.forget(pod);
            if live
                .metadata
                .deletion_grace_period_seconds
                .get()
                .unwrap_or(0)
                != 0
            {
                self.remove(&live, now);
            }
            return;
        }
        let text = live.metadata.annotations.get(SCRIPT).cloned();
        let known = self.lives.by_pod.remove(&meta.uid);
        let known = known.filter(|known| known.script == text);
        let mut played = known.unwrap_or_else(|| {
            Box::new(Played {
                life: self.life(&live, now),
                script: text,
                pod_ip: None,
                queued_ns: None,
                shown: None,
            })
        });
        happens(&mut played.life);
        let version = |live: &Pod| live.metadata.resource_version.clone();
        let shown = played.shown.take().filter(|(_, of)| *of == version(&live));
        let mut shown = shown.map(|(stage, _)| stage);
        loop {
            let unpullable = |image: &str| self.is_unpullable(image);
            played.life.see(&live, &unpullable, now.wall_ns);
            let goes_on = played.life.turn(now.wall_ns);
            self.tell(&live, played.life.take_events(), now);
            let stage = Some(played.life.stage());
            if !goes_on && shown == stage {
                break;
            }
            shown = stage;
            match self.write(&mut played, &mut live, now) {
                Written::Yes => {}
                Written::Gone => return,
                Written::No => {
                    let due_ns = now.mono_ns.saturating_add(RETRY_NS);
                    return self.keep(played, live, due_ns);
                }
            }
            if !goes_on {
                break;
            }
        }
        self.tell(&live, played.life.take_events(), now);
        played.shown = shown.map(|stage| (stage, version(&live)));
        if played.life.has_ended() {
            if live.metadata.is_deleting() {
                self.remove(&live, now);
            }
            return;
        }
        if let Some(due_ns) = played.life.next_ns() {
            let wait_ns = (due_ns - now.wall_ns).max(0);
            self.keep(played, live, now.mono_ns.saturating_add(wait_ns));
        }
    }

    /// Reports whether the containers of a pod are being stopped.
    pub(super) fn is_stopping(&self, pod: &Pod) -> bool {
        let played = self.lives.by_pod.get(&pod.metadata.uid);
        played.is_some_and(|played| played.life.is_stopping())
    }

    fn keep(&mut self, mut played: Box<Played>, live: Arc<Pod>, due_ns: i64) {
        if played.queued_ns != Some(due_ns) {
            played.queued_ns = Some(due_ns);
            self.later
                .push(due_ns, (PodAction::PlayOn, Arc::clone(&live)));
        }
        self.lives.by_pod.insert(live.metadata.uid.clone(), played);
    }

    /// Returns the life of a pod, restored from its status if necessary.
    fn life(&mut self, live: &Pod, now: Now) -> PodLife {
        let is_new = live.status.phase != PodPhase::Running;
        let waited_ns = |action| self.waited_ns(action, live, now);
        let (waited_ns, deleted_ns) = match live.metadata.is_deleting() {
            true => (0, waited_ns(PodAction::End)),
            false => (waited_ns(PodAction::Start), 0),
        };
        let startup_ns = match is_new && !live.metadata.is_deleting() {
            true => (self.startup.draw_ns() - waited_ns).max(0),
            false => 0,
        };
        let stop_ns = self.termination.draw_ns();
        let own = live.metadata.annotations.get(SCRIPT);
        let own: Option<Result<Script, ScriptError>> = own.map(|text| Script::parse(text));
        let is_known = |rules: &&Arc<SpecRules>| Arc::ptr_eq(&rules.spec, &live.spec);
        let spec_rules = match self.lives.rules.as_ref().filter(is_known) {
            Some(known) => Arc::clone(known),
            None => Arc::new(SpecRules::from_pod(
                live,
                self.events.is_some(),
                self.plays_all,
            )),
        };
        self.lives.rules = Some(Arc::clone(&spec_rules));
        let usual = Script::default();
        let rules = self.clients();
        let ruled = rules.and_then(|rules| rules.script_of(live));
        let script = match &own {
            Some(own) => own.as_ref(),
            None => Ok(ruled.as_ref().map_or(&usual, |ruled| ruled)),
        };
        let seen = Circumstances {
            script,
            rules: &spec_rules,
            is_unpullable: &|image| self.is_unpullable(image),
            is_present: &|image| self.has_image(live, image),
            tells: self.events.is_some(),
            is_full: self.plays_all,
            heeds_status: !self.plays_all || self.foreign.came_unready(live),
            startup_ns,
            stop_ns,
            deleted_ns,
            now_ns: now.wall_ns,
        };
        PodLife::resume(live, &seen)
    }

    /// Reports whether an image has been pulled on the pod's node.
    fn has_image(&self, pod: &Pod, image: &str) -> bool {
        let events = self.events.as_ref().zip(pod.node_name.as_deref());
        events.is_some_and(|(events, node)| events.has_image(node, image))
    }

    fn is_unpullable(&self, image: &str) -> bool {
        self.clients()
            .is_some_and(|rules| rules.is_unpullable(image))
    }

    /// Writes the status of the pod if it differs from the stored one. Updates `live` to the stored
    /// pod.
    fn write(&mut self, played: &mut Played, live: &mut Arc<Pod>, now: Now) -> Written {
        for _ in 0..STATUS_ATTEMPTS {
            let Some(status) = self.status(played, live) else {
                return Written::Gone;
            };
            if status == live.status {
                return Written::Yes;
            }
            let new = Pod {
                metadata: live.metadata.clone(),
                spec: Arc::clone(&live.spec),
                node_name: live.node_name.clone(),
                token_volume: live.token_volume,
                hostname: live.hostname,
                status,
            };
            match self.cluster.update_status(new, now) {
                Ok(stored) => {
                    if self.plays_all {
                        self.foreign.wrote(&stored);
                    }
                    *live = stored;
                    return Written::Yes;
                }
                Err(error) if error.code == 409 => {}
                Err(error) if error.code == 404 => return Written::Gone,
                Err(_) => return Written::No,
            }
            let meta = &live.metadata;
            match self.cluster.get::<Pod>(&meta.namespace, &meta.name) {
                Ok(found)
                    if found.metadata.uid == meta.uid && !found.status.phase.is_terminal() =>
                {
                    *live = found;
                    let unpullable = |image: &str| self.is_unpullable(image);
                    played.life.see(live, &unpullable, now.wall_ns);
                }
                _ => return Written::Gone,
            }
        }
        Written::No
    }

    /// Returns the status that the pod should have; `None` for a pod without a node.
    fn status(&mut self, played: &mut Played, live: &Pod) -> Option<PodStatus> {
        let node = live.node_name.as_ref()?;
        if self.clients().is_some()
            && !self.statuses.knows(node)
            && let Some(address) = internal_ip(&self.cluster, node)
        {
            self.statuses.introduce(node, address);
        }
        let host_ip = self.statuses.host_ip(node);
        let has_address =
            |live: &Pod| (live.status.started.as_ref()).is_some_and(|it| !it.pod_ip.is_empty());
        if played.pod_ip.is_none() && !has_address(live) && played.life.has_address() {
            let own = self.control.as_ref().and_then(|it| it.next_pod_address());
            played.pod_ip = own.map(|own| Address::from(own.to_string().as_str()));
        }
        let known = self.foreign.start(live);
        let mut recent = std::mem::take(&mut self.lives.recent);
        let rules = self.clients();
        let place = Place {
            start: known.as_ref(),
            host_ip: &host_ip,
            pod_ip: played.pod_ip.as_ref().unwrap_or(&host_ip),
            container_id: rules.map_or("", |rules| &rules.container_id),
            image_id: rules.map_or("", |rules| &rules.image_id),
        };
        let status = played.life.status(live, &place, &mut recent);
        self.lives.recent = recent;
        Some(status)
    }

    /// Removes a pod that has ended.
    pub(super) fn remove(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            precondition_uid: Some(meta.uid.clone()),
            ..DeleteOptions::default()
        };
        // An error means that the pod was deleted, or replaced by another of the same name.
        let _gone = self
            .cluster
            .delete::<Pod>(&meta.namespace, &meta.name, &options, now);
    }
}

#[inline]
fn has_script(pod: &Pod) -> bool {
    pod.metadata.annotations.get(SCRIPT).is_some()
}
