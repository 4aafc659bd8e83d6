//! The queue's metrics, gathered from what is kept per key.

use super::slot::{Buckets, Slot, State};
use crate::limits::QUEUE_DURATION_BOUNDS_NS;
use crate::metrics::{Family, HistogramSnapshot, Kind, Value};
use crate::object::Str;
use crate::primitives::{AtomicU64, Ordering};

/// What a queue has counted, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// Keys that wait, those that were added while being worked on included.
    pub depth: u64,
    /// Effective adds.
    pub adds_total: u64,
    /// Seconds from an effective add to the taking.
    pub queue_duration: HistogramSnapshot,
    /// Seconds from taking to done.
    pub work_duration: HistogramSnapshot,
    /// Sum of the ages of all work in progress, in seconds.
    pub unfinished_work_seconds: f64,
    /// Age of the oldest work in progress, in seconds.
    pub longest_running_processor_seconds: f64,
    /// Accepted delayed adds, rate-limited ones and those without a delay included.
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

impl QueueStats {
    /// Adds one key's share.
    pub(super) fn count(&mut self, slot: &Slot, now_ns: i64) {
        let state = slot.word().state();
        let waits = u64::from(matches!(state, State::Queued | State::Dirty));
        self.depth += waits;
        // Relaxed, all here: statistics.
        self.adds_total += waits + slot.takes.load(Ordering::Relaxed);
        if matches!(state, State::Running | State::Dirty) {
            let age_ns = now_ns.saturating_sub(slot.started_ns.load(Ordering::Relaxed));
            let age = seconds(u64::try_from(age_ns).unwrap_or(0));
            self.unfinished_work_seconds += age;
            self.longest_running_processor_seconds =
                self.longest_running_processor_seconds.max(age);
        }
        gather(&mut self.queue_duration, &slot.queued_ns, &slot.queued);
        gather(&mut self.work_duration, &slot.worked_ns, &slot.worked);
    }

    /// All metrics under their upstream names, labelled with the queue's name.
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
                "Keys that wait.",
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
                "Seconds from adding to taking.",
                &self.queue_duration,
            ),
            histogram(
                "workqueue_work_duration_seconds",
                "Seconds from taking to done.",
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
