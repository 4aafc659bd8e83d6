//! The status of a pod, as its kubelet reports it. Members that the kubelet doesn't set stay
//! unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use podstorm_objects::json::Writer;
use podstorm_objects::{
    Address, ConditionStatus, ConditionType, ContainerDetails, ContainerId, ContainerStatus,
    ContainerStatuses, Map, PackedTime, Pod, PodCondition, PodPhase, PodStart, PodStatus, Rest,
    Time,
};
use serde_json::Value;

use super::container::{Container, Ended, Role, State};
use super::hooks::POST_START_FAILED;
use super::recent::{ConditionsOf, DetailsOf, Recent, RestOf};
use super::{EVICTED, PodLife, SECOND_NS, Stopping, Why, names};

/// The message in the condition of a pod that was preempted by a critical pod.
const PREEMPTED: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// The values in a pod's status that come from the node and the cluster.
#[derive(Clone, Copy, Debug)]
pub(in crate::nodes) struct Place<'a> {
    /// The address of the node.
    pub(in crate::nodes) host_ip: &'a Address,
    /// The address that the pod gets if it has none.
    pub(in crate::nodes) pod_ip: &'a Address,
    /// The pod's start time and addresses that the kubelet has written, if they are known.
    pub(in crate::nodes) start: Option<&'a Arc<PodStart>>,
    /// The ID to report for every created container; empty to report none.
    pub(in crate::nodes) container_id: &'a str,
    /// The ID to report for the image of every created container.
    pub(in crate::nodes) image_id: &'a str,
}

