//! The restart of a whole pod by the action `RestartAllContainers` of a container's rules: every
//! container is stopped and removed, and then all of them start again from the first init
//! container, without a back-off.
//!
//! Source: `kuberuntime_manager.go` and `kubelet_pods.go` of Kubernetes' kubelet, 1.36.

use podstorm::client::EventType::Normal;
use podstorm_objects::{ConditionStatus, ConditionType, Map, PackedTime, Pod, PodCondition};
use serde_json::Value;

use super::PodLife;
use super::container::{Container, Ended, State};
use super::events::ContainerRef;
use super::instance::GRACE_MIN_NS;
use super::status::time;

/// The type of the condition of a pod that restarts all its containers.
const CONDITION: &str = "AllContainersRestarting";

/// The reason in the status of a removed container, both for its waiting and for the end of its
/// last instance.
pub(super) const REASON: &str = "RestartingAllContainers";
pub(super) const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// The progress of a restart of all containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartAll {
    /// The pod's containers are stopping.
    Stops,
    /// The pod's containers are removed.
    Removed,
}

impl PodLife {
    /// Begins or continues a restart of all containers. Returns whether the status changes; `None`
    /// if containers may start as usual.
    pub(super) fn restart_all(&mut self) -> Option<bool> {
        match self.restarting {
            None if self.containers.iter().any(|it| it.restarts_all) => {
                self.restarting = Some(RestartAll::Stops);
                self.stop_all();
                Some(true)
            }
            None => None,
            Some(RestartAll::Stops) if self.containers.iter().any(|it| it.running().is_some()) => {
                Some(false)
            }
            Some(RestartAll::Stops) => {
                self.restarting = Some(RestartAll::Removed);
                self.containers.iter_mut().for_each(Container::remove);
                self.resume_restart();
                Some(true)
            }
            Some(RestartAll::Removed) => {
                self.restarting = None;
                None
            }
        }
    }

    /// Restores the start order of removed containers: init containers run in sequence again,
    /// unless a later container has started since. The condition `Initialized` stays unchanged.
    pub(super) fn resume_restart(&mut self) {
        self.was_initialized |= self.is_initialized;
        let has_started = |it: &Container| it.has_run() && !it.is_removed;
        self.is_initialized = self.init == 0 || self.regular().iter().any(has_started);
    }

    fn stop_all(&mut self) {
        let kill_ns = self.at_ns.saturating_add(GRACE_MIN_NS);
        for container in &mut self.containers {
            container.restarts_all = false;
            if container.running().is_some() {
                let name = &container.name;
                let of = Some(ContainerRef::new(name, container.role));
                let message = || format!("Stopping container {name}");
                self.notes.add(of, Normal, "Killing", message);
                container.stop(self.at_ns, kill_ns, &self.ways);
            }
            container.give_up();
        }
    }

    /// Reports whether the condition is the one about a restart of all containers.
    pub(super) fn says_restarting(&self, condition: &PodCondition) -> bool {
        let kind = || condition.rest.get("type");
        self.has_rule && kind().as_ref().and_then(Value::as_str) == Some(CONDITION)
    }

    /// Returns the condition about a restart of all containers; `None` unless a rule can cause one.
    pub(super) fn restarting(&self, live: &Pod) -> Option<PodCondition> {
        if !self.has_rule {
            return None;
        }
        let is_restarting = self.restarting.is_some();
        let status = match is_restarting {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        };
        let old = live.status.conditions.iter();
        let mut old = old.filter(|it| self.says_restarting(it) && it.status == status);
        let since = old.next().map(|old| old.last_transition_time);
        let since = since.filter(|since| !since.get().is_unset());
        let mut rest = Map::new();
        rest.insert("type".into(), CONDITION.into());
        if is_restarting {
            rest.insert("reason".into(), "RestartAllContainersStarted".into());
            let message = "container exited with restart policy rule";
            rest.insert("message".into(), message.into());
        }
        Some(PodCondition {
            kind: ConditionType::Other,
            status,
            last_transition_time: since.unwrap_or_else(|| PackedTime::new(time(self.at_ns))),
            rest: rest.into(),
        })
    }
}

impl Container {
    /// Removes the container's instances, so that it starts like a new one.
    fn remove(&mut self) {
        let has_run = self.has_run();
        self.state = State::Waiting;
        if !has_run {
            return;
        }
        self.last = Some(Ended {
            code: 137,
            reason: REASON.into(),
            message: Some(MESSAGE.into()),
            began_ns: None,
            ended_ns: None,
        });
        self.restarts = self.restarts.saturating_add(1);
        (self.is_removed, self.has_failed_hook) = (true, false);
        (self.backoff, self.pause_ns) = (None, 0);
    }

    /// Returns the waiting reason and message of a removed container; `None` for any other
    /// container.
    pub(super) fn removed(&self) -> Option<(&'static str, &'static str)> {
        self.is_removed.then_some((REASON, MESSAGE))
    }
}
