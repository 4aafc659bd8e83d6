//! The environment of a sync of a Deployment: the caches, and an API that records requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, ApiError, Request};
use podstorm::deployment::{Controller, ControllerOptions};
use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::informer::{AnyInformer, Informers};
use podstorm::intern::KeyId;
use podstorm::object::{AnyObject, Deployment, Kind, Map, Now, Pod, ReplicaSet, Resource};
use podstorm_apiserver::json_merge;
use podstorm_sim::engine::client::RequestInfo;
use serde_json::{Value, json};

use crate::conformance::fields::{is_empty, without};

/// The monotonic time of a sync.
pub(super) const MONO_NS: i64 = 1_000_000_000_000_000;

/// Formats an object like the recordings: without null and empty members, except those whose
/// presence has a meaning.
pub(super) fn shown(value: Value) -> Value {
    const KEPT: [&str; 4] = ["selector", "securityContext", "emptyDir", "ephemeral"];
    without(value, &|name, value| {
        is_empty(value) && (value.is_null() || !KEPT.contains(&name))
    })
}

/// Returns the JSON of an object without `apiVersion` and `kind`.
pub(super) fn body(object: &AnyObject) -> Value {
    without_type(object.to_json())
}

fn without_type(object: Value) -> Value {
    let mut object = shown(object);
    if let Value::Object(members) = &mut object {
        members.remove("apiVersion");
        members.remove("kind");
    }
    object
}

/// Returns the error of a write whose object was changed in the meantime.
pub(super) fn conflict(kind: Kind, name: &str) -> ApiError {
    let resource = kind.group_resource();
    let text = "the object has been modified; please apply your changes to the latest version and try again";
    let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {text}");
    ApiError::status(409, podstorm::client::Reason::Conflict, message)
}

/// The controller over caches with the case's objects.
pub(super) struct Harness {
    pub(super) controller: Controller,
    /// The informers of Deployments and of ReplicaSets.
    pub(super) deployments: Arc<dyn AnyInformer>,
    pub(super) sets: Arc<dyn AnyInformer>,
    pub(super) pods: Arc<PodCache>,
    pub(super) driver: Driver<<Controller as Workload>::Sync>,
}

/// The effects of a sync.
#[derive(Default)]
pub(super) struct Run {
    pub(super) events: Vec<Value>,
    /// The text of the error and the step that failed; `None` if the sync succeeded.
    pub(super) error: Option<(String, &'static str)>,
    /// The keys that the sync itself added to the queue.
    pub(super) queue: Vec<Value>,
    /// Whether the worker made the queue forget the failures of the key.
    pub(super) forgotten: bool,
}

impl Harness {
    pub(super) fn new(terminating_replicas: bool) -> Harness {
        let options = ControllerOptions {
            terminating_replicas,
        };
        let pods = Arc::new(PodCache::new());
        let mut informers = Informers::new(pods.clone());
        Harness {
            controller: Controller::new(options, &mut informers),
            deployments: informers.take(Kind::DEPLOYMENT),
            sets: informers.take(Kind::REPLICA_SET),
            pods,
            driver: Driver::default(),
        }
    }

    pub(super) fn put_deployment(&self, value: Value) -> Result<(), String> {
        let object = super::deployment(value)?;
        let delta = Delta::Applied(Arc::new(object) as AnyObject);
        self.deployments.apply(delta, Now::default());
        Ok(())
    }

    pub(super) fn list_sets<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), String> {
        let read = |value: &Value| {
            let set = ReplicaSet::from_json(value.clone());
            set.map(|set| Arc::new(set) as AnyObject)
                .map_err(|error| format!("replicaSet: {error}"))
        };
        let sets: Vec<AnyObject> = values.into_iter().map(read).collect::<Result<_, _>>()?;
        self.sets.replace(sets, &1.into(), Now::default());
        Ok(())
    }

    pub(super) fn list_pods(&self, pods: Vec<Arc<Pod>>) {
        self.pods.replace(pods, &1.into());
    }

