//! Faults armed against requests. All controllers of a run share one network. An armed fault hits
//! the next matching request from any controller.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{ApiError, Request};
use podstorm_objects::Pod;
use serde::{Deserialize, Serialize};

use super::answer::{ApiFault, Call};
use super::class::FaultClass;
use crate::lock;

/// The number of the action that armed a fault. [`Network::take_noticed`] returns the numbers of
/// the faults that controllers have noticed.
pub type FaultId = u32;

/// The effect of a fault on a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The request gets this answer and changes nothing.
    Refuse(ApiFault),
    /// The request is carried out and gets this answer.
    LoseAnswer(ApiFault),
    /// The request gets this answer immediately, and is carried out later.
    CommitLate {
        /// The answer to the client.
        answer: ApiFault,
        /// The additional delay before the request is carried out, ms.
        after_ms: u32,
    },
    /// The request never arrives; the client times out.
    NeverArrives {
        /// The time that the client waits before it times out, ms.
        after_ms: u32,
    },
    /// The request is carried out twice, in sequence; the client gets the second answer.
    Twice,
    /// The request and its answer take longer.
    Slow {
        /// The additional latency each way, ms.
        by_ms: u32,
    },
    /// A webhook removes the labels from the new pod.
    StripLabels,
    /// A webhook removes the owner references from the new pod.
    StripOwner,
}

/// An armed fault that waits for matching requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// The class under which the hits of the fault are counted.
    pub class: FaultClass,
    /// The kinds of calls that the fault matches; if empty, all writes except writes of Events.
    pub calls: Vec<Call>,
    /// The name of the only workload object whose requests the fault matches; any if `None`.
    pub workload: Option<String>,
    /// The only batch of a sync that the fault matches, counted from 0; any if `None`.
    pub batch: Option<u32>,
    /// The only index in a batch that the fault matches, counted from 0; any if `None`.
    pub index: Option<u32>,
    /// The effect on the requests.
    pub effect: Effect,
    /// The number of requests that the fault still hits.
    pub times: u32,
    /// The monotonic time until which the fault is armed, ns.
    pub until_ns: i64,
}

/// The position of a request in its sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchPosition {
    /// The number of batches that the sync sent earlier.
    pub batch: u32,
    /// The index of the request in the batch.
    pub index: u32,
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRequest<'a> {
    /// The kind of call.
    pub call: Call,
    /// The request; `None` for writes of Events.
    pub request: Option<&'a Request>,
    /// The name of the workload object whose sync sends the request; empty for writes of Events.
    pub workload: &'a str,
    /// The position of the request in the sync.
    pub position: BatchPosition,
}

/// The outcome of fault injection for one request.
#[derive(Clone, Debug)]
pub enum InjectedOutcome {
    /// No fault.
    Pass,
    /// The request is not carried out; it is answered with the error, after the given additional
    /// delay, ns.
    Refuse(ApiError, i64),
    /// The request is carried out, and answered with the error.
    LoseAnswer(ApiError),
    /// The request is answered with the error, and carried out after the given additional delay,
    /// ns.
    CommitLate(ApiError, i64),
    /// The request is carried out twice. The second answer decides whether the sender notices the
    /// fault, whose ID is given.
    Twice(Option<FaultId>),
    /// The request and its answer are each delayed by the given time, ns.
    Slow(i64),
    /// The given request is sent instead.
    Changed(Box<Request>),
}

/// A request hit by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The class of the fault.
    pub class: FaultClass,
    /// The kind of call that the fault hit.
    pub call: Call,
    /// The position of the request in its sync.
    pub position: BatchPosition,
}

/// The armed faults, and the requests that they have hit.
#[derive(Debug, Default)]
pub struct Network {
    state: Mutex<NetworkState>,
}

#[derive(Debug, Default)]
struct NetworkState {
    armed: Vec<(Armed, Option<FaultId>)>,
    hits: Vec<Hit>,
    /// The ID that faults get when they are armed.
    fault_id: Option<FaultId>,
    noticed: BTreeSet<FaultId>,
    deaths: Vec<FaultId>,
    /// The latest time to which a fault has delayed a request or its answer, ns.
    over_ns: i64,
}

