//! Cases of `deployment_sync`: one whole sync of a Deployment, with a scripted API.

use std::collections::BTreeMap;

use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::object::{AnyObject, Kind, Map, Now, ReplicaSet, Resource, Time};
use podstorm::replicaset::parse_key;
use podstorm_apiserver::json_merge;
use serde_json::{Value, json};

use super::harness::{Bases, Harness, MONO_NS, answered, body, conflict, shown};
use crate::conformance::scripted_api::api_error;
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let now = case.now(MONO_NS)?;
    let mut gates = case.object("featureGates")?;
    let mut harness = Harness::new(gates.flag("DeploymentReplicaSetTerminatingReplicas")?);
    gates.finish()?;
    let key = case.text("key")?;
    let deployment = case.value("deployment");
    let sets = case.list("replicaSets")?;
    let pods = case.all("pods", pod)?;
    let failures = case.int("numRequeues")?;
    let mut api = Api::new(case.object("api")?, deployment.clone(), &sets, now)?;
    let mut out = case.object("out")?;
    if !deployment.is_null() {
        harness.put_deployment(deployment)?;
    }
    harness.list_sets(&sets)?;
    harness.list_pods(pods);
    let (namespace, name) = match parse_key(&key) {
        Ok(names) => names,
        Err(error) => {
            // Keys consist of names here, so an invalid key never reaches a sync.
            expect_eq("error", &error.to_string(), &out.text("error")?)?;
            out.rest();
            return Ok(());
        }
    };
    let id = harness.controller.key(namespace, name);
    let run = harness.run(id, failures, now, |request| api.answer(request))?;

    let recorded = out.all("requests", |request| api.bases.whole(request))?;
    expect_eq("requests", &by_name(api.requests), &by_name(recorded))?;
    let (text, step) = run.error.unwrap_or_default();
    let worker = match run.forgotten {
        true => "forget",
        false => "addRateLimited",
    };
    out.is(json!({
        "events": run.events, "errorClass": class_of(step), "error": text, "queue": run.queue,
        "worker": [{"op": worker}],
    }))
}

/// Sorts patches by name, because their order is not defined. The read of the Deployment stays
/// before the first adoption.
fn by_name(mut requests: Vec<Value>) -> Vec<Value> {
    let is_claim = |request: &Value| request["verb"] == "get" || request["verb"] == "patch";
    let end = requests.iter().position(|it| !is_claim(it));
    let claims = end.unwrap_or(requests.len());
    let key = |request: &Value| {
        (
            request["verb"] == "get",
            request["name"].as_str().unwrap_or_default().to_owned(),
        )
    };
    requests[..claims].sort_by_key(key);
    requests
}

/// Returns the name that recordings use for the step that failed.
fn class_of(label: &str) -> &'static str {
    match label {
        "" => "none",
        "selector" => "selector",
        "claim failed" => "claim",
        "create failed" => "create",
        "not cached" => "cacheMiss",
        "ReplicaSet write failed" => "replicaSetPut",
        "status failed" => "statusPut",
        "Deployment write failed" => "deploymentPut",
        "delete failed" => "delete",
        "sizes" => "intOrString",
        "strategy" => "strategy",
        _ => "other",
    }
}

/// The API, scripted by the case.
struct Api {
    now: Now,
    cached: Value,
    bases: Bases,
    requests: Vec<Value>,
    /// The outcomes of creates: first those of single calls in order, then those of all calls with
    /// a name.
    creates: Vec<Value>,
    status_puts: Vec<Value>,
    puts: Vec<Value>,
    set_puts: BTreeMap<String, Vec<Value>>,
    patches: Map,
    deletes: Map,
    gets: Vec<Value>,
    gets_called: usize,
    creates_called: usize,
    accepted: u64,
    /// The versions of the objects on the server; `None` if the case does not check versions.
    versions: Option<BTreeMap<(Kind, String), String>>,
    names: Vec<String>,
}

