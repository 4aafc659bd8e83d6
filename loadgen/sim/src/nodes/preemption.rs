//! Preemption: pods of lower priority are ended to make room for a pod that no node can take.
//!
//! The search evaluates each node without its pods of lower priority, and then keeps as many of
//! these pods as possible. The selected node is nominated: pods of lower or equal priority can't
//! take the reserved room until the pod is bound.
//!
//! Source: `pkg/scheduler/framework/preemption` and its plugin `DefaultPreemption`, Kubernetes
//! 1.36. Unlike upstream, the search considers all nodes.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::disruption::Budget;
use podstorm_objects::{DynamicObject, Kind, Pod, Selector, Str, Time, Uid};

use super::asks::{Ask, Incoming};
use super::capacity::Capacity;
use super::placed::PlacedPod;
use super::placement::Placement;
use super::refusals::{Reasons, Refusal};

/// The offset that is added to each priority before summing, so that every pod increases the sum.
const OFFSET: i64 = 1 << 31;

/// A pod that waits for victims on a node, with the requirements that are reserved for the pod.
#[derive(Debug)]
pub(super) struct Nomination {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Str,
    pub(super) ask: Arc<Ask>,
}

/// The pods that wait for victims, and the victims.
#[derive(Debug, Default)]
pub(super) struct Nominations {
    pub(super) pods: BTreeMap<Uid, Nomination>,
    /// The victims that still exist.
    pub(super) going: BTreeSet<Uid>,
}

/// The result for a pod that no node can take.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The reason, in the words of Kubernetes' scheduler; empty in a run.
    pub(super) why: String,
    /// The pods to delete for the pod.
    pub(super) victims: Vec<Arc<Pod>>,
    /// The node to which the pod is nominated; empty if an earlier nomination ends, `None` without
    /// a change.
    pub(super) nominated: Option<Str>,
    /// The pods of lower priority whose nominations to this node end.
    pub(super) outdone: Vec<Arc<Pod>>,
}

impl Refused {
    pub(super) fn because(why: String) -> Refused {
        Refused {
            why,
            ..Refused::default()
        }
    }
}

impl Nominations {
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the UIDs of this pod, if it is nominated, and of all nominated pods with lower
    /// priority.
    pub(super) fn below(&self, uid: &Uid, priority: i32) -> Vec<Uid> {
        let all = self.pods.iter();
        let below = all.filter(|(other, it)| *other == uid || it.ask.priority < priority);
        below.map(|(other, _)| other.clone()).collect()
    }

    pub(super) fn add(&mut self, pod: &Arc<Pod>, node: Str, ask: Arc<Ask>) {
        let pod = Arc::clone(pod);
        let uid = pod.metadata.uid.clone();
        self.pods.insert(uid, Nomination { pod, node, ask });
    }

    /// Updates the nominations after the search for a pod, and returns the result without the
    /// reason.
    pub(super) fn settle(&mut self, pod: &Arc<Pod>, ask: &Arc<Ask>, found: &Found) -> Refused {
        let mut refused = Refused::default();
        match found {
            Found::Victims(node, victims) => {
                let is_outdone = |_: &Uid, it: &mut Nomination| {
                    it.node == *node && it.ask.priority < ask.priority
                };
                let outdone = self.pods.extract_if(.., is_outdone);
                refused.outdone = outdone.map(|(_, it)| it.pod).collect();
                self.add(pod, node.clone(), Arc::clone(ask));
                let uids = victims.iter().map(|victim| victim.metadata.uid.clone());
                self.going.extend(uids);
                // Victims that are already terminating need not be deleted.
                let staying = victims.iter().filter(|it| !it.metadata.is_deleting());
                refused.victims = staying.cloned().collect();
                refused.nominated = Some(node.clone());
            }
            Found::Nothing(_) => {
                let before = self.pods.remove(&pod.metadata.uid);
                refused.nominated = before.map(|_| Str::default());
            }
            Found::NotEligible(_) => {}
        }
        refused
    }
}

