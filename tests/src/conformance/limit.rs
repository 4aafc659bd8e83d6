//! Runs cases on separate threads, and abandons those that take too long.
//!
//! A thread can't be stopped from outside. If a case hangs, its thread is abandoned, and another
//! thread continues with the next case. If the abandoned thread still returns a result, it is
//! ignored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The position of a running case, set by its thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Place(Arc<Mutex<String>>);

impl Place {
    /// Sets the position.
    pub(super) fn reach(&self, place: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Runs the cases `0..total` on `threads` threads. Returns the outcomes in the order of the cases.
///
/// `make` creates the runner of cases, once on each thread. The runner gets the number of a case,
/// and reports its position in the case.
///
/// # Errors
/// The outcome of a case that takes longer than `limit` is an error with its position at that time.
pub(super) fn run_all<T, R>(
    total: usize,
    threads: usize,
    limit: Duration,
    make: impl Fn() -> R + Send + Sync + 'static,
) -> Vec<Result<T, String>>
where
    T: Send + 'static,
    R: FnMut(usize, &Place) -> T,
{
    let (next, make) = (Arc::new(AtomicUsize::new(0)), Arc::new(make));
    let lane = || {
        let mut ended = Vec::new();
        while let Some(hung) = run_lane(total, limit, &next, &make, &mut ended) {
            ended.push(hung);
        }
        ended
    };
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads.min(total)).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(|lane| lane.join());
        ended.flat_map(|ended| ended.unwrap_or_default()).collect()
    });
    outcomes.sort_by_key(|(case, _)| *case);
    let mut outcomes = outcomes.into_iter().peekable();
    (0..total)
        .map(|case| match outcomes.next_if(|(ended, _)| *ended == case) {
            Some((_, outcome)) => outcome,
            None => Err("the thread of the case has ended".to_owned()),
        })
        .collect()
}

/// Runs cases on a new thread until no case is left or a case hangs. Returns the case that hangs
/// and its position.
fn run_lane<T, R>(
    total: usize,
    limit: Duration,
    next: &Arc<AtomicUsize>,
    make: &Arc<impl Fn() -> R + Send + Sync + 'static>,
    ended: &mut Vec<(usize, Result<T, String>)>,
) -> Option<(usize, Result<T, String>)>
where
    T: Send + 'static,
    R: FnMut(usize, &Place) -> T,
{
    let (sender, receiver) = channel();
    let (place, current) = (Place::default(), Arc::new(AtomicUsize::new(total)));
    let (told, running) = (place.clone(), Arc::clone(&current));
    let (next, make) = (Arc::clone(next), Arc::clone(make));
    std::thread::spawn(move || {
        let mut run = make();
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= total {
                return;
            }
            told.reach("its start".to_owned());
            running.store(case, Ordering::Release);
            if sender.send((case, run(case, &told))).is_err() {
                // The case took too long, and another thread has taken over.
                return;
            }
        }
    });
    loop {
        match receiver.recv_timeout(limit) {
            Ok((case, outcome)) => ended.push((case, Ok(outcome))),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let case = current.load(Ordering::Acquire);
                // The thread has not started a case yet.
                if case == total {
                    continue;
                }
                let (place, seconds) = (place.text(), limit.as_secs_f64());
                let hung = format!("hung at {place}: not finished within {seconds} s");
                return Some((case, Err(hung)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_hangs_blocks_no_other_case() {
        for threads in [1, 3] {
            let outcomes = run_all(9, threads, Duration::from_secs(2), || {
                move |case, place: &Place| {
                    place.reach(format!("step {case}"));
                    if case == 3 {
                        loop {
                            std::thread::park();
                        }
                    }
                    case * 2
                }
            });
            let hung = "hung at step 3: not finished within 2 s".to_owned();
            let mut wanted: Vec<_> = (0..9).map(|case| Ok(case * 2)).collect();
            wanted[3] = Err(hung);
            assert_eq!(outcomes, wanted);
        }
    }

    #[test]
    fn cases_of_a_thread_that_ended_are_reported() {
        let run = || |_: usize, _: &Place| panic!("planned");
        let outcomes: Vec<Result<(), _>> = run_all(2, 1, Duration::from_secs(60), run);
        assert!(outcomes.iter().all(Result::is_err));
        assert_eq!(outcomes.len(), 2);
    }
}
