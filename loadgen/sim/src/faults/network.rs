//! Faults armed against requests. One network is shared by all controllers of a run: what is armed
//! meets the next request that fits, whoever sends it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use podstorm::client::{ApiError, Request};
use serde::{Deserialize, Serialize};

use super::answer::{ApiFault, Call};
use super::class::FaultClass;

/// Who has armed a fault: a number that comes back when the fault is noticed.
pub type Mark = u32;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It is answered so and changes nothing.
    Refuse(ApiFault),
    /// It is carried out and answered so.
    LoseAnswer(ApiFault),
    /// It is answered so, and carried out only after that many milliseconds more.
    CommitLate {
        /// What the client sees.
        answer: ApiFault,
        /// How much later than the answer's request it is carried out, ms.
        after_ms: u32,
    },
    /// It never arrives; the client gives up after that many milliseconds.
    NeverArrives {
        /// How long the client waits, ms.
        after_ms: u32,
    },
    /// It is carried out twice, one time after the other; the second answer comes back.
    Twice,
    /// It takes that many milliseconds longer each way.
    Slow {
        /// Milliseconds.
        by_ms: u32,
    },
    /// A webhook takes the labels from the pod to be created.
    StripLabels,
    /// A webhook takes the owner references from the pod to be created.
    StripOwner,
}

/// A fault that waits for its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// What it is counted as.
    pub class: FaultClass,
    /// The calls that it meets; empty is every pod write and status write.
    pub calls: Vec<Call>,
    /// Only requests of this ReplicaSet, by name.
    pub parent: Option<String>,
    /// Only that batch of creates of a sync, from 0.
    pub batch: Option<u32>,
    /// Only that request of its batch, from 0.
    pub index: Option<u32>,
    /// What happens.
    pub effect: Effect,
    /// To how many requests.
    pub times: u32,
    /// Not after this moment, ns of the monotonic line.
    pub until_ns: i64,
}

/// Where in its sync a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// How many batches the sync has sent before.
    pub batch: u32,
    /// Its number within the batch.
    pub index: u32,
}

/// A request about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Its kind.
    pub call: Call,
    /// Itself; absent for writes of Events.
    pub request: Option<&'a Request>,
    /// The ReplicaSet that sends it, by name.
    pub parent: &'a str,
    /// Where in the sync it is.
    pub place: Place,
}

/// What becomes of one request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Nothing special.
    Pass,
    /// Answered with the error, not carried out; that much later, ns.
    Refuse(ApiError, i64),
    /// Carried out, answered with the error.
    LoseAnswer(ApiError),
    /// Answered with the error, carried out that much later, ns.
    CommitLate(ApiError, i64),
    /// Carried out twice; whether the sender notices is up to the second answer.
    Twice(Option<Mark>),
    /// Later by so much each way, ns.
    Slow(i64),
    /// Carried out as this request.
    Changed(Box<Request>),
}

/// A fault has met its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The fault.
    pub class: FaultClass,
    /// The call that it met.
    pub call: Call,
    /// Where in its sync.
    pub place: Place,
}

/// What is armed, and what has struck.
#[derive(Debug, Default)]
pub struct Network {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    armed: Vec<(Armed, Option<Mark>)>,
    hits: Vec<Hit>,
    /// Who arms now.
    mark: Option<Mark>,
    noticed: BTreeSet<Mark>,
    deaths: Vec<Mark>,
    /// When the last of the requests that were struck has its answer and was carried out, ns.
    over_ns: i64,
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Lets a fault wait for its requests. Faults armed earlier go first.
    pub fn arm(&self, fault: Armed) {
        let mut state = self.state();
        let mark = state.mark;
        state.armed.push((fault, mark));
    }

    /// What is armed from now on, here and on the lines, is that one's.
    pub fn mark_as(&self, mark: Option<Mark>) {
        self.state().mark = mark;
    }

    /// Whose is what is armed now.
    pub fn mark(&self) -> Option<Mark> {
        self.state().mark
    }

    /// Faults have changed what a controller sees or does.
    pub fn notice(&self, marks: impl IntoIterator<Item = Mark>) {
        self.state().noticed.extend(marks);
    }

    /// Whose faults were noticed since the last call.
    pub fn take_noticed(&self) -> BTreeSet<Mark> {
        std::mem::take(&mut self.state().noticed)
    }

    /// A controller has died of that one's fault.
    pub fn note_death(&self, mark: Option<Mark>) {
        self.state().deaths.extend(mark);
    }

    /// Of whose faults controllers have died since the last call.
    pub fn take_deaths(&self) -> Vec<Mark> {
        std::mem::take(&mut self.state().deaths)
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.state().armed.clear();
    }

    /// When the last of the requests that have been struck so far is over, ns: answered, and carried
    /// out if it ever is.
    pub fn over_ns(&self) -> i64 {
        self.state().over_ns
    }

    /// What struck since the last call.
    pub fn take_hits(&self) -> Vec<Hit> {
        std::mem::take(&mut self.state().hits)
    }

    /// What becomes of this request.
    pub fn fate(&self, sent: &Sent<'_>, now_ns: i64) -> Fate {
        let mut state = self.state();
        if state.armed.is_empty() {
            return Fate::Pass;
        }
        state.armed.retain(|(fault, _)| fault.until_ns >= now_ns);
        let Some(at) = state.armed.iter().position(|(fault, _)| fault.meets(sent)) else {
            return Fate::Pass;
        };
        let (fault, mark) = &mut state.armed[at];
        let (class, mark) = (fault.class, *mark);
        let mut fate = fault.fate(sent.request);
        fault.times -= 1;
        if fault.times == 0 {
            state.armed.remove(at);
        }
        let late_ns = match &fate {
            Fate::Refuse(_, late_ns) | Fate::CommitLate(_, late_ns) | Fate::Slow(late_ns) => {
                *late_ns
            }
            Fate::Pass | Fate::LoseAnswer(_) | Fate::Twice(_) | Fate::Changed(_) => 0,
        };
        match &mut fate {
            Fate::Twice(whose) => *whose = mark,
            Fate::Pass => {}
            _ => state.noticed.extend(mark),
        }
        state.over_ns = state.over_ns.max(now_ns.saturating_add(late_ns));
        state.hits.push(Hit {
            class,
            call: sent.call,
            place: sent.place,
        });
        fate
    }
}

