//! Writes Kubernetes Events. Workers put Events into a queue. One task for each controller
//! correlates the Events and writes those that remain to the API server, one at a time, through the
//! same rate limiter as the requests of syncs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use podstorm::client::{ApiError, EVENT_QUEUE_MAX, EventIntent, EventPatch, EventSink, SinkStep};
use podstorm_objects::{Event, Kind, Now};

use super::client::{ApiCalls, CallLatency, Client, RequestInfo};
use crate::executor::{Executor, Next, Task, TaskId};
use crate::faults::{BatchPosition, Call, Connection, InjectedOutcome, OutgoingRequest};
use crate::lock;

/// The maximum number of writes in one run of the task.
const WRITES_PER_RUN: u32 = 64;

/// A queue of Events to write. Events beyond [`EVENT_QUEUE_MAX`] are dropped.
#[derive(Debug)]
pub struct EventQueue {
    executor: Arc<Executor>,
    sink: TaskId,
    inbox: Mutex<Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    waiting: VecDeque<(EventIntent, Now)>,
    /// The number of Events that syncs have recorded, dropped ones included, by type and reason.
    recorded: BTreeMap<(&'static str, &'static str), u64>,
    dropped: u64,
}

impl EventQueue {
    pub(crate) fn new(executor: Arc<Executor>, sink: TaskId) -> EventQueue {
        EventQueue {
            executor,
            sink,
            inbox: Mutex::default(),
        }
    }

    /// Adds the Events of a sync, and wakes the writer.
    pub(crate) fn offer(&self, intents: impl Iterator<Item = EventIntent>, now: Now) {
        let mut inbox = lock(&self.inbox);
        for intent in intents {
            *inbox
                .recorded
                .entry((intent.kind.as_str(), intent.reason))
                .or_default() += 1;
            if inbox.waiting.len() < EVENT_QUEUE_MAX {
                inbox.waiting.push_back((intent, now));
            } else {
                inbox.dropped += 1;
            }
        }
        drop(inbox);
        self.executor.wake(self.sink);
    }

    /// Adds the counts of recorded Events to a table, with keys like `Normal SuccessfulCreate`.
    pub fn add_to(&self, table: &mut BTreeMap<String, u64>) {
        let inbox = lock(&self.inbox);
        for ((kind, reason), count) in &inbox.recorded {
            *table.entry(format!("{kind} {reason}")).or_default() += count;
        }
    }

    /// Returns the number of Events dropped because this queue was full.
    pub fn dropped(&self) -> u64 {
        lock(&self.inbox).dropped
    }
}

/// Writes the Events of one controller.
#[derive(Debug)]
pub struct EventWriter {
    queue: Arc<EventQueue>,
    client: Arc<Client>,
    sink: EventSink,
    call_latency: CallLatency,
    random: fastrand::Rng,
    stage: Stage,
    /// The writer's API calls.
    pub calls: ApiCalls,
    /// The number of Events written or repeated.
    pub written: u64,
    /// The connection, if the run has fault injection or an observer.
    connection: Option<Arc<Connection>>,
}

/// The state of the write in progress.
#[derive(Debug)]
enum Stage {
    /// No write is in progress.
    None,
    /// The write is in flight, and reaches the server at `due_ns`; its answer arrives at `back_ns`.
    ToServer {
        write: Write,
        due_ns: i64,
        back_ns: i64,
    },
    /// The write was carried out or rejected; its answer arrives at `due_ns`.
    ToClient {
        outcome: Result<(), ApiError>,
        due_ns: i64,
    },
}

#[derive(Debug)]
enum Write {
    Create(Event),
    Patch(EventPatch),
}

impl EventWriter {
    pub(crate) fn new(
        sink: EventSink,
        queue: Arc<EventQueue>,
        client: Arc<Client>,
        call_latency: CallLatency,
        seed: u64,
        connection: Option<Arc<Connection>>,
    ) -> EventWriter {
        EventWriter {
            queue,
            client,
            sink,
            call_latency,
            random: fastrand::Rng::with_seed(seed),
            stage: Stage::None,
            calls: ApiCalls::default(),
            written: 0,
            connection,
        }
    }

    /// Returns the number of Events that the writer dropped because its own queue was full.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }

