//! Placement rules that depend on other pods: affinity and anti-affinity to pods, and topology
//! spread.
//!
//! Source: the plugins `InterPodAffinity` and `PodTopologySpread` of Kubernetes' scheduler, 1.36.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_apiserver::Cluster;
use podstorm_objects::{LabelSelector, Labels, Namespace, Node, Pod, Selector, Str};
use serde_json::Value;

use super::asks::{Incoming, items, text};
use super::placed::Placed;

/// A node label and one of its values. The nodes with this value form a domain.
type Domain = (String, Str);

/// The part of a pod that terms look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labelled<'a> {
    pub(super) namespace: &'a str,
    pub(super) labels: &'a Labels,
}

/// A term of a pod's required affinity or anti-affinity to other pods.
#[derive(Debug)]
pub(super) struct Term {
    selector: Option<Selector>,
    /// The namespaces of the pods that the term selects; the pod's own namespace if this is empty
    /// and there is no namespace selector.
    namespaces: Vec<String>,
    namespace_selector: Option<Selector>,
    /// The node label whose values define the domains.
    key: String,
}

/// A topology spread constraint with `DoNotSchedule`.
#[derive(Debug)]
pub(super) struct Spread {
    selector: Option<Selector>,
    key: String,
    max_skew: i64,
    min_domains: usize,
    /// The labels whose values another pod must share to be counted.
    shared: Vec<String>,
    /// Whether nodes that the pod's node selector and affinity exclude are ignored.
    is_of_wanted: bool,
    /// Whether nodes with taints that the pod does not tolerate are ignored.
    is_of_tolerated: bool,
}

fn selector(value: &Value) -> Option<Selector> {
    if value.is_null() {
        return None;
    }
    let read = LabelSelector::from_json(value.clone()).ok()?;
    Selector::compile(Some(&read)).ok()
}

impl Term {
    pub(super) fn from_value(term: &Value) -> Term {
        Term {
            selector: selector(&term["labelSelector"]),
            namespaces: items(&term["namespaces"]).map(text).collect(),
            namespace_selector: selector(&term["namespaceSelector"]),
            key: text(&term["topologyKey"]),
        }
    }

    /// Whether the term of a pod in the namespace `home` selects the other pod.
    pub(super) fn is_about(&self, cluster: &Cluster, home: &str, other: Labelled<'_>) -> bool {
        let there = other.namespace;
        let is_own = self.namespaces.is_empty() && self.namespace_selector.is_none();
        let is_listed = || self.namespaces.iter().any(|name| name == there);
        let is_selected = || {
            self.namespace_selector.as_ref().is_some_and(|selector| {
                let namespace = cluster.get::<Namespace>("", there);
                namespace.is_ok_and(|it| selector.matches(&it.metadata.labels))
            })
        };
        let selector = self.selector.as_ref();
        selector.is_some_and(|it| it.matches(other.labels))
            && match is_own {
                true => there == home,
                false => is_listed() || is_selected(),
            }
    }

    fn domain(&self, node: &Node) -> Option<Domain> {
        domain(&self.key, node)
    }
}

fn domain(key: &str, node: &Node) -> Option<Domain> {
    let value = node.metadata.labels.get(key)?;
    Some((key.to_owned(), value.clone()))
}

impl Spread {
    /// Parses a constraint; `None` if it is only a preference.
    pub(super) fn from_value(constraint: &Value) -> Option<Spread> {
        (constraint["whenUnsatisfiable"] != "ScheduleAnyway").then(|| Spread {
            selector: selector(&constraint["labelSelector"]),
            key: text(&constraint["topologyKey"]),
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
            min_domains: constraint["minDomains"]
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(1),
            shared: items(&constraint["matchLabelKeys"]).map(text).collect(),
            is_of_wanted: constraint["nodeAffinityPolicy"] != "Ignore",
            is_of_tolerated: constraint["nodeTaintsPolicy"] == "Honor",
        })
    }

    fn counts(&self, home: &Pod, labels: &Labels) -> bool {
        let own = &home.metadata.labels;
        let shares = |key: &String| match own.get(key) {
            Some(value) => labels.get(key) == Some(value),
            None => true,
        };
        self.selector.as_ref().is_some_and(|it| it.matches(labels))
            && self.shared.iter().all(shares)
    }
}

/// The effect of the placed pods on the placement of one pod.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// The domains with pods that the pod's affinity selects.
    near: BTreeSet<Domain>,
    /// Whether the pod may be the first of the pods that its own affinity selects.
    is_first: bool,
    /// The domains with pods that the pod's anti-affinity selects.
    far: BTreeSet<Domain>,
    /// The domains with pods whose anti-affinity selects the pod.
    kept_away: BTreeSet<Domain>,
    /// For each spread constraint, the number of matching pods in each domain, and the minimum over
    /// all domains.
    spread: Vec<(BTreeMap<Str, i64>, i64)>,
}

