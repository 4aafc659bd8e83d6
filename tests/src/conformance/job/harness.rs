//! The controller over caches, and an API that answers a sync as scripted by a case.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, Patch, Request};
use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::informer::{AnyInformer, Informers};
use podstorm::intern::KeyId;
use podstorm::job::{Controller, ControllerOptions};
use podstorm::metrics;
use podstorm::object::{AnyObject, DynamicObject, Kind, Map, Now, Object, Pod, Time, Uid};
use podstorm::workqueue::Take;
use serde_json::{Value, json};

use crate::conformance::Fields;
use crate::conformance::scripted_api::{ScriptedGets, api_error};
use crate::conformance::shared::{Flight, pod};

/// The monotonic time of a sync: so late that earlier expectations have expired.
pub(super) const MONO_NS: i64 = 1_000_000_000_000_000;

/// The member of a patch that removes the tracking finalizer of a pod.
const REMOVED: &str = "$deleteFromPrimitiveList/finalizers";

/// Decodes a Job.
pub(super) fn job(value: Value) -> Result<DynamicObject, String> {
    DynamicObject::from_json(Kind::JOB, value).map_err(|error| format!("job: {error}"))
}

/// The Job controller, over caches.
pub(super) struct Harness {
    pub(super) controller: Controller,
    pub(super) jobs: Arc<dyn AnyInformer>,
    pub(super) pods: Arc<PodCache>,
    /// The latest version of each Job.
    cached: RefCell<BTreeMap<String, AnyObject>>,
    /// The counters as of the last call of `new_metrics`.
    told: RefCell<BTreeMap<String, i64>>,
}

impl Harness {
    pub(super) fn new(options: ControllerOptions) -> Harness {
        let pods = Arc::new(PodCache::new());
        let mut informers = Informers::new(Arc::clone(&pods));
        Harness {
            controller: Controller::new(options, &mut informers),
            jobs: informers.take(Kind::JOB),
            pods,
            cached: RefCell::default(),
            told: RefCell::default(),
        }
    }

    pub(super) fn put_job(&self, value: Value) -> Result<(), String> {
        self.put_job_at(value, Now::default())
    }

    pub(super) fn put_job_at(&self, value: Value, now: Now) -> Result<(), String> {
        let job: AnyObject = Arc::new(job(value)?);
        let meta = job.metadata();
        let key = format!("{}/{}", meta.namespace, meta.name);
        self.cached.borrow_mut().insert(key, Arc::clone(&job));
        self.jobs.apply(Delta::Applied(job), now);
        Ok(())
    }

    /// Removes a Job from the cache.
    pub(super) fn lose_job(&self, key: &str, now: Now) {
        if let Some(job) = self.cached.borrow().get(key) {
            self.jobs.apply(Delta::Deleted(Arc::clone(job)), now);
        }
    }

    /// Adds pods to the cache, in this order.
    pub(super) fn put_pods(&self, values: &[Value]) -> Result<Vec<Arc<Pod>>, String> {
        let read = |value: &Value| {
            let pod = pod(value.clone())?;
            self.pods.apply(Delta::Applied(Arc::clone(&pod)));
            Ok(pod)
        };
        values.iter().map(read).collect()
    }

    /// Returns by how much the controller's counters have increased since the last call, under the
    /// names in the recordings.
    pub(super) fn new_metrics(&self) -> BTreeMap<String, i64> {
        let mut new = BTreeMap::new();
        let mut told = self.told.borrow_mut();
        for family in self.controller.families() {
            let Some(name) = family.name.strip_prefix("job_controller_") else {
                continue;
            };
            for series in family.series {
                let mut labels: Vec<String> = series
                    .labels
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                labels.sort();
                let metrics::Value::Number(count) = series.value else {
                    continue;
                };
                let (series, count) = (format!("{name}{{{}}}", labels.join(",")), count as i64);
                let before = told.insert(series.clone(), count).unwrap_or(0);
                if count > before {
                    new.insert(series, count - before);
                }
            }
        }
        new
    }

    /// Returns the id of a key `namespace/name`.
    pub(super) fn key(&self, key: &str) -> KeyId {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.controller.key(namespace, name)
    }

