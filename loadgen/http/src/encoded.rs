//! Encoded watch lines, shared: each line is encoded once for all watches that send it.
//!
//! A line is cached by the version of its object while a watch is sending it, and for a short time
//! after. Watches that no client reads therefore share one line instead of holding one each.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ahash::RandomState;
use bytes::Bytes;
use hashbrown::HashMap;

use crate::media::Form;

/// The number of shards, each with its own lock: watches of many kinds look up lines concurrently.
/// The version of a line selects the shard.
const SHARDS: usize = 16;
/// The maximum total size in bytes of the lines that a shard keeps after their last use. The newest
/// line is always kept.
const RECENT_BYTES: usize = 512 << 10;
/// The minimum number of entries at which a shard removes those of dropped lines.
const SWEEP_MIN: usize = 256;

/// The key of a line. A version identifies one state of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shows {
    pub(crate) version: u64,
    /// The type of the event.
    pub(crate) what: &'static str,
    pub(crate) form: Form,
}

/// The lines that were encoded recently, and those that are being sent.
#[derive(Debug)]
pub(crate) struct Encoded([Mutex<Shard>; SHARDS]);

#[derive(Debug)]
struct Shard {
    lines: HashMap<Shows, Weak<Vec<u8>>, RandomState>,
    recent: VecDeque<Arc<Vec<u8>>>,
    /// The total size of the lines in `recent`, in bytes.
    bytes: usize,
    sweep_at: usize,
}

/// A reference to a shared line.
struct Line(Arc<Vec<u8>>);

impl AsRef<[u8]> for Line {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Default for Encoded {
    fn default() -> Encoded {
        let shard = || {
            Mutex::new(Shard {
                // Fixed seeds keep instruction counts reproducible. Nothing depends on the order.
                lines: HashMap::with_hasher(RandomState::with_seeds(0x6c, 0x69, 0x6e, 0x65)),
                recent: VecDeque::new(),
                bytes: 0,
                sweep_at: SWEEP_MIN,
            })
        };
        Encoded(std::array::from_fn(|_| shard()))
    }
}

impl Encoded {
    /// Returns a line; calls `encode` if the line is not cached. No lock is held while a line is
    /// encoded. If two threads encode the same line concurrently, both get the same result.
    pub(crate) fn line(&self, shows: Shows, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        let shard = usize::try_from(shows.version % SHARDS as u64)
            .expect("the remainder is less than SHARDS");
        let lock = || self.0[shard].lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().lines.get(&shows).and_then(Weak::upgrade);
        let line = known.unwrap_or_else(|| {
            let line = Arc::new(encode());
            lock().keep(shows, line)
        });
        Bytes::from_owner(Line(line))
    }
}

impl Shard {
    fn keep(&mut self, shows: Shows, line: Arc<Vec<u8>>) -> Arc<Vec<u8>> {
        if let Some(known) = self.lines.get(&shows).and_then(Weak::upgrade) {
            return known;
        }
        if self.lines.len() >= self.sweep_at {
            self.lines.retain(|_, line| line.strong_count() > 0);
            self.sweep_at = SWEEP_MIN.max(self.lines.len() * 2);
        }
        self.lines.insert(shows, Arc::downgrade(&line));
        self.bytes += line.len();
        self.recent.push_back(Arc::clone(&line));
        while self.bytes > RECENT_BYTES
            && self.recent.len() > 1
            && let Some(oldest) = self.recent.pop_front()
        {
            self.bytes -= oldest.len();
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_encoded_once_while_a_watch_holds_it() {
        let encoded = Encoded::default();
        let shows = |version| Shows {
            version: version * SHARDS as u64,
            what: "ADDED",
            form: Form::Json,
        };
        let encode = || vec![b'x'; 100_000];
        let never = || unreachable!("the line is cached");
        let held = encoded.line(shows(0), encode);
        for version in 1..2_000 {
            assert_eq!(encoded.line(shows(version), encode).len(), 100_000);
            assert_eq!(encoded.line(shows(version), never).len(), 100_000);
        }
        assert_eq!(encoded.line(shows(0), never).as_ptr(), held.as_ptr());
        let shard = encoded.0[0].lock().unwrap();
        assert!(shard.bytes <= RECENT_BYTES && shard.recent.len() == 5);
        assert!(shard.lines.len() <= 2 * SWEEP_MIN, "{}", shard.lines.len());
        drop((shard, held));
        let mut made = 0;
        encoded.line(shows(0), || {
            made += 1;
            vec![]
        });
        assert_eq!(made, 1, "the line is dropped with its last watch");
    }
}
