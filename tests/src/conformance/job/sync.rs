//! Cases of `job_sync`: one whole sync of a Job. If a key is added several times with delays, the
//! earliest addition counts.

use podstorm::job::backoff::Failures;
use podstorm::job::{ControllerOptions, JOBS};
use podstorm::object::{Kind, ResourceVersion, Uid};
use podstorm::replicaset::parse_key;
use serde_json::{Value, json};

use super::harness::{Api, Harness, MONO_NS, events, nanos, run as run_sync, uids};
use crate::conformance::fields::pruned;
use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let now = case.now(MONO_NS)?;
    let text = case.text("key")?;
    let defaults = ControllerOptions::default();
    let most = |count: Option<i64>, default: usize| match count {
        Some(count) => usize::try_from(count).map_err(|error| error.to_string()),
        None => Ok(default),
    };
    let options = ControllerOptions {
        uncounted_max: most(case.opt_int("maxUncountedPods")?, defaults.uncounted_max)?,
        burst: most(case.opt_int("maxPodCreateDeletePerSync")?, defaults.burst)?,
        ..defaults
    };
    let (job, pods) = (case.value("job"), case.list("pods")?);
    let harness = Harness::new(options);
    if !job.is_null() {
        harness.put_job(job.clone())?;
    }
    harness.put_pods(&pods)?;
    let mut api = Api::new(case.object("api")?, job.clone(), &pods)?;
    let mut out = case.object("out")?;
    let unordered = out.texts("orderDependent")?;
    let refused = parse_key(&text).err().map(|error| error.to_string());
    let key = harness.key(&text);
    prepare(&harness, key, case)?;
    harness.drain_delayed(JOBS, MONO_NS);
    harness.new_metrics();
    let mut ours = json!({});
    let recorded = out.list("requests")?;
    let mut failure = None;
    match refused {
        Some(error) => ours["error"] = error.into(),
        None => {
            let mut driver = run_sync(&harness, JOBS, key, now, &mut api)?;
            failure = driver.sync.failure().cloned();
            ours["events"] = events(&mut driver).into();
        }
    }
    let requests = api.into_requests(&recorded);
    let class = out.text("errorClass")?;
    let errors = out.texts("errorOneOf")?;
    out.texts("errorList")?;
    if let Some(failure) = &failure {
        ours["error"] = failure.message.as_str().into();
        if errors.contains(&failure.message) {
            out.take("error");
            ours["error"] = Value::Null;
        }
        expect_eq(
            "errorClass",
            &class_of(failure.label, &failure.message),
            &class.as_str(),
        )?;
    }
    let delayed = harness.drain_delayed(JOBS, MONO_NS);
    if failure.is_none() {
        let least = |all: &mut dyn Iterator<Item = i64>| all.min();
        let recorded = out.list("addAfter")?;
        let recorded = least(&mut recorded.iter().filter_map(|it| it["nanos"].as_i64()));
        let ours = least(&mut delayed.iter().map(|(_, nanos)| *nanos));
        expect_eq("addAfter", &ours, &recorded.map(|nanos| nanos.max(0)))?;
    } else {
        // The retry after the failure is due earlier.
        out.take("addAfter");
    }
    ours["requests"] = comparable(requests).into();
    ours["metrics"] = json!(harness.new_metrics());
    let remembered = harness.controller.remembered(key);
    ours["expectations"] = harness.expectations(key, MONO_NS);
    ours["finalizerExpectations"] = json!({
        "exists": remembered.released.is_some(), "uids": harness.finalizer_expectations(key)});
    let backoff = match out.take("backoff") {
        None => None,
        Some(record) => Some(failures_of(record)?),
    };
    expect_eq("backoff", &remembered.failures, &backoff)?;
    let finished = remembered.finished.iter().map(Uid::to_string);
    let mut finished: Vec<String> = finished.collect();
    finished.sort();
    ours["finished"] = finished.into();
    let written = newest(&out.texts("consistencyWritten")?);
    out.texts("consistencyCleared")?;
    let record = harness.controller.written().record(&key);
    let record = record.map_or([None, None], |record| record.written);
    let shown = |version: &Option<ResourceVersion>| version.as_ref().map(ToString::to_string);
    if failure.as_ref().is_none_or(|it| it.label != "stale cache") {
        expect_eq(
            "consistencyWritten",
            &record.each_ref().map(shown),
            &written,
        )?;
    }
    let mut theirs = out.rest();
    theirs.insert("requests".to_owned(), comparable(recorded).into());
    for member in unordered {
        theirs.remove(&member);
        if let Some(ours) = ours.as_object_mut() {
            ours.remove(&member);
        }
    }
    Fields::new(Value::Object(theirs), "out")?.is(ours)
}

