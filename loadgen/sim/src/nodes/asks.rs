//! A pod's requirements on its node, parsed once for each spec that pods share.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_apiserver::pod_requests;
use podstorm_objects::{Labels, Node, Pod, PodSpec, Quantity, TOLERATED_TAINTS};
use serde_json::{Value, json};

use super::neighbours::{Spread, Term};

/// A pod's requirements on its node.
#[derive(Debug, Default)]
pub(super) struct Ask {
    /// The amount of each resource that the pod requests; amounts of zero are omitted.
    pub(super) requests: BTreeMap<String, Quantity>,
    /// The host ports that the pod's containers use.
    pub(super) ports: Vec<HostPort>,
    tolerations: Vec<Toleration>,
    /// `nodeSelector`.
    selector: Vec<(String, String)>,
    /// The terms of the required node affinity, of which the node must match one; `None` if any
    /// node will do.
    terms: Option<Vec<NodeTerm>>,
    /// The names of the only nodes that `terms` allows; `None` if a term does not name nodes.
    pub(super) names: Option<BTreeSet<String>>,
    /// The required affinity to pods.
    pub(super) affinity: Vec<Term>,
    /// The required anti-affinity to pods.
    pub(super) anti_affinity: Vec<Term>,
    /// The topology spread constraints.
    pub(super) spread: Vec<Spread>,
    /// The pod's priority.
    pub(super) priority: i32,
    /// Whether its `preemptionPolicy` is `Never`.
    pub(super) never_preempts: bool,
    /// Whether it has requirements other than resource requests.
    pub(super) is_particular: bool,
}

/// A pod to place, with its requirements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) pod: &'a Pod,
    pub(super) ask: &'a Ask,
}

/// A host port that a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    /// The host address; empty for all addresses.
    ip: String,
    protocol: String,
    port: i64,
}

#[derive(Debug)]
struct Toleration {
    key: String,
    effect: String,
    /// The value; `None` matches any value.
    value: Option<String>,
}

/// A term of a node selector.
#[derive(Debug)]
pub(super) struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Debug)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// Returns the items of a list; none for any other value.
pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the value if it is a string, or else an empty string.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Ask {
    pub(super) fn from_spec(spec: &PodSpec) -> Ask {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        let get = |name| spec.get(name).unwrap_or_default();
        let (affinity, tolerations) = (get("affinity"), get("tolerations"));
        let terms = |kind: &str| -> Vec<Term> {
            items(&affinity[kind][REQUIRED])
                .map(Term::from_value)
                .collect()
        };
        let nodes = affinity["nodeAffinity"][REQUIRED].get("nodeSelectorTerms");
        let node_terms =
            nodes.map(|terms| items(terms).map(NodeTerm::from_value).collect::<Vec<_>>());
        let selector = get("nodeSelector");
        let selector = selector.as_object().into_iter().flatten();
        let needs = json!({"containers": get("containers"), "overhead": get("overhead"),
            "initContainers": get("initContainers"), "resources": get("resources")});
        let requests = pod_requests(&needs).into_iter();
        Ask {
            requests: requests.filter(|(_, amount)| !amount.is_zero()).collect(),
            ports: host_ports(&needs),
            tolerations: items(&tolerations)
                .filter_map(Toleration::from_value)
                .collect(),
            selector: selector
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
            names: node_terms.as_deref().and_then(named),
            terms: node_terms,
            affinity: terms("podAffinity"),
            anti_affinity: terms("podAntiAffinity"),
            spread: items(&get("topologySpreadConstraints"))
                .filter_map(Spread::from_value)
                .collect(),
            priority: spec.priority,
            never_preempts: get("preemptionPolicy") == "Never",
            is_particular: spec.is_particular,
        }
    }

    /// Reports whether the placement depends on other pods, so that an additional pod may make a
    /// node suitable.
    pub(super) fn has_neighbours(&self) -> bool {
        let affine = !self.affinity.is_empty() || !self.anti_affinity.is_empty();
        affine || !self.spread.is_empty()
    }

    /// Reports whether the pod tolerates a taint.
    ///
    ///
    /// Reports whether the pod tolerates a taint.
    ///
    ///
    /// Source: `Toleration.ToleratesTaint` of Kubernetes' `k8s.io/api/core/v1`.
    pub(super) fn tolerates(&self, taint: &Value) -> bool {
        let is = |member: &str, wanted: &str| taint[member].as_str().unwrap_or("") == wanted;
        self.tolerations.iter().any(|it| {
            (it.key.is_empty() || is("key", &it.key))
                && (it.effect.is_empty() || is("effect", &it.effect))
                && it.value.as_ref().is_none_or(|value| is("value", value))
        })
    }

    /// Reports whether the node satisfies the pod's `nodeSelector` and required node affinity.
    pub(super) fn wants(&self, node: &Node) -> bool {
        let labels = &node.metadata.labels;
        let has = |(key, value): &(String, String)| {
            labels.get(key).is_some_and(|label| **label == **value)
        };
        self.selector.iter().all(has)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.is_met(node)))
    }
}

