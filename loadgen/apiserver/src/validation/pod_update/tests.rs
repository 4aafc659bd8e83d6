//! Tests of the rules of pod updates.

use std::sync::Arc;

use serde_json::json;

use super::super::super::defaulting::default_pod;
use super::super::testing::{cases, merged, read, texts};
use super::*;

fn pod(patch: &Value) -> Pod {
    let base = json!({"metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "img"}], "nodeName": "n1",
            "activeDeadlineSeconds": 10, "tolerations": [{"key": "a", "operator": "Exists"}]}});
    let mut pod = read(merged(base, patch));
    default_pod(&mut pod);
    pod
}

fn problems(new: Value) -> Vec<String> {
    texts(&validate_pod_update(&pod(&new), &pod(&json!({}))))
}

#[test]
fn mutable_fields_may_change() {
    for patch in [
        json!({}),
        json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/x"]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "other",
            "imagePullPolicy": "Always"}]}}),
        json!({"spec": {"activeDeadlineSeconds": 9}}),
        json!({"spec": {"tolerations": [{"key": "b", "operator": "Exists"},
            {"key": "a", "operator": "Exists"}]}}),
    ] {
        assert_eq!(problems(patch.clone()), [""; 0], "{patch}");
    }
}

#[test]
fn changes_of_immutable_fields_are_reported() {
    // The start of the only error, and the end of one of its lines.
    let table = r#"
{"spec": {"nodeName": "n2"}}
> spec: Forbidden
> + "NodeName": "n2",

{"spec": {"priority": 3}}
> spec: Forbidden
> + "Priority": 3,

{"spec": {"containers": [{"name": "d", "image": "img"}]}}
> spec: Forbidden
> +   "Name": "d",

{"spec": {"containers": [{"name": "c", "image": "img"}, {"name": "d", "image": "img"}]}}
> spec.containers: Forbidden
> may not add or remove containers

{"spec": {"containers": [{"name": "c", "image": "", "imagePullPolicy": "Always"}]}}
> spec.containers[0].image: Required value

{"spec": {"activeDeadlineSeconds": 11}}
> spec.activeDeadlineSeconds: Invalid value: 11
> previous value

{"spec": {"activeDeadlineSeconds": null}}
> spec.activeDeadlineSeconds: Invalid value: null
> to nil value

{"spec": {"tolerations": null}}
> spec.tolerations: Forbidden
> except its tolerationSeconds

{"spec": {"terminationGracePeriodSeconds": 1}}
> spec: Forbidden
> - "TerminationGracePeriodSeconds": 30,

{"metadata": {"labels": {"-": ""}}}
> metadata.labels: Invalid
"#;
    for (patch, told) in cases(table) {
        let found = problems(patch.clone());
        assert_eq!(found.len(), 1, "{patch}: {found:?}");
        assert!(found[0].starts_with(told[0]), "{patch}: {found:?}");
        let is_told = |end: &&str| found[0].lines().any(|line| line.ends_with(*end));
        assert!(told[1..].iter().all(is_told), "{patch}: {found:?}");
    }
}

#[test]
fn the_name_of_a_pods_token_volume_is_immutable() {
    let with = |name: &str| {
        pod(
            &json!({"spec": {"volumes": [{"name": name}], "containers": [
            {"name": "c", "image": "img", "volumeMounts": [{"name": name, "mountPath": "/a"}]}]}}),
        )
    };
    let old = with("kube-api-access-aaaaa");
    let new = with("kube-api-access-bbbbb");
    assert_eq!(new.spec, old.spec);
    assert_eq!(validate_pod_update(&old.clone(), &old), []);
    let found = texts(&validate_pod_update(&new, &old));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("+   \"Name\": \"kube-api-access-bbbbb\",\n"),
        "{found:?}"
    );
    // Mutable fields may still change.
    let mut new = with("kube-api-access-aaaaa");
    let mut members = new.spec.to_map(None);
    members["containers"][0]["image"] = "other".into();
    new.spec = Arc::new(new.spec.with_members(members).unwrap());
    assert_eq!(validate_pod_update(&new, &old), []);
}

#[test]
fn a_negative_grace_period_may_change_to_one() {
    let old = pod(&json!({"spec": {"terminationGracePeriodSeconds": -5}}));
    let with = |seconds: i64| pod(&json!({"spec": {"terminationGracePeriodSeconds": seconds}}));
    assert_eq!(validate_pod_update(&with(1), &old), []);
    assert_eq!(validate_pod_update(&with(2), &old).len(), 1);
}

#[test]
fn scheduling_gates_can_only_be_removed() {
    let with = |gates: Value, selector: Value| {
        pod(&json!({"spec": {"nodeName": null, "schedulingGates": gates,
            "nodeSelector": selector}}))
    };
    let old = with(json!([{"name": "a"}, {"name": "b"}]), json!({"x": "1"}));
    let check =
        |gates: Value, selector: Value| texts(&validate_pod_update(&with(gates, selector), &old));
    assert_eq!(check(json!([{"name": "b"}]), json!({"x": "1"})), [""; 0]);
    assert_eq!(check(json!(null), json!({"x": "1", "y": "2"})), [""; 0]);
    assert_eq!(check(json!([{"name": "c"}]), json!({"x": "1"})).len(), 1);
    assert_eq!(check(json!([{"name": "a"}]), json!({"x": "2"})).len(), 1);
}
