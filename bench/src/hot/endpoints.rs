//! Syncs of Services whose EndpointSlices are as they should be.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{AsyncSync, Driver, Progress, Workload as _, sync_all};
use podstorm::endpoints::EndpointSlices;
use podstorm::informer::Informers;
use podstorm::object::{AnyObject, DynamicObject, Kind, Node, Object as _, Pod, Resource};
use serde_json::json;

use crate::clusters::NOW;

/// A sync with nothing to do, of a Service with that many ready pods.
pub fn idle(pods: usize) -> impl FnMut() -> u64 {
    let mut informers = Informers::new(Arc::default());
    let controller = EndpointSlices::make(&Setup::default(), &mut informers);
    let pod_cache = Arc::clone(informers.pods());
    let [services, nodes, slices] =
        [Kind::SERVICE, Kind::NODE, Kind::ENDPOINT_SLICE].map(|kind| informers.take(kind));
    let node = Node::from_json(json!({"metadata": {"name": "n", "uid": "n"}})).expect("a node");
    nodes.apply(Delta::Applied(Arc::new(node) as AnyObject), NOW);
    for number in 0..pods {
        let pod = Pod::from_json(json!({
            "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("p{number}"),
                "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "web:1"}]},
            "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250 + 1),
                "podIPs": [{"ip": format!("10.0.{}.{}", number / 250, number % 250 + 1)}],
                "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        pod_cache.apply(Delta::Applied(Arc::new(pod.expect("a pod"))));
    }
    let service = DynamicObject::from_json(
        Kind::SERVICE,
        json!({"metadata": {"name": "web", "namespace": "shop", "uid": "s", "resourceVersion": "1"},
            "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.9",
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}),
    );
    let service: AnyObject = Arc::new(service.expect("a Service"));
    services.apply(Delta::Applied(service), NOW);

    let mut driver = Driver::<AsyncSync>::default();
    let mut made = Vec::new();
    let mut create = |request: &Request, _| -> Answer {
        let Request::Create { object } = request else {
            panic!("slices are created first: {request:?}");
        };
        let mut slice = object
            .downcast_ref::<DynamicObject>()
            .expect("a slice")
            .clone();
        let meta = slice.metadata_mut();
        meta.name = format!("web-{}", made.len()).into();
        meta.uid = format!("slice-{}", made.len()).as_str().into();
        meta.resource_version = (100 + made.len() as u64).into();
        let slice: AnyObject = Arc::new(slice);
        made.push(Arc::clone(&slice));
        Answer::Object(slice)
    };
    let later = NOW.plus_ns(60_000_000_000);
    sync_all(&*controller, &mut driver, &mut create, later, |_| {});
    assert_eq!(made.len(), pods.div_ceil(100));
    for slice in made {
        slices.apply(Delta::Applied(slice), NOW);
    }
    let mut no_api = |request: &Request, _| -> Answer {
        panic!("there is nothing to do, and yet it asks for {request:?}")
    };
    sync_all(
        &*controller,
        &mut driver,
        &mut no_api,
        later.plus_ns(60_000_000_000),
        |_| {},
    );
    let queue = &controller.queues()[0];
    queue.fire_due(i64::MAX);
    let key = (0..u32::MAX).map(podstorm::intern::KeyId);
    let key = key
        .take(16)
        .find(|key| &*controller.name(0, *key).name == "web");
    let key = key.expect("the Service has a key");
    move || {
        let progress = driver.begin(&*controller, 0, black_box(key), &mut no_api, later);
        assert!(progress == Progress::Finished);
        pods as u64
    }
}
