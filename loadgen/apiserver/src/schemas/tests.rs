//! Tests of the tables against the schemas, and of the fields that they add to objects.

use serde_json::json;

use super::*;
use crate::builtin::all_kinds;

fn member<'s>(schema: &str, member: &str) -> Option<&'s Value> {
    SCHEMAS.get(schema)?["properties"].get(member)
}

#[test]
fn no_schema_requires_metadata() {
    let required = |name: &str| SCHEMAS[name]["required"].clone();
    assert_eq!(required("io.k8s.api.apps.v1.Deployment"), Value::Null);
    assert_eq!(
        required("io.k8s.api.core.v1.PodSpec"),
        json!(["containers"])
    );
    let selector = required("io.k8s.api.core.v1.ConfigMapKeySelector");
    assert_eq!(selector, json!(["key"]), "a name is optional");
}

#[test]
fn every_kind_has_a_schema() {
    for kind in all_kinds() {
        assert!(SCHEMAS.contains_key(&schema_name(kind)), "{kind:?}");
    }
}

/// Otherwise, a row with a wrong member name would be ignored silently.
#[test]
fn every_row_of_a_served_schema_names_one_of_its_members() {
    let mut applied = 0;
    for row in rules::merge_rules().chain(rules::defaults()) {
        let (schema, name) = (row[0], row[1]);
        if SCHEMAS.contains_key(schema) {
            let is_there = name.is_empty() || member(schema, name).is_some();
            assert!(is_there, "{schema} has no {name}");
            applied += 1;
        }
    }
    assert!(applied > 900, "{applied}");
}

#[test]
fn published_merge_rules_equal_those_of_the_table() {
    let merging = |field: &Value| {
        let said = field.as_object().into_iter().flatten();
        let said = said.filter(|(name, _)| {
            name.contains("-patch-") || name.contains("-list-") || name.contains("-map-type")
        });
        said.count()
    };
    let published: usize = SCHEMAS
        .values()
        .map(|schema| {
            let members = properties(schema).map(|(_, property)| merging(property));
            merging(schema) + members.sum::<usize>()
        })
        .sum();
    let served = rules::merge_rules().filter(|row| SCHEMAS.contains_key(row[0]));
    let wanted: usize = served
        .map(|row| row[2..].iter().filter(|text| !text.is_empty()).count())
        .sum();
    assert_eq!(published, wanted);
    let ports = member("io.k8s.api.core.v1.ServiceSpec", "ports").unwrap();
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["port", "protocol"])
    );
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
    let volumes = member("io.k8s.api.core.v1.PodSpec", "volumes").unwrap();
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
}

#[test]
fn fields_that_go_always_writes_are_added_if_absent() {
    let filled = |kind: &str, mut object: Value| {
        let kind = crate::builtin::kind_named(kind).unwrap();
        fill(kind, object.as_object_mut().unwrap());
        object
    };
    let empty = json!({"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
        "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
        "architecture": ""});
    let node = json!({"spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": empty}});
    let container = json!({"name": "c", "resources": {}});
    let pod = json!({"spec": {"containers": [container], "volumes": [{"name": "v", "secret": {}}]},
        "status": {"containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "image": "",
            "imageID": "", "state": {"running": {"startedAt": null}}, "lastState": {}}]}});
    let claim = json!({"spec": {"resources": {}}, "status": {}});
    let budget = json!({"spec": {}, "status": {"disruptionsAllowed": 0, "currentHealthy": 0,
        "desiredHealthy": 0, "expectedPods": 0}});
    for (kind, given, wanted) in [
        ("Node", json!({}), node),
        (
            "Pod",
            json!({"spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "secret": {}}]},
                "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}}),
            pod,
        ),
        ("PersistentVolumeClaim", json!({}), claim),
        ("PodDisruptionBudget", json!({}), budget),
        (
            "ResourceQuota",
            json!({}),
            json!({"spec": {}, "status": {}}),
        ),
        ("Lease", json!({}), json!({"spec": {}})),
        (
            "PodTemplate",
            json!({}),
            json!({"template": {"metadata": {}, "spec": {"containers": null}}}),
        ),
        (
            "EndpointSlice",
            json!({"addressType": "IPv4"}),
            json!({"addressType": "IPv4", "endpoints": null, "ports": null}),
        ),
        // Optional fields stay absent at any depth.
        ("ConfigMap", json!({}), json!({})),
        (
            "ReplicationController",
            json!({"spec": {}}),
            json!({"spec": {}, "status": {"replicas": 0}}),
        ),
    ] {
        assert_eq!(filled(kind, given), wanted, "{kind}");
    }
}

#[test]
fn filling_is_idempotent_and_keeps_existing_values() {
    for kind in all_kinds() {
        let mut once = Map::new();
        fill(kind, &mut once);
        let mut twice = once.clone();
        fill(kind, &mut twice);
        assert_eq!(once, twice, "{kind:?}");
    }
    let mut service = json!({"spec": {"ports": null}, "status": {"loadBalancer": {"ingress": []}}});
    let given = service.clone();
    let kind = crate::builtin::kind_named("Service").unwrap();
    fill(kind, service.as_object_mut().unwrap());
    assert_eq!(service, given);
}
