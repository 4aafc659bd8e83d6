//! The view's record of a run: a limited number of samples of the whole run, and all recent ones
//! for rates and the remaining time. Times are in seconds of real time since the start.

use std::collections::VecDeque;

use crate::run::Progress;

/// The maximum number of samples: more than the columns of a wide terminal.
const SAMPLES_MAX: usize = 512;

/// The period over which a rate is computed, in seconds.
const RATE_SECONDS: f64 = 2.0;

/// The period for estimating the remaining time, in seconds: long enough to avoid jumps.
const PACE_SECONDS: f64 = 10.0;

/// The state of the run at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) at: f64,
    pub(super) pods: u64,
    pub(super) ready: u64,
    pub(super) desired: u64,
    /// The number of waiting keys: the maximum since the previous sample.
    pub(super) queue: u64,
    /// The number of pods created and removed since the start.
    pub(super) changes: u64,
    /// The number of API calls since the start.
    pub(super) calls: u64,
}

/// The progress of a phase at one moment.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: f64,
    phase: usize,
    done: u64,
    changes: u64,
    calls: u64,
}

/// The current phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) done: u64,
    /// The number of pods of the phase's target; 0 while it is unknown.
    pub(super) total: u64,
    pub(super) began_at: f64,
}

/// The record of the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The samples in order of time; the last one is the present.
    pub(super) samples: Vec<Sample>,
    /// The minimum time between two samples, in seconds. The last sample may be closer.
    every: f64,
    recent: VecDeque<Point>,
    /// The current phase; `None` before the first progress.
    pub(super) phase: Option<Phase>,
    /// The earlier phases, each with the seconds that it took.
    pub(super) passed: Vec<(String, f64)>,
    pub(super) engine_seconds: f64,
}

impl History {
    /// Records the progress at a time. O(1), except when the samples are thinned out.
    pub(super) fn push(&mut self, at: f64, progress: &Progress<'_>) {
        self.follow_phase(at, progress);
        self.engine_seconds = progress.engine_seconds;
        let changes = progress.created + progress.deleted;
        self.recent.push_back(Point {
            at,
            phase: progress.phase_index,
            done: progress.done,
            changes,
            calls: progress.api_calls,
        });
        // Keep one point that is older than needed, so that slow runs have something to compare
        // with.
        while self.recent.len() > 2 && self.recent[1].at < at - PACE_SECONDS {
            self.recent.pop_front();
        }
        self.add(Sample {
            at,
            pods: progress.pods,
            ready: progress.ready,
            desired: progress.desired,
            queue: progress.queue_depth as u64,
            changes,
            calls: progress.api_calls,
        });
    }

    fn follow_phase(&mut self, at: f64, progress: &Progress<'_>) {
        let began_at = match self.phase.take() {
            Some(phase) if phase.index == progress.phase_index => phase.began_at,
            Some(phase) => {
                self.passed.push((phase.name, at - phase.began_at));
                at
            }
            None => at,
        };
        self.phase = Some(Phase {
            name: progress.phase.to_owned(),
            index: progress.phase_index,
            count: progress.phase_count,
            done: progress.done,
            total: progress.total,
            began_at,
        });
    }

    fn add(&mut self, mut sample: Sample) {
        if let [.., before, last] = self.samples.as_mut_slice()
            && last.at - before.at < self.every
        {
            sample.queue = sample.queue.max(last.queue);
            *last = sample;
        } else {
            self.samples.push(sample);
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.thin_out();
        }
    }

    /// Merges every two samples, except the first, into the later one, which keeps the peak of the
    /// queue.
    fn thin_out(&mut self) {
        let (first, last) = (self.samples[0], self.samples[self.samples.len() - 1]);
        self.every = 2.0 * (last.at - first.at) / (self.samples.len() - 1) as f64;
        let pairs = self.samples[1..].chunks(2).map(|pair| Sample {
            queue: pair.iter().map(|sample| sample.queue).max().unwrap_or(0),
            ..pair[pair.len() - 1]
        });
        self.samples = std::iter::once(first).chain(pairs).collect();
    }

    /// Returns the samples from a time on; their times are relative to this time.
    pub(super) fn samples_since(&self, at: f64) -> Vec<Sample> {
        let first = self.samples.partition_point(|sample| sample.at < at);
        let since = |sample: &Sample| Sample {
            at: sample.at - at,
            ..*sample
        };
        self.samples[first..].iter().map(since).collect()
    }

    /// Returns the newest sample.
    pub(super) fn last(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }

    /// Returns the pods created and removed per second of real time, over about the last two
    /// seconds; `None` without earlier progress.
    pub(super) fn rate(&self) -> Option<f64> {
        self.per_second(RATE_SECONDS, |_| true, |step| step.changes)
    }

    /// Returns the API calls per second of real time, over about the last two seconds; `None`
    /// without earlier progress.
    pub(super) fn calls_rate(&self) -> Option<f64> {
        self.per_second(RATE_SECONDS, |_| true, |step| step.calls)
    }

    /// Estimates the seconds of real time until the phase is done; `None` if nothing can be
    /// estimated.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        let phase = self.phase.as_ref()?;
        let of_phase = |step: &Point| step.phase == phase.index;
        let pace = self.per_second(PACE_SECONDS, of_phase, |step| step.done)?;
        let left = phase.total.checked_sub(phase.done)?;
        // If no pods are left, the phase waits for something else.
        (pace > 0.0 && left > 0).then(|| left as f64 / pace)
    }

    /// Returns the growth of a number per second since the first point within the last `seconds`.
    fn per_second(
        &self,
        seconds: f64,
        counts: impl Fn(&Point) -> bool,
        figure: impl Fn(&Point) -> u64,
    ) -> Option<f64> {
        let last = self.recent.back()?;
        let before = self.recent.len() - 1;
        let recent = || self.recent.iter().take(before).filter(|step| counts(step));
        let within = recent().find(|step| step.at >= last.at - seconds);
        // If progress is reported more rarely than that, use the previous point.
        let first = within.or_else(|| recent().last())?;
        let passed = last.at - first.at;
        let grown = figure(last).saturating_sub(figure(first)) as f64;
        (passed > 0.0).then(|| grown / passed)
    }
}
