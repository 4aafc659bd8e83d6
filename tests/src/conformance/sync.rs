//! Cases of `sync`: one whole sync against an API that answers as scripted.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, ApiError, Cause, PodPatch, Reason, Request};
use podstorm::controller::{
    Controller, ControllerOptions, Gates, Outcome, Step, Sync, SyncErrorClass, parse_key,
};
use podstorm::object::{Kind, Map, Now, Pod, ReplicaSet, Resource, Time, Uid};
use serde_json::{Value, json};

use super::claim::patch_body;
use super::world::{
    Recorded, expect_same_json, expectations_of, parent, parent_kind, pod, waited_name,
};
use super::{Fields, expect_eq};

/// Where the monotonic clock stands during a sync: late enough for old expectations.
const MONO_NS: i64 = 1_000_000_000_000_000;

/// Runs one case.
pub(super) fn run(case: Value) -> Result<(), String> {
    let mut case = Fields::new(case, "case")?;
    let mut out = case.object("out")?;
    // Where the case comes from, and `nowUnixNano` in another form.
    case.text("category")?;
    case.text("now")?;
    let inputs = case.into_rest();
    let script = inputs.clone();
    let run = run_scripted(Value::Object(inputs))?;
    let mut out = match out.take("chosenUnique") {
        Some(Value::Bool(false)) => {
            out_of_choice(&run, out, &script)?
        }
        _ => out,
    };
    compare(run, &mut out)?;
    out.finish()
}

/// What a sync did.
pub(super) struct Run {
    pub(super) requests: Vec<Value>,
    pub(super) events: Vec<Value>,
    involved: Value,
    error: Option<(String, String, Vec<String>)>,
    expectations: Value,
    added_after: Vec<Value>,
    written: Vec<[String; 4]>,
    cleared: Vec<String>,
    age_ratios: (u64, f64),
}

impl Run {
    /// The text of the error of creating or deleting, if there was one.
    pub(super) fn create_error(&self) -> Option<String> {
        let (class, text, _) = self.error.as_ref()?;
        (class == "create" || class == "delete").then(|| text.clone())
    }
}

/// Runs the inputs of a case; every member must be known.
pub(super) fn run_scripted(inputs: Value) -> Result<Run, String> {
    let mut case = Fields::new(inputs, "case")?;
    let kind = parent_kind(&case.text("kind")?)?;
    let wall_ns = case.int("nowUnixNano")?;
    let now = Now { mono_ns: MONO_NS, wall_ns };
    let key = case.text("key")?;
    let burst = usize::try_from(case.int("burst")?).map_err(|error| error.to_string())?;
    let mut gates = case.object("featureGates")?;
    let terminating_replicas = gates.flag("DeploymentReplicaSetTerminatingReplicas")?;
    gates.finish()?;
    let cancelled = case.flag("contextCancelled")?;
    let parent_json = case.value("parent");
    let siblings = case.list("siblings")?;
    let pods = case.list("pods")?.into_iter().map(pod).collect::<Result<Vec<_>, _>>()?;
    let mut api = Api::new(case.object("api")?, kind, parent_json.clone(), &pods, cancelled)?;
    let cache = Arc::new(PodCache::new());
    let gates = Gates { terminating_replicas, ..Gates::default() };
    let options = ControllerOptions { kind, burst_replicas: burst, gates };
    let controller = Controller::new(options, cache.clone());
    for value in siblings.into_iter().chain((!parent_json.is_null()).then_some(parent_json)) {
        controller.parents().apply(Delta::Applied(parent(kind, value)?));
    }
    for pod in &pods {
        cache.apply(Delta::Applied(pod.clone()));
    }
    let names = match parse_key(&key) {
        Ok(names) => names,
        Err(error) => {
            case.take("expectationsBefore");
            case.take("consistencyBefore");
            case.finish()?;
            return Ok(Run::refused(error.to_string()));
        }
    };
    let id = controller.parents().intern(names.0, names.1);
    set_expectations(&mut case, &controller, names.0, id)?;
    set_consistency(&mut case, &controller, kind, id)?;
    case.finish()?;

    let effects = Recorded::new(&controller);
    let mut sync = Sync::new();
    let mut events = Vec::new();
    let mut involved = Value::Null;
    let mut step = controller.begin_with(id, &mut sync, now, &effects);
    loop {
        for event in sync.take_events() {
            events.push(json!({
                "type": event.kind.as_str(), "reason": event.reason,
                "message": event.message.to_string(),
            }));
            involved = event.regarding.to_json();
        }
        if step == Step::Finished {
            break;
        }
        api.answer_all(&mut sync)?;
        step = controller.resume_with(&mut sync, now, &effects);
    }
    events.sort_by_key(Value::to_string);
    let error = match sync.outcome() {
        Outcome::Ok => None,
        Outcome::Failed(error) => {
            let class = class_text(error.class, &error.details);
            Some((class.to_owned(), error.message.clone(), error.details.clone()))
        }
    };
    let ratios = controller.metrics().sorting_deletion_age_ratio.snapshot();
    Ok(Run {
        requests: api.into_requests(),
        involved,
        events,
        error,
        expectations: expectations_of(&controller, &key, MONO_NS),
        added_after: effects
            .added_after
            .take()
            .into_iter()
            .map(|(key, nanos)| json!({"key": key, "nanos": nanos}))
            .collect(),
        written: effects.written.take(),
        cleared: effects.cleared.take(),
        age_ratios: (ratios.count(), ratios.sum),
    })
}