impl Network {
    fn state(&self) -> MutexGuard<'_, NetworkState> {
        lock(&self.state)
    }

    /// Arms a fault. Faults armed earlier take precedence.
    pub fn arm(&self, fault: Armed) {
        let mut state = self.state();
        let fault_id = state.fault_id;
        state.armed.push((fault, fault_id));
    }

    /// Sets the ID for all faults armed from now on, here and on connections.
    pub fn set_fault_id(&self, fault_id: Option<FaultId>) {
        self.state().fault_id = fault_id;
    }

    /// Returns the ID that faults get when they are armed.
    pub fn fault_id(&self) -> Option<FaultId> {
        self.state().fault_id
    }

    /// Records faults that changed what a controller sees or does.
    pub fn notice(&self, fault_ids: impl IntoIterator<Item = FaultId>) {
        self.state().noticed.extend(fault_ids);
    }

    /// Takes the faults noticed since the last call.
    pub fn take_noticed(&self) -> BTreeSet<FaultId> {
        std::mem::take(&mut self.state().noticed)
    }

    /// Records that a fault killed a controller manager.
    pub fn note_death(&self, fault_id: Option<FaultId>) {
        self.state().deaths.extend(fault_id);
    }

    /// Takes the faults that killed controller managers since the last call.
    pub fn take_deaths(&self) -> Vec<FaultId> {
        std::mem::take(&mut self.state().deaths)
    }

    /// Removes all armed faults.
    pub fn heal(&self) {
        self.state().armed.clear();
    }

    /// Returns the latest time to which faults have delayed a request or its answer, ns.
    pub fn over_ns(&self) -> i64 {
        self.state().over_ns
    }

    /// Takes the hits since the last call.
    pub fn take_hits(&self) -> Vec<Hit> {
        std::mem::take(&mut self.state().hits)
    }

    /// Returns the outcome of fault injection for a request, and records the hit.
    pub fn inject(&self, sent: &OutgoingRequest<'_>, now_ns: i64) -> InjectedOutcome {
        let mut state = self.state();
        if state.armed.is_empty() {
            return InjectedOutcome::Pass;
        }
        state.armed.retain(|(fault, _)| fault.until_ns >= now_ns);
        let Some(at) = state.armed.iter().position(|(fault, _)| fault.meets(sent)) else {
            return InjectedOutcome::Pass;
        };
        let (fault, fault_id) = &mut state.armed[at];
        let (class, fault_id) = (fault.class, *fault_id);
        let mut outcome = fault.inject(sent.request);
        fault.times -= 1;
        if fault.times == 0 {
            state.armed.remove(at);
        }
        let late_ns = match &outcome {
            InjectedOutcome::Refuse(_, late_ns)
            | InjectedOutcome::CommitLate(_, late_ns)
            | InjectedOutcome::Slow(late_ns) => *late_ns,
            InjectedOutcome::Pass
            | InjectedOutcome::LoseAnswer(_)
            | InjectedOutcome::Twice(_)
            | InjectedOutcome::Changed(_) => 0,
        };
        match &mut outcome {
            InjectedOutcome::Twice(fault) => *fault = fault_id,
            InjectedOutcome::Pass => {}
            _ => state.noticed.extend(fault_id),
        }
        state.over_ns = state.over_ns.max(now_ns.saturating_add(late_ns));
        state.hits.push(Hit {
            class,
            call: sent.call,
            position: sent.position,
        });
        outcome
    }
}

impl Armed {
    /// Returns a fault of class [`ApiError`](FaultClass::ApiError) that hits the next `times`
    /// requests of these kinds, from any sender and without a time limit.
    pub fn new(calls: &[Call], effect: Effect, times: u32) -> Armed {
        Armed {
            class: FaultClass::ApiError,
            calls: calls.to_vec(),
            workload: None,
            batch: None,
            index: None,
            effect,
            times,
            until_ns: i64::MAX,
        }
    }

    fn meets(&self, sent: &OutgoingRequest<'_>) -> bool {
        let call = match self.calls.as_slice() {
            [] => sent.call.is_write(),
            calls => calls.contains(&sent.call),
        };
        let changes_pod = matches!(self.effect, Effect::StripLabels | Effect::StripOwner);
        call && (!changes_pod || sent.call == Call::CreatePod)
            && self
                .workload
                .as_ref()
                .is_none_or(|workload| workload == sent.workload)
            && self.batch.is_none_or(|batch| batch == sent.position.batch)
            && self.index.is_none_or(|index| index == sent.position.index)
    }

