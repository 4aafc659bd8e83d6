//! Tests of the whole queue: single claims, a naive model, and racing threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::{End, QueueRow, QueueStats, RateLimitingQueue, RetryDelay, Take, WorkQueue};
use crate::limits::{MILLISECOND_NS, QUEUE_FIRST_CAPACITY, SECOND_NS};

type Queue = RateLimitingQueue<u32>;

fn take_all(queue: &Queue) -> Vec<u32> {
    let next = || match queue.try_take(0) {
        Take::Key(key) => Some(key),
        Take::Empty | Take::ShutDown => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn the_order_survives_growing() {
    let queue = Queue::new();
    let keys: Vec<u32> = (0..40)
        .map(|n| n * QUEUE_FIRST_CAPACITY as u32 / 4)
        .collect();
    for &key in &keys {
        assert!(queue.add(key, 0));
    }
    assert_eq!(queue.len(), keys.len());
    assert_eq!(take_all(&queue), keys);
    let roomy = Queue::with_capacity(5_000);
    (0..5_000).rev().for_each(|key| assert!(roomy.add(key, 0)));
    assert_eq!(take_all(&roomy), (0..5_000).rev().collect::<Vec<_>>());
}

#[test]
fn failures_before_a_bounded_retry_neither_move_it_nor_count() {
    let queue = Queue::new();
    let ms = MILLISECOND_NS;
    let fail = |now_ns| queue.retry_within(3, SECOND_NS, false, now_ns);
    assert_eq!(fail(0), 5 * ms);
    // Events that wake the key in the meantime don't make it wait longer.
    assert_eq!([fail(ms), fail(4 * ms)], [4 * ms, ms]);
    assert_eq!(queue.num_requeues(3), 1);
    assert_eq!(queue.fire_due(5 * ms), 1);
    assert_eq!(take_all(&queue), [3]);
    queue.done(3, 0);
    let delays: Vec<_> = (0..20)
        .scan(5 * ms, |now_ns, _| {
            let delay_ns = fail(*now_ns);
            *now_ns += delay_ns;
            queue.fire_due(*now_ns);
            Some(delay_ns)
        })
        .collect();
    assert_eq!(delays[..3], [10 * ms, 20 * ms, 40 * ms]);
    assert!(delays[8..].iter().all(|&delay| delay == SECOND_NS));
}

#[test]
fn a_later_add_for_another_reason_is_not_a_retry() {
    let queue = Queue::new();
    let fail = |now_ns| queue.retry_within(0, SECOND_NS, true, now_ns);
    queue.add_after(0, 3_600 * SECOND_NS, 0);
    assert_eq!(fail(0), 5 * MILLISECOND_NS);
    assert_eq!(queue.next_due(), Some(5 * MILLISECOND_NS));
    // An earlier add that has fired already serves as this retry, but not as the next one.
    queue.add_after(0, MILLISECOND_NS, 0);
    assert_eq!(queue.fire_due(MILLISECOND_NS), 1);
    assert_eq!(fail(MILLISECOND_NS), 10 * MILLISECOND_NS);
    assert_eq!(queue.next_due(), Some(11 * MILLISECOND_NS));
}

#[test]
fn a_failure_after_a_success_is_a_first_one_despite_a_retry() {
    let queue = Queue::from_row(QueueRow {
        retry_max_ns: Some(SECOND_NS),
        ..QueueRow::new("bounded")
    });
    for now_ns in [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS] {
        queue.fire_due(now_ns);
        queue.retry_within(0, SECOND_NS, true, now_ns);
    }
    queue.forget(0);
    let now_ns = 3 * SECOND_NS + MILLISECOND_NS;
    let delay_ns = queue.retry_within(0, SECOND_NS, true, now_ns);
    assert_eq!(delay_ns, 5 * MILLISECOND_NS);
    assert_eq!(queue.num_requeues(0), 1);
    queue.forget(99);
}

/// Adds the key, takes it, and finishes it with this end. Returns after how many ns it is added
/// again.
fn ends(queue: &Queue, end: End, now_ns: i64) -> Option<i64> {
    queue.fire_due(now_ns);
    queue.add(0, now_ns);
    assert_eq!(queue.try_take(now_ns), Take::Key(0));
    queue.finish(0, end, now_ns);
    assert!(queue.is_idle(0) && queue.is_empty());
    queue.next_due().map(|due_ns| due_ns - now_ns)
}

/// Returns a row with this delay, whose keys are retried twice in a row.
fn twice(delay: RetryDelay) -> QueueRow {
    QueueRow {
        delay,
        retries_max: Some(2),
        ..QueueRow::new("twice")
    }
}

#[test]
fn the_end_of_a_sync_decides_when_its_key_returns() {
    let queue = Queue::new();
    let (s, ms) = (SECOND_NS, MILLISECOND_NS);
    for (number, end, again, failures) in [
        (1, End::Retry, Some(5 * ms), 1),
        (2, End::Postpone, Some(10 * ms), 2),
        (3, End::RetryAfterProgress, Some(20 * ms), 3),
        // `End::Leave` does not change the number of failures.
        (4, End::Leave, None, 3),
        (5, End::Retry, Some(40 * ms), 4),
        (6, End::After(7), Some(7), 0),
        (7, End::Retry, Some(5 * ms), 1),
        (8, End::Forget, None, 0),
    ] {
        assert_eq!(ends(&queue, end, number * s), again, "{number}");
        assert_eq!(queue.num_requeues(0), failures, "{number}");
    }
    // A delayed add that is due is queued before the key is done, so the key comes once more.
    queue.add(0, 9 * s);
    assert_eq!(queue.try_take(9 * s), Take::Key(0));
    queue.finish(0, End::After(0), 9 * s);
    assert_eq!(queue.try_take(9 * s), Take::Key(0));
}

#[test]
fn the_row_sets_the_delays_after_failures() {
    let exponential = RetryDelay::Exponential {
        base_ns: SECOND_NS,
        max_ns: 3 * SECOND_NS,
        bucket: false,
    };
    let fixed = RetryDelay::Fixed(15 * SECOND_NS);
    for (row, delays) in [
        (twice(RetryDelay::CONTROLLER), [Some(5), Some(10), None]),
        (twice(exponential), [Some(1_000), Some(2_000), None]),
        (twice(fixed), [Some(15_000); 3]),
    ] {
        let queue = Queue::from_row(row);
        let after = |number: i64| ends(&queue, End::Retry, number * 60 * SECOND_NS);
        let found = [1, 2, 3].map(after);
        assert_eq!(found, delays.map(|ms| ms.map(|ms| ms * MILLISECOND_NS)));
        // After the last retry, the next failure counts as a first one.
        assert_eq!(after(4), found[0], "{row:?}");
    }
    // Without a bucket, a thousand keys wait no longer than a single key.
    let queue = Queue::from_row(twice(exponential));
    let longest = (0..1_000).map(|key| queue.add_rate_limited(key, 0)).max();
    assert_eq!(longest, Some(SECOND_NS));
    queue.add_rate_limited(0, 0);
    assert_eq!(queue.add_rate_limited(0, 0), 3 * SECOND_NS, "the longest");
}

#[test]
fn bounded_retries_distinguish_progress_and_stale_caches() {
    let queue = Queue::from_row(QueueRow {
        retry_max_ns: Some(30 * SECOND_NS),
        ..QueueRow::new("bounded")
    });
    let after = |number: i64, end| ends(&queue, end, number * 60 * SECOND_NS);
    let delays: Vec<_> = (1..=20).map(|number| after(number, End::Retry)).collect();
    assert_eq!(delays[1], Some(10 * MILLISECOND_NS));
    assert_eq!(delays[19], Some(30 * SECOND_NS));
    assert_eq!(after(21, End::Postpone), Some(5 * SECOND_NS));
    assert_eq!(after(22, End::RetryAfterProgress), delays[0]);
    assert_eq!(queue.num_requeues(0), 1);
    // A hundred keys that wait for caches leave the tokens to other keys.
    let now_ns = 3_600 * SECOND_NS;
    for key in 0..1_000 {
        queue.add(key, now_ns);
    }
    for key in take_all(&queue) {
        queue.finish(key, End::Postpone, now_ns);
    }
    queue.add(1_000, now_ns);
    assert_eq!(take_all(&queue), [1_000]);
    queue.finish(1_000, End::Retry, now_ns);
    assert_eq!(queue.fire_due(now_ns + 20 * MILLISECOND_NS), 1_001);
}

#[test]
fn a_key_counts_more_than_its_buckets_hold() {
    let queue = Queue::new();
    for cycle in 1..=1_000_u64 {
        // One key alternates between two buckets; the other uses one of them.
        for key in [3, 4] {
            queue.add(key, 0);
            let waited_ns = if key == 3 && cycle % 4 == 0 { 50 } else { 5 };
            assert_eq!(queue.try_take(waited_ns), Take::Key(key));
            queue.done(key, waited_ns + 500);
        }
        let stats = queue.stats(0);
        assert_eq!((stats.depth, stats.adds_total), (0, 2 * cycle));
        let expected = [2 * cycle - cycle / 4, cycle / 4];
        assert_eq!(stats.queue_duration.counts[..2], expected, "cycle {cycle}");
        assert_eq!(stats.work_duration.counts[2], 2 * cycle);
        assert_eq!(stats.work_duration.count(), 2 * cycle);
    }
}

#[test]
fn a_take_returns_how_long_the_key_has_waited() {
    let queue = Queue::new();
    queue.add(1, 100);
    queue.add(1, 900);
    assert_eq!(queue.try_take_with_wait(1_234), Take::Key((1, 1_134)));
    queue.add(1, 2_000);
    queue.done(1, 11_000);
    // The time counts from the key's first add while it ran.
    assert_eq!(queue.try_take_with_wait(11_007), Take::Key((1, 9_007)));
    queue.done(1, 11_007);
    queue.add(1, 12_000);
    // The clocks of two threads may differ.
    assert_eq!(queue.try_take_with_wait(11_999), Take::Key((1, 0)));
    assert_eq!(queue.try_take_with_wait(12_000), Take::Empty);
    queue.shut_down();
    assert_eq!(queue.try_take_with_wait(12_000), Take::ShutDown);
    assert_eq!(queue.stats(12_000).queue_duration.count(), 3);
}

#[test]
fn metrics_count_what_upstream_counts() {
    let queue = Queue::new();
    queue.add(1, 0);
    queue.add(1, 0);
    queue.add(2, 0);
    assert_eq!(queue.try_take(1_000), Take::Key(1));
    queue.add(1, 2_000);
    queue.add(1, 2_500);
    let stats = queue.stats(SECOND_NS + 1_000);
    assert_eq!((stats.depth, stats.adds_total), (2, 3));
    assert_eq!(stats.unfinished_work_seconds, 1.0);
    assert_eq!(stats.longest_running_processor_seconds, 1.0);
    queue.done(1, 11_000);
    assert_eq!(queue.try_take(11_000), Take::Key(2));
    assert_eq!(queue.try_take(12_000), Take::Key(1));
    let stats = queue.stats(12_000);
    assert_eq!((stats.depth, stats.adds_total), (0, 3));
    // 1 µs, then 11 µs of key 2, then 10 µs of key 1, counted from its first add while it ran.
    let waited = &stats.queue_duration.counts;
    assert_eq!(*waited, [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    assert!((stats.queue_duration.sum - 22e-6).abs() < 1e-12);
    let worked = &stats.work_duration.counts;
    assert_eq!(*worked, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let families = stats.families(&"replicaset".into());
    assert_eq!(families.len(), 7);
    let mut names = families.iter().map(|family| family.name);
    assert!(names.all(|name| name.starts_with("workqueue_")));
}

/// A naive model: an order, a set of waiting keys, a set of running keys.
#[derive(Default)]
struct Model {
    order: VecDeque<u32>,
    dirty: BTreeSet<u32>,
    running: BTreeSet<u32>,
    delayed: BTreeMap<u32, i64>,
    retries: u64,
    shutting: bool,
    draining: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Add(u32),
    AddAfter(u32, i64),
    Take,
    Done(u32),
    Wait(i64),
    ShutDown { drain: bool },
}

fn op() -> impl Strategy<Value = Op> {
    // Keys that are far apart make the queue grow, but at most four times, because every step sums
    // the metrics of all slots.
    let key = || (0..6u32).prop_map(|n| n * n * 30);
    prop_oneof![
        8 => key().prop_map(Op::Add),
        4 => (key(), -1..50i64).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        8 => Just(Op::Take),
        6 => key().prop_map(Op::Done),
        4 => (0..40i64).prop_map(Op::Wait),
        1 => any::<bool>().prop_map(|drain| Op::ShutDown { drain }),
    ]
}

impl Model {
    fn add(&mut self, key: u32) -> bool {
        if self.shutting || !self.dirty.insert(key) {
            return false;
        }
        if !self.running.contains(&key) {
            self.order.push_back(key);
        }
        true
    }

    fn take(&mut self) -> Take<u32> {
        match self.order.pop_front() {
            Some(key) => {
                self.dirty.remove(&key);
                self.running.insert(key);
                Take::Key(key)
            }
            None if self.shutting => Take::ShutDown,
            None => Take::Empty,
        }
    }

    fn done(&mut self, key: u32) {
        if self.running.remove(&key) && self.dirty.contains(&key) {
            self.order.push_back(key);
        }
    }

    /// Adds the keys that are due. All times differ because all `delays` differ.
    fn fire(&mut self, now: i64) -> usize {
        let mut due: Vec<_> = self
            .delayed
            .iter()
            .filter(|(_, due)| **due <= now)
            .map(|(&k, &d)| (d, k))
            .collect();
        due.sort_unstable();
        for &(_, key) in &due {
            self.delayed.remove(&key);
            self.add(key);
        }
        due.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_queue_agrees_with_plain_sets(ops in prop::collection::vec(op(), 0..120)) {
        let (queue, mut model, mut now) = (Queue::new(), Model::default(), 0i64);
        for (step, op) in ops.iter().enumerate() {
            match op {
                Op::Add(key) => prop_assert_eq!(queue.add(*key, now), model.add(*key)),
                Op::AddAfter(key, delay) => {
                    // The step makes all due times differ.
                    let delay = delay * 1_000 + i64::from(*delay > 0) * step as i64;
                    let first = model.delayed.values().min().copied();
                    let is_first = first.is_none_or(|first| now + delay < first);
                    let tells = delay > 0 && is_first && !model.shutting;
                    prop_assert_eq!(queue.add_after(*key, delay, now), tells);
                    model.retries += u64::from(!model.shutting);
                    if delay <= 0 {
                        model.add(*key);
                    } else if !model.shutting {
                        let due = model.delayed.entry(*key).or_insert(i64::MAX);
                        *due = (*due).min(now + delay);
                    }
                }
                Op::Take => prop_assert_eq!(queue.try_take(now), model.take()),
                Op::Done(key) => {
                    queue.done(*key, now);
                    model.done(*key);
                }
                Op::Wait(time) => {
                    now += time * 1_000;
                    prop_assert_eq!(queue.fire_due(now), model.fire(now));
                }
                Op::ShutDown { drain } => {
                    match drain {
                        true => queue.start_drain(),
                        false => queue.shut_down(),
                    }
                    (model.shutting, model.draining) = (true, *drain);
                    model.delayed.clear();
                }
            }
            prop_assert_eq!(queue.len(), model.order.len());
            let stats = queue.stats(now);
            prop_assert_eq!(stats.depth, model.dirty.len() as u64);
            prop_assert_eq!(stats.retries_total, model.retries);
            prop_assert!(model.shutting || queue.delayed() == model.delayed.len());
            prop_assert_eq!(queue.next_due(), model.delayed.values().min().copied());
            let drained = !model.draining || model.running.is_empty();
            prop_assert_eq!(queue.drain_complete(), model.shutting && drained);
        }
    }
}

/// Threads that add and workers that park race while the queue grows. No key runs twice
/// concurrently, no add is lost, and all threads end.
#[test]
fn racing_threads_lose_no_add_and_run_no_key_twice() {
    const KEYS: u32 = 8_000;
    const ROUNDS: u32 = 6;
    let queue = WorkQueue::<u32>::new();
    let asked: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let served: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let running: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let takes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = queue.stats(0);
            while !queue.shutting_down() {
                let now = queue.stats(0);
                let counts = |stats: &QueueStats| {
                    let histograms = [&stats.queue_duration, &stats.work_duration];
                    let counts = histograms
                        .map(|histogram| histogram.counts.clone())
                        .concat();
                    [vec![stats.adds_total], counts].concat()
                };
                let pairs = counts(&before).into_iter().zip(counts(&now));
                assert!(
                    pairs.clone().all(|(before, now)| before <= now),
                    "a counter went back"
                );
                before = now;
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(key) = queue.take(&|| 0) {
                    let at = key as usize;
                    let before = running[at].swap(1, Ordering::Relaxed);
                    assert_eq!(before, 0, "key {key} runs twice concurrently");
                    // Everything written before the add must be visible now.
                    served[at].store(asked[at].load(Ordering::Relaxed), Ordering::Relaxed);
                    takes.fetch_add(1, Ordering::Relaxed);
                    running[at].store(0, Ordering::Relaxed);
                    queue.done(key, 0);
                }
            });
        }
        let adders: Vec<_> = (0..3u32)
            .map(|adder| {
                let (queue, asked) = (&queue, &asked);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        for n in 0..KEYS {
                            let key = (n * (2 * adder + 1) + round) % KEYS;
                            asked[key as usize].fetch_add(1, Ordering::Relaxed);
                            queue.add(key, 0);
                        }
                    }
                })
            })
            .collect();
        adders
            .into_iter()
            .for_each(|adder| adder.join().expect("no panic"));
        queue.shut_down_with_drain();
    });
    assert_eq!(queue.try_take(0), Take::ShutDown);
    for (key, (asked, served)) in asked.iter().zip(&served).enumerate() {
        let counts = [asked, served].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts[0], counts[1], "an add of key {key} was lost");
    }
    let stats = queue.stats(0);
    assert_eq!(stats.depth, 0);
    assert_eq!(stats.adds_total, takes.load(Ordering::Relaxed) as u64);
    assert_eq!(stats.work_duration.count(), stats.adds_total);
}

/// One key moves back and forth between two threads that park. A lost wake-up would hang the test.
#[test]
fn no_wakeup_is_lost() {
    let (there, back) = (WorkQueue::<u32>::new(), WorkQueue::<u32>::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(key) = there.take(&|| 0) {
                there.done(key, 0);
                back.add(key, 0);
            }
        });
        for _ in 0..5_000 {
            there.add(1, 0);
            let key = back.take(&|| 0).expect("not shut down");
            back.done(key, 0);
        }
        there.shut_down();
    });
}

#[test]
fn a_drain_returns_when_the_last_worker_is_done() {
    let queue = WorkQueue::<u32>::new();
    queue.add(1, 0);
    assert_eq!(queue.try_take(0), Take::Key(1));
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| queue.shut_down_with_drain());
        while !queue.shutting_down() {
            std::thread::yield_now();
        }
        assert!(!drain.is_finished());
        queue.done(1, 0);
        drain.join().expect("no panic");
    });
}
