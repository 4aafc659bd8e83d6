//! Throughput of the shared parts at 1 to N threads, and the effect of threads on each other.
//!
//! Each subject has its own threads, which start every round together and do the same amount of
//! work. Its plain rival is measured alongside. With the feature `contention`, the locks and atomic
//! operations of each event are counted, too. Counting slows the code down, so throughput is
//! measured without the feature.

pub mod paired;
pub mod report;
pub mod subjects;

use std::sync::atomic::{AtomicUsize, Ordering};

use podstorm_sim::clock::RealClock;
use serde::{Deserialize, Serialize};

/// The work of one thread of a run: processes the given number of events.
pub type Worker = Box<dyn FnMut(u32) + Send>;

/// A subject of the scaling measurement.
pub struct Subject {
    /// The part under test: `expectations`, `workqueue`, `handlers`.
    pub name: &'static str,
    /// The keys of the threads: `distinct` or `shared`.
    pub keys: &'static str,
    /// The description of the work that one event takes.
    pub event: &'static str,
    /// Transfers of the most contended cache line per event: exchanges and fresh reads. The number
    /// follows from the design and feeds the model.
    pub transfers: f64,
    /// The number of events that each thread processes in a round: less than a millisecond of work,
    /// and so less than a time slice.
    pub events: u32,
    /// Creates the workers of a run with this number of threads.
    pub ours: fn(usize) -> Vec<Worker>,
    /// Creates the workers of the plain rival.
    pub plain: fn(usize) -> Vec<Worker>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {} keys", self.name, self.keys)
    }
}

/// The counts of a run, per event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerEvent {
    /// Locks taken.
    pub locks: f64,
    /// Locks that were held by another thread.
    pub locks_contended: f64,
    /// Atomic read-modify-write operations.
    pub exchanges: f64,
    /// Exchanges that failed because another thread was faster.
    pub exchanges_failed: f64,
}

impl PerEvent {
    fn from_counts(counts: [u64; 4], events: f64) -> PerEvent {
        let [locks, locks_contended, exchanges, exchanges_failed] =
            counts.map(|count| count as f64 / events);
        PerEvent {
            locks,
            locks_contended,
            exchanges,
            exchanges_failed,
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Events per second, all threads together. `None` if there was no round in which the threads
    /// ran concurrently.
    pub events_per_second: Option<f64>,
    /// The same for the median round; `events_per_second` is that of one of the fastest rounds.
    pub middle_per_second: Option<f64>,
    /// The counts; zeros without the feature.
    pub per_event: PerEvent,
}

/// Runs each worker on its own thread, in rounds. Before a round, the threads spin until all have
/// arrived, so that each has a core when the round begins. Each thread then processes `events`
/// events. A round lasts from the first start to the last end. `round_ns` selects the round that
/// counts.
///
/// # Panics
/// Panics if a worker panics.
pub fn run(workers: Vec<Worker>, rounds: usize, events: u32) -> Run {
    let count = workers.len();
    let (clock, arrived) = (RealClock::start(), AtomicUsize::new(0));
    let (mut spans, mut counts) = (vec![Span::EMPTY; rounds], [0; 4]);
    std::thread::scope(|scope| {
        let (clock, arrived) = (&clock, &arrived);
        let spawn = |mut worker: Worker| {
            scope.spawn(move || {
                // Warm up: the first events create the state that is created on demand.
                worker(events.min(1_024));
                taken_counts();
                let times: Vec<(i64, i64)> = (1..=rounds)
                    .map(|round| {
                        meet(arrived, round * count);
                        let start_ns = clock.now().mono_ns;
                        worker(events);
                        (start_ns, clock.now().mono_ns)
                    })
                    .collect();
                (times, taken_counts())
            })
        };
        let threads: Vec<_> = workers.into_iter().map(spawn).collect();
        for thread in threads {
            let (times, counted) = thread.join().expect("workers don't panic");
            for (span, (start_ns, end_ns)) in spans.iter_mut().zip(times) {
                span.include(start_ns, end_ns);
            }
            for (count, counted) in counts.iter_mut().zip(counted) {
                *count += counted;
            }
        }
    });
    let events_of_round = f64::from(events) * count as f64;
    let has_cores = count <= std::thread::available_parallelism().map_or(1, usize::from);
    let per_second = |length_ns| events_of_round * 1e9 / length_ns as f64;
    Run {
        events_per_second: round_ns(&spans, has_cores, 20).map(per_second),
        middle_per_second: round_ns(&spans, has_cores, 2).map(per_second),
        per_event: PerEvent::from_counts(counts, events_of_round * rounds as f64),
    }
}

/// The time span of a round, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Span {
    first_start: i64,
    last_start: i64,
    first_end: i64,
    last_end: i64,
}

impl Span {
    const EMPTY: Span = Span {
        first_start: i64::MAX,
        last_start: i64::MIN,
        first_end: i64::MAX,
        last_end: i64::MIN,
    };

