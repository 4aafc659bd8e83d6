//! The decisions of a sync, based on the counted pods and the scales of their controllers.
//!
//! Source: `DisruptionController.trySync` and its callees in Kubernetes'
//! `pkg/controller/disruption`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use podstorm_objects::disruption::{
    Amount, Budget, BudgetStatus, DELETION_TIMEOUT_NS, SYNC_FAILED,
};
use podstorm_objects::{LabelSelector, Now, Pod, Time};

use super::selected::Counted;

/// The number of pods that a budget expects, and how many of them must be healthy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) pods: i64,
    pub(super) healthy: i64,
}

/// Returns the amount that a budget relates to the scales of its pods' controllers:
/// `maxUnavailable`, or `minAvailable` as a percentage. `None` if the budget counts the pods
/// themselves.
pub(super) fn of_scales(budget: &Budget) -> Option<&Amount> {
    let share = budget
        .min_available
        .as_ref()
        .filter(|amount| matches!(amount, Amount::Text(_)));
    budget.max_unavailable.as_ref().or(share)
}

/// Returns what a budget expects if `scale` is the sum of the scales of its pods' controllers.
///
/// # Errors
/// Fails if an amount is invalid.
pub(super) fn expected_of_scale(budget: &Budget, scale: i64) -> Result<Expected, String> {
    let healthy = match (&budget.max_unavailable, &budget.min_available) {
        (Some(unavailable), _) => scale.saturating_sub(unavailable.resolve(scale)?).max(0),
        (None, Some(available)) => available.resolve(scale)?,
        (None, None) => 0,
    };
    Ok(Expected {
        pods: scale,
        healthy,
    })
}

/// Returns what a budget expects if it counts the pods themselves: one with `minAvailable` as a
/// number, or with neither amount.
pub(super) fn expected_of_pods(budget: &Budget, pods: i64) -> Expected {
    match budget.min_available {
        Some(Amount::Number(healthy)) => Expected { pods, healthy },
        _ => Expected {
            pods: 0,
            healthy: 0,
        },
    }
}

/// The decision of a sync about the status and about evicted pods.
#[derive(Debug, Default)]
pub(super) struct Decision<'a> {
    /// The status to write; `None` if it equals the budget's status.
    pub(super) status: Option<BudgetStatus>,
    /// The evicted pods whose deletion should have begun by now.
    pub(super) not_deleted: Vec<&'a Pod>,
    /// The time in ns from the write of the status to the next sync of the budget, which is due
    /// when the deletion of another evicted pod must have begun. `None` if no deletion is awaited.
    pub(super) recheck_after_ns: Option<i64>,
}

/// Decides the status. O(evicted pods).
pub(super) fn decide<'a>(
    budget: &Budget,
    counted: &'a Counted,
    expected: Expected,
    now: Now,
) -> Decision<'a> {
    let mut decision = Decision::default();
    let mut disrupted_pods = BTreeMap::new();
    let mut leaving = 0;
    for (pod, at) in &counted.evicted {
        let left_ns = deadline_ns(*at).saturating_sub(now.wall_ns);
        if left_ns < 0 {
            decision.not_deleted.push(pod);
            continue;
        }
        let earliest = decision.recheck_after_ns.unwrap_or(i64::MAX);
        decision.recheck_after_ns = Some(earliest.min(left_ns));
        leaving += i64::from(left_ns > 0 && pod.is_ready());
        disrupted_pods.insert(pod.metadata.name.to_string(), *at);
    }
    let current_healthy = counted.healthy - leaving;
    let mut status = BudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods,
        disruptions_allowed: match expected.pods > 0 {
            true => (current_healthy - expected.healthy).max(0),
            // No pods are expected. New pods may be evicted only once they are counted.
            false => 0,
        },
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
    decision
}

/// Returns the status after a failed sync: it allows no disruptions and keeps the counts.
///
/// Source: `DisruptionController.failSafe`.
pub(super) fn fail_safe(status: &BudgetStatus, error: &str, now: Now) -> BudgetStatus {
    let mut status = status.clone();
    status.disruptions_allowed = 0;
    status.put_condition("False", SYNC_FAILED, error, now);
    status
}

/// Returns when the deletion of a pod that was evicted at `at` must have begun, in ns since the
/// Unix epoch.
fn deadline_ns(at: Time) -> i64 {
    let at_ns = at.unix_nanos().unwrap_or(i64::MIN);
    at_ns.saturating_add(DELETION_TIMEOUT_NS)
}

/// Formats a selector as Go prints it in messages.
pub(super) fn go_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector.match_labels.pairs() {
        write!(text, "{key}: {value},").expect("writing to a string can't fail");
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
        .expect("writing to a string can't fail");
    }
    text.push_str("},}");
    text
}
