//! The end of a run: everything is put right, must be as wanted again, and stay so.

use super::{MS, Simulation, Users, Watcher};

const SECOND: i64 = 1_000 * MS;

/// By then every retry has come: the longest delay of upstream's is 1,000 s, and more where the
/// bucket was empty.
const LAST_RETRY: i64 = 2_000 * SECOND;

/// How a run must end.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// So long after its beginning all is as wanted for the first time.
    pub builds_within_ns: i64,
    /// So long after everything that went wrong was put right, all is as wanted.
    pub converges_within_ns: i64,
    /// So long after that users touch everything, or later where a sync still expects something: one that
    /// set expectations while a watch that had failed was not yet tried again waits for them until they run
    /// out, and a touch before that is in vain.
    pub touches_ns: &'static [i64],
    /// Whether the last touch comes where all is as wanted before, too.
    pub touches_always: bool,
    /// While a retry is to come, everything may take so much longer.
    pub debt_ns: i64,
    /// So long after users have helped, where there was something to help with, all is as wanted.
    pub helped_within_ns: i64,
    /// What is as wanted may be written about for so long.
    pub settles_ns: i64,
    /// Nothing may be written for so long after that.
    pub quiet_ns: i64,
}

impl Ending {
    /// When expectations have run out, and a watch that had failed was tried again.
    pub const EXPECTATIONS_RUN_OUT_NS: i64 = 370 * SECOND;

    /// Ten minutes to be built and ten of quiet, no touches, no help.
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
    /// Goes on until all is as wanted for the first time; whether it came to that.
    pub(crate) fn builds(&mut self, ending: &Ending, watcher: &impl Watcher) -> bool {
        let limit_ns = ending.builds_within_ns;
        let missing = |simulation: &Simulation| watcher.missing(simulation);
        let built = self.until_converged((limit_ns, 0), &[], true, missing, |_, _| {});
        if built.is_none() {
            let missing = watcher.missing(self).unwrap_or_default();
            let seconds = limit_ns / SECOND;
            let text = format!("the cluster was not built within {seconds} s: {missing}");
            self.checker.fail("L1", text, self.harness.now());
        }
        built.is_some()
    }

    /// Puts everything right and lets the run end, checking L1 to L3; answers how long after healing
    /// everything was as wanted, ns.
    pub fn conclude(
        &mut self,
        ending: &Ending,
        users: &mut impl Users,
        watcher: &impl Watcher,
    ) -> Option<i64> {
        self.checker.phase("heal", self.harness.now());
        self.heal();
        users.put_right(self);
        // What was put right is noticed before anything is checked.
        self.run_to(self.harness.now().mono_ns + MS);
        let now_ns = self.harness.now().mono_ns;
        // A request that was lost before is a fault until its time has run out.
        let healed_ns = now_ns.max(self.harness.network().over_ns());
        self.checker.healed(healed_ns);
        let limit_ns = healed_ns - now_ns + ending.converges_within_ns;
        let missing = |simulation: &Simulation| watcher.missing(simulation);
        let touch = |simulation: &mut Simulation, expects: bool| match expects {
            // A touch would be in vain.
            true => _ = users.help(simulation),
            false => users.touch(simulation),
        };
        let (touches_ns, always) = (ending.touches_ns, ending.touches_always);
        let limits_ns = (limit_ns, ending.debt_ns);
        let mut converged = self.until_converged(limits_ns, touches_ns, always, missing, touch);
        // What they were helped with may have come to where a controller waits again.
        if converged.is_none() && !self.checker.is_over() && users.help(self) {
            let limits_ns = (ending.helped_within_ns, ending.debt_ns);
            converged = self.until_converged(limits_ns, &[], true, missing, |_, _| {});
        }
        let Some(since_ns) = converged else {
            let text = format!(
                "not converged {} s after the faults were over: {}",
                ending.converges_within_ns / SECOND,
                watcher
                    .missing(self)
                    .unwrap_or_else(|| "a controller has not come to rest".to_owned())
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
            let text = format!("converged, and did not stay so: {missing}");
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

    /// Goes on until no retry is to come: upstream's wait for a quarter of an hour and more, and what
    /// is kept for an object that is gone stays until its last one.
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

    /// Goes on until nothing is missing and nothing is at work; the moment since when nothing is missing,
    /// or nothing when that takes longer than the limit, and longer than the [debt](Ending::debt_ns) beyond that
    /// while a retry is to come. `touch` is called at these times of waiting; with
    /// `always` all of them come before the end. It learns whether a sync still expects something, and if so is called
    /// again once none does.
    fn until_converged(
        &mut self,
        (limit_ns, debt_ns): (i64, i64),
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
                // A sync that waits for its expectation has more to do, and only a touch brings the next one.
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
