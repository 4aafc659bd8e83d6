//! The operator when things go wrong: pods that take five minutes, a lost answer, a conflict and a watch that
//! is behind. Time is virtual, so the five minutes take no longer than what happens in them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Config;
use kube::api::ListParams;
use podstorm_apiserver::latency::Latency;
use podstorm_http::faults::{Effect, Fault, FaultId, Refusal, Verb};
use podstorm_loadgen::serve::bind;
use podstorm_sim::options::{EngineKind, SimOptions};
use serde_json::{Value, json};

use super::*;

/// How long pods take to be ready, s of the cluster's time.
const STARTUP: u64 = 300;

/// A cluster whose time stands still until it is moved.
fn start() -> Served {
    let mut sim = SimOptions::new(EngineKind::Virtual, 1);
    sim.latency.pod_startup = Latency::Constant(STARTUP as i64 * 1_000_000_000);
    let options = ServeOptions {
        sim,
        ..ServeOptions::default()
    };
    Served::start(options).expect("nothing is loaded")
}

/// Waits until something holds, for ten seconds at most.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waits = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), waits).await;
    in_time.unwrap_or_else(|_| panic!("not within 10 s: {what}"));
}

/// How a test moves time and arms faults.
trait Control {
    async fn advance(&self, seconds: u64);
    async fn arm(&self, fault: Fault) -> u64;
    async fn struck(&self, id: u64) -> u64;
    async fn disarm(&self, id: u64);
}

/// In process.
impl Control for Served {
    async fn advance(&self, seconds: u64) {
        Served::advance(self, Duration::from_secs(seconds)).expect("its time is virtual");
    }

    async fn arm(&self, fault: Fault) -> u64 {
        let id = self.api().faults().arm(fault).expect("it is valid");
        number(id)
    }

    async fn struck(&self, id: u64) -> u64 {
        let all = self.api().faults().all().into_iter();
        let mut armed = all.filter(|armed| number(armed.id) == id);
        armed.next().expect("it is armed").struck
    }

    async fn disarm(&self, id: u64) {
        let all = self.api().faults().all().into_iter();
        let mut armed = all.filter(|armed| number(armed.id) == id);
        let armed = armed.next().expect("it is armed");
        self.api().faults().disarm(armed.id);
    }
}

fn number(id: FaultId) -> u64 {
    id.to_string().parse().expect("it is a number")
}

/// By requests, as a test in any language does it.
impl Control for Client {
    async fn advance(&self, seconds: u64) {
        let moved = json!({"seconds": seconds});
        ask(self, "POST", "/podstorm/clock/advance", moved).await;
    }

    async fn arm(&self, fault: Fault) -> u64 {
        let verbs: Vec<&str> = fault.verbs.iter().map(|verb| verb.name()).collect();
        let mut document = json!({"effect": fault.effect.name(), "verbs": verbs,
            "resource": fault.resource, "times": fault.times});
        if let Effect::Refuse(refusal) = fault.effect {
            document["code"] = refusal.code.into();
        }
        let armed = ask(self, "POST", "/podstorm/faults", document).await;
        armed["id"].as_u64().expect("it has one")
    }

    async fn struck(&self, id: u64) -> u64 {
        let armed = ask(self, "GET", &format!("/podstorm/faults/{id}"), Value::Null).await;
        armed["struck"].as_u64().expect("it is counted")
    }

    async fn disarm(&self, id: u64) {
        ask(
            self,
            "DELETE",
            &format!("/podstorm/faults/{id}"),
            Value::Null,
        )
        .await;
    }
}

async fn ask(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.body(body.to_string().into_bytes());
    let answer = client.request(request.expect("it is well formed")).await;
    answer.expect("it is answered")
}

