//! JSON of a pod's `status`.

use std::sync::Arc;

use serde_json::Value;

use super::{item, pod_shape};
use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Tape, Writer};
use crate::shape::check;
use crate::{
    Address, ConditionStatus, ConditionType, ContainerDetails, ContainerId, ContainerStatus,
    ContainerStatuses, PackedTime, PodCondition, PodPhase, PodStart, PodStatus, Time,
};

impl PodStatus {
    pub(super) fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<PodStatus, DecodeError> {
        let mut members = Members::new(value, path)?;
        check(value, &pod_shape::POD_STATUS, path)?;
        let conditions = members.list("conditions", PodCondition::read)?;
        let container_statuses = members.list("containerStatuses", ContainerStatus::read)?;
        let init: ContainerStatuses =
            members.list("initContainerStatuses", ContainerStatus::read)?;
        let phase = PodPhase::new(members.text("phase")?);
        if phase == PodPhase::Other {
            members.put_back("phase");
        }
        let started = PodStart::take_from(&mut members);
        Ok(PodStatus {
            phase,
            conditions,
            container_statuses,
            init_container_statuses: (!init.is_empty()).then(|| init.into()),
            started: started.map(Arc::new),
            rest: members.rest(),
        })
    }

    /// Reads `status`. Null reads as an empty status.
    ///
    /// # Errors
    /// Fails if a member has a wrong type.
    pub fn from_json(value: Value) -> Result<PodStatus, DecodeError> {
        PodStatus::read(Tape::new(&value).root(), &Path::ROOT)
    }

    /// Returns the JSON object. Unset members are omitted.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        if let Some(started) = &self.started {
            started.write(out);
        }
        out.put_text("phase", self.phase.as_str().unwrap_or(""));
        out.put_objects("conditions", self.conditions.iter(), |out, it| {
            it.write(out)
        });
        let status = |out: &mut Writer, status: &ContainerStatus| status.write(out);
        out.put_objects("containerStatuses", &self.container_statuses, status);
        out.put_objects("initContainerStatuses", self.init_statuses(), status);
        // An unread member stays in `rest` when its typed member is set later. The typed member
        // then takes precedence.
        let of_start = |member| self.started.as_ref().map(|_| member);
        let has_address = |start: &&Arc<PodStart>| !start.pod_ip.is_empty();
        let of_address = |member| self.started.as_ref().filter(has_address).map(|_| member);
        out.put_rest_but(
            &self.rest,
            &[
                self.phase.as_str().map(|_| "phase"),
                of_start("hostIP"),
                of_start("hostIPs"),
                of_address("podIP"),
                of_address("podIPs"),
                of_start("startTime"),
            ],
        );
    }
}

impl PodStart {
    /// Takes the members of a pod's start out of a status. The members with the pod's address may
    /// be absent. Takes none of them and returns `None` if any has another form.
    fn take_from(members: &mut Members<'_, '_>) -> Option<PodStart> {
        let mut address = |one: &str, list: &str, is_needed: bool| -> Option<Address> {
            if !is_needed && members.look(one).is_none() && members.look(list).is_none() {
                return Some(Address::default());
            }
            let ip = members.look(one)?.as_str()?;
            let item = only(members.look(list)?.items())?;
            let (name, value) = only(item.pairs())?;
            let same = name == "ip" && value.as_str() == Some(ip);
            (same && !ip.is_empty()).then(|| ip.into())
        };
        let host_ip = address("hostIP", "hostIPs", true)?;
        let pod_ip = address("podIP", "podIPs", false)?;
        let time: Time = members.look("startTime")?.as_str()?.parse().ok()?;
        if time.is_unset() {
            return None;
        }
        for member in ["hostIP", "hostIPs", "podIP", "podIPs", "startTime"] {
            members.take(member);
        }
        Some(PodStart {
            host_ip,
            pod_ip,
            time,
        })
    }

    fn write(&self, out: &mut Writer) {
        let addresses = [
            ("hostIP", "hostIPs", &self.host_ip),
            ("podIP", "podIPs", &self.pod_ip),
        ];
        for (one, list, address) in addresses.into_iter().filter(|it| !it.2.is_empty()) {
            out.put_shown(one, address);
            out.put_objects(list, [address], |out, address| {
                out.put_shown("ip", address);
            });
        }
        out.put_time("startTime", self.time);
    }
}

/// Returns the only item; `None` if there are none or several.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

impl PodPhase {
    /// Returns the phase with this name.
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

