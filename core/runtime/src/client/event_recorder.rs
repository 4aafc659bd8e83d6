//! The correlation of events: which of a controller's intents are written, and how.
//!
//! In this order: many messages of one kind are combined, repeated ones are counted, and a token
//! bucket for each object drops the rest. The memory is bounded; a dropped intent allocates
//! nothing. No locks: one thread owns the recorder.

use std::hash::Hash;
use std::sync::Arc;

use podstorm_objects::{EventSource, EventTopic, Now, Str, Time, Uid};

use super::lru::Lru;
use super::{EventIntent, EventPatch, EventType, EventWrite, ObjectReference};

/// How many entries each of the three memories holds.
const MEMORY_ENTRIES: usize = 4096;

/// The distinct message of a group from which on messages are combined.
const COMBINE_FROM: usize = 10;

/// A group that was silent for longer starts anew: 10 minutes.
const COMBINE_WINDOW_NS: i64 = 600 * 1_000_000_000;

/// How many events of one type about one object may be written at once.
const SPAM_BURST: f64 = 25.0;

/// How fast writes are allowed again, per second: one in 300 s, in the single precision that
/// upstream configures it with.
const SPAM_QPS: f64 = (1.0f32 / 300.0) as f64;

/// What a combined event's message starts with.
const COMBINED: &str = "(combined from similar events): ";

/// Longest name of an object; a longer event name is replaced by a UUID.
const NAME_MAX: usize = 253;

/// Decides what of the intents of one controller is written, and how. One thread uses it.
#[derive(Debug)]
pub struct EventRecorder {
    component: &'static str,
    hashes: [ahash::RandomState; 2],
    aggregates: Lru<Aggregate>,
    log: Lru<Logged>,
    spam: Lru<Bucket>,
    /// The object of the last intent and its hash; the `Arc` keeps the address from being reused.
    last_object: Option<(Arc<ObjectReference>, u128)>,
    /// The number in the last event name given out.
    last_stamp: i64,
    /// The text of the message at hand; kept for its memory.
    text: String,
    /// What to remember once the last write has succeeded.
    written: Option<(u128, Logged)>,
    /// What the events of each kind share. There are a handful.
    topics: Vec<Topic>,
}

#[derive(Debug)]
struct Topic {
    kind: EventType,
    reason: &'static str,
    combined: bool,
    shared: Arc<EventTopic>,
}

/// The messages of one object, type and reason.
#[derive(Debug)]
struct Aggregate {
    /// Hashes of distinct messages, at most one less than starts the combining.
    messages: [u128; COMBINE_FROM - 1],
    count: usize,
    last_ns: i64,
}

