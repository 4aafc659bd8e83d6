//! The construction of a life from the status of the stored pod. The pod was just bound, or another
//! kubelet, another client or a dump has brought it to its current state.

use std::sync::Arc;

use podstorm_objects::json::raw_member;
use podstorm_objects::{
    ConditionStatus, ConditionType, ContainerStatus, Map, Pod, PodPhase, PodSpec, SpecContainer,
    Time,
};
use serde_json::Value;

use super::container::{Container, Ended, Identity, Role, State, Ways};
use super::events::Notes;
use super::hooks::Hooks;
use super::image::PullPolicy;
use super::probes::Probes;
use super::report::{SpecReport, containers};
use super::restart_all;
use super::restarts::Restarts;
use super::{Circumstances, GRACE_NS, PodLife, SECOND_NS};
use crate::nodes::script::{Part, ScriptError};

/// The parts of a spec that lives use. The pods of a template share them.
#[derive(Debug)]
pub(in crate::nodes) struct SpecRules {
    pub(in crate::nodes) spec: Arc<PodSpec>,
    /// The rules of each container, init containers first.
    containers: Vec<(Restarts, Arc<Probes>, PullPolicy, Hooks)>,
    gates: Vec<String>,
    /// The status report for the spec, if statuses include it and all pods with this spec share it.
    /// They don't if the spec has a token volume, whose name differs from pod to pod.
    report: Option<SpecReport>,
}

impl SpecRules {
    /// Parses the spec of a pod. `tells` is whether Events are recorded, and `is_full` whether
    /// statuses include values that follow from the spec.
    pub(in crate::nodes) fn from_pod(pod: &Pod, tells: bool, is_full: bool) -> SpecRules {
        let members = pod.spec.to_map(pod.token_volume);
        let containers = containers(&members).map(|container| {
            let probes = Arc::new(Probes::from_container(container, tells));
            let (pull, hooks) = (
                PullPolicy::from_container(container),
                Hooks::from_container(container),
            );
            (Restarts::from_container(container), probes, pull, hooks)
        });
        SpecRules {
            spec: Arc::clone(&pod.spec),
            containers: containers.collect(),
            gates: gates(&members),
            report: (is_full && pod.token_volume.is_none())
                .then(|| SpecReport::from_members(members)),
        }
    }
}

