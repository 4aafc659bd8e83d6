//! Cases of `podgc`: one round of pod garbage collection, with scripted answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, ApiError, Patch, Reason, Request};
use podstorm::driver::{Driver, Workload, sync_all};
use podstorm::informer::Informers;
use podstorm::object::{AnyObject, Kind, Map, Node, Now, Pod, PodPhase, Resource, ResourceVersion};
use podstorm::pod_gc::Controller;
use serde_json::{Value, json};

use super::shared::pod;
use super::{Fields, expect_same_json};

/// The length of the quarantine of a missing node, in nanoseconds.
const QUARANTINE_NS: i64 = 40_000_000_000;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let now = case.now(QUARANTINE_NS)?;
    let mut api = Api {
        answers: case.object("answers")?.rest(),
        live_nodes: case.texts("liveNodes")?,
        node_reads: Vec::new(),
        pod_requests: BTreeMap::new(),
    };
    let nodes = case.all("nodes", |node| match Node::from_json(node) {
        Ok(node) => Ok(Arc::new(node) as AnyObject),
        Err(error) => Err(format!("node: {error}")),
    })?;
    let mut informers = Informers::new(Arc::default());
    let controller = Controller::new(case.int("terminatedPodThreshold")?, &mut informers);
    let node_informer = informers.take(Kind::NODE);
    let mut world = World {
        pods: Arc::clone(informers.pods()),
        controller,
        driver: Driver::default(),
    };

    // Run an earlier round, so that the quarantine of these nodes ends in the round of the case.
    let mut lost = Vec::new();
    for node in case.texts("quarantineOver")? {
        let mut pod = Pod::default();
        pod.metadata.namespace = "quarantine".into();
        pod.metadata.name = (&*node).into();
        pod.node_name = Some((&*node).into());
        pod.status.phase = PodPhase::Running;
        lost.push(Arc::new(pod));
    }
    world.list(lost, Now::default());
    world.round(&mut api, Now::default());
    if !api.node_reads.is_empty() || !api.pod_requests.is_empty() {
        return Err("the earlier round has sent a request".to_owned());
    }

    world.list(Vec::new(), now);
    for pod in case.all("pods", pod)? {
        let change = world.pods.apply(Delta::Applied(pod));
        world.controller.pod_changed(&change, now);
    }
    node_informer.replace(nodes, &ResourceVersion::default(), now);
    world.round(&mut api, now);

    let mut out = case.object("out")?;
    let ours = api.pod_requests.into_values().flatten().collect();
    // Requests for different pods have no defined order.
    let mut recorded = out.list("podRequests")?;
    recorded.sort_by_key(|request| {
        let path = request["path"].as_str().unwrap_or_default();
        path.trim_end_matches("/status").to_owned()
    });
    expect_same_json("podRequests", ours, recorded.into())?;
    out.sent("nodeReads", api.node_reads.into())?;
    let quarantined = world.controller.quarantine().into_iter();
    let quarantined: Vec<String> = quarantined.map(|(name, _)| name.to_string()).collect();
    out.is(json!({"quarantined": quarantined}))
}

/// The pod garbage collector, over its caches.
struct World {
    pods: Arc<PodCache>,
    controller: Controller,
    driver: Driver<<Controller as Workload>::Sync>,
}

impl World {
    fn list(&self, pods: Vec<Arc<Pod>>, now: Now) {
        let listed = self.pods.replace(pods, &ResourceVersion::default());
        self.controller.pods_listed(&listed, now);
    }

    fn round(&mut self, api: &mut Api, now: Now) {
        let mut send = |request: &Request, _: Now| api.answer(request);
        sync_all(&self.controller, &mut self.driver, &mut send, now, |_| {});
    }
}

/// The scripted API server.
struct Api {
    answers: Map,
    live_nodes: Vec<String>,
    node_reads: Vec<Value>,
    /// The requests, by the path of the pod.
    pod_requests: BTreeMap<String, Vec<Value>>,
}

impl Api {
    fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Get { kind, name, .. } if *kind == Kind::NODE => {
                let path = format!("/api/v1/nodes/{name}");
                let answer = self.scripted("GET", &path);
                self.node_reads.push(json!({"method": "GET", "path": path}));
                let is_live = self.live_nodes.iter().any(|live| live == name);
                answer.unwrap_or_else(|| match is_live {
                    true => Answer::Object(Arc::new(Node::default())),
                    false => Answer::Failed(ApiError::status(404, Reason::NotFound, "not found")),
                })
            }
            Request::Patch {
                kind,
                namespace,
                name,
                patch,
                of_status: true,
            } if *kind == Kind::POD => {
                let Patch::Strategic(body) = &**patch else {
                    panic!("expected a strategic merge patch: {patch:?}");
                };
                let pod = format!("/api/v1/namespaces/{namespace}/pods/{name}");
                let path = format!("{pod}/status");
                let answer = self.scripted("PATCH", &path);
                let sent = json!({"method": "PATCH", "path": path, "body": body});
                self.pod_requests.entry(pod).or_default().push(sent);
                answer.unwrap_or_else(|| Answer::Pod(Arc::default()))
            }
            Request::Delete {
                kind,
                namespace,
                name,
                options,
            } if *kind == Kind::POD => {
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
                let grace = options.as_ref().and_then(|it| it.grace_period_seconds);
                let body = json!({"gracePeriodSeconds": grace});
                let answer = self.scripted("DELETE", &path);
                let sent = json!({"method": "DELETE", "path": path, "body": body});
                self.pod_requests.entry(path).or_default().push(sent);
                answer.unwrap_or(Answer::Deleted(None))
            }
            other => panic!("a round never makes this request: {other:?}"),
        }
    }

    /// Returns the scripted error for a request, if there is one.
    fn scripted(&self, method: &str, path: &str) -> Option<Answer> {
        let answer = self.answers.get(&format!("{method} {path}"))?;
        let code = answer["code"].as_u64()?;
        let code = u16::try_from(code).expect("HTTP codes fit a u16");
        let message = answer["message"].as_str().unwrap_or_default();
        let error = ApiError::status(code, Reason::InternalError, message);
        Some(Answer::Failed(error))
    }
}
