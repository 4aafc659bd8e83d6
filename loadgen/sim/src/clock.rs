//! The only place that reads a real clock. Everything else takes the time as an argument.

use std::time::{Duration, Instant, SystemTime};

use podstorm_objects::Now;

/// A clock that starts at zero. The wall time is read once and then moves with the monotonic time,
/// so that a step of the system's clock never reaches the run.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    started: Instant,
    wall_started_ns: i64,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that all others are set by"
    )]
    pub fn start() -> RealClock {
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        RealClock {
            started: Instant::now(),
            wall_started_ns: saturating_ns(wall),
        }
    }

    /// The present.
    pub fn now(&self) -> Now {
        let mono_ns = saturating_ns(self.started.elapsed());
        Now {
            mono_ns,
            wall_ns: self.wall_started_ns.saturating_add(mono_ns),
        }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

fn saturating_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_and_monotonic_time_move_together_and_never_back() {
        let clock = RealClock::start();
        let (a, b) = (clock.now(), clock.now());
        assert!(b.mono_ns >= a.mono_ns);
        assert_eq!(b.wall_ns - a.wall_ns, b.mono_ns - a.mono_ns);
    }
}
