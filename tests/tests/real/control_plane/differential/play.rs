//! Players of scenarios: on one of two sides, with a comparison of the states.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use podstorm_http::Answered;
use podstorm_loadgen::serve::{Login, ServeOptions, Served, kubeconfig};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::mask;
use super::scenarios::{Owner, Scenario};
use super::steps::MISSING_IMAGE;
use crate::control_plane::manager::{Bodies, Manager, OURS_OFF};

/// Maximum number of checks until the real side must have our state: 30 s.
const LOOKS: usize = 600;
/// How long the state must last at the end.
const REST: Duration = Duration::from_millis(500);
const BEFORE_LOOKS: Duration = Duration::from_millis(500);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The lists of a scenario's objects.
const LISTS: [&str; 3] = [
    "/apis/apps/v1/namespaces/NS/replicasets",
    "/api/v1/namespaces/NS/replicationcontrollers",
    "/api/v1/namespaces/NS/pods",
];

/// The number of requests by `verb resource code`.
pub(super) type Requests = BTreeMap<String, u64>;

/// A cluster on which scenarios are played.
pub(super) struct Side {
    served: Arc<Served>,
    runtime: Runtime,
    /// The requests of the real controller manager, by namespace.
    theirs: Arc<Mutex<BTreeMap<String, Requests>>>,
    /// The real controller manager with the folder of its files; `None` on our side.
    manager: Option<(Manager, TempDir)>,
}

impl Side {
    /// Returns a cluster with our controllers, on which time passes only when a scenario advances
    /// it.
    pub(super) fn ours(scenario: &Scenario) -> Side {
        // None of the controllers that create accounts in namespaces or manage nodes.
        let controllers = "*,-serviceaccount,-root-ca-cert-publisher,-nodelifecycle";
        let served = Served::start(options(EngineKind::Virtual, controllers));
        let served = served.unwrap_or_else(|error| panic!("{}: {error:#}", scenario.name));
        Side {
            served: Arc::new(served),
            runtime: runtime(),
            theirs: Arc::default(),
            manager: None,
        }
    }

    /// Returns a cluster with the real controllers, in real time.
    pub(super) fn theirs() -> Side {
        let theirs: Arc<Mutex<BTreeMap<String, Requests>>> = Arc::default();
        let told = Arc::clone(&theirs);
        let options = options(EngineKind::Threads, OURS_OFF);
        let served = Served::start_with(options, |api| {
            api.log(Arc::new(move |request: &Answered<'_>| {
                count(request, &told)
            }))
        });
        let served = Arc::new(served.expect("valid settings"));
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        let listening = Arc::clone(&served);
        runtime.spawn(async move {
            listening
                .listen(listener, None, std::future::pending())
                .await
        });
        let folder = TempDir::new().expect("a folder for temporary files");
        let config = folder.path().join("config");
        std::fs::write(&config, kubeconfig(address, &Login::default())).expect("a writable folder");
        let log: PathBuf = folder.path().join("log");
        let manager = Manager::start(&config, log, Bodies::Protobuf, &[]);
        Side {
            served,
            runtime,
            theirs,
            manager: Some((manager, folder)),
        }
    }

    fn is_ours(&self) -> bool {
        self.manager.is_none()
    }

    /// Sends a request, and returns the code and body of the answer.
    fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let body = Full::new(Bytes::from(body.to_string()));
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", media).body(body);
        let request = request.expect("the parts are valid");
        self.runtime.block_on(async {
            let response = self.served.api().answer(request).await;
            let response = response.expect("no fault is armed");
            let code = response.status().as_u16();
            let body = response.into_body().collect().await;
            let value = serde_json::from_slice(&body.expect("as above").to_bytes());
            (code, value.expect("an answer in JSON"))
        })
    }
}

fn options(engine: EngineKind, controllers: &str) -> ServeOptions {
    let mut options = ServeOptions {
        sim: SimOptions::new(engine, 1),
        // Enough nodes for the pods of all scenarios.
        nodes: 20,
        ..ServeOptions::default()
    };
    let words: Vec<_> = controllers.split(',').collect();
    options
        .rules
        .unpullable_images
        .push(MISSING_IMAGE.to_owned());
    options.sim.services.controllers =
        Controllers::from_words(Rows::installed(), &words).expect("known controllers");
    options
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("threads")
}

/// Counts a request of the controllers of ReplicaSets and ReplicationControllers.
fn count(request: &Answered<'_>, theirs: &Mutex<BTreeMap<String, Requests>>) {
    let agents = ["/replicaset-controller", "/replication-controller"];
    if !agents
        .iter()
        .any(|agent| request.user_agent.ends_with(agent))
    {
        return;
    }
    let path = request.path.split('?').next().unwrap_or("");
    let Some((_, rest)) = path.split_once("/namespaces/") else {
        return;
    };
    let parts: Vec<_> = rest.split('/').collect();
    let (namespace, resource) = match parts[..] {
        [namespace, resource] | [namespace, resource, _] => (namespace, resource.to_owned()),
        [namespace, resource, _, part] => (namespace, format!("{resource}/{part}")),
        _ => return,
    };
    let verb = match request.method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    };
    let mut theirs = theirs.lock().unwrap_or_else(PoisonError::into_inner);
    let requests = theirs.entry(namespace.to_owned()).or_default();
    let key = format!("{verb} {resource} {}", request.status);
    *requests.entry(key).or_default() += 1;
}

