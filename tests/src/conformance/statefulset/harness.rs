//! The controller over caches, and an API that answers a sync as scripted by a case.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::driver::{Driver, Progress, Workload};
use podstorm::informer::{AnyInformer, Informers};
use podstorm::intern::KeyId;
use podstorm::object::{AnyObject, DynamicObject, Kind, Map, Now, Object};
use podstorm::statefulset::{Controller, ControllerOptions};
use podstorm::workqueue::Take;
use podstorm_apiserver::json_merge;
use serde_json::{Value, json};

use crate::conformance::Fields;
use crate::conformance::scripted_api::api_error;
use crate::conformance::shared::{Flight, pod};

/// Decodes a StatefulSet.
pub(super) fn set(value: Value) -> Result<DynamicObject, String> {
    dynamic(Kind::STATEFUL_SET, value)
}

fn dynamic(kind: Kind, value: Value) -> Result<DynamicObject, String> {
    DynamicObject::from_json(kind, value).map_err(|error| format!("{kind:?}: {error}"))
}

/// The cached kinds, apart from pods.
const KINDS: [Kind; 3] = [
    Kind::STATEFUL_SET,
    Kind::PERSISTENT_VOLUME_CLAIM,
    Kind::CONTROLLER_REVISION,
];

/// The StatefulSet controller, over caches.
pub(super) struct Harness {
    pub(super) controller: Controller,
    pub(super) pods: Arc<PodCache>,
    informers: [Arc<dyn AnyInformer>; 3],
}

impl Harness {
    pub(super) fn new(options: ControllerOptions) -> Harness {
        let pods = Arc::new(PodCache::new());
        let mut informers = Informers::new(Arc::clone(&pods));
        Harness {
            controller: Controller::new(options, &mut informers),
            informers: KINDS.map(|kind| informers.take(kind)),
            pods,
        }
    }

    /// Returns the informer for a kind, by the name of the resource.
    pub(super) fn informer(&self, resource: &str) -> Option<&Arc<dyn AnyInformer>> {
        self.informers
            .iter()
            .find(|it| it.kind().resource() == resource)
    }

    /// Adds an object to the cache for its resource, or removes the object from it.
    pub(super) fn apply(
        &self,
        resource: &str,
        value: Value,
        is_gone: bool,
        now: Now,
    ) -> Result<(), String> {
        if resource == Kind::POD.resource() {
            let pod = pod(value)?;
            let delta = match is_gone {
                true => Delta::Deleted(pod),
                false => Delta::Applied(pod),
            };
            self.controller.pod_changed(&self.pods.apply(delta), now);
            return Ok(());
        }
        let informer = self.informer(resource).ok_or("no such cache")?;
        let object: AnyObject = Arc::new(dynamic(informer.kind(), value)?);
        let delta = match is_gone {
            true => Delta::Deleted(object),
            false => Delta::Applied(object),
        };
        informer.apply(delta, now);
        Ok(())
    }

    /// Returns the id of a key `namespace/name`.
    pub(super) fn key(&self, key: &str) -> KeyId {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.controller.key(namespace, name)
    }

    /// Drains the keys of the queue.
    pub(super) fn drain(&self, now_ns: i64) -> Vec<String> {
        let queue = &self.controller.queues()[0];
        let mut keys = Vec::new();
        while let Take::Key(key) = queue.try_take(now_ns) {
            queue.done(key, now_ns);
            keys.push(self.controller.name(0, key).to_string());
        }
        keys
    }

    /// Drains the keys that are due later. Returns them with their delays.
    pub(super) fn drain_delayed(&self, now_ns: i64) -> Vec<Value> {
        let queue = &self.controller.queues()[0];
        let mut delayed = Vec::new();
        while let Some(due_ns) = queue.next_due() {
            queue.fire_due(due_ns);
            let keys = self.drain(due_ns).into_iter();
            delayed.extend(keys.map(|key| json!({"key": key, "nanos": due_ns - now_ns})));
        }
        delayed
    }
}

