//! The way of events to the API: a bounded queue, the recorder, and the retries of the one write
//! that is under way. A state machine: a driver makes the calls and knows the time.

use std::collections::VecDeque;

use podstorm_objects::{Event, Now};

use super::{ApiError, EventIntent, EventPatch, EventRecorder, EventWrite};

/// Intents that wait; more are dropped.
pub const EVENT_QUEUE_MAX: usize = 1000;

/// How often a write is tried in all.
const TRIES_MAX: u32 = 12;

/// Between two tries: 10 s, the first time a random part of it.
const RETRY_NS: i64 = 10_000_000_000;

/// The events of one controller on their way out.
#[derive(Debug)]
pub struct EventSink {
    recorder: EventRecorder,
    queue: VecDeque<(EventIntent, Now)>,
    current: Option<Current>,
    dropped: u64,
}

/// The write that is under way.
#[derive(Debug)]
struct Current {
    write: EventWrite,
    /// The event whose patch was answered with 404, to create now.
    replacement: Option<Event>,
    tries: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be sent at that time, monotonic ns.
    Due(i64),
    /// Sent, not answered.
    Sent,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum SinkStep<'a> {
    /// Nothing until something is pushed.
    Idle,
    /// Nothing until the answer to the last call is in.
    InFlight,
    /// Nothing until that time, monotonic ns.
    Wait {
        /// When to ask again.
        until_ns: i64,
    },
    /// Create this event, then report the answer.
    Create(&'a Event),
    /// Patch this event, then report the answer.
    Patch(&'a EventPatch),
}

impl EventSink {
    /// The empty sink of `component`, e.g. `replicaset-controller`.
    pub fn new(component: &'static str) -> EventSink {
        EventSink {
            recorder: EventRecorder::new(component),
            queue: VecDeque::new(),
            current: None,
            dropped: 0,
        }
    }

    /// Queues an intent; false when the queue is full and the intent was dropped.
    pub fn push(&mut self, intent: EventIntent, now: Now) -> bool {
        let has_capacity = self.queue.len() < EVENT_QUEUE_MAX;
        if has_capacity {
            self.queue.push_back((intent, now));
        } else {
            self.dropped += 1;
        }
        has_capacity
    }

    /// How many intents were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What to do next. A call is handed out once; its answer goes to
    /// [`answered`](EventSink::answered).
    pub fn next(&mut self, now: Now) -> SinkStep<'_> {
        while self.current.is_none() {
            let Some((intent, made)) = self.queue.pop_front() else {
                return SinkStep::Idle;
            };
            self.current = self.recorder.correlate(intent, made, now).map(Current::new);
        }
        let Some(current) = &mut self.current else {
            return SinkStep::Idle;
        };
        match current.stage {
            Stage::Sent => return SinkStep::InFlight,
            Stage::Due(until_ns) if until_ns > now.mono_ns => return SinkStep::Wait { until_ns },
            Stage::Due(_) => current.stage = Stage::Sent,
        }
        match (&current.replacement, &current.write) {
            (Some(event), _) | (None, EventWrite::Create(event)) => SinkStep::Create(event),
            (None, EventWrite::Patch(patch)) => SinkStep::Patch(patch),
        }
    }

    /// Reports the answer to the last call. Any `Status` but success drops the event, except that
    /// a patch answered with 404 becomes a create; a failed transport is tried again later, and
    /// all other events wait for it. `random` is evenly distributed over 0..1.
    ///
    /// # Panics
    /// When no call is under way.
    pub fn answered(&mut self, answer: Result<(), &ApiError>, now: Now, random: f64) {
        let current = self.current.as_mut().expect("a call is under way");
        assert_eq!(current.stage, Stage::Sent, "the call was handed out");
        let done = match answer {
            Ok(()) => {
                self.recorder.written();
                true
            }
            Err(error) if error.code == 0 => current.retry(now, random),
            Err(error) => current.replace(error, now),
        };
        if done {
            self.current = None;
        }
    }
}

impl Current {
    fn new(write: EventWrite) -> Current {
        Current {
            write,
            replacement: None,
            tries: 0,
            stage: Stage::Due(i64::MIN),
        }
    }

    /// Plans another try from the start; true when there were enough.
    fn retry(&mut self, now: Now, random: f64) -> bool {
        self.tries += 1;
        self.replacement = None;
        let part = if self.tries == 1 { random } else { 1.0 };
        self.stage = Stage::Due(now.mono_ns.saturating_add((RETRY_NS as f64 * part) as i64));
        self.tries >= TRIES_MAX
    }