/// The intended value of a condition: whether the condition holds, and its reason and message.
struct Claim {
    kind: ConditionType,
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl PodLife {
    /// Reports whether the pod has its address, or gets it now: whether a container has run.
    pub(in crate::nodes) fn has_address(&self) -> bool {
        self.containers.iter().any(Container::has_run)
    }

    /// Returns the new status of the stored pod.
    pub(in crate::nodes) fn status(
        &self,
        live: &Pod,
        place: &Place<'_>,
        recent: &mut Recent,
    ) -> PodStatus {
        let old = &live.status;
        let has_begun = old.started.is_some() || old.rest.raw("startTime").is_some();
        if self.is_alive() && has_begun && self.containers.iter().any(Container::is_hidden) {
            return old.clone();
        }
        let has_address = self.has_address();
        let started = match place.start.or(old.started.as_ref()) {
            Some(started) if !has_address || !started.pod_ip.is_empty() => {
                Some(Arc::clone(started))
            }
            _ if has_begun && !has_address => None,
            _ => Some(Arc::new(PodStart {
                host_ip: place.host_ip.clone(),
                pod_ip: match has_address {
                    true => place.pod_ip.clone(),
                    false => Address::default(),
                },
                time: time(self.start_ns),
            })),
        };
        let phase = self.phase();
        let rest = recent
            .rest
            .get_or_make(RestOf::new(self, old, started.is_some()), || {
                self.rest(&old.rest, started.is_some())
            });
        let mut statuses = |containers: &[Container], old: &[ContainerStatus]| {
            let of = |container: &Container| {
                let mut old = old.iter();
                let old = old.find(|old| old.name == container.name);
                self.container(container, old, place, recent)
            };
            containers.iter().map(of).collect::<ContainerStatuses>()
        };
        let (init, regular) = self.containers.split_at(self.init);
        let old_init = old.init_container_statuses.as_deref();
        let init = statuses(init, old_init.map_or(&[], |init| init));
        let mut regular = statuses(regular, &old.container_statuses);
        regular.sort_by(|one, other| one.name.cmp(&other.name));
        let has_foreign = || {
            old.conditions
                .iter()
                .any(|it| it.kind == ConditionType::Other)
        };
        let key = ConditionsOf::new(self, &old.conditions, phase).filter(|_| !has_foreign());
        let conditions = recent
            .conditions
            .get_or_make(key, || self.conditions(live, phase));
        PodStatus {
            phase,
            conditions,
            container_statuses: regular,
            init_container_statuses: (!init.is_empty()).then(|| Box::new(init)),
            started,
            rest,
        }
    }

    /// Returns the members of the status that have no field in [`PodStatus`].
    fn rest(&self, old: &Rest, has_started: bool) -> Rest {
        let mut rest = old.edit();
        if self.generation > 0 {
            rest.set("observedGeneration", self.generation);
        }
        if has_started {
            for member in ["startTime", "hostIP", "hostIPs", "podIP", "podIPs"] {
                rest.remove(member);
            }
        }
        if let Some((reason, message)) = self.end.and_then(|end| end.why) {
            rest.set("reason", reason);
            rest.set("message", message);
        }
        if let Some((_, report)) = &self.report {
            report.write(&mut rest);
        }
        rest.done()
    }

    fn phase(&self) -> PodPhase {
        if let Some(end) = self.end {
            return end.phase;
        }
        let has_begun =
            |it: &Container| it.running().is_some() || it.ended().is_some() || it.last.is_some();
        let (init, regular) = self.containers.split_at(self.init);
        let begun = regular.iter().all(has_begun);
        let done = init.iter().all(|it| match it.role {
            Role::Init => it.ended().is_some() || it.last.is_some(),
            Role::Sidecar | Role::Regular => has_begun(it),
        });
        match begun && done {
            true => PodPhase::Running,
            false => PodPhase::Pending,
        }
    }

    fn conditions(&self, live: &Pod, phase: PodPhase) -> podstorm_objects::PodConditions {
        let old = &live.status.conditions;
        let is_foreign =
            |it: &PodCondition| it.kind == ConditionType::Other && !self.says_restarting(it);
        let foreign = || old.iter().filter(is_foreign);
        let is_target = |it: &PodCondition| {
            it.rest.get("type").as_ref().and_then(Value::as_str) == Some("DisruptionTarget")
        };
        let disruption = match self.stopping.filter(|_| self.end.is_some()) {
            Some(Stopping {
                why: Why::Evicted, ..
            }) => Some(EVICTED.1),
            Some(Stopping {
                why: Why::Preempted,
                ..
            }) => Some(PREEMPTED),
            _ => None,
        };
        let evicted = disruption.map(|message| self.disrupted(message));
        let claims = self.claims(live, phase);
        // Most conditions have equal members, so their allocation is shared.
        let mut last = old.get(0).map_or(Rest::NONE, |first| first.rest);
        let mut plain: Option<Rest> = None;
        let own = claims.into_iter().map(|claim| {
            let is_plain = claim.reason.is_none();
            let known = plain.as_ref().filter(|_| is_plain);
            let rest = known
                .cloned()
                .unwrap_or_else(|| self.members(&claim, &last));
            if is_plain {
                plain.get_or_insert_with(|| rest.clone());
            }
            last = rest.clone();
            self.condition(live, &claim, rest)
        });
        foreign()
            .filter(|it| !is_target(it))
            .chain(foreign().filter(|it| evicted.is_none() && is_target(it)))
            .chain(evicted.clone())
            .chain(own)
            .chain(self.restarting(live))
            .collect()
    }

    /// Returns the condition `DisruptionTarget` of a pod that its node has ended.
    fn disrupted(&self, message: &str) -> PodCondition {
        let mut rest = Map::new();
        rest.insert("type".into(), "DisruptionTarget".into());
        rest.insert("reason".into(), "TerminationByKubelet".into());
        rest.insert("message".into(), message.into());
        if self.generation > 0 {
            rest.insert("observedGeneration".into(), self.generation.into());
        }
        PodCondition {
            kind: ConditionType::Other,
            status: ConditionStatus::True,
            last_transition_time: PackedTime::new(time(self.at_ns)),
            rest: rest.into(),
        }
    }

    /// Returns the members of a condition that have no field. Shares the allocation of `others` if
    /// they are equal.
    fn members(&self, claim: &Claim, others: &Rest) -> Rest {
        others.or_new(|out| {
            if let Some(message) = &claim.message {
                out.put("message", &**message);
            }
            if self.generation > 0 {
                out.put("observedGeneration", self.generation);
            }
            if let Some(reason) = claim.reason {
                out.put("reason", reason);
            }
        })
    }

    fn condition(&self, live: &Pod, claim: &Claim, rest: Rest) -> PodCondition {
        let status = match claim.holds {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        };
        let old = live.status.conditions.first(claim.kind);
        let old = old.filter(|(old, since)| *old == status && !since.get().is_unset());
        PodCondition {
            kind: claim.kind,
            status,
            last_transition_time: match old {
                Some((_, since)) => since,
                None => PackedTime::new(time(self.at_ns)),
            },
            rest,
        }
    }

    /// Returns the intended values of the conditions that the kubelet owns, in order.
    fn claims(&self, live: &Pod, phase: PodPhase) -> [Claim; 5] {
        let holds = |kind, holds| Claim {
            kind,
            holds,
            reason: None,
            message: None,
        };
        let ended = self.end.is_some();
        let (init, regular) = self.containers.split_at(self.init);
        let mut initialized = holds(ConditionType::Initialized, true);
        if phase == PodPhase::Succeeded {
            initialized.reason = Some("PodCompleted");
        } else if !(self.is_initialized || self.was_initialized) {
            let incomplete = names(init.iter().filter(|it| !it.is_done()));
            initialized = Claim {
                kind: ConditionType::Initialized,
                holds: false,
                reason: Some("ContainersNotInitialized"),
                message: Some(format!("containers with incomplete status: {incomplete}")),
            };
        }
        let mut unready = init
            .iter()
            .filter(|it| it.role == Role::Sidecar)
            .chain(regular);
        let mut unready = unready.by_ref().filter(|it| !it.is_ready()).peekable();
        let is_over = matches!(
            self.stopping,
            Some(Stopping {
                why: Why::Deadline,
                ..
            })
        );
        let has_run = self.containers.iter().any(Container::has_run);
        let (reason, message) = match phase {
            PodPhase::Succeeded => (Some("PodCompleted"), None),
            PodPhase::Failed if has_run => (Some("PodFailed"), None),
            _ if is_over => (Some("PodFailed"), None),
            _ if unready.peek().is_some() => {
                let message = format!("containers with unready status: {}", names(unready));
                (Some("ContainersNotReady"), Some(message))
            }
            _ => (None, None),
        };
        let ready = |kind| Claim {
            kind,
            holds: reason.is_none(),
            reason,
            message: message.clone(),
        };
        let mut pod_ready = ready(ConditionType::Ready);
        if pod_ready.holds
            && let Some(message) = self.open_gates(live)
        {
            pod_ready = Claim {
                kind: ConditionType::Ready,
                holds: false,
                reason: Some("ReadinessGatesNotReady"),
                message: Some(message),
            };
        }
        [
            holds(
                ConditionType::PodReadyToStartContainers,
                self.is_up && !ended,
            ),
            initialized,
            pod_ready,
            ready(ConditionType::ContainersReady),
            holds(ConditionType::PodScheduled, true),
        ]
    }

    /// Returns the message about the readiness gates that are not satisfied; `None` if all are
    /// satisfied.
    fn open_gates(&self, live: &Pod) -> Option<String> {
        let open = self.gates.iter().filter_map(|gate| {
            let is_of = |it: &PodCondition| {
                it.kind.as_str() == Some(gate.as_str())
                    || it.rest.get("type").as_ref().and_then(Value::as_str) == Some(gate)
            };
            let mut conditions = live.status.conditions.iter();
            let found = conditions
                .find(is_of)
                .map(|found| match found.status.as_str() {
                    Some(status) => status.to_owned(),
                    None => {
                        let status = found.rest.get("status");
                        status
                            .as_ref()
                            .and_then(Value::as_str)
                            .unwrap_or("")
                            .to_owned()
                    }
                });
            match found.as_deref() {
                Some("True") => None,
                Some(status) => Some(format!(
                    "the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"
                )),
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{gate}\" does not exist."
                )),
            }
        });
        let open: Vec<String> = open.collect();
        (!open.is_empty()).then(|| open.join(", "))
    }

    fn container(
        &self,
        container: &Container,
        old: Option<&ContainerStatus>,
        place: &Place<'_>,
        recent: &mut Recent,
    ) -> ContainerStatus {
        let shared = old.and_then(|old| old.details.as_ref());
        let is_first = old.is_none_or(|old| old.restart_count == 0);
        let key = DetailsOf::new(container, self.waits_for(), shared);
        let details = recent.details.get_or_make(key.filter(|_| is_first), || {
            self.details(container, old, place)
        });
        ContainerStatus {
            name: container.name.clone(),
            restart_count: container.restarts,
            ready: container.is_ready(),
            details: Some(details),
        }
    }

    /// Returns the details of a container whose stored status is `old`.
    fn details(
        &self,
        container: &Container,
        old: Option<&ContainerStatus>,
        place: &Place<'_>,
    ) -> Arc<ContainerDetails> {
        let shared = old.and_then(|old| old.details.as_ref());
        let none = Rest::NONE;
        let mut rest = shared.map_or(&none, |details| &details.rest).edit();
        // If an instance has run, the runtime's name of its image is kept.
        let ran = shared.is_some_and(|details| !details.running_since.get().is_unset());
        if !ran && container.ended().is_none() {
            rest.remove("image");
        }
        if !rest.has("image") {
            rest.set("image", &*container.image);
        }
        if !rest.has("imageID") {
            rest.set("imageID", "");
        }
        if let Some(report) = &container.report {
            report.write(&mut rest, container.has_run());
        }
        let mut id = shared.and_then(|details| details.id.clone());
        if container.has_run() {
            if !place.image_id.is_empty() {
                rest.set("imageID", place.image_id);
            }
            if id.is_none() && !place.container_id.is_empty() {
                id = Some(ContainerId::new(place.container_id));
            }
        }
        let id_text = id.as_ref().map(ContainerId::to_string);
        let terminated = |out: &mut Writer, end: &Ended| put_end(out, end, id_text.as_deref());
        let mut running_since = Time::UNSET;
        let (state, last) = match &container.state {
            State::Running(running) => {
                running_since = time(running.since_ns);
                (None, container.last.as_ref())
            }
            State::Waiting => {
                let waiting = match container.removed() {
                    Some((reason, message)) => Shown::Waiting(reason, Some(message.into())),
                    None => Shown::Waiting(self.waits_for(), None),
                };
                (Some(waiting), container.last.as_ref())
            }
            State::Refused {
                reason, message, ..
            } => {
                let state = Shown::Waiting(reason, Some(message.as_str().into()));
                (Some(state), container.last.as_ref())
            }
            State::Ended { end, .. } if container.is_in_backoff() => {
                let message = format!(
                    "back-off {} restarting failed container={} pod={}",
                    go_duration(container.pause_ns),
                    container.name,
                    self.ways.identity
                );
                let state = Shown::Waiting("CrashLoopBackOff", Some(message.into()));
                (Some(state), Some(end))
            }
            State::Ended {
                end,
                again_ns: Some(_),
                ..
            } if container.has_failed_hook => {
                let message = POST_START_FAILED.into();
                let state = Shown::Waiting("PostStartHookError", Some(message));
                (Some(state), Some(end))
            }
            State::Ended { end, .. } => (Some(Shown::Ended(end)), container.last.as_ref()),
        };
        match state {
            Some(Shown::Ended(end)) => rest.set_with("state", |out| terminated(out, end)),
            Some(Shown::Waiting(reason, message)) => {
                rest.set_with("state", |out| put_waiting(out, reason, message.as_deref()));
            }
            None => rest.remove("state"),
        }
        // An earlier kubelet or a dump may know more about the previous instance.
        let is_kept = container.running().is_some()
            && old.is_some_and(|old| old.restart_count == container.restarts)
            && rest.has("lastState");
        if !is_kept {
            rest.set_with("lastState", |out| match last {
                Some(last) => terminated(out, last),
                None => out.object(|_| {}),
            });
        }
        let started = match container.role {
            Role::Init => container.running().is_some(),
            Role::Sidecar | Role::Regular => container.is_started(),
        };
        rest.set("started", started);
        let details = ContainerDetails {
            id,
            running_since: PackedTime::new(running_since),
            rest: rest.done(),
        };
        match shared {
            Some(shared) if **shared == details => Arc::clone(shared),
            _ => Arc::new(details),
        }
    }

    /// Returns the waiting reason of a container that has not run yet.
    fn waits_for(&self) -> &'static str {
        match self.init {
            0 => "ContainerCreating",
            _ => "PodInitializing",
        }
    }
}

