//! The lifecycle hooks of a container. A hook that sleeps takes as long as it sleeps; any other
//! hook takes no time. A script can make a hook fail.
//!
//! A `postStart` hook runs after the start of an instance: until it ends, no other container of the
//! pod starts and the kubelet writes no status. A `preStop` hook runs before SIGTERM, within the
//! grace period.
//!
//! Source: `kuberuntime_container.go` of Kubernetes' kubelet, 1.36.

use podstorm::client::EventType::{Normal, Warning};
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, State, Ways};
use super::events::{ContainerRef, Notes};
use super::instance::GRACE_MIN_NS;

/// The message of the Event for a failed `postStart` hook.
pub(super) const POST_START_FAILED: &str = "PostStartHook failed";

/// The durations of a container's hooks, ns; `None` without a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hooks {
    post_start_ns: Option<i64>,
    pre_stop_ns: Option<i64>,
}

impl Hooks {
    /// Returns the hooks of a container in a spec.
    pub(super) fn from_container(container: &Value) -> Hooks {
        let sleep_ns = |hook: &str| {
            let hook = container["lifecycle"][hook].as_object()?;
            let sleep = hook
                .get("sleep")
                .and_then(|sleep| sleep["seconds"].as_i64());
            Some(sleep.unwrap_or(0).max(0).saturating_mul(SECOND_NS))
        };
        Hooks {
            post_start_ns: sleep_ns("postStart"),
            pre_stop_ns: sleep_ns("preStop"),
        }
    }
}

impl Container {
    /// Returns the duration of the `postStart` hook, ns; 0 without a hook.
    pub(super) fn post_start_ns(&self) -> i64 {
        self.hooks.post_start_ns.unwrap_or(0)
    }

    /// Begins the `postStart` hook of the instance that starts now.
    pub(super) fn begin_post_start(&mut self, at_ns: i64) {
        let fails = !self.part.post_start(self.instance());
        let takes_ns = self.hooks.post_start_ns;
        if let State::Running(running) = &mut self.state
            && let Some(takes_ns) = takes_ns.filter(|takes_ns| fails || *takes_ns > 0)
        {
            running.hook_ns = Some(at_ns.saturating_add(takes_ns));
            (running.is_hidden, running.hook_fails) = (true, fails);
        }
    }

    /// Ends the `postStart` hook if its end is due. Returns whether it has ended successfully now.
    pub(super) fn end_post_start(&mut self, at_ns: i64, ways: &Ways, notes: &mut Notes) -> bool {
        let State::Running(running) = &mut self.state else {
            return false;
        };
        if running.hook_ns.is_none_or(|hook_ns| hook_ns > at_ns) {
            return false;
        }
        running.hook_ns = None;
        if !running.hook_fails {
            running.is_hidden = false;
            return true;
        }
        let of = Some(ContainerRef::new(&self.name, self.role));
        let failed = || POST_START_FAILED.to_owned();
        notes.add(of, Warning, "FailedPostStartHook", failed);
        notes.add(of, Normal, "Killing", || "FailedPostStartHook".to_owned());
        self.tell_pre_stop(notes);
        let kill_ns = at_ns.saturating_add(ways.grace_ns.max(GRACE_MIN_NS));
        self.stop(at_ns, kill_ns, ways);
        false
    }

    /// Reports whether the `postStart` hook is running, or has failed and the instance has not
    /// ended yet.
    pub(super) fn is_hidden(&self) -> bool {
        self.running().is_some_and(|it| it.is_hidden)
    }

    /// Returns the times of SIGTERM and SIGKILL for an instance that stops at `at_ns`.
    pub(super) fn signals(&self, at_ns: i64, kill_ns: i64) -> (i64, i64) {
        let sleep_ns = match self.part.pre_stop(self.instance()) {
            true => self.hooks.pre_stop_ns.unwrap_or(0),
            false => 0,
        };
        let term_ns = at_ns.saturating_add(sleep_ns).min(kill_ns).max(at_ns);
        let least_ns = match sleep_ns {
            0 => kill_ns,
            _ => term_ns.saturating_add(GRACE_MIN_NS),
        };
        (term_ns, kill_ns.max(least_ns))
    }

    /// Records the Event for the `preStop` hook of an instance that stops, if the hook fails.
    pub(super) fn tell_pre_stop(&self, notes: &mut Notes) {
        if self.hooks.pre_stop_ns.is_some() && !self.part.pre_stop(self.instance()) {
            let of = Some(ContainerRef::new(&self.name, self.role));
            let message = || "PreStopHook failed".to_owned();
            notes.add(of, Warning, "FailedPreStopHook", message);
        }
    }
}
