//! Selectors: compiling a selector, matching it against a pod's labels, and finding the owners that
//! match an orphan.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::object::{LabelSelector, LabelSelectorRequirement, Labels, Selector, Str};

use crate::clusters::Plan;

/// Returns a selector like that of a Deployment's ReplicaSet.
pub fn match_labels() -> LabelSelector {
    LabelSelector {
        match_labels: Labels::from_pairs([
            ("app.kubernetes.io/name", "web-7"),
            ("pod-template-hash", "7d9c5b8f6d"),
        ]),
        match_expressions: Arc::new([]),
    }
}

/// Returns a selector with one requirement of each operator.
pub fn match_expressions() -> LabelSelector {
    let requirement = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|value| Str::from(*value)).collect(),
    };
    LabelSelector {
        match_labels: Labels::ABSENT,
        match_expressions: Arc::new([
            requirement("pod-template-hash", "In", &["5f6d7c8b9", "7d9c5b8f6d"]),
            requirement("app.kubernetes.io/name", "Exists", &[]),
            requirement("tier", "NotIn", &["canary", "test"]),
            requirement("drained", "DoesNotExist", &[]),
        ]),
    }
}

/// Returns labels of pods. Those with even indexes match both selectors; the others fail at the
/// last label.
pub fn labels() -> [Labels; 16] {
    std::array::from_fn(|index| {
        let hash = if index % 2 == 0 {
            "7d9c5b8f6d"
        } else {
            "7d9c5b8f6x"
        };
        Labels::from_pairs([
            ("app.kubernetes.io/name", "web-7"),
            ("app.kubernetes.io/part-of", "shop"),
            ("pod-template-hash", hash),
        ])
    })
}

/// Matches a compiled selector against the labels of one pod after the other.
pub fn matching(selector: LabelSelector) -> impl FnMut() -> u64 {
    let selector = Selector::compile(Some(&selector)).expect("the selector is valid");
    let (labels, mut turn) = (labels(), 0);
    move || {
        turn = (turn + 1) % labels.len();
        selector.matches(black_box(&labels[turn])).into()
    }
}

/// Compiles a selector.
pub fn compile() -> impl FnMut() -> u64 {
    let selector = match_expressions();
    move || {
        let selector =
            Selector::compile(Some(black_box(&selector))).expect("the selector is valid");
        selector.required_pairs().len() as u64
    }
}

/// Finds the owners that could adopt an orphan among `count` ReplicaSets in its namespace.
pub fn owners(count: usize) -> impl FnMut() -> u64 {
    let cluster = Plan::new(count, 0).build();
    let labels: Vec<Labels> = cluster
        .replica_sets
        .iter()
        .map(|owner| owner.spec.template.metadata.labels.clone())
        .collect();
    let mut turn = 0;
    move || {
        // The step is prime: a seemingly random order with each ReplicaSet once per round.
        turn = (turn + 7_919) % labels.len();
        let namespace = &cluster.replica_sets[turn].metadata.namespace;
        let found = cluster
            .controller
            .owners()
            .matching(namespace, black_box(&labels[turn]));
        assert!(found.len() == 1);
        found[0].0.index() as u64
    }
}
