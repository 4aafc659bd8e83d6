//! What a sync of a PodDisruptionBudget decides: a function of the budget, the pods, their
//! controllers' scales and the time.
//!
//! Source: `DisruptionController.trySync` and what it calls, of Kubernetes' `pkg/controller/disruption`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use podstorm_objects::{Kind, LabelSelector, Now, ObjectReference, Pod, Time};

use super::budget::{Amount, Budget, BudgetStatus, DELETION_TIMEOUT_NS, SYNC_FAILED};
use super::controllers::{Controllers, expected_scale};

/// The outcome of a sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The status to write, if it differs from the budget's.
    pub status: Option<BudgetStatus>,
    /// What to record, in order.
    pub events: Vec<DisruptionEvent>,
    /// When to sync the budget again, ns from now: at the earliest time at which an evicted pod
    /// must have begun its deletion. It holds once the status is written.
    pub recheck_after_ns: Option<i64>,
}

/// An event to record.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionEvent {
    /// What it is about: the budget or a pod.
    pub regarding: ObjectReference,
    /// Whether its type is `Warning`, not `Normal`.
    pub warning: bool,
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl DisruptionEvent {
    fn about(budget: &Budget, warning: bool, reason: &'static str, message: String) -> Self {
        DisruptionEvent {
            regarding: budget.reference(),
            warning,
            reason,
            message,
        }
    }

    /// A warning about a pod.
    pub(crate) fn about_pod(pod: &Pod, reason: &'static str, message: String) -> Self {
        DisruptionEvent {
            regarding: ObjectReference::new(Kind::POD, &pod.metadata),
            warning: true,
            reason,
            message,
        }
    }
}

/// How many pods a budget counts with, and how many of them must be healthy.
struct Expected {
    pods: i64,
    healthy: i64,
    /// Whether a pod without a controller is among those that were counted by their controllers.
    unmanaged: bool,
}

/// Decides a sync of a budget. `pods` are those of its namespace, sorted by name, whether it
/// selects them or not. O(pods), and a look-up for each controller.
pub fn decide(
    budget: &Budget,
    pods: &[Arc<Pod>],
    controllers: &dyn Controllers,
    now: Now,
) -> Decision {
    let mut decision = Decision::default();
    if let Err(error) = try_decide(budget, pods, controllers, now, &mut decision) {
        decision.status = Some(fail_safe(&budget.status, &error, now));
    }
    decision
}

/// The status after a sync that failed: nothing may be disrupted, and the counts stay.
///
/// Source: `DisruptionController.failSafe`.
pub fn fail_safe(status: &BudgetStatus, error: &str, now: Now) -> BudgetStatus {
    let mut status = status.clone();
    status.disruptions_allowed = 0;
    status.put_condition("False", SYNC_FAILED, error, now);
    status
}

fn try_decide(
    budget: &Budget,
    pods: &[Arc<Pod>],
    controllers: &dyn Controllers,
    now: Now,
    decision: &mut Decision,
) -> Result<(), String> {
    let event = |warning, reason, message| DisruptionEvent::about(budget, warning, reason, message);
    let selector = budget.compiled().map_err(|error| {
        let message = format!("Failed to get pods: {error}");
        decision.events.push(event(true, "NoPods", message));
        error.to_string()
    })?;
    let pods = pods.iter().map(|pod| &**pod);
    let pods: Vec<&Pod> = pods
        .filter(|pod| selector.matches(&pod.metadata.labels))
        .collect();
    if pods.is_empty() {
        let message = "No matching pods found".to_owned();
        decision.events.push(event(false, "NoPods", message));
    }
    let expected = expected(budget, &pods, controllers).inspect_err(|error| {
        let message = format!("Failed to calculate the number of expected pods: {error}");
        let reason = "CalculateExpectedPodCountFailed";
        decision.events.push(event(true, reason, message));
    })?;
    if expected.unmanaged {
        let selector = go_text(budget.selector.as_ref());
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
             unmanaged. As a result, the status of the PDB cannot be calculated correctly, which \
             may result in undefined behavior. To account for these pods please set \
             \".spec.minAvailable\" field of the PDB to an integer value."
        );
        decision.events.push(event(true, "UnmanagedPods", message));
    }
    let disrupted_pods = awaited_pods(budget, &pods, now, decision);
    let current_healthy = count_healthy(&pods, &disrupted_pods, now);
    let allowed = match expected.pods > 0 {
        true => (current_healthy - expected.healthy).max(0),
        // No pod is seen yet; those that come may be evicted once they were counted.
        false => 0,
    };
    let mut status = BudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods,
        disruptions_allowed: allowed,
        current_healthy,
        desired_healthy: expected.healthy,
        expected_pods: expected.pods,
        conditions: budget.status.conditions.clone(),
    };
    let wanted = status.computed_condition();
    let condition = status.condition();
    let condition = condition.map(|found| (found.status.as_str(), found.reason.as_str()));
    if status != budget.status || condition != Some(wanted) {
        status.set_condition(now);
        decision.status = Some(status);
    }
    Ok(())
}