impl PodLife {
    /// Returns the life of a bound pod that has not ended.
    pub(in crate::nodes) fn resume(live: &Pod, seen: &Circumstances<'_>) -> PodLife {
        let (spec, status) = (&live.spec, &live.status);
        let specs = || spec.init_containers.iter().chain(&spec.containers);
        let is_known = |name: &str| specs().any(|it| &*it.name == name);
        let fault = match seen.script {
            Ok(script) => script.unknown(is_known),
            Err(fault) => Some(fault.clone()),
        };
        let grace = spec.termination_grace_period_seconds;
        let ways = Ways {
            policy: spec.restart_policy,
            stop_ns: seen.stop_ns,
            grace_ns: grace.map_or(GRACE_NS, |grace| grace.saturating_mul(SECOND_NS)),
            fault: fault.as_ref().map(ScriptError::to_string),
            identity: Identity::from_pod(live),
        };
        let running_since = status.started.as_ref().map(|start| start.time);
        let since = running_since.or_else(|| time(status.rest.get("startTime").as_ref()));
        let start_ns = since.and_then(Time::unix_nanos).unwrap_or(seen.now_ns);
        let holds = |kind| {
            let found = status.conditions.first(kind);
            found.is_some_and(|(status, _)| status == ConditionStatus::True)
        };
        let init = spec.init_containers.len();
        let mut life = PodLife {
            generation: live.metadata.generation,
            containers: Vec::with_capacity(specs().count()),
            init,
            gates: seen.rules.gates.clone(),
            report: None,
            start_ns,
            up_ns: seen.now_ns.saturating_add(seen.startup_ns),
            is_up: holds(ConditionType::PodReadyToStartContainers)
                || status.phase == PodPhase::Running,
            is_initialized: init == 0 || holds(ConditionType::Initialized),
            deadline_ns: spec
                .active_deadline_seconds
                .map(|seconds| start_ns.saturating_add(seconds.saturating_mul(SECOND_NS))),
            evicted_ns: match seen.script {
                Ok(script) => script
                    .evicted_ns()
                    .map(|after| start_ns.saturating_add(after)),
                Err(_) => None,
            },
            was_initialized: false,
            has_rule: false,
            restarting: None,
            stopping: None,
            deleted_ns: seen.deleted_ns,
            end: None,
            at_ns: seen.now_ns,
            follows: true,
            notes: Notes::on(seen.tells),
            ways,
        };
        for ((number, spec), rules) in (0..).zip(specs()).zip(&seen.rules.containers) {
            let role = match (number < init, spec.is_sidecar) {
                (true, true) => Role::Sidecar,
                (true, false) => Role::Init,
                (false, _) => Role::Regular,
            };
            let part = match (&life.ways.fault, seen.script) {
                (None, Ok(script)) => script.part(&spec.name, role == Role::Regular),
                _ => Part::default(),
            };
            let (restarts, probes, pull_policy, hooks) = rules.clone();
            let (name, image) = (&spec.name, &spec.image);
            let mut container = Container::new(name, image, role, restarts, probes, part);
            container.is_unpullable = (seen.is_unpullable)(&spec.image);
            container.is_present = (seen.is_present)(&spec.image);
            (container.pull_policy, container.hooks) = (pull_policy, hooks);
            match found(live, spec, role) {
                Some(status) => container.resume(status, seen, &life.ways),
                // The pod is `Running`, but its status does not contain this container.
                None if status.phase == PodPhase::Running && role != Role::Init => {
                    container.run_since(start_ns, live.is_ready(), seen, &life.ways);
                }
                None => {}
            }
            life.has_rule |= container.policy.may_restart_all();
            life.is_initialized |= role == Role::Regular && container.has_run();
            life.is_up |= container.has_run();
            life.containers.push(container);
        }
        if life.containers.iter().any(|it| it.is_removed) {
            life.resume_restart();
        }
        // The first container waits for its image until the pod is up. If the status has a start
        // time, that was already reported.
        if !life.is_up
            && !live.metadata.is_deleting()
            && let Some(first) = life.containers.first_mut()
        {
            let mut silent = Notes::default();
            let notes = match since {
                None => &mut life.notes,
                Some(_) => &mut silent,
            };
            first.announce_pull(start_ns, notes);
        }
        if seen.is_full {
            let of_all = seen.rules.report.as_ref();
            match of_all.filter(|_| live.token_volume.is_none()) {
                Some(report) => life.report_on(live, report),
                None => {
                    let report = SpecReport::from_members(spec.to_map(live.token_volume));
                    life.report_on(live, &report);
                }
            }
        }
        life
    }

    /// Updates the containers that another client has ended or reports as restarted.
    pub(super) fn see_containers(&mut self, live: &Pod) {
        let specs = live
            .spec
            .init_containers
            .iter()
            .chain(&live.spec.containers);
        let is_alive = self.is_alive();
        for (container, spec) in self.containers.iter_mut().zip(specs) {
            let Some(status) = found(live, spec, container.role) else {
                continue;
            };
            if container.running().is_none() {
                continue;
            }
            if status.restart_count > container.restarts {
                container.assume_restarts(status.restart_count, self.at_ns);
            }
            if status.restart_count == container.restarts
                && let Some(end) = state(status, "terminated")
            {
                let end = ended(&end, self.at_ns);
                container.finish(end, self.at_ns, is_alive, &self.ways);
            }
        }
        self.judge();
    }
}

