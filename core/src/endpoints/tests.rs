//! Both controllers over a server that keeps what is written, and what each sync asks of it.

use std::collections::BTreeMap;

use podstorm_objects::{
    AnyObject, ApiError, Cause, DynamicObject, Node, Resource as _, ResourceVersion,
};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{Driver, SyncState as _, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::{Value, json};

use super::*;
use crate::cache::Delta;
use crate::controller::{ControllerType, Setup};

const SECOND_NS: i64 = 1_000_000_000;

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
    }
}

/// A server with the kind that a controller writes, and the controller with its caches.
struct World {
    written: Kind,
    controller: Arc<Controller>,
    services: Arc<dyn AnyInformer>,
    outputs: Arc<dyn AnyInformer>,
    nodes: Option<Arc<dyn AnyInformer>>,
    pods: Arc<PodCache>,
    driver: Driver<AsyncSync>,
    stored: BTreeMap<String, AnyObject>,
    version: u64,
    /// Whether the caches hear of writes by themselves.
    is_watched: bool,
    refusal: Option<ApiError>,
    events: Vec<String>,
    failures: Vec<String>,
}

impl World {
    fn of<C: ControllerType<Workload = Controller>>(written: Kind) -> World {
        let mut informers = Informers::new(Arc::default());
        let controller = C::make(&Setup::default(), &mut informers);
        let has_nodes = C::ROW.reads.contains(&Kind::NODE);
        let outputs = informers.take(written);
        outputs.replace(Vec::new(), &ResourceVersion::from(10), at(0));
        World {
            written,
            controller,
            services: informers.take(Kind::SERVICE),
            outputs,
            nodes: has_nodes.then(|| informers.take(Kind::NODE)),
            pods: Arc::clone(informers.pods()),
            driver: Driver::default(),
            stored: BTreeMap::new(),
            version: 10,
            is_watched: true,
            refusal: None,
            events: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// One of slices, with a node `n` in zone `z`.
    fn of_slices() -> World {
        let world = World::of::<EndpointSlices>(Kind::ENDPOINT_SLICE);
        world.add_node("n");
        world
    }

    fn of_endpoints() -> World {
        World::of::<EndpointsOfServices>(Kind::ENDPOINTS)
    }

    fn add_node(&self, name: &str) {
        let labels = json!({"topology.kubernetes.io/zone": "z"});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let node: AnyObject = Arc::new(Node::from_json(node).expect("a node"));
        let nodes = self.nodes.as_ref().expect("it is read");
        nodes.apply(Delta::Applied(node), at(0));
    }

    fn service(&self, spec: Value) {
        self.labelled_service(spec, json!({}));
    }

    fn labelled_service(&self, mut spec: Value, labels: Value) {
        if spec.get("selector").is_none() {
            spec["selector"] = json!({"app": "web"});
        }
        let service = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "svc",
            "labels": labels, "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": spec});
        let service = DynamicObject::from_json(Kind::SERVICE, service).expect("a Service");
        self.services
            .apply(Delta::Applied(Arc::new(service)), at(0));
    }

    /// A ready pod on node `n`; `over` is laid over its JSON.
    fn pod(&self, name: &str, ip: &str, over: Value) {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:05Z"});
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "conditions": [ready], "podIP": ip, "podIPs": [{"ip": ip}]},
        });
        lay(&mut pod, over);
        let pod = Pod::from_json(pod).expect("a pod");
        let change = self.pods.apply(Delta::Applied(Arc::new(pod)));
        self.controller.pod_changed(&change, at(0));
    }

    fn delete_pod(&self, name: &str) {
        let pod = self.pods.get("ns", name).expect("it is cached");
        let change = self.pods.apply(Delta::Deleted(pod));
        self.controller.pod_changed(&change, at(0));
    }

    /// Syncs what is due, with all that follows from it; the requests.
    fn sync(&mut self, seconds: i64) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            let before = requests.len();
            let mut changed = Vec::new();
            let World {
                controller,
                driver,
                stored,
                version,
                refusal,
                events,
                failures,
                ..
            } = self;
            let mut server = |request: &Request, _: Now| {
                if let Some(error) = refusal.take() {
                    return Answer::Failed(error);
                }
                *version += 1;
                let mut put = |object: &AnyObject, verb: &str| {
                    let mut new = object.downcast_ref::<DynamicObject>().expect("it").clone();
                    if new.metadata.name.is_empty() {
                        let prefix = new.metadata.generate_name.as_deref().expect("a prefix");
                        new.metadata.name = format!("{prefix}{version}").into();
                    }
                    new.metadata.resource_version = ResourceVersion::from(*version);
                    requests.push(format!("{verb} {}", new.metadata.name));
                    let new: AnyObject = Arc::new(new);
                    stored.insert(new.metadata().name.to_string(), new.clone());
                    changed.push(Delta::Applied(new.clone()));
                    Answer::Object(new)
                };
                match request {
                    Request::Create { object } => put(object, "create"),
                    Request::Put { object } => put(object, "put"),
                    Request::Delete { name, .. } => match stored.remove(&**name) {
                        Some(old) => {
                            requests.push(format!("delete {name}"));
                            changed.push(Delta::Deleted(old.clone()));
                            Answer::Object(old)
                        }
                        None => Answer::Failed(ApiError::status(404, Reason::NotFound, "gone")),
                    },
                    other => panic!("the controller sends no such request: {other:?}"),
                }
            };
            sync_all(&**controller, driver, &mut server, at(seconds), |sync| {
                let made = sync.events().drain(..);
                events.extend(made.map(|event| format!("{} {}", event.reason, event.message)));
                failures.extend(sync.failure().map(|it| it.message.clone()));
            });
            let is_over = changed.is_empty() && requests.len() == before;
            if self.is_watched {
                for delta in changed {
                    self.outputs.apply(delta, at(seconds));
                }
            }
            if is_over || !self.is_watched {
                return requests;
            }
        }
    }

    /// What is stored, by name.
    fn all(&self) -> Vec<Value> {
        self.stored
            .values()
            .map(|object| object.to_json())
            .collect()
    }

    fn one(&self) -> Value {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Somebody else writes an object, and the caches hear of it.
    fn meddle(&mut self, change: impl Fn(&mut DynamicObject)) {
        let old = self.stored.values().next().expect("there is one");
        let mut new = old.downcast_ref::<DynamicObject>().expect("it").clone();
        self.version += 1;
        new.metadata.resource_version = ResourceVersion::from(self.version);
        change(&mut new);
        let new: AnyObject = Arc::new(new);
        self.stored
            .insert(new.metadata().name.to_string(), new.clone());
        self.outputs.apply(Delta::Applied(new), at(0));
    }

    /// How many endpoints each slice has.
    fn sizes(&self) -> Vec<usize> {
        let size = |slice: Value| slice["endpoints"].as_array().map_or(0, Vec::len);
        self.all().into_iter().map(size).collect()
    }
}

