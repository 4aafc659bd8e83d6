//! Tests of EndpointSlices and of the parts that both controllers share.

use super::*;

#[test]
fn a_slice_has_the_pods_of_a_service_and_is_written_once() {
    let mut world = World::of_slices();
    world.labelled_service(http(), json!({"team": "shop"}));
    world.pod("a", "10.1.0.1", json!({}));
    world.pod("b", "10.1.0.2", json!({"status": {"conditions": []}}));
    world.pod(
        "c",
        "10.1.0.3",
        json!({"metadata": {"labels": {"app": "other"}}}),
    );
    let deletion =
        json!({"deletionTimestamp": "2027-01-15T08:00:09Z", "deletionGracePeriodSeconds": 30});
    world.pod("d", "10.1.0.4", json!({"metadata": deletion}));
    world.pod("e", "10.1.0.5", json!({"status": {"phase": "Succeeded"}}));
    world.pod(
        "f",
        "",
        json!({"status": {"phase": "Pending", "podIPs": []}}),
    );
    assert_eq!(world.sync(0), ["create web-11"]);
    let slice = world.one();
    let meta = &slice["metadata"];
    assert_eq!(
        meta["labels"],
        json!({"team": "shop", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(meta["ownerReferences"][0]["name"], "web");
    assert_eq!(meta["ownerReferences"][0]["controller"], true);
    assert_eq!(slice["addressType"], "IPv4");
    let port = json!([{"name": "web", "port": 8080, "protocol": "TCP"}]);
    assert_eq!(slice["ports"], port);
    let endpoint = |name: &str, ip: &str, [ready, serving, terminating]: [bool; 3]| {
        json!({"addresses": [ip], "nodeName": "n", "zone": "z",
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}})
    };
    assert_eq!(
        slice["endpoints"],
        json!([
            endpoint("a", "10.1.0.1", [true, true, false]),
            endpoint("b", "10.1.0.2", [false, false, false]),
            endpoint("d", "10.1.0.4", [false, true, true]),
        ])
    );
    // The oldest unreported change is the creation of the Service.
    let annotation = "endpoints.kubernetes.io/last-change-trigger-time";
    assert_eq!(meta["annotations"][annotation], "2027-01-15T08:00:00Z");

    world.pod(
        "b",
        "10.1.0.2",
        json!({"metadata": {"annotations": {"seen": "yes"}}, "status": {"conditions": []}}),
    );
    assert_eq!(
        world.sync(1),
        [""; 0],
        "the content of endpoints is unchanged"
    );
    world.pod("b", "10.1.0.2", json!({}));
    assert_eq!(world.sync(1), ["put web-11"]);
    let slice = world.one();
    assert_eq!(slice["endpoints"][1]["conditions"]["ready"], true);
    let since = &slice["metadata"]["annotations"][annotation];
    assert_eq!(
        since, "2027-01-15T08:00:05Z",
        "the time at which the pod became ready"
    );
    // One pod no longer matches because of its labels, and one pod is deleted.
    world.pod(
        "a",
        "10.1.0.1",
        json!({"metadata": {"labels": {"app": "other"}}}),
    );
    world.delete_pod("d");
    assert_eq!(world.sync(2), ["put web-11"]);
    let slice = world.one();
    assert_eq!(slice["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!(slice["metadata"]["annotations"].get(annotation), None);
    assert_eq!(world.failures, [""; 0]);
}

#[test]
fn slices_are_filled_with_few_writes() {
    let mut world = World::of_slices();
    world.service(http());
    for number in 0..250 {
        let ip = format!("10.1.{}.{}", number / 200, number % 200);
        world.pod(&format!("p{number:03}"), &ip, json!({}));
    }
    assert_eq!(world.sync(0).len(), 3);
    assert_eq!(world.sizes(), [100, 100, 50]);
    world.delete_pod("p007");
    assert_eq!(world.sync(1), ["put web-11"], "the slice that it was in");
    assert_eq!(world.sizes(), [99, 100, 50]);
    world.pod("q", "10.2.0.1", json!({}));
    assert_eq!(world.sync(2), ["put web-11"], "the fullest slice with room");
    assert_eq!(world.sizes(), [100, 100, 50]);
    world.delete_pod("p100");
    world.pod("r", "10.2.0.2", json!({}));
    assert_eq!(world.sync(3), ["put web-12"], "a slice that changes anyway");
    for number in 0..250 {
        let name = format!("p{number:03}");
        if !["p007", "p100", "p249"].contains(&&*name) {
            world.delete_pod(&name);
        }
    }
    world.delete_pod("r");
    assert_eq!(world.sync(4), ["put web-11", "put web-13", "delete web-12"]);
    assert_eq!(world.sizes(), [1, 1]);
}

#[test]
fn pods_with_different_ports_get_different_slices() {
    let mut world = World::of_slices();
    world.service(http());
    world.pod("a", "10.1.0.1", json!({}));
    let container =
        |port: Value| json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": port}]}});
    world.pod(
        "b",
        "10.1.0.2",
        container(json!([{"name": "http", "containerPort": 9090, "protocol": "TCP"}])),
    );
    // The pod has a port with that name but with another protocol.
    world.pod(
        "c",
        "10.1.0.3",
        container(json!([{"name": "http", "containerPort": 53, "protocol": "UDP"}])),
    );
    assert_eq!(world.sync(0).len(), 3);
    let ports: Vec<Value> = world
        .all()
        .into_iter()
        .map(|it| it["ports"][0]["port"].clone())
        .collect();
    assert_eq!(ports.len(), 3);
    for port in [json!(8080), json!(9090), Value::Null] {
        assert!(ports.contains(&port), "{port} of {ports:?}");
    }
}

#[test]
fn an_empty_slice_takes_the_first_pod() {
    let mut world = World::of_slices();
    world.service(http());
    assert_eq!(world.sync(0), ["create web-11"]);
    assert_eq!(world.one()["endpoints"], Value::Null);
    world.labelled_service(http(), json!({"team": "shop"}));
    assert_eq!(
        world.sync(1),
        ["put web-11"],
        "the labels follow those of the Service"
    );
    assert_eq!(world.one()["metadata"]["labels"]["team"], "shop");
    world.pod("a", "10.1.0.1", json!({}));
    assert_eq!(world.sync(2), ["put web-11"]);
    assert_eq!(world.sizes(), [1]);
    world.delete_pod("a");
    assert_eq!(world.sync(3), ["put web-11"]);
    assert_eq!(world.one()["endpoints"], Value::Null);
    assert_eq!(world.one()["ports"], Value::Null);
}

#[test]
fn changes_of_a_slice_by_others_are_reverted() {
    let mut world = World::of_slices();
    world.service(http());
    world.pod("a", "10.1.0.1", json!({}));
    world.sync(0);
    let right = world.one()["endpoints"].clone();
    world.meddle(|slice| drop(slice.fields.insert("endpoints".into(), json!([]))));
    assert_eq!(world.sync(1), ["put web-11"]);
    assert_eq!(world.one()["endpoints"], right);
    world.meddle(|slice| {
        let endpoints = slice
            .fields
            .get_mut("endpoints")
            .expect("the slice must have endpoints");
        endpoints[0]["deprecatedTopology"] = json!({"rack": "a"});
    });
    assert_eq!(world.sync(1), ["put web-11"]);
    assert_eq!(world.one()["endpoints"], right);
    world
        .meddle(|slice| slice.metadata.labels = slice.metadata.labels.without(cache::SERVICE_NAME));
    let requests = world.sync(2);
    assert_eq!(
        requests,
        ["create web-17"],
        "the controller no longer owns the slice"
    );
    let gone = world
        .stored
        .remove("web-17")
        .expect("the slice was created");
    world.outputs.apply(Delta::Deleted(gone), at(2));
    assert_eq!(world.sync(3), ["create web-18"]);
    // Slices that others manage stay unchanged.
    assert_eq!(world.all().len(), 2);
}

#[test]
fn a_sync_waits_for_the_slices_of_the_last_sync() {
    let mut world = World::of_slices();
    world.is_watched = false;
    world.service(http());
    world.pod("a", "10.1.0.1", json!({}));
    assert_eq!(world.sync(0), ["create web-11"]);
    world.pod("b", "10.1.0.2", json!({}));
    assert_eq!(world.sync(1), [""; 0]);
    assert!(
        world.failures[0].contains("is not as new as written version: 11"),
        "{:?}",
        world.failures
    );
    let slice = world.stored["web-11"].clone();
    world.outputs.apply(Delta::Applied(slice), at(2));
    assert_eq!(world.sync(2), ["put web-11"]);
}

#[test]
fn a_pod_waits_for_its_node_unless_published_unready() {
    for is_published in [false, true] {
        let mut world = World::of_slices();
        let mut spec = http();
        spec["publishNotReadyAddresses"] = is_published.into();
        world.service(spec);
        world.pod("a", "10.1.0.1", json!({}));
        world.pod(
            "b",
            "10.1.0.2",
            json!({"spec": {"nodeName": "new"}, "status": {"conditions": []}}),
        );
        world.sync(0);
        let slice = world.one();
        if is_published {
            assert_eq!(slice["endpoints"][1]["conditions"]["ready"], true);
            assert_eq!(world.failures, [""; 0]);
            continue;
        }
        assert_eq!(world.sizes(), [1]);
        assert_eq!(
            world.failures[0],
            "skipping Pod b for Service ns/web: Node new Not Found"
        );
        world.add_node("new");
        assert_eq!(
            world.sync(2),
            ["put web-11"],
            "the key is retried after a second"
        );
        assert_eq!(world.sizes(), [2]);
    }
}

#[test]
fn services_managed_by_others_are_ignored() {
    for spec in [
        json!({"selector": {}, "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}),
        json!({"type": "ExternalName", "externalName": "x.example"}),
    ] {
        for mut world in [World::of_slices(), World::of_endpoints()] {
            world.service(spec.clone());
            world.pod("a", "10.1.0.1", json!({}));
            assert_eq!(world.sync(0), [""; 0], "{spec}");
        }
    }
}

#[test]
fn both_ip_families_of_a_service_have_slices() {
    let mut world = World::of_slices();
    let mut spec = http();
    spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
    world.service(spec.clone());
    let both = json!([{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]);
    world.pod("a", "10.1.0.1", json!({"status": {"podIPs": both}}));
    assert_eq!(world.sync(0).len(), 2);
    let all = world.all().into_iter();
    let found: Vec<_> = all
        .map(|it| {
            (
                it["addressType"].clone(),
                it["endpoints"][0]["addresses"].clone(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("IPv4".into(), json!(["10.1.0.1"])),
            ("IPv6".into(), json!(["fd00::1"]))
        ]
    );
    spec["ipFamilies"] = json!(["IPv6"]);
    world.service(spec);
    assert_eq!(world.sync(1), ["delete web-11"]);
}

#[test]
fn a_refused_write_is_reported_and_retried() {
    let mut world = World::of_slices();
    world.service(http());
    world.refusal = Some(ApiError::status(403, Reason::Forbidden, "quota"));
    assert_eq!(world.sync(0), [""; 0]);
    assert_eq!(
        world.events,
        [
            "FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service ns/web: \
          failed to create EndpointSlice for Service ns/web: quota"
        ]
    );
    assert_eq!(world.sync(2), ["create web-11"]);
}

#[test]
fn a_terminating_namespace_reports_no_error() {
    for mut world in [World::of_slices(), World::of_endpoints()] {
        world.service(http());
        let refused = ApiError::status(403, Reason::Forbidden, "it ends");
        let refused = refused.with_cause(Cause {
            reason: "NamespaceTerminating".to_owned(),
            ..Cause::default()
        });
        world.refusal = Some(refused);
        assert_eq!(world.sync(0), [""; 0]);
        assert_eq!((world.events.len(), world.failures.len()), (0, 0));
    }
}

#[test]
fn a_headless_service_needs_no_ports_and_publishes_host_names() {
    let named = json!({"spec": {"hostname": "db-0", "subdomain": "web"}});
    let other = json!({"spec": {"hostname": "db-1", "subdomain": "elsewhere"}});
    let spec = json!({"clusterIP": "None", "publishNotReadyAddresses": true});
    for mut world in [World::of_slices(), World::of_endpoints()] {
        world.service(spec.clone());
        world.pod("a", "10.1.0.1", named.clone());
        world.pod("b", "10.1.0.2", other.clone());
        world.pod("c", "10.1.0.3", json!({"status": {"conditions": []}}));
        world.sync(0);
        let written = world.one();
        assert_eq!(
            written["metadata"]["labels"]["service.kubernetes.io/headless"],
            ""
        );
        let list = match world.written == Kind::ENDPOINTS {
            true => &written["subsets"][0]["addresses"],
            false => &written["endpoints"],
        };
        assert_eq!(list.as_array().map(Vec::len), Some(3), "{written}");
        assert_eq!(
            (list[0]["hostname"].as_str(), list[1].get("hostname")),
            (Some("db-0"), None)
        );
    }
}
