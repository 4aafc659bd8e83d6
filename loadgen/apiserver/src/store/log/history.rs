//! How much of the past a log keeps.

/// How many past events a log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Fewest events kept for watches that are opened later, rounded up to whole segments.
    pub min_events: usize,
    /// Most events kept for the slowest open watch, rounded up to whole segments. An event keeps a
    /// version of its object alive: with about 600 bytes for a pod, two million events are 1.2 GB.
    pub max_events: usize,
    /// Most bytes of the objects of past events, about; it goes before the two numbers. A segment of
    /// up to 512 events or 1 MiB is kept in any case. `usize::MAX`: no limit, and nothing is counted.
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
    /// The history of a server whose clients are unknown: one that doesn't read costs 64 MB of each
    /// kind that it watches at most, and a list has pages for as long as 16,384 events of its kind take.
    pub const SERVED: History = History {
        min_events: 16_384,
        max_events: 2_000_000,
        max_bytes: 64 << 20,
    };

    /// The history of the kind Event, which has few watches: an eighth.
    pub(crate) fn for_events(self) -> History {
        History {
            min_events: self.min_events / 8,
            ..self
        }
    }
}