/// The result of the search for a pod that no node can take.
pub(super) enum Found {
    /// The end of these pods makes room on this node.
    Victims(Str, Vec<Arc<Pod>>),
    /// Preemption does not help on any node: the number of nodes by reason.
    Nothing(Reasons),
    /// The pod may not preempt, for this reason.
    NotEligible(&'static str),
}

/// A node that can take the pod once the victims have ended.
struct Candidate {
    node: Str,
    victims: Vec<PlacedPod>,
    /// The number of victims whose end violates a disruption budget.
    violations: usize,
}

/// Searches for a node on which the end of other pods makes room for a pod that no node can take.
pub(super) fn search(
    placement: &mut Placement,
    incoming: Incoming<'_>,
    refusals: &[(Str, Refusal)],
    capacity: &Capacity,
) -> Found {
    let Incoming { pod, ask } = incoming;
    if ask.never_preempts {
        return Found::NotEligible("not eligible due to preemptionPolicy=Never.");
    }
    if awaits_victims(placement, pod, refusals) {
        return Found::NotEligible("not eligible due to a terminating pod on the nominated node.");
    }
    let mut lower: BTreeMap<Str, Vec<Uid>> = BTreeMap::new();
    let may_help = refusals.iter().any(|(_, refusal)| !refusal.is_hopeless);
    if may_help && placement.placed.has_lower(ask.priority) {
        for placed in placement.placed.pods() {
            if placed.ask.priority < ask.priority {
                let uids = lower.entry(placed.node.clone()).or_default();
                uids.push(placed.pod.metadata.uid.clone());
            }
        }
        lower.values_mut().for_each(|uids| uids.sort_unstable());
    }
    let budgets = match lower.is_empty() {
        true => Vec::new(),
        false => Allowance::all(&placement.cluster),
    };
    let mut reasons = Reasons::default();
    let mut best: Option<Candidate> = None;
    for (node, refusal) in refusals {
        let uids = lower.get(node).filter(|_| !refusal.is_hopeless);
        let found = match uids {
            _ if refusal.is_hopeless => {
                Err(vec!["Preemption is not helpful for scheduling".into()])
            }
            None => Err(vec!["No preemption victims found for incoming pod".into()]),
            Some(uids) => try_node(placement, incoming, node, uids, &budgets, capacity),
        };
        match found {
            // Among equals, the first node is chosen.
            Ok(candidate) => {
                if best
                    .as_ref()
                    .is_none_or(|best| candidate.rank() < best.rank())
                {
                    best = Some(candidate);
                }
            }
            Err(why) => reasons.add(why),
        }
    }
    match best {
        Some(best) => {
            let victims = best.victims.into_iter().map(|victim| victim.pod);
            Found::Victims(best.node, victims.collect())
        }
        None => Found::Nothing(reasons),
    }
}

/// Reports whether victims of lower priority are still ending on the pod's nominated node.
fn awaits_victims(placement: &Placement, pod: &Pod, refusals: &[(Str, Refusal)]) -> bool {
    let nominations = &placement.nominations;
    let Some(own) = nominations.pods.get(&pod.metadata.uid) else {
        return false;
    };
    let is_given_up = |(node, refusal): &(Str, Refusal)| *node == own.node && refusal.is_hopeless;
    !refusals.iter().any(is_given_up)
        && nominations.going.iter().any(|uid| {
            let victim = placement.placed.get(uid);
            victim.is_some_and(|it| it.node == own.node && it.ask.priority < own.ask.priority)
        })
}

/// Returns the victims on a node that make room for the pod, or the reasons why preemption does not
/// help there.
fn try_node(
    placement: &mut Placement,
    incoming: Incoming<'_>,
    node: &Str,
    lower: &[Uid],
    budgets: &[Allowance],
    capacity: &Capacity,
) -> Result<Candidate, Vec<Cow<'static, str>>> {
    let lifted = lower.iter().filter_map(|uid| placement.lift(uid));
    let mut lifted: Vec<PlacedPod> = lifted.collect();
    lifted.sort_by_key(importance);
    let mut free = capacity.balance(node) + lifted.len() as i64;
    if let Some(refusal) = placement.refusal_now(incoming, node, free) {
        lifted.iter().for_each(|it| placement.settle(it));
        return Err(refusal.reasons);
    }
    let violating = violating(&lifted, budgets);
    let mut all: Vec<(PlacedPod, bool)> = lifted.into_iter().zip(violating).collect();
    // Pods that are protected by their budgets are kept first.
    all.sort_by_key(|(_, violates)| !violates);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (other, violates) in all {
        placement.settle(&other);
        if placement.refusal_now(incoming, node, free - 1).is_none() {
            free -= 1;
            continue;
        }
        placement.lift(&other.pod.metadata.uid);
        violations += usize::from(violates);
        victims.push(other);
    }
    victims.iter().for_each(|it| placement.settle(it));
    victims.sort_by_key(importance);
    Ok(Candidate {
        node: node.clone(),
        victims,
        violations,
    })
}

