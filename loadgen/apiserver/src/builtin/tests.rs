//! Tests of built-in kinds without a Rust type: validation, updates, and assigned values. The
//! recorded cases of responses are tested in the HTTP crate.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Cause, Deployment, DynamicObject};
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, cluster, refused};

#[test]
fn every_row_is_valid_and_unique() {
    for row in rows() {
        assert!(row.is_sound(), "{}", row.kind);
        let same = |kind: &Kind| *kind == Kind::from_row(row);
        assert_eq!(all_kinds().filter(same).count(), 1, "{}", row.kind);
    }
}

#[test]
fn every_column_has_a_description() {
    for row in rows() {
        for column in row.columns {
            let description = column_description(Kind::from_row(row), column);
            assert!(!description.is_empty(), "{} {}", row.kind, column.name);
        }
    }
}

pub(super) fn kind(name: &str) -> Kind {
    kind_named(name).expect("the kind is built in")
}

fn object(kind: Kind, mut value: Value) -> AnyObject {
    value["metadata"] = json!({"name": "a", "namespace": "default"});
    Arc::new(DynamicObject::from_json(kind, value).unwrap())
}

/// Returns the causes of a refused create with these members.
pub(super) fn causes(kind: Kind, value: Value) -> Vec<String> {
    let created = cluster().api(kind).create(object(kind, value), at(0));
    let text = |cause: Cause| format!("{}: {}", cause.field, cause.message);
    created
        .map_or_else(|error| error.causes().to_vec(), |_| Vec::new())
        .into_iter()
        .map(text)
        .collect()
}

#[test]
fn keys_of_a_config_map_are_valid_file_names() {
    let kind = kind("ConfigMap");
    let sound = json!({"data": {"a.txt": "", "B_c-1": "x"}, "binaryData": {"d": "AAAA"}});
    assert_eq!(causes(kind, sound), [""; 0]);
    for (key, what) in [
        (
            "a b",
            "data[a b]: Invalid value: \"a b\": a valid config key must",
        ),
        (".", "data[.]: Invalid value: \".\": must not be '.'"),
        (
            "..a",
            "data[..a]: Invalid value: \"..a\": must not start with '..'",
        ),
    ] {
        let found = causes(kind, json!({"data": {key: "x"}}));
        assert!(found.len() == 1 && found[0].starts_with(what), "{found:?}");
    }
}

#[test]
fn a_config_map_holds_one_mebibyte() {
    let kind = kind("ConfigMap");
    let full = json!({"data": {"a": "x".repeat(1 << 20)}});
    assert_eq!(causes(kind, full), [""; 0]);
    let wrong = DynamicObject::from_json(kind, json!({"data": {"a": 1}}));
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "data[a]: expected a string, found the number 1"
    );
}

#[test]
fn an_immutable_config_map_keeps_its_data_and_accepts_labels() {
    let (kind, cluster) = (kind("ConfigMap"), cluster());
    let api = cluster.api(kind);
    let of = |data: &str, immutable: Option<bool>| {
        object(kind, json!({"data": {"a": data}, "immutable": immutable}))
    };
    api.create(of("1", None), at(0)).unwrap();
    api.update(of("2", Some(true)), at(0)).unwrap();
    for other in [of("3", Some(true)), of("2", Some(false)), of("2", None)] {
        assert_eq!(refused(api.update(other, at(0))), "422 Invalid");
    }
    let mut labelled = DynamicObject::new(kind);
    labelled.metadata.clone_from(of("2", None).metadata());
    labelled.metadata.labels = labelled.metadata.labels.with("a", "b");
    let fields = json!({"data": {"a": "2"}, "immutable": true});
    labelled.fields = fields.as_object().unwrap().clone();
    api.update(Arc::new(labelled), at(0)).unwrap();
}

#[test]
fn a_lease_needs_a_positive_duration_and_no_negative_count() {
    let kind = kind("Lease");
    let held = json!({"spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-02T03:04:05.678901Z", "renewTime": "2026-01-02T03:04:05.678901Z",
    }});
    let (_, lease) = stored("Lease", held.clone());
    assert_eq!(lease["spec"], held["spec"], "times keep their microseconds");
    let never = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
    assert_eq!(
        causes(kind, never),
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
    let preferred = json!({"spec": {"preferredHolder": "b"}});
    assert_eq!(
        causes(kind, preferred),
        ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
    );
    let wrong = DynamicObject::from_json(kind, json!({"spec": {"renewTime": "soon"}}));
    let problem = wrong.unwrap_err().to_string();
    assert!(problem.starts_with("spec.renewTime: "), "{problem}");
}

fn stored(name: &str, value: Value) -> (crate::Cluster, Value) {
    let cluster = cluster();
    let kind = kind_named(name).unwrap();
    let created = cluster.api(kind).create(object(kind, value), at(0));
    (cluster, created.unwrap().to_json())
}

fn deployment() -> Value {
    let template = json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}})
}

#[test]
fn every_service_gets_its_own_address_and_keeps_it() {
    let kind = kind("Service");
    let service = |ports: Value| json!({"spec": {"type": "NodePort", "ports": ports}});
    let (cluster, first) = stored("Service", service(json!([{"port": 80}])));
    let api = cluster.api(kind);
    let mut other = service(json!([{"port": 80}, {"port": 81, "name": "b"}]));
    other["spec"]["ports"][0]["name"] = "a".into();
    other["metadata"] = json!({"name": "b", "namespace": "default"});
    let other = DynamicObject::from_json(kind, other).unwrap();
    let second = api.create(Arc::new(other), at(1)).unwrap().to_json();
    assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    assert_eq!(first["spec"]["clusterIPs"][0], first["spec"]["clusterIP"]);
    let node_ports = &second["spec"]["ports"];
    assert_ne!(node_ports[0]["nodePort"], node_ports[1]["nodePort"]);
    assert!((30_000..32_768).contains(&node_ports[0]["nodePort"].as_i64().unwrap()));

    let changed = object(kind, service(json!([{"port": 80, "targetPort": 8080}])));
    let changed = api.update(changed, at(2)).unwrap().to_json();
    for path in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        assert_eq!(changed.pointer(path), first.pointer(path), "{path}");
    }
    let mut taken = service(json!([{"port": 80}]));
    taken["spec"]["clusterIP"] = "10.96.9.9".into();
    let refused = api.update(object(kind, taken), at(3)).unwrap_err();
    assert!(refused.message.contains("may not change once set"));
}

