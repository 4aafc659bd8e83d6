//! Controller workers: each part is one concurrent sync. A worker takes a key, lets the sync say
//! what it wants from the API, carries that out, and hands the answers back until it is done.
//!
//! The requests of one batch are concurrent: each has its own turn at the limiter and its own
//! latency, and the sync goes on when the last answer is here. A worker with nothing to do lists
//! itself as idle; whoever adds keys wakes as many idle workers as there are keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm::client::{Answer, ApiError, Request};
use podstorm::intern::KeyId;
use podstorm::replicaset::{Outcome, Step, Sync, SyncErrorClass};
use podstorm_objects::Now;

use super::by_phase::Recorder;
use super::client::{ApiCalls, Trip, retry_after_ns};
use super::pool::Pool;
use super::probe::{Origin, SyncId};
use crate::executor::{Next, Part, PartId};
use crate::faults::line::Stray;
use crate::faults::{Call, CrashPoint, Fate, Line, Mark, Place, Sent};

/// A run ends after that many syncs…
const SYNCS_PER_RUN: u32 = 16;

/// …or after the sync with which it has carried out that many requests.
const REQUESTS_PER_RUN: u32 = 64;

/// A request on its way.
#[derive(Debug)]
struct InFlight {
    due_ns: i64,
    number: u64,
    index: usize,
    attempts: u32,
    state: Way,
}

#[derive(Debug)]
enum Way {
    /// To the server; the answer will be here at that moment.
    There { back_ns: i64, fault: Fault },
    /// Back, with the answer.
    Back(Answer),
}

/// What a request meets on its way, besides its latency.
#[derive(Debug)]
enum Fault {
    None,
    /// Its answer is lost, and this comes back instead.
    Lost(Box<ApiError>),
    /// It has become another request.
    Changed(Box<Request>),
    /// It was carried out before, by whose fault.
    Again(Option<Mark>),
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

/// One concurrent sync.
#[derive(Debug)]
pub struct Worker {
    id: PartId,
    pool: Arc<Pool>,
    trip: Trip,
    sync: Sync,
    /// Whether a sync is under way.
    busy: bool,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    sent: u64,
    /// The sync's number among those of the controller, and how many batches it has sent.
    number: u64,
    batches: u32,
    begun_at: Now,
    /// What it counts.
    pub tally: Tally,
    /// What it measures.
    pub recorder: Recorder,
}

/// What a worker counts.
#[derive(Debug)]
pub struct Tally {
    /// Its API calls.
    pub calls: ApiCalls,
    /// By outcome, in the order of [`OUTCOMES`].
    pub syncs: [u64; OUTCOMES.len()],
    /// Syncs that asked for nothing.
    pub syncs_without_requests: u64,
}

/// How a sync can end, in words.
pub const OUTCOMES: [&str; 8] = [
    "ok",
    "stale cache",
    "identity",
    "claim failed",
    "create failed",
    "delete failed",
    "status failed",
    "fence failed",
];

fn outcome_index(outcome: &Outcome) -> usize {
    let Outcome::Failed(error) = outcome else {
        return 0;
    };
    match error.class {
        SyncErrorClass::Consistency(_) => 1,
        SyncErrorClass::Identity => 2,
        SyncErrorClass::Claim => 3,
        SyncErrorClass::Create => 4,
        SyncErrorClass::Delete => 5,
        SyncErrorClass::Status => 6,
        SyncErrorClass::Fence => 7,
    }
}

impl Worker {
    pub(crate) fn new(id: PartId, pool: Arc<Pool>, trip: Trip) -> Worker {
        let recorder = Recorder::new(Arc::clone(&pool.times), Arc::clone(&pool.recorded));
        Worker {
            id,
            recorder,
            pool,
            trip,
            sync: Sync::new(),
            busy: false,
            in_flight: BinaryHeap::new(),
            sent: 0,
            number: 0,
            batches: 0,
            begun_at: Now::default(),
            tally: Tally {
                calls: ApiCalls::default(),
                syncs: [0; OUTCOMES.len()],
                syncs_without_requests: 0,
            },
        }
    }

    /// Sends every request of the batch. Those that take no time are answered at once; returns how
    /// many were.
    fn send_batch(&mut self, now: Now) -> u32 {
        let at_once =
            self.pool.wire.is_none() && self.pool.client.is_unlimited() && self.trip.is_zero();
        let count = self.sync.requests().len();
        for index in 0..count {
            if at_once {
                self.deliver(index, 0, now.mono_ns, Fault::None, now);
            } else if self.pool.dies_at(CrashPoint::BeforeRequest) {
                return 0;
            } else {
                self.send(index, 0, now.mono_ns, now);
            }
        }
        self.batches += 1;
        if at_once {
            u32::try_from(count).unwrap_or(u32::MAX)
        } else {
            0
        }
    }

