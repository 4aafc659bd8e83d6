//! The only module that reads a real clock. All other code takes the time as an argument.

use std::time::{Duration, Instant, SystemTime};

use podstorm_objects::Now;

/// A clock whose monotonic time starts at zero, or continues from another clock. It reads the wall
/// time once and then advances it with the monotonic time, so a step of the system clock never
/// affects the run.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    started: Instant,
    /// The monotonic time at the start, ns.
    mono_started_ns: i64,
    /// The wall time at which the monotonic time is 0, ns.
    wall_started_ns: i64,
    /// The speed as a multiple of real time.
    scale: f64,
}

impl RealClock {
    /// Returns a clock whose monotonic time is 0 now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the only module that reads the system clock"
    )]
    pub fn start() -> RealClock {
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        RealClock {
            started: Instant::now(),
            mono_started_ns: 0,
            wall_started_ns: saturating_ns(wall),
            scale: 1.0,
        }
    }

    /// Returns the same clock with its speed since the start set to `scale` times real time;
    /// `scale` must be above 0.
    #[must_use]
    pub fn at_scale(self, scale: f64) -> RealClock {
        debug_assert!(scale > 0.0);
        RealClock { scale, ..self }
    }

    /// Returns the same clock with `now` as its starting time.
    #[must_use]
    pub fn going_on_from(self, now: Now) -> RealClock {
        RealClock {
            mono_started_ns: now.mono_ns,
            wall_started_ns: now.wall_ns.saturating_sub(now.mono_ns),
            ..self
        }
    }

    /// Returns the current monotonic and wall time.
    pub fn now(&self) -> Now {
        let real_ns = saturating_ns(self.started.elapsed());
        let passed_ns = match self.scale == 1.0 {
            true => real_ns,
            false => (real_ns as f64 * self.scale) as i64,
        };
        let mono_ns = self.mono_started_ns.saturating_add(passed_ns);
        Now {
            mono_ns,
            wall_ns: self.wall_started_ns.saturating_add(mono_ns),
        }
    }

    /// Returns the real duration of `ns` on this clock, or zero if `ns` is not positive.
    pub fn real(&self, ns: i64) -> Duration {
        let ns = u64::try_from(ns).unwrap_or(0);
        match self.scale == 1.0 {
            true => Duration::from_nanos(ns),
            false => Duration::from_nanos((ns as f64 / self.scale) as u64),
        }
    }

    /// Returns the real time since the start of the clock, in seconds.
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
    fn wall_and_monotonic_time_advance_together() {
        let clock = RealClock::start();
        let (a, b) = (clock.now(), clock.now());
        assert!(b.mono_ns >= a.mono_ns);
        assert_eq!(b.wall_ns - a.wall_ns, b.mono_ns - a.mono_ns);
    }

    #[test]
    fn a_clock_continues_from_another() {
        let then = Now {
            mono_ns: 7_000_000_000,
            wall_ns: 9_000_000_000_000,
        };
        let clock = RealClock::start().going_on_from(then);
        let now = clock.now();
        assert!((7_000_000_000..8_000_000_000).contains(&now.mono_ns));
        assert_eq!(now.wall_ns - now.mono_ns, then.wall_ns - then.mono_ns);
    }

    #[test]
    fn a_scaled_clock_runs_faster_and_converts_to_real_time() {
        let clock = RealClock::start();
        let fast = clock.at_scale(1000.0);
        let (before, now, after) = (clock.now(), fast.now(), clock.now());
        assert!(now.mono_ns / 1000 >= before.mono_ns && now.mono_ns / 1000 <= after.mono_ns);
        assert_eq!(now.wall_ns - now.mono_ns, before.wall_ns - before.mono_ns);
        assert_eq!(fast.real(5_000_000_000), Duration::from_millis(5));
        assert_eq!(clock.real(7), Duration::from_nanos(7));
        assert_eq!(fast.real(-1), Duration::ZERO);
    }
}