    /// Runs the sync of a key that has failed this many times before.
    pub(super) fn run(
        &mut self,
        key: KeyId,
        failures: i64,
        now: Now,
        mut answer: impl FnMut(&Request) -> Result<Answer, String>,
    ) -> Result<Run, String> {
        let queue = self.controller.queue();
        self.empty_queue();
        queue.forget(key);
        for _ in 0..failures {
            queue.add_rate_limited(key, 0);
        }
        self.empty_queue();
        queue.add(key, now.mono_ns);
        let _taken = queue.try_take(now.mono_ns);
        let before = queue.num_requeues(key);
        let mut run = Run::default();
        let mut error = None;
        let mut transport = |request: &Request, _: Now| {
            answer(request).unwrap_or_else(|text| {
                error.get_or_insert(text);
                Answer::Failed(ApiError::transport("unexpected"))
            })
        };
        let progress = self
            .driver
            .begin(&self.controller, 0, key, &mut transport, now);
        assert_eq!(progress, Progress::Finished, "the API answers immediately");
        if let Some(error) = error {
            return Err(error);
        }
        for event in self.driver.sync.events().drain(..) {
            run.events.push(json!({
                "type": event.kind.as_str(), "reason": event.reason,
                "message": event.message.to_string(),
            }));
        }
        let failure = self.driver.sync.failure();
        run.error = failure.map(|failure| (failure.message.clone(), failure.label));
        let limited = queue.num_requeues(key) - before;
        if limited > 0 {
            run.queue.push(json!({"op": "addRateLimited"}));
        } else if let Some(due_ns) = queue.next_due() {
            run.queue
                .push(json!({"op": "addAfter", "nanos": due_ns - now.mono_ns}));
        }
        self.driver.finish(&self.controller, now);
        let retried = queue.num_requeues(key) > before + limited;
        run.forgotten = queue.num_requeues(key) == 0;
        if retried == run.forgotten {
            return Err("a key must be either forgotten or retried".to_owned());
        }
        self.empty_queue();
        Ok(run)
    }

    fn empty_queue(&self) {
        let queue = self.controller.queue();
        while let Some(due_ns) = queue.next_due() {
            queue.fire_due(due_ns);
        }
        while let podstorm::workqueue::Take::Key(key) = queue.try_take(0) {
            queue.done(key, 0);
        }
    }
}

/// The objects that requests write, by resource and name. The merge patches in the recordings are
/// based on them.
#[derive(Default)]
pub(super) struct Bases(pub(super) BTreeMap<(Kind, String), Value>);

impl Bases {
    pub(super) fn set(&mut self, kind: Kind, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let base = without_type(object.clone());
        self.0.insert((kind, name.to_owned()), base);
    }

    /// Formats a request like the recordings. The body of a `put` is complete.
    pub(super) fn note(request: &Request) -> Value {
        match request {
            Request::Get { kind, name, .. } => {
                json!({"verb": "get", "resource": kind.resource(), "name": name.as_str()})
            }
            Request::PatchOwners {
                kind, name, patch, ..
            } => json!({
                "verb": "patch", "resource": kind.resource(), "name": name.as_str(),
                "body": patch.body(),
            }),
            Request::Create { object } => json!({
                "verb": "create", "resource": object.kind().resource(), "body": body(object),
            }),
            Request::Put { object } => written(object, None),
            Request::PutStatus { object } => written(object, Some("status")),
            Request::Delete {
                kind,
                name,
                options: None,
                ..
            } => json!({"verb": "delete", "resource": kind.resource(), "name": name.as_str()}),
            // Upstream does not send such a request, so no recording contains it.
            other => json!({"asked": RequestInfo::from_request(other).to_string()}),
        }
    }

    /// Returns the recorded request with the complete body, to which its merge patch is applied.
    pub(super) fn whole(&self, mut recorded: Value) -> Result<Value, String> {
        let Value::Object(members) = &mut recorded else {
            return Err(format!("expected a request object: {recorded}"));
        };
        let Some(patch) = members.remove("patch") else {
            return Ok(recorded);
        };
        let name = members["name"].as_str().unwrap_or_default().to_owned();
        let kind = match members["resource"].as_str() {
            Some("replicasets") => Kind::REPLICA_SET,
            _ => Kind::DEPLOYMENT,
        };
        let base = self.0.get(&(kind, name));
        let mut whole = base.cloned().unwrap_or_else(|| json!({}));
        if let (Value::Object(whole), Value::Object(patch)) = (&mut whole, &patch) {
            json_merge(whole, patch);
        }
        members.insert("body".to_owned(), shown(whole));
        Ok(recorded)
    }
}

fn written(object: &AnyObject, subresource: Option<&str>) -> Value {
    let meta = object.metadata();
    let mut note = Map::new();
    note.insert("verb".into(), "put".into());
    note.insert("resource".into(), object.kind().resource().into());
    note.insert("name".into(), meta.name.as_str().into());
    note.insert(
        "resourceVersion".into(),
        meta.resource_version.to_string().into(),
    );
    note.insert("body".into(), body(object));
    if let Some(subresource) = subresource {
        note.insert("subresource".into(), subresource.into());
    }
    Value::Object(note)
}

/// Returns the answer of a server that contains an object.
pub(super) fn answered(kind: Kind, value: Value) -> Result<Answer, String> {
    let object: AnyObject = if kind == Kind::REPLICA_SET {
        Arc::new(ReplicaSet::from_json(value).map_err(|error| error.to_string())?)
    } else {
        Arc::new(Deployment::from_json(value).map_err(|error| error.to_string())?)
    };
    Ok(Answer::Object(object))
}