impl Candidate {
    /// Returns the rank of the candidate; the lowest rank is the best. It compares the number of
    /// violations, then the maximum priority, the sum of priorities, the number of pods, and last
    /// the start of the pods with the highest priority, of which the latest is best.
    fn rank(&self) -> (usize, i32, i64, usize, Reverse<i64>) {
        let highest = self.victims.first().map_or(i32::MIN, |it| it.ask.priority);
        let priorities = self.victims.iter().map(|it| i64::from(it.ask.priority));
        let first = self.victims.iter().filter(|it| it.ask.priority == highest);
        let start_ns = first.map(|it| start_ns(&it.pod)).min();
        (
            self.violations,
            highest,
            priorities.map(|priority| priority + OFFSET).sum(),
            self.victims.len(),
            Reverse(start_ns.unwrap_or(i64::MAX)),
        )
    }
}

/// Returns the sort key of a pod. The most important pod comes first: that with the highest
/// priority and, among equals, the earliest start.
fn importance(placed: &PlacedPod) -> (Reverse<i32>, i64) {
    (Reverse(placed.ask.priority), start_ns(&placed.pod))
}

/// Returns the time at which a pod started, ns since the epoch; the maximum if it has not started.
fn start_ns(pod: &Pod) -> i64 {
    let status = &pod.status;
    let time = match &status.started {
        Some(started) => started.time,
        None => {
            let text = status.rest.get("startTime");
            let text = text.as_ref().and_then(|text| text.as_str());
            text.and_then(|text| text.parse().ok())
                .unwrap_or(Time::UNSET)
        }
    };
    time.unix_nanos().unwrap_or(i64::MAX)
}

/// A disruption budget, and how many more disruptions it allows.
struct Allowance {
    namespace: Str,
    selector: Selector,
    allowed: i64,
    /// The pods that are already counted as disrupted.
    disrupted: BTreeSet<String>,
}

impl Allowance {
    /// Returns the allowances of all budgets with a nonempty selector.
    fn all(cluster: &Cluster) -> Vec<Allowance> {
        let page = cluster
            .api(Kind::POD_DISRUPTION_BUDGET)
            .list(&ListOptions::default());
        let budgets = page.map(|page| page.items).unwrap_or_default();
        let budgets = budgets.iter().filter_map(|budget| {
            let budget = Budget::from_object((**budget).downcast_ref::<DynamicObject>()?);
            let selector = budget.compiled().ok()?;
            let disrupted = budget.status.disrupted_pods.keys();
            (!selector.is_empty()).then(|| Allowance {
                namespace: budget.metadata.namespace.clone(),
                selector,
                allowed: budget.status.disruptions_allowed,
                disrupted: disrupted.map(|name| name.to_string()).collect(),
            })
        });
        budgets.collect()
    }
}

/// Returns for each pod whether its disruption would exceed a budget, given the disruptions of the
/// earlier pods.
fn violating(pods: &[PlacedPod], budgets: &[Allowance]) -> Vec<bool> {
    let mut allowed: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut violates = |pod: &Pod| {
        let meta = &pod.metadata;
        let mut is_one_more = false;
        for (budget, left) in budgets.iter().zip(&mut allowed) {
            if !meta.labels.is_empty()
                && budget.namespace == meta.namespace
                && budget.selector.matches(&meta.labels)
                && !budget.disrupted.contains(meta.name.as_str())
            {
                *left -= 1;
                is_one_more |= *left < 0;
            }
        }
        is_one_more
    };
    pods.iter().map(|placed| violates(&placed.pod)).collect()
}
