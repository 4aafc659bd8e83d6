//! Carries one worker's requests to the server and the answers back: a [`Transport`] with the
//! client's rate limiter, latency and fault injection.
//!
//! The requests of one batch are concurrent, and so are the batches of a sync that continues after
//! each answer: each request waits for the rate limiter and has its own latency. A request without
//! latency is answered immediately.

use std::sync::Arc;

use podstorm::client::{Answer, ApiError, Request};
use podstorm::driver::{SyncState, Transport, Workload};
use podstorm::intern::KeyId;
use podstorm_objects::Now;

use super::client::{ApiCalls, CallLatency, RequestInfo, retry_after_ns};
use super::observer::{Origin, SyncId};
use super::runner::ControllerRunner;
use crate::due_queue::DueQueue;
use crate::faults::connection::OrphanedRequest;
use crate::faults::{BatchPosition, Call, CrashPoint, FaultId, InjectedOutcome, OutgoingRequest};

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The index of the request in the sync.
    index: usize,
    /// The index of the request in the batch.
    place: u32,
    /// The number of earlier attempts.
    attempts: u32,
}

/// A request in flight.
#[derive(Debug)]
struct InFlight {
    sent: Sent,
    state: InFlightState,
}

#[derive(Debug)]
enum InFlightState {
    /// The request is in flight to the server; the answer will arrive at `back_ns`.
    ToServer { back_ns: i64, fault: Fault },
    /// The answer is in flight to the client.
    ToClient(Answer),
}

/// The fault that hits a request when it reaches the server.
#[derive(Debug)]
enum Fault {
    None,
    /// The answer is lost; the client gets this error instead.
    Lost(Box<ApiError>),
    /// Another request reaches the server instead.
    Changed(Box<Request>),
    /// The server has already carried out the request once. Holds the fault that caused this.
    Again(Option<FaultId>),
}

/// Waiting times of one worker's requests. Requests that are carried out immediately are not
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallWaits {
    /// The number of requests sent, including retries.
    pub requests: u64,
    /// The total time that requests waited for the client's rate limiter, ns.
    pub limit_ns: u64,
    /// The total time from sending requests to their answers, ns.
    pub api_ns: u64,
    /// The time during which any request of the worker waited for the rate limiter, ns.
    pub limited_ns: u64,
    /// The time during which any request of the worker was unanswered, ns; includes `limited_ns`.
    pub waiting_ns: u64,
    /// The times up to which `limited_ns` and `waiting_ns` are counted, ns.
    limited_until_ns: i64,
    waiting_until_ns: i64,
}

impl CallWaits {
    /// Adds a request that the client receives at `now_ns` and sends at `sent_ns`, and whose answer
    /// arrives at `back_ns`.
    fn add(&mut self, now_ns: i64, sent_ns: i64, back_ns: i64) {
        let span = |from: i64, to: i64| u64::try_from(to.saturating_sub(from)).unwrap_or(0);
        self.requests += 1;
        self.limit_ns = self.limit_ns.saturating_add(span(now_ns, sent_ns));
        self.api_ns = self.api_ns.saturating_add(span(sent_ns, back_ns));
        // Requests of a batch wait concurrently: each adds only the time that is not yet counted.
        let counted = [
            (&mut self.limited_ns, &mut self.limited_until_ns, sent_ns),
            (&mut self.waiting_ns, &mut self.waiting_until_ns, back_ns),
        ];
        for (total_ns, until_ns, end_ns) in counted {
            *total_ns = total_ns.saturating_add(span(now_ns.max(*until_ns), end_ns));
            *until_ns = end_ns.max(*until_ns);
        }
    }

