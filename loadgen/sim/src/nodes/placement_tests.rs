//! Tests of each rule of the scheduler, as tables: nodes, existing pods, a pod, and the pod's node
//! or the reason why it has none.

use std::sync::Arc;

use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::{Namespace, Node, Now, Pod, Resource, Str};
use serde_json::{Value, json};

use super::capacity::Capacity;
use super::placement::{Placement, is_tainted};
use super::rules::NodeChoice;

/// A cluster, and the number of pods created so far.
pub(super) struct Placing {
    pub(super) placement: Placement,
    pub(super) capacity: Capacity,
    pods: u32,
}

impl Placing {
    /// Returns a cluster whose scheduler selects the first suitable node. Nodes have room for ten
    /// pods by default.
    pub(super) fn on(nodes: &[Value]) -> Placing {
        let cluster = Cluster::new(ClusterOptions::default());
        let now = Now {
            mono_ns: 0,
            wall_ns: 1_800_000_000_000_000_000,
        };
        for (name, team) in [("n", "red"), ("m", "blue")] {
            let meta = json!({"name": name, "labels": {"team": team}});
            let namespace = Namespace::from_json(json!({"metadata": meta})).unwrap();
            cluster.create(namespace, now).unwrap();
        }
        let mut placing = Placing {
            placement: Placement::new(Arc::new(cluster), NodeChoice::First, None),
            capacity: Capacity::new(1),
            pods: 0,
        };
        for node in nodes {
            let node = Node::from_json(node.clone()).unwrap();
            let places = node.pods_allocatable.unwrap_or(10);
            placing.capacity.set_node(&node.metadata.name, places, true);
            placing.placement.see_node(Arc::new(node), true);
        }
        placing
    }

    pub(super) fn pod(&mut self, members: &Value) -> Arc<Pod> {
        self.pods += 1;
        let name = format!("p{}", self.pods);
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let mut meta = json!({"name": name, "namespace": "n", "uid": name});
        let mut status = json!({});
        for (key, value) in members.as_object().unwrap() {
            match key.as_str() {
                "labels" | "namespace" => meta[key] = value.clone(),
                "startTime" => status[key] = value.clone(),
                _ => spec[key] = value.clone(),
            }
        }
        let pod = json!({"metadata": meta, "spec": spec, "status": status});
        Arc::new(Pod::from_json(pod).unwrap())
    }

    /// Creates a pod, and returns the node that it gets, or the reason why it gets none.
    pub(super) fn place(&mut self, members: &Value) -> String {
        let pod = self.pod(members);
        let taken = self.placement.take(&pod, &mut self.capacity);
        match taken {
            Ok(node) => node.to_string(),
            Err(_) => self.placement.refuse(&pod, &self.capacity).why,
        }
    }

    /// Puts a pod directly on a node.
    pub(super) fn put(&mut self, node: &str, members: &Value) -> Arc<Pod> {
        let pod = self.pod(members);
        self.capacity.add_pod(node);
        self.placement.add(&pod, &Str::from(node));
        pod
    }
}

pub(super) fn node(name: &str, more: Value) -> Value {
    let mut node = json!({"metadata": {"name": name, "labels": {}}});
    for (key, value) in more.as_object().unwrap() {
        match key.as_str() {
            "labels" => node["metadata"]["labels"] = value.clone(),
            "allocatable" => node["status"] = json!({"allocatable": value}),
            _ => node["spec"][key] = value.clone(),
        }
    }
    node
}

