//! `loadgen explain --deployment`, and the commands that undo the annotations of `--prefer`.

use podstorm_tests::command::{assert_refused, holds, run, run_with_stdin, told};
use serde_json::{Value, json};

use super::{EXAMPLE, EXAMPLES, NOW, explain, read};

/// Returns the example with a second ReplicaSet of the Deployment, of this size and revision.
fn with_older(replicas: u32, revision: &str) -> String {
    let source = read(EXAMPLES, EXAMPLE);
    let older = format!(
        "  - apiVersion: apps/v1
    kind: ReplicaSet
    metadata:
      name: web-old
      namespace: shop
      uid: 5a8d3c1e-9a42-4f6b-8c55-0d7e62b1f9a4
      annotations: {{deployment.kubernetes.io/revision: \"{revision}\"}}
      ownerReferences:
        - {{apiVersion: apps/v1, kind: Deployment, name: web, controller: true,
           uid: c0b7a9e4-3d1f-4e0a-b6a8-64d2f9e01c57}}
    spec:
      replicas: {replicas}
      selector: {{matchLabels: {{app: web, old: \"1\"}}}}
      template:
        metadata: {{labels: {{app: web, old: \"1\"}}}}
        spec: {{containers: [{{name: web, image: \"registry.example/web:1.3\"}}]}}
"
    );
    let named = "      name: web\n      namespace: shop\n      uid: 5a8d";
    assert!(source.contains(named), "the example has changed");
    let annotated = "      name: web\n      namespace: shop\n      annotations: \
                     {deployment.kubernetes.io/revision: \"10\"}\n      uid: 5a8d";
    source.replacen(named, annotated, 1) + &older
}

/// Collapses runs of spaces in a string.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_deployment_stands_for_its_newest_replicaset() {
    let ask = |name: &str, source: &str| {
        let line = format!("explain -f - --now {NOW} --deployment {name} --replicas 8");
        run_with_stdin(&line, source)
    };
    let source = read(EXAMPLES, EXAMPLE);
    let by_set = told(&explain("--replicaset shop/web --replicas 8"));
    for name in ["web", "shop/web"] {
        assert_eq!(told(&ask(name, &source)), by_set);
    }
    // Every Deployment has older ReplicaSets without replicas, so they are not mentioned.
    assert!(!told(&ask("web", &with_older(0, "9"))).contains("web-old"));
    // Revisions compare as numbers: 10 is newer than 9.
    let text = squeezed(&told(&ask("web", &with_older(2, "9"))));
    let words = "spec.replicas 12 -> 8: 4 pods are deleted. | Of the 2 ReplicaSets of Deployment shop/web \
                 this is the newest by revision, web; replicas have web of revision 10 with 12, web-old of \
                 revision 9 with 2.";
    holds(&text, words);
    let text = told(&ask("web", &with_older(2, "11")));
    holds(&text, "this is the newest by revision, web-old");

    let without = source.replace("kind: Deployment, name: web", "kind: Deployment, name: api");
    let words = "no ReplicaSet of a Deployment \"shop/web\" | kubectl get rs,rc,pods | shop/api";
    assert_refused(&ask("shop/web", &without), words);
}

#[test]
fn undoing_restores_an_earlier_cost() {
    let source = read(EXAMPLES, EXAMPLE);
    let key = "controller.kubernetes.io/pod-deletion-cost";
    let name = "      name: web-g5hsn\n";
    assert!(source.contains(name), "the example has changed");
    let annotated = format!("{name}      annotations: {{{key}: \"5\"}}\n");
    let source = source.replacen(name, &annotated, 1);
    let line = format!(
        "explain -f - --now {NOW} --replicaset web --replicas 8 --prefer billing=on-demand"
    );
    let text = told(&run_with_stdin(&line, &source));
    let undo = format!("\nkubectl annotate pod -n shop web-g5hsn {key}=5 --overwrite\n");
    assert!(text.ends_with(&undo), "{text}");
}

/// Returns the explanation of another example's Deployment.
fn explain_rollout(more: &str) -> String {
    let line = format!("explain -f {EXAMPLES}/rollout.yaml --now {NOW} --deployment web {more}");
    told(&run(&line))
}

#[test]
fn the_next_syncs_of_a_rollout_have_their_reasons() {
    let text = explain_rollout("");
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let mut left = lines.iter();
    for words in [
        "Deployment shop/web: 10 pods wanted, at most 13 in all (maxSurge 3), at least 8 available",
        "0 -> 3 no ReplicaSet has this template; 10 pods wanted, with maxSurge 13 may exist; 10 do, so 3 \
         more fit",
        // The two unavailable ones go before any available one.
        "1 web-6f9c 10 -> 8 2 of 10 are not available: they go first",
        "waits until 5 more of web-555474bd6d are available and 2 of web-6f9c are gone",
        "8 -> 3 8 of 10 must stay available (maxUnavailable 2); 13 are",
        "In the end: deployment \"web\" successfully rolled out",
    ] {
        assert!(
            left.any(|line| line.contains(words)),
            "{words:?} is missing in:\n{text}"
        );
    }
    let wide = explain_rollout("-o wide");
    holds(&wide, "update deployments/status web");
}

#[test]
fn a_rollout_is_explained_as_json_and_for_a_new_image() {
    let document = |more: &str| super::json(&explain_rollout(&format!("-o json {more}")));
    let now = document("");
    assert_eq!(now["max_surge"], 3);
    let first = &now["steps"][0]["sync"][0];
    assert_eq!(first["request"], "create replicasets");
    assert_eq!(first["replicas"], json!([0, 3]));
    // With the image of the old ReplicaSet, that ReplicaSet is reused with all its pods.
    let back = document("--image registry.example/web:1.4");
    let steps = back["steps"].as_array().expect("a list").iter();
    let requests = steps.filter_map(|step| step["sync"].as_array()).flatten();
    let sized: Vec<&Value> = requests
        .filter(|asked| !asked["replicas"].is_null())
        .collect();
    assert!(sized.is_empty(), "{sized:?}");
}
