//! Durations by the phase of the scenario in which they began: what is measured is told from what only
//! sets a cluster up, whatever is still under way when one phase follows another.
//!
//! The driver alone writes [`PhaseTimes`]; anybody reads it. A worker records into histograms of its own
//! and hands them over when the phase has changed, so that it takes the lock once a phase and for what
//! began before the present one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hdrhistogram::Histogram;

/// When each phase began.
#[derive(Debug)]
pub struct PhaseTimes {
    /// Engine time, ns; of phases that have not begun it means nothing.
    began_ns: Box<[AtomicI64]>,
    /// The present phase, or how many there are when all are over.
    present: AtomicUsize,
}

impl PhaseTimes {
    /// Of a run with so many phases, in the first of them.
    pub fn new(phases: usize) -> PhaseTimes {
        PhaseTimes {
            began_ns: (0..=phases).map(|_| AtomicI64::new(0)).collect(),
            present: AtomicUsize::new(0),
        }
    }

    /// That phase begins, or all are over.
    pub fn begin(&self, phase: usize, now_ns: i64) {
        // Relaxed: the store below publishes it.
        self.began_ns[phase].store(now_ns, Ordering::Relaxed);
        // Release: who reads the phase reads when it began.
        self.present.store(phase, Ordering::Release);
    }

    /// When a phase began, ns.
    pub fn began_ns(&self, phase: usize) -> i64 {
        // Relaxed: written before the phase was published, by the thread that asks or before it.
        self.began_ns[phase].load(Ordering::Relaxed)
    }

    /// The phase in which a moment up to now lies; of phases that took no time the last.
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
    Histogram::new(3).expect("three digits are within bounds")
}

/// Counts a duration; the histogram grows to hold it.
#[inline]
fn record(histogram: &mut Histogram<u64>, took_ns: u64) {
    // Refused only where the histogram's size would not fit a usize.
    let _recorded = histogram.record(took_ns);
}

/// Durations in nanoseconds, by phase.
#[derive(Clone, Debug, Default)]
pub struct ByPhase {
    /// Of phases that nothing was recorded for none.
    phases: Vec<Option<Histogram<u64>>>,
}

impl ByPhase {
    fn of_mut(&mut self, phase: usize) -> &mut Histogram<u64> {
        if self.phases.len() <= phase {
            self.phases.resize(phase + 1, None);
        }
        self.phases[phase].get_or_insert_with(histogram)
    }

    /// Counts a duration of a phase. Allocates where the phase has none yet, or none as long.
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

    /// The durations of one phase.
    pub fn of(&self, phase: usize) -> Option<&Histogram<u64>> {
        self.phases.get(phase)?.as_ref()
    }

    /// The durations of the phases that `counts` accepts together.
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

/// What the workers of a run have recorded, by phase.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// From adding a key to taking it.
    pub queued: ByPhase,
    /// From taking a key to the end of its sync.
    pub worked: ByPhase,
    /// Syncs that asked for no API call.
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

/// A worker's share: of the present phase its own, of those before it in common with the others.
#[derive(Debug)]
pub struct Recorder {
    times: Arc<PhaseTimes>,
    phase: usize,
    queued: Histogram<u64>,
    worked: Histogram<u64>,
    idle_syncs: u64,
    /// Locked for a moment, and never with another lock held but the worker's own.
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

    /// A key was taken that has waited for so long.
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

    /// A sync has ended that began at that moment and took so long.
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

    /// Whether what began in a phase is recorded here; a later one than before becomes the present.
    #[inline]
    fn is_present(&mut self, phase: usize) -> bool {
        if phase > self.phase {
            self.hand_over();
            self.phase = phase;
        }
        phase == self.phase
    }

    fn rest(&self) -> MutexGuard<'_, Recorded> {
        self.rest
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Gives what was recorded here to the others, as at the end of the run.
    #[cold]
    pub fn hand_over(&mut self) {
        let mut rest = self.rest();
        rest.queued.add(self.phase, &self.queued);
        rest.worked.add(self.phase, &self.worked);
        rest.count_idle(self.phase, self.idle_syncs);
        drop(rest);
        self.queued.reset();
        self.worked.reset();
        self.idle_syncs = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_lies_in_the_phase_that_had_begun() {
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
        // Added and begun before the phase, ended in it.
        recorder.taken(90, 150);
        recorder.worked(90, 1_000, true);
        recorder.taken(50, 150);
        recorder.worked(150, 3, false);
        // What a slow one still brings goes to its phase.
        recorder.taken(60, 155);
        recorder.hand_over();
        let recorded = rest.lock().unwrap();
        let counts =
            |durations: &ByPhase| [0, 1].map(|phase| durations.of(phase).map(Histogram::len));
        assert_eq!(counts(&recorded.queued), [Some(3), Some(1)]);
        assert_eq!(counts(&recorded.worked), [Some(2), Some(1)]);
        assert_eq!(recorded.idle_syncs, [2, 0]);
        assert_eq!(recorded.worked.merged(|phase| phase != 0).max(), 3);
        assert_eq!(recorded.worked.merged(|_| true).len(), 3);
        assert!(recorded.worked.merged(|_| false).is_empty());
    }
}
