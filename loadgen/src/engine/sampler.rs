//! Takes the samples of a run's time series: figures that the parts keep anyway, read now and then.
//!
//! A sample is taken when the run crosses a line of one of two grids, of engine time and of work
//! done. A grid that has seen too many lines becomes twice as wide and every second of its samples
//! is forgotten, so that their number stays within bounds however long the run is. Reading changes
//! nothing: a virtual run is the same with and without.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client::CallTotal;
use super::pool::Pool;
use crate::cluster::Cluster;
use crate::result::Series;
use crate::scenario::Position;

/// Most samples of one grid; a power of two, so that halving keeps the lines even.
const PER_GRID: usize = 256;

/// The narrowest grid of time, ns.
const FIRST_TIME_NS: u64 = 500_000;

/// The narrowest grid of work, runs of parts.
const FIRST_STEPS: u64 = 2;

/// What the samples are read from.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) cluster: Arc<Cluster>,
    pub(super) pools: Vec<Arc<Pool>>,
    pub(super) position: Arc<Position>,
    pub(super) calls: Vec<Arc<CallTotal>>,
}

/// One moment.
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
    /// Whether it was taken for the grid of time, and for that of work.
    of: [bool; 2],
}

/// Lines at every multiple of a distance.
#[derive(Debug)]
struct Grid {
    every: u64,
    /// The line that was not crossed yet.
    next: u64,
    samples: usize,
}

impl Grid {
    fn new(every: u64) -> Grid {
        Grid {
            every,
            next: every,
            samples: 0,
        }
    }

    /// Whether a line lies between the last sample and `at`; then the next is looked for.
    fn crosses(&mut self, at: u64) -> bool {
        let crossed = at >= self.next;
        if crossed {
            self.next = (at / self.every + 1).saturating_mul(self.every);
            self.samples += 1;
        }
        crossed
    }
}

/// The samples so far.
#[derive(Debug)]
pub(super) struct Sampler {
    figures: Figures,
    samples: Vec<Sample>,
    /// Of time and of work.
    grids: [Grid; 2],
}

impl Sampler {
    /// Begins with a sample of the start.
    pub(super) fn new(figures: Figures) -> Sampler {
        let mut sampler = Sampler {
            figures,
            samples: Vec::with_capacity(2 * PER_GRID + 2),
            grids: [Grid::new(FIRST_TIME_NS), Grid::new(FIRST_STEPS)],
        };
        sampler.take(0, [true, true]);
        sampler
    }

    /// The moment from which the present state is to be written down before it changes, ns.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        self.grids[0].next
    }

    /// The amount of work after which a sample is due.
    #[inline]
    pub(super) fn due_steps(&self) -> u64 {
        self.grids[1].next
    }

    /// Takes a sample if one is due: at `at_ns`, after so many `steps` of work, the state being what
    /// it is until `until_ns`.
    pub(super) fn look(&mut self, at_ns: i64, until_ns: i64, steps: u64) {
        let until_ns = u64::try_from(until_ns).unwrap_or(0);
        let of = [
            self.grids[0].crosses(until_ns),
            self.grids[1].crosses(steps),
        ];
        if of != [false, false] {
            self.take(at_ns, of);
            self.thin_out();
        }
    }

    /// Ends with a sample of the end.
    pub(super) fn finish(mut self, now_ns: i64, phases: usize) -> Series {
        self.take(now_ns, [true, true]);
        let mut series = Series::default();
        for sample in &self.samples {
            series.seconds.push(sample.at_ns as f64 / 1e9);
            // After the last phase nothing happens that would be of another.
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
    fn take(&mut self, at_ns: i64, of: [bool; 2]) {
        let Figures {
            cluster,
            pools,
            position,
            calls,
        } = &self.figures;
        let pods = cluster.pod_totals();
        let queues = || pools.iter().map(|pool| pool.controller.queue());
        // Relaxed, all: figures to look at, which order nothing.
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
            of,
        });
    }

    /// Makes a full grid twice as wide, and forgets what neither wants any more.
    fn thin_out(&mut self) {
        if self.grids.iter().all(|grid| grid.samples < PER_GRID) {
            return;
        }
        for (index, grid) in self.grids.iter_mut().enumerate() {
            if grid.samples < PER_GRID {
                continue;
            }
            grid.every *= 2;
            grid.next = grid.next.next_multiple_of(grid.every);
            grid.samples = 0;
            let mut keep = true;
            for sample in self.samples.iter_mut().filter(|sample| sample.of[index]) {
                sample.of[index] = keep;
                grid.samples += usize::from(keep);
                keep = !keep;
            }
        }
        self.samples.retain(|sample| sample.of != [false, false]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterOptions;

    fn sampler() -> Sampler {
        Sampler::new(Figures {
            cluster: Arc::new(Cluster::new(ClusterOptions::default())),
            pools: Vec::new(),
            position: Arc::default(),
            calls: Vec::new(),
        })
    }

    #[test]
    fn a_long_run_has_no_more_samples_than_a_short_one_and_they_lie_evenly() {
        for (count, every_ns) in [(100, 1_000_000), (100_000, 1_000_000), (3_000_000, 40_000)] {
            let mut sampler = sampler();
            for step in 1..=count {
                sampler.look((step - 1) * every_ns, step * every_ns, step as u64);
            }
            let series = sampler.finish(count * every_ns, 1);
            assert!(series.len() <= 2 * PER_GRID + 2, "{}", series.len());
            assert!(series.len() >= 100.min(PER_GRID / 2), "{}", series.len());
            assert!(series.seconds.is_sorted());
            let last = *series.seconds.last().expect("there is an end");
            let widest = series
                .seconds
                .windows(2)
                .map(|two| two[1] - two[0])
                .fold(0.0, f64::max);
            assert!(widest <= last / 50.0, "{count}: {widest} of {last}");
        }
    }

    #[test]
    fn work_without_time_and_time_without_work_are_both_seen() {
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
