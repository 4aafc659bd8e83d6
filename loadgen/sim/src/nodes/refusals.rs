//! Why nodes refuse a pod, and the words of Kubernetes' scheduler for it.
//!
//! Source: `FitError.Error` of Kubernetes' `pkg/scheduler/framework`, and `Preempt` of its `preemption`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Why a node does not take a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reasons: Vec<Cow<'static, str>>,
    /// Whether the node would refuse it too if it had no other pods.
    pub(super) is_hopeless: bool,
}

impl Refusal {
    pub(super) fn one(reason: &'static str, is_hopeless: bool) -> Refusal {
        Refusal {
            reasons: vec![reason.into()],
            is_hopeless,
        }
    }
}

/// On how many nodes each reason holds.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<Cow<'static, str>, usize>);

impl Reasons {
    pub(super) fn add(&mut self, reasons: impl IntoIterator<Item = Cow<'static, str>>) {
        for reason in reasons {
            *self.0.entry(reason).or_default() += 1;
        }
    }

    /// The reasons, sorted as texts, of a cluster of so many nodes.
    pub(super) fn words(&self, nodes: usize) -> String {
        let counted = self.0.iter();
        let mut told: Vec<String> = counted
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        told.sort();
        format!("0/{nodes} nodes are available: {}.", told.join(", "))
    }
}

/// What is said of a pod that no node takes, for this reason.
pub(super) fn everywhere(nodes: usize, why: &str) -> String {
    format!(
        "0/{nodes} nodes are available: {why}. preemption: 0/{nodes} nodes are available: {nodes} \
         Preemption is not helpful for scheduling."
    )
}
