//! Limits on the past events that a log keeps.

/// Limits on the past events that a log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The minimum number of events, kept for watches that open later. Rounded up to whole
    /// segments.
    pub min_events: usize,
    /// The maximum number of events, kept for the slowest open watch. Rounded up to whole segments.
    /// An event keeps a version of its object alive: at about 600 bytes per pod, two million events
    /// are 1.2 GB.
    pub max_events: usize,
    /// The approximate maximum size of the objects of past events, in bytes. Takes precedence over
    /// the two numbers. One segment of up to 512 events or 1 MiB is always kept. With `usize::MAX`
    /// there is no limit, and sizes are not computed.
    pub max_bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        History {
            min_events: 4096,
            max_events: 2_000_000,
            max_bytes: usize::MAX,
        }
    }
}

impl History {
    /// The history of a server whose clients are unknown. A client that doesn't read costs at most
    /// 64 MB per kind that it watches. The pages of a list stay available for the next 16,384
    /// events of its kind.
    pub const SERVED: History = History {
        min_events: 16_384,
        max_events: 2_000_000,
        max_bytes: 64 << 20,
    };

    /// Returns the history of the kind Event: an eighth of the minimum number, because Events have
    /// few watches.
    pub(crate) fn for_events(self) -> History {
        History {
            min_events: self.min_events / 8,
            ..self
        }
    }
}