    /// Drains the keys of a queue that are due later. Returns them with their delays.
    pub(super) fn drain_delayed(&self, queue: usize, now_ns: i64) -> Vec<(KeyId, i64)> {
        let mut delayed: Vec<(KeyId, i64)> = self.drain(queue, now_ns);
        let of = &self.controller.queues()[queue];
        while let Some(due_ns) = of.next_due() {
            of.fire_due(due_ns);
            let keys = self.drain(queue, due_ns).into_iter();
            delayed.extend(keys.map(|(key, _)| (key, due_ns - now_ns)));
        }
        delayed
    }

    fn drain(&self, queue: usize, now_ns: i64) -> Vec<(KeyId, i64)> {
        let of = &self.controller.queues()[queue];
        let mut keys = Vec::new();
        while let Take::Key(key) = of.try_take(now_ns) {
            of.done(key, now_ns);
            keys.push((key, 0));
        }
        keys
    }

    /// Returns the expectations of a key.
    pub(super) fn expectations(&self, key: KeyId, now_ns: i64) -> Value {
        let counts = self.controller.expected(key);
        let (add, del) = counts.map_or((0, 0), |counts| (counts.add, counts.del));
        let is_old = counts.is_some_and(|it| now_ns - it.timestamp_ns > 300_000_000_000);
        let satisfied = counts.is_none() || add <= 0 && del <= 0 || is_old;
        json!({"exists": counts.is_some(), "add": add, "del": del, "satisfied": satisfied})
    }

    /// Returns the pods whose finalizers were removed while the cache still shows them.
    pub(super) fn finalizer_expectations(&self, key: KeyId) -> Vec<String> {
        let released = self.controller.remembered(key).released;
        let uids = released.into_iter().flatten();
        let mut uids: Vec<String> = uids.map(|uid| uid.to_string()).collect();
        uids.sort();
        uids
    }
}

/// Runs the sync of a key from a queue. Among the requests in flight at the same time, patches are
/// answered first, then deletes, each in the order of names.
///
/// # Errors
/// Fails if the API can't answer a request.
pub(super) fn run(
    harness: &Harness,
    queue: usize,
    key: KeyId,
    now: Now,
    api: &mut Api,
) -> Result<Driver<<Controller as Workload>::Sync>, String> {
    let of = &harness.controller.queues()[queue];
    of.add(key, now.mono_ns);
    let _taken = of.try_take(now.mono_ns);
    let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
    let mut flight = Flight::default();
    let mut progress = driver.begin(&harness.controller, queue, key, &mut flight, now);
    while progress == Progress::Waiting {
        let mut sent = std::mem::take(&mut flight.0);
        sent.sort_by_key(|(_, request)| order(request));
        api.flights += 1;
        let count = sent.len();
        for (at, (index, request)) in sent.into_iter().enumerate() {
            let answer = api.answer(&request)?;
            driver.answer(index, answer);
            progress = driver.poll(&harness.controller, &mut flight, now);
            assert!(at + 1 == count || progress == Progress::Waiting);
        }
    }
    driver.finish(&harness.controller, now);
    Ok(driver)
}

fn order(request: &Request) -> (u8, String) {
    match request {
        Request::Patch { name, .. } => (1, name.to_string()),
        Request::DeletePod { name, .. } => (2, name.to_string()),
        _ => (0, String::new()),
    }
}

/// The scripted API, and a log of its requests.
pub(super) struct Api {
    job: Value,
    pods: BTreeMap<String, (usize, Value)>,
    creates: Map,
    deletes: Map,
    patches: Map,
    parent_gets: ScriptedGets,
    status_puts: Vec<Value>,
    created: usize,
    stored: u64,
    puts: usize,
    flights: usize,
    /// The Job on which the next status write must be based.
    base: Value,
    /// The requests in order, each with the number of the batch in which it was in flight.
    asked: Vec<(usize, Asked)>,
}

/// A request in the form of the recordings.
#[derive(Clone, Debug)]
enum Asked {
    Create(Value),
    Delete(String),
    /// The removal of the tracking finalizer from a pod.
    RemoveFinalizer(String),
    Other(Value),
}