impl Run {
    fn refused(error: String) -> Run {
        Run {
            requests: Vec::new(),
            events: Vec::new(),
            involved: Value::Null,
            error: Some(("key".to_owned(), error, Vec::new())),
                expectations: json!(
                {"exists": false, "add": 0, "del": 0, "keys": null, "satisfied": true}
            ),
            added_after: Vec::new(),
            written: Vec::new(),
            cleared: Vec::new(),
            age_ratios: (0, 0.0),
        }
    }
}

fn set_expectations(
    case: &mut Fields,
    controller: &Controller,
    namespace: &str,
    id: podstorm::intern::KeyId,
) -> Result<(), String> {
    let Some(before) = case.take("expectationsBefore") else { return Ok(()) };
    let mut before = Fields::new(before, "expectationsBefore")?;
    let stored_at = MONO_NS - before.int("ageNanos")?;
    if let Value::Array(keys) = before.value("keys") {
        let names = keys.iter().filter_map(Value::as_str);
        let names = names.map(|key| waited_name(namespace, key).into());
        controller.expectations().expect_deletions(id, names, stored_at);
    }
    let (add, del) = (before.int("add")?, before.int("del")?);
    controller.expectations().set_expectations(id, add, del, stored_at);
    before.finish()
}

fn set_consistency(
    case: &mut Fields,
    controller: &Controller,
    kind: Kind,
    id: podstorm::intern::KeyId,
) -> Result<(), String> {
    let Some(before) = case.take("consistencyBefore") else { return Ok(()) };
    let mut before = Fields::new(before, "consistencyBefore")?;
    let uid = Uid::new(&before.text("uid")?);
    let mut written = before.object("written")?;
    let mut store = before.object("store")?;
    for (index, resource) in ["pods", kind.resource()].into_iter().enumerate() {
        if let Some(Value::String(version)) = written.take(resource) {
            let version = podstorm::object::ResourceVersion::new(&version);
            controller.consistency().wrote_at(id, &uid, index, &version);
        }
        let reached = podstorm::object::ResourceVersion::new(&store.text(resource)?);
        match index {
            0 => controller.pods().bookmark(&reached),
            _ => controller.parent_bookmark(&reached),
        }
    }
    written.finish()?;
    store.finish()?;
    before.finish()
}

