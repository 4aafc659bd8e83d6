//! `loadgen explain` on the command line: what users see of an order of deletion, of annotations,
//! and of input that can't be answered for.

use std::process::Output;

use podstorm_tests::command::{assert_refused, run, run_in, run_with_stdin, told};
use serde_json::{Value, json};

use super::{EXAMPLE, NOW, args, explain};

#[track_caller]
fn document(output: &Output) -> Value {
    serde_json::from_str(&told(output)).expect("JSON")
}

/// Names of the pods with that `fate`, in the order of their deletion.
fn names(document: &Value, fate: &str) -> Vec<String> {
    let pods = document["pods"].as_array().expect("a list");
    let of_fate = pods.iter().filter(|pod| pod["fate"] == fate);
    of_fate
        .map(|pod| pod["name"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn every_rule_of_the_example_is_said() {
    let text = told(&explain(&["--replicaset", "shop/web", "--replicas", "8"]));
    assert!(
        text.contains("spec.replicas 12 -> 8: 4 pods are deleted."),
        "{text}"
    );
    for words in [
        "1  web-bq4tz  deleted  Pending, not ready     0  rule 1: has no node",
        "rule 2: Pending before Unknown",
        "rule 3: not ready",
        "rule 4: deletion cost -10 before 0",
        "rule 5: 3 related pods on its node, 2 on",
        "rule 6: ready for 1h44m, the next for 13h19m",
        "rule 7: 3 restarts before 0",
        "nothing: ties with the next",
        "No rule tells #10-#11 apart",
        NOW,
        "belongs to Deployment web",
    ] {
        assert!(text.contains(words), "{words:?} is missing in:\n{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
}

#[test]
fn the_document_has_the_eight_fields_and_the_rules() {
    let document = document(&explain(&args("--replicaset web --replicas 8 -o json")));
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["deleted"], 4);
    assert_eq!(document["input"]["taken"]["Pod"], 12);
    let expected = ["web-bq4tz", "web-c7xkp", "web-d2mfw", "web-f9jrl"];
    assert_eq!(names(&document, "deleted"), expected);
    assert_eq!(names(&document, "kept").len(), 8);
    let pod = &document["pods"][5];
    let fields = json!([
        pod["node"],
        pod["phase"],
        pod["ready"],
        pod["deletion_cost"],
        pod["related_pods_on_node"],
        pod["ready_since"],
        pod["restarts"],
        pod["created"]
    ]);
    assert_eq!(
        fields,
        json!([
            "on-demand-2",
            "Running",
            true,
            -10,
            2,
            "2026-02-20T09:00:44Z",
            0,
            "2026-02-20T09:00:12Z"
        ])
    );
    assert_eq!(pod["before_next"]["rule"], "deletion-cost");
    assert_eq!(pod["before_next"]["number"], 4);
    assert_eq!(document["pods"][9]["before_next"]["rule"], "tie");
    assert_eq!(document["pods"][9]["before_next"]["number"], Value::Null);
    assert!(document["pods"][11].get("before_next").is_none());
}

#[test]
fn every_field_of_the_document_is_in_the_help() {
    let help = told(&run(&["explain", "--help"]));
    let arguments = args("--replicaset web --replicas 2 --prefer billing=on-demand");
    let mut with_json = arguments.to_vec();
    with_json.extend(["-o", "json"]);
    let mut keys = Vec::new();
    collect_keys(&document(&explain(&with_json)), &mut keys);
    assert!(keys.len() > 40);
    for key in keys {
        // Kinds of objects are no field names.
        if key.starts_with(char::is_lowercase) {
            assert!(help.contains(&key), "{key}");
        }
    }
    // The usage is one line whatever its length.
    let fits = |line: &str| line.starts_with("Usage:") || line.chars().count() <= 100;
    assert!(help.lines().all(fits), "{help}");
}

fn collect_keys(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                keys.push(key.clone());
                collect_keys(value, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        _ => {}
    }
}

#[test]
fn ties_at_the_boundary_are_open() {
    let text = told(&explain(&["--replicaset", "web", "--replicas", "2"]));
    assert!(text.contains("web-m6znx  deleted*"), "{text}");
    assert!(text.contains("web-s9lck  kept*"), "{text}");
    assert!(
        text.contains("1 of the 2 pods #10-#11 go: no rule tells them apart"),
        "{text}"
    );
    let document = document(&explain(&args("--replicaset web --replicas 2 -o json")));
    assert_eq!(
        document["undecided"],
        json!({"first": 10, "last": 11, "deleted": 1, "why": "tie"})
    );
    assert_eq!(names(&document, "deleted-or-kept"), ["web-m6znx"]);
    assert_eq!(names(&document, "kept-or-deleted"), ["web-s9lck"]);
}

#[test]
fn nothing_goes_where_the_count_is_no_lower() {
    let text = told(&explain(&["--replicaset", "web"]));
    assert!(
        text.contains("spec.replicas 12: nothing is deleted."),
        "{text}"
    );
    assert!(text.contains("12  web-x2pvd  kept"), "{text}");
    let text = told(&explain(&["--replicaset", "web", "--replicas", "20"]));
    assert!(
        text.contains("nothing is deleted, 8 pods created."),
        "{text}"
    );
    let text = told(&explain(&["--replicaset", "web", "--replicas", "0"]));
    assert!(text.contains("upstream ranks none"), "{text}");
}

#[test]
fn preferred_pods_go_with_the_annotations_that_are_printed() {
    let ask = |more: &[&str]| {
        let mut arguments = vec!["--replicaset", "web", "--replicas", "8"];
        arguments.extend(more);
        explain(&arguments)
    };
    let text = told(&ask(&["--prefer", "billing=on-demand"]));
    let command = "kubectl annotate pod -n shop web-g5hsn \
                   controller.kubernetes.io/pod-deletion-cost=-1 --overwrite";
    assert!(text.contains(&format!("\n{command}\n")), "{text}");
    let undo = "kubectl annotate pod -n shop web-g5hsn controller.kubernetes.io/pod-deletion-cost-";
    assert!(text.ends_with(&format!("\n{undo}\n")), "{text}");
    assert_eq!(text.matches("kubectl annotate").count(), 2, "{text}");
    assert!(
        text.contains("2 of the 4 pods that go are preferred ones (1 without"),
        "{text}"
    );
    assert!(
        text.contains("3 preferred pods stay all the same"),
        "{text}"
    );
    assert!(text.contains("rule 3, looked at before any cost"), "{text}");

    let json = document(&ask(&["--prefer-nodes", "billing=on-demand", "-o", "json"]));
    assert_eq!(json["prefer"]["matched_by_node_labels"], 5);
    assert_eq!(json["prefer"]["annotations"][0]["command"], command);
    assert_eq!(
        json["prefer"]["unreachable"].as_array().map(Vec::len),
        Some(3)
    );

    // The annotated example has that order.
    let source = std::fs::read_to_string(EXAMPLE).expect("the example is there");
    let annotated = source.replacen(
        "      name: web-g5hsn\n",
        "      name: web-g5hsn\n      annotations: {controller.kubernetes.io/pod-deletion-cost: \
         \"-1\"}\n",
        1,
    );
    assert_ne!(source, annotated);
    let arguments = [
        "explain",
        "-f",
        "-",
        "--now",
        NOW,
        "--replicaset",
        "web",
        "--replicas",
        "8",
        "-o",
        "json",
    ];
    let document = document(&run_with_stdin(&arguments, &annotated));
    assert_eq!(names(&document, "deleted")[3], "web-g5hsn");
}

#[test]
fn no_annotation_is_asked_for_where_none_is_needed() {
    let text = told(&explain(&args(
        "--replicaset web --replicas 2 --prefer billing=spot",
    )));
    assert!(
        text.contains("no annotation is needed") || text.contains("1 annotation:"),
        "{text}"
    );
    let text = told(&explain(&args(
        "--replicaset web --replicas 11 --prefer-pods app=web",
    )));
    assert!(
        text.contains("No annotation makes more of them go"),
        "{text}"
    );
    assert!(
        text.contains("1 of the 1 pods") || text.contains("1 of the 1"),
        "{text}"
    );
}

#[test]
fn gates_and_behaviour_change_the_order() {
    let off = document(&explain(&args(
        "--replicaset web --replicas 8 -o json --feature-gates PodDeletionCost=false",
    )));
    let rules = off["pods"].as_array().expect("a list").iter();
    let mut rules = rules.map(|pod| &pod["before_next"]["rule"]);
    assert!(rules.all(|rule| rule != "deletion-cost"), "{off}");
    assert_refused(
        &explain(&args(
            "--replicaset web --feature-gates PodDeletionCost=false --prefer billing=spot",
        )),
        &["--prefer \"billing=spot\" | PodDeletionCost=false"],
    );
    assert_refused(
        &explain(&["--replicaset", "web", "--feature-gates", "Nonsense=true"]),
        &["--feature-gates | known are"],
    );
}

#[test]
fn long_orders_are_cut_around_the_boundary() {
    let pod = |at: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("many-{at:04}"), "labels": {"app": "many"},
                "uid": format!("00000000-0000-4000-a000-{at:012}"),
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        })
    };
    let mut items: Vec<Value> = (0..1_500).map(pod).collect();
    items.push(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "many"},
        "spec": {
            "replicas": 1_500, "selector": {"matchLabels": {"app": "many"}},
            "template": {"metadata": {"labels": {"app": "many"}},
                         "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ask = |more: &[&str]| {
        let mut arguments = args("explain -f - --replicaset many --replicas 300");
        arguments.extend(more);
        told(&run_with_stdin(&arguments, &list))
    };
    let text = ask(&[]);
    for words in [
        "1200 pods are deleted, in 3",
        "1177 more  deleted",
        "297 more   kept",
        "1200  many-",
        "1203  many-",
        "that nobody owns",
        "A sync deletes 500 pods at most",
        "1200 of the 1500 pods #1-#1500 go",
    ] {
        assert!(text.contains(words), "{words:?} is missing in:\n{text}");
    }
    assert!(text.lines().count() < 50, "{text}");
    assert!(ask(&["--all"]).lines().count() > 1_500);
    assert!(ask(&["--limit", "2"]).lines().count() < 30);
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_hint() {
    let refused = |arguments: &[&str], words: &[&str]| assert_refused(&explain(arguments), words);
    refused(
        &["--replicaset", "shop/wbe"],
        &["no ReplicaSet \"shop/wbe\" | shop/web"],
    );
    refused(
        &["--replicaset", "other/web"],
        &["no ReplicaSet \"other/web\" | shop/web"],
    );
    refused(
        &["--replicaset", "zzz"],
        &["no ReplicaSet \"zzz\" | it has shop/web"],
    );
    refused(&["--replicaset", "a/b/c"], &["NAMESPACE/NAME"]);
    refused(&["--replicaset", ""], &["NAMESPACE/NAME"]);
    refused(
        &["--replicationcontroller", "web"],
        &["no ReplicationController | --replicaset"],
    );
    refused(
        &["--replicaset", "web", "--replicas", "-1"],
        &["--replicas | -1"],
    );
    refused(
        &["--replicaset", "web", "--replicas", "many"],
        &["--replicas"],
    );
    refused(&["--replicaset", "web", "--prefer", "a b"], &["--prefer"]);
    refused(
        &["--replicaset", "web", "--prefer", ""],
        &["--prefer | name a label"],
    );
    refused(
        &["--replicaset", "web", "--prefer", "biling=spot"],
        &["--prefer | matches nothing | billing"],
    );
    refused(
        &["--replicaset", "web", "--prefer", "billing=free"],
        &["matches nothing | billing=on-demand, billing=spot"],
    );
    refused(
        &["--replicaset", "web", "--prefer-pods", "billing=spot"],
        &["--prefer-pods | none of the pods | \"billing\" | app"],
    );
    refused(
        &["--replicaset", "web", "--burst-replicas", "0"],
        &["--burst-replicas"],
    );
    refused(
        &["--replicaset", "web", "--all", "--limit", "3"],
        &["--limit"],
    );
    refused(
        &["--replicaset", "web", "--replicationcontroller", "web"],
        &["cannot be used"],
    );
    assert_refused(
        &run(&[
            "explain",
            "-f",
            EXAMPLE,
            "--replicaset",
            "web",
            "--now",
            "yesterday",
        ]),
        &["--now | 2026-01-02T03:04:05Z"],
    );
    assert_refused(&run(&["explain", "-f", EXAMPLE]), &["--replicaset"]);
    assert_refused(&run(&["explain", "--replicaset", "web"]), &["--filename"]);
}

#[test]
fn dumps_that_lack_something_say_what_to_dump() {
    let source = std::fs::read_to_string(EXAMPLE).expect("the example is there");
    let (head, pods) = source.split_at(source.find("  # Found no node").expect("the first pod"));
    let ask = |text: &str, more: &[&str]| {
        let mut arguments = vec!["explain", "-f", "-", "--replicaset", "web"];
        arguments.extend(more);
        run_with_stdin(&arguments, text)
    };
    assert_refused(
        &ask(head, &[]),
        &["no Pod | kubectl get rs,rc,pods,nodes -A"],
    );
    let only_pods = format!("apiVersion: v1\nkind: List\nitems:\n{pods}");
    assert_refused(&ask(&only_pods, &[]), &["no ReplicaSet"]);
    let without_nodes = source.replace("kind: Node\n", "kind: Secret\n");
    assert_refused(
        &ask(&without_nodes, &["--prefer-nodes", "billing=spot"]),
        &["--prefer-nodes | no Node"],
    );
    assert_refused(&ask("", &[]), &["holds no document"]);
    let at = head
        .find("  - apiVersion: apps/v1")
        .expect("the ReplicaSet");
    let other = head[at..]
        .replacen("namespace: shop", "namespace: books", 1)
        .replacen("uid: 5a8d3c1e", "uid: 5a8d3c1f", 1);
    let both = format!("{source}{other}");
    assert_refused(
        &ask(&both, &[]),
        &["several namespaces | shop/web | books/web"],
    );
}

#[test]
fn packed_dumps_are_taken_and_those_cut_off_are_refused() {
    let source = std::fs::read_to_string(EXAMPLE).expect("the example is there");
    let value: Value = serde_saphyr::from_str(&source).expect("YAML");
    let text = serde_json::to_string_pretty(&value).expect("JSON");
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(directory.path().join(name), bytes).expect("the file is written");
    };
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).expect("memory takes all");
    let packed = encoder.finish().expect("memory takes all");
    write("dump.json", text.as_bytes());
    write("dump.json.gz", &packed);
    write("cut.json", &text.as_bytes()[..text.len() / 2]);
    write("cut.json.gz", &packed[..packed.len() / 2]);
    let ask = |name: &str| {
        run_in(
            directory.path(),
            &[
                "explain",
                "-f",
                name,
                "--replicaset",
                "web",
                "--replicas",
                "8",
                "--now",
                NOW,
            ],
        )
    };
    let expected = told(&explain(&["--replicaset", "web", "--replicas", "8"]));
    assert_eq!(told(&ask("dump.json")), expected);
    assert_eq!(told(&ask("dump.json.gz")), expected);
    assert_refused(
        &ask("cut.json"),
        &["cut.json | document 1, line | cut off | bytes"],
    );
    assert_refused(
        &ask("cut.json.gz"),
        &["cut.json.gz | gzip data ends too early"],
    );
}