/// Runs the sync of a key. Requests that are in flight at the same time are answered in the order
/// of their resources and names.
///
/// # Errors
/// Fails if the API can't answer a request.
pub(super) fn run(
    harness: &Harness,
    key: KeyId,
    now: Now,
    api: &mut Api,
) -> Result<Driver<<Controller as Workload>::Sync>, String> {
    let queue = &harness.controller.queues()[0];
    queue.add(key, now.mono_ns);
    let _taken = queue.try_take(now.mono_ns);
    let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
    let mut flight = Flight::default();
    let mut progress = driver.begin(&harness.controller, 0, key, &mut flight, now);
    while progress == Progress::Waiting {
        let sent = std::mem::take(&mut flight.0).into_iter();
        let mut sent = sent
            .map(|(index, request)| Ok((index, Asked::from_request(&request)?)))
            .collect::<Result<Vec<_>, String>>()?;
        sent.sort_by_key(|(_, asked)| (asked.resource.clone(), asked.name.clone()));
        let count = sent.len();
        for (at, (index, asked)) in sent.into_iter().enumerate() {
            let answer = api.answer(harness, asked, now)?;
            driver.answer(index, answer);
            progress = driver.poll(&harness.controller, &mut flight, now);
            assert!(at + 1 == count || progress == Progress::Waiting);
        }
        api.step += 1;
    }
    driver.finish(&harness.controller, now);
    Ok(driver)
}

/// A request in the form of the recordings.
#[derive(Clone, Debug)]
struct Asked {
    verb: &'static str,
    kind: Kind,
    resource: String,
    name: String,
    namespace: String,
    body: Value,
}

impl Asked {
    fn from_request(request: &Request) -> Result<Asked, String> {
        let of = |verb, kind: Kind, namespace: &str, name: &str, body| Asked {
            verb,
            kind,
            resource: kind.resource().to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            body,
        };
        let object_of = |verb, object: &AnyObject| {
            let meta = object.metadata();
            of(
                verb,
                object.kind(),
                &meta.namespace,
                &meta.name,
                object.to_json(),
            )
        };
        Ok(match request {
            Request::CreatePod {
                namespace,
                pod,
                name: Some(name),
            } => of("create", Kind::POD, namespace, name, pod.to_json()),
            Request::DeletePod {
                namespace,
                name,
                uid: None,
            } => of("delete", Kind::POD, namespace, name, Value::Null),
            Request::Delete {
                kind,
                namespace,
                name,
                options: None,
            } => of("delete", *kind, namespace, name, Value::Null),
            Request::PatchOwners {
                kind,
                namespace,
                name,
                patch,
            } => of("patch", *kind, namespace, name, patch.body()),
            Request::Get {
                kind,
                namespace,
                name,
            } => of("get", *kind, namespace, name, Value::Null),
            Request::Create { object } => object_of("create", object),
            Request::Put { object } => object_of("update", object),
            Request::PutStatus { object } => {
                let mut asked = object_of("update", object);
                asked.resource.push_str("/status");
                asked
            }
            other => return Err(format!("upstream never makes this request: {other:?}")),
        })
    }

    /// Formats the request like the recordings.
    fn recorded(&self, step: usize) -> Value {
        let mut recorded = json!({"step": step, "verb": self.verb, "resource": self.resource,
            "name": self.name, "body": self.body});
        if self.namespace != "ns" {
            recorded["namespace"] = self.namespace.as_str().into();
        }
        if self.verb == "patch" {
            recorded["patchType"] = "application/strategic-merge-patch+json".into();
        }
        if self.resource.ends_with("/status") {
            let names = ["name", "namespace", "uid", "resourceVersion", "generation"];
            let metadata = names.map(|name| (name.to_owned(), self.body["metadata"][name].clone()));
            recorded["body"] =
                json!({"metadata": Map::from_iter(metadata), "status": self.body["status"]});
        } else if self.verb == "create" && self.kind == Kind::CONTROLLER_REVISION {
            // In upstream's requests, only the path contains the namespace; here, it is in the
            // object.
            recorded["body"]["metadata"]["namespace"] = Value::Null;
        }
        claim_volumes_by_name(&mut recorded["body"]);
        recorded
    }
}

/// Sorts the volumes for a pod's own claims, which come first, by name.
pub(super) fn claim_volumes_by_name(pod: &mut Value) {
    let name = pod["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let Some(Value::Array(volumes)) = pod.pointer_mut("/spec/volumes") else {
        return;
    };
    let is_own = |volume: &Value| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        let own = volume["name"]
            .as_str()
            .map(|volume| format!("{volume}-{name}"));
        claim.is_some() && claim == own.as_deref()
    };
    let own = volumes.iter().take_while(|volume| is_own(volume)).count();
    volumes[..own].sort_by_key(|volume| volume["name"].to_string());
}

