//! Faults armed against requests. All controllers of a run share one network. An armed fault meets
//! the next request that fits, from any controller.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{ApiError, Request};
use podstorm_objects::Pod;
use serde::{Deserialize, Serialize};

use super::answer::{ApiFault, Call};
use super::class::FaultClass;
use crate::lock;

/// The number of the action that armed a fault. [`Network::take_noticed`] returns it when a
/// controller notices the fault.
pub type FaultId = u32;

/// What a fault does to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The request gets this answer and changes nothing.
    Refuse(ApiFault),
    /// The request is carried out and gets this answer.
    LoseAnswer(ApiFault),
    /// The request gets this answer, and is carried out later.
    CommitLate {
        /// The client's answer.
        answer: ApiFault,
        /// How much later than usual the request is carried out, ms.
        after_ms: u32,
    },
    /// The request never arrives; the client times out.
    NeverArrives {
        /// How long the client waits, ms.
        after_ms: u32,
    },
    /// The request is carried out twice, in sequence; the client gets the second answer.
    Twice,
    /// The request takes longer, each way.
    Slow {
        /// Milliseconds.
        by_ms: u32,
    },
    /// A webhook takes the labels from the pod to be created.
    StripLabels,
    /// A webhook takes the owner references from the pod to be created.
    StripOwner,
}

/// An armed fault, which waits for its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// The class it is counted under.
    pub class: FaultClass,
    /// The calls that it meets; empty: every pod write and status write.
    pub calls: Vec<Call>,
    /// Only requests of this ReplicaSet, by name.
    pub workload: Option<String>,
    /// Only that batch of creates of a sync, from 0.
    pub batch: Option<u32>,
    /// Only that request of its batch, from 0.
    pub index: Option<u32>,
    /// What it does to them.
    pub effect: Effect,
    /// How many requests it meets.
    pub times: u32,
    /// Until this moment of monotonic time, ns.
    pub until_ns: i64,
}

/// The position of a request in its sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchPosition {
    /// The number of batches that the sync has sent before.
    pub batch: u32,
    /// The index within the batch.
    pub index: u32,
}

/// A request about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRequest<'a> {
    /// Its kind.
    pub call: Call,
    /// The request; absent for writes of Events.
    pub request: Option<&'a Request>,
    /// The ReplicaSet that sends it, by name.
    pub workload: &'a str,
    /// Its position in the sync.
    pub position: BatchPosition,
}

/// What fault injection makes of one request.
#[derive(Clone, Debug)]
pub enum InjectedOutcome {
    /// No fault.
    Pass,
    /// Not carried out; answered with the error, that much later than usual, ns.
    Refuse(ApiError, i64),
    /// Carried out; answered with the error.
    LoseAnswer(ApiError),
    /// Answered with the error; carried out that much later than usual, ns.
    CommitLate(ApiError, i64),
    /// Carried out twice; the second answer decides whether the sender notices the fault.
    Twice(Option<FaultId>),
    /// Slower by that much each way, ns.
    Slow(i64),
    /// This request is carried out instead.
    Changed(Box<Request>),
}

/// A fault that has met a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The fault.
    pub class: FaultClass,
    /// The call that it met.
    pub call: Call,
    /// Its position in the sync.
    pub position: BatchPosition,
}

/// Armed faults, and the requests that they have met.
#[derive(Debug, Default)]
pub struct Network {
    state: Mutex<NetworkState>,
}

#[derive(Debug, Default)]
struct NetworkState {
    armed: Vec<(Armed, Option<FaultId>)>,
    hits: Vec<Hit>,
    /// The number of faults that are armed now.
    fault_id: Option<FaultId>,
    noticed: BTreeSet<FaultId>,
    deaths: Vec<FaultId>,
    /// When the last request that met a fault has its answer and was carried out, ns.
    over_ns: i64,
}

impl Network {
    fn state(&self) -> MutexGuard<'_, NetworkState> {
        lock(&self.state)
    }

    /// Arms a fault. Faults armed earlier go first.
    pub fn arm(&self, fault: Armed) {
        let mut state = self.state();
        let fault_id = state.fault_id;
        state.armed.push((fault, fault_id));
    }

    /// Sets the number of all faults that are armed from now on, here and on connections.
    pub fn set_fault_id(&self, fault_id: Option<FaultId>) {
        self.state().fault_id = fault_id;
    }

    /// The number of faults that are armed now.
    pub fn fault_id(&self) -> Option<FaultId> {
        self.state().fault_id
    }

    /// Records faults that have changed what a controller sees or does.
    pub fn notice(&self, fault_ids: impl IntoIterator<Item = FaultId>) {
        self.state().noticed.extend(fault_ids);
    }

    /// Takes the faults that were noticed since the last call.
    pub fn take_noticed(&self) -> BTreeSet<FaultId> {
        std::mem::take(&mut self.state().noticed)
    }

    /// Records that a controller manager has died of that fault.
    pub fn note_death(&self, fault_id: Option<FaultId>) {
        self.state().deaths.extend(fault_id);
    }

    /// Takes the faults of which controller managers have died since the last call.
    pub fn take_deaths(&self) -> Vec<FaultId> {
        std::mem::take(&mut self.state().deaths)
    }

    /// Removes all armed faults.
    pub fn heal(&self) {
        self.state().armed.clear();
    }

    /// When the last request that has met a fault so far is over, ns: answered, and carried out if
    /// it ever is.
    pub fn over_ns(&self) -> i64 {
        self.state().over_ns
    }

    /// Takes the hits since the last call.
    pub fn take_hits(&self) -> Vec<Hit> {
        std::mem::take(&mut self.state().hits)
    }

    /// What fault injection makes of this request.
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
    /// A fault of class [`ApiError`](FaultClass::ApiError) that meets the next `times` requests of these kinds,
    /// whoever sends them and whenever.
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

    /// The request as a webhook leaves it: without labels, or without owners, where it creates a pod.
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
    fn a_fault_meets_as_many_requests_as_it_was_armed_for() {
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
    fn a_fault_is_noticed_when_it_meets_a_request_and_not_before() {
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
        assert!(network.take_noticed().is_empty(), "the answer will tell");
    }

    #[test]
    fn a_fault_can_wait_for_one_call_of_one_batch_of_one_workload() {
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
    fn a_fault_that_met_no_request_in_time_is_removed() {
        let network = Network::default();
        let mut fault = armed(&[], 1);
        fault.until_ns = 10;
        network.arm(fault);
        let outcome = network.inject(&sent(Call::CreatePod, 0, 0), 11);
        assert!(matches!(outcome, InjectedOutcome::Pass));
    }
}
