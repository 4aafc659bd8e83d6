//! The end of a run: everything is put right, must be as wanted again, and stay so.

use podstorm_sim::engine::fault_harness::FaultHarness;

use super::{MS, Simulation};

const SECOND: i64 = 1_000 * MS;

/// With [`Ending::touches`] each ReplicaSet is touched so long after the faults are over, or later where
/// a sync still expects something: one that set expectations while a watch that had failed was not yet
/// tried again waits for them until they run out, and a touch before that is in vain.
const TOUCH_AFTER: i64 = 370 * SECOND;

/// By then every retry has come: the longest delay of upstream's is 1,000 s, and more where the
/// bucket was empty.
const LAST_RETRY: i64 = 2_000 * SECOND;

/// How a run must end.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// So long after everything that went wrong was put right, all is as wanted.
    pub converges_within_ns: i64,
    /// Whether each ReplicaSet is touched once, when expectations have run out.
    pub touches: bool,
    /// Nothing may be written for so long after that.
    pub quiet_ns: i64,
}

impl Simulation {
    /// Puts everything right and lets the run end, checking L1 to L3; answers how long after healing
    /// everything was as wanted, ns.
    pub fn conclude(&mut self, ending: &Ending) -> Option<i64> {
        self.checker.phase("heal", self.harness.now());
        self.heal();
        // What was put right is noticed before anything is checked.
        self.run_to(self.harness.now().mono_ns + MS);
        let now_ns = self.harness.now().mono_ns;
        // A request that was lost before is a fault until its time has run out.
        let healed_ns = now_ns.max(self.harness.network().over_ns());
        self.checker.healed(healed_ns);
        let limit_ns = healed_ns - now_ns + ending.converges_within_ns;
        let converged = self.until_converged(limit_ns, ending.touches, Simulation::missing);
        let Some(since_ns) = converged else {
            let missing = self.missing();
            let text = format!(
                "not converged {} s after the faults were over: {}",
                ending.converges_within_ns / SECOND,
                missing.unwrap_or_else(|| "a controller has not come to rest".to_owned())
            );
            self.checker.fail("L1", text, self.harness.now());
            return None;
        };
        let converged_after_ns = Some((since_ns - healed_ns).max(0));
        self.checker.phase("quiet", self.harness.now());
        let begun_ns = self.harness.now().mono_ns;
        self.run_to(begun_ns + ending.quiet_ns);
        if let Some(missing) = self.missing() {
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
            let waits = (self.harness.controllers()).any(|it| it.queue().delayed() > 0);
            if !waits || now_ns >= limit_ns || self.checker.is_over() {
                return;
            }
            self.run_to(now_ns + 60 * SECOND);
        }
    }

    /// Goes on until nothing is missing and nothing is at work; the moment since when nothing is missing,
    /// or nothing when that takes longer than `limit_ns`.
    pub(crate) fn until_converged(
        &mut self,
        limit_ns: i64,
        touch: bool,
        missing: impl Fn(&Simulation) -> Option<String>,
    ) -> Option<i64> {
        let begun_ns = self.harness.now().mono_ns;
        let mut touched = !touch;
        let mut since_ns = None;
        let mut step_ns = 50 * MS;
        loop {
            let now_ns = self.harness.now().mono_ns;
            if self.checker.is_over() {
                return None;
            }
            match missing(self) {
                Some(_) => since_ns = None,
                None => {
                    since_ns.get_or_insert(self.checker.last_write_ns().max(begun_ns));
                }
            }
            if touched && since_ns.is_some() && self.harness.rests() {
                return since_ns;
            }
            let waited = now_ns - begun_ns;
            if !touched && waited >= TOUCH_AFTER && !expects(&self.harness) {
                self.touch_all();
                touched = true;
                step_ns = 50 * MS;
            }
            if waited >= limit_ns {
                return None;
            }
            let mut end_ns = (now_ns + step_ns).min(begun_ns + limit_ns);
            if waited < TOUCH_AFTER && !touched {
                end_ns = end_ns.min(begun_ns + TOUCH_AFTER);
            }
            self.run_to(end_ns);
            step_ns = (step_ns * 5 / 4).min(5 * SECOND);
        }
    }
}

/// Whether a live controller still waits for the events of what it asked for.
fn expects(harness: &FaultHarness) -> bool {
    let now_ns = harness.now().mono_ns;
    let mut controllers = harness.controllers();
    controllers.any(|controller| {
        let expectations = controller.expectations();
        let owners = controller.owners().all();
        let mut keys = owners.iter().map(|(key, _)| *key);
        keys.any(|key| !expectations.satisfied(key, now_ns))
    })
}