/// The key of scripted answers: the verb, the resource and the name.
type Call = (String, String, String);

/// The scripted API, and a log of its requests.
pub(super) struct Api {
    /// The objects in the caches, by resource and name.
    cached: BTreeMap<(String, String), Value>,
    /// The scripted answers, and the number of those used.
    scripts: BTreeMap<Call, (Vec<Value>, usize)>,
    live_revisions: BTreeMap<String, Value>,
    /// The number of writes per resource.
    versions: BTreeMap<String, u64>,
    step: usize,
    pub(super) asked: Vec<Value>,
}

impl Api {
    pub(super) fn new(
        mut script: Fields,
        cached: BTreeMap<(String, String), Value>,
    ) -> Result<Api, String> {
        let mut scripts = BTreeMap::new();
        script.each("answers", |answer| {
            let call = (
                answer.text("verb")?,
                answer.text("resource")?,
                answer.text("name")?,
            );
            scripts.insert(call, (answer.list("outcomes")?, 0));
            Ok(())
        })?;
        let named = |it: Value| {
            (
                it["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                it,
            )
        };
        let live = script.list("liveRevisions")?;
        script.finish()?;
        Ok(Api {
            cached,
            scripts,
            live_revisions: live.into_iter().map(named).collect(),
            versions: BTreeMap::new(),
            step: 0,
            asked: Vec::new(),
        })
    }

    fn answer(&mut self, harness: &Harness, asked: Asked, now: Now) -> Result<Answer, String> {
        self.asked.push(asked.recorded(self.step));
        let call = (
            asked.verb.to_owned(),
            asked.resource.clone(),
            asked.name.clone(),
        );
        let outcome = self.scripts.get_mut(&call).and_then(|(outcomes, next)| {
            let at = match asked.verb {
                "get" => (*next).min(outcomes.len().saturating_sub(1)),
                _ => *next,
            };
            *next += 1;
            outcomes.get(at).cloned()
        });
        let mut outcome = Fields::new(outcome.unwrap_or(json!({})), "outcome")?;
        let (error, merge) = (outcome.take("error"), outcome.take("merge"));
        let (change, is_lost) = (outcome.take("cacheMerge"), outcome.flag("cacheDelete")?);
        outcome.finish()?;
        let resource = asked.resource.trim_end_matches("/status").to_owned();
        let place = (resource.clone(), asked.name.clone());
        // If a cache has lost the object, it does not get the object back.
        if let Some(Value::Object(change)) = change
            && let Some(Value::Object(cached)) = self.cached.get_mut(&place)
        {
            json_merge(cached, &change);
            harness.apply(&resource, cached.clone().into(), false, now)?;
        }
        if is_lost && let Some(cached) = self.cached.remove(&place) {
            harness.apply(&resource, cached, true, now)?;
        }
        if let Some(error) = error {
            return Ok(Answer::Failed(api_error(&error)?));
        }
        let cached = self.cached.get(&place).cloned();
        let mut body = match asked.verb {
            "delete" => return Ok(Answer::Deleted(None)),
            "get" if asked.kind == Kind::CONTROLLER_REVISION => {
                match self.live_revisions.get(&asked.name) {
                    Some(live) => live.clone(),
                    None => {
                        let text = format!("controllerrevisions {:?} not found", asked.name);
                        let error = ApiError::status(404, Reason::NotFound, text);
                        return Ok(Answer::Failed(error));
                    }
                }
            }
            "get" | "patch" => cached.ok_or("no such object")?,
            _ => asked.body,
        };
        if let (Some(Value::Object(merge)), Value::Object(body)) = (merge, &mut body) {
            json_merge(body, &merge);
        }
        if asked.verb != "get" {
            let first = match &*resource {
                "pods" => 900_000,
                "persistentvolumeclaims" => 910_000,
                "statefulsets" => 920_000,
                _ => 930_000,
            };
            let count = self.versions.entry(resource).or_insert(first);
            *count += 1;
            body["metadata"]["resourceVersion"] = count.to_string().into();
        }
        if asked.verb == "create" {
            body["metadata"]["uid"] = format!("uid-{}", asked.name).into();
        }
        Ok(match asked.kind == Kind::POD {
            true => Answer::Pod(pod(body)?),
            false => Answer::Object(Arc::new(dynamic(asked.kind, body)?)),
        })
    }
}
