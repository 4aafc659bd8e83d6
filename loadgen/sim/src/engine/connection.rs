//! What carries the requests of one worker to the server and back: a [`Transport`] with the turns of the
//! client's limiter, the time that a call takes, and, in a disturbed run, what goes wrong on the way.
//!
//! The requests of one batch are concurrent: each has its own turn and its own latency. What takes no
//! time is answered at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use podstorm::client::{Answer, ApiError, Request};
use podstorm::driver::{Transport, Workload};
use podstorm::intern::KeyId;
use podstorm_objects::Now;

use super::client::{ApiCalls, RequestInfo, Trip, retry_after_ns};
use super::pool::Pool;
use super::probe::{Origin, SyncId};
use crate::faults::line::Stray;
use crate::faults::{Call, CrashPoint, Fate, Mark, Place, Sent};

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

/// How far the requests of a sync have come.
#[derive(Debug)]
pub(super) enum Travel {
    /// That request has its answer, for good.
    Answered(usize, Answer),
    /// Something happens at that moment, ns, and nothing before.
    Until(i64),
    /// Nothing is on its way.
    Over,
}

/// The way to the server of one worker's syncs.
#[derive(Debug)]
pub(super) struct Connection<W: Workload> {
    pool: Arc<Pool<W>>,
    trip: Trip,
    /// Whether requests are carried out where they are made.
    is_direct: bool,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// Requests sent so far, those sent again among them.
    sent: u64,
    /// Requests that the sync has asked for.
    pub(super) asked: u32,
    /// Requests that were carried out at once, ever.
    pub(super) carried_out: u32,
    /// The key that is synced, the number of that sync among those of the controller, and how many
    /// batches it has sent.
    key: KeyId,
    pub(super) number: u64,
    batches: u32,
    pub(super) calls: ApiCalls,
}

impl<W: Workload> Connection<W> {
    pub(super) fn new(pool: Arc<Pool<W>>, trip: Trip) -> Connection<W> {
        let is_direct = pool.wire.is_none() && pool.client.is_unlimited() && trip.is_zero();
        Connection {
            pool,
            trip,
            is_direct,
            in_flight: BinaryHeap::new(),
            sent: 0,
            asked: 0,
            carried_out: 0,
            key: KeyId::default(),
            number: 0,
            batches: 0,
            calls: ApiCalls::default(),
        }
    }

