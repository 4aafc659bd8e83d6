//! Cases of `deployment_rollouts`: rollouts, one sync after the other, with a server that answers
//! as recorded.

use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::deployment::rollout::rollout_status;
use podstorm::object::{AnyObject, Kind, Map, Now, Time};
use podstorm::replicaset::parse_key;
use podstorm_apiserver::json_merge;
use serde_json::{Value, json};

use super::harness::{Bases, Harness, MONO_NS, answered, conflict};
use crate::conformance::fields::expect_same;
use crate::conformance::scripted_api::api_error;
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    // Ignore the origin of the case, and the time of its first step, which the step repeats.
    case.text("category")?;
    case.text("start")?;
    let key = case.text("key")?;
    let mut stage = Stage {
        harness: Harness::new(true),
        key,
        deployment: case.value("deployment"),
        sets: Map::new(),
        sets_before: Map::new(),
        pods: Vec::new(),
    };
    case.each("steps", |step| stage.step(step))
}

/// The stored objects, which remain between the steps.
struct Stage {
    harness: Harness,
    key: String,
    deployment: Value,
    /// The ReplicaSets by name.
    sets: Map,
    /// The ReplicaSets at the start of the last sync.
    sets_before: Map,
    pods: Vec<Value>,
}

impl Stage {
    fn step(&mut self, step: &mut Fields) -> Result<(), String> {
        // Ignore the user's actions, because `set` contains their effects.
        step.list("user")?;
        let time = step.text("now")?;
        let now = Now {
            mono_ns: MONO_NS,
            wall_ns: wall_ns(&time)?,
        };
        self.set(step.object("set")?)?;
        let cached = match step.flag("staleReplicaSets")? {
            true => self.sets_before.clone(),
            false => self.sets.clone(),
        };
        self.harness.put_deployment(self.deployment.clone())?;
        self.harness.list_sets(cached.values())?;
        let pods = self.pods.iter().cloned().map(pod);
        self.harness.list_pods(pods.collect::<Result<_, _>>()?);
        self.sets_before.clone_from(&self.sets);
        let mut bases = Bases::default();
        bases.set(Kind::DEPLOYMENT, &self.deployment);
        for set in self.sets.values() {
            bases.set(Kind::REPLICA_SET, set);
        }

        let mut out = step.object("out")?;
        let mut recorded = out.list("requests")?.into_iter();
        let (namespace, name) = parse_key(&self.key).map_err(|error| error.to_string())?;
        let id = self.harness.controller.key(namespace, name);
        let mut server = Server {
            bases,
            deployment: &mut self.deployment,
            sets: &mut self.sets,
        };
        let run = self.harness.run(id, 0, now, |request| {
            let recorded = recorded.next();
            let recorded = recorded.ok_or_else(|| format!("unexpected request: {request:?}"))?;
            server.answer(request, recorded)
        })?;
        let missing: Vec<Value> = recorded.collect();
        expect_eq("missing requests", &missing, &Vec::new())?;
        let (error, _) = run.error.unwrap_or_default();
        out.is(json!({"events": run.events, "error": error, "queue": run.queue}))?;

        let sizes = self.sets.iter().map(|(name, set)| {
            let size = set["spec"]["replicas"].as_i64().unwrap_or(1);
            (name.clone(), Value::from(size))
        });
        step.is(json!({"sizes": sizes.collect::<Map>(), "rolloutStatus": self.told()?}))
    }

    /// Applies the changes that others have made since the last sync.
    fn set(&mut self, mut changes: Fields) -> Result<(), String> {
        if let (Value::Object(deployment), Value::Object(patch)) =
            (&mut self.deployment, &changes.value("deployment"))
        {
            json_merge(deployment, patch);
        }
        for (name, patch) in changes.object("replicaSets")?.rest() {
            if patch.is_null() {
                self.sets.remove(&name);
                continue;
            }
            let set = self.sets.entry(name).or_insert_with(|| json!({}));
            if let (Value::Object(set), Value::Object(patch)) = (set, &patch) {
                json_merge(set, patch);
            }
        }
        if let Some(Value::Array(pods)) = changes.take("pods") {
            let place = |pod: Value| self.pod(pod);
            self.pods = pods.into_iter().map(place).collect::<Result<_, _>>()?;
        }
        changes.finish()
    }

