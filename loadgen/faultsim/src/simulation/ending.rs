//! The end of a run: all faults are healed, and the cluster must converge again and stay converged.

use super::{MS, Simulation, Users, Watcher};

const SECOND: i64 = 1_000 * MS;

/// The time within which every retry has happened, ns. Upstream's longest delay is 1,000 s, and
/// more if the token bucket was empty.
const LAST_RETRY: i64 = 2_000 * SECOND;

/// The requirements for the end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// The time limit for the first convergence, from the beginning of the run, ns.
    pub builds_within_ns: i64,
    /// The time limit for convergence after healing, ns.
    pub converges_within_ns: i64,
    /// The times after healing at which users touch everything, ns. A touch is postponed while a
    /// sync still expects events: a sync that set expectations before a failed watch was retried
    /// waits until the expectations expire, and an earlier touch would have no effect.
    pub touches_ns: &'static [i64],
    /// Whether all touches happen even if the run has converged before.
    pub touches_always: bool,
    /// The extension of the limits while a retry is pending, ns.
    pub debt_ns: i64,
    /// The time limit for another convergence after users have helped, if they could, ns.
    pub helped_within_ns: i64,
    /// The time after convergence during which writes are still permitted, ns.
    pub settles_ns: i64,
    /// The time after `settles_ns` during which nothing may be written, ns.
    pub quiet_ns: i64,
}

impl Ending {
    /// The time after which expectations have expired and failed watches have been retried, ns.
    pub const EXPECTATIONS_RUN_OUT_NS: i64 = 370 * SECOND;

    /// The defaults: ten minutes to build, ten minutes of quiet, no touches, no help.
    pub const DEFAULT: Ending = Ending {
        builds_within_ns: 600 * SECOND,
        converges_within_ns: 0,
        touches_ns: &[],
        touches_always: true,
        debt_ns: 0,
        helped_within_ns: 0,
        settles_ns: 0,
        quiet_ns: 600 * SECOND,
    };
}

impl Simulation {
    /// Runs until the first convergence. Returns whether it was reached within the limit.
    pub(crate) fn builds(&mut self, ending: &Ending, watcher: &impl Watcher) -> bool {
        let limit_ns = ending.builds_within_ns;
        let missing = |simulation: &Simulation| watcher.missing(simulation);
        let built = self.until_converged(limit_ns, 0, &[], true, missing, |_, _| {});
        if built.is_none() {
            let missing = watcher.missing(self).unwrap_or_default();
            let seconds = limit_ns / SECOND;
            let text =
                format!("the cluster did not converge within {seconds} s of the start: {missing}");
            self.checker.fail("L1", text, self.harness.now());
        }
        built.is_some()
    }

    /// Heals all faults, runs to the end, and checks L1 to L3. Returns the time from healing to
    /// convergence, ns; `None` if the run did not converge.
    pub fn conclude(
        &mut self,
        ending: &Ending,
        users: &mut impl Users,
        watcher: &impl Watcher,
    ) -> Option<i64> {
        self.checker.phase("heal", self.harness.now());
        self.heal();
        users.put_right(self);
        // Let the tasks observe the healing before anything is checked.
        self.run_to(self.harness.now().mono_ns + MS);
        let now_ns = self.harness.now().mono_ns;
        // A lost request remains a fault until it times out.
        let healed_ns = now_ns.max(self.harness.network().over_ns());
        self.checker.healed(healed_ns);
        let limit_ns = healed_ns - now_ns + ending.converges_within_ns;
        let missing = |simulation: &Simulation| watcher.missing(simulation);
        let touch = |simulation: &mut Simulation, expects: bool| match expects {
            // A touch would have no effect, but users can help.
            true => _ = users.help(simulation),
            false => users.touch(simulation),
        };
        let (touches_ns, always) = (ending.touches_ns, ending.touches_always);
        let debt_ns = ending.debt_ns;
        let mut converged =
            self.until_converged(limit_ns, debt_ns, touches_ns, always, missing, touch);
        // The controller may still wait for users.
        if converged.is_none() && !self.checker.is_over() && users.help(self) {
            let limit_ns = ending.helped_within_ns;
            converged = self.until_converged(limit_ns, debt_ns, &[], true, missing, |_, _| {});
        }
        let Some(since_ns) = converged else {
            let text = format!(
                "not converged {} s after the faults were over: {}",
                ending.converges_within_ns / SECOND,
                watcher
                    .missing(self)
                    .unwrap_or_else(|| "a controller is not at rest".to_owned())
            );
            self.checker.fail("L1", text, self.harness.now());
            return None;
        };
        let converged_after_ns = Some((since_ns - healed_ns).max(0));
        self.run_to(self.harness.now().mono_ns + ending.settles_ns);
        self.checker.phase("quiet", self.harness.now());
        let begun_ns = self.harness.now().mono_ns;
        self.run_to(begun_ns + ending.quiet_ns);
        if let Some(missing) = watcher.missing(self) {
            let text = format!("did not stay converged: {missing}");
            self.checker.fail("L1", text, self.harness.now());
        }
        if let Some(text) = self.checker.restless(begun_ns) {
            self.checker.fail("L2", text, self.harness.now());
        }
        if !self.checker.is_over() {
            self.retries_come();
            self.checker.at_rest(&self.harness);
        }
        converged_after_ns
    }