    /// Adds the waiting times of another worker.
    pub fn merge(&mut self, other: &CallWaits) {
        self.requests += other.requests;
        self.limit_ns = self.limit_ns.saturating_add(other.limit_ns);
        self.api_ns = self.api_ns.saturating_add(other.api_ns);
        self.limited_ns = self.limited_ns.saturating_add(other.limited_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(other.waiting_ns);
    }
}

/// The progress of a sync's requests.
#[derive(Debug)]
pub(super) enum Travel {
    /// The request with this index has its final answer.
    Answered(usize, Answer),
    /// Nothing happens before the given time, ns.
    Until(i64),
    /// No request is in flight, or the sync does not wait for those in flight, or the controller is
    /// dead.
    Over,
}

/// The transport of one worker's syncs.
#[derive(Debug)]
pub(super) struct WorkerTransport<W: Workload> {
    runner: Arc<ControllerRunner<W>>,
    call_latency: CallLatency,
    /// Whether requests are carried out immediately.
    is_direct: bool,
    in_flight: DueQueue<InFlight>,
    /// Whether the sync has received an answer since it last continued. Always false for syncs that
    /// do not continue after each answer.
    is_answered: bool,
    /// The number of requests in the current sync.
    pub(super) asked: u32,
    /// The number of requests carried out immediately, in all syncs.
    pub(super) carried_out: u32,
    /// The index of the queue from which the worker takes keys.
    queue: usize,
    /// The key of the current sync. The next two fields are the number of the sync in its
    /// controller and the number of batches in the sync so far.
    key: KeyId,
    pub(super) number: u64,
    batches: u32,
    pub(super) calls: ApiCalls,
    pub(super) waits: CallWaits,
}

impl<W: Workload> WorkerTransport<W> {
    pub(super) fn new(
        runner: Arc<ControllerRunner<W>>,
        queue: usize,
        call_latency: CallLatency,
    ) -> WorkerTransport<W> {
        let is_direct =
            runner.hooks.is_none() && runner.client.is_unlimited() && call_latency.is_zero();
        WorkerTransport {
            runner,
            call_latency,
            is_direct,
            in_flight: DueQueue::default(),
            is_answered: false,
            asked: 0,
            carried_out: 0,
            queue,
            key: KeyId::default(),
            number: 0,
            batches: 0,
            calls: ApiCalls::default(),
            waits: CallWaits::default(),
        }
    }

    /// Returns the transport for requests that are sent at the given cluster time.
    pub(super) fn at(&mut self, now: Now) -> At<'_, W> {
        self.is_answered = false;
        At {
            transport: self,
            now,
            first: None,
        }
    }

    /// Begins the sync of a key.
    pub(super) fn begin(&mut self, key: KeyId, number: u64) {
        (self.key, self.number) = (key, number);
        (self.batches, self.asked) = (0, 0);
    }

    /// Returns the identity of the current sync; `None` without fault injection and observer.
    pub(super) fn sync_id(&self) -> Option<SyncId> {
        let hooks = self.runner.hooks.as_ref()?;
        Some(SyncId {
            incarnation: hooks.connection.incarnation(),
            kind: self.runner.kind(),
            number: self.number,
        })
    }

    /// Advances the requests in flight until one of them has its final answer.
    pub(super) fn travel(&mut self, requests: &[Request], now: Now) -> Travel {
        while let Some(flight) = self.in_flight.pop_due(now.mono_ns) {
            let sent = flight.sent;
            let request = &requests[sent.index];
            let answer = match flight.state {
                InFlightState::ToServer { back_ns, fault } => {
                    self.deliver(sent, request, back_ns, fault, now)
                }
                InFlightState::ToClient(answer) => Some(answer),
            };
            if let Some(answer) = answer
                && let Some(answer) = self.accept(sent, request, answer, now)
            {
                self.is_answered |= <W::Sync as SyncState>::GOES_ON_AT_EACH_ANSWER;
                return Travel::Answered(sent.index, answer);
            }
            if self.runner.is_dead() {
                return Travel::Over;
            }
        }
        match self.in_flight.next_due_ns() {
            Some(due_ns) if !self.is_answered => Travel::Until(due_ns),
            _ => Travel::Over,
        }
    }

