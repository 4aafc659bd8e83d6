//! Caches for pods in the same state. Pods of one template pass through the same states, many of
//! them in the same second, so the parts of their statuses are built once and stored once. The
//! results include values of the [place](super::Place), so a cache is valid only for the kubelets
//! that use it.

use std::sync::Arc;

use podstorm_objects::{ContainerDetails, PodConditions, PodPhase, PodStatus, Rest, Str};

use super::container::{Container, Ended, Role, State};
use super::report::{PodReport, Report};
use super::{PodLife, SECOND_NS, Stopping, Why};

/// The number of results of each kind that are kept. It is small, because pods alternate between
/// few states.
const KEPT: usize = 8;

/// The most recent results of all kinds.
#[derive(Debug, Default)]
pub(in crate::nodes) struct Recent {
    pub(super) details: Results<DetailsOf, Arc<ContainerDetails>>,
    pub(super) conditions: Results<ConditionsOf, PodConditions>,
    pub(super) rest: Results<RestOf, Rest>,
}

/// The most recent results of one kind, with their inputs.
#[derive(Debug)]
pub(super) struct Results<K, V> {
    known: Vec<(K, V)>,
    /// The index of the oldest result.
    oldest: usize,
}

impl<K, V> Default for Results<K, V> {
    fn default() -> Results<K, V> {
        Results {
            known: Vec::new(),
            oldest: 0,
        }
    }
}

impl<K: PartialEq, V: Clone> Results<K, V> {
    /// Returns the result for a key, and builds it if it is not cached. A result without a key is
    /// always built.
    pub(super) fn get_or_make(&mut self, key: Option<K>, make: impl FnOnce() -> V) -> V {
        let Some(key) = key else {
            return make();
        };
        if let Some((_, known)) = self.known.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let made = make();
        let new = (key, made.clone());
        if self.known.len() < KEPT {
            self.known.push(new);
        } else {
            self.known[self.oldest] = new;
            self.oldest = (self.oldest + 1) % KEPT;
        }
        made
    }
}

/// The inputs of the details of a container without restarts.
#[derive(Debug)]
pub(super) struct DetailsOf {
    seconds: [Option<i64>; 2],
    is_started: bool,
    shown: Option<Shown>,
    image: Str,
    report: Option<Arc<Report>>,
    /// The details in the stored status.
    old: Option<Arc<ContainerDetails>>,
}

/// The state of a container that does not run.
#[derive(Debug, PartialEq)]
enum Shown {
    Waiting(&'static str),
    Ended(Ended),
}

/// Reports whether both are the same allocation or both `None`.
fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

impl PartialEq for DetailsOf {
    fn eq(&self, other: &DetailsOf) -> bool {
        self.seconds == other.seconds
            && self.is_started == other.is_started
            && is_same(self.old.as_ref(), other.old.as_ref())
            && self.shown == other.shown
            && self.image == other.image
            && is_same(self.report.as_ref(), other.report.as_ref())
    }
}

impl DetailsOf {
    /// Returns the inputs for a container; `None` if its details depend on more than these.
    pub(super) fn new(
        container: &Container,
        waits_for: &'static str,
        old: Option<&Arc<ContainerDetails>>,
    ) -> Option<DetailsOf> {
        let is_plain = container.role == Role::Regular
            && container.last.is_none()
            && container.restarts == 0
            && !container.is_removed;
        let second = |ns: i64| ns.div_euclid(SECOND_NS);
        let (seconds, shown) = match &container.state {
            _ if !is_plain => return None,
            State::Waiting => ([None; 2], Some(Shown::Waiting(waits_for))),
            State::Running(running) => ([Some(second(running.since_ns)), None], None),
            State::Ended {
                end,
                again_ns: None,
                ..
            } => {
                let ended = Ended {
                    began_ns: None,
                    ended_ns: None,
                    ..end.clone()
                };
                let seconds = [end.began_ns, end.ended_ns].map(|ns| ns.map(second));
                (seconds, Some(Shown::Ended(ended)))
            }
            State::Ended { .. } | State::Refused { .. } => return None,
        };
        Some(DetailsOf {
            seconds,
            is_started: container.is_started(),
            shown,
            image: container.image.clone(),
            report: container.report.clone(),
            old: old.cloned(),
        })
    }
}

/// The inputs of the status members that have no field in `PodStatus`.
#[derive(Debug)]
pub(super) struct RestOf {
    generation: i64,
    has_started: bool,
    report: Option<Arc<PodReport>>,
    /// These members in the stored status.
    old: Rest,
}

impl PartialEq for RestOf {
    fn eq(&self, other: &RestOf) -> bool {
        self.generation == other.generation
            && self.has_started == other.has_started
            && is_same(self.report.as_ref(), other.report.as_ref())
            && self.old.is_same(&other.old)
    }
}

impl RestOf {
    /// Returns the inputs for a pod; `None` if the members depend on more than these.
    pub(super) fn new(life: &PodLife, old: &PodStatus, has_started: bool) -> Option<RestOf> {
        let is_plain = life.end.is_none_or(|end| end.why.is_none());
        is_plain.then(|| RestOf {
            generation: life.generation,
            has_started,
            report: life.report.as_ref().map(|(_, report)| Arc::clone(report)),
            old: old.rest.clone(),
        })
    }
}

/// The inputs of the conditions of a pod with one container.
#[derive(Debug, PartialEq)]
pub(super) struct ConditionsOf {
    second: i64,
    phase: PodPhase,
    generation: i64,
    is_up: bool,
    is_initialized: bool,
    has_ended: bool,
    is_over: bool,
    has_run: bool,
    is_ready: bool,
    container: Str,
    /// The conditions in the stored status.
    old: PodConditions,
}

impl ConditionsOf {
    /// Returns the inputs for a pod; `None` if its conditions depend on more than these. `old` must
    /// contain only conditions that the kubelet owns.
    pub(super) fn new(
        life: &PodLife,
        old: &PodConditions,
        phase: PodPhase,
    ) -> Option<ConditionsOf> {
        let why = life.stopping.map(|Stopping { why, .. }| why);
        let [container] = &life.containers[..] else {
            return None;
        };
        let is_plain =
            life.init == 0 && life.gates.is_empty() && !life.has_rule && why != Some(Why::Evicted);
        is_plain.then(|| ConditionsOf {
            second: life.at_ns.div_euclid(SECOND_NS),
            phase,
            generation: life.generation,
            is_up: life.is_up,
            is_initialized: life.is_initialized || life.was_initialized,
            has_ended: life.end.is_some(),
            is_over: why == Some(Why::Deadline),
            has_run: container.has_run(),
            is_ready: container.is_ready(),
            container: container.name.clone(),
            old: old.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_results_are_cached_and_old_ones_rebuilt() {
        let mut results = Results::default();
        let mut made = 0;
        let mut of = |key: Option<usize>| {
            results.get_or_make(key, || {
                made += 1;
                key.unwrap_or(0) * 10
            })
        };
        for key in [0, 1, 0, 1, 2] {
            assert_eq!(of(Some(key)), key * 10);
        }
        // The last of these keys evicts the first one.
        for key in (1..=KEPT).chain(2..=KEPT) {
            assert_eq!(of(Some(key)), key * 10);
        }
        assert_eq!([of(Some(0)), of(None), of(None)], [0; 3]);
        assert_eq!(made, KEPT + 4);
    }
}