impl Api {
    pub(super) fn new(mut script: Fields, job: Value, pods: &[Value]) -> Result<Api, String> {
        let name = |pod: &Value| {
            pod["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let pods = pods.iter().enumerate();
        let api = Api {
            pods: pods
                .map(|(at, pod)| (name(pod), (at, pod.clone())))
                .collect(),
            creates: script.object("creates")?.rest(),
            deletes: script.object("deletes")?.rest(),
            patches: script.object("patches")?.rest(),
            parent_gets: ScriptedGets::take(&mut script)?,
            status_puts: script.list("statusPuts")?,
            created: 0,
            stored: 0,
            puts: 0,
            flights: 0,
            base: job.clone(),
            job,
            asked: Vec::new(),
        };
        script.finish()?;
        Ok(api)
    }

    fn note(&mut self, asked: Asked) {
        self.asked.push((self.flights, asked));
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, String> {
        match request {
            Request::CreatePod { pod, .. } => self.create(pod),
            Request::DeletePod {
                name, uid: None, ..
            } => {
                self.note(Asked::Delete(name.to_string()));
                match self.deletes.get(&**name) {
                    Some(error) => Ok(Answer::Failed(api_error(error)?)),
                    None => Ok(Answer::Deleted(None)),
                }
            }
            Request::Patch {
                kind,
                name,
                patch,
                of_status: false,
                ..
            } if *kind == Kind::POD => self.patch(name, patch),
            Request::Get { kind, name, .. } if *kind == Kind::JOB => {
                let noted = json!({"verb": "get", "resource": "jobs", "name": name.as_str()});
                self.note(Asked::Other(noted));
                self.get()
            }
            Request::PutStatus { object } => self.put_status(object),
            other => Err(format!("upstream never makes this request: {other:?}")),
        }
    }

    fn create(&mut self, pod: &Pod) -> Result<Answer, String> {
        let mut body = pod.to_json();
        let members = body
            .as_object_mut()
            .expect("an object serializes to a JSON object");
        members.remove("apiVersion");
        members.remove("kind");
        self.note(Asked::Create(body));
        let at = self.created;
        self.created += 1;
        if let Some(error) = self.creates.get(&at.to_string()) {
            return Ok(Answer::Failed(api_error(error)?));
        }
        self.stored += 1;
        let mut pod = pod.clone();
        let prefix = pod.metadata.generate_name.as_deref().unwrap_or_default();
        pod.metadata.name = format!("{}{at:05}", &prefix[..prefix.len().min(58)]).into();
        pod.metadata.namespace = "ns".into();
        pod.metadata.resource_version = (900_000 + self.stored).into();
        Ok(Answer::Pod(Arc::new(pod)))
    }

    fn patch(&mut self, name: &str, patch: &Patch) -> Result<Answer, String> {
        let body = patch.strategic();
        let body = body.ok_or_else(|| format!("expected a strategic merge patch: {patch:?}"))?;
        let metadata = &body["metadata"];
        let names_owner = metadata.get("ownerReferences").is_some();
        self.note(match names_owner {
            true => Asked::Other(json!({"verb": "patch", "resource": "pods", "name": name,
                "body": body})),
            false => Asked::RemoveFinalizer(name.to_owned()),
        });
        if !names_owner && *metadata != json!({REMOVED: ["batch.kubernetes.io/job-tracking"]}) {
            return Err(format!("upstream never sends this patch: {metadata}"));
        }
        if let Some(error) = self.patches.get(name) {
            return Ok(Answer::Failed(api_error(error)?));
        }
        let (at, stored) = self.pods.get(name).ok_or("no such pod")?;
        let mut pod = Pod::clone(&*pod(stored.clone())?);
        pod.metadata.resource_version = (910_000 + *at as u64).into();
        Ok(Answer::Pod(Arc::new(pod)))
    }

    fn get(&mut self) -> Result<Answer, String> {
        Ok(match self.parent_gets.next(self.job.clone())? {
            Ok(live) => Answer::Object(Arc::new(job(live)?)),
            Err(error) => Answer::Failed(error),
        })
    }

    fn put_status(&mut self, object: &AnyObject) -> Result<Answer, String> {
        let body = object.to_json();
        let but_status = |body: &Value| {
            let mut body = body.clone();
            for member in ["status", "apiVersion", "kind"] {
                body.as_object_mut().map(|body| body.remove(member));
            }
            body
        };
        if but_status(&body) != but_status(&job(self.base.clone())?.to_json()) {
            return Err("the status write changes more than the status".to_owned());
        }
        let names = ["name", "namespace", "uid", "resourceVersion", "generation"];
        let metadata = names.map(|name| (name.to_owned(), body["metadata"][name].clone()));
        let noted = json!({"verb": "put", "resource": "jobs", "subresource": "status",
            "body": {"metadata": Map::from_iter(metadata), "status": body["status"]}});
        self.note(Asked::Other(noted));
        let error = self.status_puts.get(self.puts).filter(|it| !it.is_null());
        self.puts += 1;
        if let Some(error) = error {
            return Ok(Answer::Failed(api_error(error)?));
        }
        let mut stored = body;
        stored["metadata"]["resourceVersion"] = (920_000 + self.puts).to_string().into();
        self.base = stored.clone();
        Ok(Answer::Object(Arc::new(job(stored)?)))
    }

    /// Returns the requests of the sync in the form of the recordings. The recording determines
    /// whether a run of finalizer patches is the beginning of a deletion of pods or is separate.
    pub(super) fn into_requests(self, recorded: &[Value]) -> Vec<Value> {
        let mut requests: Vec<Value> = Vec::new();
        let mut asked = self.asked.into_iter().peekable();
        while let Some((flight, next)) = asked.next() {
            match next {
                Asked::Other(request) => requests.push(request),
                Asked::Create(body) => {
                    let mut batches = vec![vec![body]];
                    let mut last = flight;
                    while let Some((flight, Asked::Create(body))) =
                        asked.next_if(|(_, next)| matches!(next, Asked::Create(_)))
                    {
                        if flight != last {
                            batches.push(Vec::new());
                        }
                        last = flight;
                        batches
                            .last_mut()
                            .expect("there is at least one batch")
                            .push(body);
                    }
                    let batches: Vec<Vec<Value>> = batches.into_iter().map(collapsed).collect();
                    requests.push(json!({"verb": "createPods", "batches": batches}));
                }
                Asked::Delete(_) | Asked::RemoveFinalizer(_) => {
                    let is_deletion = recorded
                        .get(requests.len())
                        .is_some_and(|it| it["verb"] == "deletePods");
                    let (mut first, mut deleted) = (Vec::new(), Vec::new());
                    let mut patches_of = flight;
                    let mut one = Some((flight, next));
                    while let Some((flight, next)) = one {
                        match next {
                            Asked::RemoveFinalizer(name) => first.push(name),
                            Asked::Delete(name) => deleted.push(name),
                            Asked::Create(_) | Asked::Other(_) => {}
                        }
                        patches_of = if deleted.is_empty() {
                            flight
                        } else {
                            patches_of
                        };
                        one = asked.next_if(|(flight, next)| match next {
                            Asked::RemoveFinalizer(_) => *flight == patches_of,
                            Asked::Delete(_) => is_deletion,
                            Asked::Create(_) | Asked::Other(_) => false,
                        });
                    }
                    first.sort();
                    deleted.sort();
                    requests.push(match is_deletion {
                        true => json!({"verb": "deletePods", "finalizerFirst": first, "delete": deleted}),
                        false => json!({"verb": "removeFinalizers", "names": first,
                            "delete": deleted}),
                    });
                }
            }
        }
        requests
    }
}

/// Combines equal bodies in a batch and adds their number.
fn collapsed(batch: Vec<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for body in batch {
        match all.last_mut() {
            Some(last) if last["body"] == body => {
                let count = last["count"].as_i64().unwrap_or(0) + 1;
                last["count"] = count.into();
            }
            _ => all.push(json!({"count": 1, "body": body})),
        }
    }
    all
}

/// Returns the Events of a sync, sorted.
pub(super) fn events(driver: &mut Driver<<Controller as Workload>::Sync>) -> Vec<Value> {
    let events = driver.sync.events().drain(..);
    let mut events: Vec<Value> = events
        .map(|event| {
            json!({"type": event.kind.as_str(), "reason": event.reason,
                "message": event.message.to_string()})
        })
        .collect();
    events.sort_by_key(Value::to_string);
    events
}

/// Converts a list of UIDs.
pub(super) fn uids(texts: &[String]) -> std::collections::BTreeSet<Uid> {
    texts.iter().map(|text| Uid::from(text.as_str())).collect()
}

/// Parses a time with a fraction, in nanoseconds since the Unix epoch.
pub(super) fn nanos(text: &str) -> Result<i64, String> {
    let time: Time = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let seconds = time.unix_seconds().unwrap_or(0);
    let fraction = text
        .split_once('.')
        .map_or("", |(_, rest)| rest.trim_end_matches('Z'));
    let digits = format!("{fraction:0<9}");
    let nanos: i64 = digits.parse().map_err(|error| format!("{text}: {error}"))?;
    Ok(seconds * 1_000_000_000 + nanos)
}
