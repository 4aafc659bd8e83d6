//! Cases of `statefulset_sync`, `statefulset_sync_updates` and `statefulset_sync_claims`: one sync
//! of a StatefulSet.

use std::collections::BTreeMap;

use podstorm::driver::Driver;
use podstorm::object::{Kind, ResourceVersion, Uid};
use podstorm::replicaset::parse_key;
use podstorm::statefulset::{Controller, ControllerOptions};
use serde_json::{Value, json};

use super::harness::{Api, Harness, run as run_sync};
use crate::conformance::{Fields, expect_eq, pruned};

/// The monotonic time of a sync.
const MONO_NS: i64 = 1_000_000_000_000_000;

/// The kinds whose writes are recorded.
const RECORDED: [Kind; 3] = [Kind::PERSISTENT_VOLUME_CLAIM, Kind::POD, Kind::STATEFUL_SET];

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let now = case.now(MONO_NS)?;
    let mut gates = case.object("featureGates")?;
    let mut gate = |name: &str, default: bool| match gates.take(name) {
        None => Ok(default),
        Some(value) => value.as_bool().ok_or("a gate must be on or off"),
    };
    let defaults = ControllerOptions::default();
    let harness = Harness::new(ControllerOptions {
        compares_templates: gate(
            "StatefulSetSemanticRevisionComparison",
            defaults.compares_templates,
        )?,
        uses_max_unavailable: gate("MaxUnavailableStatefulSet", defaults.uses_max_unavailable)?,
        ..defaults
    });
    gates.finish()?;
    let mut cached = BTreeMap::new();
    let set = case.take("set").filter(|set| !set.is_null());
    let all = [
        ("statefulsets", set.into_iter().collect()),
        ("pods", case.list("pods")?),
        ("persistentvolumeclaims", case.list("claims")?),
        ("controllerrevisions", case.list("revisions")?),
    ];
    for (resource, objects) in all {
        for object in objects {
            harness.apply(resource, object.clone(), false, now)?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            cached.insert((resource.to_owned(), name.to_owned()), object);
        }
    }
    let mut api = Api::new(case.object("api")?, cached)?;
    let text = case.text("key")?;
    let mut out = case.object("out")?;
    let key = harness.key(&text);
    read_your_writes(&harness, key, case)?;
    harness.drain(MONO_NS);
    harness.drain_delayed(MONO_NS);
    let (mut class, mut error, mut found) = ("none", None, Vec::new());
    match parse_key(&text) {
        Err(refused) => (class, error) = ("key", Some(refused.to_string())),
        Ok(_) => {
            let mut driver = run_sync(&harness, key, now, &mut api)?;
            if let Some(failure) = driver.sync.failure() {
                error = Some(failure.message.clone());
                class = match failure.label {
                    "stale cache" => "consistency",
                    _ => "error",
                };
            }
            found = events(&mut driver);
        }
    }
    expect_eq("errorClass", &class, &&*out.text("errorClass")?)?;
    out.texts("errorList")?;
    let recorded = out.take("error").filter(|error| !error.is_null());
    let recorded = recorded.as_ref().and_then(Value::as_str);
    // The error text for undecodable data differs between decoders.
    if recorded.is_some_and(|error| error.starts_with("json:")) {
        expect_eq("error", &error.is_some(), &true)?;
    } else {
        let texts = [error.as_deref(), recorded].map(|text| text.map(in_order));
        expect_eq("error", &texts[0], &texts[1])?;
    }
    let delayed = harness.drain_delayed(MONO_NS);
    if error.is_none() {
        expect_eq("addAfter", &json!(delayed), &json!(out.list("addAfter")?))?;
    } else {
        // The retry after the failure is due earlier.
        out.take("addAfter");
    }
    let mut events = out.list("events")?;
    for event in &mut events {
        let message = event["message"].as_str().unwrap_or_default();
        event["message"] = in_order(message).into();
    }
    for all in [&mut events, &mut found] {
        all.sort_by_key(Value::to_string);
    }
    expect_eq("events", &json!(found), &json!(events))?;
    let written = out.list("consistencyWritten")?;
    out.texts("consistencyCleared")?;
    if !["consistency", "key"].contains(&class) {
        let record = harness.controller.written().record(&key);
        for (at, kind) in RECORDED.into_iter().enumerate() {
            let ours = record.as_ref().and_then(|it| it.written[at].as_ref());
            let ours = ours.map(ToString::to_string);
            let of_kind = |it: &&Value| it["resource"] == *kind.group_resource();
            let versions = written.iter().filter(of_kind);
            let versions = versions.filter_map(|it| it["resourceVersion"].as_str()?.parse().ok());
            let newest = versions.max().map(|it: u64| it.to_string());
            expect_eq(&format!("written {kind:?}"), &ours, &newest)?;
        }
    }
    let recorded = comparable(out.list("requests")?);
    let ours = comparable(api.asked);
    for (at, (ours, recorded)) in ours.iter().zip(&recorded).enumerate() {
        expect_eq(&format!("requests[{at}]"), ours, recorded)?;
    }
    expect_eq("requests", &ours.len(), &recorded.len())?;
    out.finish()
}