fn class_text(class: SyncErrorClass, details: &[String]) -> &'static str {
    match class {
        SyncErrorClass::Consistency(_) => "consistency",
        SyncErrorClass::Identity => "index",
        SyncErrorClass::Create => "create",
        SyncErrorClass::Delete => "delete",
        SyncErrorClass::Status => "status",
        SyncErrorClass::Claim => {
            let checks = details.iter().filter(|text| text.starts_with("can't adopt Pod")).count();
            match checks {
                0 => "claim",
                all if all == details.len() => "adoptcheck",
                _ => "claim+adoptcheck",
            }
        }
    }
}

/// The scripted API and the record of what it was asked.
struct Api {
    kind: Kind,
    parent_json: Value,
    pods: BTreeMap<String, (usize, Arc<Pod>)>,
    creates: Map,
    deletes: Map,
    patches: Map,
    parent_gets: Option<Vec<Value>>,
    status_puts: Vec<Value>,
    cancelled: bool,
    creates_called: usize,
    creates_succeeded: u64,
    gets_called: usize,
    puts_called: usize,
    /// The object that the next status write must be based on.
    base: Option<Arc<ReplicaSet>>,
    requests: Vec<Value>,
}

impl Api {
    fn new(
        mut script: Fields,
        kind: Kind,
        parent_json: Value,
        pods: &[Arc<Pod>],
        cancelled: bool,
    ) -> Result<Api, String> {
        let base = match &parent_json {
            Value::Null => None,
            value => Some(parent(kind, value.clone())?),
        };
        let api = Api {
            kind,
            parent_json,
            pods: pods
                .iter()
                .enumerate()
                .map(|(at, pod)| (pod_key(&pod.metadata.namespace, &pod.metadata.name), (at, pod.clone())))
                .collect(),
            creates: script.object("creates")?.into_rest(),
            deletes: script.object("deletes")?.into_rest(),
            patches: script.object("patches")?.into_rest(),
            parent_gets: match script.take("parentGets") {
                None => None,
                Some(Value::Array(gets)) => Some(gets),
                Some(other) => return Err(format!("api.parentGets: {other}")),
            },
            status_puts: script.list("statusPuts")?,
            cancelled,
            creates_called: 0,
            creates_succeeded: 0,
            gets_called: 0,
            puts_called: 0,
            base,
            requests: Vec::new(),
        };
        script.finish()?;
        Ok(api)
    }

    /// Answers a batch: creates in index order, deletes in name order.
    fn answer_all(&mut self, sync: &mut Sync) -> Result<(), String> {
        let requests = sync.requests().to_vec();
        let mut order: Vec<usize> = (0..requests.len()).collect();
        if let Some(Request::DeletePod { .. }) = requests.first() {
            let name = |at: &usize| match &requests[*at] {
                Request::DeletePod { name, .. } => name.clone(),
                other => panic!("a batch of deletes holds {other:?}"),
            };
            order.sort_by_key(name);
            let names: Vec<String> = order.iter().map(|at| name(at).to_string()).collect();
            self.requests.push(json!({"verb": "delete", "resource": "pods", "names": names}));
        }
        if let Some(Request::CreatePod { body, .. }) = requests.first() {
            self.note_creates(requests.len(), body);
        }
        for index in order {
            let answer = self.answer(&requests[index])?;
            sync.answer(index, answer);
        }
        Ok(())
    }