    fn carry_out(&mut self, write: Write, now: Now) -> Result<(), ApiError> {
        let cluster = &self.client.cluster;
        let (verb, success, outcome) = match write {
            Write::Create(event) => ("create", 201, cluster.create(event, now).map(drop)),
            Write::Patch(patch) => ("patch", 200, cluster.repeat_event(&patch, now).map(drop)),
        };
        let code = outcome
            .as_ref()
            .map_or_else(|error| error.code, |()| success);
        self.calls.count(RequestInfo::new(verb, Kind::EVENT), code);
        outcome
    }

    fn answered(&mut self, outcome: &Result<(), ApiError>, now: Now) {
        self.written += u64::from(outcome.is_ok());
        let random = self.random.f64();
        self.sink
            .answered(outcome.as_ref().map(|_| ()), now, random);
    }

    /// Advances the write in progress. Returns the time of its next step, ns, or `None` if it is
    /// over or no write is in progress.
    fn travel(&mut self, now: Now) -> Option<i64> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::None) {
                Stage::None => return None,
                Stage::ToServer {
                    write,
                    due_ns,
                    back_ns,
                } if due_ns <= now.mono_ns => {
                    let outcome = self.carry_out(write, now);
                    self.stage = Stage::ToClient {
                        outcome,
                        due_ns: back_ns,
                    };
                }
                Stage::ToClient { outcome, due_ns } if due_ns <= now.mono_ns => {
                    self.answered(&outcome, now);
                }
                waiting => {
                    let (Stage::ToServer { due_ns, .. } | Stage::ToClient { due_ns, .. }) =
                        &waiting
                    else {
                        return None;
                    };
                    let due_ns = *due_ns;
                    self.stage = waiting;
                    return Some(due_ns);
                }
            }
        }
    }

    /// Sends a write. Fault injection may reject or delay it.
    fn depart(&self, write: Write, due_ns: i64, back_ns: i64, now: Now) -> Stage {
        let outcome = self
            .connection
            .as_ref()
            .map_or(InjectedOutcome::Pass, |connection| {
                let sent = OutgoingRequest {
                    call: Call::WriteEvent,
                    request: None,
                    workload: "",
                    position: BatchPosition::default(),
                };
                connection.inject(&sent, now)
            });
        let late_ns = match outcome {
            InjectedOutcome::Refuse(error, after_ns) => {
                return Stage::ToClient {
                    outcome: Err(error),
                    due_ns: back_ns.saturating_add(after_ns),
                };
            }
            InjectedOutcome::Slow(by_ns) => by_ns,
            _ => 0,
        };
        Stage::ToServer {
            write,
            due_ns: due_ns.saturating_add(late_ns),
            back_ns: back_ns.saturating_add(late_ns * 2),
        }
    }

    fn take_in(&mut self) {
        let queue = Arc::clone(&self.queue);
        let mut inbox = lock(&queue.inbox);
        for (intent, now) in inbox.waiting.drain(..) {
            self.sink.push(intent, now);
        }
    }
}

impl Task for EventWriter {
    fn run(&mut self, now: Now) -> Next {
        if let Some(connection) = &self.connection
            && let Some(until_ns) = connection.stopped_until(now)
        {
            return Next::not_before(until_ns);
        }
        self.take_in();
        for _ in 0..WRITES_PER_RUN {
            if let Some(due_ns) = self.travel(now) {
                return Next::At(due_ns);
            }
            let write = match self.sink.next(now) {
                SinkStep::Idle | SinkStep::InFlight => return Next::Idle,
                SinkStep::Wait { until_ns } => return Next::At(until_ns),
                SinkStep::Create(event) => Write::Create(event.clone()),
                SinkStep::Patch(patch) => Write::Patch(patch.clone()),
            };
            let verb = match &write {
                Write::Create(_) => "create",
                Write::Patch(_) => "patch",
            };
            let sent_ns = now
                .mono_ns
                .saturating_add(self.client.reserve_ns(verb, now));
            let (due_ns, back_ns) = self.call_latency.times_ns(sent_ns);
            self.stage = self.depart(write, due_ns, back_ns, now);
        }
        Next::Again
    }
}