impl Armed {
    fn meets(&self, sent: &Sent<'_>) -> bool {
        let call = match self.calls.as_slice() {
            [] => sent.call.is_write(),
            calls => calls.contains(&sent.call),
        };
        let changes_pod = matches!(self.effect, Effect::StripLabels | Effect::StripOwner);
        call && (!changes_pod || sent.call == Call::CreatePod)
            && self
                .parent
                .as_ref()
                .is_none_or(|parent| parent == sent.parent)
            && self.batch.is_none_or(|batch| batch == sent.place.batch)
            && self.index.is_none_or(|index| index == sent.place.index)
    }

    fn fate(&self, request: Option<&Request>) -> Fate {
        match self.effect {
            Effect::Refuse(fault) => Fate::Refuse(fault.error(), 0),
            Effect::LoseAnswer(fault) => Fate::LoseAnswer(fault.error()),
            Effect::CommitLate { answer, after_ms } => {
                Fate::CommitLate(answer.error(), ns(after_ms))
            }
            Effect::NeverArrives { after_ms } => {
                Fate::Refuse(ApiFault::Timeout.error(), ns(after_ms))
            }
            Effect::Twice => Fate::Twice(None),
            Effect::Slow { by_ms } => Fate::Slow(ns(by_ms)),
            Effect::StripLabels | Effect::StripOwner => match request {
                Some(request) => Fate::Changed(Box::new(self.changed(request))),
                None => Fate::Pass,
            },
        }
    }

    fn changed(&self, request: &Request) -> Request {
        let mut request = request.clone();
        if let Request::CreatePod { pod: body, .. } = &mut request {
            let mut pod = podstorm_objects::Pod::clone(body);
            match self.effect {
                Effect::StripLabels => pod.metadata.labels = Default::default(),
                _ => pod.metadata.owner_references = Default::default(),
            }
            *body = std::sync::Arc::new(pod);
        }
        request
    }
}

fn ns(ms: u32) -> i64 {
    i64::from(ms) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(calls: &[Call], times: u32) -> Armed {
        Armed {
            class: FaultClass::ApiError,
            calls: calls.to_vec(),
            parent: None,
            batch: None,
            index: None,
            effect: Effect::Refuse(ApiFault::InternalError),
            times,
            until_ns: i64::MAX,
        }
    }

    fn sent(call: Call, batch: u32, index: u32) -> Sent<'static> {
        Sent {
            call,
            request: None,
            parent: "web",
            place: Place { batch, index },
        }
    }

    #[test]
    fn a_fault_strikes_as_often_as_it_was_armed_for() {
        let network = Network::default();
        network.arm(armed(&[Call::DeletePod], 2));
        let fate = |call| network.fate(&sent(call, 0, 0), 0);
        assert!(matches!(fate(Call::CreatePod), Fate::Pass));
        assert!(matches!(fate(Call::DeletePod), Fate::Refuse(error, 0) if error.code == 500));
        assert!(matches!(fate(Call::DeletePod), Fate::Refuse(..)));
        assert!(matches!(fate(Call::DeletePod), Fate::Pass));
        assert_eq!(network.take_hits().len(), 2);
    }

    #[test]
    fn a_fault_is_noticed_by_whom_it_strikes_and_not_before() {
        let network = Network::default();
        let twice = Armed {
            effect: Effect::Twice,
            ..armed(&[Call::PatchPod], 1)
        };
        for (mark, fault) in [(3, armed(&[Call::DeletePod], 1)), (4, twice)] {
            network.mark_as(Some(mark));
            network.arm(fault);
        }
        network.mark_as(None);
        network.fate(&sent(Call::CreatePod, 0, 0), 0);
        assert!(network.take_noticed().is_empty());
        network.fate(&sent(Call::DeletePod, 0, 0), 0);
        assert_eq!(network.take_noticed(), BTreeSet::from([3]));
        let fate = network.fate(&sent(Call::PatchPod, 0, 0), 0);
        assert!(matches!(fate, Fate::Twice(Some(4))));
        assert!(network.take_noticed().is_empty(), "the answer will tell");
    }

    #[test]
    fn a_fault_can_wait_for_one_call_of_one_batch_of_one_parent() {
        let network = Network::default();
        let mut fault = armed(&[Call::CreatePod], 1);
        fault.batch = Some(2);
        fault.index = Some(3);
        fault.parent = Some("web".into());
        network.arm(fault);
        for (batch, index, struck) in [(2, 2, false), (1, 3, false), (2, 3, true)] {
            let fate = network.fate(&sent(Call::CreatePod, batch, index), 0);
            assert_eq!(matches!(fate, Fate::Refuse(..)), struck);
        }
    }

    #[test]
    fn a_fault_that_met_nobody_in_time_is_forgotten() {
        let network = Network::default();
        let mut fault = armed(&[], 1);
        fault.until_ns = 10;
        network.arm(fault);
        assert!(matches!(
            network.fate(&sent(Call::CreatePod, 0, 0), 11),
            Fate::Pass
        ));
    }
}
