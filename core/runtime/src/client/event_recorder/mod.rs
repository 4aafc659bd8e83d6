//! Event correlation: decides which of a controller's events are written, and how.
//!
//! The steps, in order: combine similar messages if there are many, count repeated messages, and
//! drop what exceeds the token bucket of the object. Memory is bounded, and a dropped event
//! allocates nothing. There are no locks: one thread owns the recorder. Recorders share only the
//! numbers in the names of Events.

use std::hash::Hash;
use std::sync::Arc;

use podstorm_objects::{EventSource, EventTopic, Now, Str, Time, Uid};

use super::lru::Lru;
use super::{EventIntent, EventPatch, EventType, EventWrite, ObjectReference};
use crate::primitives::{AtomicI64, Ordering};

/// The capacity of each of the recorder's three LRU maps.
const MEMORY_ENTRIES: usize = 4096;

/// The number of distinct messages at which an aggregate starts to combine its messages.
const COMBINE_FROM: usize = 10;

/// The time in ns without a message after which an aggregate starts over: 10 minutes.
const COMBINE_WINDOW_NS: i64 = 600 * 1_000_000_000;

/// The number of events of one type about one object that may be written in a burst.
const SPAM_BURST: f64 = 25.0;

/// The refill rate of the token bucket per second: one token in 300 s, in the single precision in
/// which upstream configures the rate.
const SPAM_QPS: f64 = (1.0f32 / 300.0) as f64;

/// The prefix of a combined event's message.
const COMBINED: &str = "(combined from similar events): ";

/// The maximum length of a name. A longer event name is replaced by a UUID.
const NAME_MAX: usize = 253;

/// Decides which event intents of one controller are written, and how. Used by one thread.
#[derive(Debug)]
pub struct EventRecorder {
    component: &'static str,
    /// `source.host` and `reportingInstance`; empty for a component that does not run on a node.
    host: Str,
    hashes: [ahash::RandomState; 2],
    aggregates: Lru<Aggregate>,
    log: Lru<Logged>,
    spam: Lru<Bucket>,
    /// The object of the last intent, and its hash. The `Arc` protects the address from reuse.
    last_object: Option<(Arc<ObjectReference>, u128)>,
    /// The source of the numbers in the names of new events.
    stamps: EventStamps,
    /// The current message, stored to reuse its memory.
    text: String,
    /// The entry to store once the write in progress has succeeded.
    written: Option<(u128, Logged)>,
    /// The parts that the events of one topic share. There are only a few topics.
    topics: Vec<Topic>,
}

/// The source of the numbers in the names of Events: times in ns since the Unix epoch. Two
/// recorders may write Events about one object at the same time, especially on virtual time. If
/// they share this source, the names differ.
#[derive(Clone, Debug, Default)]
pub struct EventStamps(Arc<AtomicI64>);

impl EventStamps {
    /// Returns `wall_ns` or, if that is not above the last number, the number after the last. Each
    /// number is returned only once.
    pub fn next(&self, wall_ns: i64) -> i64 {
        // Relaxed: nothing else depends on the number, and a single addition produces it.
        self.0
            .fetch_max(wall_ns.saturating_sub(1), Ordering::Relaxed);
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

#[derive(Debug)]
struct Topic {
    kind: EventType,
    reason: &'static str,
    combined: bool,
    shared: Arc<EventTopic>,
}

/// The recent messages about one object with one type and reason.
#[derive(Debug)]
struct Aggregate {
    /// The hashes of distinct messages: at most one fewer than the number at which combining
    /// starts.
    messages: [u128; COMBINE_FROM - 1],
    count: usize,
    last_ns: i64,
}

/// How often an event has been observed. The other fields are meaningless if the count is 0.
#[derive(Clone, Copy, Debug)]
struct Logged {
    count: i32,
    first: Time,
    /// The number in the event's name.
    stamp: i64,
}

/// The token bucket of one object and type.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    last_ns: i64,
}

impl EventRecorder {
    /// Creates a recorder for the events of the controller `component`, e.g.
    /// `replicaset-controller`.
    pub fn new(component: &'static str) -> EventRecorder {
        EventRecorder {
            component,
            host: Str::new(),
            hashes: [
                ahash::RandomState::with_seeds(0x6576, 0x656e, 0x7473, 0x3031),
                ahash::RandomState::with_seeds(0x6576, 0x656e, 0x7473, 0x3032),
            ],
            aggregates: Lru::new(MEMORY_ENTRIES),
            log: Lru::new(MEMORY_ENTRIES),
            spam: Lru::new(MEMORY_ENTRIES),
            last_object: None,
            stamps: EventStamps::default(),
            text: String::new(),
            written: None,
            topics: Vec::new(),
        }
    }