    fn note_creates(&mut self, size: usize, body: &Pod) {
        if let Some(last) = self.requests.last_mut().filter(|last| last["verb"] == "create") {
            let batches = last["batches"].as_array_mut().expect("made as a list below");
            return batches.push(json!(size));
        }
        let mut body = body.to_json();
        let members = body.as_object_mut().expect("objects are objects");
        members.remove("apiVersion");
        members.remove("kind");
        self.requests.push(
            json!({"verb": "create", "resource": "pods", "batches": [size], "body": body}),
        );
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, String> {
        let cancelled = || Answer::Failed(ApiError::transport("context canceled"));
        Ok(match request {
            Request::CreatePod { body, .. } => {
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
                    None => Answer::Deleted,
                }
            }
            Request::PatchPod { namespace, name, patch } => {
                let body = patch_body(patch);
                self.requests.push(
                    json!({"verb": "patch", "resource": "pods", "name": name.as_str(), "body": body}),
                );
                if self.cancelled {
                    return Ok(cancelled());
                }
                if let Some(error) = self.patches.get(&**name) {
                    return Ok(Answer::Failed(api_error(error)?));
                }
                let (at, pod) = self.pods.get(&pod_key(namespace, name)).ok_or("no such pod")?;
                let mut pod = Pod::clone(pod);
                pod.metadata.resource_version = (910_000 + *at as u64).into();
                match patch {
                    PodPatch::Adopt { owner, .. } => {
                        pod.metadata.owner_references.push(owner.clone());
                    }
                    PodPatch::Release { owner_uid, .. } => {
                        pod.metadata.owner_references.retain(|owner| owner.uid != *owner_uid);
                    }
                }
                Answer::Pod(Arc::new(pod))
            }
            Request::GetParent { name, .. } => {
                self.requests.push(
                    json!({"verb": "get", "resource": self.kind.resource(), "name": name.as_str()}),
                );
                if self.cancelled && self.puts_called == 0 {
                    return Ok(cancelled());
                }
                self.get_parent()?
            }
            Request::PutStatus { object } => self.put_status(object)?,
        })
    }

    fn get_parent(&mut self) -> Result<Answer, String> {
        let mut live = self.parent_json.clone();
        if let Some(gets) = &self.parent_gets {
            let get = gets.get(self.gets_called.min(gets.len().saturating_sub(1)));
            self.gets_called += 1;
            let mut get = Fields::new(get.cloned().unwrap_or(json!({})), "parentGets")?;
            let (error, merge) = (get.take("error"), get.take("merge"));
            get.finish()?;
            if let Some(error) = error {
                return Ok(Answer::Failed(api_error(&error)?));
            }
            if let Some(merge) = merge {
                merge_patch(&mut live, &merge);
            }
        }
        let live = parent(self.kind, live)?;
        if self.puts_called > 0 {
            self.base = Some(live.clone());
        }
        Ok(Answer::Parent(live))
    }

