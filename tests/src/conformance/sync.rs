//! Cases of `sync`: one whole sync with a scripted API.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, Progress, Transport};
use podstorm::object::{Kind, Now, ResourceVersion, Uid};
use podstorm::policy::Behaviour;
use podstorm::replicaset::{
    Controller, ControllerOptions, Gates, Outcome, ReplicaSetSync, SyncErrorClass, parse_key,
};
use serde_json::{Value, json};

use super::free_choice::out_of_choice;
use super::scripted_api::Api;
use super::shared::{
    drain_delayed, expectations_of, owner_key, pod, waited_name, workload, workload_kind,
};
use super::{Fields, expect_eq, expect_same_json};

/// The monotonic time of a sync: so late that earlier expectations have expired.
const MONO_NS: i64 = 1_000_000_000_000_000;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let mut out = case.object("out")?;
    // Ignore the origin of the case, and another form of `nowUnixNano`.
    case.text("category")?;
    case.text("now")?;
    let inputs = case.rest();
    let script = inputs.clone();
    let run = run_scripted(Value::Object(inputs))?;
    let mut out = match out.take("chosenUnique") {
        Some(Value::Bool(false)) => out_of_choice(&run, out, &script)?,
        _ => out,
    };
    compare(run, &mut out)?;
    out.finish()
}

/// The effects of a sync.
pub(super) struct Run {
    pub(super) requests: Vec<Value>,
    pub(super) events: Vec<Value>,
    involved: Value,
    error: Option<(String, String, Vec<String>)>,
    expectations: Value,
    added_after: Vec<Value>,
    /// The controller with its read-your-writes records; `None` if the key was rejected.
    controller: Option<Arc<Controller>>,
    pub(super) age_ratios: (u64, f64),
}

impl Run {
    /// Returns the error text of a failed create or delete; `None` if there was no such error.
    pub(super) fn create_error(&self) -> Option<String> {
        let (class, text, _) = self.error.as_ref()?;
        (class == "create" || class == "delete").then(|| text.clone())
    }
}

/// Runs a case with these inputs. Every member must be known.
pub(super) fn run_scripted(inputs: Value) -> Result<Run, String> {
    let mut case = Fields::new(inputs, "case")?;
    let kind = workload_kind(&case.text("kind")?)?;
    let wall_ns = case.int("nowUnixNano")?;
    let now = Now {
        mono_ns: MONO_NS,
        wall_ns,
    };
    let key = case.text("key")?;
    let burst = usize::try_from(case.int("burst")?).map_err(|error| error.to_string())?;
    let mut gates = case.object("featureGates")?;
    let terminating_replicas = gates.flag("DeploymentReplicaSetTerminatingReplicas")?;
    gates.finish()?;
    let cancelled = case.flag("contextCancelled")?;
    let workload_json = case.value("parent");
    let siblings = case.list("siblings")?;
    let pods = case.all("pods", pod)?;
    let mut api = Api::new(
        case.object("api")?,
        kind,
        workload_json.clone(),
        &pods,
        cancelled,
    )?;
    let cache = Arc::new(PodCache::new());
    let gates = Gates {
        terminating_replicas,
        ..Gates::default()
    };
    let options = ControllerOptions {
        kind,
        burst_replicas: burst,
        gates,
        policy: Behaviour::Upstream.policy(),
    };
    let (controller, _) = Controller::alone(options, cache.clone());
    for value in siblings
        .into_iter()
        .chain((!workload_json.is_null()).then_some(workload_json))
    {
        controller.owners().apply(
            Delta::Applied(workload(kind, value)?),
            controller.queue(),
            Now::default(),
        );
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
    let id = controller.owners().intern(names.0, names.1);
    set_expectations(&mut case, &controller, names.0, id)?;
    set_consistency(&mut case, &controller, kind, id)?;
    case.finish()?;

    let mut driver = Driver::<ReplicaSetSync>::default();
    let mut events = Vec::new();
    let mut involved = Value::Null;
    let mut progress = driver.begin(&*controller, 0, id, &mut AnswersLater, now);
    loop {
        for event in driver.sync.take_events() {
            events.push(json!({
                "type": event.kind.as_str(), "reason": event.reason,
                "message": event.message.to_string(),
            }));
            involved = event.regarding.to_json();
        }
        if progress == Progress::Finished {
            break;
        }
        api.answer_all(&mut driver)?;
        progress = driver.poll(&*controller, &mut AnswersLater, now);
    }
    events.sort_by_key(Value::to_string);
    let error = match driver.sync.outcome() {
        Outcome::Ok => None,
        Outcome::Failed(error) => {
            let class = class_text(error.class, &error.details);
            Some((
                class.to_owned(),
                error.message.clone(),
                error.details.clone(),
            ))
        }
    };
    let ratios = controller.metrics().sorting_deletion_age_ratio.snapshot();
    Ok(Run {
        requests: api.into_requests(),
        involved,
        events,
        error,
        expectations: expectations_of(&controller, &key, MONO_NS),
        added_after: drain_delayed(&controller, MONO_NS),
        controller: Some(controller),
        age_ratios: (ratios.count(), ratios.sum),
    })
}

/// A transport that leaves requests unanswered, for cases that answer whole batches.
struct AnswersLater;

impl Transport for AnswersLater {
    fn send(&mut self, _: usize, _: &Request, _: Now) -> Option<Answer> {
        None
    }
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
            controller: None,
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
    let Some(before) = case.take("expectationsBefore") else {
        return Ok(());
    };
    let mut before = Fields::new(before, "expectationsBefore")?;
    let stored_at = MONO_NS - before.int("ageNanos")?;
    if let Value::Array(keys) = before.value("keys") {
        let names = keys.iter().filter_map(Value::as_str);
        let names = names.map(|key| waited_name(namespace, key).into());
        controller
            .expectations()
            .expect_deletions(id, names, stored_at);
    }
    let (add, del) = (before.int("add")?, before.int("del")?);
    controller
        .expectations()
        .set_expectations(id, add, del, stored_at);
    before.finish()
}

fn set_consistency(
    case: &mut Fields,
    controller: &Controller,
    kind: Kind,
    id: podstorm::intern::KeyId,
) -> Result<(), String> {
    let Some(before) = case.take("consistencyBefore") else {
        return Ok(());
    };
    let mut before = Fields::new(before, "consistencyBefore")?;
    let uid = Uid::new(&before.text("uid")?);
    let mut written = before.object("written")?;
    let mut store = before.object("store")?;
    for of in [Kind::POD, kind] {
        if let Some(Value::String(version)) = written.take(of.resource()) {
            let version = ResourceVersion::new(&version);
            controller.consistency().wrote_at(id, &uid, of, &version);
        }
        let reached = ResourceVersion::new(&store.text(of.resource())?);
        if of == Kind::POD {
            controller.pods().bookmark(&reached);
        } else {
            controller.owners().bookmark(&reached);
        }
    }
    written.finish()?;
    store.finish()?;
    before.finish()
}

fn class_text(class: SyncErrorClass, details: &[String]) -> &'static str {
    match class {
        SyncErrorClass::Consistency(_) => "consistency",
        SyncErrorClass::Fence => "fence",
        SyncErrorClass::Identity => "index",
        SyncErrorClass::Create => "create",
        SyncErrorClass::Delete => "delete",
        SyncErrorClass::Status => "status",
        SyncErrorClass::Claim => {
            let checks = details
                .iter()
                .filter(|text| text.starts_with("can't adopt Pod"))
                .count();
            match checks {
                0 => "claim",
                all if all == details.len() => "adoptcheck",
                _ => "claim+adoptcheck",
            }
        }
    }
}