    /// The connection at that moment.
    pub(super) fn at(&mut self, now: Now) -> At<'_, W> {
        At(self, now)
    }

    /// A sync begins.
    pub(super) fn begin(&mut self, key: KeyId, number: u64) {
        (self.key, self.number) = (key, number);
        (self.batches, self.asked) = (0, 0);
    }

    /// The sync, by the line that it is on; only in a disturbed run.
    pub(super) fn sync_id(&self) -> Option<SyncId> {
        let wire = self.pool.wire.as_ref()?;
        Some(SyncId {
            incarnation: wire.line.incarnation(),
            kind: self.pool.controller.kind(),
            number: self.number,
        })
    }

    /// Moves what travels, until an answer is there.
    pub(super) fn travel(&mut self, requests: &[Request], now: Now) -> Travel {
        while let Some(Reverse(first)) = self.in_flight.peek() {
            if first.due_ns > now.mono_ns {
                return Travel::Until(first.due_ns);
            }
            let Some(Reverse(flight)) = self.in_flight.pop() else {
                break;
            };
            let (index, attempts) = (flight.index, flight.attempts);
            let answer = match flight.state {
                Way::There { back_ns, fault } => {
                    self.deliver(index, &requests[index], attempts, back_ns, fault, now)
                }
                Way::Back(answer) => Some(answer),
            };
            if let Some(answer) = answer
                && let Some(answer) = self.accept(index, &requests[index], attempts, answer, now)
            {
                return Travel::Answered(index, answer);
            }
            if self.pool.is_dead() {
                return Travel::Over;
            }
        }
        Travel::Over
    }

    /// Lets what is on its way to the server go on alone: the controller is dead.
    pub(super) fn abandon(&mut self, requests: &[Request]) {
        let flights = std::mem::take(&mut self.in_flight);
        for Reverse(flight) in flights.into_sorted_vec().into_iter().rev() {
            if matches!(flight.state, Way::There { .. }) {
                self.stray(&requests[flight.index], flight.due_ns, false);
            }
        }
    }

    /// Sends one request when the limiter lets it, not before `not_before_ns`.
    fn depart(
        &mut self,
        index: usize,
        request: &Request,
        attempts: u32,
        not_before_ns: i64,
        now: Now,
    ) {
        let verb = RequestInfo::of(request).verb;
        let wait_ns = self.pool.client.reserve_ns(verb, now);
        let turn_ns = now.mono_ns.saturating_add(wait_ns);
        let (due_ns, back_ns) = self.trip.times_ns(turn_ns.max(not_before_ns));
        let fate = match self.trip.refused() {
            Some(error) => Fate::Refuse(error, 0),
            None => self.fate(index, request, attempts, now),
        };
        let mut fault = Fault::None;
        let mut late_ns = 0;
        match fate {
            Fate::Pass => {}
            Fate::Slow(by_ns) => late_ns = by_ns,
            Fate::Refuse(error, after_ns) => {
                self.pool
                    .client
                    .count_failed(request, &error, &mut self.calls);
                let answer = Way::Back(Answer::Failed(error));
                return self.push(back_ns.saturating_add(after_ns), index, attempts, answer);
            }
            Fate::LoseAnswer(error) => fault = Fault::Lost(Box::new(error)),
            Fate::CommitLate(error, after_ns) => {
                self.stray(request, due_ns.saturating_add(after_ns), true);
                return self.push(back_ns, index, attempts, Way::Back(Answer::Failed(error)));
            }
            Fate::Twice(mark) => {
                self.stray(request, due_ns, true);
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
    fn fate(&self, index: usize, request: &Request, attempts: u32, now: Now) -> Fate {
        let (Some(wire), Some(sync)) = (&self.pool.wire, self.sync_id()) else {
            return Fate::Pass;
        };
        let parent = self.pool.controller.name(self.key);
        let place = Place {
            // The batch that is being sent has been counted; one that is sent again counts as the next.
            batch: self.batches - u32::from(attempts == 0),
            index: u32::try_from(index).unwrap_or(u32::MAX),
        };
        if attempts == 0 {
            let workload = &*self.pool.controller;
            wire.probe.sends(sync, workload, request, place, now);
        }
        let sent = Sent {
            call: Call::of(request),
            request: Some(request),
            parent: &parent.name,
            place,
        };
        wire.line.fate(&sent, now)
    }

    /// Lets a request go on alone.
    fn stray(&self, request: &Request, due_ns: i64, answered: bool) {
        let Some(line) = self.pool.line() else { return };
        line.stray(Stray {
            due_ns,
            incarnation: line.incarnation(),
            kind: self.pool.controller.kind(),
            sync: self.number,
            answered,
            request: request.clone(),
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

    /// The request has reached the server; its answer, if that takes no time to come back.
    fn deliver(
        &mut self,
        index: usize,
        asked: &Request,
        attempts: u32,
        back_ns: i64,
        fault: Fault,
        now: Now,
    ) -> Option<Answer> {
        let request = match &fault {
            Fault::Changed(request) => request,
            _ => asked,
        };
        if let (Some(wire), Some(sync)) = (&self.pool.wire, self.sync_id()) {
            wire.probe.carries_out(Some(Origin { sync, stray: false }));
        }
        let wire = self.pool.wire.as_ref();
        let planted = wire.and_then(|wire| wire.probe.plants(request));
        let (client, calls) = (&self.pool.client, &mut self.calls);
        let mut answer =
            client.carry_out(planted.as_ref().map_or(request, |all| &all[0]), calls, now);
        for more in planted.iter().flatten().skip(1) {
            answer = client.carry_out(more, calls, now);
        }
        if let Some(wire) = &self.pool.wire {
            wire.probe.carries_out(None);
        }
        match fault {
            Fault::Lost(error) => answer = Answer::Failed(*error),
            // Two pods, or another answer than the first had.
            Fault::Again(mark) => {
                let is_create = matches!(asked, Request::CreatePod { .. });
                if let Some(line) = self.pool.line()
                    && (is_create || matches!(answer, Answer::Failed(_)))
                {
                    line.network().notice(mark);
                }
            }
            Fault::None | Fault::Changed(_) => {}
        }
        if self.pool.dies_at(CrashPoint::AfterCommit) {
            return None;
        }
        if back_ns > now.mono_ns {
            self.push(back_ns, index, attempts, Way::Back(answer));
            return None;
        }
        Some(answer)
    }

    /// An answer is here: it is given to the sync, unless the call is to be sent again.
    fn accept(
        &mut self,
        index: usize,
        request: &Request,
        attempts: u32,
        mut answer: Answer,
        now: Now,
    ) -> Option<Answer> {
        if let Some(wait_ns) = retry_after_ns(&answer, attempts) {
            self.depart(index, request, attempts + 1, now.mono_ns + wait_ns, now);
            return None;
        }
        if let Answer::Failed(error) = &mut answer {
            error.resent = attempts > 0;
        }
        if let (Some(wire), Some(sync)) = (&self.pool.wire, self.sync_id()) {
            wire.probe.answered(sync, request, &answer, now);
        }
        Some(answer)
    }
}

/// The connection at a moment of the cluster's time, whatever the controller's own clock says.
#[derive(Debug)]
pub(super) struct At<'a, W: Workload>(&'a mut Connection<W>, Now);

impl<W: Workload> Transport for At<'_, W> {
    fn send(&mut self, index: usize, request: &Request, _: Now) -> Option<Answer> {
        let At(connection, now) = self;
        let now = *now;
        if index == 0 {
            connection.batches = connection.batches.wrapping_add(1);
        }
        connection.asked += 1;
        if connection.is_direct {
            connection.carried_out = connection.carried_out.wrapping_add(1);
            let answer = connection.deliver(index, request, 0, now.mono_ns, Fault::None, now)?;
            return connection.accept(index, request, 0, answer, now);
        }
        if !connection.pool.dies_at(CrashPoint::BeforeRequest) {
            connection.depart(index, request, 0, now.mono_ns, now);
        }
        None
    }
}