    fn include(&mut self, start: i64, end: i64) {
        self.first_start = self.first_start.min(start);
        self.last_start = self.last_start.max(start);
        self.first_end = self.first_end.min(end);
        self.last_end = self.last_end.max(end);
    }

    fn length(&self) -> i64 {
        self.last_end - self.first_start
    }

    /// Reports whether all threads were working for at least half of the round.
    fn is_concurrent(&self) -> bool {
        2 * (self.first_end - self.last_start) >= self.length()
    }
}

/// Returns the length of a fast round: about one in `one_in` of the counted rounds is faster. One
/// in 20 shows the limits of the design, because other work on the machine slows most rounds down
/// and speeds none up; the fastest round of all may be luck. If each thread can have a core, rounds
/// in which the threads ran one after the other don't count: they show no contention.
fn round_ns(rounds: &[Span], has_cores: bool, one_in: usize) -> Option<i64> {
    let counted = rounds
        .iter()
        .filter(|round| !has_cores || round.is_concurrent());
    let mut lengths: Vec<i64> = counted.map(Span::length).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / one_in).copied()
}

/// Waits until `all` arrivals have been counted since the start of the run. Spins, and yields the
/// core from time to time, because there may be more threads than cores.
fn meet(arrived: &AtomicUsize, all: usize) {
    // AcqRel here pairs with Acquire below: all work of the previous round happens before this one.
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut spins = 0u32;
    while arrived.load(Ordering::Acquire) < all {
        spins += 1;
        if spins.is_multiple_of(512) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Returns this thread's counts since the last call and resets them: locks, contended locks,
/// exchanges, failed exchanges.
#[cfg(feature = "contention")]
fn taken_counts() -> [u64; 4] {
    let counts = podstorm::primitives::contention::take();
    let (locks, exchanges) = (counts.locks, counts.exchanges);
    let (contended, failed) = (counts.locks_contended, counts.exchanges_failed);
    [locks, contended, exchanges, failed]
}

/// Returns zeros, because nothing is counted without the feature.
#[cfg(not(feature = "contention"))]
fn taken_counts() -> [u64; 4] {
    [0; 4]
}

/// Whether locks and exchanges are counted in this build.
pub const COUNTS: bool = cfg!(feature = "contention");

/// Returns the thread counts to measure: 1 to `cores`, and twice as many threads as cores, which
/// would reveal a collapse.
pub fn thread_counts(cores: usize) -> Vec<usize> {
    (1..=cores).chain([2 * cores]).collect()
}

/// Returns the events per second that the model predicts for `threads` threads on as many cores.
///
/// Threads that share nothing do exactly `threads` times the work of one. If they share a cache
/// line, it moves between cores `transfers` times per event, one move at a time.
pub fn modelled(one_thread: f64, threads: usize, transfers: f64, transfer_ns: f64) -> f64 {
    let alone = one_thread * threads as f64;
    if threads == 1 || transfers == 0.0 {
        return alone;
    }
    alone.min(1e9 / (transfers * transfer_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_linear_until_the_shared_line_always_moves() {
        assert_eq!(modelled(1e7, 16, 0.0, 50.0), 1.6e8);
        assert_eq!(modelled(1e7, 1, 2.0, 50.0), 1e7);
        assert_eq!(modelled(1e7, 16, 2.0, 50.0), 1e7);
        assert_eq!(modelled(1e6, 2, 2.0, 50.0), 2e6);
    }

    #[test]
    fn only_rounds_with_concurrent_threads_count() {
        let round = |times: [(i64, i64); 2]| {
            let mut span = Span::EMPTY;
            times
                .iter()
                .for_each(|(start, end)| span.include(*start, *end));
            span
        };
        let together = round([(0, 100), (20, 110)]);
        let in_turn = round([(0, 50), (40, 90)]);
        assert_eq!(round_ns(&[together, in_turn], true, 20), Some(110));
        assert_eq!(round_ns(&[together, in_turn], false, 20), Some(90));
        assert_eq!(round_ns(&[in_turn], true, 20), None);
        // Two of forty are faster.
        let mut many = vec![round([(0, 200), (0, 200)]); 38];
        many.extend([together, round([(0, 150), (0, 150)])]);
        assert_eq!(round_ns(&many, true, 20), Some(200));
        assert_eq!(
            round_ns(&[together, round([(0, 150), (0, 150)])], true, 2),
            Some(150)
        );
    }
}
