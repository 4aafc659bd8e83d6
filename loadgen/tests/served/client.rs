//! kube-rs, the library for operators, as a client over a socket and in process.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, LogParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::runtime::reflector::store;
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Config, Discovery, ResourceExt};

use super::*;

/// Returns a cluster with a client in process and one over a socket.
async fn clients() -> (Served, [Client; 2]) {
    let served =
        Served::start(ServeOptions::default()).expect("without files nothing can be refused");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let api = served.api().clone();
    tokio::spawn(podstorm_http::listen::serve(
        api.clone(),
        listener,
        std::future::pending(),
    ));
    let config = Config::new(format!("http://{address}").parse().expect("a URL"));
    let over_socket = Client::try_from(config).expect("a plain configuration");
    (served, [Client::new(api, "default"), over_socket])
}

fn map(name: &str) -> ConfigMap {
    read(json!({"metadata": {"name": name, "labels": {"kind": "test"}}, "data": {"a": "1"}}))
}

/// Returns whether this many pods are ready.
fn is_ready(replicas: i32) -> impl Fn(Option<&ReplicaSet>) -> bool {
    move |set| set.and_then(|set| set.status.as_ref()?.ready_replicas) == Some(replicas)
}

#[tokio::test]
async fn objects_are_created_listed_patched_and_deleted() {
    let (_served, clients) = clients().await;
    for (number, client) in clients.into_iter().enumerate() {
        let name = format!("web-{number}");
        let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
        let (post, params) = (PostParams::default(), PatchParams::default());
        sets.create(&post, &read(set(&name, 2))).await.unwrap();
        let ready = await_condition(sets.clone(), &name, is_ready(2)).await;
        ready.unwrap();
        let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
        sets.patch_scale(&name, &params, &scale).await.unwrap();
        let ready = await_condition(sets.clone(), &name, is_ready(3)).await;
        ready.unwrap();
        let labelled = Patch::Strategic(json!({"metadata": {"labels": {"a": "b"}}}));
        let set = sets.patch(&name, &params, &labelled).await.unwrap();
        assert_eq!(set.labels()["a"], "b");
        let removed = read(json!([{"op": "remove", "path": "/metadata/labels/a"}]));
        let patch = Patch::<()>::Json(removed);
        let set = sets.patch(&name, &params, &patch).await.unwrap();
        assert!(set.labels().is_empty());

        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let listed = ListParams::default().labels(&format!("app={name}"));
        let one = pods.list(&listed.clone().limit(1)).await.unwrap();
        assert_eq!(one.items.len(), 1);
        assert_eq!(one.metadata.remaining_item_count, None);
        let pod = &one.items[0].name_any();
        let logs = pods.logs(pod, &LogParams::default()).await.unwrap();
        assert_eq!(logs, "a simulated container runs here\n");
        pods.evict(pod, &EvictParams::default()).await.unwrap();
        let uid = one.items[0].uid().unwrap();
        let gone = kube::runtime::conditions::is_deleted(&uid);
        await_condition(pods.clone(), pod, gone).await.unwrap();
        let deleted = sets.delete(&name, &DeleteParams::background()).await;
        deleted.unwrap();
        assert!(sets.get_opt(&name).await.unwrap().is_none());
        let missing = sets.get("nowhere").await.unwrap_err();
        assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
    }
}

