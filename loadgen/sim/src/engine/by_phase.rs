//! Durations of waits and syncs, by the phase of the scenario in which they began. This separates
//! the measured phases from setup phases, even if work of one phase continues in the next.
//!
//! Only the driver writes [`PhaseTimes`]; any thread reads them. A worker records into its own
//! histograms and merges them into the shared ones when the phase changes. It therefore takes the
//! lock once per phase, and for each duration that began in an earlier phase.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hdrhistogram::Histogram;

use crate::lock;

/// The times at which the phases began.
#[derive(Debug)]
pub struct PhaseTimes {
    /// The monotonic time at which each phase began, ns; meaningless for phases that have not
    /// begun.
    began_ns: Box<[AtomicI64]>,
    /// The current phase; the number of phases once the last one is over.
    present: AtomicUsize,
}

impl PhaseTimes {
    /// Returns the times of a run with `phases` phases, in its first phase.
    pub fn new(phases: usize) -> PhaseTimes {
        PhaseTimes {
            began_ns: (0..=phases).map(|_| AtomicI64::new(0)).collect(),
            present: AtomicUsize::new(0),
        }
    }

    /// Records that a phase begins. With the number of phases as `phase`, records that the last one
    /// is over.
    pub fn begin(&self, phase: usize, now_ns: i64) {
        // Relaxed: the store below publishes it.
        self.began_ns[phase].store(now_ns, Ordering::Relaxed);
        // Release: a thread that reads the phase also sees when it began.
        self.present.store(phase, Ordering::Release);
    }

    /// Returns the monotonic time at which a phase that has begun began, ns.
    pub fn began_ns(&self, phase: usize) -> i64 {
        // Relaxed: the time was written by this thread, or before the phase that this thread has
        // loaded with Acquire.
        self.began_ns[phase].load(Ordering::Relaxed)
    }

    /// Returns the phase in which a past time lies; the last of several phases that began at that
    /// time.
    #[inline]
    pub fn phase_at(&self, at_ns: i64) -> usize {
        // Acquire: pairs with `begin`.
        let mut phase = self.present.load(Ordering::Acquire);
        while phase > 0 && at_ns < self.began_ns(phase) {
            phase -= 1;
        }
        phase
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are supported")
}

/// Records a duration in a histogram, which grows as needed.
#[inline]
fn record(histogram: &mut Histogram<u64>, took_ns: u64) {
    // Fails only if the size of the histogram overflows a `usize`.
    let _recorded = histogram.record(took_ns);
}

/// Durations in nanoseconds, by phase.
#[derive(Clone, Debug, Default)]
pub struct ByPhase {
    /// The durations of each phase; `None` for phases without any.
    phases: Vec<Option<Histogram<u64>>>,
}

impl ByPhase {
    fn of_mut(&mut self, phase: usize) -> &mut Histogram<u64> {
        if self.phases.len() <= phase {
            self.phases.resize(phase + 1, None);
        }
        self.phases[phase].get_or_insert_with(histogram)
    }

    /// Records a duration of a phase. Allocates for the first duration of the phase, and when the
    /// maximum grows.
    #[inline]
    pub fn record(&mut self, phase: usize, took_ns: u64) {
        match self.phases.get_mut(phase) {
            Some(Some(histogram)) => record(histogram, took_ns),
            _ => record(self.of_mut(phase), took_ns),
        }
    }

    fn add(&mut self, phase: usize, durations: &Histogram<u64>) {
        if !durations.is_empty() {
            *self.of_mut(phase) += durations;
        }
    }

    /// Returns the durations of one phase; `None` if it has none.
    pub fn get(&self, phase: usize) -> Option<&Histogram<u64>> {
        self.phases.get(phase)?.as_ref()
    }

    /// Returns the durations of all phases that `counts` accepts, in one histogram.
    pub fn merged(&self, counts: impl Fn(usize) -> bool) -> Histogram<u64> {
        let mut all = histogram();
        let phases = self.phases.iter().enumerate();
        for (_, durations) in phases.filter(|(phase, _)| counts(*phase)) {
            if let Some(durations) = durations {
                all += durations;
            }
        }
        all
    }
}

/// The durations that a run's workers have recorded, by phase.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The times from the addition of a key to a queue until a worker takes the key.
    pub queued: ByPhase,
    /// The times from the moment a worker takes a key to the end of the key's sync.
    pub worked: ByPhase,
    /// The number of syncs without an API call, for each phase.
    pub idle_syncs: Vec<u64>,
}

impl Recorded {
    fn count_idle(&mut self, phase: usize, by: u64) {
        if self.idle_syncs.len() <= phase {
            self.idle_syncs.resize(phase + 1, 0);
        }
        self.idle_syncs[phase] += by;
    }
}