/// Returns the message with the reasons `of_nodes`, and the numbers of nodes on which preemption
/// would and would not help.
fn why(of_nodes: &str, helpful: usize, hopeless: usize) -> String {
    let nodes = helpful + hopeless;
    let parts = [
        (helpful, "No preemption victims found for incoming pod"),
        (hopeless, "Preemption is not helpful for scheduling"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = parts
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    parts.sort();
    let begins = format!("0/{nodes} nodes are available:");
    format!(
        "{begins} {of_nodes}. preemption: {begins} {}.",
        parts.join(", ")
    )
}

#[test]
fn a_pod_goes_where_taints_and_labels_permit() {
    let taint =
        |effect: &str| json!({"taints": [{"key": "gpu", "value": "yes", "effect": effect}]});
    let plain = node(
        "a",
        json!({"labels": {"zone": "x", "disk": "ssd", "cores": "8"}}),
    );
    let tainted = |effect| node("a", taint(effect));
    let cordoned = node("a", json!({"unschedulable": true}));
    let affinity = |term: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "other", "operator": "Exists"}]}, term]}}}})
    };
    let expressions = |key: &str, operator: &str, values: Value| {
        affinity(json!({"matchExpressions": [
            {"key": key, "operator": operator, "values": values}]}))
    };
    let name = |name: &str| {
        affinity(json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [name]}]}))
    };
    let tolerates = |it: Value| json!({"tolerations": [it]});
    let equal = |value: &str| tolerates(json!({"key": "gpu", "value": value}));
    let all = tolerates(json!({"operator": "Exists"}));
    let no_key = tolerates(json!({"operator": "Equal", "value": "yes"}));
    let other_effect = json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"});
    let labels = "1 node(s) didn't match Pod's node affinity/selector";
    let taints = "1 node(s) had untolerated taint(s)";
    let closed = "1 node(s) were unschedulable";
    for (node, pod, refused) in [
        (plain.clone(), json!({}), ""),
        (plain.clone(), json!({"nodeSelector": {"zone": "x"}}), ""),
        (
            plain.clone(),
            json!({"nodeSelector": {"zone": "y"}}),
            labels,
        ),
        (plain.clone(), json!({"nodeSelector": {"rack": ""}}), labels),
        (plain.clone(), name("a"), ""),
        (plain.clone(), name("b"), labels),
        (plain.clone(), affinity(json!({})), labels),
        (plain.clone(), expressions("disk", "In", json!(["ssd"])), ""),
        (
            plain.clone(),
            expressions("disk", "NotIn", json!(["ssd"])),
            labels,
        ),
        (
            plain.clone(),
            expressions("rack", "NotIn", json!(["ssd"])),
            "",
        ),
        (plain.clone(), expressions("disk", "Exists", json!([])), ""),
        (
            plain.clone(),
            expressions("disk", "DoesNotExist", json!([])),
            labels,
        ),
        (plain.clone(), expressions("cores", "Gt", json!(["7"])), ""),
        (
            plain.clone(),
            expressions("cores", "Gt", json!(["8"])),
            labels,
        ),
        (plain.clone(), expressions("cores", "Lt", json!(["9"])), ""),
        (
            plain.clone(),
            expressions("rack", "Lt", json!(["9"])),
            labels,
        ),
        (
            plain.clone(),
            expressions("disk", "Likes", json!(["ssd"])),
            labels,
        ),
        (tainted("NoSchedule"), json!({}), taints),
        (tainted("NoExecute"), json!({}), taints),
        (tainted("PreferNoSchedule"), json!({}), ""),
        (tainted("NoSchedule"), equal("yes"), ""),
        (tainted("NoSchedule"), equal("no"), taints),
        (tainted("NoSchedule"), all.clone(), ""),
        (tainted("NoSchedule"), no_key, taints),
        (tainted("NoSchedule"), tolerates(other_effect), taints),
        (cordoned.clone(), json!({}), closed),
        (cordoned, all, ""),
    ] {
        let expected = match refused {
            "" => "a".to_owned(),
            reason => why(reason, 0, 1),
        };
        let mut placing = Placing::on(std::slice::from_ref(&node));
        assert_eq!(placing.place(&pod), expected, "{node} {pod}");
    }
}

#[test]
fn reasons_are_counted_and_sorted() {
    let small = |name: &str| node(name, json!({"allocatable": {"cpu": "1", "pods": "1"}}));
    let nodes = [
        node("a", json!({"unschedulable": true})),
        node(
            "b",
            json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        ),
        node(
            "c",
            json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        ),
        small("d"),
        small("e"),
    ];
    let asks = |cpu: &str| {
        let requests = json!({"requests": {"cpu": cpu}});
        json!({"containers": [{"name": "c", "image": "i", "resources": requests}]})
    };
    let mut placing = Placing::on(&nodes);
    assert_eq!(placing.place(&asks("600m")), "d");
    placing.put("e", &asks("100m"));
    // `e` is also full, but has enough of the resource.
    let reasons = "1 Insufficient cpu, 1 node(s) were unschedulable, 2 Too many pods, \
        2 node(s) had untolerated taint(s)";
    assert_eq!(placing.place(&asks("500m")), why(reasons, 2, 3));
    // No node has such an amount, even without other pods.
    let reasons = "1 node(s) were unschedulable, 2 Insufficient cpu, 2 Too many pods, \
        2 node(s) had untolerated taint(s)";
    assert_eq!(placing.place(&asks("2")), why(reasons, 0, 5));
    let mut never = asks("500m");
    never["preemptionPolicy"] = json!("Never");
    let told = placing.place(&never);
    assert!(told.ends_with(". preemption: not eligible due to preemptionPolicy=Never."));
    let none = Placing::on(&[]).place(&json!({}));
    assert_eq!(none, "no nodes available to schedule pods");
}

