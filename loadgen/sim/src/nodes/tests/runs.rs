//! Tests of the placement of pods in a run, which is a cluster without client rules.

use podstorm_apiserver::Patch;

use super::*;

/// A scheduler without kubelets, over two nodes with capacity for four pods each.
struct Run {
    harness: NodeHarness,
    scheduler: Scheduler,
}

impl Run {
    fn new() -> Run {
        let harness = NodeHarness::new();
        let waker: Waker = Arc::new(|| {});
        let scheduler = Scheduler::new(harness.cluster.clone(), Latency::ZERO, 1, waker);
        Run { harness, scheduler }
    }

    fn goes_on(&mut self) {
        while self.scheduler.run(self.harness.now) == Next::Again {}
    }

    /// Creates pods with these members and labels, and returns their nodes, or a hyphen for a
    /// waiting pod.
    fn places(&mut self, names: &[&str], spec: &Value) -> Vec<String> {
        for name in names {
            self.harness.create_with(name, spec.clone());
        }
        self.nodes(names)
    }

    fn nodes(&mut self, names: &[&str]) -> Vec<String> {
        self.goes_on();
        let node = |name: &&str| {
            let node = self.harness.pod(name).node_name.clone();
            node.map_or("-".to_owned(), |node| node.to_string())
        };
        names.iter().map(node).collect()
    }

    fn patch_node(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch.as_object().unwrap().clone());
        let nodes = self.harness.cluster.api(Kind::NODE);
        nodes.patch("", name, &patch, self.harness.now).unwrap();
    }

    fn remove(&self, pod: &str) {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        let (cluster, now) = (&self.harness.cluster, self.harness.now);
        let _gone = cluster.delete::<Pod>("n", pod, &options, now).unwrap();
    }
}

fn required(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

#[test]
fn pods_of_a_run_go_where_their_requests_fit() {
    let mut run = Run::new();
    for name in ["a", "b"] {
        let patch = json!({"status": {"allocatable": {"cpu": "2"}}});
        let patch = Patch::Merge(patch.as_object().unwrap().clone());
        let nodes = run.harness.cluster.api(Kind::NODE);
        nodes
            .patch_status("", name, &patch, run.harness.now)
            .unwrap();
    }
    let requests = json!({"requests": {"cpu": "1500m"}});
    let container = json!({"name": "c", "image": "x:1", "resources": requests});
    let mut nodes = run.places(&["p1", "p2", "p3"], &json!({"containers": [container]}));
    assert_eq!(nodes.pop().as_deref(), Some("-"));
    nodes.sort();
    assert_eq!(nodes, ["a", "b"]);
    assert_ne!(run.places(&["q"], &json!({})), ["-"]);
    assert!(run.harness.pod("p3").status.conditions.is_empty());
    run.remove("p1");
    assert_ne!(run.nodes(&["p3"]), ["-"]);
}

#[test]
fn a_pod_of_a_run_that_names_its_node_goes_there() {
    let mut run = Run::new();
    run.places(&["p0", "p1", "p2"], &json!({}));
    let named = |node: &str| {
        required(
            "nodeAffinity",
            json!({"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]}),
        )
    };
    for (name, node, expected) in [
        ("a1", "a", "a"),
        ("a2", "a", "a"),
        ("b1", "b", "b"),
        ("none", "c", "-"),
    ] {
        assert_eq!(run.places(&[name], &named(node)), [expected], "{name}");
    }
}

#[test]
fn pods_of_a_run_respect_taints_and_cordons() {
    let mut run = Run::new();
    run.patch_node(
        "a",
        json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}),
    );
    let names = ["p0", "p1", "p2", "p3", "p4"];
    assert_eq!(run.places(&names, &json!({})), ["b", "b", "b", "b", "-"]);
    let tolerates = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
    assert_eq!(run.places(&["t0"], &tolerates), ["a"]);
    run.patch_node("a", json!({"spec": {"taints": null}}));
    assert_eq!(run.nodes(&["p4"]), ["a"]);
    run.patch_node("a", json!({"spec": {"unschedulable": true}}));
    assert_eq!(run.places(&["p5"], &json!({})), ["-"]);
    let key = "node.kubernetes.io/unschedulable";
    let tolerates = json!({"tolerations": [{"key": key, "operator": "Exists"}]});
    assert_eq!(run.places(&["t1"], &tolerates), ["a"]);
    run.patch_node("a", json!({"spec": {"unschedulable": null}}));
    assert_eq!(run.nodes(&["p5"]), ["a"]);
}

#[test]
fn pods_of_a_run_respect_node_selectors_and_host_ports() {
    let mut run = Run::new();
    run.patch_node("a", json!({"metadata": {"labels": {"disk": "ssd"}}}));
    let selects = json!({"nodeSelector": {"disk": "ssd"}});
    assert_eq!(run.places(&["s0", "s1"], &selects), ["a", "a"]);
    let expressions = json!([{"key": "disk", "operator": "DoesNotExist"}]);
    let wants = required(
        "nodeAffinity",
        json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]}),
    );
    assert_eq!(run.places(&["w0", "w1"], &wants), ["b", "b"]);
    let ports = json!([{"containerPort": 80, "hostPort": 80}]);
    let takes = json!({"containers": [{"name": "c", "image": "x:1", "ports": ports}]});
    let mut nodes = run.places(&["h0", "h1", "h2"], &takes);
    nodes.sort();
    assert_eq!(nodes, ["-", "a", "b"]);
    // A label that a node gets later has an effect immediately.
    let hdd = json!({"nodeSelector": {"disk": "hdd"}});
    assert_eq!(run.places(&["l0"], &hdd), ["-"]);
    run.patch_node("b", json!({"metadata": {"labels": {"disk": "hdd"}}}));
    assert_eq!(run.nodes(&["l0"]), ["b"]);
}