impl Api {
    fn new(mut script: Fields, deployment: Value, sets: &[Value], now: Now) -> Result<Api, String> {
        let mut bases = Bases::default();
        let namespace = deployment["metadata"]["namespace"].clone();
        if !deployment.is_null() {
            bases.set(Kind::DEPLOYMENT, &deployment);
        }
        for set in sets
            .iter()
            .filter(|set| set["metadata"]["namespace"] == namespace)
        {
            bases.set(Kind::REPLICA_SET, set);
        }
        let version = |base: &Value| {
            base["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let versions = script.flag("checkVersions")?.then(|| {
            let of = |(key, base): (&(Kind, String), &Value)| (key.clone(), version(base));
            bases.0.iter().map(of).collect()
        });
        let mut reversed = |key: &str| {
            script.list(key).map(|mut list| {
                list.reverse();
                list
            })
        };
        let (creates, status_puts) = (
            reversed("replicaSetCreates")?,
            reversed("deploymentStatusPuts")?,
        );
        let puts = reversed("deploymentPuts")?;
        let mut set_puts = BTreeMap::new();
        for (name, outcomes) in script.object("replicaSetPuts")?.rest() {
            let mut outcomes = outcomes.as_array().cloned().unwrap_or_default();
            outcomes.reverse();
            set_puts.insert(name, outcomes);
        }
        let api = Api {
            now,
            names: bases.0.keys().map(|(_, name)| name.clone()).collect(),
            cached: deployment,
            bases,
            requests: Vec::new(),
            creates,
            status_puts,
            puts,
            set_puts,
            patches: script.object("replicaSetPatches")?.rest(),
            deletes: script.object("replicaSetDeletes")?.rest(),
            gets: script.list("deploymentGets")?,
            gets_called: 0,
            creates_called: 0,
            accepted: 0,
            versions,
        };
        script.finish()?;
        Ok(api)
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, String> {
        let at = self.requests.len();
        self.requests.push(Bases::note(request));
        match request {
            Request::Get { .. } => self.get(),
            Request::PatchOwners { name, .. } => {
                if let Some(error) = outcome(self.patches.get(&**name)) {
                    return Ok(Answer::Failed(api_error(error)?));
                }
                self.next_version(Kind::REPLICA_SET, name);
                Ok(Answer::Deleted(None))
            }
            Request::Delete { name, .. } => Ok(match outcome(self.deletes.get(&**name)) {
                Some(error) => Answer::Failed(api_error(error)?),
                None => Answer::Deleted(None),
            }),
            Request::Create { object } => self.create(object),
            Request::Put { object } if object.kind() == Kind::REPLICA_SET => {
                let name = object.metadata().name.as_str();
                let outcomes = self.set_puts.get_mut(name);
                let outcome = outcomes.and_then(Vec::pop).unwrap_or_default();
                self.put(at, object, &outcome)
            }
            Request::Put { object } => {
                let outcome = self.puts.pop().unwrap_or_default();
                self.put(at, object, &outcome)
            }
            Request::PutStatus { object } => {
                let outcome = self.status_puts.pop().unwrap_or_default();
                self.put(at, object, &outcome)
            }
            other => Err(format!("upstream never makes this request: {other:?}")),
        }
    }

    fn get(&mut self) -> Result<Answer, String> {
        let at = self.gets_called.min(self.gets.len().saturating_sub(1));
        self.gets_called += 1;
        let get = self.gets.get(at).cloned().unwrap_or(json!({}));
        let mut get = Fields::new(get, "deploymentGets")?;
        let (error, merge) = (get.take("error"), get.take("merge"));
        if let Some(error) = outcome(error.as_ref()) {
            return Ok(Answer::Failed(api_error(error)?));
        }
        // The entry itself may be an error.
        if get.rest().contains_key("message") {
            return Ok(Answer::Failed(api_error(&self.gets[at])?));
        }
        let mut live = self.cached.clone();
        if let (Value::Object(live), Some(Value::Object(merge))) = (&mut live, &merge) {
            json_merge(live, merge);
        }
        answered(Kind::DEPLOYMENT, live)
    }

    fn create(&mut self, object: &AnyObject) -> Result<Answer, String> {
        let number = self.creates_called;
        self.creates_called += 1;
        let name = object.metadata().name.as_str();
        let scripted = self.creates.pop().unwrap_or_default();
        if !scripted.is_null() {
            return Ok(Answer::Failed(api_error(&scripted)?));
        }
        if self.names.iter().any(|taken| taken == name) {
            let message = format!("replicasets.apps \"{name}\" already exists");
            let error = ApiError::status(409, Reason::AlreadyExists, message);
            return Ok(Answer::Failed(error));
        }
        let mut made = body(object);
        let meta = &mut made["metadata"];
        meta["uid"] = "00000000-0000-4000-8000-000000000001".into();
        meta["generation"] = 1.into();
        meta["resourceVersion"] = (900_001 + number).to_string().into();
        meta["creationTimestamp"] = Time::from_unix_nanos(self.now.wall_ns).to_string().into();
        if let Some(versions) = &mut self.versions {
            let version = (900_001 + number).to_string();
            versions.insert((Kind::REPLICA_SET, name.to_owned()), version);
        }
        answered(Kind::REPLICA_SET, made)
    }

    fn put(&mut self, at: usize, object: &AnyObject, scripted: &Value) -> Result<Answer, String> {
        let (kind, name) = (object.kind(), object.metadata().name.as_str());
        if !scripted.is_null() {
            return Ok(Answer::Failed(api_error(scripted)?));
        }
        if let Some(versions) = &self.versions {
            let current = versions.get(&(kind, name.to_owned()));
            let sent = object.metadata().resource_version.to_string();
            if current.is_some_and(|current| *current != sent) {
                self.requests[at]["conflict"] = true.into();
                return Ok(Answer::Failed(conflict(kind, name)));
            }
        }
        let version = self.next_version(kind, name);
        let mut echoed = object.to_json();
        echoed["metadata"]["resourceVersion"] = version.into();
        answered(kind, shown(echoed))
    }

    fn next_version(&mut self, kind: Kind, name: &str) -> String {
        self.accepted += 1;
        let version = (910_000 + self.accepted).to_string();
        if let Some(versions) = &mut self.versions {
            versions.insert((kind, name.to_owned()), version.clone());
        }
        version
    }
}

fn outcome(scripted: Option<&Value>) -> Option<&Value> {
    scripted.filter(|it| !it.is_null())
}

/// Decodes a ReplicaSet.
pub(super) fn replica_set(value: Value) -> Result<ReplicaSet, String> {
    ReplicaSet::from_json(value).map_err(|error| format!("replicaSet: {error}"))
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::{Cluster, ClusterOptions};
    use podstorm_sim::engine::client::RequestInfo;

    use super::*;
    use crate::requests::{furnish, samples};

    /// A request that the controller never sends is an error.
    #[test]
    fn a_request_without_a_recording_is_an_error() {
        let cluster = Cluster::new(ClusterOptions::default());
        furnish(&cluster, Now::default());
        for sample in samples(&cluster) {
            let script = Fields::new(json!({}), "api").unwrap();
            let mut api = Api::new(script, Value::Null, &[], Now::default()).unwrap();
            let answer = api.answer(&sample.request);
            let is_recorded = matches!(
                sample.request,
                Request::PatchOwners { .. }
                    | Request::Create { .. }
                    | Request::Put { .. }
                    | Request::PutStatus { .. }
                    | Request::Delete { .. }
            );
            // A request for another resource differs from the recorded ones.
            let resource = RequestInfo::from_request(&sample.request)
                .kind
                .map(|kind| kind.resource());
            let noted = api.requests[0]["resource"].as_str();
            assert!(noted.is_none() || noted == resource, "{noted:?}");
            assert!(is_recorded || answer.is_err(), "{:?}", sample.request);
        }
    }
}