    /// Returns the name in the API; empty if unset. `None` for [`PodPhase::Other`], whose name is
    /// in `rest`.
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
    /// Returns the name in the API. `None` for [`ConditionType::Other`], whose name is in `rest`.
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
    /// Returns the name in the API. `None` for [`ConditionStatus::Other`], whose name is in `rest`.
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
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<PodCondition, DecodeError> {
        let mut members = item(value, path)?;
        check(value, &pod_shape::POD_CONDITION, path)?;
        let last_transition_time = members.time("lastTransitionTime")?;
        let status_text = members.text("status")?;
        let status = ConditionStatus::new(status_text);
        if status == ConditionStatus::Other && !status_text.is_empty() {
            members.put_back("status");
        }
        let kind_text = members.text("type")?;
        let kind = ConditionType::new(kind_text);
        if kind == ConditionType::Other && !kind_text.is_empty() {
            members.put_back("type");
        }
        Ok(PodCondition {
            kind,
            status,
            last_transition_time: last_transition_time.into(),
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_some("type", self.kind.as_str());
        out.put_some("status", self.status.as_str());
        // Go always writes these times, because they are not pointers.
        if self.rest.is_empty() || !self.rest.as_str().contains("\"lastProbeTime\":") {
            out.put_time_or_null("lastProbeTime", Time::UNSET);
        }
        out.put_time_or_null("lastTransitionTime", self.last_transition_time.get());
        let typed = [
            self.kind.as_str().map(|_| "type"),
            self.status.as_str().map(|_| "status"),
        ];
        out.put_rest_but(&self.rest, &typed);
    }
}

impl ContainerStatus {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<ContainerStatus, DecodeError> {
        let mut members = item(value, path)?;
        let name = members.string("name")?;
        let restart_count = members.i32("restartCount")?;
        let ready = members.opt_flag("ready")?.unwrap_or(false);
        check(value, &pod_shape::CONTAINER_STATUS, path)?;
        Ok(ContainerStatus {
            name,
            restart_count,
            ready,
            details: ContainerDetails::read(&mut members).map(Arc::new),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_text("name", &self.name);
        out.put("restartCount", self.restart_count);
        out.put("ready", self.ready);
        if let Some(details) = &self.details {
            details.write(out);
        }
    }
}

impl ContainerDetails {
    /// Takes the members that [`ContainerDetails`] holds; `None` if no members are left.
    fn read(members: &mut Members<'_, '_>) -> Option<ContainerDetails> {
        members.left().next()?;
        // A string, because the types have been checked.
        let id = members.opt_text("containerID").ok().flatten();
        let running_since = members.take("state").and_then(running_since);
        if running_since.is_none() {
            members.put_back("state");
        }
        Some(ContainerDetails {
            id: id.map(ContainerId::new),
            running_since: PackedTime::new(running_since.unwrap_or(Time::UNSET)),
            rest: members.rest(),
        })
    }

    fn write(&self, out: &mut Writer) {
        if let Some(id) = &self.id {
            out.put_shown("containerID", id);
        }
        let since = self.running_since.get();
        if !since.is_unset() {
            out.put_object("state", |out| {
                out.put_object("running", |out| out.put_time("startedAt", since));
            });
        }
        let typed = [
            self.id.as_ref().map(|_| "containerID"),
            (!since.is_unset()).then_some("state"),
        ];
        out.put_rest_but(&self.rest, &typed);
    }
}

/// Returns `startedAt` of a state that is exactly `{"running": {"startedAt": …}}`.
fn running_since(state: JsonValue<'_>) -> Option<Time> {
    fn member<'t>(value: JsonValue<'t>, name: &str) -> Option<JsonValue<'t>> {
        let (found, value) = only(value.pairs())?;
        (found == name).then_some(value)
    }
    let text = member(member(state, "running")?, "startedAt")?.as_str()?;
    let time: Time = text.parse().ok()?;
    (!time.is_unset() && time.is_written(text)).then_some(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_typed_member_takes_precedence_over_an_unread_one() {
        let mut status = PodStatus::from_json(json!({
            "phase": "Dreaming", "startTime": "2026-01-02T03:04:05Z", "reason": "r",
            "conditions": [{"type": "Odd", "status": "Maybe"}],
            "containerStatuses": [{"name": "c", "state": {"waiting": {}}}],
        }))
        .unwrap();
        let time = Time::from_unix_seconds(1_767_323_045);
        status.phase = PodPhase::Running;
        status.started = Some(Arc::new(PodStart {
            host_ip: "10.0.0.1".into(),
            pod_ip: "10.0.0.2".into(),
            time,
        }));
        status.conditions.update(|condition| {
            condition.kind = ConditionType::Ready;
            condition.status = ConditionStatus::True;
        });
        let details = status.container_statuses[0].details.as_mut().unwrap();
        Arc::make_mut(details).running_since = PackedTime::new(time);
        assert_eq!(
            status.to_json(),
            json!({
                "phase": "Running", "reason": "r", "startTime": time.to_string(),
                "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
                "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}],
                "conditions": [{"type": "Ready", "status": "True",
                    "lastProbeTime": null, "lastTransitionTime": null}],
                "containerStatuses": [{"name": "c", "ready": false, "restartCount": 0,
                    "state": {"running": {"startedAt": time.to_string()}}}],
            })
        );
    }
}
