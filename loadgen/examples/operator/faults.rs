//! The operator under faults: pods that take five minutes to start, a lost answer, a conflict and a
//! stale watch. Time is virtual, so the five minutes take only as long as the events in them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Config;
use kube::api::ListParams;
use podstorm_apiserver::latency::Latency;
use podstorm_http::faults::{Effect, Fault, Refusal, Verb};
use podstorm_sim::options::{EngineKind, SimOptions};
use serde_json::json;

use super::*;

/// The startup time of pods, in seconds of the cluster's time.
const STARTUP: u64 = 300;

/// Starts a cluster whose time stands still until a client advances it.
fn start() -> Served {
    let mut sim = SimOptions::new(EngineKind::Virtual, 1);
    sim.latency.pod_startup = Latency::Constant(STARTUP as i64 * 1_000_000_000);
    let options = ServeOptions {
        sim,
        ..ServeOptions::default()
    };
    Served::start(options).expect("without files nothing can be refused")
}

/// Waits until a condition holds, for ten seconds at most.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waits = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), waits).await;
    in_time.unwrap_or_else(|_| panic!("not within 10 s: {what}"));
}

/// The story of a site: each step fails if its fault does not take effect. A test in another
/// language arms faults with `POST /podstorm/faults` and advances time with
/// `POST /podstorm/clock/advance`.
async fn play(served: &Served, client: Client) {
    let faults = served.api().faults();
    let arm = |fault: Fault| faults.arm(fault).expect("the fault is valid");
    let advance = |seconds: u64| {
        let moved = served.advance(Duration::from_secs(seconds));
        moved.expect("the time is virtual");
    };
    define_sites(&client).await;
    tokio::spawn(operator::run(client.clone()));
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let ready = async || {
        let site = sites.get("shop").await.expect("the object exists");
        site.status.map_or(0, |status| status.ready)
    };

    // The answer to the operator's apply is lost. It applies again, which creates no duplicates.
    let lost = Fault {
        verbs: vec![Verb::Patch],
        resource: "replicasets.apps".to_owned(),
        ..Fault::new(Effect::LoseAnswer(None))
    };
    let lost = arm(lost);
    let created = sites.create(&PostParams::default(), &site("shop", 2)).await;
    created.expect("the server accepts the request");
    let generation = async || {
        let set = sets.get_opt("shop").await.expect("the server answers");
        set.and_then(|set| set.metadata.generation)
    };
    until("the set is there", async || generation().await.is_some()).await;
    assert_eq!(faults.struck(lost), Some(1), "no answer was lost");
    until("the set has its pods", async || {
        let all = pods.list(&ListParams::default()).await;
        all.expect("the server answers").items.len() == 2
    })
    .await;

    // Five minutes. The write of the status meets a conflict and is retried.
    let conflict = Fault {
        verbs: vec![Verb::Patch],
        resource: "sites.example.com/status".to_owned(),
        ..Fault::new(Effect::Refuse(Refusal::code(409)))
    };
    // The operator has already written the status of a site without ready pods.
    until("the first status", async || {
        let site = sites.get("shop").await.expect("the object exists");
        site.status.is_some()
    })
    .await;
    let conflict = arm(conflict);
    advance(STARTUP - 1);
    assert_eq!(ready().await, 0);
    advance(1);
    until("the pods are ready", async || ready().await == 2).await;
    assert_eq!(faults.struck(conflict), Some(1), "no conflict was met");

    // The watch of the sets stalls: the operator does not see that another pod is ready.
    let stale = Fault {
        verbs: vec![Verb::Watch],
        resource: "replicasets.apps".to_owned(),
        times: 10,
        ..Fault::new(Effect::HoldEvents(None))
    };
    let stale = arm(stale);
    assert_eq!(faults.struck(stale), Some(1), "no watch was held");
    let more = kube::api::Patch::Merge(json!({"spec": {"replicas": 3}}));
    let patched = sites
        .patch("shop", &kube::api::PatchParams::default(), &more)
        .await;
    patched.expect("the server accepts the request");
    until("the set has three", async || {
        let set = sets.get("shop").await.expect("the object exists");
        set.spec.and_then(|spec| spec.replicas) == Some(3)
    })
    .await;
    advance(STARTUP);
    let set = sets.get("shop").await.expect("the object exists");
    assert_eq!(set.status.and_then(|status| status.ready_replicas), Some(3));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ready().await, 2, "the operator has heard of it");
    faults.disarm(stale);
    until("the operator has caught up", async || ready().await == 3).await;
}

#[tokio::test]
async fn faults_and_time_in_process() {
    let begin = Instant::now();
    let served = start();
    let client = Client::new(served.api().clone(), "default");
    play(&served, client).await;
    let passed = served.now().mono_ns;
    assert_eq!(passed, 2 * STARTUP as i64 * 1_000_000_000);
    println!("{STARTUP} s twice took {:.0?}", begin.elapsed());
}

#[tokio::test]
async fn faults_and_time_over_a_connection() {
    let begin = Instant::now();
    let served = start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let api = served.api().clone();
    let forever = std::future::pending();
    tokio::spawn(podstorm_http::listen::serve(api, listener, forever));
    let config = Config::new(format!("http://{address}").parse().expect("a URL"));
    let client = Client::try_from(config).expect("a plain configuration");
    play(&served, client).await;
    println!("{STARTUP} s twice took {:.0?}", begin.elapsed());
}

#[tokio::test]
async fn two_futures_of_one_site() {
    let served = start();
    let client = Client::new(served.api().clone(), "default");
    define_sites(&client).await;
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let runs = tokio::spawn(operator::run(client));
    let created = sites.create(&PostParams::default(), &site("shop", 2)).await;
    created.expect("the server accepts the request");
    let sets: Api<ReplicaSet> = Api::default_namespaced(sites.clone().into_client());
    let is_there = |set: Option<&ReplicaSet>| set.is_some();
    let made = await_condition(sets, "shop", is_there).await;
    made.expect("the operator creates the set");
    runs.abort();
    // From here on there are two clusters, each with its own operator: in one of them the site
    // grows.
    for replicas in [2, 5] {
        let fork = served.fork().expect("the snapshot is from this program");
        let client = Client::new(fork.api().clone(), "default");
        tokio::spawn(operator::run(client.clone()));
        let sites: Api<Site> = Api::default_namespaced(client.clone());
        let grows = kube::api::Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let patched = sites
            .patch("shop", &kube::api::PatchParams::default(), &grows)
            .await;
        patched.expect("the server accepts the request");
        let sets: Api<ReplicaSet> = Api::default_namespaced(client);
        until("the set follows", async || {
            let set = sets.get("shop").await.expect("the object exists");
            set.spec.and_then(|spec| spec.replicas) == Some(replicas)
        })
        .await;
        fork.advance(Duration::from_secs(STARTUP));
        let ready = await_condition(sites, "shop", is_ready(replicas)).await;
        ready.expect("the pods become ready");
    }
    assert_eq!(served.now().mono_ns, 0, "the first cluster has not changed");
}