    /// Sets the node on which the component runs.
    #[must_use]
    pub fn on_node(self, node: &str) -> EventRecorder {
        EventRecorder {
            host: node.into(),
            ..self
        }
    }

    /// Replaces the source of the numbers in event names. The names then differ from those of all
    /// recorders with the same source.
    #[must_use]
    pub fn with_stamps(self, stamps: EventStamps) -> EventRecorder {
        EventRecorder { stamps, ..self }
    }

    /// Handles an intent that is recorded now; see [`correlate`](EventRecorder::correlate).
    pub fn record(&mut self, intent: EventIntent, now: Now) -> Option<EventWrite> {
        self.correlate(intent, now, now)
    }

    /// Handles an intent that was recorded at `made`. Returns the event to write; `None` if the
    /// intent is dropped. Callers write one event at a time and call
    /// [`written`](EventRecorder::written) after each success.
    ///
    /// O(length of the message). Allocates only if there is an event to write.
    pub fn correlate(&mut self, intent: EventIntent, made: Now, now: Now) -> Option<EventWrite> {
        self.correlate_part(intent, "", made, now)
    }

    /// Like [`correlate`](EventRecorder::correlate), for an intent about a part of the object: the
    /// same message about two parts results in two events. The caller writes the part into
    /// `involvedObject.fieldPath`.
    pub fn correlate_part(
        &mut self,
        intent: EventIntent,
        field_path: &str,
        made: Now,
        now: Now,
    ) -> Option<EventWrite> {
        let object = self.object_hash(&intent.regarding);
        let aggregate_key = self.hash((object, intent.kind, intent.reason));
        self.text.clear();
        let (start, rest) = intent.message.parts();
        self.text.push_str(start);
        self.text.push_str(rest);
        let message_key = self.hash(&self.text);

        let aggregate = self.aggregates.touch(aggregate_key, Aggregate::new);
        let combined = aggregate.combines(message_key, now);
        let (key, at) = match combined {
            true => (aggregate_key, now),
            false => (self.event_key(aggregate_key, message_key, field_path), made),
        };
        let logged = self.observe(key, at);
        let spam_key = self.hash((object, intent.kind));
        if !self.spam.touch(spam_key, || Bucket::full(now)).accepts(now) {
            return None;
        }
        Some(self.write(intent, combined, aggregate_key, field_path, logged, at))
    }

    /// Must be called after each successful write, including a create that replaced a patch.
    pub fn written(&mut self) {
        if let Some((key, logged)) = self.written.take() {
            *self.log.touch(key, || logged) = logged;
        }
    }

    fn observe(&mut self, key: u128, at: Now) -> Logged {
        let never = Logged {
            count: 0,
            first: at.wall(),
            stamp: 0,
        };
        let logged = self.log.touch(key, || never);
        if logged.count == 0 {
            logged.stamp = self.stamps.next(at.wall_ns);
        }
        logged.count = logged.count.saturating_add(1);
        *logged
    }

    fn write(
        &mut self,
        intent: EventIntent,
        combined: bool,
        aggregate_key: u128,
        field_path: &str,
        logged: Logged,
        at: Now,
    ) -> EventWrite {
        let EventIntent {
            regarding,
            kind,
            reason,
            ..
        } = intent;
        let message = match combined {
            true => format!("{COMBINED}{}", self.text),
            false => self.text.clone(),
        };
        // Upstream stores a written event under its own message, even if it is a combined one. That
        // entry is never looked up, but it takes one of the 4096 entries.
        let key = self.event_key(aggregate_key, self.hash(&message), field_path);
        self.written = Some((key, logged));
        let namespace = match &*regarding.namespace {
            "" => Str::from("default"),
            _ => Str::clone(&regarding.namespace),
        };
        let patch = EventPatch {
            namespace,
            name: self.event_name(&regarding.name, logged.stamp),
            count: logged.count,
            message,
            last_timestamp: at.wall(),
            source: EventSource {
                regarding,
                topic: self.topic(kind, reason, combined),
                first_timestamp: logged.first,
            },
        };
        match logged.count {
            1 => EventWrite::Create(patch.to_event()),
            _ => EventWrite::Patch(patch),
        }
    }