    fn inject(&self, request: Option<&Request>) -> InjectedOutcome {
        match self.effect {
            Effect::Refuse(fault) => InjectedOutcome::Refuse(fault.error(), 0),
            Effect::LoseAnswer(fault) => InjectedOutcome::LoseAnswer(fault.error()),
            Effect::CommitLate { answer, after_ms } => {
                InjectedOutcome::CommitLate(answer.error(), ns(after_ms))
            }
            Effect::NeverArrives { after_ms } => {
                InjectedOutcome::Refuse(ApiFault::Timeout.error(), ns(after_ms))
            }
            Effect::Twice => InjectedOutcome::Twice(None),
            Effect::Slow { by_ms } => InjectedOutcome::Slow(ns(by_ms)),
            Effect::StripLabels | Effect::StripOwner => match request {
                Some(request) => InjectedOutcome::Changed(Box::new(self.changed(request))),
                None => InjectedOutcome::Pass,
            },
        }
    }

    /// Returns the request as a webhook changes it: a new pod without labels or without owner
    /// references.
    fn changed(&self, request: &Request) -> Request {
        let mut request = request.clone();
        match &mut request {
            Request::CreatePod { pod, .. } => self.strip(Arc::make_mut(pod)),
            Request::Create { object } => {
                if let Some(pod) = object.downcast_ref::<Pod>() {
                    let mut pod = pod.clone();
                    self.strip(&mut pod);
                    *object = Arc::new(pod);
                }
            }
            _ => {}
        }
        request
    }

    fn strip(&self, pod: &mut Pod) {
        match self.effect {
            Effect::StripLabels => pod.metadata.labels = Default::default(),
            _ => pod.metadata.owner_references = Default::default(),
        }
    }
}

fn ns(ms: u32) -> i64 {
    i64::from(ms) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(calls: &[Call], times: u32) -> Armed {
        Armed::new(calls, Effect::Refuse(ApiFault::InternalError), times)
    }

    fn sent(call: Call, batch: u32, index: u32) -> OutgoingRequest<'static> {
        OutgoingRequest {
            call,
            request: None,
            workload: "web",
            position: BatchPosition { batch, index },
        }
    }

    #[test]
    fn a_fault_hits_the_armed_number_of_requests() {
        let network = Network::default();
        network.arm(armed(&[Call::DeletePod], 2));
        let outcome = |call| network.inject(&sent(call, 0, 0), 0);
        assert!(matches!(outcome(Call::CreatePod), InjectedOutcome::Pass));
        let first = outcome(Call::DeletePod);
        assert!(matches!(first, InjectedOutcome::Refuse(error, 0) if error.code == 500));
        let second = outcome(Call::DeletePod);
        assert!(matches!(second, InjectedOutcome::Refuse(..)));
        assert!(matches!(outcome(Call::DeletePod), InjectedOutcome::Pass));
        assert_eq!(network.take_hits().len(), 2);
    }

    #[test]
    fn a_fault_is_noticed_only_when_it_hits_a_request() {
        let network = Network::default();
        let twice = Armed {
            effect: Effect::Twice,
            ..armed(&[Call::PatchPod], 1)
        };
        for (fault_id, fault) in [(3, armed(&[Call::DeletePod], 1)), (4, twice)] {
            network.set_fault_id(Some(fault_id));
            network.arm(fault);
        }
        network.set_fault_id(None);
        network.inject(&sent(Call::CreatePod, 0, 0), 0);
        assert!(network.take_noticed().is_empty());
        network.inject(&sent(Call::DeletePod, 0, 0), 0);
        assert_eq!(network.take_noticed(), BTreeSet::from([3]));
        let outcome = network.inject(&sent(Call::PatchPod, 0, 0), 0);
        assert!(matches!(outcome, InjectedOutcome::Twice(Some(4))));
        assert!(
            network.take_noticed().is_empty(),
            "only the second answer decides"
        );
    }

    #[test]
    fn a_fault_can_target_one_call_in_one_batch_of_one_workload() {
        let network = Network::default();
        let mut fault = armed(&[Call::CreatePod], 1);
        fault.batch = Some(2);
        fault.index = Some(3);
        fault.workload = Some("web".into());
        network.arm(fault);
        for (batch, index, struck) in [(2, 2, false), (1, 3, false), (2, 3, true)] {
            let outcome = network.inject(&sent(Call::CreatePod, batch, index), 0);
            assert_eq!(matches!(outcome, InjectedOutcome::Refuse(..)), struck);
        }
    }

    #[test]
    fn a_fault_expires_without_a_matching_request() {
        let network = Network::default();
        let mut fault = armed(&[], 1);
        fault.until_ns = 10;
        network.arm(fault);
        let outcome = network.inject(&sent(Call::CreatePod, 0, 0), 11);
        assert!(matches!(outcome, InjectedOutcome::Pass));
    }
}