fn expected(
    budget: &Budget,
    pods: &[&Pod],
    controllers: &dyn Controllers,
) -> Result<Expected, String> {
    if let Some(unavailable) = &budget.max_unavailable {
        let scale = expected_scale(pods, controllers)?;
        let unavailable = unavailable.of(scale.pods)?;
        return Ok(Expected {
            pods: scale.pods,
            healthy: scale.pods.saturating_sub(unavailable).max(0),
            unmanaged: scale.unmanaged,
        });
    }
    match &budget.min_available {
        None => Ok(Expected {
            pods: 0,
            healthy: 0,
            unmanaged: false,
        }),
        Some(Amount::Number(healthy)) => Ok(Expected {
            pods: i64::try_from(pods.len()).expect("objects in memory are fewer than 2^63"),
            healthy: *healthy,
            unmanaged: false,
        }),
        Some(share) => {
            let scale = expected_scale(pods, controllers)?;
            Ok(Expected {
                pods: scale.pods,
                healthy: share.of(scale.pods)?,
                unmanaged: scale.unmanaged,
            })
        }
    }
}

/// The latest time at which the deletion of a pod evicted at `at` begins, ns since the epoch.
fn deadline_ns(at: Time) -> i64 {
    let at_ns = at.unix_nanos().unwrap_or(i64::MIN);
    at_ns.saturating_add(DELETION_TIMEOUT_NS)
}

/// The evicted pods whose deletion is still awaited. Records those that took too long, and when to
/// look again.
fn awaited_pods(
    budget: &Budget,
    pods: &[&Pod],
    now: Now,
    decision: &mut Decision,
) -> BTreeMap<String, Time> {
    let mut awaited = BTreeMap::new();
    if budget.status.disrupted_pods.is_empty() {
        return awaited;
    }
    for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        let name = pod.metadata.name.as_str();
        let Some(&at) = budget.status.disrupted_pods.get(name) else {
            continue;
        };
        let left_ns = deadline_ns(at).saturating_sub(now.wall_ns);
        if left_ns < 0 {
            // Upstream names the namespace twice.
            let namespace = &budget.metadata.namespace;
            let message = format!(
                "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            );
            let event = DisruptionEvent::about_pod(pod, "NotDeleted", message);
            decision.events.push(event);
            continue;
        }
        let earliest = decision.recheck_after_ns.unwrap_or(i64::MAX);
        decision.recheck_after_ns = Some(earliest.min(left_ns));
        awaited.insert(name.to_owned(), at);
    }
    awaited
}

/// Ready pods, whatever their phase, that are neither being deleted nor about to be.
fn count_healthy(pods: &[&Pod], disrupted: &BTreeMap<String, Time>, now: Now) -> i64 {
    let is_healthy = |pod: &&&Pod| {
        let evicted = disrupted.get(pod.metadata.name.as_str());
        let leaves = evicted.is_some_and(|&at| deadline_ns(at) > now.wall_ns);
        !pod.metadata.is_deleting() && !leaves && pod.is_ready()
    };
    let healthy = pods.iter().filter(is_healthy).count();
    i64::try_from(healthy).expect("objects in memory are fewer than 2^63")
}

/// A selector as Go prints it.
fn go_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector.match_labels.pairs() {
        write!(text, "{key}: {value},").expect("writing to a string does not fail");
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for requirement in &*selector.match_expressions {
        let values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
        write!(
            text,
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            requirement.key,
            requirement.operator,
            values.join(" ")
        )
        .expect("writing to a string does not fail");
    }
    text.push_str("},}");
    text
}
