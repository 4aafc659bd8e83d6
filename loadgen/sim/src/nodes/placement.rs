//! Which nodes take a pod: cordons, taints and tolerations, node selectors and required node
//! affinity. Only clusters with [client rules](super::ClientRules) look at them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_apiserver::TOLERATED_TAINTS;
use podstorm_objects::{LabelSelector, Labels, Node, Pod, PodSpec, Selector, Str};
use serde_json::{Value, json};

use super::events::SchedulerEvents;
use super::rules::NodeChoice;
use super::scheduler::Waiting;

/// What the scheduler keeps for pods that are particular about their node.
#[derive(Debug, Default)]
pub(super) struct Placement {
    pub(super) choice: NodeChoice,
    pub(super) nodes: BTreeMap<Str, Arc<Node>>,
    /// Particular pods that no node takes.
    pub(super) waiting: Vec<Waiting>,
    /// Whether a node may take one of them now.
    pub(super) retry: bool,
    /// Present where the scheduler writes Events.
    pub(super) events: Option<SchedulerEvents>,
}

impl Placement {
    /// Whether no pod's node is chosen by capacity alone.
    pub(super) fn looks_at_all(&self) -> bool {
        self.choice == NodeChoice::First
    }

    /// The node of the pod among those that take it; `free` gives the capacity of a node in pods.
    /// O(nodes).
    pub(super) fn choose(&self, spec: &PodSpec, free: impl Fn(&str) -> u32) -> Option<Str> {
        let wishes = Wishes::of(spec);
        let roomy = self
            .nodes
            .iter()
            .map(|(name, node)| (free(name), name, node));
        let open = roomy.filter(|(free, _, node)| wishes.refusal(node, *free).is_none());
        let mut roomy = open.map(|(free, name, _)| (free, name));
        let best = match self.choice {
            NodeChoice::First => roomy.next(),
            // The first of equals.
            NodeChoice::Roomiest => roomy.rev().max_by_key(|(free, _)| *free),
        };
        best.map(|(_, name)| name.clone())
    }

    /// Why no node takes the pod, in the words of Kubernetes' scheduler. O(nodes).
    ///
    /// Source: `FitError.Error` of Kubernetes' `pkg/scheduler/framework`, and `Preempt` of its `preemption`.
    pub(super) fn why_none(&self, spec: &PodSpec, free: impl Fn(&str) -> u32) -> String {
        let nodes = self.nodes.len();
        if nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let wishes = Wishes::of(spec);
        let mut reasons: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
        // On how many the end of other pods would not help.
        let mut hopeless = 0;
        let refusals = self
            .nodes
            .iter()
            .map(|(name, node)| wishes.refusal(node, free(name)));
        for refusal in refusals.flatten() {
            hopeless += usize::from(refusal.is_hopeless);
            for reason in refusal.reasons {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let listed = |reasons: Vec<(&str, usize)>| {
            let reasons = reasons.into_iter().filter(|(_, count)| *count > 0);
            let mut told: Vec<String> = reasons
                .map(|(reason, count)| format!("{count} {reason}"))
                .collect();
            told.sort();
            let told = told.join(", ");
            format!("0/{nodes} nodes are available: {told}.")
        };
        let of_nodes = listed(
            reasons
                .iter()
                .map(|(why, count)| (&**why, *count))
                .collect(),
        );
        let never = spec
            .get("preemptionPolicy")
            .is_some_and(|policy| policy == "Never");
        let of_preemption = match never {
            true => "not eligible due to preemptionPolicy=Never.".to_owned(),
            // No pod has to go for another: there is no pod of lower priority that would be a victim.
            false => listed(vec![
                (
                    "No preemption victims found for incoming pod",
                    nodes - hopeless,
                ),
                ("Preemption is not helpful for scheduling", hopeless),
            ]),
        };
        format!("{of_nodes} preemption: {of_preemption}")
    }
}

/// Why a node does not take a pod.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    reasons: Vec<Cow<'static, str>>,
    /// Whether the node would refuse it too if it had no other pods.
    is_hopeless: bool,
}

impl Refusal {
    /// Something that the end of other pods does not change.
    fn hopeless(reason: &'static str) -> Option<Refusal> {
        Some(Refusal {
            reasons: vec![reason.into()],
            is_hopeless: true,
        })
    }
}

/// Whether the pod asks for special nodes, or tolerates taints that not every pod does.
pub(super) fn is_particular(spec: &PodSpec) -> bool {
    let given = |name| match spec.get(name) {
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Array(items)) => !items.iter().all(is_for_all),
        _ => false,
    };
    ["nodeSelector", "tolerations", "affinity"]
        .map(given)
        .contains(&true)
}

