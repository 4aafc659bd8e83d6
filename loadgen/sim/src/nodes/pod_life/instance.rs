//! A running instance of a container: the effects of the script and the probes, and the stop.

use podstorm_objects::RestartPolicy;

use super::container::{Container, Role, State, Ways};
use super::events::{ContainerRef, Notes};
use super::probes::{Failures, Kind, Said};
use crate::nodes::script::{After, Exit};

/// The minimum time between SIGTERM and SIGKILL, ns.
pub(super) const GRACE_MIN_NS: i64 = 2 * super::SECOND_NS;

/// A running instance. Times are wall times, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) since_ns: i64,
    /// The time at which the `postStart` hook ends; `None` if the hook is not running.
    pub(super) hook_ns: After,
    /// Whether the `postStart` hook fails.
    pub(super) hook_fails: bool,
    /// Whether the hook hides the instance from the status.
    pub(super) is_hidden: bool,
    /// The time at which the startup probe passes; never if the probe ends the instance first.
    pub(super) started_ns: After,
    pub(super) is_started: bool,
    /// The time at which the instance becomes ready.
    pub(super) ready_ns: After,
    /// The time at which the instance stops being ready.
    pub(super) unready_ns: After,
    pub(super) is_ready: bool,
    /// When and how the instance ends, if it ends by itself.
    pub(super) end: Option<(i64, Exit)>,
    /// Whether a probe ends the instance.
    pub(super) is_probed: bool,
    /// Whether the instance is being stopped.
    pub(super) is_stopped: bool,
    /// The failed probe runs that are still to come, if they are reported.
    pub(super) failures: Vec<Failures>,
}

impl Running {
    /// Returns the time of the next change that happens by itself; `None` if there is none.
    pub(super) fn next_ns(&self) -> After {
        let told = self.failures.iter().map(|failures| failures.next_ns);
        let end = self.end.map(|(at_ns, _)| at_ns);
        let started = self.started_ns.filter(|_| !self.is_started);
        let ready = self.ready_ns.filter(|_| !self.is_ready);
        let unready = self.unready_ns.filter(|_| self.is_ready);
        let others = [self.hook_ns, end, started, ready, unready];
        let others = others.into_iter().flatten();
        told.chain(others).min()
    }

    /// Applies the probe results that are due. Returns whether they affect the status.
    pub(super) fn probe(&mut self, at_ns: i64) -> bool {
        let is_due = |due: After| due.is_some_and(|due| due <= at_ns);
        let was = (self.is_started, self.is_ready);
        self.is_started |= is_due(self.started_ns);
        if !self.is_ready && is_due(self.ready_ns) {
            (self.is_ready, self.ready_ns) = (true, None);
        }
        if self.is_ready && is_due(self.unready_ns) {
            (self.is_ready, self.unready_ns) = (false, None);
        }
        was != (self.is_started, self.is_ready)
    }

    /// Sets the readiness of the instance, and ignores the startup and readiness probes from now
    /// on.
    pub(super) fn set_ready(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
        self.is_started |= is_ready;
        (self.ready_ns, self.unready_ns) = (None, None);
        self.failures.retain(|it| it.kind == Kind::Liveness);
    }
}

