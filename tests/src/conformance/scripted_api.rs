//! An API that answers as scripted by a case of `sync`, and a log of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::client::{Answer, ApiError, Cause, OwnerPatch, Reason, Request};
use podstorm::driver::Driver;
use podstorm::object::{Kind, Map, Object, Pod, ReplicaSet, ReplicationController};
use podstorm::replicaset::{ReplicaSetSync, as_replica_set};
use podstorm_apiserver::json_merge;
use serde_json::{Value, json};

use super::Fields;
use super::shared::workload;

/// The scripted API and the log of its requests.
pub(super) struct Api {
    kind: Kind,
    workload_json: Value,
    pods: BTreeMap<String, (usize, Arc<Pod>)>,
    creates: Map,
    deletes: Map,
    patches: Map,
    workload_gets: ScriptedGets,
    status_puts: Vec<Value>,
    cancelled: bool,
    creates_called: usize,
    creates_succeeded: u64,
    puts_called: usize,
    /// The object on which the next status write must be based.
    base: Option<Arc<ReplicaSet>>,
    requests: Vec<Value>,
}

/// The recorded answers to reads of a workload. The last answer repeats.
pub(super) struct ScriptedGets {
    answers: Vec<Value>,
    called: usize,
}

impl ScriptedGets {
    /// Takes the answers out of the script of a case.
    pub(super) fn take(script: &mut Fields) -> Result<ScriptedGets, String> {
        Ok(ScriptedGets {
            answers: script.list("parentGets")?,
            called: 0,
        })
    }

    /// Merges the next answer into the live object, or returns the error if the answer is one.
    pub(super) fn next(&mut self, mut live: Value) -> Result<Result<Value, ApiError>, String> {
        let get = self.answers.get(self.called).or(self.answers.last());
        self.called += 1;
        let mut get = Fields::new(get.cloned().unwrap_or(json!({})), "parentGets")?;
        let (error, merge) = (get.take("error"), get.take("merge"));
        get.finish()?;
        if let Some(error) = error {
            return Ok(Err(api_error(&error)?));
        }
        if let (Some(Value::Object(merge)), Value::Object(live)) = (&merge, &mut live) {
            json_merge(live, merge);
        }
        Ok(Ok(live))
    }
}

impl Api {
    pub(super) fn new(
        mut script: Fields,
        kind: Kind,
        workload_json: Value,
        pods: &[Arc<Pod>],
        cancelled: bool,
    ) -> Result<Api, String> {
        let base = match &workload_json {
            Value::Null => None,
            value => Some(workload(kind, value.clone())?),
        };
        let api = Api {
            kind,
            workload_json,
            pods: pods
                .iter()
                .enumerate()
                .map(|(at, pod)| {
                    (
                        pod_key(&pod.metadata.namespace, &pod.metadata.name),
                        (at, pod.clone()),
                    )
                })
                .collect(),
            creates: script.object("creates")?.rest(),
            deletes: script.object("deletes")?.rest(),
            patches: script.object("patches")?.rest(),
            workload_gets: ScriptedGets::take(&mut script)?,
            status_puts: script.list("statusPuts")?,
            cancelled,
            creates_called: 0,
            creates_succeeded: 0,
            puts_called: 0,
            base,
            requests: Vec::new(),
        };
        script.finish()?;
        Ok(api)
    }

    /// Answers a batch: creates in the order of indexes, deletes in the order of names.
    pub(super) fn answer_all(&mut self, driver: &mut Driver<ReplicaSetSync>) -> Result<(), String> {
        let requests = driver.sync.requests().to_vec();
        let mut order: Vec<usize> = (0..requests.len()).collect();
        if let Some(Request::DeletePod { .. }) = requests.first() {
            let name = |at: &usize| match &requests[*at] {
                Request::DeletePod { name, .. } => name.clone(),
                other => panic!("a batch of deletes contains {other:?}"),
            };
            order.sort_by_key(name);
            let names: Vec<String> = order.iter().map(|at| name(at).to_string()).collect();
            self.requests
                .push(json!({"verb": "delete", "resource": "pods", "names": names}));
        }
        if let Some(Request::CreatePod { pod: body, .. }) = requests.first() {
            self.note_creates(requests.len(), body);
        }
        for index in order {
            let answer = self.answer(&requests[index])?;
            driver.answer(index, answer);
        }
        Ok(())
    }