#[test]
fn pods_of_a_run_respect_rules_about_other_pods() {
    let mut run = Run::new();
    for node in ["a", "b"] {
        run.patch_node(node, json!({"metadata": {"labels": {"zone": node}}}));
    }
    let labelled = |app: &str, spec: Value| {
        let mut spec = spec;
        spec["labels"] = json!({"app": app});
        spec
    };
    let term = |app: &str| json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}]);
    let apart = labelled("db", required("podAntiAffinity", term("db")));
    let mut nodes = run.places(&["d0", "d1", "d2"], &apart);
    nodes.sort();
    assert_eq!(nodes, ["-", "a", "b"]);
    // A pod without rules is kept away only by pods with rules about it.
    assert_eq!(run.places(&["d3"], &labelled("db", json!({}))), ["-"]);
    assert_ne!(run.places(&["x0"], &labelled("x", json!({}))), ["-"]);
    let x = run.nodes(&["x0"]);
    assert_eq!(run.places(&["n0"], &required("podAffinity", term("x"))), x);
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}]});
    let mut nodes = run.places(&["w0", "w1"], &labelled("w", spread));
    nodes.sort();
    assert_eq!(nodes, ["a", "b"]);
    // The first waiting pod gets the room of a deleted one.
    let gone = if run.nodes(&["d0"]) == ["-"] {
        "d1"
    } else {
        "d0"
    };
    let node = run.nodes(&[gone]);
    run.remove(gone);
    let waits = ["d0", "d1", "d2", "d3"].map(|name| name).into_iter();
    let waits: Vec<&str> = waits.filter(|name| *name != gone).collect();
    assert_eq!(
        run.nodes(&waits)
            .iter()
            .filter(|it| **it == node[0])
            .count(),
        1
    );
}

#[test]
fn pods_bound_earlier_keep_others_of_a_run_away() {
    let mut run = Run::new();
    for node in ["a", "b"] {
        run.patch_node(node, json!({"metadata": {"labels": {"zone": "z"}}}));
    }
    let term = json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]);
    let mut there = required("podAntiAffinity", term);
    there["labels"] = json!({"app": "db"});
    there["nodeName"] = json!("a");
    run.places(&["there"], &there);
    assert_eq!(
        run.places(&["db"], &json!({"labels": {"app": "db"}})),
        ["-"]
    );
    assert_ne!(run.places(&["x"], &json!({"labels": {"app": "x"}})), ["-"]);
}

#[test]
fn a_pod_of_a_run_preempts_one_of_lower_priority() {
    let mut run = Run::new();
    let names = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
    assert!(!run.places(&names, &json!({})).contains(&"-".to_owned()));
    let high = json!({"priority": 10});
    assert_eq!(run.places(&["high"], &high), ["-"]);
    let is_going = |name: &&&str| run.harness.pod(name).metadata.is_deleting();
    let going: Vec<&&str> = names.iter().filter(is_going).collect();
    assert_eq!(going.len(), 1);
    let told = run.harness.pod(going[0]).to_json()["status"]["conditions"].to_string();
    assert!(told.contains("PreemptionByScheduler"), "{told}");
    // The preempting pod gets the room, not a pod that has waited longer.
    assert_eq!(run.places(&["late"], &json!({})), ["-"]);
    run.remove(going[0]);
    assert_eq!(run.nodes(&["high", "late"]), ["a", "-"]);
}
