//! The threads driver: real time, N plain threads that take parts from the switchboard and sleep
//! when there are none. The calling thread watches the time limit and shows progress.

use std::thread;
use std::time::Duration;

use podstorm_objects::Now;

use super::virtual_time::End;
use super::{Parts, Switchboard};
use crate::clock::RealClock;

/// How long the calling thread sleeps between two looks at the run: often at its beginning, so that
/// a short one is seen too, and then a hundred times a second, which costs a thousandth of a core.
fn check_after(now: Now) -> Duration {
    let run = Duration::from_nanos(u64::try_from(now.mono_ns).unwrap_or(0));
    (run / 64).clamp(Duration::from_micros(500), Duration::from_millis(10))
}

/// The longest a thread sleeps without looking again.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Empty looks at the queue before a thread goes to sleep: going to sleep and being woken costs a
/// few microseconds each, while most pauses of a busy run are shorter than that.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// Runs the parts on `threads` threads until the run is stopped, until nothing is left to do, or until
/// `limit_ns` has passed. `check` is called by the calling thread a hundred times a second; it returns
/// false to cancel. `at_rest` is called by it when no part runs, waits or will be due; it returns
/// whether that has brought something about, or others than the parts may.
pub fn drive(
    parts: &Parts,
    switchboard: &Switchboard,
    threads: usize,
    clock: &RealClock,
    limit_ns: i64,
    mut check: impl FnMut(Now) -> bool,
    mut at_rest: impl FnMut(Now) -> bool,
) -> (End, Now) {
    switchboard.expect_threads();
    parts.wake_all(switchboard);
    let end = thread::scope(|scope| {
        for number in 0..threads.max(1) {
            let work = || {
                // A part that panics must not leave the others, and the caller, waiting for ever.
                let _stop = StopOnPanic(switchboard);
                work(parts, switchboard, clock);
            };
            thread::Builder::new()
                .name(format!("parts-{number}"))
                .spawn_scoped(scope, work)
                .expect("the system has room for a few threads");
        }
        let end = loop {
            if switchboard.is_stopped() {
                break End::Stopped;
            }
            let now = clock.now();
            if now.mono_ns > limit_ns {
                break End::TimeLimit;
            }
            if !check(now) {
                break End::Cancelled;
            }
            if switchboard.is_at_rest() && !at_rest(now) {
                // A run that was stopped since the look above is at rest too.
                break match switchboard.is_stopped() {
                    true => End::Stopped,
                    false => End::Quiet,
                };
            }
            switchboard.wait_stopped(check_after(now));
        };
        switchboard.stop();
        end
    });
    (end, clock.now())
}

/// One thread: runs parts until the run is over.
fn work(parts: &Parts, switchboard: &Switchboard, clock: &RealClock) {
    let mut looks = 0;
    while !switchboard.is_stopped() {
        let now = clock.now();
        if switchboard
            .next_due()
            .is_some_and(|due_ns| due_ns <= now.mono_ns)
        {
            switchboard.fire_due(now);
        }
        if let Some(part) = switchboard.try_take() {
            parts.run(part, switchboard, now);
            looks = 0;
        } else if looks < LOOKS_BEFORE_SLEEP {
            looks += 1;
            std::hint::spin_loop();
        } else {
            let until_due = switchboard.next_due().map_or(LONGEST_SLEEP, |due_ns| {
                Duration::from_nanos(u64::try_from(due_ns - now.mono_ns).unwrap_or(0))
            });
            switchboard.sleep(until_due.min(LONGEST_SLEEP));
            looks = 0;
        }
    }
}

/// Stops the run when the thread that holds it panics.
struct StopOnPanic<'a>(&'a Switchboard);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::{Next, Part, PartId};
    use super::*;

    /// Wakes its neighbour until everyone together has run often enough.
    struct Runner {
        next: PartId,
        switchboard: Arc<Switchboard>,
        runs: Arc<AtomicU64>,
        busy: AtomicBool,
        enough: u64,
    }

    impl Part for Runner {
        fn run(&mut self, _now: Now) -> Next {
            assert!(
                !self.busy.swap(true, Ordering::SeqCst),
                "a part runs once at a time"
            );
            if self.runs.fetch_add(1, Ordering::SeqCst) >= self.enough {
                self.switchboard.stop();
            }
            self.switchboard.wake(self.next);
            self.busy.store(false, Ordering::SeqCst);
            Next::Idle
        }
    }

    fn ring_of(count: usize, enough: u64) -> (Arc<Switchboard>, Parts, Arc<AtomicU64>) {
        let switchboard = Arc::new(Switchboard::new());
        let ids: Vec<PartId> = (0..count).map(|_| switchboard.reserve()).collect();
        let runs = Arc::new(AtomicU64::new(0));
        let mut parts = Parts::default();
        for at in 0..count {
            let runner = Runner {
                next: ids[(at + 1) % count],
                switchboard: Arc::clone(&switchboard),
                runs: Arc::clone(&runs),
                busy: AtomicBool::new(false),
                enough,
            };
            parts.install(ids[at], Arc::new(Mutex::new(runner)));
        }
        (switchboard, parts, runs)
    }

    #[test]
    fn threads_share_the_parts_and_stop_together() {
        let (switchboard, parts, runs) = ring_of(5, 20_000);
        let clock = RealClock::start();
        let (end, _) = drive(
            &parts,
            &switchboard,
            3,
            &clock,
            i64::MAX,
            |_| true,
            |_| false,
        );
        assert_eq!(end, End::Stopped);
        assert!(runs.load(Ordering::SeqCst) >= 20_000);
    }

    /// Asks to be woken a little later, three times.
    struct Sleeper {
        left: u32,
        switchboard: Arc<Switchboard>,
    }

    impl Part for Sleeper {
        fn run(&mut self, now: Now) -> Next {
            if self.left == 0 {
                self.switchboard.stop();
                return Next::Idle;
            }
            self.left -= 1;
            Next::At(now.mono_ns + 2_000_000)
        }
    }

    #[test]
    fn delays_pass_in_real_time() {
        let switchboard = Arc::new(Switchboard::new());
        let id = switchboard.reserve();
        let mut parts = Parts::default();
        let sleeper = Sleeper {
            left: 3,
            switchboard: Arc::clone(&switchboard),
        };
        parts.install(id, Arc::new(Mutex::new(sleeper)));
        let clock = RealClock::start();
        let (end, now) = drive(
            &parts,
            &switchboard,
            2,
            &clock,
            i64::MAX,
            |_| true,
            |_| false,
        );
        assert_eq!(end, End::Stopped);
        assert!(now.mono_ns >= 6_000_000);
    }

    #[test]
    fn a_cancelled_run_and_one_past_its_limit_end() {
        let (switchboard, parts, _) = ring_of(2, u64::MAX);
        let clock = RealClock::start();
        assert_eq!(
            drive(
                &parts,
                &switchboard,
                2,
                &clock,
                i64::MAX,
                |_| false,
                |_| false
            )
            .0,
            End::Cancelled
        );
        let (switchboard, parts, _) = ring_of(2, u64::MAX);
        assert_eq!(
            drive(
                &parts,
                &switchboard,
                2,
                &clock,
                30_000_000,
                |_| true,
                |_| false
            )
            .0,
            End::TimeLimit
        );
    }
}