    fn put_status(&mut self, object: &Arc<ReplicaSet>) -> Result<Answer, String> {
        let base = self.base.as_ref().ok_or("a status write without a parent")?;
        if object.spec != base.spec || object.metadata != base.metadata {
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
        let script = self.status_puts.get(self.puts_called).filter(|error| !error.is_null());
        self.puts_called += 1;
        if let Some(error) = script {
            return Ok(Answer::Failed(api_error(error)?));
        }
        let mut updated = ReplicaSet::clone(object);
        updated.metadata.resource_version = (920_000 + self.puts_called as u64).into();
        Ok(Answer::Parent(Arc::new(updated)))
    }

    /// The requests, patches of one kind in name order as recorded.
    fn into_requests(mut self) -> Vec<Value> {
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

fn api_error(value: &Value) -> Result<ApiError, String> {
    let mut fields = Fields::new(value.clone(), "error")?;
    if let Some(Value::String(text)) = fields.take("transport") {
        fields.finish()?;
        return Ok(ApiError::transport(text));
    }
    let code = u16::try_from(fields.int("code")?).map_err(|error| error.to_string())?;
    let mut error =
        ApiError::status(code, Reason::new(&fields.text("reason")?), fields.text("message")?);
    for cause in fields.list("causes")? {
        let mut cause = Fields::new(cause, "cause")?;
        error.causes.push(Cause {
            reason: cause.text("reason")?,
            message: cause.text("message")?,
            field: cause.text("field")?,
        });
        cause.finish()?;
    }
    fields.finish()?;
    Ok(error)
}

/// RFC 7396.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("made an object above");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The recorded outputs of a case whose victims are not forced, rewritten for the victims that we
/// chose, after checking that the choice is one of those allowed.
fn out_of_choice(run: &Run, mut out: Fields, inputs: &Map) -> Result<Fields, String> {
    let script = inputs.get("api").and_then(|api| api["deletes"].as_object());
    let failure_before = inputs
        .get("parent")
        .and_then(|parent| parent["status"]["conditions"].as_array())
        .and_then(|all| all.iter().find(|condition| condition["type"] == "ReplicaFailure"));
    let now = inputs.get("nowUnixNano").and_then(Value::as_i64).unwrap_or_default();
    let (must, may) = (out.list("mustDelete")?, out.list("mayDelete")?);
    let ours = run.requests.iter().find(|request| request["verb"] == "delete");
    let ours = ours.and_then(|request| request["names"].as_array()).cloned().unwrap_or_default();
    if let Some(kept) = must.iter().find(|name| !ours.contains(name)) {
        return Err(format!("{kept} must be deleted, ours are {ours:?}"));
    }
    if let Some(wrong) = ours.iter().find(|name| !must.contains(name) && !may.contains(name)) {
        return Err(format!("{wrong} must not be deleted"));
    }
    let names: Vec<&str> = ours.iter().filter_map(Value::as_str).collect();
    let error_of = |name: &&str| script.and_then(|script| script.get(*name));
    let is_gone = |error: &Value| error["code"] == 404;
    let mut map = out.into_rest();
    let recorded_error = map.remove("error").unwrap_or_default();
    // Answers come in name order, and the first failure but 404 is the error.
    let failures: Vec<&Value> =
        names.iter().filter_map(error_of).filter(|error| !is_gone(error)).collect();
    let text = |error: &Value| {
        let text = error.get("message").or(error.get("transport")).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let error = match failures.first() {
        None => Value::Null,
        Some(error) => json!(format!("unable to delete pods: {}", text(error))),
    };
    let class = if error.is_null() { "none" } else { "delete" };
    let mut events: Vec<Value> = names
        .iter()
        .filter(|name| error_of(name).is_none())
        .map(|name| ("Normal", "SuccessfulDelete", format!("Deleted pod: {name}")))
        .chain(failures.iter().map(|error| {
            ("Warning", "FailedDelete", format!("Error deleting: {}", text(error)))
        }))
        .map(|(kind, reason, message)| json!({"type": kind, "reason": reason, "message": message}))
        .collect();
    events.sort_by_key(Value::to_string);
    let namespace = |map: &Map| map["involvedObject"]["namespace"].as_str().unwrap_or("").to_owned();
    let namespace = namespace(&map);
    let waiting: Vec<String> = names
        .iter()
        .filter(|name| error_of(name).is_none())
        .map(|name| format!("{namespace}/{name}"))
        .collect();
    map["expectations"]["del"] = json!(waiting.len());
    map["expectations"]["satisfied"] = json!(waiting.is_empty());
    map["expectations"]["keys"] = json!(waiting);
    for request in map["requests"].as_array_mut().ok_or("requests are no list")? {
        match request["verb"].as_str() {
            Some("delete") => request["names"] = json!(names),
            Some("put") if recorded_error != error => {
                let status = &mut request["body"]["status"];
                let conditions = status["conditions"].take();
                let mut conditions = conditions.as_array().cloned().unwrap_or_default();
                conditions.retain(|condition| condition["type"] != "ReplicaFailure");
                if !error.is_null() {
                    // A failure that was recorded before keeps its text and time.
                    conditions.push(failure_before.cloned().unwrap_or_else(|| {
                        json!({
                            "type": "ReplicaFailure", "status": "True", "reason": "FailedDelete",
                            "message": error,
                            "lastTransitionTime": Time::from_unix_nanos(now).to_string(),
                        })
                    }));
                }
                status["conditions"] = json!(conditions);
            }
            _ => {}
        }
    }
    // The observed ages belong to the recorded victims.
    map.remove("sortingAgeRatio");
    let (count, sum) = run.age_ratios;
    if count > 0 {
        map.insert("sortingAgeRatio".into(), json!({"count": count, "sum": sum}));
    }
    map.remove("errorOneOf");
    map.insert("error".into(), error);
    map.insert("errorClass".into(), json!(class));
    map.insert("events".into(), json!(events));
    Fields::new(Value::Object(map), "out")
}

/// Compares a run with the recorded outputs, reading every member of them.
fn compare(run: Run, out: &mut Fields) -> Result<(), String> {
    compare_error(&run, out)?;
    let recorded = out.list("requests")?;
    expect_eq("number of requests", &run.requests.len(), &recorded.len())
        .map_err(|error| format!("{error}: ours {}", json!(run.requests)))?;
    for (index, (ours, recorded)) in run.requests.iter().zip(recorded).enumerate() {
        expect_same_json(&format!("request {index}"), ours.clone(), recorded)?;
    }
    let mut events = out.list("events")?;
    events.sort_by_key(Value::to_string);
    expect_eq("events", &run.events, &events)?;
    expect_eq("expectations", &run.expectations, &out.value("expectations"))?;
    let ratios = match out.take("sortingAgeRatio") {
        None => (0, 0.0),
        Some(ratios) => {
            let mut ratios = Fields::new(ratios, "sortingAgeRatio")?;
            let count = u64::try_from(ratios.int("count")?).map_err(|error| error.to_string())?;
            let sum = ratios.value("sum").as_f64().unwrap_or(f64::NAN);
            ratios.finish()?;
            (count, sum)
        }
    };
    expect_eq("sortingAgeRatio", &run.age_ratios, &ratios)?;
    expect_same_json("involvedObject", run.involved.clone(), out.value("involvedObject"))?;
    expect_eq("addAfter", &run.added_after, &out.list("addAfter")?)?;
    let mut written = Vec::new();
    for record in out.list("consistencyWritten")? {
        let mut record = Fields::new(record, "consistencyWritten")?;
        written.push([
            record.text("owner")?,
            record.text("uid")?,
            record.text("resource")?,
            record.text("resourceVersion")?,
        ]);
        record.finish()?;
    }
    let mut ours = run.written;
    ours.sort();
    written.sort();
    expect_eq("consistencyWritten", &ours, &written)?;
    let cleared: Vec<String> = out
        .list("consistencyCleared")?
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    expect_eq("consistencyCleared", &run.cleared, &cleared)?;
    let skipped = out.text("staleSkip")?;
    let ours = match &run.error {
        Some((class, text, _)) if class == "consistency" => {
            text.rsplit(' ').next().unwrap_or_default().to_owned()
        }
        _ => String::new(),
    };
    expect_eq("staleSkip", &ours, &skipped)
}

fn compare_error(run: &Run, out: &mut Fields) -> Result<(), String> {
    let text = match out.value("error") {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => return Err(format!("out.error: {other}")),
    };
    let class = out.text("errorClass")?;
    let one_of = out.list("errorOneOf")?;
    let list: Vec<String> =
        out.list("errorList")?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let (our_class, our_text, our_list) = match &run.error {
        None => ("none", None, Vec::new()),
        Some((class, text, details)) => (class.as_str(), Some(text.clone()), details.clone()),
    };
    expect_eq("errorClass", &our_class, &class.as_str())?;
    if !list.is_empty() {
        let mut ours = our_list;
        ours.sort();
        return expect_eq("errorList", &ours, &list);
    }
    if !one_of.is_empty() {
        let ours = json!(our_text);
        if !one_of.contains(&ours) {
            return Err(format!("error {ours} is none of {one_of:?}"));
        }
    }
    expect_eq("error", &our_text, &text)
}
