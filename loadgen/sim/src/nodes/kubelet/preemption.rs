//! Preemption by kubelets: pods are ended to make room for a critical pod that was created with a
//! node name.
//!
//! The victims are few, and request little more than is needed. Best-effort pods are preferred to
//! burstable ones, and these to guaranteed ones. The kubelet accepts the critical pod when the
//! victims have ended.
//!
//! Source: Kubernetes' `pkg/kubelet/preemption`, 1.36.

use std::sync::Arc;

use podstorm_objects::{Now, Pod};
use serde_json::Value;

use super::admission::{Admission, Lack, Refusal, in_units};
use super::{PodAction, PodLifecycle};
use crate::nodes::asks::Ask;

/// The lowest priority of critical pods.
const CRITICAL: i64 = 2_000_000_000;

/// The interval at which the kubelet checks whether the victims have ended, ns.
const LOOK_AGAIN_NS: i64 = 1_000_000_000;

/// The QoS classes, in the order of preemption.
const CLASSES: [&str; 3] = ["BestEffort", "Burstable", "Guaranteed"];

/// The amount of each resource that is missing.
type Missing = Vec<(String, i128)>;

fn priority(pod: &Pod) -> i64 {
    let priority = pod.spec.get("priority").as_ref().and_then(Value::as_i64);
    priority.unwrap_or(0)
}

/// Reports whether a pod is critical.
pub(super) fn is_critical(pod: &Pod) -> bool {
    priority(pod) >= CRITICAL
}

/// A possible victim, with its requests.
struct Candidate {
    pod: Arc<Pod>,
    ask: Ask,
}

impl Candidate {
    fn requests(&self, resource: &str) -> i128 {
        match resource {
            "pods" => 1,
            _ => {
                let amount = self.ask.requests.get(resource).copied();
                in_units(resource, amount.unwrap_or_default())
            }
        }
    }

    /// Returns how much would still be missing after the end of this pod: the sum of the squared
    /// missing fractions of all resources.
    fn distance(&self, missing: &Missing) -> f64 {
        let parts = missing.iter().map(|(resource, amount)| {
            let left = (amount - self.requests(resource)).max(0);
            (left as f64 / *amount as f64).powi(2)
        });
        parts.sum()
    }

    /// Returns the requested memory and CPU. Of two pods that help equally, the smaller one is
    /// ended.
    fn size(&self) -> [i128; 2] {
        ["memory", "cpu"].map(|resource| self.requests(resource))
    }
}

/// Returns the amounts that are still missing after the end of these pods.
fn without<'c>(missing: &Missing, pods: impl Iterator<Item = &'c Candidate> + Clone) -> Missing {
    let left = missing.iter().map(|(resource, amount)| {
        let freed: i128 = pods.clone().map(|it| it.requests(resource)).sum();
        (resource.clone(), amount - freed)
    });
    left.filter(|(_, amount)| *amount > 0).collect()
}

/// Removes the victims from `pods` and returns them. All `pods` together must free enough.
fn choose(pods: &mut Vec<Candidate>, mut missing: Missing) -> Vec<Candidate> {
    let mut chosen = Vec::new();
    while !missing.is_empty() && !pods.is_empty() {
        let by_distance = |at: &usize, other: &usize| {
            let (one, two) = (&pods[*at], &pods[*other]);
            let distances = one.distance(&missing).total_cmp(&two.distance(&missing));
            distances.then_with(|| one.size().cmp(&two.size()))
        };
        let nearest = (0..pods.len()).min_by(by_distance);
        let nearest = pods.swap_remove(nearest.expect("the pods together free enough"));
        missing = without(&missing, std::iter::once(&nearest));
        chosen.push(nearest);
    }
    chosen
}

impl PodLifecycle {
    /// Selects the victims among the pods `there` for a critical pod with these shortages, or
    /// refuses the pod if their end would not free enough.
    pub(super) fn make_room(&self, pod: &Pod, lacks: &[Lack], there: Vec<Arc<Pod>>) -> Admission {
        let missing = lacks.iter().map(|lack| {
            let [requested, used, capacity] = lack.amounts;
            (lack.resource.clone(), requested - (capacity - used))
        });
        let candidates = there.into_iter().map(|pod| Candidate {
            ask: Ask::from_spec(&pod.spec),
            pod,
        });
        let (going, staying): (Vec<_>, Vec<_>) =
            candidates.partition(|it| self.is_stopping(&it.pod));
        let missing = without(&missing.collect(), going.iter());
        let may_go = |it: &Candidate| !is_critical(&it.pod) || priority(&it.pod) < priority(pod);
        let mut classes: [Vec<Candidate>; 3] = Default::default();
        for candidate in staying.into_iter().filter(may_go) {
            let class = candidate.pod.status.rest.get("qosClass");
            let class = class.as_ref().and_then(Value::as_str);
            let at = CLASSES.iter().position(|known| Some(*known) == class);
            classes[at.unwrap_or(0)].push(candidate);
        }
        let left = without(&missing, classes.iter().flatten());
        if !left.is_empty() {
            let lacking = left
                .iter()
                .map(|(resource, amount)| format!("(res: {resource}, q: {amount}), "));
            let lacking: String = lacking.collect();
            return Admission::Refuses(Refusal::new(
                "UnexpectedAdmissionError",
                format!(
                    "Unexpected error while attempting to recover from admission failure: preemption: \
                     error finding a set of pods to preempt: no set of running pods found to reclaim \
                     resources: [{lacking}]"
                ),
            ));
        }
        let mut chosen: Vec<Candidate> = Vec::new();
        // Each class covers only the amounts that would be missing even if all pods of the earlier
        // classes ended.
        for class in (0..CLASSES.len()).rev() {
            let (before, rest) = classes.split_at_mut(class);
            let missing = without(&missing, before.iter().flatten().chain(&chosen));
            chosen.extend(choose(&mut rest[0], missing));
        }
        let victims = chosen.into_iter().rev().map(|it| it.pod);
        Admission::After(victims.collect())
    }

    /// Ends the victims of a critical pod, and schedules another check of the pod.
    pub(super) fn preempt(&mut self, victims: &[Arc<Pod>], pod: Arc<Pod>, now: Now) {
        for victim in victims {
            self.play_after(victim, now, |life| life.preempt(now.wall_ns));
        }
        let due_ns = now.mono_ns.saturating_add(LOOK_AGAIN_NS);
        self.later.push(due_ns, (PodAction::Play, pod));
    }
}
