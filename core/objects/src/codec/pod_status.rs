//! `status` of a pod.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Writer, pod_shape};
use crate::decode::{DecodeError, Members, Path};
use crate::shape::check;
use crate::{
    Address, ConditionStatus, ConditionType, ContainerDetails, ContainerId, ContainerStatus,
    ContainerStatuses, Map, PackedTime, PodCondition, PodPhase, PodStart, PodStatus, Time,
};

impl PodStatus {
    pub(super) fn read(value: Value, path: &Path<'_>) -> Result<PodStatus, DecodeError> {
        let mut members = Members::new(value, path)?;
        let init: ContainerStatuses =
            members.list("initContainerStatuses", ContainerStatus::read)?;
        let phase_text = members.text("phase")?;
        let phase = PodPhase::new(&phase_text);
        let conditions = members.list("conditions", PodCondition::read)?;
        let container_statuses = members.list("containerStatuses", ContainerStatus::read)?;
        let mut map = members.into_map();
        check(&map, &pod_shape::POD_STATUS, path)?;
        if phase == PodPhase::Other {
            map.insert("phase".into(), phase_text.into());
        }
        let started = PodStart::take_from(&mut map);
        Ok(PodStatus {
            phase,
            conditions,
            container_statuses,
            init_container_statuses: (!init.is_empty()).then(|| init.into()),
            started: started.map(Arc::new),
            rest: (!map.is_empty()).then(|| map.into()),
        })
    }

    /// Reads `status`; null is empty.
    ///
    /// # Errors
    /// A member of a wrong type.
    pub fn from_json(value: Value) -> Result<PodStatus, DecodeError> {
        PodStatus::read(value, &Path::ROOT)
    }

    /// The JSON object, with unset members left out.
    pub fn to_json(&self) -> Value {
        Value::Object(self.to_map())
    }

    pub(super) fn to_map(&self) -> Map {
        let mut out = Writer::with_rest(&self.rest);
        if let Some(started) = &self.started {
            started.write(&mut out);
        }
        match self.phase.as_str() {
            Some("") => drop(out.0.remove("phase")),
            Some(text) => out.put("phase", text),
            // Its text came with the rest.
            None => {}
        }
        out.put_list(
            "conditions",
            self.conditions.iter().map(PodCondition::to_json),
        );
        let statuses = |list: &[ContainerStatus]| -> Vec<Value> {
            list.iter().map(ContainerStatus::to_json).collect()
        };
        out.put_list(
            "containerStatuses",
            statuses(&self.container_statuses).into_iter(),
        );
        if let Some(init) = &self.init_container_statuses {
            out.put_list("initContainerStatuses", statuses(init).into_iter());
        }
        out.0
    }
}

impl PodStart {
    /// Takes the members out of a status; leaves them all where they say anything else.
    fn take_from(status: &mut Map) -> Option<PodStart> {
        let address = |one: &str, list: &str| -> Option<Address> {
            let ip = status.get(one)?.as_str()?;
            let Value::Array(items) = status.get(list)? else {
                return None;
            };
            let [Value::Object(item)] = items.as_slice() else {
                return None;
            };
            let same = item.len() == 1 && item.get("ip").and_then(Value::as_str) == Some(ip);
            (same && !ip.is_empty()).then(|| ip.into())
        };
        let (host_ip, pod_ip) = (address("hostIP", "hostIPs")?, address("podIP", "podIPs")?);
        let time: Time = status.get("startTime")?.as_str()?.parse().ok()?;
        if time.is_unset() {
            return None;
        }
        for member in ["hostIP", "hostIPs", "podIP", "podIPs", "startTime"] {
            status.remove(member);
        }
        Some(PodStart {
            host_ip,
            pod_ip,
            time,
        })
    }

    fn write(&self, out: &mut Writer) {
        let (host_ip, pod_ip) = (self.host_ip.to_string(), self.pod_ip.to_string());
        out.put("hostIP", host_ip.as_str());
        out.put("hostIPs", json!([{ "ip": host_ip }]));
        out.put("podIP", pod_ip.as_str());
        out.put("podIPs", json!([{ "ip": pod_ip }]));
        out.put_time("startTime", self.time);
    }
}

impl PodPhase {
    /// The phase of that text.
    pub fn new(text: &str) -> PodPhase {
        match text {
            "" => PodPhase::Unset,
            "Pending" => PodPhase::Pending,
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Unknown" => PodPhase::Unknown,
            _ => PodPhase::Other,
        }
    }

    /// The text in the API, empty when unset; `None` for [`PodPhase::Other`], whose text is
    /// elsewhere.
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            PodPhase::Unset => "",
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
            PodPhase::Unknown => "Unknown",
            PodPhase::Other => return None,
        })
    }
}

