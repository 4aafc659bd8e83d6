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

use super::client::{ApiCalls, CallLatency, RequestInfo, retry_after_ns};
use super::observer::{Origin, SyncId};
use super::runner::ControllerRunner;
use crate::faults::connection::OrphanedRequest;
use crate::faults::{BatchPosition, Call, CrashPoint, FaultId, InjectedOutcome, OutgoingRequest};

/// A request on its way.
#[derive(Debug)]
struct InFlight {
    due_ns: i64,
    number: u64,
    index: usize,
    attempts: u32,
    state: InFlightState,
}

#[derive(Debug)]
enum InFlightState {
    /// To the server; the answer will be here at that moment.
    ToServer { back_ns: i64, fault: Fault },
    /// ToClient, with the answer.
    ToClient(Answer),
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
    Again(Option<FaultId>),
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
pub(super) struct WorkerTransport<W: Workload> {
    runner: Arc<ControllerRunner<W>>,
    call_latency: CallLatency,
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

impl<W: Workload> WorkerTransport<W> {
    pub(super) fn new(
        runner: Arc<ControllerRunner<W>>,
        call_latency: CallLatency,
    ) -> WorkerTransport<W> {
        let is_direct =
            runner.hooks.is_none() && runner.client.is_unlimited() && call_latency.is_zero();
        WorkerTransport {
            runner,
            call_latency,
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

    /// The transport at that moment.
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
        let hooks = self.runner.hooks.as_ref()?;
        Some(SyncId {
            incarnation: hooks.connection.incarnation(),
            kind: self.runner.controller.kind(),
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
                InFlightState::ToServer { back_ns, fault } => {
                    self.deliver(index, &requests[index], attempts, back_ns, fault, now)
                }
                InFlightState::ToClient(answer) => Some(answer),
            };
            if let Some(answer) = answer
                && let Some(answer) = self.accept(index, &requests[index], attempts, answer, now)
            {
                return Travel::Answered(index, answer);
            }
            if self.runner.is_dead() {
                return Travel::Over;
            }
        }
        Travel::Over
    }

    /// Lets what is on its way to the server go on alone: the controller is dead.
    pub(super) fn abandon(&mut self, requests: &[Request]) {
        let flights = std::mem::take(&mut self.in_flight);
        for Reverse(flight) in flights.into_sorted_vec().into_iter().rev() {
            if matches!(flight.state, InFlightState::ToServer { .. }) {
                self.orphan(&requests[flight.index], flight.due_ns, false);
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
        let wait_ns = self.runner.client.reserve_ns(verb, now);
        let sent_ns = now.mono_ns.saturating_add(wait_ns);
        let (due_ns, back_ns) = self.call_latency.times_ns(sent_ns.max(not_before_ns));
        let outcome = match self.call_latency.refused() {
            Some(error) => InjectedOutcome::Refuse(error, 0),
            None => self.inject(index, request, attempts, now),
        };
        let mut fault = Fault::None;
        let mut late_ns = 0;
        match outcome {
            InjectedOutcome::Pass => {}
            InjectedOutcome::Slow(by_ns) => late_ns = by_ns,
            InjectedOutcome::Refuse(error, after_ns) => {
                self.runner
                    .client
                    .count_failed(request, &error, &mut self.calls);
                let answer = InFlightState::ToClient(Answer::Failed(error));
                return self.push(back_ns.saturating_add(after_ns), index, attempts, answer);
            }
            InjectedOutcome::LoseAnswer(error) => fault = Fault::Lost(Box::new(error)),
            InjectedOutcome::CommitLate(error, after_ns) => {
                self.orphan(request, due_ns.saturating_add(after_ns), true);
                return self.push(
                    back_ns,
                    index,
                    attempts,
                    InFlightState::ToClient(Answer::Failed(error)),
                );
            }
            InjectedOutcome::Twice(mark) => {
                self.orphan(request, due_ns, true);
                late_ns = 1_000;
                fault = Fault::Again(mark);
            }
            InjectedOutcome::Changed(request) => fault = Fault::Changed(request),
        }
        let state = InFlightState::ToServer {
            back_ns: back_ns.saturating_add(late_ns * 2),
            fault,
        };
        self.push(due_ns.saturating_add(late_ns), index, attempts, state);
        self.runner.dies_at(CrashPoint::AfterRequest);
    }

    /// What becomes of a request, and who is told that it is sent.
    fn inject(&self, index: usize, request: &Request, attempts: u32, now: Now) -> InjectedOutcome {
        let (Some(hooks), Some(sync)) = (&self.runner.hooks, self.sync_id()) else {
            return InjectedOutcome::Pass;
        };
        let parent = self.runner.controller.name(self.key);
        let position = BatchPosition {
            // The batch that is being sent has been counted; one that is sent again counts as the next.
            batch: self.batches - u32::from(attempts == 0),
            index: u32::try_from(index).unwrap_or(u32::MAX),
        };
        if attempts == 0 {
            let workload = &*self.runner.controller;
            hooks.observer.sends(sync, workload, request, position, now);
        }
        let sent = OutgoingRequest {
            call: Call::of(request),
            request: Some(request),
            parent: &parent.name,
            position,
        };
        hooks.connection.inject(&sent, now)
    }

    /// Lets a request go on alone.
    fn orphan(&self, request: &Request, due_ns: i64, answered: bool) {
        let Some(connection) = self.runner.connection() else {
            return;
        };
        connection.orphan(OrphanedRequest {
            due_ns,
            incarnation: connection.incarnation(),
            kind: self.runner.controller.kind(),
            sync: self.number,
            answered,
            request: request.clone(),
        });
    }

    fn push(&mut self, due_ns: i64, index: usize, attempts: u32, state: InFlightState) {
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
        if let (Some(hooks), Some(sync)) = (&self.runner.hooks, self.sync_id()) {
            hooks.observer.carries_out(Some(Origin {
                sync,
                orphaned: false,
            }));
        }
        let mut answer = self.runner.client.carry_out(request, &mut self.calls, now);
        if let Some(hooks) = &self.runner.hooks {
            hooks.observer.carries_out(None);
        }
        match fault {
            Fault::Lost(error) => answer = Answer::Failed(*error),
            // Two pods, or another answer than the first had.
            Fault::Again(mark) => {
                let is_create = matches!(asked, Request::CreatePod { .. });
                if let Some(connection) = self.runner.connection()
                    && (is_create || matches!(answer, Answer::Failed(_)))
                {
                    connection.network().notice(mark);
                }
            }
            Fault::None | Fault::Changed(_) => {}
        }
        if self.runner.dies_at(CrashPoint::AfterCommit) {
            return None;
        }
        if back_ns > now.mono_ns {
            self.push(back_ns, index, attempts, InFlightState::ToClient(answer));
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
        if let (Some(hooks), Some(sync)) = (&self.runner.hooks, self.sync_id()) {
            hooks.observer.answered(sync, request, &answer, now);
        }
        Some(answer)
    }
}

/// The transport at a moment of the cluster's time, whatever the controller's own clock says.
#[derive(Debug)]
pub(super) struct At<'a, W: Workload>(&'a mut WorkerTransport<W>, Now);

impl<W: Workload> Transport for At<'_, W> {
    fn send(&mut self, index: usize, request: &Request, _: Now) -> Option<Answer> {
        let At(transport, now) = self;
        let now = *now;
        if index == 0 {
            transport.batches = transport.batches.wrapping_add(1);
        }
        transport.asked += 1;
        if transport.is_direct {
            transport.carried_out = transport.carried_out.wrapping_add(1);
            let answer = transport.deliver(index, request, 0, now.mono_ns, Fault::None, now)?;
            return transport.accept(index, request, 0, answer, now);
        }
        if !transport.runner.dies_at(CrashPoint::BeforeRequest) {
            transport.depart(index, request, 0, now.mono_ns, now);
        }
        None
    }
}
