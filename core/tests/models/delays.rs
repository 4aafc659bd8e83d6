//! Delayed adds: the earliest time wins and is reported, no add is lost, and none fires twice.

use podstorm::workqueue::{RateLimitingQueue, Take};

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU32, Ordering};
use crate::checker::thread::{self, JoinHandle};
use crate::{beside, check};

type Queue = RateLimitingQueue<u32>;

/// Takes and finishes all waiting keys. Returns their number.
fn serve(queue: &Queue) -> usize {
    let keys = std::iter::from_fn(|| match queue.try_take(0) {
        Take::Key(key) => Some(key),
        _ => None,
    });
    keys.map(|key| queue.done(key, 0)).count()
}

/// Starts a thread that adds key 0 for the time 10.
fn adds_later(queue: &Arc<Queue>) -> JoinHandle<()> {
    beside(queue, |queue| {
        queue.add_after(0, 10, 0);
    })
}

/// Starts a thread that fires due keys and returns their number.
fn fires(queue: &Arc<Queue>, now_ns: i64) -> JoinHandle<usize> {
    beside(queue, move |queue| queue.fire_due(now_ns))
}

/// Of two delayed adds of a key, the earlier one stays. A thread that fires finds the key of the
/// reported due time.
#[test]
fn the_earlier_of_two_delayed_adds_wins() {
    check(2, || {
        let queue = Arc::new(Queue::new());
        let later = beside(&queue, |queue| queue.add_after(0, 20, 0));
        queue.add_after(0, 10, 0);
        if queue.next_due().is_some_and(|due_ns| due_ns <= 10) {
            assert_eq!(queue.fire_due(10), 1);
            assert_eq!(queue.len(), 1);
        }
        later.join().unwrap();
        // The key fired once or, if the second add came after the firing, twice.
        queue.fire_due(20);
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.len(), 1);
    });
}

/// A delayed add fires once, whichever of two timers finds it due. With a concurrent immediate add
/// the key still waits only once.
#[test]
fn a_delayed_add_fires_once_even_with_another_add() {
    check(2, || {
        let queue = Arc::new(Queue::new());
        let (adder, timer) = (adds_later(&queue), fires(&queue, 10));
        queue.add(0, 0);
        let fired = queue.fire_due(10);
        adder.join().unwrap();
        let fired = fired + timer.join().unwrap() + queue.fire_due(10);
        assert_eq!(fired, 1, "an add was lost or doubled");
        assert_eq!((queue.next_due(), serve(&queue)), (None, 1));
    });
}

/// A key that fires while a worker has it is served again afterwards, and that work sees everything
/// done before the delayed add.
#[test]
fn a_firing_during_work_is_served_and_sees_earlier_writes() {
    check(2, || {
        let (queue, asked) = (Arc::new(Queue::new()), Arc::new(AtomicU32::new(0)));
        queue.add(0, 0);
        let handler = {
            let (queue, asked) = (queue.clone(), asked.clone());
            thread::spawn(move || {
                asked.store(1, Ordering::Relaxed);
                queue.add_after(0, 10, 0);
            })
        };
        let mut seen = 0;
        let mut work = || {
            if let Take::Key(key) = queue.try_take(0) {
                seen = asked.load(Ordering::Relaxed);
                queue.fire_due(10);
                queue.done(key, 0);
            }
        };
        work();
        work();
        handler.join().unwrap();
        queue.fire_due(10);
        if let Take::Key(key) = queue.try_take(0) {
            seen = asked.load(Ordering::Relaxed);
            queue.done(key, 0);
        }
        assert_eq!(seen, 1, "the delayed add was lost");
        assert!(queue.is_empty() && queue.next_due().is_none());
    });
}

/// The earliest remaining time was returned to a thread that sets the timer: by the add, or by a
/// check after the firing.
#[test]
fn the_timer_gets_the_earliest_time() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let add = |key: u32, delay_ns: i64| {
            beside(&queue, move |queue| {
                queue.add_after(key, delay_ns, 0).then_some(delay_ns)
            })
        };
        let adds = [add(0, 10), add(1, 20)];
        queue.fire_due(15);
        let mut told = vec![queue.next_due()];
        told.extend(adds.map(|add| add.join().unwrap()));
        let due_ns = queue.next_due();
        assert!(due_ns.is_some(), "the later of the two is not due yet");
        assert!(told.contains(&due_ns), "{due_ns:?}, reported were {told:?}");
        // Keys that the first firing took are not due any more.
        let left = 2 - usize::from(due_ns == Some(20));
        assert_eq!(queue.fire_due(20), left);
        assert_eq!(serve(&queue), 2);
    });
}

/// One key fires while another is added with a delay. The other stays, and its time is reported.
#[test]
fn a_delayed_add_during_a_firing_is_not_lost() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        queue.add_after(0, 10, 0);
        let adder = beside(&queue, |queue| queue.add_after(1, 20, 0));
        assert_eq!(queue.fire_due(15), 1);
        let seen = queue.next_due();
        let told = adder.join().unwrap();
        assert_eq!(queue.next_due(), Some(20), "the time of the key was lost");
        assert!(told || seen == Some(20), "no thread was notified");
        assert_eq!((queue.fire_due(20), serve(&queue)), (1, 2));
    });
}

/// A thread that checks while one of two keys fires sees that the other is still pending.
#[test]
fn waiting_keys_are_visible_during_a_firing() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        queue.add_after(0, 10, 0);
        queue.add_after(1, 20, 0);
        let timer = fires(&queue, 15);
        assert!(queue.next_due().is_some(), "a key waits");
        assert_eq!(timer.join().unwrap(), 1);
        assert_eq!(queue.next_due(), Some(20));
    });
}

/// A bounded retry concurrent with a timer and an event of the key is neither moved nor lost.
#[test]
fn a_bounded_retry_survives_a_concurrent_timer() {
    check(2, || {
        let queue = Arc::new(Queue::new());
        let first = queue.retry_within(0, 30, true, 0);
        let timer = fires(&queue, first);
        // A wake-up for another reason, which does not count as a retry.
        queue.add_after(0, first + 5, 0);
        let again = queue.retry_within(0, 30, true, 0);
        assert!(again <= 30);
        let fired = timer.join().unwrap();
        assert_eq!(fired, 1, "exactly one key is due");
        let rest = queue.fire_due(i64::MAX);
        assert!(rest <= 1, "the key waits at most once");
        assert_eq!(queue.next_due(), None);
        assert_eq!(serve(&queue), 1);
    });
}

/// Shutting down during a delayed add and a firing leaves nothing to wait for.
#[test]
fn nothing_is_due_after_shutting_down() {
    check(2, || {
        let queue = Arc::new(Queue::new());
        let (adder, timer) = (adds_later(&queue), fires(&queue, 10));
        queue.shut_down();
        adder.join().unwrap();
        let fired = timer.join().unwrap();
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.fire_due(10), 0);
        assert!(serve(&queue) <= fired);
    });
}