impl Container {
    /// Restores a container from its status.
    fn resume(&mut self, status: &ContainerStatus, seen: &Circumstances<'_>, ways: &Ways) {
        let now_ns = seen.now_ns;
        let details = status.details.as_ref();
        let last = details.and_then(|details| details.rest.get("lastState"));
        self.last = last
            .as_ref()
            .and_then(|last| last.get("terminated"))
            .map(|end| ended(end, now_ns));
        let since = details.map(|details| details.running_since.get());
        let since = since.filter(|since| !since.is_unset());
        let since = since.or_else(|| {
            let running = state(status, "running")?;
            time(running.get("startedAt"))
        });
        let started_ns = since.and_then(Time::unix_nanos);
        let last_ns = self.last.as_ref().and_then(|last| last.ended_ns);
        let restarted_ns = started_ns.or(last_ns).unwrap_or(now_ns);
        self.assume_restarts(status.restart_count, restarted_ns);
        if let Some(since_ns) = started_ns {
            return self.run_since(since_ns, status.ready, seen, ways);
        }
        if let Some(end) = state(status, "terminated") {
            let end = ended(&end, now_ns);
            let began_ns = end.began_ns.unwrap_or(now_ns);
            self.assume_restarts(status.restart_count, began_ns);
            return self.finish(end, now_ns, true, ways);
        }
        let waiting = state(status, "waiting");
        let waits = |reason: &str| waiting.as_ref().is_some_and(|it| it["reason"] == reason);
        self.is_removed = waits(restart_all::REASON);
        let crashed = waits("CrashLoopBackOff");
        if crashed && let Some(end) = self.last.take() {
            let began_ns = end.began_ns.unwrap_or(now_ns);
            self.assume_restarts(status.restart_count, began_ns);
            self.finish(end, now_ns, true, ways);
            if let State::Ended { shown_ns, .. } = &mut self.state {
                *shown_ns = None;
            }
        }
    }

    fn run_since(&mut self, since_ns: i64, is_ready: bool, seen: &Circumstances<'_>, ways: &Ways) {
        let mut running = self.instance_since(since_ns, seen.now_ns, ways);
        // The status shows a probe result that the script does not specify.
        let knows = seen.heeds_status && !self.part.says_ready();
        if knows && is_ready != running.is_ready {
            running.set_ready(is_ready);
        }
        self.state = State::Running(running);
    }
}

/// Returns the stored status of a container of this name and role; `None` if there is none.
fn found<'a>(live: &'a Pod, spec: &SpecContainer, role: Role) -> Option<&'a ContainerStatus> {
    let status = &live.status;
    let statuses = match role {
        Role::Regular => &status.container_statuses,
        Role::Init | Role::Sidecar => status.init_container_statuses.as_deref()?,
    };
    statuses.iter().find(|it| it.name == spec.name)
}

/// Returns the member of a container's status for one of the states: `running`, `waiting`,
/// `terminated`.
fn state(status: &ContainerStatus, state: &str) -> Option<Value> {
    let details = status.details.as_ref()?;
    // The state of a running container is in a field of its own.
    if !details.running_since.get().is_unset() {
        return None;
    }
    let rest = &details.rest;
    raw_member(rest.raw("state")?, state).filter(|it| it.starts_with('{'))?;
    rest.get("state")?.get(state).cloned()
}

fn ended(end: &Value, now_ns: i64) -> Ended {
    let text = |member: &str| {
        let text = end[member].as_str().filter(|text| !text.is_empty());
        text.map(|text| text.to_owned().into())
    };
    let code = end["exitCode"].as_i64();
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    let usual = if code == 0 { "Completed" } else { "Error" };
    let ended = time(end.get("finishedAt")).and_then(Time::unix_nanos);
    let began = time(end.get("startedAt")).and_then(Time::unix_nanos);
    let reason = text("reason");
    let is_lost = matches!(
        reason.as_deref(),
        Some("ContainerStatusUnknown" | restart_all::REASON)
    );
    Ended {
        code,
        reason: reason.unwrap_or(usual.into()),
        message: text("message"),
        began_ns: began,
        ended_ns: ended.or((!is_lost).then_some(now_ns)),
    }
}

fn time(text: Option<&Value>) -> Option<Time> {
    let time: Time = text?.as_str()?.parse().ok()?;
    (!time.is_unset()).then_some(time)
}

fn gates(spec: &Map) -> Vec<String> {
    let gates = spec.get("readinessGates").and_then(Value::as_array);
    let types = gates.into_iter().flatten();
    let types = types.filter_map(|gate| gate["conditionType"].as_str());
    types.map(str::to_owned).collect()
}