    /// Plans a create in place of a patch that found nothing; true when the event is given up.
    fn replace(&mut self, error: &ApiError, now: Now) -> bool {
        match &self.write {
            EventWrite::Patch(patch) if self.replacement.is_none() && error.is_not_found() => {
                self.replacement = Some(patch.to_event());
                self.stage = Stage::Due(now.mono_ns);
                false
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::{ObjectReference, Reason};
    use podstorm_objects::Kind;

    const RANDOM: f64 = 0.25;

    fn now(seconds: i64) -> Now {
        Now::default().plus_ns(seconds * 1_000_000_000)
    }

    fn intent(pod: &str) -> EventIntent {
        let regarding = ObjectReference {
            kind: Kind::REPLICA_SET,
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u".into(),
            resource_version: 1.into(),
        };
        EventIntent::deleted_pod(&Arc::new(regarding), &pod.into())
    }

    fn sink(pods: &[&str]) -> EventSink {
        let mut sink = EventSink::new("replicaset-controller");
        for pod in pods {
            assert!(sink.push(intent(pod), now(0)));
        }
        sink
    }

    #[test]
    fn one_write_is_under_way_at_a_time() {
        let mut sink = sink(&["a", "b"]);
        assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
        assert_eq!(sink.next(now(0)), SinkStep::InFlight);
        sink.answered(Ok(()), now(1), RANDOM);
        assert!(matches!(sink.next(now(1)), SinkStep::Create(_)));
        sink.answered(Ok(()), now(1), RANDOM);
        assert_eq!(sink.next(now(1)), SinkStep::Idle);
    }

    #[test]
    fn the_queue_drops_what_is_beyond_1000() {
        let mut sink = sink(&[]);
        for n in 0..1003 {
            assert_eq!(sink.push(intent("a"), now(0)), n < 1000);
        }
        assert_eq!(sink.dropped(), 3);
    }

    #[test]
    fn a_failed_transport_is_tried_12_times_10_seconds_apart() {
        let mut sink = sink(&["a", "b"]);
        let error = ApiError::transport("connection refused");
        let mut at = now(0);
        for tries in 1..=12 {
            assert!(matches!(sink.next(at), SinkStep::Create(_)), "try {tries}");
            sink.answered(Err(&error), at, RANDOM);
            if tries < 12 {
                let wait_ns = if tries == 1 {
                    2_500_000_000
                } else {
                    10_000_000_000
                };
                let until_ns = at.mono_ns + wait_ns;
                assert_eq!(sink.next(at), SinkStep::Wait { until_ns });
                at = at.plus_ns(wait_ns);
            }
        }
        // The first event is given up, the second one's turn has come.
        assert!(matches!(sink.next(at), SinkStep::Create(_)));
    }

    #[test]
    fn a_status_other_than_success_drops_the_event() {
        let mut sink = sink(&["a"]);
        let error = ApiError::status(403, Reason::Forbidden, "being terminated");
        assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
        sink.answered(Err(&error), now(0), RANDOM);
        assert_eq!(sink.next(now(0)), SinkStep::Idle);
    }

    #[test]
    fn a_patch_that_finds_nothing_becomes_a_create() {
        let mut sink = sink(&["a", "a"]);
        let gone = ApiError::status(404, Reason::NotFound, "gone");
        assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
        sink.answered(Ok(()), now(0), RANDOM);
        assert!(matches!(sink.next(now(0)), SinkStep::Patch(_)));
        sink.answered(Err(&gone), now(0), RANDOM);
        let SinkStep::Create(event) = sink.next(now(0)) else {
            panic!()
        };
        assert_eq!(event.count, 2);
        // A 404 of the create, say of the namespace, ends it.
        sink.answered(Err(&gone), now(0), RANDOM);
        assert_eq!(sink.next(now(0)), SinkStep::Idle);
    }

    #[test]
    fn intents_dropped_by_the_recorder_never_reach_the_driver() {
        let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
        let mut sink = sink(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut writes = 0;
        while sink.next(now(0)) != SinkStep::Idle {
            writes += 1;
            sink.answered(Ok(()), now(0), RANDOM);
        }
        assert_eq!(writes, 25);
    }
}