    fn note_creates(&mut self, size: usize, body: &Pod) {
        if let Some(last) = self
            .requests
            .last_mut()
            .filter(|last| last["verb"] == "create")
        {
            let batches = last["batches"]
                .as_array_mut()
                .expect("batches are a list, as created below");
            return batches.push(json!(size));
        }
        let mut body = body.to_json();
        let members = body
            .as_object_mut()
            .expect("an object serializes to a JSON object");
        members.remove("apiVersion");
        members.remove("kind");
        self.requests
            .push(json!({"verb": "create", "resource": "pods", "batches": [size], "body": body}));
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, String> {
        let cancelled = || Answer::Failed(ApiError::transport("context canceled"));
        Ok(match request {
            Request::CreatePod { pod: body, .. } => {
                let index = self.creates_called;
                self.creates_called += 1;
                if self.cancelled {
                    return Ok(cancelled());
                }
                if let Some(error) = self.creates.get(&index.to_string()) {
                    return Ok(Answer::Failed(api_error(error)?));
                }
                self.creates_succeeded += 1;
                let mut pod = Pod::clone(body);
                let prefix = pod.metadata.generate_name.as_deref().unwrap_or_default();
                pod.metadata.name = format!("{}{index:05}", &prefix[..prefix.len().min(58)]).into();
                pod.metadata.resource_version = (900_000 + self.creates_succeeded).into();
                if let Some(base) = &self.base {
                    pod.metadata.namespace = base.metadata.namespace.clone();
                }
                Answer::Pod(Arc::new(pod))
            }
            Request::DeletePod { name, .. } => {
                if self.cancelled {
                    return Ok(cancelled());
                }
                match self.deletes.get(&**name) {
                    Some(error) => Answer::Failed(api_error(error)?),
                    None => Answer::Deleted(None),
                }
            }
            Request::PatchOwners {
                kind,
                namespace,
                name,
                patch,
            } => {
                let body = patch.body();
                self.requests.push(
                    json!({"verb": "patch", "resource": kind.resource(), "name": name.as_str(), "body": body}),
                );
                if self.cancelled {
                    return Ok(cancelled());
                }
                if let Some(error) = self.patches.get(&**name) {
                    return Ok(Answer::Failed(api_error(error)?));
                }
                let (at, pod) = self
                    .pods
                    .get(&pod_key(namespace, name))
                    .ok_or("no such pod")?;
                let mut pod = Pod::clone(pod);
                pod.metadata.resource_version = (910_000 + *at as u64).into();
                match patch {
                    OwnerPatch::Adopt { owner, .. } => {
                        pod.metadata.owner_references.push(owner.clone());
                    }
                    OwnerPatch::Release { owner_uid, .. } => {
                        pod.metadata
                            .owner_references
                            .retain(|owner| owner.uid != *owner_uid);
                    }
                }
                Answer::Pod(Arc::new(pod))
            }
            Request::Get { kind, name, .. } => {
                self.requests.push(
                    json!({"verb": "get", "resource": kind.resource(), "name": name.as_str()}),
                );
                if self.cancelled && self.puts_called == 0 {
                    return Ok(cancelled());
                }
                self.get_workload()?
            }
            Request::PutStatus { object } => {
                let object = as_replica_set(object).ok_or("a status of another kind")?;
                self.put_status(&object)?
            }
            other => {
                return Err(format!("upstream never makes this request: {other:?}"));
            }
        })
    }

    fn get_workload(&mut self) -> Result<Answer, String> {
        let live = match self.workload_gets.next(self.workload_json.clone())? {
            Ok(live) => workload(self.kind, live)?,
            Err(error) => return Ok(Answer::Failed(error)),
        };
        if self.puts_called > 0 {
            self.base = Some(live.clone());
        }
        Ok(Answer::Object(live))
    }

    fn put_status(&mut self, object: &Arc<ReplicaSet>) -> Result<Answer, String> {
        let base = self
            .base
            .as_ref()
            .ok_or("a status write without a workload")?;
        // A ReplicationController is sent as such; an absent template becomes an empty one.
        let sent_as = |set: &ReplicaSet| match ReplicationController::from_replica_set(set) {
            Ok(controller) if self.kind == Kind::REPLICATION_CONTROLLER => {
                controller.to_replica_set().spec
            }
            _ => set.spec.clone(),
        };
        if object.spec != sent_as(base) || object.metadata != base.metadata {
            return Err("the status write changes more than the status".to_owned());
        }
        let meta = &object.metadata;
        self.requests.push(json!({
            "verb": "put", "resource": self.kind.resource(), "subresource": "status",
            "name": meta.name.as_str(),
            "body": {
                "metadata": {
                    "name": meta.name.as_str(), "namespace": &*meta.namespace,
                    "uid": meta.uid.to_string(),
                    "resourceVersion": meta.resource_version.to_string(),
                    "generation": meta.generation,
                },
                "status": object.status.to_json(),
            },
        }));
        let script = self
            .status_puts
            .get(self.puts_called)
            .filter(|error| !error.is_null());
        self.puts_called += 1;
        if let Some(error) = script {
            return Ok(Answer::Failed(api_error(error)?));
        }
        let mut updated = ReplicaSet::clone(object);
        updated.metadata.resource_version = (920_000 + self.puts_called as u64).into();
        Ok(Answer::Object(Arc::new(updated)))
    }

    /// Returns the requests. Patches of the same type are sorted by name, as in the recordings.
    pub(super) fn into_requests(mut self) -> Vec<Value> {
        let is_release = |request: &Value| request.to_string().contains("$patch");
        for run in self.requests.chunk_by_mut(|a, b| {
            a["verb"] == "patch" && b["verb"] == "patch" && is_release(a) == is_release(b)
        }) {
            run.sort_by_key(|request| request["name"].to_string());
        }
        self.requests
    }
}

fn pod_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub(super) fn api_error(value: &Value) -> Result<ApiError, String> {
    let mut fields = Fields::new(value.clone(), "error")?;
    if let Some(Value::String(text)) = fields.take("transport") {
        fields.finish()?;
        return Ok(ApiError::transport(text));
    }
    let code = u16::try_from(fields.int("code")?).map_err(|error| error.to_string())?;
    let mut error = ApiError::status(
        code,
        Reason::new(&fields.text("reason")?),
        fields.text("message")?,
    );
    for cause in fields.list("causes")? {
        // Some recordings contain only the type of the cause.
        if let Value::String(reason) = cause {
            error = error.with_cause(Cause {
                reason,
                ..Cause::default()
            });
            continue;
        }
        let mut cause = Fields::new(cause, "cause")?;
        error = error.with_cause(Cause {
            reason: cause.text("reason")?,
            message: cause.text("message")?,
            field: cause.text("field")?,
        });
        cause.finish()?;
    }
    fields.finish()?;
    Ok(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm::object::Now;
    use podstorm_apiserver::{Cluster, ClusterOptions};

    use super::*;
    use crate::requests::{furnish, samples};

    /// A request that the controller never sends is an error.
    #[test]
    fn a_request_without_a_recording_is_an_error() {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        furnish(&cluster, Now::default());
        for sample in samples(&cluster) {
            let script = Fields::new(json!({}), "api").unwrap();
            let api = Api::new(script, Kind::REPLICA_SET, Value::Null, &[], false);
            let answer = api.unwrap().answer(&sample.request);
            let has_answer = matches!(
                sample.request,
                Request::CreatePod { .. } | Request::DeletePod { .. }
            );
            assert_eq!(answer.is_ok(), has_answer, "{:?}", sample.request);
        }
    }
}
