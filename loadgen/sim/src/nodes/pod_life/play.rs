//! A pod whose life is played in tests, with its statuses and Events.

use podstorm_objects::{Address, Object, Resource};
use serde_json::{Value, json};

use super::status::Place;
use super::*;

/// The time at which the pods of tests are bound, s since the epoch.
pub(super) const BOUND_S: i64 = 1_800_000_000;

/// A pod on its node, whose status is stored after each turn, and a log of the stored statuses.
pub(super) struct Play {
    pub(super) pod: Pod,
    pub(super) life: PodLife,
    pub(super) now_ns: i64,
    log: Vec<String>,
    events: Vec<String>,
    recent: Recent,
}

impl Play {
    /// Returns a bound pod that takes two seconds to start and one to stop.
    pub(super) fn new(spec: Value, script: &str) -> Play {
        let mut spec = spec;
        spec["nodeName"] = json!("node-1");
        let pod = Pod::from_json(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1},
            "spec": spec,
            "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [
                {"type": "PodScheduled", "status": "True",
                 "lastTransitionTime": "2027-01-15T08:00:00Z"}]},
        }))
        .unwrap();
        let script = Script::parse(script);
        let seen = Circumstances {
            script: script.as_ref(),
            rules: &SpecRules::from_pod(&pod, true, true),
            is_unpullable: &|image| image.starts_with("missing"),
            is_present: &|_| false,
            tells: true,
            is_full: true,
            heeds_status: false,
            startup_ns: 2 * SECOND_NS,
            stop_ns: SECOND_NS,
            deleted_ns: 0,
            now_ns: BOUND_S * SECOND_NS,
        };
        let life = PodLife::resume(&pod, &seen);
        let mut play = Play {
            pod,
            life,
            now_ns: BOUND_S * SECOND_NS,
            log: Vec::new(),
            events: Vec::new(),
            recent: Recent::default(),
        };
        play.write();
        play
    }

    /// Plays the pod's life up to the given second after the binding.
    pub(super) fn until(&mut self, second: i64) -> &mut Play {
        let end_ns = (BOUND_S + second) * SECOND_NS;
        loop {
            let goes_on = self.life.turn(self.now_ns);
            self.write();
            if goes_on {
                continue;
            }
            match self.life.next_ns().filter(|next| *next <= end_ns) {
                Some(next_ns) => self.now_ns = next_ns,
                None => break,
            }
        }
        self.now_ns = end_ns;
        self
    }

    pub(super) fn see(&mut self) {
        let missing = |image: &str| image.starts_with("missing");
        self.life.see(&self.pod, &missing, self.now_ns);
        self.write();
    }

    pub(super) fn delete(&mut self, grace: i64) {
        let meta = &mut self.pod.metadata;
        meta.deletion_timestamp =
            podstorm_objects::Time::from_unix_seconds(self.now_ns / SECOND_NS + grace);
        meta.deletion_grace_period_seconds = Some(grace).into();
        meta.generation += 1;
        self.see();
    }

    /// Stores the pod's status, and logs it if it has changed.
    fn write(&mut self) {
        let second = self.now_ns / SECOND_NS - BOUND_S;
        for event in self.life.take_events() {
            let path = event.field_path();
            let part = path.split(['{', '}']).nth(1).unwrap_or("pod");
            let (kind, reason, message) = (event.kind.as_str(), event.reason, event.message);
            let line = format!("{second} {kind} {reason} {part}: {message}");
            self.events.push(line);
        }
        let (host_ip, pod_ip) = (Address::from("10.0.0.1"), Address::from("10.1.0.7"));
        let place = Place {
            start: None,
            host_ip: &host_ip,
            pod_ip: &pod_ip,
            container_id: "",
            image_id: "",
        };
        let status = self.life.status(&self.pod, &place, &mut self.recent);
        if status == self.pod.status {
            return;
        }
        self.pod.status = status;
        let status = self.pod.to_json()["status"].clone();
        let states: Vec<String> = ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .filter_map(|list| status[list].as_array())
            .flatten()
            .map(shown)
            .collect();
        let ready = condition(&status, "Ready");
        let line = format!(
            "{second} {} {ready} | {}",
            text(&status["phase"]),
            states.join(", ")
        );
        self.log.push(line);
    }

    pub(super) fn status(&self) -> Value {
        self.pod.to_json()["status"].clone()
    }

    /// Returns the Events since the last call.
    pub(super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// Returns the lines of the log since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Returns the status, reason and message of a condition.
pub(super) fn condition(status: &Value, kind: &str) -> String {
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let found = conditions.find(|it| it["type"] == kind).unwrap();
    let parts = ["status", "reason", "message"].map(|member| text(&found[member]));
    parts.join(" ").trim_end().to_owned()
}

/// Formats a container as `c running rc 0`.
fn shown(container: &Value) -> String {
    let (kind, state) = container["state"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let state = match kind.as_str() {
        "running" => "running".to_owned(),
        "waiting" => text(&state["reason"]).to_owned(),
        _ => format!("{} {}", text(&state["reason"]), state["exitCode"]),
    };
    format!(
        "{} {state} rc {}",
        text(&container["name"]),
        container["restartCount"]
    )
}

pub(super) fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]})
}

pub(super) fn with_init() -> Value {
    json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 10,
        "initContainers": [{"name": "i", "image": "i:1"},
            {"name": "s", "image": "s:1", "restartPolicy": "Always"}],
        "containers": [{"name": "c", "image": "i:1"}]})
}
