//! Tests of the content of mirrored slices, and of their deletion.

use podstorm_objects::{ApiError, Cause, Reason};
use serde_json::{Value, json};

use super::super::tests::{World, lay};
use super::*;

fn world() -> World<Mirroring> {
    World::new::<EndpointSliceMirroring>(Kind::ENDPOINT_SLICE)
}

/// Builds a port with this name and number.
fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "port": number, "protocol": "TCP"})
}

fn addresses(list: &[&str]) -> Value {
    list.iter().map(|ip| json!({"ip": ip})).collect()
}

impl World<Mirroring> {
    /// Adds Endpoints `web` with these subsets; `over` is merged over their JSON.
    fn endpoints(&self, subsets: Value, over: Value) {
        let mut endpoints = json!({"subsets": subsets,
            "metadata": {"namespace": "ns", "name": "web", "uid": "ep", "labels": {"app": "web"}}});
        lay(&mut endpoints, over);
        self.apply(Kind::ENDPOINTS, endpoints);
    }

    /// Adds a Service without a selector, and Endpoints with one address.
    fn bare(&self) {
        self.service(json!({"selector": null}));
        let subset = json!({"addresses": addresses(&["10.0.0.1"]), "ports": [port("http", 80)]});
        self.endpoints(json!([subset]), json!({}));
    }

    fn slice_ips(&self) -> Vec<Vec<String>> {
        let ip = |endpoint: &Value| endpoint["addresses"][0].as_str().expect("an IP").to_owned();
        let ips = |slice: Value| {
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            endpoints.iter().map(ip).collect()
        };
        self.all().into_iter().map(ips).collect()
    }
}

#[test]
fn endpoints_of_a_service_without_a_selector_are_mirrored() {
    let mut world = world();
    world.service(json!({"selector": null}));
    let target = json!({"kind": "Pod", "name": "p", "namespace": "ns"});
    let ready = json!([{"ip": "10.0.0.1", "nodeName": "n", "hostname": "h", "targetRef": target}]);
    let subset = json!({"addresses": ready, "notReadyAddresses": addresses(&["10.0.0.2"]),
        "ports": [{"port": 80, "protocol": "TCP"}]});
    let trigger = "endpoints.kubernetes.io/last-change-trigger-time";
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let annotations = json!({"mine": "yes", trigger: "2027-01-15T08:00:00Z", last: "{}"});
    world.endpoints(
        json!([subset]),
        json!({"metadata": {"annotations": annotations}}),
    );
    assert_eq!(world.sync(0), ["create web-11"]);
    let slice = world.one();
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"app": "web", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(slice["metadata"]["annotations"], json!({"mine": "yes"}));
    let owner = json!({"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "ep",
        "controller": true, "blockOwnerDeletion": true});
    assert_eq!(slice["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(
        slice["ports"],
        json!([{"name": "", "port": 80, "protocol": "TCP"}])
    );
    assert_eq!(
        slice["endpoints"],
        json!([
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hostname": "h",
                "nodeName": "n", "targetRef": target},
        ])
    );
    assert_eq!(world.sync(1), [""; 0]);
    assert_eq!(world.events, [""; 0]);
}

#[test]
fn each_address_type_and_port_list_has_a_slice() {
    let mut world = world();
    world.service(json!({"selector": null}));
    let both = json!({"addresses": addresses(&["10.0.0.1", "fd00::1", "::ffff:10.0.0.2"]),
        "ports": [port("a", 80)]});
    let other = json!({"addresses": addresses(&["10.0.0.1"]), "ports": [port("b", 81)]});
    let same = json!({"addresses": addresses(&["10.0.0.3"]), "ports": [port("a", 80)]});
    world.endpoints(json!([both, other, same]), json!({}));
    assert_eq!(world.sync(0).len(), 3);
    let mut ips = world.slice_ips();
    ips.sort();
    let wanted = [
        vec!["10.0.0.1"],
        vec!["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        vec!["fd00::1"],
    ];
    assert_eq!(ips, wanted);
}

#[test]
fn a_change_is_one_write() {
    let mut world = world();
    world.bare();
    world.sync(0);
    let subsets = |ips: &[&str], number: u16| json!([{"addresses": addresses(ips), "ports": [port("http", number)]}]);
    world.endpoints(subsets(&["10.0.0.2"], 80), json!({}));
    assert_eq!(world.sync(1), ["put web-11"]);
    assert_eq!(world.slice_ips(), [["10.0.0.2"]]);
    // With other ports, the slice to delete becomes the slice to create.
    world.endpoints(subsets(&["10.0.0.2"], 8080), json!({}));
    assert_eq!(world.sync(2), ["put web-11"]);
    assert_eq!(world.one()["ports"][0]["port"], 8080);
    // A slice of the other address type can't be reused.
    world.endpoints(subsets(&["fd00::2"], 8080), json!({}));
    assert_eq!(world.sync(3), ["create web-14", "delete web-11"]);
    // Labels are mirrored, too.
    world.endpoints(
        subsets(&["fd00::2"], 8080),
        json!({"metadata": {"labels": {"tier": "x"}}}),
    );
    assert_eq!(world.sync(4), ["put web-14"]);
    assert_eq!(world.one()["metadata"]["labels"]["tier"], "x");
    world.endpoints(json!([]), json!({}));
    assert_eq!(world.sync(5), ["delete web-14"]);
}

#[test]
fn changes_of_a_mirrored_slice_by_clients_are_reverted() {
    let mut world = world();
    world.bare();
    world.sync(0);
    world.meddle(|slice| drop(slice.fields.insert("endpoints".to_owned(), json!([]))));
    assert_eq!(world.sync(1), ["put web-11"]);
    assert_eq!(world.slice_ips(), [["10.0.0.1"]]);
    world.meddle(|slice| slice.metadata.annotations = slice.metadata.annotations.with("a", "b"));
    assert_eq!(world.sync(2), ["put web-11"]);
    // A slice that names another manager is not changed.
    world.meddle(|slice| {
        let labels = &slice.metadata.labels;
        slice.metadata.labels = labels.with("endpointslice.kubernetes.io/managed-by", "me");
    });
    assert_eq!(world.sync(3), ["create web-17"]);
}

#[test]
fn endpoints_that_must_not_be_mirrored_lose_their_slices() {
    let skip = json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}});
    let leader = json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}});
    let subset = json!({"addresses": addresses(&["10.0.0.1"]), "ports": [port("http", 80)]});
    for metadata in [skip, leader] {
        let mut world = world();
        world.bare();
        world.sync(0);
        world.endpoints(json!([subset]), json!({"metadata": metadata}));
        assert_eq!(world.sync(1), ["delete web-11"], "{metadata}");
        world.endpoints(json!([subset]), json!({}));
        assert_eq!(world.sync(2).len(), 1);
    }
    let mut world = world();
    world.bare();
    world.endpoints(
        json!([subset]),
        json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "no"}}}),
    );
    assert_eq!(world.sync(0).len(), 1);
}