#[test]
fn requests_must_fit_the_nodes_allocatable_resources() {
    let container =
        |requests: Value| json!({"name": "c", "image": "i", "resources": {"requests": requests}});
    let asks = |requests: Value| json!({"containers": [container(requests)]});
    let mut sidecar = container(json!({"cpu": "1"}));
    sidecar["restartPolicy"] = json!("Always");
    let has = node("a", json!({"allocatable": {"cpu": "2", "memory": "1Gi"}}));
    let silent = node("a", json!({}));
    let too_little = |resource: &str| why(&format!("1 Insufficient {resource}"), 0, 1);
    for (node, pod, expected) in [
        (
            &has,
            asks(json!({"cpu": "2", "memory": "1Gi"})),
            "a".to_owned(),
        ),
        (&has, asks(json!({"cpu": "2001m"})), too_little("cpu")),
        (
            &has,
            asks(json!({"memory": "1025Mi"})),
            too_little("memory"),
        ),
        (
            &has,
            asks(json!({"cpu": "3", "memory": "2Gi"})),
            too_little("cpu, 1 Insufficient memory"),
        ),
        // A node has enough of these resources if it doesn't specify them.
        (
            &has,
            asks(json!({"ephemeral-storage": "9Ti"})),
            "a".to_owned(),
        ),
        (&silent, asks(json!({"cpu": "99"})), "a".to_owned()),
        (
            &has,
            asks(json!({"example.com/gpu": "1"})),
            too_little("example.com/gpu"),
        ),
        // Init containers run before the other containers, sidecars at the same time as them.
        (
            &has,
            json!({"initContainers": [container(json!({"cpu": "3"}))]}),
            too_little("cpu"),
        ),
        (
            &has,
            json!({"initContainers": [container(json!({"cpu": "2"}))],
                "containers": [container(json!({"cpu": "2"}))]}),
            "a".to_owned(),
        ),
        (
            &has,
            json!({"initContainers": [sidecar], "containers": [container(json!({"cpu": "1500m"}))]}),
            too_little("cpu"),
        ),
        // The pod as a whole may request more than its containers, and overhead is added.
        (
            &has,
            json!({"resources": {"requests": {"cpu": "3"}},
                "containers": [container(json!({"cpu": "1"}))]}),
            too_little("cpu"),
        ),
        (
            &has,
            json!({"overhead": {"cpu": "1"}, "containers": [container(json!({"cpu": "1500m"}))]}),
            too_little("cpu"),
        ),
    ] {
        let mut placing = Placing::on(std::slice::from_ref(node));
        assert_eq!(placing.place(&pod), expected, "{pod}");
    }
    // The requests of existing pods are not free until the pods are removed.
    let mut placing = Placing::on(std::slice::from_ref(&has));
    let there = placing.put("a", &asks(json!({"cpu": "1500m"})));
    let lacks = why("1 Insufficient cpu", 1, 0);
    assert_eq!(placing.place(&asks(json!({"cpu": "1"}))), lacks);
    assert_eq!(placing.place(&asks(json!({"cpu": "500m"}))), "a");
    placing.placement.remove(&there.metadata.uid);
    placing.placement.remove(&there.metadata.uid);
    assert_eq!(placing.place(&asks(json!({"cpu": "1500m"}))), "a");
    assert_eq!(placing.place(&asks(json!({"cpu": "1m"}))), lacks);
}

