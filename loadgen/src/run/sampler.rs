//! Samples the time series of a run from counters that the tasks maintain anyway.
//!
//! A sample is taken when the run crosses a line of one of two grids: of engine time and of work
//! done. When a grid has too many samples, the distance of its lines doubles, and of the samples
//! between two of the new lines only the first is kept. The number of samples is therefore bounded,
//! however long the run is, but samples stay dense where much happens in little time. In addition,
//! a sample is taken when the scenario's driver reports that a phase begins. It is never dropped,
//! so phases have their exact length here. Each phase also has a small grid of its own work, so
//! that even after hours of churn the ramp before it has samples. Sampling has no effect on a
//! virtual run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_apiserver::Cluster;
use podstorm_sim::engine::Runners;
use podstorm_sim::engine::client::CallTotal;

use super::phases::Position;
use crate::result::Series;

/// The maximum number of samples for one grid: a power of two, so that halving the number keeps the
/// lines even.
const PER_GRID: usize = 256;

/// The maximum number of samples for a phase's own grid: a power of two.
const PER_PHASE: usize = 16;

/// How many phases, from the first on, have their own grid.
const GRIDS_OF_PHASES: usize = 16;

/// The maximum number of samples taken when phases begin.
const OF_PHASES: usize = 128;

/// The initial distance of the lines in the grid of time, ns.
const FIRST_TIME_NS: u64 = 500_000;

/// The initial distance of the lines in the grid of work, in runs of tasks.
const FIRST_STEPS: u64 = 2;

/// The sources of the sampled values.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) cluster: Arc<Cluster>,
    pub(super) runners: Runners,
    pub(super) position: Arc<Position>,
    pub(super) calls: Vec<Arc<CallTotal>>,
}

/// The state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    at_ns: i64,
    phase: usize,
    desired: u64,
    existing: u64,
    created: u64,
    deleted: u64,
    ready: u64,
    queued: u64,
    delayed: u64,
    calls: u64,
    version: u64,
    /// The sample's position on the grid of time, on that of work, and on that of its phase's work.
    /// The next field says for which of the grids the sample is kept.
    places: [u64; 3],
    of: [bool; 3],
    /// How many phases after the first had begun.
    begun: usize,
    /// Whether the sample was taken because a phase began.
    begins: bool,
}

/// A grid with lines at every multiple of a distance.
#[derive(Debug)]
struct Grid {
    every: u64,
    /// The next line to be crossed.
    next: u64,
    samples: usize,
    /// The number of samples at which the distance doubles.
    full: usize,
}

impl Grid {
    fn new(every: u64, full: usize) -> Grid {
        Grid {
            every,
            next: every,
            samples: 0,
            full,
        }
    }

    /// Reports whether a line lies between the last sample and `at`. If so, advances to the next
    /// line.
    fn crosses(&mut self, at: u64) -> bool {
        let crossed = at >= self.next;
        if crossed {
            self.next = (at / self.every + 1).saturating_mul(self.every);
            self.samples += 1;
        }
        crossed
    }
}

/// Takes and holds the samples of a run.
#[derive(Debug)]
pub(super) struct Sampler {
    sources: Sources,
    samples: Vec<Sample>,
    /// The grids of time, of work, and of the work in the current phase.
    grids: [Grid; 3],
    /// The work done when the current phase was first checked; `None` before the first check.
    phase_from: Option<u64>,
    /// How many samples were taken because a phase began.
    begun: usize,
}

impl Sampler {
    /// Creates a sampler, with a first sample at the start.
    pub(super) fn new(sources: Sources) -> Sampler {
        let mut sampler = Sampler {
            sources,
            samples: Vec::with_capacity(2 * PER_GRID + 2),
            grids: [
                Grid::new(FIRST_TIME_NS, PER_GRID),
                Grid::new(FIRST_STEPS, PER_GRID),
                Grid::new(FIRST_STEPS, PER_PHASE),
            ],
            phase_from: Some(0),
            begun: 0,
        };
        sampler.take(0, [0; 3], [true, true, false], false);
        sampler
    }