    /// Sends one request when the limiter lets it, not before `not_before_ns`.
    fn send(&mut self, index: usize, attempts: u32, not_before_ns: i64, now: Now) {
        let (verb, _) = Call::of(&self.sync.requests()[index]).verb_and_resource();
        let wait_ns = self.pool.client.reserve_ns(verb, now);
        let turn_ns = now.mono_ns.saturating_add(wait_ns);
        let (due_ns, back_ns) = self.trip.times_ns(turn_ns.max(not_before_ns));
        let fate = match self.trip.refused() {
            Some(error) => Fate::Refuse(error, 0),
            None => self.fate(index, attempts, now),
        };
        let mut fault = Fault::None;
        let mut late_ns = 0;
        match fate {
            Fate::Pass => {}
            Fate::Slow(by_ns) => late_ns = by_ns,
            Fate::Refuse(error, after_ns) => {
                self.pool.client.count_failed(
                    &self.sync.requests()[index],
                    &error,
                    &mut self.tally.calls,
                );
                let answer = Way::Back(Answer::Failed(error));
                return self.push(back_ns.saturating_add(after_ns), index, attempts, answer);
            }
            Fate::LoseAnswer(error) => fault = Fault::Lost(Box::new(error)),
            Fate::CommitLate(error, after_ns) => {
                self.stray(index, due_ns.saturating_add(after_ns), true);
                return self.push(back_ns, index, attempts, Way::Back(Answer::Failed(error)));
            }
            Fate::Twice(mark) => {
                self.stray(index, due_ns, true);
                late_ns = 1_000;
                fault = Fault::Again(mark);
            }
            Fate::Changed(request) => fault = Fault::Changed(request),
        }
        let way = Way::There {
            back_ns: back_ns.saturating_add(late_ns * 2),
            fault,
        };
        self.push(due_ns.saturating_add(late_ns), index, attempts, way);
        self.pool.dies_at(CrashPoint::AfterRequest);
    }

    /// What becomes of a request, and who is told that it is sent.
    fn fate(&self, index: usize, attempts: u32, now: Now) -> Fate {
        let Some(wire) = &self.pool.wire else {
            return Fate::Pass;
        };
        let request = &self.sync.requests()[index];
        let parent = self.pool.controller.parents().name(self.sync.key());
        let place = Place {
            batch: self.batches,
            index: u32::try_from(index).unwrap_or(u32::MAX),
        };
        if attempts == 0 {
            wire.probe.sends(
                self.sync_id(&wire.line),
                &self.pool.controller,
                request,
                place,
                now,
            );
        }
        let sent = Sent {
            call: Call::of(request),
            request: Some(request),
            parent: &parent.name,
            place,
        };
        wire.line.fate(&sent, now)
    }

    fn sync_id(&self, line: &Line) -> SyncId {
        SyncId {
            incarnation: line.incarnation(),
            kind: self.pool.controller.options().kind,
            number: self.number,
        }
    }

    /// Lets a request go on alone.
    fn stray(&self, index: usize, due_ns: i64, answered: bool) {
        let Some(line) = self.pool.line() else { return };
        line.stray(Stray {
            due_ns,
            incarnation: line.incarnation(),
            kind: self.pool.controller.options().kind,
            sync: self.number,
            answered,
            request: self.sync.requests()[index].clone(),
        });
    }

    fn push(&mut self, due_ns: i64, index: usize, attempts: u32, state: Way) {
        self.sent += 1;
        let flight = InFlight {
            due_ns,
            number: self.sent,
            index,
            attempts,
            state,
        };
        self.in_flight.push(Reverse(flight));
    }

    /// The request has reached the server.
    fn deliver(&mut self, index: usize, attempts: u32, back_ns: i64, fault: Fault, now: Now) {
        let request = match &fault {
            Fault::Changed(request) => request,
            _ => &self.sync.requests()[index],
        };
        if let Some(wire) = &self.pool.wire {
            let sync = self.sync_id(&wire.line);
            wire.probe.carries_out(Some(Origin { sync, stray: false }));
        }
        let mut answer = self
            .pool
            .client
            .carry_out(request, &mut self.tally.calls, now);
        if let Some(wire) = &self.pool.wire {
            wire.probe.carries_out(None);
        }
        match fault {
            Fault::Lost(error) => answer = Answer::Failed(*error),
            // Two pods, or another answer than the first had.
            Fault::Again(mark) => {
                let is_create = matches!(self.sync.requests()[index], Request::CreatePod { .. });
                if let Some(line) = self.pool.line()
                    && (is_create || matches!(answer, Answer::Failed(_)))
                {
                    line.network().notice(mark);
                }
            }
            Fault::None | Fault::Changed(_) => {}
        }
        if self.pool.dies_at(CrashPoint::AfterCommit) {
            return;
        }
        if back_ns > now.mono_ns {
            self.push(back_ns, index, attempts, Way::Back(answer));
        } else {
            self.accept(index, attempts, answer, now);
        }
    }

