//! `status` of a pod.

use serde_json::Value;
use smallvec::SmallVec;

use super::shape::{Shape, check};
use super::{Writer, pod_shape};
use crate::object::decode::{DecodeError, Members, Path};
use crate::object::{
    ConditionStatus, ConditionType, ContainerStatus, Map, PodCondition, PodPhase, PodStatus, Rest,
};

impl PodStatus {
    pub(super) fn read(value: Value, path: &Path<'_>) -> Result<PodStatus, DecodeError> {
        let mut members = Members::new(value, path)?;
        let init: SmallVec<[ContainerStatus; 1]> =
            members.list("initContainerStatuses", ContainerStatus::read)?;
        Ok(PodStatus {
            phase: PodPhase::new(&members.text("phase")?),
            start_time: members.time("startTime")?,
            conditions: members.list("conditions", PodCondition::read)?,
            container_statuses: members.list("containerStatuses", ContainerStatus::read)?,
            init_container_statuses: (!init.is_empty()).then(|| init.into_vec().into()),
            rest: checked_rest(members, &pod_shape::POD_STATUS, path)?,
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
        out.put_text("phase", self.phase.as_str());
        out.put_time("startTime", self.start_time);
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

fn checked_rest(members: Members<'_>, shape: &Shape, path: &Path<'_>) -> Result<Rest, DecodeError> {
    let rest = members.into_rest();
    if let Some(rest) = &rest {
        check(rest, shape, path)?;
    }
    Ok(rest)
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
            other => PodPhase::Other(other.into()),
        }
    }

    /// The text in the API; empty when unset.
    pub fn as_str(&self) -> &str {
        match self {
            PodPhase::Unset => "",
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
            PodPhase::Unknown => "Unknown",
            PodPhase::Other(text) => text,
        }
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
            last_transition_time,
            rest,
        })
    }

    fn to_json(&self) -> Value {
        let mut out = Writer::with_rest(&self.rest);
        out.put_some("type", self.kind.as_str());
        out.put_some("status", self.status.as_str());
        out.put_time("lastTransitionTime", self.last_transition_time);
        out.into_value()
    }
}

impl ContainerStatus {
    fn read(value: Value, path: &Path<'_>) -> Result<ContainerStatus, DecodeError> {
        let mut members = item(value, path)?;
        Ok(ContainerStatus {
            name: members.string("name")?,
            restart_count: members.i32("restartCount")?,
            ready: members.opt_flag("ready")?.unwrap_or(false),
            rest: checked_rest(members, &pod_shape::CONTAINER_STATUS, path)?,
        })
    }

    fn to_json(&self) -> Value {
        let mut out = Writer::with_rest(&self.rest);
        out.put_text("name", &self.name);
        out.put("restartCount", self.restart_count);
        out.put("ready", self.ready);
        out.into_value()
    }
}

/// Opens an entry of a list, which null is not.
fn item<'p>(value: Value, path: &'p Path<'p>) -> Result<Members<'p>, DecodeError> {
    if value.is_null() {
        return Err(path.mismatch("an object", &value));
    }
    Members::new(value, path)
}