/// The story of a site: each step fails if its fault does not strike.
async fn play(control: &impl Control, client: Client) {
    define_sites(&client).await;
    tokio::spawn(operator::run(client.clone()));
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let ready = async || {
        let site = sites.get("shop").await.expect("it is there");
        site.status.map_or(0, |status| status.ready)
    };

    // The answer to the operator's apply is lost. It applies again, and nothing is there twice.
    let lost = Fault {
        verbs: vec![Verb::Patch],
        resource: "replicasets.apps".to_owned(),
        ..Fault::new(Effect::LoseAnswer(None))
    };
    let lost = control.arm(lost).await;
    let created = sites.create(&PostParams::default(), &site("shop", 2)).await;
    created.expect("the server takes it");
    let generation = async || {
        let set = sets.get_opt("shop").await.expect("it is answered");
        set.and_then(|set| set.metadata.generation)
    };
    until("the set is there", async || generation().await.is_some()).await;
    assert_eq!(control.struck(lost).await, 1, "no answer was lost");
    until("the set has its pods", async || {
        let all = pods.list(&ListParams::default()).await;
        all.expect("it is answered").items.len() == 2
    })
    .await;

    // Five minutes. The write of the status meets a conflict, and is tried again.
    let conflict = Fault {
        verbs: vec![Verb::Patch],
        resource: "sites.example.com/status".to_owned(),
        ..Fault::new(Effect::Refuse(Refusal::code(409)))
    };
    // What the operator knows of a site without ready pods is written before.
    until("the first status", async || {
        let site = sites.get("shop").await.expect("it is there");
        site.status.is_some()
    })
    .await;
    let conflict = control.arm(conflict).await;
    control.advance(STARTUP - 1).await;
    assert_eq!(ready().await, 0);
    control.advance(1).await;
    until("the pods are ready", async || ready().await == 2).await;
    assert_eq!(control.struck(conflict).await, 1, "no conflict was met");

    // The watch of the sets stands still: the operator does not hear that a pod more is ready.
    let stale = Fault {
        verbs: vec![Verb::Watch],
        resource: "replicasets.apps".to_owned(),
        times: 10,
        ..Fault::new(Effect::HoldEvents(None))
    };
    let stale = control.arm(stale).await;
    assert_eq!(control.struck(stale).await, 1, "no watch was held");
    let more = kube::api::Patch::Merge(json!({"spec": {"replicas": 3}}));
    let patched = sites
        .patch("shop", &kube::api::PatchParams::default(), &more)
        .await;
    patched.expect("the server takes it");
    until("the set has three", async || {
        let set = sets.get("shop").await.expect("it is there");
        set.spec.and_then(|spec| spec.replicas) == Some(3)
    })
    .await;
    control.advance(STARTUP).await;
    let set = sets.get("shop").await.expect("it is there");
    assert_eq!(set.status.and_then(|status| status.ready_replicas), Some(3));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ready().await, 2, "the operator has heard of it");
    control.disarm(stale).await;
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
    let listener = bind("127.0.0.1:0".parse().expect("an address")).await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let api = served.api().clone();
    let forever = std::future::pending();
    tokio::spawn(podstorm_http::listen::serve(api, listener, forever));
    let config = Config::new(format!("http://{address}").parse().expect("a URL"));
    let client = Client::try_from(config).expect("a plain configuration");
    play(&client.clone(), client).await;
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
    created.expect("the server takes it");
    let sets: Api<ReplicaSet> = Api::default_namespaced(sites.clone().into_client());
    let is_there = |set: Option<&ReplicaSet>| set.is_some();
    let made = await_condition(sets, "shop", is_there).await;
    made.expect("the operator makes it");
    runs.abort();
    // From here on there are two clusters, each with an operator of its own: in one the site grows.
    for replicas in [2, 5] {
        let fork = served.fork().expect("it is a state of this program");
        let client = Client::new(fork.api().clone(), "default");
        tokio::spawn(operator::run(client.clone()));
        let sites: Api<Site> = Api::default_namespaced(client.clone());
        let grows = kube::api::Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let patched = sites
            .patch("shop", &kube::api::PatchParams::default(), &grows)
            .await;
        patched.expect("the server takes it");
        let sets: Api<ReplicaSet> = Api::default_namespaced(client);
        until("the set follows", async || {
            let set = sets.get("shop").await.expect("it is there");
            set.spec.and_then(|spec| spec.replicas) == Some(replicas)
        })
        .await;
        fork.advance(Duration::from_secs(STARTUP));
        let ready = await_condition(sites, "shop", is_ready(replicas)).await;
        ready.expect("the pods get ready");
    }
    assert_eq!(served.now().mono_ns, 0, "the first one has not moved");
}