/// How often an event has been observed; a count of 0 is never.
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
    /// A recorder for the events of `component`, e.g. `replicaset-controller`.
    pub fn new(component: &'static str) -> EventRecorder {
        EventRecorder {
            component,
            hashes: [
                ahash::RandomState::with_seeds(0x6576, 0x656e, 0x7473, 0x3031),
                ahash::RandomState::with_seeds(0x6576, 0x656e, 0x7473, 0x3032),
            ],
            aggregates: Lru::new(MEMORY_ENTRIES),
            log: Lru::new(MEMORY_ENTRIES),
            spam: Lru::new(MEMORY_ENTRIES),
            last_object: None,
            last_stamp: 0,
            text: String::new(),
            written: None,
            topics: Vec::new(),
        }
    }

    /// Takes an intent made just now; see [`correlate`](EventRecorder::correlate).
    pub fn record(&mut self, intent: EventIntent, now: Now) -> Option<EventWrite> {
        self.correlate(intent, now, now)
    }

    /// Takes an intent made at `made` and says what to write, if anything. Callers write one event
    /// at a time and say [`written`](EventRecorder::written) when it has succeeded.
    ///
    /// O(length of the message); allocates only when something is to be written.
    pub fn correlate(&mut self, intent: EventIntent, made: Now, now: Now) -> Option<EventWrite> {
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
            false => (self.hash((aggregate_key, message_key)), made),
        };
        let logged = self.observe(key, at);
        let spam_key = self.hash((object, intent.kind));
        if !self.spam.touch(spam_key, || Bucket::full(now)).accepts(now) {
            return None;
        }
        Some(self.write(intent, combined, aggregate_key, logged, at))
    }

    /// Says that the last write has succeeded, a create in place of a patch included.
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
            // Names must differ even where the clock stands still.
            self.last_stamp = at.wall_ns.max(self.last_stamp + 1);
            logged.stamp = self.last_stamp;
        }
        logged.count = logged.count.saturating_add(1);
        *logged
    }

    fn write(
        &mut self,
        intent: EventIntent,
        combined: bool,
        aggregate_key: u128,
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
        // Upstream files a written event under its own message, a combined one too. Nothing ever
        // looks that entry up, but it takes a place among the 4096.
        self.written = Some((self.hash((aggregate_key, self.hash(&message))), logged));
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
            host: Str::clone(&none),
            // Combined events don't carry it, as upstream's don't.
            reporting_component: Str::clone(if combined { &none } else { &component }),
            reporting_instance: none,
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

    /// `<object>.<hex stamp>`; a UUID where that is too long for a name.
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
        // Not the version: the next sync speaks of the same object.
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

    /// A hash wide enough to stand for what is hashed: with 4096 entries a run of 10^12 intents
    /// meets two equal hashes of different things with a chance below 10^-22.
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

    /// Adds a message; whether it is to be combined with the others.
    fn combines(&mut self, message: u128, now: Now) -> bool {
        if now.mono_ns.saturating_sub(self.last_ns) > COMBINE_WINDOW_NS {
            self.count = 0;
        }
        self.last_ns = now.mono_ns;
        if self.messages[..self.count].contains(&message) {
            return false;
        }
        // Upstream adds the tenth, then drops any one; here it is always the newest.
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

    /// Takes a token, if there is one.
    fn accepts(&mut self, now: Now) -> bool {
        let elapsed_ns = now.mono_ns.saturating_sub(self.last_ns).max(0);
        // Whole seconds and the rest apart, as Go turns a duration into seconds.
        let seconds =
            (elapsed_ns / 1_000_000_000) as f64 + (elapsed_ns % 1_000_000_000) as f64 / 1e9;
        let tokens = (self.tokens + seconds * SPAM_QPS).min(SPAM_BURST) - 1.0;
        // A token that is due within the same nanosecond counts as being there.
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
mod tests {
    use serde_json::json;

    use super::*;
    use podstorm_objects::{Kind, Object};

    fn now(seconds: i64) -> Now {
        Now {
            mono_ns: seconds * 1_000_000_000,
            wall_ns: (1_800_000_000 + seconds) * 1_000_000_000,
        }
    }

    fn web(version: u64) -> Arc<ObjectReference> {
        Arc::new(ObjectReference {
            kind: Kind::REPLICA_SET,
            namespace: "shop".into(),
            name: "web".into(),
            uid: Uid::new("7f420cbd-206a-47ea-a64a-f37288a6840d"),
            resource_version: version.into(),
        })
    }

    fn created(version: u64, pod: usize) -> EventIntent {
        EventIntent::created_pod(&web(version), &format!("web-{pod}").into())
    }

    fn recorder() -> EventRecorder {
        EventRecorder::new("replicaset-controller")
    }

    /// Creates and patches of recording these.
    fn totals(
        recorder: &mut EventRecorder,
        intents: impl Iterator<Item = EventIntent>,
        at: Now,
    ) -> (usize, usize) {
        let mut totals = (0, 0);
        for intent in intents {
            match recorder.record(intent, at) {
                Some(EventWrite::Create(_)) => totals.0 += 1,
                Some(EventWrite::Patch(_)) => totals.1 += 1,
                None => continue,
            }
            recorder.written();
        }
        totals
    }

    #[test]
    fn a_burst_of_500_creations_writes_25_events_of_which_16_are_the_combined_one() {
        let mut recorder = recorder();
        let mut writes = Vec::new();
        for pod in 0..500 {
            writes.extend(recorder.record(created(1, pod), now(0)));
            recorder.written();
        }
        assert_eq!(writes.len(), 25);
        let names: Vec<String> = writes
            .iter()
            .map(|write| match write {
                EventWrite::Create(event) => event.metadata.name.to_string(),
                EventWrite::Patch(patch) => patch.name.clone(),
            })
            .collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), 10);
        for (write, name) in writes.iter().zip(&names).skip(10) {
            let EventWrite::Patch(patch) = write else {
                panic!("{write:?}")
            };
            assert_eq!(*name, names[9]);
            assert!(
                patch
                    .message
                    .starts_with("(combined from similar events): Created pod: ")
            );
        }
        let EventWrite::Patch(last) = &writes[24] else {
            panic!()
        };
        assert_eq!(last.count, 16);
        assert_eq!(
            last.message,
            "(combined from similar events): Created pod: web-24"
        );
    }

    #[test]
    fn the_count_goes_on_while_writes_are_dropped() {
        let mut recorder = recorder();
        totals(&mut recorder, (0..500).map(|pod| created(1, pod)), now(0));
        let write = recorder.record(created(2, 500), now(301));
        let Some(EventWrite::Patch(patch)) = write else {
            panic!("{write:?}")
        };
        assert_eq!(patch.count, 492);
    }

    #[test]
    fn a_token_comes_back_every_300_seconds() {
        let mut recorder = recorder();
        assert_eq!(
            totals(&mut recorder, (0..40).map(|pod| created(1, pod)), now(0)),
            (10, 15)
        );
        assert_eq!(
            totals(&mut recorder, (40..50).map(|pod| created(1, pod)), now(299)),
            (0, 0)
        );
        assert_eq!(
            totals(&mut recorder, (50..60).map(|pod| created(1, pod)), now(300)),
            (0, 1)
        );
        assert_eq!(
            totals(&mut recorder, (60..70).map(|pod| created(1, pod)), now(900)),
            (0, 2)
        );
    }

    #[test]
    fn warnings_have_a_bucket_of_their_own() {
        let mut recorder = recorder();
        totals(&mut recorder, (0..40).map(|pod| created(1, pod)), now(0));
        let failed = EventIntent::failed_create(&web(1), &"quota exceeded");
        assert!(matches!(
            recorder.record(failed, now(0)),
            Some(EventWrite::Create(_))
        ));
    }

    #[test]
    fn repeated_messages_are_counted_and_never_combined() {
        let mut recorder = recorder();
        let failed = || EventIntent::failed_create(&web(1), &"quota exceeded");
        assert_eq!(
            totals(&mut recorder, (0..40).map(|_| failed()), now(0)),
            (1, 24)
        );
        let EventWrite::Patch(patch) = recorder.record(failed(), now(300)).unwrap() else {
            panic!()
        };
        assert_eq!(
            (patch.count, patch.message.as_str()),
            (41, "Error creating: quota exceeded")
        );
        assert_eq!(
            patch.body(),
            json!({"count": 41, "lastTimestamp": "2027-01-15T08:05:00Z", "message": patch.message})
        );
    }

    #[test]
    fn a_silent_group_starts_anew_after_more_than_600_seconds() {
        for (silence, combined) in [(600, true), (601, false)] {
            let mut recorder = recorder();
            totals(&mut recorder, (0..9).map(|pod| created(1, pod)), now(0));
            let write = recorder.record(created(1, 99), now(silence)).unwrap();
            let EventWrite::Create(event) = write else {
                panic!("{write:?}")
            };
            let message = &*event.message;
            assert_eq!(
                message.starts_with(COMBINED),
                combined,
                "{silence} s: {message}"
            );
        }
    }

    #[test]
    fn other_objects_are_apart_and_other_versions_are_not() {
        let mut recorder = recorder();
        assert_eq!(
            totals(&mut recorder, (0..40).map(|n| created(n as u64, n)), now(0)),
            (10, 15)
        );
        let mut other = (*web(1)).clone();
        other.uid = Uid::new("8df9bcb8-481d-4037-8798-84343b02ebd7");
        let intent = EventIntent::deleted_pod(&Arc::new(other), &"web-x".into());
        assert!(recorder.record(intent, now(0)).is_some());
    }

    #[test]
    fn an_event_has_the_fields_of_core_v1() {
        let mut recorder = recorder();
        let Some(EventWrite::Create(event)) = recorder.record(created(12, 3), now(0)) else {
            panic!()
        };
        assert_eq!(event.metadata.name, "web.18fae27693b40000");
        assert_eq!(&*event.metadata.namespace, "shop");
        assert_eq!(
            event.to_json(),
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": "web.18fae27693b40000", "namespace": "shop"},
                "involvedObject": {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "namespace": "shop", "resourceVersion": "12",
                    "uid": "7f420cbd-206a-47ea-a64a-f37288a6840d",
                },
                "reason": "SuccessfulCreate", "message": "Created pod: web-3", "type": "Normal",
                "count": 1,
                "firstTimestamp": "2027-01-15T08:00:00Z", "lastTimestamp": "2027-01-15T08:00:00Z",
                "source": {"component": "replicaset-controller"},
                "reportingComponent": "replicaset-controller", "reportingInstance": "",
            })
        );
    }

    #[test]
    fn a_patched_event_that_is_gone_is_created_with_its_count() {
        let mut recorder = recorder();
        let deleted = || EventIntent::deleted_pod(&web(1), &"web-1".into());
        let Some(EventWrite::Create(first)) = recorder.record(deleted(), now(0)) else {
            panic!()
        };
        let Some(EventWrite::Patch(patch)) = recorder.record(deleted(), now(60)) else {
            panic!()
        };
        let again = patch.to_event();
        assert_eq!(again.metadata, first.metadata);
        assert_eq!(again.count, 2);
        assert_eq!(again.first_timestamp, first.first_timestamp);
        assert_eq!(again.last_timestamp, now(60).wall());
        assert!(Arc::ptr_eq(&again.topic, &first.topic));
    }

    #[test]
    fn event_names_differ_even_when_the_clock_stands_still() {
        let mut recorder = recorder();
        let mut names = std::collections::BTreeSet::new();
        for pod in 0..9 {
            let Some(EventWrite::Create(event)) = recorder.record(created(1, pod), now(0)) else {
                panic!()
            };
            assert!(names.insert(event.metadata.name));
        }
        assert_eq!(recorder.event_name(&"n".repeat(253), 1).len(), 36);
    }
}