#[test]
fn a_name_in_the_affinity_leaves_one_node() {
    let named = |names: Value, more: Value| {
        let mut fields = vec![json!({"key": "metadata.name", "operator": "In", "values": names})];
        fields.extend(more.as_array().unwrap().iter().cloned());
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": fields}]}}}})
    };
    let nodes = ["a", "b", "c"].map(|name| node(name, json!({"allocatable": {"pods": "1"}})));
    let mut placing = Placing::on(&nodes);
    assert_eq!(placing.place(&named(json!(["b"]), json!([]))), "b");
    let others = "2 node(s) didn't satisfy plugin(s) [NodeAffinity]";
    assert_eq!(
        placing.place(&named(json!(["b"]), json!([]))),
        why(&format!("1 Too many pods, {others}"), 1, 2)
    );
    assert_eq!(
        placing.place(&named(json!(["gone"]), json!([]))),
        why(&others.replace('2', "3"), 0, 3)
    );
    let other = json!([{"key": "metadata.name", "operator": "In", "values": ["c"]}]);
    let told = placing.place(&named(json!(["b"]), other));
    assert_eq!(told, why("pod affinity terms conflict", 0, 3));
}

#[test]
fn a_host_port_goes_to_only_one_container() {
    let port = |ip: &str, protocol: &str, port: u32| {
        let mut port = json!({"containerPort": 1, "hostPort": port, "protocol": protocol});
        if !ip.is_empty() {
            port["hostIP"] = json!(ip);
        }
        json!({"containers": [{"name": "c", "image": "i", "ports": [port]}]})
    };
    let taken = why(
        "1 node(s) didn't have free ports for the requested pod ports",
        1,
        0,
    );
    for (first, second, expected) in [
        (port("", "TCP", 80), port("", "TCP", 80), &*taken),
        (port("", "TCP", 80), port("", "UDP", 80), "a"),
        (port("", "TCP", 80), port("", "TCP", 81), "a"),
        (
            port("127.0.0.1", "TCP", 80),
            port("127.0.0.2", "TCP", 80),
            "a",
        ),
        (
            port("127.0.0.1", "TCP", 80),
            port("0.0.0.0", "TCP", 80),
            &taken,
        ),
        (
            port("127.0.0.1", "TCP", 80),
            port("127.0.0.1", "TCP", 80),
            &taken,
        ),
    ] {
        let mut placing = Placing::on(&[node("a", json!({}))]);
        let there = placing.put("a", &first);
        assert_eq!(placing.place(&second), expected, "{first} {second}");
        // The end of the pod frees its port.
        placing.placement.remove(&there.metadata.uid);
        if expected != "a" {
            assert_eq!(placing.place(&second), "a", "{first} {second}");
        }
    }
}

fn zones() -> [Value; 3] {
    [("a", "1"), ("b", "1"), ("c", "2")]
        .map(|(name, zone)| node(name, json!({"labels": {"zone": zone, "host": name}})))
}

/// Returns a pod of one app with a rule about the pods of another app.
fn about(kind: &str, app: &str, other: &str, key: &str, more: &Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": other}}});
    for (key, value) in more.as_object().unwrap() {
        term[key] = value.clone();
    }
    json!({"labels": {"app": app}, "affinity": {kind:
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn a_pod_goes_to_the_pods_that_its_affinity_selects() {
    let near = |app, other, key| about("podAffinity", app, other, key, &json!({}));
    let far = why("3 node(s) didn't match pod affinity rules", 0, 3);
    let mut placing = Placing::on(&zones());
    assert_eq!(placing.place(&near("web", "db", "zone")), far);
    placing.put("c", &json!({"labels": {"app": "db"}}));
    assert_eq!(placing.place(&near("web", "db", "zone")), "c");
    assert_eq!(placing.place(&near("web", "db", "rack")), far);
    // The first pod of its kind can go anywhere.
    assert_eq!(placing.place(&near("cache", "cache", "host")), "a");
    assert_eq!(placing.place(&near("cache", "cache", "host")), "a");
    // Pods of other namespaces count if the term selects them.
    let elsewhere = |more: Value| about("podAffinity", "x", "db", "zone", &more);
    let mut placing = Placing::on(&zones());
    placing.put("c", &json!({"namespace": "m", "labels": {"app": "db"}}));
    for (more, expected) in [
        (json!({}), &*far),
        (json!({"namespaces": ["m"]}), "c"),
        (json!({"namespaces": ["n"]}), &far),
        (json!({"namespaceSelector": {}}), "c"),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}),
            "c",
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}),
            &far,
        ),
    ] {
        assert_eq!(placing.place(&elsewhere(more.clone())), expected, "{more}");
    }
}