    /// Runs until no key is delayed: upstream's retries wait for a quarter of an hour and more, and
    /// the state of a deleted object is kept until its last retry.
    fn retries_come(&mut self) {
        let limit_ns = self.harness.now().mono_ns + LAST_RETRY;
        loop {
            let now_ns = self.harness.now().mono_ns;
            let waits = self.owners.have_delayed(&self.harness);
            if !waits || now_ns >= limit_ns || self.checker.is_over() {
                return;
            }
            self.run_to(now_ns + 60 * SECOND);
        }
    }

    /// Runs until nothing is missing and nothing is in progress. Returns the time since which
    /// nothing is missing, or `None` after the limit, which the [debt](Ending::debt_ns) extends
    /// while a retry is pending. `touch` is called at the given times of waiting; with `always`,
    /// all of these calls happen before the end. The argument of `touch` tells whether a sync still
    /// expects events; if one does, `touch` is called again once none does.
    fn until_converged(
        &mut self,
        limit_ns: i64,
        debt_ns: i64,
        touches_ns: &[i64],
        always: bool,
        missing: impl Fn(&Simulation) -> Option<String>,
        mut touch: impl FnMut(&mut Simulation, bool),
    ) -> Option<i64> {
        let begun_ns = self.harness.now().mono_ns;
        let mut touches = touches_ns.iter().copied().peekable();
        let mut since_ns = None;
        let mut step_ns = 50 * MS;
        let mut expected = false;
        let mut all_due = always;
        loop {
            let now_ns = self.harness.now().mono_ns;
            if self.checker.is_over() {
                return None;
            }
            let has_retries = self.harness.has_retries();
            let limit_ns = limit_ns + if has_retries { debt_ns } else { 0 };
            match missing(self) {
                Some(_) => since_ns = None,
                None => {
                    since_ns.get_or_insert(self.checker.last_write_ns().max(begun_ns));
                }
            }
            if since_ns.is_some() && self.harness.rests() {
                // A sync that waits for its expectations has more work, and only a touch triggers
                // the next sync.
                all_due = all_due || self.owners.expect(&self.harness);
                if !all_due || touches.peek().is_none() {
                    return since_ns;
                }
            }
            let waited = now_ns - begun_ns;
            if touches.peek().is_some_and(|at_ns| waited >= *at_ns) {
                let expects = self.owners.expect(&self.harness);
                if !(expects && expected) {
                    touch(self, expects);
                    step_ns = 50 * MS;
                }
                expected = expects;
                if !expects {
                    touches.next();
                }
            }
            if waited >= limit_ns {
                return None;
            }
            let mut end_ns = (now_ns + step_ns).min(begun_ns + limit_ns);
            if let Some(at_ns) = touches.peek().filter(|at_ns| waited < **at_ns) {
                end_ns = end_ns.min(begun_ns + at_ns);
            }
            self.run_to(end_ns);
            step_ns = (step_ns * 5 / 4).min(5 * SECOND);
        }
    }
}