    /// Returns the time from which on the current state must be recorded before it changes, ns.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        self.grids[0].next
    }

    /// Returns the amount of work after which a sample is due.
    #[inline]
    pub(super) fn due_steps(&self) -> u64 {
        let from = self.phase_from.unwrap_or(0);
        let of_phase = from.saturating_add(self.grids[2].next);
        self.grids[1].next.min(of_phase)
    }

    /// Takes a sample if one is due: at `at_ns`, after `steps` of work, of the state that lasts
    /// until `until_ns`.
    pub(super) fn look(&mut self, at_ns: i64, until_ns: i64, steps: u64) {
        let until_ns = u64::try_from(until_ns).unwrap_or(0);
        let from = *self.phase_from.get_or_insert(steps);
        let of_phase = steps.saturating_sub(from);
        let of = [
            self.grids[0].crosses(until_ns),
            self.grids[1].crosses(steps),
            self.grids[2].crosses(of_phase),
        ];
        if of != [false; 3] {
            self.take(at_ns, [until_ns, steps, of_phase], of, false);
            self.thin_out();
        }
    }

    /// Records the beginning of a phase.
    pub(super) fn phase_begins(&mut self, at_ns: i64) {
        self.begun += 1;
        self.phase_from = None;
        self.grids[2] = Grid::new(FIRST_STEPS, PER_PHASE);
        if self.begun >= GRIDS_OF_PHASES {
            self.grids[2].next = u64::MAX;
        }
        if self.begun <= OF_PHASES {
            self.take(at_ns, [0; 3], [false; 3], true);
        }
    }

    /// Takes a last sample and returns the time series.
    pub(super) fn finish(&mut self, now_ns: i64, phases: usize) -> Series {
        self.take(now_ns, [u64::MAX; 3], [true; 3], false);
        let mut series = Series::default();
        for sample in &self.samples {
            series.seconds.push(sample.at_ns as f64 / 1e9);
            // What happens after the last phase counts for it.
            let phase = sample.phase.min(phases.saturating_sub(1));
            series.phase.push(phase);
            series.pods_desired.push(sample.desired);
            series.pods_existing.push(sample.existing);
            series.pods_ready.push(sample.ready);
            series.pods_created.push(sample.created);
            series.pods_deleted.push(sample.deleted);
            series.queue_depth.push(sample.queued);
            series.queue_delayed.push(sample.delayed);
            series.api_calls.push(sample.calls);
            series.resource_version.push(sample.version);
        }
        series
    }

    #[inline(never)]
    fn take(&mut self, at_ns: i64, places: [u64; 3], of: [bool; 3], begins: bool) {
        // With several threads, a thread that read the clock earlier may get here later.
        let at_ns = self
            .samples
            .last()
            .map_or(at_ns, |last| at_ns.max(last.at_ns));
        let Sources {
            cluster,
            runners,
            position,
            calls,
        } = &self.sources;
        let pods = cluster.pod_totals();
        let queues = || runners.iter().flat_map(|runner| runner.queues());
        // Relaxed, here and below: no other data depends on the numbers.
        self.samples.push(Sample {
            at_ns,
            phase: position.phase.load(Ordering::Relaxed),
            desired: position.desired.load(Ordering::Relaxed),
            existing: pods.existing,
            created: pods.created,
            deleted: pods.deleted,
            ready: position.ready.load(Ordering::Relaxed),
            queued: queues().map(|queue| queue.len() as u64).sum(),
            delayed: queues().map(|queue| queue.delayed() as u64).sum(),
            calls: calls.iter().map(|total| total.value()).sum(),
            version: cluster.resource_version(),
            places,
            begun: self.begun,
            of,
            begins,
        });
    }

    /// Doubles the distances of full grids until none is full, and drops samples that no grid
    /// needs.
    fn thin_out(&mut self) {
        if self.grids.iter().all(|grid| grid.samples < grid.full) {
            return;
        }
        for (index, grid) in self.grids.iter_mut().enumerate() {
            // The grid of a phase considers only the samples of that phase.
            let begun = (index == 2).then_some(self.begun);
            let counts = |sample: &&mut Sample| {
                sample.of[index] && begun.is_none_or(|begun| sample.begun == begun)
            };
            while grid.samples >= grid.full {
                grid.every *= 2;
                grid.next = grid.next.next_multiple_of(grid.every);
                grid.samples = 0;
                let mut last = None;
                for sample in self.samples.iter_mut().filter(counts) {
                    let interval = Some(sample.places[index] / grid.every);
                    sample.of[index] = interval != last;
                    grid.samples += usize::from(sample.of[index]);
                    last = interval;
                }
            }
        }
        self.samples
            .retain(|sample| sample.begins || sample.of != [false; 3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_apiserver::ClusterOptions;

    fn sampler() -> Sampler {
        Sampler::new(Sources {
            cluster: Arc::new(Cluster::new(ClusterOptions::default())),
            runners: Runners::new(),
            position: Arc::default(),
            calls: Vec::new(),
        })
    }

    #[test]
    fn long_runs_have_bounded_and_evenly_spaced_samples() {
        for (count, every_ns) in [(100, 1_000_000), (100_000, 1_000_000), (3_000_000, 40_000)] {
            let mut sampler = sampler();
            for step in 1..=count {
                sampler.look((step - 1) * every_ns, step * every_ns, step as u64);
            }
            let series = sampler.finish(count * every_ns, 1);
            let samples = series.len();
            assert!(samples <= 2 * PER_GRID + PER_PHASE + 2, "{samples}");
            assert!(samples >= 100.min(PER_GRID / 2), "{samples}");
            assert!(series.seconds.is_sorted());
            let last = *series.seconds.last().expect("the series has an end");
            let apart = series.seconds.windows(2).map(|two| two[1] - two[0]);
            let widest = apart.fold(0.0, f64::max);
            assert!(widest <= last / 50.0, "{count}: {widest} of {last}");
        }
    }

    #[test]
    fn a_short_ramp_before_a_long_phase_keeps_its_samples() {
        let mut sampler = sampler();
        let (mut at_ns, mut work) = (0, 0);
        // Half of the work is done within 42 ms, the other half takes ten minutes.
        for _ in 0..42 {
            at_ns += 1_000_000;
            work += 12_000;
            sampler.look(at_ns, at_ns, work);
        }
        at_ns += 300_000;
        sampler.phase_begins(at_ns);
        let began = at_ns as f64 / 1e9;
        for _ in 0..60_000 {
            at_ns += 10_000_000;
            work += 8;
            sampler.look(at_ns, at_ns, work);
        }
        let series = sampler.finish(at_ns, 2);
        assert!(series.len() <= 2 * PER_GRID + 2, "{}", series.len());
        let first = series.seconds.get(..60);
        assert!(series.seconds.contains(&began), "{first:?}");
        let ramp = series.seconds.iter().filter(|at| **at < began).count();
        assert!(ramp >= 20, "{ramp}");
        assert!(series.seconds.is_sorted());
    }

    #[test]
    fn hours_of_work_take_no_samples_from_the_ramp_before() {
        let mut sampler = sampler();
        for step in 1..=200_u64 {
            sampler.look(step as i64 * 10_000, step as i64 * 10_000, step);
        }
        sampler.phase_begins(2_000_000);
        for step in 201..=3_000_000_u64 {
            let at_ns = (step - 200) as i64 * 3_000_000;
            sampler.look(at_ns, at_ns, step);
        }
        let series = sampler.finish(9_000_000_000_000, 2);
        let ramp = series.seconds.iter().filter(|at| **at < 0.002).count();
        assert!((PER_PHASE / 2..=PER_PHASE + 1).contains(&ramp), "{ramp}");
        let begins = series.seconds.iter().position(|at| *at == 0.002);
        assert_eq!(
            begins,
            Some(ramp),
            "the beginning of the next phase has a sample"
        );
    }

    #[test]
    fn thousands_of_phases_have_a_bounded_number_of_samples() {
        let mut sampler = sampler();
        for phase in 0..10_000 {
            sampler.phase_begins(phase * 1_000);
        }
        assert!(sampler.finish(10_000_000, 10_000).len() <= OF_PHASES + 2);
    }

    #[test]
    fn work_without_time_and_time_without_work_are_sampled() {
        let mut sampler = sampler();
        for step in 1..=10_000 {
            sampler.look(0, 0, step);
        }
        for second in 1..=10_000 {
            let at_ns = second * 1_000_000_000;
            sampler.look(at_ns - 1_000_000_000, at_ns, 10_000);
        }
        let series = sampler.finish(10_000_000_000_000, 1);
        let early = series.seconds.iter().filter(|at| **at == 0.0).count();
        assert!(early >= PER_GRID / 2, "{early}");
        assert!(series.len() - early >= PER_GRID / 2, "{}", series.len());
    }
}