#[test]
fn anti_affinity_works_in_both_directions() {
    let apart = |app, other, key| about("podAntiAffinity", app, other, key, &json!({}));
    let mut placing = Placing::on(&zones());
    let placed = [(); 3].map(|()| placing.place(&apart("web", "web", "host")));
    assert_eq!(placed, ["a", "b", "c"]);
    let near = why("3 node(s) didn't match pod anti-affinity rules", 3, 0);
    assert_eq!(placing.place(&apart("web", "web", "host")), near);
    // Pods with rules keep away a pod without rules.
    let unwanted = why(
        "3 node(s) didn't satisfy existing pods anti-affinity rules",
        3,
        0,
    );
    assert_eq!(placing.place(&json!({"labels": {"app": "web"}})), unwanted);
    assert_eq!(placing.place(&json!({"labels": {"app": "db"}})), "a");
    let mut placing = Placing::on(&zones());
    placing.put("a", &json!({"labels": {"app": "db"}}));
    assert_eq!(placing.place(&apart("web", "db", "zone")), "c");
}

#[test]
fn pods_are_spread_over_domains() {
    let spread = |key: &str, more: Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
        for (key, value) in more.as_object().unwrap() {
            constraint[key] = value.clone();
        }
        json!({"labels": {"app": "web"}, "topologySpreadConstraints": [constraint]})
    };
    let mut placing = Placing::on(&zones());
    let by_zone = spread("zone", json!({}));
    let placed = [(); 4].map(|()| placing.place(&by_zone));
    assert_eq!(placed, ["a", "c", "a", "c"]);
    let skewed =
        |nodes: &str| format!("{nodes} node(s) didn't match pod topology spread constraints");
    // Three nonexistent domains have no pods.
    let three = spread("zone", json!({"minDomains": 3}));
    assert_eq!(placing.place(&three), why(&skewed("3"), 3, 0));
    let anyway = spread(
        "zone",
        json!({"minDomains": 3, "whenUnsatisfiable": "ScheduleAnyway"}),
    );
    assert_eq!(placing.place(&anyway), "a");
    let missing = format!("{} (missing required label)", skewed("3"));
    assert_eq!(
        placing.place(&spread("rack", json!({}))),
        why(&missing, 0, 3)
    );
    // A node that the pod's node affinity excludes is not a domain, unless the constraint includes
    // it.
    let mut own = by_zone.clone();
    own["nodeSelector"] = json!({"zone": "1"});
    let mut placing = Placing::on(&zones());
    assert_eq!([(); 2].map(|()| placing.place(&own)), ["a", "a"]);
    own["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    let both = format!(
        "1 node(s) didn't match Pod's node affinity/selector, {}",
        skewed("2")
    );
    assert_eq!(placing.place(&own), why(&both, 2, 1));
    // The same applies to a node with an untolerated taint, if the constraint excludes it.
    let [a, b, mut c] = zones();
    c["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let mut placing = Placing::on(&[a, b, c]);
    assert_eq!(placing.place(&by_zone), "a");
    let both = format!("1 node(s) had untolerated taint(s), {}", skewed("2"));
    assert_eq!(placing.place(&by_zone), why(&both, 2, 1));
    assert_eq!(
        placing.place(&spread("zone", json!({"nodeTaintsPolicy": "Honor"}))),
        "a"
    );
}

#[test]
fn taints_that_every_pod_tolerates_close_no_node() {
    for (key, effect, closed) in [
        ("not-ready", "NoExecute", false),
        ("unreachable", "NoExecute", false),
        ("not-ready", "NoSchedule", true),
        ("disk-pressure", "NoExecute", true),
        ("disk-pressure", "PreferNoSchedule", false),
    ] {
        let key = format!("node.kubernetes.io/{key}");
        let tainted = node("a", json!({"taints": [{"key": key, "effect": effect}]}));
        let is_closed = is_tainted(&Node::from_json(tainted).unwrap());
        assert_eq!(is_closed, closed, "{key} {effect}");
    }
}

#[test]
fn only_pods_with_node_requirements_are_particular() {
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
    let mut placing = Placing::on(&[]);
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
        let pod = placing.pod(&value);
        let ask = placing.placement.ask(&pod.spec);
        assert_eq!(ask.is_particular, particular, "{value}");
    }
}