    /// Orphans the requests in flight to the server. Called when the controller has died.
    pub(super) fn abandon(&mut self, requests: &[Request]) {
        for (due_ns, flight) in self.in_flight.take_all() {
            if matches!(flight.state, InFlightState::ToServer { .. }) {
                self.orphan(&requests[flight.sent.index], due_ns, false);
            }
        }
    }

    /// Sends one request when the rate limiter permits it, but not before `not_before_ns`.
    fn depart(&mut self, sent: Sent, request: &Request, not_before_ns: i64, now: Now) {
        let verb = RequestInfo::from_request(request).verb;
        let wait_ns = self.runner.client.reserve_ns(verb, now);
        let sent_ns = now.mono_ns.saturating_add(wait_ns);
        let (due_ns, back_ns) = self.call_latency.times_ns(sent_ns.max(not_before_ns));
        self.waits.add(now.mono_ns, sent_ns, back_ns);
        let outcome = match self.call_latency.refused() {
            Some(error) => InjectedOutcome::Refuse(error, 0),
            None => self.inject(sent, request, now),
        };
        let mut fault = Fault::None;
        let mut late_ns = 0;
        match outcome {
            InjectedOutcome::Pass => {}
            InjectedOutcome::Slow(by_ns) => late_ns = by_ns,
            InjectedOutcome::Refuse(error, after_ns) => {
                self.calls
                    .count(RequestInfo::from_request(request), error.code);
                let answer = InFlightState::ToClient(Answer::Failed(error));
                return self.push(back_ns.saturating_add(after_ns), sent, answer);
            }
            InjectedOutcome::LoseAnswer(error) => fault = Fault::Lost(Box::new(error)),
            InjectedOutcome::CommitLate(error, after_ns) => {
                self.orphan(request, due_ns.saturating_add(after_ns), true);
                let answer = InFlightState::ToClient(Answer::Failed(error));
                return self.push(back_ns, sent, answer);
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
        self.push(due_ns.saturating_add(late_ns), sent, state);
        self.runner.dies_at(CrashPoint::AfterRequest);
    }

    /// Reports the request to the observer, unless it is a retry. Returns the outcome of fault
    /// injection.
    fn inject(&self, sent: Sent, request: &Request, now: Now) -> InjectedOutcome {
        let (Some(hooks), Some(sync)) = (&self.runner.hooks, self.sync_id()) else {
            return InjectedOutcome::Pass;
        };
        let workload = self.runner.controller.name(self.queue, self.key);
        let position = BatchPosition {
            // The current batch is already counted. A retry counts as the next batch.
            batch: self.batches - u32::from(sent.attempts == 0),
            index: sent.place,
        };
        if sent.attempts == 0 {
            let workload = &*self.runner.controller;
            hooks.observer.sends(sync, workload, request, position, now);
        }
        let outgoing = OutgoingRequest {
            call: Call::from_request(request),
            request: Some(request),
            workload: &workload.name,
            position,
        };
        hooks.connection.inject(&outgoing, now)
    }

    /// Registers a request that will reach the server at `due_ns` as orphaned.
    fn orphan(&self, request: &Request, due_ns: i64, answered: bool) {
        let Some(connection) = self.runner.connection() else {
            return;
        };
        connection.orphan(OrphanedRequest {
            due_ns,
            incarnation: connection.incarnation(),
            kind: self.runner.kind(),
            sync: self.number,
            answered,
            request: request.clone(),
        });
    }

    fn push(&mut self, due_ns: i64, sent: Sent, state: InFlightState) {
        self.in_flight.push(due_ns, InFlight { sent, state });
    }

    /// Carries out a request that has reached the server. Returns the answer if it arrives
    /// immediately.
    fn deliver(
        &mut self,
        sent: Sent,
        asked: &Request,
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
        let hooks = self.runner.hooks.as_ref();
        let planted = hooks.and_then(|hooks| hooks.observer.plants(request));
        let (client, calls) = (&self.runner.client, &mut self.calls);
        let mut answer =
            client.carry_out(planted.as_ref().map_or(request, |all| &all[0]), calls, now);
        for more in planted.iter().flatten().skip(1) {
            answer = client.carry_out(more, calls, now);
        }
        if let Some(hooks) = &self.runner.hooks {
            hooks.observer.carries_out(None);
        }
        match fault {
            Fault::Lost(error) => answer = Answer::Failed(*error),
            // The fault counts only if it had an effect: a second object or an error.
            Fault::Again(mark) => {
                let is_create = match asked {
                    Request::CreatePod { .. } => true,
                    Request::Create { object } => object.metadata().name.is_empty(),
                    _ => false,
                };
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
            self.push(back_ns, sent, InFlightState::ToClient(answer));
            return None;
        }
        Some(answer)
    }

    /// Accepts an answer that has arrived. Returns it for the sync unless the call is retried.
    fn accept(
        &mut self,
        sent: Sent,
        request: &Request,
        mut answer: Answer,
        now: Now,
    ) -> Option<Answer> {
        if let Some(wait_ns) = retry_after_ns(&answer, sent.attempts) {
            let again = Sent {
                attempts: sent.attempts + 1,
                ..sent
            };
            self.depart(again, request, now.mono_ns + wait_ns, now);
            return None;
        }
        if let Answer::Failed(error) = &mut answer {
            error.resent = sent.attempts > 0;
        }
        if let (Some(hooks), Some(sync)) = (&self.runner.hooks, self.sync_id()) {
            hooks.observer.answered(sync, request, &answer, now);
        }
        Some(answer)
    }
}

/// The transport at one cluster time; the controller's own clock may differ.
#[derive(Debug)]
pub(super) struct At<'a, W: Workload> {
    transport: &'a mut WorkerTransport<W>,
    now: Now,
    /// The index of the first request sent at this time. The requests sent at the same time form
    /// one batch, except those that are carried out immediately.
    first: Option<usize>,
}

impl<W: Workload> Transport for At<'_, W> {
    fn send(&mut self, index: usize, request: &Request, _: Now) -> Option<Answer> {
        let (transport, now) = (&mut *self.transport, self.now);
        debug_assert!(
            transport.runner.is_named(request),
            "the row of {} does not permit {}",
            transport.runner.row.name,
            RequestInfo::from_request(request)
        );
        transport.asked += 1;
        let mut sent = Sent {
            index,
            place: 0,
            attempts: 0,
        };
        if transport.is_direct {
            transport.carried_out = transport.carried_out.wrapping_add(1);
            let answer = transport.deliver(sent, request, now.mono_ns, Fault::None, now)?;
            return transport.accept(sent, request, answer, now);
        }
        let first = *self.first.get_or_insert(index);
        transport.batches = transport.batches.wrapping_add(u32::from(first == index));
        sent.place = u32::try_from(index - first).unwrap_or(u32::MAX);
        if !transport.runner.dies_at(CrashPoint::BeforeRequest) {
            transport.depart(sent, request, now.mono_ns, now);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_waits_of_a_worker_count_once() {
        let mut waits = CallWaits::default();
        // A batch of three at 100: the second and third wait for the rate limiter, and each answer
        // takes 5.
        waits.add(100, 100, 105);
        waits.add(100, 110, 115);
        waits.add(100, 120, 125);
        // The next sync.
        waits.add(200, 200, 205);
        waits.add(200, 230, 235);
        let shown = (waits.requests, waits.limit_ns, waits.api_ns);
        assert_eq!(shown, (5, 10 + 20 + 30, 25));
        assert_eq!((waits.limited_ns, waits.waiting_ns), (20 + 30, 25 + 35));
    }
}