#[tokio::test]
async fn a_watcher_sees_existing_and_new_objects() {
    let (_served, clients) = clients().await;
    for (number, client) in clients.into_iter().enumerate() {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        for config in [
            watcher::Config::default(),
            watcher::Config::default().streaming_lists(),
        ] {
            let (first, second) = (format!("first-{number}"), format!("second-{number}"));
            let post = PostParams::default();
            maps.create(&post, &map(&first)).await.unwrap();
            let (reader, writer) = store();
            let events = watcher(maps.clone(), config.labels("kind=test"));
            let events = reflector(writer, events.default_backoff()).applied_objects();
            let mut names = Box::pin(events.map_ok(|map| map.name_any()));
            assert_eq!(names.next().await.unwrap().unwrap(), first);
            maps.create(&post, &map(&second)).await.unwrap();
            assert_eq!(names.next().await.unwrap().unwrap(), second);
            assert_eq!(reader.state().len(), 2);
            for name in [first, second] {
                maps.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_plain_watch_ends_at_its_timeout() {
    let (_served, clients) = clients().await;
    for client in clients {
        let nodes: Api<Node> = Api::all(client);
        let params = WatchParams::default().timeout(1);
        let events = nodes.watch(&params, "0").await.unwrap();
        let events: Vec<WatchEvent<Node>> = events.try_collect().await.unwrap();
        let is_added = |event: &&WatchEvent<Node>| matches!(event, WatchEvent::Added(_));
        let (added, others): (Vec<_>, Vec<_>) = events.iter().partition(is_added);
        assert_eq!(added.len(), 3);
        let mut others = others.into_iter();
        assert!(others.all(|event| matches!(event, WatchEvent::Bookmark(_))));
    }
}

#[tokio::test]
async fn discovery_finds_every_kind() {
    let (served, clients) = clients().await;
    for client in clients {
        let found = Discovery::new(client.clone()).run().await.unwrap();
        let kinds = found
            .groups()
            .map(|group| group.recommended_resources().len());
        // Events are in two groups; six kinds of reviews, bindings and ComponentStatuses are not stored.
        let stored = served.cluster().kinds().len();
        assert_eq!(kinds.sum::<usize>(), stored + 1 + 8);
        let aggregated = Discovery::new(client.clone()).run_aggregated().await;
        assert!(aggregated.unwrap().has_group("apps"));
        let version = client.apiserver_version().await.unwrap();
        assert_eq!([version.major, version.minor], ["1", "36"]);
    }
}

#[tokio::test]
async fn errors_have_their_status() {
    let (_served, clients) = clients().await;
    for client in clients {
        let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
        let post = PostParams::default();
        let wrong = sets.create(&post, &read(set("web", -1))).await;
        let wrong = wrong.unwrap_err();
        let kube::Error::Api(status) = wrong else {
            panic!("{wrong}");
        };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        let cause = &status.details.unwrap().causes[0];
        assert_eq!(cause.field, "spec.replicas");
        // Dry runs have the same answers and store nothing.
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let deployments: Api<Deployment> = Api::default_namespaced(client);
        let deployment: Deployment = read(json!({"metadata": {"name": "shop"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}}));
        let made = deployments.create(&dry, &deployment).await.unwrap();
        assert_eq!(made.spec.unwrap().replicas, Some(1));
        assert!(deployments.get_opt("shop").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn other_versions_are_the_same_objects() {
    use k8s_openapi::api::autoscaling::{v1, v2};
    use k8s_openapi::api::core::v1::Event as CoreEvent;
    use kube::runtime::events::{Event, EventType, Recorder};
    let (_served, clients) = clients().await;
    for (number, client) in clients.into_iter().enumerate() {
        let node: Api<Node> = Api::all(client.clone());
        let node = node.get("node-1").await.unwrap();
        let mut about = kube::Resource::object_ref(&node, &());
        about.namespace = Some("default".to_owned());
        let event = Event {
            type_: EventType::Warning,
            reason: format!("Looked{number}"),
            note: Some("at it".to_owned()),
            action: "Looking".to_owned(),
            secondary: None,
        };
        let recorder = Recorder::new(client.clone(), "test".into());
        recorder.publish(&event, &about).await.unwrap();
        let events: Api<CoreEvent> = Api::default_namespaced(client.clone());
        let events = events.list(&ListParams::default()).await.unwrap();
        let found = events
            .items
            .iter()
            .find(|found| found.reason.as_deref() == Some(&event.reason));
        let found = found.expect("the event is among those of the core group");
        assert_eq!(found.message.as_deref(), Some("at it"));
        assert_eq!(found.involved_object.kind.as_deref(), Some("Node"));

        let old: Api<v1::HorizontalPodAutoscaler> = Api::default_namespaced(client.clone());
        let new: Api<v2::HorizontalPodAutoscaler> = Api::default_namespaced(client.clone());
        let name = format!("scaler-{number}");
        let scaler: v1::HorizontalPodAutoscaler =
            read(json!({"metadata": {"name": name}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5, "targetCPUUtilizationPercentage": 60}}));
        old.create(&PostParams::default(), &scaler).await.unwrap();
        let behavior = json!({"spec": {"behavior": {"scaleDown": {
            "stabilizationWindowSeconds": 7}}}});
        let (behavior, params) = (Patch::Merge(behavior), PatchParams::default());
        new.patch(&name, &params, &behavior).await.unwrap();
        let metrics = new.get(&name).await.unwrap().spec.metrics.unwrap();
        let resource = metrics[0].resource.as_ref().unwrap();
        assert_eq!(resource.target.average_utilization, Some(60));
        let more = Patch::Merge(json!({"spec": {"targetCPUUtilizationPercentage": 70}}));
        let changed = old.patch(&name, &params, &more).await.unwrap();
        assert_eq!(changed.spec.target_cpu_utilization_percentage, Some(70));
        // Members that the old version lacks are preserved.
        let behavior = new.get(&name).await.unwrap().spec.behavior.unwrap();
        let window = behavior.scale_down.unwrap().stabilization_window_seconds;
        assert_eq!(window, Some(7));
    }
}
