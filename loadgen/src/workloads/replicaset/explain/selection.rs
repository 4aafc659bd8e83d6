//! The preferred pods: those that a label selector matches, through their own labels or those of
//! their nodes.

use std::collections::BTreeSet;

use anyhow::{Error, Result, anyhow, bail};
use podstorm_objects::{Labels, Selector};

use super::Objects;
use super::find::{nearest, some_of};
use super::order::Outcome;

/// The selectors from the flags, compiled.
#[derive(Clone, Debug, Default)]
pub struct Preferred {
    /// Matches pods or nodes, whichever have labels with its keys.
    pub either: Option<(String, Selector)>,
    /// Matches pods.
    pub pods: Option<(String, Selector)>,
    /// Matches nodes, and thereby the pods on them.
    pub nodes: Option<(String, Selector)>,
}

/// The pods that the selectors match.
#[derive(Clone, Debug, Default)]
pub struct Wished {
    /// For each place in the order, whether the pod is preferred.
    pub rows: Vec<bool>,
    /// How many pods match by their own labels.
    pub by_pod: usize,
    /// How many pods match by their node's labels.
    pub by_node: usize,
}

impl Preferred {
    /// Reports whether there are no selectors.
    pub fn is_none(&self) -> bool {
        self.either.is_none() && self.pods.is_none() && self.nodes.is_none()
    }

    /// Returns the flags with their selectors, which may be `None`.
    fn flags(&self) -> [(&'static str, &Option<(String, Selector)>); 3] {
        [
            ("--prefer", &self.either),
            ("--prefer-pods", &self.pods),
            ("--prefer-nodes", &self.nodes),
        ]
    }

    /// Returns the given selectors as the user wrote them, with their flags.
    pub fn text(&self) -> String {
        let given = self.flags().into_iter().filter_map(|(flag, selector)| {
            let (text, _) = selector.as_ref()?;
            Some(format!("{flag} {text:?}"))
        });
        given.collect::<Vec<_>>().join(" ")
    }

    /// Finds the preferred pods among the ranked pods.
    ///
    /// # Errors
    /// A selector matches nothing, in which case the error lists existing labels, or it applies to
    /// nodes and the input has none.
    pub fn find(&self, objects: &Objects, outcome: &Outcome) -> Result<Wished> {
        let mut wished = Wished {
            rows: vec![false; outcome.rows.len()],
            ..Wished::default()
        };
        for (flag, given) in self.flags() {
            let Some((text, selector)) = given else {
                continue;
            };
            let mut asked = Asked {
                flag,
                text,
                selector,
                of_pods: flag != "--prefer-nodes",
                of_nodes: flag != "--prefer-pods",
                objects,
                outcome,
            };
            if asked.of_pods && asked.of_nodes {
                asked.look_for_keys()?;
            }
            if asked.of_nodes && objects.nodes.is_empty() {
                bail!(
                    "{flag} {text:?}: the input has no Node; dump the nodes too: kubectl get \
                     rs,rc,pods,nodes -A -o json"
                );
            }
            let mut found = false;
            for (row, is_wished) in outcome.rows.iter().zip(&mut wished.rows) {
                let pod = &row.ranked.pod;
                let node = pod.node_name.as_deref();
                let node = node.and_then(|name| objects.nodes.get(name));
                let by_pod = asked.of_pods && selector.matches(&pod.metadata.labels);
                let by_node = asked.of_nodes && node.is_some_and(|labels| selector.matches(labels));
                found |= by_pod || by_node;
                if !*is_wished {
                    wished.by_pod += usize::from(by_pod);
                    wished.by_node += usize::from(by_node && !by_pod);
                }
                *is_wished |= by_pod || by_node;
            }
            if !found {
                return Err(asked.unmatched());
            }
        }
        Ok(wished)
    }
}

/// A selector, and which objects' labels it applies to.
struct Asked<'a> {
    flag: &'static str,
    text: &'a str,
    selector: &'a Selector,
    of_pods: bool,
    of_nodes: bool,
    objects: &'a Objects,
    outcome: &'a Outcome,
}

impl<'a> Asked<'a> {
    /// Restricts the selector to the pods or the nodes if only their labels have any of its keys.
    fn look_for_keys(&mut self) -> Result<()> {
        let keys = || self.selector.keys();
        let has_key = |labels: &Labels| keys().any(|key| labels.get(key).is_some());
        let mut rows = self.outcome.rows.iter();
        let of_pods = rows.any(|row| has_key(&row.ranked.pod.metadata.labels));
        let of_nodes = self.objects.nodes.values().any(has_key);
        if !of_pods && !of_nodes {
            return Err(self.unknown_keys());
        }
        (self.of_pods, self.of_nodes) = (of_pods, of_nodes);
        Ok(())
    }

    /// Returns the labels of the ranked pods, of the nodes, or of both.
    fn labels(&self) -> impl Iterator<Item = &'a Labels> + use<'a> {
        let (of_pods, of_nodes) = (self.of_pods, self.of_nodes);
        let pods = self.outcome.rows.iter().filter(move |_| of_pods);
        let nodes = self.objects.nodes.values().filter(move |_| of_nodes);
        pods.map(|row| &row.ranked.pod.metadata.labels).chain(nodes)
    }

    fn unknown_keys(&self) -> Error {
        let key = self.selector.keys().next().map_or("", |key| key);
        let pairs = self.labels().flat_map(|labels| labels.pairs());
        let known: BTreeSet<&str> = pairs.map(|(key, _)| &**key).collect();
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let near = nearest(key, known.iter().map(|key| (key.clone(), key.clone())));
        let whose = match (self.of_pods, self.of_nodes) {
            (true, false) => "none of the pods that are ranked",
            (false, true) => "no node",
            _ => "neither a pod that is ranked nor a node",
        };
        let there_are = match (near.is_empty(), known.is_empty()) {
            (false, _) => format!("; the nearest: {}", near.join(", ")),
            (true, false) => format!("; there are {}", some_of(&known)),
            (true, true) => String::new(),
        };
        let (flag, text) = (self.flag, self.text);
        anyhow!("{flag} {text:?} matches nothing: {whose} has a label {key:?}{there_are}")
    }

    fn unmatched(&self) -> Error {
        let (flag, text, selector) = (self.flag, self.text, self.selector);
        let nodes = self.objects.nodes.values();
        let matching = nodes.filter(|labels| self.of_nodes && selector.matches(labels));
        if let matching @ 1.. = matching.count() {
            return anyhow!(
                "{flag} {text:?} matches nothing: {matching} of the nodes match, and none of the {} \
                 pods that are ranked is on one of them",
                self.outcome.rows.len()
            );
        }
        let is_unknown = |key: &str| self.labels().all(|labels| labels.get(key).is_none());
        if selector.keys().any(|key| is_unknown(key)) {
            return self.unknown_keys();
        }
        let Some(key) = selector.keys().next() else {
            return anyhow!("{flag} {text:?} matches nothing: no pod is ranked");
        };
        let values = self.labels().filter_map(|labels| labels.get(key));
        let values: BTreeSet<&str> = values.map(|value| &**value).collect();
        let values = values.into_iter().map(|value| format!("{key}={value}"));
        let there_are = some_of(&values.collect::<Vec<_>>());
        anyhow!("{flag} {text:?} matches nothing: there are {there_are}")
    }
}