impl ConditionType {
    /// The text in the API; `None` for [`ConditionType::Other`], whose text is elsewhere.
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            ConditionType::PodScheduled => "PodScheduled",
            ConditionType::PodReadyToStartContainers => "PodReadyToStartContainers",
            ConditionType::Initialized => "Initialized",
            ConditionType::ContainersReady => "ContainersReady",
            ConditionType::Ready => "Ready",
            ConditionType::Other => return None,
        })
    }

    fn new(text: &str) -> ConditionType {
        match text {
            "PodScheduled" => ConditionType::PodScheduled,
            "PodReadyToStartContainers" => ConditionType::PodReadyToStartContainers,
            "Initialized" => ConditionType::Initialized,
            "ContainersReady" => ConditionType::ContainersReady,
            "Ready" => ConditionType::Ready,
            _ => ConditionType::Other,
        }
    }
}

impl ConditionStatus {
    /// The text in the API; `None` for [`ConditionStatus::Other`], whose text is elsewhere.
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
            ConditionStatus::Other => return None,
        })
    }

    fn new(text: &str) -> ConditionStatus {
        match text {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            "Unknown" => ConditionStatus::Unknown,
            _ => ConditionStatus::Other,
        }
    }
}

impl PodCondition {
    fn read(value: Value, path: &Path<'_>) -> Result<PodCondition, DecodeError> {
        let mut members = item(value, path)?;
        let kind_text = members.text("type")?;
        let status_text = members.text("status")?;
        let last_transition_time = members.time("lastTransitionTime")?;
        let (kind, status) = (
            ConditionType::new(&kind_text),
            ConditionStatus::new(&status_text),
        );
        let mut map = members.into_map();
        check(&map, &pod_shape::POD_CONDITION, path)?;
        if kind == ConditionType::Other && !kind_text.is_empty() {
            map.insert("type".into(), kind_text.into());
        }
        if status == ConditionStatus::Other && !status_text.is_empty() {
            map.insert("status".into(), status_text.into());
        }
        let rest = (!map.is_empty()).then(|| map.into());
        Ok(PodCondition {
            kind,
            status,
            last_transition_time: last_transition_time.into(),
            rest,
        })
    }

    fn to_json(&self) -> Value {
        let mut out = Writer::with_rest(&self.rest);
        out.put_some("type", self.kind.as_str());
        out.put_some("status", self.status.as_str());
        out.put_time("lastTransitionTime", self.last_transition_time.get());
        out.into_value()
    }
}

impl ContainerStatus {
    fn read(value: Value, path: &Path<'_>) -> Result<ContainerStatus, DecodeError> {
        let mut members = item(value, path)?;
        let name = members.string("name")?;
        let restart_count = members.i32("restartCount")?;
        let ready = members.opt_flag("ready")?.unwrap_or(false);
        let map = members.into_map();
        check(&map, &pod_shape::CONTAINER_STATUS, path)?;
        Ok(ContainerStatus {
            name,
            restart_count,
            ready,
            details: ContainerDetails::of(map).map(Arc::new),
        })
    }

    fn to_json(&self) -> Value {
        let details = self.details.as_deref();
        let mut out = details.map_or_else(Writer::new, ContainerDetails::write);
        out.put_text("name", &self.name);
        out.put("restartCount", self.restart_count);
        out.put("ready", self.ready);
        out.into_value()
    }
}

impl ContainerDetails {
    /// Takes the container's own members out of what is left of a status.
    fn of(mut map: Map) -> Option<ContainerDetails> {
        if map.is_empty() {
            return None;
        }
        let id = match map.get("containerID") {
            Some(Value::String(text)) => Some(ContainerId::new(text)),
            _ => None,
        };
        if id.is_some() {
            map.remove("containerID");
        }
        let running_since = map.get("state").and_then(running_since);
        if running_since.is_some() {
            map.remove("state");
        }
        Some(ContainerDetails {
            id,
            running_since: PackedTime::new(running_since.unwrap_or(Time::UNSET)),
            rest: (!map.is_empty()).then(|| map.into()),
        })
    }

    fn write(&self) -> Writer {
        let mut out = Writer::with_rest(&self.rest);
        out.put_some("containerID", self.id.as_ref().map(ContainerId::to_string));
        let since = self.running_since.get();
        if !since.is_unset() {
            let running = json!({ "startedAt": since.to_string() });
            out.put("state", json!({ "running": running }));
        }
        out
    }
}

/// The time in a state that is `{"running": {"startedAt": …}}` to the letter.
fn running_since(state: &Value) -> Option<Time> {
    fn only<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
        value.as_object().filter(|map| map.len() == 1)?.get(key)
    }
    let text = only(only(state, "running")?, "startedAt")?.as_str()?;
    let time: Time = text.parse().ok()?;
    (!time.is_unset() && time.to_string() == text).then_some(time)
}

/// Opens an entry of a list, which null is not.
fn item<'p>(value: Value, path: &'p Path<'p>) -> Result<Members<'p>, DecodeError> {
    if value.is_null() {
        return Err(path.mismatch("an object", &value));
    }
    Members::new(value, path)
}