/// Compares a run with the recorded outputs. Reads every member of the outputs.
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
    expect_eq(
        "expectations",
        &run.expectations,
        &out.value("expectations"),
    )?;
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
    expect_same_json(
        "involvedObject",
        run.involved.clone(),
        out.value("involvedObject"),
    )?;
    expect_eq("addAfter", &run.added_after, &out.list("addAfter")?)?;
    let skipped = out.text("staleSkip")?;
    compare_records(run.controller.as_deref(), out, !skipped.is_empty())?;
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
    let list: Vec<String> = out
        .list("errorList")?
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
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
            return Err(format!("error {ours} is not one of {one_of:?}"));
        }
    }
    expect_eq("error", &our_text, &text)
}

/// Compares the read-your-writes records with the recorded ones: for each owner, the newest written
/// version of each kind. A postponed sync does not change the records.
fn compare_records(
    controller: Option<&Controller>,
    out: &mut Fields,
    put_off: bool,
) -> Result<(), String> {
    let mut recorded: BTreeMap<String, (Uid, [Option<u64>; 2])> = BTreeMap::new();
    for record in out.list("consistencyWritten")? {
        let mut record = Fields::new(record, "consistencyWritten")?;
        let uid = Uid::new(&record.text("uid")?);
        let of_pods = record.text("resource")? == "pods";
        let version = ResourceVersion::new(&record.text("resourceVersion")?).number();
        let owner = recorded.entry(record.text("owner")?);
        let (_, written) = owner.or_insert((uid, [None; 2]));
        let newest = &mut written[usize::from(!of_pods)];
        *newest = version.max(*newest);
        record.finish()?;
    }
    let cleared = out.list("consistencyCleared")?;
    let Some(controller) = controller else {
        return expect_eq("consistencyWritten", &recorded, &BTreeMap::new());
    };
    let number = |version: Option<ResourceVersion>| version.and_then(|it| it.number());
    let ours: BTreeMap<_, _> = recorded
        .keys()
        .filter_map(|owner| {
            let record = controller
                .consistency()
                .record(&owner_key(controller, owner))?;
            Some((owner.clone(), (record.uid, record.written.map(number))))
        })
        .collect();
    expect_eq("consistencyWritten", &ours, &recorded)?;
    for owner in cleared.iter().filter_map(Value::as_str) {
        let key = owner_key(controller, owner.trim_end_matches('='));
        expect_eq("cleared", &controller.consistency().record(&key), &None)?;
    }
    let others = controller.consistency().len() - ours.len();
    expect_eq("records of others", &others, &usize::from(put_off))
}
