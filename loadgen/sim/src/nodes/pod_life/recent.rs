//! What pods in the same state share. Pods of one template go through the same states, many of them in the same second:
//! what their statuses say is made once, and takes memory once. What a [place](super::Place) says of all its containers is
//! part of it: a kubelet's results are of its own places.

use std::sync::Arc;

use podstorm_objects::{ContainerDetails, PodConditions, PodPhase, PodStatus, Rest, Str};

use super::container::{Container, Ended, Role, State};
use super::report::{PodReport, Report};
use super::{PodLife, SECOND_NS, Stopping, Why};

/// How many results are kept of each sort: pods in a few states take turns.
const KEPT: usize = 8;

/// Results that were made last.
#[derive(Debug, Default)]
pub(in crate::nodes) struct Recent {
    pub(super) details: Results<DetailsOf, Arc<ContainerDetails>>,
    pub(super) conditions: Results<ConditionsOf, PodConditions>,
    pub(super) rest: Results<RestOf, Rest>,
}

/// The last results of one sort, with what they follow from.
#[derive(Debug)]
pub(super) struct Results<K, V> {
    known: Vec<(K, V)>,
    /// The place of the oldest result.
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
    /// The result for a key, which is made where it is not known. A result without a key is made each time.
    pub(super) fn of(&mut self, key: Option<K>, make: impl FnOnce() -> V) -> V {
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

/// What the details of a container without restarts follow from.
#[derive(Debug)]
pub(super) struct DetailsOf {
    seconds: [Option<i64>; 2],
    is_started: bool,
    shown: Option<Shown>,
    image: Str,
    report: Option<Arc<Report>>,
    /// Those of its stored status.
    old: Option<Arc<ContainerDetails>>,
}

/// What they say of a container that does not run.
#[derive(Debug, PartialEq)]
enum Shown {
    Waiting(&'static str),
    Ended(Ended),
}

/// Whether both are the same in memory, or both absent.
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
    /// Of a container; `None` where more than this tells its details.
    pub(super) fn of(
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

/// What the members of a status that have no field follow from.
#[derive(Debug)]
pub(super) struct RestOf {
    generation: i64,
    has_started: bool,
    report: Option<Arc<PodReport>>,
    /// Those of the stored status.
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
    /// Of a pod; `None` where more than this tells them.
    pub(super) fn of(life: &PodLife, old: &PodStatus, has_started: bool) -> Option<RestOf> {
        let is_plain = life.end.is_none_or(|end| end.why.is_none());
        is_plain.then(|| RestOf {
            generation: life.generation,
            has_started,
            report: life.report.as_ref().map(|(_, report)| Arc::clone(report)),
            old: old.rest.clone(),
        })
    }
}

/// What the conditions of a pod with one container follow from.
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
    /// Those of its stored status.
    old: PodConditions,
}

impl ConditionsOf {
    /// Of a pod; `None` where more than this tells its conditions. `old` has none that the kubelet does not own.
    pub(super) fn of(life: &PodLife, old: &PodConditions, phase: PodPhase) -> Option<ConditionsOf> {
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
    fn the_last_results_are_made_once_and_old_ones_again() {
        let mut results = Results::default();
        let mut made = 0;
        let mut of = |key: Option<usize>| {
            results.of(key, || {
                made += 1;
                key.unwrap_or(0) * 10
            })
        };
        for key in [0, 1, 0, 1, 2] {
            assert_eq!(of(Some(key)), key * 10);
        }
        // The first one is forgotten for the last one of these.
        for key in (1..=KEPT).chain(2..=KEPT) {
            assert_eq!(of(Some(key)), key * 10);
        }
        assert_eq!([of(Some(0)), of(None), of(None)], [0; 3]);
        assert_eq!(made, KEPT + 4);
    }
}