/// Whether the node refuses pods that are not [particular](is_particular).
pub(super) fn is_tainted(node: &Node) -> bool {
    taints(node).any(|taint| keeps_away(taint) && !is_for_all(taint))
}

/// Whether it is one of the taints that admission has every pod tolerate, or a toleration of one. To look at all
/// nodes for each pod that tolerates just these would take a cluster of thousands of nodes most of its time.
fn is_for_all(taint: &Value) -> bool {
    let key = taint["key"].as_str();
    taint["effect"] == "NoExecute" && key.is_some_and(|key| TOLERATED_TAINTS.contains(&key))
}

/// Whether the pod may not stay on the node: it does not tolerate one of its `NoExecute` taints
/// other than `except`.
pub(super) fn is_driven_out(node: &Node, pod: &Pod, except: &str) -> bool {
    let mut taints = taints(node)
        .filter(|taint| taint["effect"] == "NoExecute" && taint["key"] != except)
        .peekable();
    // The spec is parsed for nothing where there is no taint.
    taints.peek().is_some() && {
        let wishes = Wishes::of(&pod.spec);
        taints.any(|taint| !wishes.tolerate(taint))
    }
}

fn taints(node: &Node) -> impl Iterator<Item = &Value> {
    let taints = node.spec.get("taints").and_then(Value::as_array);
    taints.into_iter().flatten()
}

fn keeps_away(taint: &Value) -> bool {
    taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute"
}

/// What a pod says of its node.
struct Wishes {
    tolerations: Value,
    node_selector: Value,
    /// `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`.
    terms: Option<Value>,
}

impl Wishes {
    fn of(spec: &PodSpec) -> Wishes {
        const TERMS: &str =
            "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let get = |name| spec.get(name).unwrap_or_default();
        Wishes {
            tolerations: get("tolerations"),
            node_selector: get("nodeSelector"),
            terms: get("affinity").pointer(TERMS).cloned(),
        }
    }

    /// Why the node, which takes so many more pods, refuses the pod: what the first rule that it breaks says.
    fn refusal(&self, node: &Node, free: u32) -> Option<Refusal> {
        let labels = &node.metadata.labels;
        let mut wanted = self.node_selector.as_object().into_iter().flatten();
        let cordon = || json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        let is_cordoned = node.unschedulable && !self.tolerate(&cordon());
        if is_cordoned || node.metadata.is_deleting() {
            return Refusal::hopeless("node(s) were unschedulable");
        }
        if taints(node).any(|taint| keeps_away(taint) && !self.tolerate(taint)) {
            return Refusal::hopeless("node(s) had untolerated taint(s)");
        }
        let is_wanted = wanted
            .all(|(key, value)| labels.get(key).map(|it| &**it) == value.as_str())
            && self.terms.as_ref().is_none_or(|terms| {
                let mut terms = terms.as_array().into_iter().flatten();
                terms.any(|term| meets(node, term))
            });
        if !is_wanted {
            return Refusal::hopeless("node(s) didn't match Pod's node affinity/selector");
        }
        (free == 0).then(|| Refusal {
            reasons: vec!["Too many pods".into()],
            is_hopeless: false,
        })
    }

    /// Source: `Toleration.ToleratesTaint` of Kubernetes' `k8s.io/api/core/v1`.
    fn tolerate(&self, taint: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut tolerations = self.tolerations.as_array().into_iter().flatten();
        tolerations.any(|it| {
            let (key, effect) = (text(&it["key"]), text(&it["effect"]));
            (key.is_empty() || taint["key"] == key)
                && (effect.is_empty() || taint["effect"] == effect)
                && (it["operator"] == "Exists"
                    || (!key.is_empty() && text(&it["value"]) == text(&taint["value"])))
        })
    }
}