/// Records the earlier writes, and advances the caches to the versions in the case.
fn read_your_writes(
    harness: &Harness,
    key: podstorm::intern::KeyId,
    case: &mut Fields,
) -> Result<(), String> {
    let Some(before) = case.take("consistencyBefore") else {
        return Ok(());
    };
    let mut before = Fields::new(before, "consistencyBefore")?;
    let uid = Uid::from(before.text("uid")?.as_str());
    let (mut written, mut store) = (before.object("written")?, before.object("store")?);
    for kind in RECORDED {
        let resource = kind.group_resource();
        if let Some(version) = written.take(&resource).as_ref().and_then(Value::as_str) {
            let version = ResourceVersion::new(version);
            harness
                .controller
                .written()
                .wrote_at(key, &uid, kind, &version);
        }
        let reached = ResourceVersion::new(&store.text(&resource)?);
        match harness.informer(kind.resource()) {
            None => harness.pods.bookmark(&reached),
            Some(informer) => informer.bookmark(&reached),
        }
    }
    written.finish()?;
    store.finish()?;
    before.finish()
}

/// Returns the Events of a sync. Messages with several errors get a fixed order.
fn events(driver: &mut Driver<<Controller as podstorm::driver::Workload>::Sync>) -> Vec<Value> {
    use podstorm::driver::SyncState as _;
    let events = driver.sync.events().drain(..);
    let events = events.map(|event| {
        json!({"type": event.kind.as_str(), "reason": event.reason,
            "message": in_order(&event.message.to_string())})
    });
    events.collect()
}

/// Sorts the errors in brackets in a message, because their order is not defined.
fn in_order(text: &str) -> String {
    let Some((before, rest)) = text.split_once('[') else {
        return text.to_owned();
    };
    let Some((list, after)) = rest.rsplit_once(']') else {
        return text.to_owned();
    };
    let mut parts: Vec<&str> = list.split(", ").collect();
    parts.sort_unstable();
    format!("{before}[{}]{after}", parts.join(", "))
}

/// Sorts by name the requests whose order is not defined: a pod's claims, releases and adoptions.
fn comparable(mut requests: Vec<Value>) -> Vec<Value> {
    let step = |request: &Value| request["step"].as_u64();
    let name = |request: &Value| request["name"].as_str().unwrap_or_default().to_owned();
    let group = |request: &Value| {
        let resource = request["resource"].as_str().unwrap_or_default();
        match (request["verb"].as_str(), resource) {
            (Some("create"), "persistentvolumeclaims") => {
                let ordinal = name(request).rsplit_once('-').map(|(_, it)| it.to_owned());
                Some(format!("claims of {ordinal:?}"))
            }
            (Some("patch"), resource) => {
                let is_release = request.to_string().contains("$patch");
                Some(format!("{resource} {is_release}"))
            }
            _ => None,
        }
    };
    let mut free: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate() {
        if let Some(group) = group(request) {
            free.entry(group).or_default().push(at);
        }
    }
    for mut places in free.into_values() {
        let mut steps: Vec<Option<u64>> = places.iter().map(|at| step(&requests[*at])).collect();
        steps.sort_unstable();
        places.sort_by_key(|at| name(&requests[*at]));
        for (at, step) in places.into_iter().zip(steps) {
            requests[at]["step"] = step.into();
        }
    }
    requests.sort_by_key(|it| (step(it), it["resource"].to_string(), name(it)));
    requests.into_iter().map(pruned).collect()
}
