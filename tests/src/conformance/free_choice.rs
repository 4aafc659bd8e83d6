//! Cases of `sync` in which ranking leaves a choice of pods: adapts the recording to our choice.

use podstorm::object::{Map, Time};
use serde_json::{Value, json};

use super::Fields;
use super::sync::Run;

/// Adapts the recorded outputs of a case that leaves a choice of pods to delete to the pods that
/// were chosen here. Checks first that the choice is allowed.
pub(super) fn out_of_choice(run: &Run, mut out: Fields, inputs: &Map) -> Result<Fields, String> {
    let script = inputs.get("api").and_then(|api| api["deletes"].as_object());
    let failure_before = inputs
        .get("parent")
        .and_then(|workload| workload["status"]["conditions"].as_array())
        .and_then(|all| {
            all.iter()
                .find(|condition| condition["type"] == "ReplicaFailure")
        });
    let now = inputs
        .get("nowUnixNano")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let (must, may) = (out.list("mustDelete")?, out.list("mayDelete")?);
    let ours = run
        .requests
        .iter()
        .find(|request| request["verb"] == "delete");
    let ours = ours
        .and_then(|request| request["names"].as_array())
        .cloned()
        .unwrap_or_default();
    if let Some(kept) = must.iter().find(|name| !ours.contains(name)) {
        return Err(format!(
            "{kept} must be deleted, but the deleted pods are {ours:?}"
        ));
    }
    if let Some(wrong) = ours
        .iter()
        .find(|name| !must.contains(name) && !may.contains(name))
    {
        return Err(format!("{wrong} must not be deleted"));
    }
    let names: Vec<&str> = ours.iter().filter_map(Value::as_str).collect();
    let error_of = |name: &&str| script.and_then(|script| script.get(*name));
    let is_gone = |error: &Value| error["code"] == 404;
    let mut map = out.rest();
    let recorded_error = map.remove("error").unwrap_or_default();
    // Answers arrive in the order of names, and the first failure other than a 404 is the error.
    let failures: Vec<&Value> = names
        .iter()
        .filter_map(error_of)
        .filter(|error| !is_gone(error))
        .collect();
    let text = |error: &Value| {
        let text = error
            .get("message")
            .or(error.get("transport"))
            .and_then(Value::as_str);
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
            (
                "Warning",
                "FailedDelete",
                format!("Error deleting: {}", text(error)),
            )
        }))
        .map(|(kind, reason, message)| json!({"type": kind, "reason": reason, "message": message}))
        .collect();
    events.sort_by_key(Value::to_string);
    let namespace = |map: &Map| {
        map["involvedObject"]["namespace"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    let namespace = namespace(&map);
    let waiting: Vec<String> = names
        .iter()
        .filter(|name| error_of(name).is_none())
        .map(|name| format!("{namespace}/{name}"))
        .collect();
    map["expectations"]["del"] = json!(waiting.len());
    map["expectations"]["satisfied"] = json!(waiting.is_empty());
    map["expectations"]["keys"] = json!(waiting);
    for request in map["requests"]
        .as_array_mut()
        .ok_or("requests are not a list")?
    {
        match request["verb"].as_str() {
            Some("delete") => request["names"] = json!(names),
            Some("put") if recorded_error != error => {
                let status = &mut request["body"]["status"];
                let conditions = status["conditions"].take();
                let mut conditions = conditions.as_array().cloned().unwrap_or_default();
                conditions.retain(|condition| condition["type"] != "ReplicaFailure");
                if !error.is_null() {
                    // A failure that was recorded earlier keeps its text and its time.
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
    // The recorded age ratios are those of the recorded pods.
    map.remove("sortingAgeRatio");
    let (count, sum) = run.age_ratios;
    if count > 0 {
        map.insert(
            "sortingAgeRatio".into(),
            json!({"count": count, "sum": sum}),
        );
    }
    map.remove("errorOneOf");
    map.insert("error".into(), error);
    map.insert("errorClass".into(), json!(class));
    map.insert("events".into(), json!(events));
    Fields::new(Value::Object(map), "out")
}
