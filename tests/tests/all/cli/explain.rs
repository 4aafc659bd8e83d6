//! `loadgen explain` on the command line: deletion orders, annotations, and refused input.

use podstorm_tests::command::{assert_refused, holds, run, run_in, run_with_stdin, told};
use serde_json::{Value, json};

use super::{EXAMPLE, EXAMPLES, NOW, assert_section_refused, explain, folder, read, write};

/// Returns the JSON about the example with these flags.
#[track_caller]
fn document(more: &str) -> Value {
    super::json(&told(&explain(&format!("-o json {more}"))))
}

/// Returns the names of the pods with a `fate`, in the order of their deletion.
fn names(document: &Value, fate: &str) -> Vec<String> {
    let pods = document["pods"].as_array().expect("a list");
    let of_fate = pods.iter().filter(|pod| pod["fate"] == fate);
    of_fate
        .map(|pod| pod["name"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn every_rule_of_the_example_is_explained() {
    let text = told(&explain("--replicaset shop/web --replicas 8"));
    for words in [
        "spec.replicas 12 -> 8: 4 pods are deleted.",
        "1  web-bq4tz  deleted  Pending, not ready     0  rule 1: has no node",
        "rule 2: Pending before Unknown",
        "rule 3: not ready",
        "rule 4: deletion cost -10 before 0",
        "rule 5: 3 related pods on its node, 2 on",
        "rule 6: ready for 1h44m, the next for 13h19m",
        "rule 7: 3 restarts before 0",
        "tied with the next",
        "No rule tells #10-#11 apart",
        NOW,
        "belongs to Deployment web",
    ] {
        holds(&text, words);
    }
    let fits = |line: &str| line.chars().count() <= 100 && !line.ends_with(' ');
    assert!(text.lines().all(fits), "{text}");
}

#[test]
fn the_document_has_the_eight_fields_and_the_rules() {
    let document = document("--replicaset web --replicas 8");
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["deleted"], 4);
    assert_eq!(document["input"]["taken"]["Pod"], 12);
    let expected = ["web-bq4tz", "web-c7xkp", "web-d2mfw", "web-f9jrl"];
    assert_eq!(names(&document, "deleted"), expected);
    assert_eq!(names(&document, "kept").len(), 8);
    let pod = &document["pods"][5];
    for (field, value) in [
        ("node", json!("on-demand-2")),
        ("phase", json!("Running")),
        ("ready", json!(true)),
        ("deletion_cost", json!(-10)),
        ("related_pods_on_node", json!(2)),
        ("ready_since", json!("2026-02-20T09:00:44Z")),
        ("restarts", json!(0)),
        ("created", json!("2026-02-20T09:00:12Z")),
    ] {
        assert_eq!(pod[field], value, "{field}");
    }
    assert_eq!(pod["before_next"]["rule"], "deletion-cost");
    assert_eq!(pod["before_next"]["number"], 4);
    assert_eq!(document["pods"][9]["before_next"]["rule"], "tie");
    assert_eq!(document["pods"][9]["before_next"]["number"], Value::Null);
    assert!(document["pods"][11].get("before_next").is_none());
}

#[test]
fn every_field_of_the_document_is_in_the_help() {
    let help = told(&run("explain --help"));
    let document = document("--replicaset web --replicas 2 --prefer billing=on-demand");
    let mut keys = Vec::new();
    collect_keys(&document, &mut keys);
    assert!(keys.len() > 40);
    for key in keys {
        // Kinds of objects are not field names.
        if key.starts_with(char::is_lowercase) {
            assert!(help.contains(&key), "{key}");
        }
    }
    // The usage is one line of any length.
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
    let text = told(&explain("--replicaset web --replicas 2"));
    let words = "web-m6znx  deleted* | web-s9lck  kept* | \
                 1 of the 2 pods #10-#11 go: no rule tells them apart";
    holds(&text, words);
    let document = document("--replicaset web --replicas 2");
    let undecided = json!({"first": 10, "last": 11, "deleted": 1, "why": "tie"});
    assert_eq!(document["undecided"], undecided);
    assert_eq!(names(&document, "deleted-or-kept"), ["web-m6znx"]);
    assert_eq!(names(&document, "kept-or-deleted"), ["web-s9lck"]);
}

#[test]
fn nothing_is_deleted_unless_the_count_falls() {
    let text = told(&explain("--replicaset web"));
    let words = "spec.replicas 12: nothing is deleted. | 12  web-x2pvd  kept";
    holds(&text, words);
    let text = told(&explain("--replicaset web --replicas 20"));
    holds(&text, "nothing is deleted, 8 pods created.");
    let text = told(&explain("--replicaset web --replicas 0"));
    holds(&text, "upstream ranks none");
}

#[test]
fn preferred_pods_go_with_the_annotations_that_are_printed() {
    let eight = "--replicaset web --replicas 8";
    let text = told(&explain(&format!("{eight} --prefer billing=on-demand")));
    let command = "kubectl annotate pod -n shop web-g5hsn \
                   controller.kubernetes.io/pod-deletion-cost=-1 --overwrite";
    holds(&text, &format!("\n{command}\n"));
    let undo = "kubectl annotate pod -n shop web-g5hsn controller.kubernetes.io/pod-deletion-cost-";
    assert!(text.ends_with(&format!("\n{undo}\n")), "{text}");
    assert_eq!(text.matches("kubectl annotate").count(), 2, "{text}");
    let words = "2 of the 4 pods that go are preferred ones (1 without | \
                 3 preferred pods stay anyway | rule 3, which precedes costs";
    holds(&text, words);

    let json = document(&format!("{eight} --prefer-nodes billing=on-demand"));
    let prefer = &json["prefer"];
    assert_eq!(prefer["matched_by_node_labels"], 5);
    assert_eq!(prefer["annotations"][0]["command"], command);
    assert_eq!(prefer["unreachable"].as_array().map(Vec::len), Some(3));

    // The annotated example has that order.
    let source = read(EXAMPLES, EXAMPLE);
    let annotated = source.replacen(
        "      name: web-g5hsn\n",
        "      name: web-g5hsn\n      annotations: {controller.kubernetes.io/pod-deletion-cost: \
         \"-1\"}\n",
        1,
    );
    assert_ne!(source, annotated);
    let line = format!("explain -f - --now {NOW} {eight} -o json");
    let document = super::json(&told(&run_with_stdin(&line, &annotated)));
    assert_eq!(names(&document, "deleted")[3], "web-g5hsn");
}

#[test]
fn annotations_are_printed_only_if_needed() {
    let spot = "--replicaset web --replicas 2 --prefer billing=spot";
    let text = told(&explain(spot));
    let is_so = text.contains("no annotation is needed") || text.contains("1 annotation:");
    assert!(is_so, "{text}");
    let all = "--replicaset web --replicas 11 --prefer-pods app=web";
    let text = told(&explain(all));
    holds(&text, "No annotation makes more of them go | 1 of the 1");
}

#[test]
fn gates_change_the_order() {
    let off = document("--replicaset web --replicas 8 --feature-gates PodDeletionCost=false");
    let rules = off["pods"].as_array().expect("a list").iter();
    let mut rules = rules.map(|pod| &pod["before_next"]["rule"]);
    assert!(rules.all(|rule| rule != "deletion-cost"), "{off}");
}

#[test]
fn long_orders_are_shortened_around_the_boundary() {
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
    let ask = |more: &str| {
        let line = format!("explain -f - --replicaset many --replicas 300 {more}");
        told(&run_with_stdin(&line, &list))
    };
    let text = ask("");
    let words = "1200 pods are deleted, in 3 | 1177 more  deleted | 297 more   kept | 1200  many- | \
                 1203  many- | without an owner | A sync deletes 500 pods at most | \
                 1200 of the 1500 pods #1-#1500 go";
    holds(&text, words);
    assert!(text.lines().count() < 50, "{text}");
    assert!(ask("--all").lines().count() > 1_500);
    assert!(ask("--limit 2").lines().count() < 30);
}

#[test]
fn unanswerable_questions_are_refused_with_a_hint() {
    assert_section_refused("explain", EXAMPLES);
}

#[test]
fn incomplete_dumps_are_refused_with_the_command_to_run() {
    let source = read(EXAMPLES, EXAMPLE);
    let (head, pods) =
        source.split_at(source.find("  # Not scheduled yet").expect("the first pod"));
    let refused = |text: &str, more: &str, words: &str| {
        let line = format!("explain -f - --replicaset web {more}");
        assert_refused(&run_with_stdin(&line, text), words);
    };
    refused(head, "", "no Pod | kubectl get rs,rc,pods,nodes -A");
    let only_pods = format!("apiVersion: v1\nkind: List\nitems:\n{pods}");
    refused(&only_pods, "", "no ReplicaSet");
    let without_nodes = source.replace("kind: Node\n", "kind: Secret\n");
    let prefer = "--prefer-nodes billing=spot";
    refused(&without_nodes, prefer, "--prefer-nodes | no Node");
    refused("", "", "contains no document");
    let at = head.find("  - apiVersion: apps/v1");
    let other = head[at.expect("the ReplicaSet")..]
        .replacen("namespace: shop", "namespace: books", 1)
        .replacen("uid: 5a8d3c1e", "uid: 5a8d3c1f", 1);
    let both = format!("{source}{other}");
    refused(&both, "", "several namespaces | shop/web | books/web");
}

#[test]
fn compressed_dumps_are_read_and_truncated_ones_refused() {
    let value: Value = serde_saphyr::from_str(&read(EXAMPLES, EXAMPLE)).expect("YAML");
    let text = serde_json::to_string_pretty(&value).expect("JSON");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).expect("memory takes all");
    let packed = encoder.finish().expect("memory takes all");
    let folder = folder();
    write(&folder, "dump.json", &text);
    write(&folder, "dump.json.gz", &packed);
    write(&folder, "cut.json", &text[..text.len() / 2]);
    write(&folder, "cut.json.gz", &packed[..packed.len() / 2]);
    let flags = "--replicaset web --replicas 8";
    let ask = |name: &str| run_in(&folder, &format!("explain -f {name} --now {NOW} {flags}"));
    let expected = told(&explain(flags));
    assert_eq!(told(&ask("dump.json")), expected);
    assert_eq!(told(&ask("dump.json.gz")), expected);
    let cut = "cut.json | document 1, line | cut off | bytes";
    assert_refused(&ask("cut.json"), cut);
    let cut = "cut.json.gz | gzip data ends too early";
    assert_refused(&ask("cut.json.gz"), cut);
}
