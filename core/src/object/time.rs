//! Points in time: API time stamps in whole seconds, and the `Now` that callers pass in.

/// An API time stamp: whole seconds since 1970-01-01T00:00:00Z, the resolution in which the API
/// server serves `metav1.Time`. Unset is what Go calls the zero time and sorts before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The unset time stamp (JSON null or absent).
    pub const UNSET: Time = Time(i64::MIN);

    /// The instant `seconds` after the Unix epoch.
    pub const fn from_unix_seconds(seconds: i64) -> Time {
        Time(seconds)
    }

    /// The second that a wall-clock reading in nanoseconds since the Unix epoch falls in.
    pub const fn from_unix_nanos(nanos: i64) -> Time {
        Time(nanos.div_euclid(1_000_000_000))
    }

    /// Whether no time is set.
    pub const fn is_unset(self) -> bool {
        self.0 == i64::MIN
    }

    /// Seconds since the Unix epoch; `None` when unset.
    pub const fn unix_seconds(self) -> Option<i64> {
        if self.is_unset() { None } else { Some(self.0) }
    }

    /// Nanoseconds since the Unix epoch, saturating; `None` when unset.
    pub const fn unix_nanos(self) -> Option<i64> {
        if self.is_unset() { None } else { Some(self.0.saturating_mul(1_000_000_000)) }
    }
}

impl Default for Time {
    fn default() -> Self {
        Time::UNSET
    }
}

/// The present, as a driver passes it in: the core reads no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds on a monotonic line with an arbitrary origin: delays and time-outs.
    pub mono_ns: i64,
    /// Nanoseconds since the Unix epoch: whatever is compared with or written as an API time.
    pub wall_ns: i64,
}

impl Now {
    /// The wall clock cut to API resolution.
    pub const fn wall(self) -> Time {
        Time::from_unix_nanos(self.wall_ns)
    }

    /// This instant moved by `ns` nanoseconds on both lines, saturating.
    #[must_use]
    pub const fn plus_ns(self, ns: i64) -> Now {
        Now {
            mono_ns: self.mono_ns.saturating_add(ns),
            wall_ns: self.wall_ns.saturating_add(ns),
        }
    }
}