/// Whether the node meets a term of a node selector. A term that says nothing matches no node.
fn meets(node: &Node, term: &Value) -> bool {
    let fields = Labels::from_pairs([("metadata.name", node.metadata.name.as_str())]);
    let parts = [
        (&term["matchExpressions"], &node.metadata.labels),
        (&term["matchFields"], &fields),
    ];
    let given =
        parts.map(|(expressions, _)| expressions.as_array().is_some_and(|it| !it.is_empty()));
    given.contains(&true)
        && parts
            .iter()
            .zip(given)
            .all(|((expressions, labels), given)| {
                let selector = json!({"matchExpressions": expressions});
                !given
                    || LabelSelector::from_json(selector)
                        .ok()
                        .and_then(|it| Selector::compile(Some(&it)).ok())
                        .is_some_and(|it| it.matches(labels))
            })
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;

    use super::*;

    fn node(value: Value) -> Node {
        Node::from_json(value).unwrap()
    }

    fn spec(value: Value) -> PodSpec {
        PodSpec::from_json(value.as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_pod_goes_where_it_tolerates_the_taints_and_meets_the_labels() {
        let taint = |effect: &str| json!([{"key": "gpu", "value": "yes", "effect": effect}]);
        let plain = json!({"metadata": {"name": "a", "labels": {"zone": "x", "disk": "ssd"}}});
        let tainted =
            |effect| json!({"metadata": {"name": "b"}, "spec": {"taints": taint(effect)}});
        let cordoned = json!({"metadata": {"name": "c"}, "spec": {"unschedulable": true}});
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["other"]}]}, term]}}}})
        };
        let expressions = |operator: &str, values: Value| {
            affinity(json!({"matchExpressions": [
                {"key": "disk", "operator": operator, "values": values}]}))
        };
        let name = json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["a"]}]});
        let tolerates = |it: Value| json!({"tolerations": [it]});
        let equal = |value: &str| tolerates(json!({"key": "gpu", "value": value}));
        let all = tolerates(json!({"operator": "Exists"}));
        let other_effect = json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"});
        for (node_value, spec_value, admitted) in [
            (plain.clone(), json!({}), true),
            (plain.clone(), json!({"nodeSelector": {"zone": "x"}}), true),
            (plain.clone(), json!({"nodeSelector": {"zone": "y"}}), false),
            (plain.clone(), json!({"nodeSelector": {"rack": ""}}), false),
            (plain.clone(), affinity(name), true),
            (plain.clone(), affinity(json!({})), false),
            (plain.clone(), expressions("In", json!(["ssd"])), true),
            (plain.clone(), expressions("NotIn", json!(["ssd"])), false),
            (plain.clone(), expressions("Exists", json!([])), true),
            (plain.clone(), expressions("Likes", json!(["ssd"])), false),
            (tainted("NoSchedule"), json!({}), false),
            (tainted("NoExecute"), json!({}), false),
            (tainted("PreferNoSchedule"), json!({}), true),
            (tainted("NoSchedule"), equal("yes"), true),
            (tainted("NoSchedule"), equal("no"), false),
            (tainted("NoSchedule"), all.clone(), true),
            (tainted("NoSchedule"), tolerates(other_effect), false),
            (cordoned.clone(), json!({}), false),
            (cordoned, all, true),
        ] {
            let wishes = Wishes::of(&spec(spec_value.clone()));
            let admits = wishes.refusal(&node(node_value.clone()), 1).is_none();
            assert_eq!(admits, admitted, "{node_value} {spec_value}");
        }
    }

    #[test]
    fn only_taints_that_not_all_pods_tolerate_close_a_node() {
        for (key, effect, closed) in [
            ("not-ready", "NoExecute", false),
            ("unreachable", "NoExecute", false),
            ("not-ready", "NoSchedule", true),
            ("disk-pressure", "NoExecute", true),
            ("disk-pressure", "PreferNoSchedule", false),
        ] {
            let key = format!("node.kubernetes.io/{key}");
            let taints = json!([{"key": key, "effect": effect}]);
            let tainted = json!({"metadata": {"name": "a"}, "spec": {"taints": taints}});
            assert_eq!(is_tainted(&node(tainted)), closed, "{key} {effect}");
        }
    }

    #[test]
    fn only_what_asks_for_special_nodes_is_particular() {
        let tolerates = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(key, effect)| {
                json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
                    "effect": effect, "tolerationSeconds": 300})
            });
            json!({"tolerations": all.collect::<Vec<_>>()})
        };
        let both = [("not-ready", "NoExecute"), ("unreachable", "NoExecute")];
        let mut and_selects = tolerates(&both);
        and_selects["nodeSelector"] = json!({"a": "b"});
        for (value, particular) in [
            (json!({}), false),
            (json!({"nodeSelector": {}, "tolerations": []}), false),
            (json!({"nodeSelector": {"a": "b"}}), true),
            (json!({"tolerations": [{"operator": "Exists"}]}), true),
            (tolerates(&[("not-ready", "NoExecute")]), false),
            (tolerates(&both), false),
            (tolerates(&[("not-ready", "NoSchedule")]), true),
            (tolerates(&[("not-ready", "")]), true),
            (tolerates(&[("disk-pressure", "NoExecute")]), true),
            (tolerates(&[both[0], ("disk-pressure", "NoSchedule")]), true),
            (and_selects, true),
        ] {
            assert_eq!(is_particular(&spec(value.clone())), particular, "{value}");
        }
    }
}
