//! The status of a Job: read when the Job arrives, modified by a sync, and written as a whole.

use podstorm_objects::{DynamicObject, Map, Time, Uid};
use serde_json::{Value, json};

/// The status of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobStatus {
    pub(super) conditions: Conditions,
    pub(super) start_time: Option<Time>,
    pub(super) completion_time: Option<Time>,
    pub(super) active: i64,
    pub(super) ready: Option<i64>,
    pub(super) terminating: Option<i64>,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) completed_indexes: String,
    pub(super) failed_indexes: Option<String>,
    pub(super) uncounted: Uncounted,
}

/// `uncountedTerminatedPods`: ended pods that are not in the counters yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Uncounted {
    pub(super) succeeded: Vec<Uid>,
    pub(super) failed: Vec<Uid>,
}

/// The conditions, in the JSON form in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conditions(Vec<Value>);

/// The reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Conditions {
    /// Returns the reason and message of the first true condition of this type, if any.
    pub(super) fn met(&self, kind: &str) -> Option<Reason> {
        let is_met = |it: &&Value| it["type"] == kind && it["status"] == "True";
        let found = self.0.iter().find(is_met)?;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Some(Reason {
            reason: text("reason"),
            message: text("message"),
        })
    }

    /// Returns `Complete` or `Failed` if the Job has finished; otherwise `None`.
    pub(super) fn end(&self) -> Option<&str> {
        let mut ends = self.0.iter().filter(|it| it["status"] == "True");
        ends.find_map(|it| match it["type"].as_str() {
            Some(kind @ ("Complete" | "Failed")) => Some(kind),
            _ => None,
        })
    }

    /// Appends a true condition, even if a condition of this type exists.
    pub(super) fn append(&mut self, kind: &str, reason: &Reason, now: Time) {
        self.0.push(condition(kind, "True", reason, now));
    }

    /// Replaces the first condition of this type by a true one, or appends it.
    pub(super) fn set(&mut self, kind: &str, reason: &Reason, now: Time) {
        let new = condition(kind, "True", reason, now);
        match self.0.iter_mut().find(|it| it["type"] == kind) {
            Some(old) => *old = new,
            None => self.0.push(new),
        }
    }

    /// Sets the condition `Suspended` and returns whether it changed. Writes `False` only if the
    /// condition exists.
    pub(super) fn set_suspended(&mut self, is_suspended: bool, now: Time) -> bool {
        let (status, reason, message) = match is_suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        let reason = Reason {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let new = condition("Suspended", status, &reason, now);
        let said = |it: &Value| ["status", "reason", "message"].map(|name| it[name].clone());
        match self.0.iter_mut().find(|it| it["type"] == "Suspended") {
            Some(old) if said(old) == said(&new) => false,
            Some(old) => {
                *old = new;
                true
            }
            None if is_suspended => {
                self.0.push(new);
                true
            }
            None => false,
        }
    }
}

fn condition(kind: &str, status: &str, reason: &Reason, now: Time) -> Value {
    let now = now.to_string();
    json!({"type": kind, "status": status, "reason": reason.reason, "message": reason.message,
        "lastProbeTime": now, "lastTransitionTime": now})
}

impl JobStatus {
    pub(super) fn read(object: &DynamicObject) -> JobStatus {
        let status = object.fields.get("status").unwrap_or(&Value::Null);
        let number = |name: &str| status[name].as_i64();
        let time = |name: &str| {
            let time: Option<Time> = status[name].as_str()?.parse().ok();
            time.filter(|time| !time.is_unset())
        };
        let uids = |list: &str| {
            let list = status["uncountedTerminatedPods"][list].as_array();
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.map(Uid::from).collect()
        };
        let conditions = status["conditions"].as_array();
        JobStatus {
            conditions: Conditions(conditions.cloned().unwrap_or_default()),
            start_time: time("startTime"),
            completion_time: time("completionTime"),
            active: number("active").unwrap_or(0),
            ready: number("ready"),
            terminating: number("terminating"),
            succeeded: number("succeeded").unwrap_or(0),
            failed: number("failed").unwrap_or(0),
            completed_indexes: status["completedIndexes"]
                .as_str()
                .unwrap_or_default()
                .into(),
            failed_indexes: status["failedIndexes"].as_str().map(str::to_owned),
            uncounted: Uncounted {
                succeeded: uids("succeeded"),
                failed: uids("failed"),
            },
        }
    }

    /// Returns the object with this status. Keeps members of the status that the controller doesn't
    /// know.
    pub(super) fn write(&self, object: &DynamicObject) -> DynamicObject {
        let mut new = object.clone();
        let mut members = match new.fields.remove("status") {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        let mut put = |name: &str, value: Option<Value>| {
            members.remove(name);
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        };
        let conditions = &self.conditions.0;
        put(
            "conditions",
            (!conditions.is_empty()).then(|| conditions.clone().into()),
        );
        put("startTime", self.start_time.map(|it| it.to_string().into()));
        let completed = self.completion_time.map(|it| it.to_string().into());
        put("completionTime", completed);
        let positive = |count: i64| (count != 0).then(|| count.into());
        put("active", positive(self.active));
        put("ready", self.ready.map(Value::from));
        put("terminating", self.terminating.map(Value::from));
        put("succeeded", positive(self.succeeded));
        put("failed", positive(self.failed));
        let indexes = &self.completed_indexes;
        put(
            "completedIndexes",
            (!indexes.is_empty()).then(|| indexes.as_str().into()),
        );
        put(
            "failedIndexes",
            self.failed_indexes.clone().map(Value::from),
        );
        let mut uncounted = Map::new();
        for (name, uids) in [
            ("succeeded", &self.uncounted.succeeded),
            ("failed", &self.uncounted.failed),
        ] {
            if !uids.is_empty() {
                let uids = uids.iter().map(|uid| Value::from(uid.to_string()));
                uncounted.insert(name.to_owned(), uids.collect());
            }
        }
        put("uncountedTerminatedPods", Some(uncounted.into()));
        new.fields.insert("status".to_owned(), members.into());
        new
    }
}
