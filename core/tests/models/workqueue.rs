//! The work queue: every added key is served, by one worker at a time, and the worker sees
//! everything done before the add. Every parked thread is woken.

use podstorm::workqueue::{Take, WorkQueue};

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::checker::thread;
use crate::{beside, check};

type Queue = WorkQueue<u32>;

/// Takes and finishes until the queue is shut down and empty.
fn serve(queue: &Queue, mut work: impl FnMut(u32)) {
    while let Some(key) = queue.take(&|| 0) {
        work(key);
        queue.done(key, 0);
    }
}

/// A push that finds no parked thread and a worker that finds no key must not miss each other. The
/// second key replaces the ring.
#[test]
fn a_worker_that_parks_is_woken() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let worker = beside(&queue, |queue| {
            let mut served = [0; 2];
            for _ in 0..2 {
                let key = queue.take(&|| 0).expect("two keys are added");
                served[key as usize] += 1;
                queue.done(key, 0);
            }
            served
        });
        queue.add(0, 0);
        queue.add(1, 0);
        assert_eq!(worker.join().unwrap(), [1, 1]);
    });
}

/// An add that comes while a worker has the key is served afterwards, and that work sees everything
/// done before the add, even if the add found the key waiting and changed nothing.
#[test]
fn no_add_is_lost_and_work_sees_earlier_writes() {
    check(3, || {
        let (queue, asked) = (Arc::new(Queue::new()), Arc::new(AtomicU32::new(0)));
        let worker = {
            let (queue, asked) = (queue.clone(), asked.clone());
            thread::spawn(move || {
                let mut seen = 0;
                serve(&queue, |_| seen = asked.load(Ordering::Relaxed));
                seen
            })
        };
        for number in 1..=2 {
            asked.store(number, Ordering::Relaxed);
            queue.add(0, 0);
        }
        queue.shut_down();
        assert_eq!(worker.join().unwrap(), 2);
    });
}

/// Two workers never have the same key: neither after two adds, nor after an add while a worker has
/// the key.
#[test]
fn a_key_has_at_most_one_worker() {
    check(3, || {
        let (queue, running) = (Arc::new(Queue::new()), Arc::new(AtomicUsize::new(0)));
        let work = |queue: &Queue, running: &AtomicUsize| {
            if let Take::Key(key) = queue.try_take(0) {
                assert_eq!(
                    running.fetch_add(1, Ordering::Relaxed),
                    0,
                    "two workers have the key"
                );
                running.fetch_sub(1, Ordering::Relaxed);
                queue.done(key, 0);
            }
        };
        queue.add(0, 0);
        let other = {
            let (queue, running) = (queue.clone(), running.clone());
            thread::spawn(move || work(&queue, &running))
        };
        queue.add(0, 0);
        work(&queue, &running);
        other.join().unwrap();
        // Keys that no worker took still wait: two adds are one or two pieces of work.
        work(&queue, &running);
        let stats = queue.stats(0);
        assert_eq!(stats.depth, 0);
        assert!((1..=2).contains(&stats.adds_total));
        assert_eq!(stats.work_duration.count(), stats.adds_total);
    });
}

/// Covers a push to a ring that was replaced meanwhile and retired by a worker that found it empty.
#[test]
fn a_late_push_to_an_old_ring_is_found() {
    check(2, || {
        let queue = Arc::new(Queue::new());
        let late = beside(&queue, |queue| assert!(queue.add(0, 0)));
        let worker = beside(&queue, |queue| {
            let taken = queue.try_take(0);
            if let Take::Key(key) = taken {
                queue.done(key, 0);
            }
            usize::from(taken != Take::Empty)
        });
        // Replaces the ring.
        queue.add(1, 0);
        late.join().unwrap();
        let taken = worker.join().unwrap();
        let rest = std::iter::from_fn(|| match queue.try_take(0) {
            Take::Key(key) => Some(key),
            _ => None,
        });
        assert_eq!(rest.count() + taken, 2, "a key was lost");
    });
}

/// A key whose add has returned is found even if an earlier add has taken its slot but not yet
/// stored its key. Both keys are in one ring.
#[test]
fn a_key_behind_an_unfinished_add_is_found() {
    check(3, || {
        let queue = Arc::new(Queue::with_capacity(2));
        let slow = beside(&queue, |queue| assert!(queue.add(0, 0)));
        queue.add(1, 0);
        assert!(matches!(queue.try_take(0), Take::Key(_)), "a key was lost");
        slow.join().unwrap();
        assert!(matches!(queue.try_take(0), Take::Key(_)), "a key was lost");
        assert_eq!(queue.try_take(0), Take::Empty);
    });
}

/// If one add returned before another began, its key is served first, whichever rings the keys are
/// in.
#[test]
fn the_order_of_adds_survives_a_new_ring() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let late = beside(&queue, |queue| {
            queue.add(0, 0);
            queue.add(2, 0);
        });
        queue.add(1, 0);
        queue.add(3, 0);
        late.join().unwrap();
        let order: Vec<u32> = std::iter::from_fn(|| match queue.try_take(0) {
            Take::Key(key) => Some(key),
            _ => None,
        })
        .collect();
        let at = |key| order.iter().position(|&other| other == key);
        assert!(order.len() == 4, "a key was lost: {order:?}");
        assert!(at(0) < at(2) && at(1) < at(3), "{order:?}");
    });
}

/// A drain waits only for the work in progress.
#[test]
fn a_drain_ends_with_the_last_work() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        queue.add(0, 0);
        let finished = Arc::new(AtomicUsize::new(0));
        assert_eq!(queue.try_take(0), Take::Key(0));
        let worker = {
            let (queue, finished) = (queue.clone(), finished.clone());
            thread::spawn(move || {
                finished.store(1, Ordering::Relaxed);
                queue.done(0, 0);
            })
        };
        queue.shut_down_with_drain();
        let ended = finished.load(Ordering::Relaxed);
        assert_eq!(ended, 1, "the drain did not wait");
        assert!(!queue.add(1, 0));
        worker.join().unwrap();
    });
}

/// Shutting down wakes the parked threads, and keys added before are served.
#[test]
fn shutting_down_serves_added_keys_and_wakes_all_threads() {
    check(1, || {
        let queue = Arc::new(Queue::new());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                beside(&queue, |queue| {
                    let mut served = 0;
                    serve(&queue, |_| served += 1);
                    served
                })
            })
            .collect();
        queue.add(0, 0);
        queue.shut_down();
        let served: usize = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum();
        assert_eq!(served, 1);
    });
}
