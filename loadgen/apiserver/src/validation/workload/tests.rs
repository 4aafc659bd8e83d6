//! Tests of the rules of ReplicaSets. The recorded requests cover those of ReplicationControllers.

use serde_json::json;

use super::super::super::defaulting::default_replica_set;
use super::super::testing::{assert_starts, cases, merged, read, texts};
use super::*;

fn replica_set(patch: &Value) -> ReplicaSet {
    let base = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {"containers": [{"name": "c", "image": "img"}]}}}
    });
    let mut replica_set = read(merged(base, patch));
    default_replica_set(&mut replica_set);
    replica_set
}

#[test]
fn valid_replica_sets_are_accepted_and_broken_rules_reported() {
    let table = r#"
{}

{"spec": {"replicas": 0, "minReadySeconds": 5}}

{"spec": {"template": {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-7"}}}}}

{"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}}}

{"spec": {"replicas": -1, "minReadySeconds": -2}}
> spec.replicas: Invalid value: -1: must be greater than or equal to 0
> spec.minReadySeconds: Invalid value: -2: must be greater

{"spec": {"selector": null}}
> spec.selector: Required value
> spec.template.metadata.labels: Invalid

{"spec": {"selector": {"matchLabels": null}}}
> spec.selector: Invalid value: {}

{"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}
> spec.selector.matchExpressions[0].operator: Invalid value: "Near"
> spec.selector: Invalid value: {"matchExpressions"

{"spec": {"selector": {"matchLabels": {"app": "db"}}}}
> spec.template.metadata.labels: Invalid value: {"app":"web","tier":"front"}: `selector` does not match template `labels`

{"spec": {"template": {"metadata": {"labels": {"bad key": "x"}}}}}
> spec.template.labels: Invalid value: "bad key"

{"spec": {"template": {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}}}}}
> spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer

{"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}
> spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"

{"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}}
> spec.template.spec.activeDeadlineSeconds: Forbidden

{"spec": {"template": {"spec": {"ephemeralContainers": [{"name": "e"}]}}}}
> spec.template.spec.ephemeralContainers: Forbidden

{"spec": {"template": {"spec": {"containers": []}}}}
> spec.template.spec.containers: Required value

{"metadata": {"name": "Web"}}
> metadata.name: Invalid value: "Web"
"#;
    for (patch, starts) in cases(table) {
        let found = texts(&validate_replica_set(&replica_set(&patch)));
        assert_starts(&found, &starts, &patch);
    }
    for cost in ["", "08", " 5", "1e3", "2147483648", "many"] {
        let patch = json!({"spec": {"template": {"metadata": {"annotations":
            {"controller.kubernetes.io/pod-deletion-cost": cost}}}}});
        let found = texts(&validate_replica_set(&replica_set(&patch)));
        assert_starts(&found, &["spec.template.annotations["], &patch);
    }
}

#[test]
fn only_the_selector_of_a_replica_set_is_immutable() {
    let old = replica_set(&json!({}));
    let update = |patch: &Value| texts(&validate_replica_set_update(&replica_set(patch), &old));
    assert_eq!(update(&json!({})), [""; 0]);
    let all_else = json!({"spec": {"replicas": 9, "minReadySeconds": 1, "template":
        {"spec": {"containers": [{"name": "d", "image": "other"}]}}}});
    assert_eq!(update(&all_else), [""; 0]);
    let other = json!({"spec": {"selector": {"matchLabels": {"app": null, "tier": "front"}}}});
    assert_eq!(
        update(&other),
        [
            "spec.selector: Invalid value: {\"matchLabels\":{\"tier\":\"front\"}}: field is \
          immutable"
        ]
    );
    assert_eq!(
        update(&json!({"spec": {"replicas": -1}})),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn status_counts_must_be_consistent() {
    let check = |status: Value| {
        let set = replica_set(&json!({"status": status}));
        texts(&validate_status(Some(&set.metadata), &set.status))
    };
    let good = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2,
        "availableReplicas": 2, "terminatingReplicas": 9, "observedGeneration": 1});
    assert_eq!(check(good), [""; 0]);
    assert_eq!(
        check(
            json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": 3,
            "availableReplicas": 4})
        ),
        [
            "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than \
             status.replicas",
            "status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 4: cannot be greater than \
             status.replicas",
            "status.availableReplicas: Invalid value: 4: cannot be greater than \
             readyReplicas",
        ]
    );
    let negative = check(json!({"replicas": -1, "terminatingReplicas": -1,
        "observedGeneration": -1, "readyReplicas": -1, "availableReplicas": -1,
        "fullyLabeledReplicas": -1}));
    assert_eq!(negative.len(), 6);
}

#[test]
fn replicas_of_a_scale_cannot_be_negative() {
    assert_eq!(validate_replicas(0), []);
    assert_eq!(validate_replicas(-1)[0].field, "spec.replicas");
}
