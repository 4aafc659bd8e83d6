//! The metrics of a queue, summed over its keys.

use podstorm_objects::Str;

use super::slot::{BUCKETS, Buckets, KeyState, Overflow, Slot};
use crate::limits::QUEUE_DURATION_BOUNDS_NS;
use crate::metrics::{Family, HistogramSnapshot, Kind, Value};
use crate::primitives::{AtomicU64, Ordering, fence};

/// The metrics of a queue at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// The number of waiting keys, including those that were added again while a worker has them.
    pub depth: u64,
    /// The number of adds that had an effect.
    pub adds_total: u64,
    /// The times in seconds from an effective add until the key is taken.
    pub queue_duration: HistogramSnapshot,
    /// The times in seconds from the take until the key is done.
    pub work_duration: HistogramSnapshot,
    /// The sum of the ages of all work in progress, in seconds.
    pub unfinished_work_seconds: f64,
    /// The age of the oldest work in progress, in seconds.
    pub longest_running_processor_seconds: f64,
    /// The number of accepted delayed adds, including rate-limited ones and those with a delay of
    /// 0.
    pub retries_total: u64,
}

impl Default for QueueStats {
    fn default() -> Self {
        let empty = || HistogramSnapshot {
            bounds: QUEUE_DURATION_BOUNDS_NS
                .iter()
                .map(|&ns| seconds(ns))
                .collect(),
            counts: vec![0; QUEUE_DURATION_BOUNDS_NS.len() + 1],
            sum: 0.0,
        };
        QueueStats {
            depth: 0,
            adds_total: 0,
            queue_duration: empty(),
            work_duration: empty(),
            unfinished_work_seconds: 0.0,
            longest_running_processor_seconds: 0.0,
            retries_total: 0,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The highest values returned so far, for counters whose parts are read one after the other. A
/// count that is being moved from one part to the other is missing for a moment, but a counter must
/// not go back.
#[derive(Debug, Default)]
pub(super) struct Reported {
    adds: AtomicU64,
    queued: [AtomicU64; BUCKETS],
    worked: [AtomicU64; BUCKETS],
}

impl QueueStats {
    /// Creates statistics that start with the overflow of all keys.
    pub(super) fn from_overflow(overflow: &Overflow) -> QueueStats {
        let mut stats = QueueStats::default();
        let both = [
            (&mut stats.queue_duration, &overflow.queued),
            (&mut stats.work_duration, &overflow.worked),
        ];
        for (histogram, overflow) in both {
            for (total, count) in histogram.counts.iter_mut().zip(overflow) {
                // Acquire: the buckets are read after the overflow into which they were emptied.
                *total = count.load(Ordering::Acquire);
            }
        }
        stats
    }

    /// Adds the data of one key.
    pub(super) fn count(&mut self, slot: &Slot, now_ns: i64) {
        gather(&mut self.queue_duration, &slot.queued_ns, &slot.queued);
        gather(&mut self.work_duration, &slot.worked_ns, &slot.worked);
        // Acquire: the word is read after the counts. A key that is taken in the meantime is
        // missing for now, but is not counted as both waiting and taken.
        fence(Ordering::Acquire);
        let state = slot.word().state();
        self.depth += u64::from(matches!(state, KeyState::Queued | KeyState::Dirty));
        if matches!(state, KeyState::Running | KeyState::Dirty) {
            // Relaxed: a statistic.
            let age_ns = now_ns.saturating_sub(slot.started_ns.load(Ordering::Relaxed));
            let age = seconds(u64::try_from(age_ns).unwrap_or(0));
            self.unfinished_work_seconds += age;
            self.longest_running_processor_seconds =
                self.longest_running_processor_seconds.max(age);
        }
    }

    /// Completes the sums. Must be called after all keys are counted.
    pub(super) fn conclude(&mut self, reported: &Reported) {
        // Each key of an effective add either still waits, or was taken and its waiting time
        // counted.
        self.adds_total = self.depth + self.queue_duration.counts.iter().sum::<u64>();
        // Relaxed: a statistic.
        let keep = |now: &mut u64, most: &AtomicU64| {
            *now = most.fetch_max(*now, Ordering::Relaxed).max(*now);
        };
        keep(&mut self.adds_total, &reported.adds);
        let queued = self.queue_duration.counts.iter_mut().zip(&reported.queued);
        let worked = self.work_duration.counts.iter_mut().zip(&reported.worked);
        for (now, most) in queued.chain(worked) {
            keep(now, most);
        }
    }

    /// Returns all metrics under their upstream names, labelled with the queue's name.
    pub fn families(&self, name: &Str) -> Vec<Family> {
        let family = |metric, help, kind, value| {
            Family::single(metric, help, kind, vec![("name", name.clone())], value)
        };
        let number = |metric, help, kind, value| family(metric, help, kind, Value::Number(value));
        let histogram = |metric, help, value: &HistogramSnapshot| {
            family(
                metric,
                help,
                Kind::Histogram,
                Value::Histogram(value.clone()),
            )
        };
        vec![
            number(
                "workqueue_depth",
                "Waiting keys.",
                Kind::Gauge,
                self.depth as f64,
            ),
            number(
                "workqueue_adds_total",
                "Adds that had an effect.",
                Kind::Counter,
                self.adds_total as f64,
            ),
            histogram(
                "workqueue_queue_duration_seconds",
                "Seconds from an add until the key is taken.",
                &self.queue_duration,
            ),
            histogram(
                "workqueue_work_duration_seconds",
                "Seconds from the take until the key is done.",
                &self.work_duration,
            ),
            number(
                "workqueue_unfinished_work_seconds",
                "Sum of the ages of work in progress.",
                Kind::Gauge,
                self.unfinished_work_seconds,
            ),
            number(
                "workqueue_longest_running_processor_seconds",
                "Age of the oldest work in progress.",
                Kind::Gauge,
                self.longest_running_processor_seconds,
            ),
            number(
                "workqueue_retries_total",
                "Delayed adds.",
                Kind::Counter,
                self.retries_total as f64,
            ),
        ]
    }
}

fn gather(total: &mut HistogramSnapshot, sum_ns: &AtomicU64, buckets: &Buckets) {
    // Relaxed, both: statistics.
    total.sum += seconds(sum_ns.load(Ordering::Relaxed));
    for (total, count) in total.counts.iter_mut().zip(buckets) {
        *total += u64::from(count.load(Ordering::Relaxed));
    }
}
