//! The pods that are wished to go first: those that a label selector matches, by their own labels
//! or by those of their nodes.

use std::collections::BTreeSet;

use podstorm_objects::{Labels, Selector};

use super::find::{nearest, some_of};
use super::order::Outcome;
use super::{ExplainError, Objects};

/// Selectors as they were asked for, compiled.
#[derive(Clone, Debug, Default)]
pub struct Preferred {
    /// Of pods or nodes, wherever its keys are found.
    pub either: Option<(String, Selector)>,
    /// Of pods.
    pub pods: Option<(String, Selector)>,
    /// Of nodes, whose pods are meant.
    pub nodes: Option<(String, Selector)>,
}

/// What a selector matched.
#[derive(Clone, Debug, Default)]
pub struct Wished {
    /// By place in the order: whether the pod is wished to go.
    pub rows: Vec<bool>,
    /// How many of them by their own labels.
    pub by_pod: usize,
    /// How many of them by their node's labels.
    pub by_node: usize,
}

impl Preferred {
    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        self.either.is_none() && self.pods.is_none() && self.nodes.is_none()
    }

    /// The selectors as they were written, with their flags.
    pub fn text(&self) -> String {
        let flags = [
            ("--prefer", &self.either),
            ("--prefer-pods", &self.pods),
            ("--prefer-nodes", &self.nodes),
        ];
        let given = flags.into_iter().filter_map(|(flag, selector)| {
            let (text, _) = selector.as_ref()?;
            Some(format!("{flag} {text:?}"))
        });
        given.collect::<Vec<_>>().join(" ")
    }

    /// Finds the wished pods among those that are ranked.
    ///
    /// # Errors
    /// A selector that matches nothing, with what there is instead.
    pub fn find(&self, objects: &Objects, outcome: &Outcome) -> Result<Wished, ExplainError> {
        let mut wished = Wished {
            rows: vec![false; outcome.rows.len()],
            ..Wished::default()
        };
        let mut all: Vec<(&str, &(String, Selector), bool, bool)> = Vec::new();
        if let Some(given) = &self.either {
            let (in_pods, in_nodes) = places(&given.1, objects, outcome);
            if !in_pods && !in_nodes {
                return Err(unknown_keys(
                    "--prefer", given, objects, outcome, true, true,
                ));
            }
            all.push(("--prefer", given, in_pods, in_nodes));
        }
        if let Some(given) = &self.pods {
            all.push(("--prefer-pods", given, true, false));
        }
        if let Some(given) = &self.nodes {
            all.push(("--prefer-nodes", given, false, true));
        }
        for (flag, given, in_pods, in_nodes) in all {
            if in_nodes && objects.nodes().is_empty() {
                return Err(ExplainError(format!(
                    "{flag} {:?}: the input has no Node; dump the nodes too: kubectl get \
                     rs,rc,pods,nodes -A -o json",
                    given.0
                )));
            }
            let mut found = false;
            for (row, is_wished) in outcome.rows.iter().zip(&mut wished.rows) {
                let pod = &row.ranked.pod;
                let node = pod.node_name.as_deref();
                let node = node.and_then(|name| objects.nodes().get(name));
                let by_pod = in_pods && given.1.matches(&pod.metadata.labels);
                let by_node = in_nodes && node.is_some_and(|labels| given.1.matches(labels));
                found |= by_pod || by_node;
                if !*is_wished {
                    wished.by_pod += usize::from(by_pod);
                    wished.by_node += usize::from(by_node && !by_pod);
                }
                *is_wished |= by_pod || by_node;
            }
            if !found {
                return Err(unmatched(flag, given, objects, outcome, in_pods, in_nodes));
            }
        }
        Ok(wished)
    }
}

/// Whether any key of the selector is found on the ranked pods, and on the nodes.
fn places(selector: &Selector, objects: &Objects, outcome: &Outcome) -> (bool, bool) {
    let has_key = |labels: &Labels| selector.keys().any(|key| labels.get(key).is_some());
    let pods = &outcome.rows;
    (
        pods.iter()
            .any(|row| has_key(&row.ranked.pod.metadata.labels)),
        objects.nodes().values().any(has_key),
    )
}

/// The labels of the ranked pods, of the nodes, or of both.
fn labels<'a>(
    objects: &'a Objects,
    outcome: &'a Outcome,
    of_pods: bool,
    of_nodes: bool,
) -> impl Iterator<Item = &'a Labels> {
    let pods = outcome.rows.iter().filter(move |_| of_pods);
    let nodes = objects.nodes().values().filter(move |_| of_nodes);
    pods.map(|row| &row.ranked.pod.metadata.labels).chain(nodes)
}

fn unknown_keys(
    flag: &str,
    (text, selector): &(String, Selector),
    objects: &Objects,
    outcome: &Outcome,
    of_pods: bool,
    of_nodes: bool,
) -> ExplainError {
    let key = selector.keys().next().map_or("", |key| key);
    let known: BTreeSet<&str> = labels(objects, outcome, of_pods, of_nodes)
        .flat_map(|labels| labels.pairs())
        .map(|(key, _)| &**key)
        .collect();
    let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
    let near = nearest(key, known.iter().map(|key| (key.clone(), key.clone())));
    let whose = match (of_pods, of_nodes) {
        (true, false) => "none of the pods that are ranked",
        (false, true) => "no node",
        _ => "neither a pod that is ranked nor a node",
    };
    let there_are = match (near.is_empty(), known.is_empty()) {
        (false, _) => format!("; the nearest: {}", near.join(", ")),
        (true, false) => format!("; there are {}", some_of(&known)),
        (true, true) => String::new(),
    };
    ExplainError(format!(
        "{flag} {text:?} matches nothing: {whose} has a label {key:?}{there_are}"
    ))
}

fn unmatched(
    flag: &str,
    given: &(String, Selector),
    objects: &Objects,
    outcome: &Outcome,
    of_pods: bool,
    of_nodes: bool,
) -> ExplainError {
    let (text, selector) = given;
    let nodes = objects.nodes().values();
    let matching = nodes
        .filter(|labels| of_nodes && selector.matches(labels))
        .count();
    if matching > 0 {
        return ExplainError(format!(
            "{flag} {text:?} matches nothing: {matching} of the nodes match, and none of the {} \
             pods that are ranked is on one of them",
            outcome.rows.len()
        ));
    }
    let unknown = selector.keys().find(|key| {
        labels(objects, outcome, of_pods, of_nodes).all(|labels| labels.get(key).is_none())
    });
    if unknown.is_some() {
        return unknown_keys(flag, given, objects, outcome, of_pods, of_nodes);
    }
    let Some(key) = selector.keys().next() else {
        return ExplainError(format!("{flag} {text:?} matches nothing: no pod is ranked"));
    };
    let values: BTreeSet<&str> = labels(objects, outcome, of_pods, of_nodes)
        .filter_map(|labels| labels.get(key))
        .map(|value| &**value)
        .collect();
    let values: Vec<String> = values
        .into_iter()
        .map(|value| format!("{key}={value}"))
        .collect();
    ExplainError(format!(
        "{flag} {text:?} matches nothing: there are {}",
        some_of(&values)
    ))
}
