//! The path of events to the API: a bounded queue, the recorder, and the retries of the current
//! write. It is a state machine: a driver makes the calls and supplies the time.

use std::collections::VecDeque;

use podstorm_objects::{Event, Now};

use super::{ApiError, EventIntent, EventPatch, EventRecorder, EventStamps, EventWrite};

/// The maximum number of intents in the queue. Further intents are dropped.
pub const EVENT_QUEUE_MAX: usize = 1000;

/// The maximum number of attempts per write.
const TRIES_MAX: u32 = 12;

/// The delay between two attempts, in ns: 10 s. The first delay is a random part of it.
const RETRY_NS: i64 = 10_000_000_000;

/// The outgoing events of one controller.
#[derive(Debug)]
pub struct EventSink {
    recorder: EventRecorder,
    queue: VecDeque<(EventIntent, Now)>,
    current: Option<Current>,
    dropped: u64,
}

/// The write in progress.
#[derive(Debug)]
struct Current {
    write: EventWrite,
    /// The event to create instead, once a patch has been answered with 404.
    replacement: Option<Event>,
    tries: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The call must be sent at this monotonic time, in ns.
    Due(i64),
    /// The call was sent and is not answered yet.
    Sent,
}

/// The driver's next step.
#[derive(Clone, Debug, PartialEq)]
pub enum SinkStep<'a> {
    /// Do nothing until an intent is pushed.
    Idle,
    /// Do nothing until the last call is answered.
    InFlight,
    /// Do nothing until this monotonic time, in ns.
    Wait {
        /// The time at which to call [`EventSink::next`] again.
        until_ns: i64,
    },
    /// Create this event, then report the answer with [`EventSink::answered`].
    Create(&'a Event),
    /// Patch this event, then report the answer with [`EventSink::answered`].
    Patch(&'a EventPatch),
}

impl EventSink {
    /// Creates an empty sink for the events of `component`, e.g. `replicaset-controller`.
    pub fn new(component: &'static str) -> EventSink {
        EventSink {
            recorder: EventRecorder::new(component),
            queue: VecDeque::new(),
            current: None,
            dropped: 0,
        }
    }

    /// Replaces the source of the numbers in event names; see [`EventRecorder::with_stamps`].
    #[must_use]
    pub fn with_stamps(self, stamps: EventStamps) -> EventSink {
        EventSink {
            recorder: self.recorder.with_stamps(stamps),
            ..self
        }
    }

    /// Queues an intent. Returns `false` if the queue is full and the intent was dropped.
    pub fn push(&mut self, intent: EventIntent, now: Now) -> bool {
        let has_capacity = self.queue.len() < EVENT_QUEUE_MAX;
        if has_capacity {
            self.queue.push_back((intent, now));
        } else {
            self.dropped += 1;
        }
        has_capacity
    }

    /// Returns the number of intents that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the next step. Each call is returned only once. The driver reports its answer with
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

    /// Reports the answer to the last call. An error `Status` drops the event, except that a patch
    /// answered with 404 becomes a create. After a transport failure the call is retried later, and
    /// all other events wait for it. `random` is uniformly distributed over 0..1.
    ///
    /// # Panics
    /// Panics if no call is in progress.
    pub fn answered(&mut self, answer: Result<(), &ApiError>, now: Now, random: f64) {
        let current = self.current.as_mut().expect("a call is in progress");
        assert_eq!(
            current.stage,
            Stage::Sent,
            "the call was returned to the driver"
        );
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

    /// Schedules another attempt from the start. Returns whether no attempts are left.
    fn retry(&mut self, now: Now, random: f64) -> bool {
        self.tries += 1;
        self.replacement = None;
        let part = if self.tries == 1 { random } else { 1.0 };
        self.stage = Stage::Due(now.mono_ns.saturating_add((RETRY_NS as f64 * part) as i64));
        self.tries >= TRIES_MAX
    }

    /// Schedules a create in place of a patch that found no event. Returns whether to drop the
    /// event instead.
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
mod tests;