    /// The answer is here: the sync gets it, unless the call is to be sent again.
    fn accept(&mut self, index: usize, attempts: u32, mut answer: Answer, now: Now) {
        match retry_after_ns(&answer, attempts) {
            Some(wait_ns) => self.send(index, attempts + 1, now.mono_ns + wait_ns, now),
            None => {
                if let Answer::Failed(error) = &mut answer {
                    error.resent = attempts > 0;
                }
                if let Some(wire) = &self.pool.wire {
                    let request = &self.sync.requests()[index];
                    let sync = self.sync_id(&wire.line);
                    wire.probe.answered(sync, request, &answer, now);
                }
                self.sync.answer(index, answer);
                self.pool.dies_at(CrashPoint::AfterAnswer);
            }
        }
    }

    /// Lets what is on its way to the server go on alone: the controller is dead.
    pub(crate) fn abandon(&mut self) {
        let flights = std::mem::take(&mut self.in_flight);
        for Reverse(flight) in flights.into_sorted_vec().into_iter().rev() {
            if matches!(flight.state, Way::There { .. }) {
                self.stray(flight.index, flight.due_ns, false);
            }
        }
    }

    /// Moves what travels; returns the next moment at which something does, if any.
    fn travel(&mut self, now: Now) -> Option<i64> {
        loop {
            let Reverse(first) = self.in_flight.peek()?;
            if first.due_ns > now.mono_ns {
                return Some(first.due_ns);
            }
            let Reverse(flight) = self.in_flight.pop()?;
            match flight.state {
                Way::There { back_ns, fault } => {
                    self.deliver(flight.index, flight.attempts, back_ns, fault, now);
                }
                Way::Back(answer) => self.accept(flight.index, flight.attempts, answer, now),
            }
            if self.pool.is_dead() {
                return None;
            }
        }
    }

    fn begin(&mut self, key: KeyId, now: Now) -> Step {
        let now = self.pool.present(now);
        self.busy = true;
        self.begun_at = now;
        self.batches = 0;
        // Release: see `Pool::rests_after`.
        self.number = self.pool.begun.fetch_add(1, Ordering::Release) + 1;
        if let Some(wire) = &self.pool.wire {
            let sync = self.sync_id(&wire.line);
            wire.probe
                .sync_begins(sync, &self.pool.controller, key, now);
        }
        let now = self.pool.own_clock(now);
        self.pool.controller.begin(key, &mut self.sync, now)
    }

    fn finish(&mut self, now: Now) {
        let now = self.pool.present(now);
        let pool = &*self.pool;
        self.busy = false;
        {
            let events = self.sync.take_events();
            if events.len() > 0 {
                pool.events.offer(events, now);
            }
        }
        let tally = &mut self.tally;
        tally.syncs[outcome_index(self.sync.outcome())] += 1;
        let asked_nothing = self.sync.requests_made() == 0;
        tally.syncs_without_requests += u64::from(asked_nothing);
        let begun_ns = self.begun_at.mono_ns;
        let took_ns = u64::try_from(now.mono_ns - begun_ns).unwrap_or(0);
        self.recorder.worked(begun_ns, took_ns, asked_nothing);
        if let Some(wire) = &pool.wire {
            let outcome = self.sync.outcome();
            wire.probe.sync_ended(
                SyncId {
                    incarnation: wire.line.incarnation(),
                    kind: pool.controller.options().kind,
                    number: self.number,
                },
                &pool.controller,
                outcome,
                now,
            );
        }
        pool.controller.finish(&mut self.sync, pool.own_clock(now));
        // Release: see `Pool::rests_after`.
        pool.finished.fetch_add(1, Ordering::Release);
        pool.keys_added(now);
    }
}

impl Part for Worker {
    fn run(&mut self, now: Now) -> Next {
        let pool = Arc::clone(&self.pool);
        if let Some(until_ns) = pool.stopped_until(now) {
            return Next::not_before(until_ns);
        }
        let (mut syncs, mut requests) = (0, 0);
        loop {
            let step = if self.busy {
                if let Some(due_ns) = self.travel(now) {
                    return Next::At(due_ns);
                }
                if pool.is_dead() {
                    return Next::Idle;
                }
                let own = pool.own_clock(now);
                pool.controller.resume(&mut self.sync, own)
            } else {
                if syncs >= SYNCS_PER_RUN || requests >= REQUESTS_PER_RUN {
                    return Next::Again;
                }
                let Some((key, waited_ns)) = pool.take(now) else {
                    pool.list_idle(self.id);
                    pool.keys_added(now);
                    return Next::Idle;
                };
                if pool.dies_at(CrashPoint::AfterTake) {
                    return Next::Idle;
                }
                syncs += 1;
                self.recorder.taken(waited_ns, now.mono_ns);
                self.begin(key, now)
            };
            match step {
                Step::Requests => requests += self.send_batch(now),
                Step::Finished => self.finish(now),
            }
            if pool.is_dead() {
                return Next::Idle;
            }
        }
    }
}