#[test]
fn the_service_decides_whether_endpoints_are_mirrored() {
    let mut world = world();
    let subset = json!({"addresses": addresses(&["10.0.0.1"]), "ports": [port("http", 80)]});
    world.endpoints(json!([subset]), json!({}));
    assert_eq!(world.sync(0), [""; 0], "there is no Service");
    world.service(json!({"selector": {"app": "web"}}));
    assert_eq!(
        world.sync(1),
        [""; 0],
        "another controller manages the Service"
    );
    world.service(json!({"selector": null}));
    assert_eq!(world.sync(2), ["create web-11"]);
    world.service(json!({"selector": {"app": "web"}}));
    assert_eq!(world.sync(3), ["delete web-11"]);
    world.service(json!({"selector": {}}));
    let made = world.sync(4);
    assert_eq!(made.len(), 1, "an empty selector counts as none");
    world.remove(Kind::SERVICE, "web");
    assert_eq!(world.sync(5).len(), 1);
    assert_eq!(world.all(), [Value::Null; 0]);
}

#[test]
fn slices_are_deleted_with_their_endpoints() {
    let mut world = world();
    world.bare();
    world.sync(0);
    world.remove(Kind::ENDPOINTS, "web");
    assert_eq!(world.sync(1), ["delete web-11"]);
    // Endpoints that are being deleted get no new slices.
    world.endpoints(
        json!([{"addresses": addresses(&["10.0.0.1"])}]),
        json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}),
    );
    assert_eq!(world.sync(2), [""; 0]);
}

#[test]
fn skipped_addresses_are_reported_as_events() {
    let mut world = world();
    world.service(json!({"selector": null}));
    let many: Vec<String> = (0..1_002)
        .map(|n| format!("10.0.{}.{}", n / 250, n % 250))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    world.endpoints(json!([{"addresses": addresses(&many)}]), json!({}));
    world.sync(0);
    assert_eq!(world.sizes(), [1_000]);
    let text = "TooManyAddressesToMirror A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints \
                subset. 2 addresses were skipped";
    assert!(
        world.events.iter().all(|event| event == text),
        "{:?}",
        world.events
    );
    assert!(!world.events.is_empty());
    world.events.clear();
    let bad = addresses(&["10.0.0.1", "10.0.0"]);
    world.endpoints(json!([{"addresses": bad}]), json!({}));
    world.sync(1);
    assert_eq!(world.sizes(), [1]);
    let text = "InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices";
    assert!(
        world.events.iter().all(|event| event == text),
        "{:?}",
        world.events
    );
    assert!(!world.events.is_empty());
}

#[test]
fn failures_are_retried_unless_the_namespace_terminates() {
    let mut world = world();
    world.bare();
    world.refusal = Some(ApiError::status(500, Reason::Other(String::new()), "no"));
    assert_eq!(world.sync(0), [""; 0]);
    let failed = ["failed to create EndpointSlice for Endpoints ns/web: no"];
    assert_eq!(world.failures, failed);
    assert_eq!(world.sync(1), ["create web-11"]);
    let ending = Cause {
        reason: "NamespaceTerminating".to_owned(),
        ..Cause::default()
    };
    let mut world = self::world();
    world.bare();
    world.refusal = Some(ApiError::status(403, Reason::Forbidden, "no").with_cause(ending));
    assert_eq!(world.sync(0), [""; 0]);
    assert_eq!(world.sync(100), [""; 0], "the key is not retried");
}

#[test]
fn mirroring_waits_until_the_cache_has_its_writes() {
    let mut world = world();
    world.bare();
    world.is_watched = false;
    assert_eq!(world.sync(0), ["create web-11"]);
    let subset = json!({"addresses": addresses(&["10.0.0.2"]), "ports": [port("http", 80)]});
    world.endpoints(json!([subset]), json!({}));
    assert_eq!(world.sync(1), [""; 0]);
    assert_eq!(world.failures.len(), 1);
}
