//! Syncs of Services whose EndpointSlices or Endpoints are up to date.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{AsyncSync, Driver, Progress, Workload as _};
use podstorm::endpoints::{Controller, EndpointSlices, EndpointsOfServices};
use podstorm::informer::Informers;
use podstorm::intern::KeyId;
use podstorm::object::{AnyObject, DynamicObject, Kind, Node, Object as _, Pod, Resource};
use serde_json::json;

use crate::clusters::NOW;

/// Returns a sync, with nothing to do, of the EndpointSlice controller for a Service with this many
/// ready pods.
pub fn idle(pods: usize) -> impl FnMut() -> u64 {
    settled::<EndpointSlices>(Kind::ENDPOINT_SLICE, pods, pods.div_ceil(100))
}

/// Returns the same sync of the Endpoints controller.
pub fn idle_endpoints(pods: usize) -> impl FnMut() -> u64 {
    settled::<EndpointsOfServices>(Kind::ENDPOINTS, pods, 1)
}

fn settled<T>(written: Kind, pods: usize, objects: usize) -> impl FnMut() -> u64 + use<T>
where
    T: ControllerType<Workload = Controller>,
{
    let mut informers = Informers::new(Arc::default());
    let controller = T::make(&Setup::default(), &mut informers);
    let pod_cache = Arc::clone(informers.pods());
    let [services, slices] = [Kind::SERVICE, written].map(|kind| informers.take(kind));
    if written == Kind::ENDPOINT_SLICE {
        let node = Node::from_json(json!({"metadata": {"name": "n", "uid": "n"}}));
        let node: AnyObject = Arc::new(node.expect("a node"));
        informers.take(Kind::NODE).apply(Delta::Applied(node), NOW);
    }
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

    // Driven by hand: if the loops of the queue were used once more, those of `handlers` would be
    // inlined differently.
    let mut driver = Driver::<AsyncSync>::default();
    let key = (0..16).map(KeyId);
    let key = key
        .into_iter()
        .find(|key| &*controller.name(0, *key).name == "web");
    let key = key.expect("the Service has a key");
    let later = NOW.plus_ns(60_000_000_000);
    let mut made = Vec::new();
    let mut create = |request: &Request, _| -> Answer {
        let Request::Create { object } = request else {
            panic!("slices are created first: {request:?}");
        };
        let slice = object.downcast_ref::<DynamicObject>();
        let mut slice = slice.expect("a slice").clone();
        let meta = slice.metadata_mut();
        if meta.name.is_empty() {
            meta.name = format!("web-{}", made.len()).into();
        }
        meta.uid = format!("slice-{}", made.len()).as_str().into();
        meta.resource_version = (100 + made.len() as u64).into();
        let slice: AnyObject = Arc::new(slice);
        made.push(Arc::clone(&slice));
        Answer::Object(slice)
    };
    let progress = driver.begin(&*controller, 0, key, &mut create, later);
    assert!(progress == Progress::Finished);
    assert_eq!(made.len(), objects);
    for slice in made {
        slices.apply(Delta::Applied(slice), NOW);
    }
    let mut no_api = |request: &Request, _| -> Answer {
        panic!("there is nothing to do, but the sync requests {request:?}")
    };
    move || {
        let progress = driver.begin(&*controller, 0, black_box(key), &mut no_api, later);
        assert!(progress == Progress::Finished);
        pods as u64
    }
}