/// The state of a container that does not run.
enum Shown<'a> {
    /// The container waits, for this reason and with this message.
    Waiting(&'static str, Option<Cow<'a, str>>),
    Ended(&'a Ended),
}

fn put_waiting(out: &mut Writer, reason: &str, message: Option<&str>) {
    let waiting = |out: &mut Writer| {
        if let Some(message) = message {
            out.put("message", message);
        }
        out.put("reason", reason);
    };
    out.object(|out| out.put_object("waiting", waiting));
}

fn put_end(out: &mut Writer, end: &Ended, id: Option<&str>) {
    let time = |ns: Option<i64>| ns.map_or(Time::UNSET, time);
    let terminated = |out: &mut Writer| {
        if let Some(id) = id {
            out.put("containerID", id);
        }
        out.put("exitCode", end.code);
        out.put_time_or_null("finishedAt", time(end.ended_ns));
        if let Some(message) = &end.message {
            out.put("message", &**message);
        }
        out.put("reason", &*end.reason);
        out.put_time_or_null("startedAt", time(end.began_ns));
    };
    out.object(|out| out.put_object("terminated", terminated));
}

pub(super) fn time(ns: i64) -> Time {
    Time::from_unix_seconds(ns.div_euclid(SECOND_NS))
}

/// Formats a duration like Go, truncated to milliseconds: `1m20s`, `1.5s`, `500ms`.
pub(super) fn go_duration(ns: i64) -> String {
    let millis = ns.max(0) / (SECOND_NS / 1000);
    if (1..1000).contains(&millis) {
        return format!("{millis}ms");
    }
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = match millis {
        0 => String::new(),
        _ => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    };
    let seconds = format!("{}{fraction}s", seconds % 60);
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}
