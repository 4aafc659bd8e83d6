//! Tests of Endpoints.

use super::*;

#[test]
fn endpoints_list_ready_and_other_pods_separately() {
    let mut world = World::of_endpoints();
    world.labelled_service(http(), json!({"team": "shop"}));
    world.pod("b", "10.1.0.10", json!({}));
    world.pod("a", "10.1.0.9", json!({}));
    world.pod("c", "10.1.0.3", json!({"status": {"conditions": []}}));
    let deletion =
        json!({"deletionTimestamp": "2027-01-15T08:00:09Z", "deletionGracePeriodSeconds": 30});
    world.pod("d", "10.1.0.4", json!({"metadata": deletion}));
    assert_eq!(world.sync(0), ["create web"]);
    let endpoints = world.one();
    let address = |name: &str, ip: &str| {
        json!({"ip": ip, "nodeName": "n",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}})
    };
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [address("a", "10.1.0.9"), address("b", "10.1.0.10")],
            "notReadyAddresses": [address("c", "10.1.0.3")],
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]}])
    );
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"team": "shop", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    world.pod("c", "10.1.0.3", json!({}));
    assert_eq!(world.sync(1), ["put web"]);
    assert_eq!(world.one()["subsets"][0].get("notReadyAddresses"), None);
    for name in ["a", "b", "c", "d"] {
        world.delete_pod(name);
    }
    assert_eq!(world.sync(2), ["put web"]);
    assert_eq!(world.one().get("subsets"), None);
    // Another client deletes the Endpoints. Later the Service is deleted, and the Endpoints with
    // it.
    let gone = world
        .stored
        .remove("web")
        .expect("the Endpoints must exist");
    world.outputs.apply(Delta::Deleted(gone), at(3));
    assert_eq!(world.sync(3), ["create web"]);
    world.remove(Kind::SERVICE, "web");
    assert_eq!(world.sync(4), ["delete web"]);
}

#[test]
fn addresses_with_the_same_ports_share_a_subset() {
    let mut world = World::of_endpoints();
    let mut spec = http();
    spec["ports"] = json!([
        {"name": "a", "port": 1, "targetPort": "http", "protocol": "TCP"},
        {"name": "b", "port": 2, "targetPort": 9, "protocol": "UDP", "appProtocol": "kubernetes.io/h2c"}]);
    world.service(spec);
    world.pod("p", "10.1.0.1", json!({}));
    world.pod(
        "q",
        "10.1.0.2",
        json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    world.sync(0);
    let b = json!({"name": "b", "port": 9, "protocol": "UDP", "appProtocol": "kubernetes.io/h2c"});
    let a = json!({"name": "a", "port": 8080, "protocol": "TCP"});
    let subsets = world.one()["subsets"].clone();
    let found: Vec<_> = subsets
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (it["addresses"][0]["ip"].clone(), it["ports"].clone()))
        .collect();
    assert_eq!(found.len(), 2);
    assert!(
        found.contains(&("10.1.0.1".into(), json!([b, a])))
            || found.contains(&("10.1.0.1".into(), json!([a, b]))),
        "{found:?}"
    );
    assert!(
        found.contains(&("10.1.0.2".into(), json!([b]))),
        "{found:?}"
    );
}

#[test]
fn endpoints_in_a_foreign_form_are_not_parsed() {
    let address = |ip: &str, name: &str| {
        json!({"ip": ip, "nodeName": "n",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}})
    };
    let ports = json!([{"port": 8080, "protocol": "TCP"}]);
    let read = |addresses: Value| {
        let subsets = json!([{"addresses": addresses, "ports": ports}]);
        let endpoints = json!({"metadata": {"name": "web"}, "subsets": subsets});
        let endpoints = DynamicObject::from_json(Kind::ENDPOINTS, endpoints).expect("readable");
        super::super::subsets::StoredSubsets::read(&endpoints).is_some()
    };
    let [a, b] = [address("10.1.0.9", "a"), address("10.1.0.10", "b")];
    assert!(read(json!([a, b])));
    assert!(!read(json!([b, a])), "in another order");
    assert!(!read(json!([a, a])), "one address twice");
    let mut other = b.clone();
    other["hint"] = "x".into();
    assert!(!read(json!([a, other])), "with an unknown member");
}

#[test]
fn endpoints_have_at_most_a_thousand_addresses() {
    let mut world = World::of_endpoints();
    world.service(http());
    for number in 0..1_003 {
        let ip = format!("10.1.{}.{}", number / 200, number % 200);
        world.pod(&format!("p{number}"), &ip, json!({}));
    }
    world.sync(0);
    let endpoints = world.one();
    assert_eq!(
        endpoints["subsets"][0]["addresses"]
            .as_array()
            .map(Vec::len),
        Some(1_000)
    );
    let capacity = |it: &Value| {
        it["metadata"]["annotations"]
            .get("endpoints.kubernetes.io/over-capacity")
            .cloned()
    };
    assert_eq!(capacity(&endpoints), Some("truncated".into()));
    for name in ["p0", "p1", "p2"] {
        world.delete_pod(name);
    }
    assert_eq!(world.sync(1), ["put web"]);
    assert_eq!(capacity(&world.one()), None);
}