/// Returns the names of the nodes that the terms allow; `None` if any term does not name nodes.
///
/// Source: `PreFilter` of the scheduler's plugin `NodeAffinity`.
fn named(terms: &[NodeTerm]) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for term in terms {
        let is_name = |it: &&Requirement| it.key == "metadata.name" && it.operator == "In";
        let mut lists = term.fields.iter().filter(is_name);
        let first = lists.next()?.values.iter().cloned();
        let rest: Vec<&Requirement> = lists.collect();
        all.extend(first.filter(|name| rest.iter().all(|it| it.values.contains(name))));
    }
    (!terms.is_empty()).then_some(all)
}

/// Returns the host ports of the containers and sidecars of a spec.
fn host_ports(spec: &Value) -> Vec<HostPort> {
    let init = items(&spec["initContainers"]);
    let sidecars = init.filter(|container| container["restartPolicy"] == "Always");
    let all = items(&spec["containers"]).chain(sidecars);
    let ports = all.flat_map(|container| items(&container["ports"]));
    let taken = ports.filter_map(|port| {
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        let protocol = text(&port["protocol"]);
        Some(HostPort {
            ip: match text(&port["hostIP"]) {
                any if any == "0.0.0.0" => String::new(),
                ip => ip,
            },
            protocol: match protocol.is_empty() {
                true => "TCP".to_owned(),
                false => protocol,
            },
            port: number,
        })
    });
    taken.collect()
}

impl HostPort {
    /// Reports whether two host ports conflict on one node.
    pub(super) fn is_against(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip.is_empty() || other.ip.is_empty())
    }
}

impl Toleration {
    /// Parses a toleration. Returns `None` if it is invalid: without a key, but with an operator
    /// other than `Exists`.
    fn from_value(value: &Value) -> Option<Toleration> {
        let (key, exists) = (text(&value["key"]), value["operator"] == "Exists");
        (exists || !key.is_empty()).then(|| Toleration {
            key,
            effect: text(&value["effect"]),
            value: (!exists).then(|| text(&value["value"])),
        })
    }
}

impl NodeTerm {
    pub(super) fn from_value(term: &Value) -> NodeTerm {
        let read = |list: &str| items(&term[list]).map(Requirement::from_value).collect();
        NodeTerm {
            labels: read("matchExpressions"),
            fields: read("matchFields"),
        }
    }

    /// Converts a term of the allowed topologies of a StorageClass.
    pub(super) fn of_topology(term: &Value) -> NodeTerm {
        let labels = items(&term["matchLabelExpressions"]).map(|expression| Requirement {
            operator: "In".to_owned(),
            ..Requirement::from_value(expression)
        });
        NodeTerm {
            labels: labels.collect(),
            fields: Vec::new(),
        }
    }

    /// Reports whether the node matches the term. An empty term matches no node.
    pub(super) fn is_met(&self, node: &Node) -> bool {
        let (labels, name) = (&node.metadata.labels, node.metadata.name.as_str());
        let of_label = |it: &Requirement| it.is_met(label(labels, &it.key));
        let of_field = |it: &Requirement| it.is_met((it.key == "metadata.name").then_some(name));
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(of_label)
            && self.fields.iter().all(of_field)
    }
}

fn label<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    labels.get(key).map(|value| &**value)
}

impl Requirement {
    fn from_value(value: &Value) -> Requirement {
        Requirement {
            key: text(&value["key"]),
            operator: text(&value["operator"]),
            values: items(&value["values"]).map(text).collect(),
        }
    }

    fn is_met(&self, value: Option<&str>) -> bool {
        let is_in = || value.is_some_and(|value| self.values.iter().any(|it| it == value));
        let numbers = || {
            let value: i64 = value?.parse().ok()?;
            Some((value, self.values.first()?.parse::<i64>().ok()?))
        };
        match self.operator.as_str() {
            "In" => is_in(),
            "NotIn" => !is_in(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
            "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    }
}

/// Reports whether admission makes every pod tolerate this taint.
pub(super) fn is_for_all(taint: &Value) -> bool {
    let key = taint["key"].as_str();
    taint["effect"] == "NoExecute" && key.is_some_and(|key| TOLERATED_TAINTS.contains(&key))
}

/// Returns the amount of each resource, except `pods`, that a node offers to pods.
pub(super) fn allocatable(node: &Node) -> BTreeMap<String, Quantity> {
    let said = node.status.get("allocatable");
    let said = said.or_else(|| node.status.get("capacity"));
    let said = said.and_then(Value::as_object).into_iter().flatten();
    let amounts = said.filter(|(name, _)| *name != "pods");
    let amounts = amounts.filter_map(|(name, amount)| {
        let amount = Quantity::from_json(amount).ok()?;
        Some((name.clone(), amount))
    });
    amounts.collect()
}
