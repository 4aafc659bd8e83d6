//! Events, which are stored in `v1`, and their version `events.k8s.io/v1`, which has other names
//! and is stricter.
//!
//! Source: `ValidateEventCreate` and `ValidateEventUpdate` of Kubernetes'
//! `pkg/apis/core/validation`.

use podstorm_objects::{Cause, DecodeError, Event, Kind, Resource, ResourceType};
use serde_json::{Map, Value, json};

use super::version::OtherVersion;
use crate::Strategy;
use crate::errors::{invalid_value, required};
use crate::meta::share;
use crate::validation;

impl Strategy for Event {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_event(self)
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.regarding, &old.regarding);
        share(&mut self.topic, &old.topic);
        share(&mut self.rest, &old.rest);
    }
}

/// `events.k8s.io/v1`.
pub(super) static NEW_GROUP: OtherVersion = OtherVersion {
    row: ResourceType {
        group: "events.k8s.io",
        api_version: "events.k8s.io/v1",
        kind: "Event",
        resource: "events",
        short_names: &["ev"],
        put_creates: true,
        selectable: &[
            "reason",
            "regarding.apiVersion",
            "regarding.fieldPath",
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.resourceVersion",
            "regarding.uid",
            "reportingController",
            "type",
        ],
        ..ResourceType::DEFAULT
    },
    stored: Kind::EVENT,
    to: |event| {
        for (core, name) in EVENT_MEMBERS {
            rename(event, core, name);
        }
        for name in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            event.entry(name).or_insert(Value::Null);
        }
        event.retain(|name, value| !(name.starts_with("reporting") && *value == ""));
        event.entry("deprecatedSource").or_insert_with(|| json!({}));
        event.entry("eventTime").or_insert(Value::Null);
    },
    from: |event, _| {
        for (core, name) in EVENT_MEMBERS {
            rename(event, name, core);
        }
        event.retain(|_, value| !value.is_null());
    },
    checks_metadata: true,
    check,
};

/// The members of Events that have other names in `events.k8s.io`: the core name, the new name.
const EVENT_MEMBERS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

const INSTANCE_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

/// The immutable members, by their names in the core group.
const FIXED: [&str; 13] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reportingComponent",
    "reportingInstance",
    "action",
    "related",
    "type",
    "eventTime",
];

/// Validates an event, which has the form of the core group. Returns the violations.
fn check(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(old) = old else {
        check_new(new, &mut causes);
        return causes;
    };
    if new["series"] != old["series"] {
        check_series(new, &mut causes);
    }
    for member in FIXED {
        let says = |event: &Value| match &event[member] {
            Value::Object(members) if members.is_empty() => Value::Null,
            Value::String(text) if text.is_empty() => Value::Null,
            value => value.clone(),
        };
        if says(new) != says(old) {
            causes.push(invalid_value(
                told(member),
                &new[member],
                "field is immutable",
            ));
        }
    }
    causes
}

/// Returns the name of a member in messages.
fn told(member: &str) -> &str {
    match member {
        "reportingComponent" => "reportingController",
        member => member,
    }
}

fn check_series(event: &Value, causes: &mut Vec<Cause>) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    let count = series["count"].as_i64().unwrap_or(0);
    if count < 2 {
        causes.push(invalid_value(
            "series.count",
            &"".into(),
            "should be at least 2",
        ));
    }
    if series["lastObservedTime"].is_null() {
        causes.push(required("series.lastObservedTime", ""));
    }
}

fn check_new(event: &Value, causes: &mut Vec<Cause>) {
    let text = |member: &str| event[member].as_str().unwrap_or("");
    let has_time = !event["eventTime"].is_null();
    if has_time {
        for member in [
            "reportingComponent",
            "reportingInstance",
            "action",
            "reason",
        ] {
            if text(member).is_empty() {
                causes.push(required(told(member), ""));
            }
            if member == "reportingComponent" {
                let problems = validation::qualified_name_problems(text(member));
                causes.extend(
                    (problems.iter())
                        .map(|problem| invalid_value(told(member), &event[member], problem)),
                );
            }
        }
        for (member, most) in [
            ("reportingInstance", INSTANCE_BYTES_MAX),
            ("action", INSTANCE_BYTES_MAX),
            ("reason", INSTANCE_BYTES_MAX),
            ("message", NOTE_BYTES_MAX),
        ] {
            if text(member).len() > most {
                let detail = format!("can have at most {most} characters");
                causes.push(invalid_value(member, &"".into(), &detail));
            }
        }
    }
    if !has_time {
        causes.push(required("eventTime", ""));
    }
    check_series(event, causes);
    let kind = text("type");
    if !["Normal", "Warning"].contains(&kind) {
        let detail = format!("has invalid value: {kind}");
        causes.push(invalid_value("type", &"".into(), &detail));
    }
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(members) => members.values().any(|member| *member != ""),
        _ => true,
    };
    for member in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if is_set(&event[member]) {
            causes.push(invalid_value(member, &"".into(), "needs to be unset"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    #[test]
    fn new_events_have_the_new_form_and_are_immutable() {
        let event = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "a.b/c",
            "reportingInstance": "c-1", "action": "Binding", "reason": "Bound", "type": "Normal"});
        let fields = |new, old| {
            let causes = check(new, old);
            causes
                .into_iter()
                .map(|cause| cause.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&event, None), [""; 0]);
        let old = json!({"metadata": {"name": "e"}, "count": 2, "type": "Odd", "source": {"component": "kubelet"}});
        assert_eq!(fields(&old, None), ["eventTime", "type", "count", "source"]);
        let mut nameless = event.clone();
        nameless["reportingComponent"] = "".into();
        assert_eq!(fields(&nameless, None), ["reportingController"; 3]);
        let mut changed = event.clone();
        changed["series"] = json!({"count": 1});
        changed["message"] = "x".into();
        assert_eq!(
            fields(&changed, Some(&event)),
            ["series.count", "series.lastObservedTime", "message"]
        );
    }
}