impl Neighbours {
    /// Computes the effect of the placed pods. O(groups of placed pods · nodes) if the pod has
    /// rules about other pods, otherwise O(groups with anti-affinity).
    pub(super) fn new<'a>(
        cluster: &Cluster,
        incoming: Incoming<'_>,
        placed: &Placed,
        nodes: impl Iterator<Item = (&'a Node, bool)> + Clone,
        node_of: impl Fn(&str) -> Option<&'a Node>,
    ) -> Neighbours {
        let Incoming { pod, ask } = incoming;
        let home = &*pod.metadata.namespace;
        let own = Labelled {
            namespace: home,
            labels: &pod.metadata.labels,
        };
        let mut all = Neighbours::default();
        let is_affine = |other| {
            let mut terms = ask.affinity.iter();
            terms.all(|term| term.is_about(cluster, home, other))
        };
        let has_neighbours = ask.has_neighbours();
        let others = placed.groups().filter(|_| has_neighbours);
        for group in others.chain(placed.exclusive().filter(|_| !has_neighbours)) {
            let other = group.labelled();
            let is_near = !ask.affinity.is_empty() && is_affine(other);
            let far = ask.anti_affinity.iter();
            let far = far.filter(|term| term.is_about(cluster, home, other));
            let far: Vec<&Term> = far.collect();
            let theirs = group.ask.anti_affinity.iter();
            let theirs = theirs.filter(|term| term.is_about(cluster, other.namespace, own));
            let theirs: Vec<&Term> = theirs.collect();
            if !is_near && far.is_empty() && theirs.is_empty() {
                continue;
            }
            for node in group.on_nodes.keys().filter_map(|name| node_of(name)) {
                let near = ask.affinity.iter().filter(|_| is_near);
                all.near.extend(near.filter_map(|term| term.domain(node)));
                all.far
                    .extend(far.iter().filter_map(|term| term.domain(node)));
                let theirs = theirs.iter().filter_map(|term| term.domain(node));
                all.kept_away.extend(theirs);
            }
        }
        all.is_first = all.near.is_empty() && is_affine(own);
        for constraint in &ask.spread {
            let keys = ask.spread.iter().map(|it| &it.key);
            let is_eligible = |node: &Node, tolerated: bool| {
                keys.clone()
                    .all(|key| node.metadata.labels.get(key).is_some())
                    && (!constraint.is_of_wanted || ask.wants(node))
                    && (!constraint.is_of_tolerated || tolerated)
            };
            let mut counts: BTreeMap<Str, i64> = BTreeMap::new();
            let mut eligible = BTreeSet::new();
            for (node, tolerated) in nodes.clone() {
                if is_eligible(node, tolerated)
                    && let Some((_, value)) = domain(&constraint.key, node)
                {
                    counts.entry(value).or_default();
                    eligible.insert(node.metadata.name.as_str());
                }
            }
            let counted = placed.groups().filter(|group| {
                !group.is_deleting()
                    && group.namespace() == home
                    && constraint.counts(pod, group.labels())
            });
            for (name, count) in counted.flat_map(|group| &group.on_nodes) {
                if eligible.contains(&**name)
                    && let Some((_, value)) =
                        node_of(name).and_then(|it| domain(&constraint.key, it))
                {
                    *counts.entry(value).or_default() += i64::from(*count);
                }
            }
            let fewest = match counts.len() < constraint.min_domains {
                true => 0,
                false => counts.values().copied().min().unwrap_or(0),
            };
            all.spread.push((counts, fewest));
        }
        all
    }

    /// Returns the reason why other pods keep the pod from the node, and whether ending pods would
    /// not help. `None` if they don't keep it away.
    pub(super) fn refusal(
        &self,
        incoming: Incoming<'_>,
        node: &Node,
    ) -> Option<(&'static str, bool)> {
        let Incoming { pod, ask } = incoming;
        for (constraint, (counts, fewest)) in ask.spread.iter().zip(&self.spread) {
            let Some((_, value)) = domain(&constraint.key, node) else {
                return Some((NO_DOMAIN, true));
            };
            let own = i64::from(constraint.counts(pod, &pod.metadata.labels));
            let there = counts.get(&value).copied().unwrap_or(0);
            if there + own - fewest > constraint.max_skew {
                return Some((UNEVEN, false));
            }
        }
        let has_near = |term: &Term| term.domain(node).is_some_and(|it| self.near.contains(&it));
        let has_domain = |term: &Term| term.domain(node).is_some();
        let is_near = ask.affinity.iter().all(has_near)
            || self.is_first && ask.affinity.iter().all(has_domain);
        if !is_near {
            return Some((TOO_FAR, true));
        }
        let is_in = |domains: &BTreeSet<Domain>, terms: &[Term]| {
            let mut own = terms.iter().filter_map(|term| term.domain(node));
            own.any(|domain| domains.contains(&domain))
        };
        if is_in(&self.far, &ask.anti_affinity) {
            return Some((TOO_NEAR, false));
        }
        let labels = node.metadata.labels.pairs().iter();
        let mut domains = labels.map(|(key, value)| (key.to_string(), value.clone()));
        let is_kept_away = !self.kept_away.is_empty();
        (is_kept_away && domains.any(|domain| self.kept_away.contains(&domain)))
            .then_some((UNWANTED, false))
    }
}

const NO_DOMAIN: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";
const UNEVEN: &str = "node(s) didn't match pod topology spread constraints";
const TOO_FAR: &str = "node(s) didn't match pod affinity rules";
const TOO_NEAR: &str = "node(s) didn't match pod anti-affinity rules";
const UNWANTED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