fn lay(on: &mut Value, over: Value) {
    match (on, over) {
        (Value::Object(on), Value::Object(over)) => {
            for (name, value) in over {
                lay(on.entry(name).or_insert(Value::Null), value);
            }
        }
        (on, over) => *on = over,
    }
}

fn http() -> Value {
    json!({"clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ports":
        [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]})
}

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
    // The oldest change that waited: the Service's creation.
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
        "nothing that endpoints say has changed"
    );
    world.pod("b", "10.1.0.2", json!({}));
    assert_eq!(world.sync(1), ["put web-11"]);
    let slice = world.one();
    assert_eq!(slice["endpoints"][1]["conditions"]["ready"], true);
    let since = &slice["metadata"]["annotations"][annotation];
    assert_eq!(since, "2027-01-15T08:00:05Z", "when the pod became ready");
    // A pod that leaves by its labels, and one that goes.
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
    assert_eq!(world.sync(1), ["put web-11"], "the one that it was in");
    assert_eq!(world.sizes(), [99, 100, 50]);
    world.pod("q", "10.2.0.1", json!({}));
    assert_eq!(world.sync(2), ["put web-11"], "the fullest that has room");
    assert_eq!(world.sizes(), [100, 100, 50]);
    world.delete_pod("p100");
    world.pod("r", "10.2.0.2", json!({}));
    assert_eq!(world.sync(3), ["put web-12"], "one that changes anyway");
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
fn pods_with_other_ports_have_slices_of_their_own() {
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
    // A port of that name, but of another protocol.
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
fn a_service_without_pods_has_an_empty_slice_which_its_first_pod_takes() {
    let mut world = World::of_slices();
    world.service(http());
    assert_eq!(world.sync(0), ["create web-11"]);
    assert_eq!(world.one()["endpoints"], Value::Null);
    world.labelled_service(http(), json!({"team": "shop"}));
    assert_eq!(
        world.sync(1),
        ["put web-11"],
        "its labels follow the Service's"
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
fn what_others_do_to_a_slice_is_put_right() {
    let mut world = World::of_slices();
    world.service(http());
    world.pod("a", "10.1.0.1", json!({}));
    world.sync(0);
    let right = world.one()["endpoints"].clone();
    world.meddle(|slice| drop(slice.fields.insert("endpoints".into(), json!([]))));
    assert_eq!(world.sync(1), ["put web-11"]);
    assert_eq!(world.one()["endpoints"], right);
    world
        .meddle(|slice| slice.metadata.labels = slice.metadata.labels.without(cache::SERVICE_NAME));
    let requests = world.sync(2);
    assert_eq!(requests, ["create web-15"], "it is nobody's now");
    let gone = world.stored.remove("web-15").expect("it was made");
    world.outputs.apply(Delta::Deleted(gone), at(2));
    assert_eq!(world.sync(3), ["create web-16"]);
    // Slices of others stay as they are.
    assert_eq!(world.all().len(), 2);
}

#[test]
fn a_sync_waits_for_the_slices_of_the_one_before() {
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
fn a_pod_waits_for_its_node_unless_it_is_published_as_it_is() {
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
        assert_eq!(world.sync(2), ["put web-11"], "retried after a second");
        assert_eq!(world.sizes(), [2]);
    }
}

#[test]
fn services_that_others_see_to_are_left_alone() {
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
fn both_families_of_a_service_have_their_slices() {
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
fn nothing_is_reported_of_a_namespace_that_ends() {
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
fn endpoints_have_the_ready_pods_and_the_others_apart() {
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
    // Somebody deletes them; later the Service goes, and they with it.
    let gone = world.stored.remove("web").expect("they are there");
    world.outputs.apply(Delta::Deleted(gone), at(3));
    assert_eq!(world.sync(3), ["create web"]);
    let service = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "svc"}});
    let service = DynamicObject::from_json(Kind::SERVICE, service).expect("a Service");
    world
        .services
        .apply(Delta::Deleted(Arc::new(service)), at(4));
    assert_eq!(world.sync(4), ["delete web"]);
}

#[test]
fn addresses_with_the_same_ports_are_one_subset() {
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
fn a_headless_service_needs_no_ports_and_names_the_hosts_of_its_own() {
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

#[test]
fn endpoints_have_a_thousand_addresses_at_most() {
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