    fn topic(&mut self, kind: EventType, reason: &'static str, combined: bool) -> Arc<EventTopic> {
        let known = self.topics.iter().find(|topic| {
            topic.kind == kind && topic.reason == reason && topic.combined == combined
        });
        if let Some(known) = known {
            return Arc::clone(&known.shared);
        }
        let component = Str::from(self.component);
        let none = Str::new();
        let shared = Arc::new(EventTopic {
            kind: kind.as_str().into(),
            reason: reason.into(),
            host: Str::clone(&self.host),
            // As in upstream, combined events leave out these two fields.
            reporting_component: Str::clone(if combined { &none } else { &component }),
            reporting_instance: Str::clone(if combined { &none } else { &self.host }),
            component,
        });
        self.topics.push(Topic {
            kind,
            reason,
            combined,
            shared: Arc::clone(&shared),
        });
        shared
    }

    /// Returns `<object>.<hex stamp>`, or a UUID if that name is too long.
    fn event_name(&self, object: &str, stamp: i64) -> String {
        let name = format!("{object}.{stamp:x}");
        if name.len() <= NAME_MAX {
            return name;
        }
        let version_and_variant = 0x4000_8000_0000_0000_0000;
        let kept = !0xf000_c000_0000_0000_0000_u128;
        Uid::from_u128(self.hash(&name) & kept | version_and_variant).to_string()
    }

    fn object_hash(&mut self, object: &Arc<ObjectReference>) -> u128 {
        if let Some((last, hash)) = &self.last_object
            && Arc::ptr_eq(last, object)
        {
            return *hash;
        }
        // The version is left out: the next sync reports on the same object.
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            resource_version: _,
        } = &**object;
        let hash = self.hash((kind, namespace, name.as_str(), uid));
        self.last_object = Some((Arc::clone(object), hash));
        hash
    }

    /// Returns the key under which the log stores an event.
    fn event_key(&self, aggregate_key: u128, message_key: u128, field_path: &str) -> u128 {
        match field_path {
            "" => self.hash((aggregate_key, message_key)),
            _ => self.hash((aggregate_key, message_key, field_path)),
        }
    }

    /// Returns a hash that is wide enough to identify its input: with 4096 entries, 10^12 intents
    /// cause a collision with a probability below 10^-22.
    fn hash(&self, what: impl Hash) -> u128 {
        let [low, high] = &self.hashes;
        u128::from(high.hash_one(&what)) << 64 | u128::from(low.hash_one(&what))
    }
}

impl Aggregate {
    fn new() -> Aggregate {
        Aggregate {
            messages: [0; COMBINE_FROM - 1],
            count: 0,
            last_ns: i64::MIN,
        }
    }

    /// Adds a message. Returns whether it must be combined with the others.
    fn combines(&mut self, message: u128, now: Now) -> bool {
        if now.mono_ns.saturating_sub(self.last_ns) > COMBINE_WINDOW_NS {
            self.count = 0;
        }
        self.last_ns = now.mono_ns;
        if self.messages[..self.count].contains(&message) {
            return false;
        }
        // Upstream adds the tenth message, then drops an arbitrary one. This recorder always drops
        // the newest.
        if self.count == COMBINE_FROM - 1 {
            return true;
        }
        self.messages[self.count] = message;
        self.count += 1;
        false
    }
}

impl Bucket {
    fn full(now: Now) -> Bucket {
        Bucket {
            tokens: SPAM_BURST,
            last_ns: now.mono_ns,
        }
    }

    /// Takes a token if there is one.
    fn accepts(&mut self, now: Now) -> bool {
        let elapsed_ns = now.mono_ns.saturating_sub(self.last_ns).max(0);
        // Converts whole seconds and the rest separately, as Go converts a duration to seconds.
        let seconds =
            (elapsed_ns / 1_000_000_000) as f64 + (elapsed_ns % 1_000_000_000) as f64 / 1e9;
        let tokens = (self.tokens + seconds * SPAM_QPS).min(SPAM_BURST) - 1.0;
        // A token that is due within the same nanosecond counts as available.
        if tokens < 0.0 && -tokens / SPAM_QPS * 1e9 >= 1.0 {
            return false;
        }
        *self = Bucket {
            tokens,
            last_ns: now.mono_ns,
        };
        true
    }
}

#[cfg(test)]
mod tests;