/// Records the durations of one worker: those of the current phase in the worker's own histograms,
/// those of earlier phases in the shared ones.
#[derive(Debug)]
pub struct Recorder {
    times: Arc<PhaseTimes>,
    phase: usize,
    queued: Histogram<u64>,
    worked: Histogram<u64>,
    idle_syncs: u64,
    /// The shared histograms. Locked briefly, while the thread holds no other lock except the
    /// worker's own.
    rest: Arc<Mutex<Recorded>>,
}

impl Recorder {
    pub(super) fn new(times: Arc<PhaseTimes>, rest: Arc<Mutex<Recorded>>) -> Recorder {
        Recorder {
            times,
            phase: 0,
            queued: histogram(),
            worked: histogram(),
            idle_syncs: 0,
            rest,
        }
    }

    /// Records that a key was taken after `waited_ns` in the queue.
    #[inline]
    pub(super) fn taken(&mut self, waited_ns: u64, now_ns: i64) {
        let added_ns = now_ns.saturating_sub_unsigned(waited_ns);
        let phase = self.times.phase_at(added_ns);
        if self.is_present(phase) {
            record(&mut self.queued, waited_ns);
        } else {
            self.rest().queued.record(phase, waited_ns);
        }
    }

    /// Records the end of a sync. `asked_nothing` tells whether the sync made no API call.
    #[inline]
    pub(super) fn worked(&mut self, begun_ns: i64, took_ns: u64, asked_nothing: bool) {
        let phase = self.times.phase_at(begun_ns);
        if self.is_present(phase) {
            record(&mut self.worked, took_ns);
            self.idle_syncs += u64::from(asked_nothing);
        } else {
            let mut rest = self.rest();
            rest.worked.record(phase, took_ns);
            rest.count_idle(phase, u64::from(asked_nothing));
        }
    }

    /// Reports whether durations of `phase` go to the worker's own histograms. A phase later than
    /// the current one becomes the current one.
    #[inline]
    fn is_present(&mut self, phase: usize) -> bool {
        if phase > self.phase {
            self.hand_over();
            self.phase = phase;
        }
        phase == self.phase
    }

    fn rest(&self) -> MutexGuard<'_, Recorded> {
        lock(&self.rest)
    }

    /// Merges the worker's own durations into the shared ones. Must be called at the end of the
    /// run.
    #[cold]
    pub fn hand_over(&mut self) {
        let mut rest = self.rest();
        rest.queued.add(self.phase, &self.queued);
        rest.worked.add(self.phase, &self.worked);
        rest.count_idle(self.phase, self.idle_syncs);
        drop(rest);
        for durations in [&mut self.queued, &mut self.worked] {
            // A reset writes all of a histogram's memory, so skip the many that are empty.
            if !durations.is_empty() {
                durations.reset();
            }
        }
        self.idle_syncs = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_last_phase_that_began() {
        let times = PhaseTimes::new(3);
        assert_eq!(times.phase_at(500), 0);
        times.begin(1, 100);
        times.begin(2, 100);
        assert_eq!([0, 99, 100, 101].map(|at| times.phase_at(at)), [0, 0, 2, 2]);
        times.begin(3, 200);
        assert_eq!([99, 199, 200].map(|at| times.phase_at(at)), [0, 2, 3]);
    }

    #[test]
    fn durations_count_for_the_phase_in_which_they_began() {
        let times = Arc::new(PhaseTimes::new(2));
        let rest = Arc::default();
        let mut recorder = Recorder::new(Arc::clone(&times), Arc::clone(&rest));
        recorder.taken(5, 10);
        recorder.worked(10, 7, true);
        times.begin(1, 100);
        // Added and taken before the second phase, ended in it.
        recorder.taken(90, 150);
        recorder.worked(90, 1_000, true);
        recorder.taken(50, 150);
        recorder.worked(150, 3, false);
        // A late duration from the first phase counts for the first phase.
        recorder.taken(60, 155);
        recorder.hand_over();
        let recorded = rest.lock().unwrap();
        let counts =
            |durations: &ByPhase| [0, 1].map(|phase| durations.get(phase).map(Histogram::len));
        assert_eq!(counts(&recorded.queued), [Some(3), Some(1)]);
        assert_eq!(counts(&recorded.worked), [Some(2), Some(1)]);
        assert_eq!(recorded.idle_syncs, [2, 0]);
        assert_eq!(recorded.worked.merged(|phase| phase != 0).max(), 3);
        assert_eq!(recorded.worked.merged(|_| true).len(), 3);
        assert!(recorded.worked.merged(|_| false).is_empty());
    }
}