/// The result of a scenario with our controllers.
#[derive(Debug)]
pub(super) struct Played {
    states: Vec<Vec<String>>,
    pub(super) requests: Requests,
}

/// A scenario in progress.
pub(super) struct Play<'a> {
    side: &'a Side,
    namespace: String,
    owner: Owner,
    /// The states on our side after each step, with which the real side is compared.
    states: Vec<Vec<String>>,
    at: usize,
    name: &'a str,
}

/// Plays a scenario with our controllers.
pub(super) fn record(scenario: &Scenario, side: &Side) -> Played {
    let mut play = Play::begin(scenario, side, Vec::new());
    (scenario.play)(&mut play);
    play.settle();
    Played {
        states: play.states,
        requests: side.served.api_calls(),
    }
}

/// Plays a scenario with the real controllers, which must reach the same states. Returns their
/// requests.
pub(super) fn repeat(scenario: &Scenario, side: &Side, played: &Played) -> Requests {
    let mut play = Play::begin(scenario, side, played.states.clone());
    (scenario.play)(&mut play);
    play.settle();
    std::thread::sleep(REST);
    play.at -= 1;
    play.settle();
    assert_eq!(play.at, play.states.len(), "{}", scenario.name);
    let theirs = side.theirs.lock().unwrap_or_else(PoisonError::into_inner);
    theirs.get(&play.namespace).cloned().unwrap_or_default()
}

impl<'a> Play<'a> {
    fn begin(scenario: &'a Scenario, side: &'a Side, states: Vec<Vec<String>>) -> Play<'a> {
        let namespace = scenario.name.to_lowercase();
        let namespace = namespace.replace([' ', ',', ':'], "-");
        let play = Play {
            side,
            namespace,
            owner: scenario.owner,
            states,
            at: 0,
            name: &scenario.name,
        };
        let namespace = json!({"metadata": {"name": play.namespace}});
        play.create("/api/v1/namespaces", namespace);
        play
    }

    /// Waits until the controllers are idle.
    pub(super) fn settle(&mut self) {
        if self.side.is_ours() {
            self.states.push(self.state());
            self.at += 1;
            return;
        }
        // By then the earlier writes have reached the caches.
        std::thread::sleep(BEFORE_LOOKS);
        let wanted = &self.states[self.at];
        let mut state = self.state();
        for _ in 0..LOOKS {
            if state == *wanted {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            state = self.state();
        }
        assert!(
            state == *wanted,
            "{}, step {}:\n{}",
            self.name,
            self.at,
            difference(wanted, &state)
        );
        self.at += 1;
    }

    /// Advances the time. The real side waits for as long.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.side.served.advance(Duration::from_secs(seconds));
    }

    fn state(&self) -> Vec<String> {
        let mut objects = Vec::new();
        for list in LISTS {
            let (kind, items) = self.list(list);
            objects.extend(items.into_iter().map(|mut item| {
                item["kind"] = kind.clone();
                item
            }));
        }
        mask::state(&objects)
    }

    fn list(&self, path: &str) -> (Value, Vec<Value>) {
        let mut list = self.send("GET", path, "application/json", &Value::Null);
        let items = list["items"].as_array_mut().map(std::mem::take);
        (list["kind"].take(), items.expect("a list"))
    }

    /// Sends a request that must succeed. `NS` in the path is replaced by the scenario's namespace.
    #[track_caller]
    fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Value {
        let path = path.replace("NS", &self.namespace);
        let (code, answer) = self.side.send(method, &path, media, body);
        assert!(
            code < 300,
            "{}: {method} {path}: {code} {answer}",
            self.name
        );
        answer
    }

    #[track_caller]
    pub(super) fn create(&self, path: &str, body: Value) {
        self.send("POST", path, "application/json", &body);
    }

    /// Sends a merge patch.
    #[track_caller]
    pub(super) fn patch(&self, path: &str, patch: Value) {
        self.send("PATCH", path, "application/merge-patch+json", &patch);
    }

    #[track_caller]
    pub(super) fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"propagationPolicy": propagation});
        self.send("DELETE", path, "application/json", &options);
    }

    /// Returns the kind of owner in this scenario.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the pods with a label that are not being deleted, sorted by name.
    pub(super) fn pods(&self, app: &str) -> Vec<String> {
        let path = format!("/api/v1/namespaces/NS/pods?labelSelector=app%3D{app}");
        let (_, items) = self.list(&path);
        let alive = items
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
        alive.map(name).collect()
    }
}

fn difference(ours: &[String], theirs: &[String]) -> String {
    let without = |some: &[String], others: &[String]| {
        let mut others = others.to_vec();
        let mut left = String::new();
        for one in some {
            match others.iter().position(|other| other == one) {
                Some(at) => drop(others.swap_remove(at)),
                None => left.push_str(&format!("  {one}\n")),
            }
        }
        left
    };
    let (left, right) = (without(ours, theirs), without(theirs, ours));
    format!("only ours:\n{left}only theirs:\n{right}")
}