/// The row of Deployments in `Kind`, which their controller uses, has no rules.
#[test]
fn a_deployment_keeps_its_rules_when_its_controller_writes_it() {
    let cluster = cluster();
    let api = cluster.api(Kind::DEPLOYMENT);
    assert!(
        api.last_version().is_ok(),
        "the first request creates the store"
    );
    let by_client = object(kind("Deployment"), deployment());
    let stored = api.create(by_client, at(0)).unwrap();
    let stored = Deployment::from_object(&stored).unwrap();
    assert_eq!(stored.spec.progress_deadline_seconds, Some(600));
    let written = api
        .update_status(Arc::new(stored.to_untyped()), at(1))
        .unwrap();
    let mut bare = Deployment::clone(&Deployment::from_object(&written).unwrap());
    bare.spec.progress_deadline_seconds = None;
    let written = api.update(Arc::new(bare.to_untyped()), at(2)).unwrap();
    assert!(!written.kind().row().columns.is_empty());
    let written = Deployment::from_object(&written).unwrap();
    assert_eq!(written.spec.progress_deadline_seconds, Some(600));
}

#[test]
fn a_deployment_can_be_scaled() {
    let (cluster, _) = stored("Deployment", deployment());
    let api = cluster.api(kind("Deployment"));
    let scale = api.scale("default", "a").unwrap();
    assert_eq!((scale.replicas, scale.selector.as_str()), (1, "app=a"));
    let update = crate::ScaleUpdate {
        replicas: 5,
        ..crate::ScaleUpdate::default()
    };
    let scale = api.update_scale("default", "a", &update, at(1)).unwrap();
    assert_eq!(scale.replicas, 5);
    let deployment = api.get("default", "a").unwrap().to_json();
    assert_eq!(deployment["spec"]["replicas"], 5);
    assert_eq!(deployment["metadata"]["generation"], 2);
}

#[test]
fn string_data_of_a_secret_is_stored_encoded() {
    let given = json!({"data": {"a": "YQ=="}, "stringData": {"b": "b"}});
    let (_, secret) = stored("Secret", given);
    assert_eq!(secret["data"], json!({"a": "YQ==", "b": "Yg=="}));
    assert_eq!(secret.get("stringData"), None);
}

#[test]
fn services_get_only_ports_and_addresses_of_the_cluster() {
    let service = kind("Service");
    let with = |spec: Value| {
        let mut all = json!({"ports": [{"port": 80}], "selector": {"app": "web"}});
        super::super::json_merge(all.as_object_mut().unwrap(), spec.as_object().unwrap());
        causes(service, json!({"spec": all}))
    };
    for sound in [
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 32767}]}),
        json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]}),
        json!({"clusterIP": "None", "selector": null, "ipFamilyPolicy": "RequireDualStack"}),
        json!({"type": "ExternalName", "externalName": "a.b", "ports": null, "selector": null}),
    ] {
        assert_eq!(with(sound.clone()), [""; 0], "{sound}");
    }
    for (spec, what) in [
        (
            json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 32768}]}),
            "spec.ports[0].nodePort: Invalid value: 32768: provided port is not in the valid range",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            "spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not",
        ),
        (
            json!({"selector": {"app": "bad value!"}}),
            "spec.selector: Invalid value: \"bad value!\": a valid label must be",
        ),
    ] {
        let found = with(spec.clone());
        assert!(found[0].starts_with(what), "{spec}: {found:?}");
        assert_eq!(found.len(), 1, "{spec}: {found:?}");
    }
}

#[test]
fn endpoints_of_slices_have_reachable_addresses() {
    let slice = |kind: &str, addresses: Value| {
        let endpoints = json!([{"addresses": addresses}]);
        let value = json!({"addressType": kind, "endpoints": endpoints, "ports": []});
        causes(super::super::kind_named("EndpointSlice").unwrap(), value)
    };
    assert_eq!(slice("IPv4", json!(["192.0.2.1"])), [""; 0]);
    assert_eq!(slice("IPv6", json!(["2001:db8::1"])), [""; 0]);
    assert_eq!(slice("FQDN", json!(["a.example."])), [""; 0]);
    for (kind, address, what) in [
        ("IPv4", "127.0.0.1", "may not be in the loopback range"),
        ("IPv4", "0.0.0.0", "may not be unspecified"),
        ("IPv4", "169.254.1.1", "may not be in the link-local range"),
        ("IPv6", "ff02::1", "may not be in the link-local multicast"),
        ("IPv4", "::1", "must be an IPv4 address"),
        ("FQDN", "alone", "should be a domain with at least two"),
    ] {
        let found = slice(kind, json!([address]));
        assert!(found[0].contains(what), "{address}: {found:?}");
        assert_eq!(found.len(), 1, "{address}: {found:?}");
    }
    let many: Vec<String> = (0..101).map(|n| format!("10.0.0.{n}")).collect();
    let found = slice("IPv4", json!(many));
    assert_eq!(
        found,
        ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]
    );
}