/// Sets the controller's state before the sync.
fn prepare(
    harness: &Harness,
    key: podstorm::intern::KeyId,
    case: &mut Fields,
) -> Result<(), String> {
    let before = case.take("expectationsBefore");
    if let Some(before) = before {
        let mut before = Fields::new(before, "expectationsBefore")?;
        let since_ns = MONO_NS - before.int("ageNanos")?;
        let (add, del) = (before.int("add")?, before.int("del")?);
        harness.controller.expect(key, add, del, since_ns);
        before.finish()?;
    }
    let released = case.texts("finalizerExpectationsBefore")?;
    let finished = case.texts("finishedBefore")?;
    let failures = match case.take("backoffBefore") {
        None => None,
        Some(before) => Some(failures_of(before)?),
    };
    harness.controller.remember(key, |state| {
        state.released = (!released.is_empty()).then(|| uids(&released));
        state.finished = uids(&finished);
        state.failures = failures;
    });
    if let Some(before) = case.take("consistencyBefore") {
        let mut before = Fields::new(before, "consistencyBefore")?;
        let uid = Uid::from(before.text("uid")?.as_str());
        let (mut written, mut store) = (before.object("written")?, before.object("store")?);
        for (name, kind) in [("pods", Kind::POD), ("jobs.batch", Kind::JOB)] {
            if let Some(version) = written.take(name).as_ref().and_then(Value::as_str) {
                let version = ResourceVersion::new(version);
                harness
                    .controller
                    .written()
                    .wrote_at(key, &uid, kind, &version);
            }
            let reached = store.text(name)?;
            let reached = ResourceVersion::new(&reached);
            if kind == Kind::POD {
                harness.pods.bookmark(&reached);
            } else {
                harness.jobs.bookmark(&reached);
            }
        }
        written.finish()?;
        store.finish()?;
        before.finish()?;
    }
    Ok(())
}

/// Parses a record of failures.
fn failures_of(record: Value) -> Result<Failures, String> {
    let mut record = Fields::new(record, "backoff")?;
    let count = record.int("failuresAfterLastSuccess")?;
    let last = record.take("lastFailureTime");
    record.finish()?;
    let last = last.as_ref().and_then(Value::as_str);
    Ok(Failures {
        count: u32::try_from(count).map_err(|error| error.to_string())?,
        last_ns: last.map(nanos).transpose()?,
    })
}

/// Returns the class under which recordings list a failure.
fn class_of(label: &str, text: &str) -> &'static str {
    match label {
        "key" => "key",
        "stale cache" => "consistency",
        "selector" => "selector",
        "identity" => "index",
        "claim failed" => "claim",
        "create failed" => "create",
        "delete failed" => "delete",
        "finalizer failed" => "finalizer",
        "status failed" if text.contains("adding uncounted") => "status-before",
        "status failed" => "status-after",
        _ => "other",
    }
}

/// Returns the newest versions of pods and of Jobs in strings of the form `resource@version`.
fn newest(written: &[String]) -> [Option<String>; 2] {
    ["pods", "jobs.batch"].map(|resource| {
        let of = |text: &String| {
            let (name, version) = text.split_once('@')?;
            let version = version.split(' ').next().unwrap_or_default();
            let number: u64 = version.parse().ok()?;
            (name == resource).then_some(number)
        };
        written.iter().filter_map(of).max().map(|it| it.to_string())
    })
}

/// Sorts the parts of requests that have no defined order: UIDs, and the patches of a claim. The
/// read of the claim comes first.
fn comparable(mut requests: Vec<Value>) -> Vec<Value> {
    for request in &mut requests {
        for list in ["succeeded", "failed"] {
            let uids = format!("/body/status/uncountedTerminatedPods/{list}");
            if let Some(Value::Array(uids)) = request.pointer_mut(&uids) {
                uids.sort_by_key(Value::to_string);
            }
        }
    }
    let is_claim = |request: &Value| request["verb"] == "patch" || request["verb"] == "get";
    for run in requests.chunk_by_mut(|a, b| is_claim(a) && is_claim(b)) {
        run.sort_by_key(|request| (request["verb"].to_string(), request["name"].to_string()));
    }
    requests.into_iter().map(pruned).collect()
}