    /// Builds a pod of a ReplicaSet from its recorded members.
    fn pod(&self, value: Value) -> Result<Value, String> {
        let mut pod = Fields::new(value, "pod")?;
        let set = pod.text("replicaSet")?;
        let uid = &self.sets.get(&set).unwrap_or(&Value::Null)["metadata"]["uid"];
        let deleting = pod.flag("deleting")?.then_some("2026-01-01T00:00:00Z");
        let made = json!({
            "metadata": {"name": pod.value("name"), "namespace": "ns", "uid": pod.value("name"),
                "deletionTimestamp": deleting,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set,
                    "uid": uid, "controller": true}]},
            "status": {"phase": pod.value("phase")},
        });
        pod.finish()?;
        Ok(made)
    }

    fn told(&self) -> Result<Value, String> {
        let deployment = super::deployment(self.deployment.clone())?;
        let status = rollout_status(&deployment, 0);
        Ok(match status {
            Ok(status) => json!({"message": status.message + "\n", "done": status.done}),
            Err(error) => json!({"done": false, "error": error.to_string()}),
        })
    }
}

/// The server during one sync.
struct Server<'a> {
    bases: Bases,
    deployment: &'a mut Value,
    sets: &'a mut Map,
}

impl Server<'_> {
    /// Checks a request against the recording and returns the recorded response.
    fn answer(&mut self, request: &Request, recorded: Value) -> Result<Answer, String> {
        let mut recorded = Fields::new(self.bases.whole(recorded)?, "request")?;
        let mut result = recorded.object("result")?;
        let marks = ["conflict", "alreadyExists", "error"];
        let mut taken = marks.map(|mark| (mark, recorded.take(mark))).into_iter();
        let mark = taken.find_map(|(mark, value)| Some((mark, value?)));
        let mut ours = Bases::note(request);
        without_version(&mut ours);
        let mut expected = Value::Object(recorded.rest());
        without_version(&mut expected);
        expect_same("request", &ours, &expected)?;
        let answer = match (mark, request) {
            (Some((mark, value)), _) => Ok(Answer::Failed(refusal(mark, &value, request)?)),
            (None, Request::Create { object } | Request::Put { object }) => {
                let meta = result.rest();
                self.store(object, &meta, false)
            }
            (None, Request::PutStatus { object }) => {
                let meta = result.rest();
                self.store(object, &meta, true)
            }
            (None, Request::Delete { name, .. }) => {
                self.sets.remove(&**name);
                Ok(Answer::Deleted(None))
            }
            (None, other) => Err(format!("no recorded response to {other:?}")),
        };
        result.finish()?;
        answer
    }

    fn store(&mut self, object: &AnyObject, meta: &Map, status: bool) -> Result<Answer, String> {
        let (kind, name) = (object.kind(), object.metadata().name.to_string());
        let stored = match kind == Kind::REPLICA_SET {
            true => self.sets.entry(name).or_insert_with(|| json!({})),
            false => &mut *self.deployment,
        };
        let mut sent = object.to_json();
        if status {
            stored["metadata"]["annotations"] = sent["metadata"]["annotations"].take();
            stored["status"] = sent["status"].take();
        } else {
            // A write of the object does not change the status.
            if !stored["status"].is_null() {
                sent["status"] = stored["status"].take();
            }
            *stored = sent;
        }
        for (member, value) in meta {
            stored["metadata"][member] = value.clone();
        }
        let stored = stored.clone();
        // The recording of a second write in the same step is relative to the created object.
        let base = (kind, object.metadata().name.to_string());
        if !self.bases.0.contains_key(&base) {
            self.bases.set(kind, &stored);
        }
        answered(kind, stored)
    }
}

fn without_version(request: &mut Value) {
    if let Some(body) = request["body"]["metadata"].as_object_mut() {
        body.remove("resourceVersion");
    }
}

/// Returns the error that a mark in a recording represents.
fn refusal(mark: &str, value: &Value, request: &Request) -> Result<ApiError, String> {
    let (Request::Create { object } | Request::Put { object } | Request::PutStatus { object }) =
        request
    else {
        return Err(format!("no recorded refusal of {request:?}"));
    };
    let (kind, name) = (object.kind(), &object.metadata().name);
    match mark {
        "conflict" => Ok(conflict(kind, name)),
        "alreadyExists" => {
            let message = format!("{} \"{name}\" already exists", kind.group_resource());
            Ok(ApiError::status(409, Reason::AlreadyExists, message))
        }
        _ => api_error(value),
    }
}

fn wall_ns(time: &str) -> Result<i64, String> {
    let (seconds, fraction) = match time.trim_end_matches('Z').split_once('.') {
        Some((seconds, fraction)) => (seconds, format!("{fraction:0<9}")),
        None => (time.trim_end_matches('Z'), "0".to_owned()),
    };
    let at: Time = format!("{seconds}Z")
        .parse()
        .map_err(|_| format!("time {time}"))?;
    let fraction: i64 = fraction.parse().map_err(|_| format!("time {time}"))?;
    Ok(at.unix_nanos().unwrap_or(0) + fraction)
}
