//! Reasons why nodes can't take a pod, in the words of Kubernetes' scheduler.
//!
//! Source: `FitError.Error` of Kubernetes' `pkg/scheduler/framework`, and `Preempt` of its
//! `preemption`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The reasons why a node can't take a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reasons: Vec<Cow<'static, str>>,
    /// Whether the node could not take the pod even if other pods ended.
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

/// The number of nodes for each reason.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<Cow<'static, str>, usize>);

impl Reasons {
    pub(super) fn add(&mut self, reasons: impl IntoIterator<Item = Cow<'static, str>>) {
        for reason in reasons {
            *self.0.entry(reason).or_default() += 1;
        }
    }

    /// Returns the message with the reasons, sorted, for a cluster with `nodes` nodes.
    pub(super) fn words(&self, nodes: usize) -> String {
        let counted = self.0.iter();
        let mut told: Vec<String> = counted
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        told.sort();
        format!("0/{nodes} nodes are available: {}.", told.join(", "))
    }
}

/// Returns the message for a pod that no node can take for the single reason `why`.
pub(super) fn everywhere(nodes: usize, why: &str) -> String {
    format!(
        "0/{nodes} nodes are available: {why}. preemption: 0/{nodes} nodes are available: {nodes} \
         Preemption is not helpful for scheduling."
    )
}