impl Container {
    /// Returns the instance that started at `since_ns`, in its state at `at_ns`, with the effects
    /// of the script and the probes.
    pub(super) fn instance_since(&self, since_ns: i64, at_ns: i64, ways: &Ways) -> Running {
        let (part, instance) = (&self.part, self.instance());
        let after = |after: After| after.map(|after| since_ns.saturating_add(after));
        let said = Said {
            started_ns: after(part.started(instance)),
            ready_ns: after(part.ready(instance)),
            unready_ns: after(part.unready(instance)),
            unhealthy_ns: after(part.unhealthy(instance)),
        };
        let begins_ns = since_ns.saturating_add(self.post_start_ns());
        let mut course = self.probes.course(&said, since_ns, begins_ns);
        if self.role == Role::Init {
            course.failures.clear();
        }
        course.failures.retain_mut(|failures| failures.skip(at_ns));
        let ends_ns = after(part.run(instance, self.role == Role::Init));
        let killed = course.killed.map(|(failed_ns, grace_ns)| {
            let grace_ns = grace_ns.unwrap_or(ways.grace_ns).max(GRACE_MIN_NS);
            self.stopped(failed_ns, failed_ns.saturating_add(grace_ns), ways)
        });
        let natural = ends_ns.map(|ends_ns| (ends_ns, part.exit(instance)));
        let first = |natural: &(i64, Exit)| killed.is_none_or(|killed| natural.0 < killed.0);
        let natural = natural.filter(first);
        let mut running = Running {
            since_ns,
            hook_ns: None,
            hook_fails: false,
            is_hidden: false,
            started_ns: course.started_ns,
            is_started: false,
            ready_ns: course.ready_ns,
            unready_ns: course.unready_ns,
            is_ready: false,
            is_probed: natural.is_none() && killed.is_some(),
            // An end that lies in the past happens now.
            end: natural
                .or(killed)
                .map(|(ends_ns, exit)| (ends_ns.max(at_ns), exit)),
            is_stopped: false,
            failures: course.failures,
        };
        running.probe(at_ns);
        running
    }

    /// Stops the running instance. It is killed at `kill_ns` if it is still running then.
    pub(super) fn stop(&mut self, at_ns: i64, kill_ns: i64, ways: &Ways) {
        let stopped = self.stopped(at_ns, kill_ns, ways);
        if let State::Running(running) = &mut self.state {
            let natural = running.end.filter(|(ends_ns, _)| *ends_ns <= stopped.0);
            running.end = Some(natural.unwrap_or(stopped));
            running.is_stopped = true;
            // Only readiness probes continue.
            running.failures.retain(|it| it.kind == Kind::Readiness);
            running.started_ns = running.started_ns.filter(|_| running.is_started);
        }
    }

    /// Ends the running instance now.
    pub(super) fn kill(&mut self, at_ns: i64) {
        if let State::Running(running) = &mut self.state {
            running.end = Some((at_ns, Exit::KILLED));
            running.is_stopped = true;
        }
    }

    /// Returns when and how an instance ends that is stopped at `at_ns` and killed at `kill_ns`.
    fn stopped(&self, at_ns: i64, kill_ns: i64, ways: &Ways) -> (i64, Exit) {
        let usual = match ways.policy {
            // A server shuts down cleanly, but interrupted work has failed.
            RestartPolicy::Always => Exit::Code(0),
            RestartPolicy::OnFailure | RestartPolicy::Never => Exit::Signal(15),
        };
        let (term_ns, kill_ns) = self.signals(at_ns, kill_ns);
        let stop = self.part.stop(self.instance(), ways.stop_ns);
        let ends_ns = stop.map(|stop_ns| term_ns.saturating_add(stop_ns));
        match ends_ns.filter(|ends_ns| *ends_ns <= kill_ns) {
            Some(ends_ns) => (ends_ns, self.part.stop_exit(self.instance(), usual)),
            None => (kill_ns, Exit::KILLED),
        }
    }

    /// Kills an instance that is being stopped at `kill_ns` at the latest.
    pub(super) fn hasten(&mut self, kill_ns: i64) {
        if let State::Running(Running {
            end: Some(end),
            is_stopped: true,
            ..
        }) = &mut self.state
            && end.0 > kill_ns
        {
            *end = (kill_ns, Exit::KILLED);
        }
    }

    /// Records the Events for probe failures up to `at_ns`.
    pub(super) fn tell_probes(&mut self, at_ns: i64, ways: &Ways, notes: &mut Notes) {
        let restarts = self.outlives_probes(ways);
        let State::Running(running) = &mut self.state else {
            return;
        };
        let of = ContainerRef::new(&self.name, self.role);
        let mut is_killed = false;
        running.failures.retain_mut(|failures| {
            let goes_on = self.probes.tell(failures, of, at_ns, restarts, notes);
            is_killed |= !goes_on && failures.kills;
            goes_on
        });
        if is_killed {
            self.tell_pre_stop(notes);
        }
    }
}
