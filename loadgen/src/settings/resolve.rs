//! From what flags say to [`Settings`] with nothing left open: defaults filled in, contradictions
//! refused with what to do about them.

use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_sim::options::{UPSTREAM_BURST, UPSTREAM_QPS, UPSTREAM_SYNCS};

use super::{
    ClusterSize, ControllerSettings, EngineKind, Latency, LatencySettings, Settings, memory,
};
use crate::gates;
use crate::scenario::{Scenario, group_sizes};
use crate::size::{self, InputSize, SizeError, SizeRequest};
use crate::units::{NS_PER_SECOND, duration_text, number_for_people};

/// Requests per second that a client limit may be. Below, one request takes longer than a run lasts
/// by default on the threads engine; above, the limit is finer than the moments it is counted in.
const QPS_RANGE: std::ops::RangeInclusive<f64> = 0.001..=1e6;

/// Pods per second that may be deleted from outside, from one an hour.
const CHURN_RANGE: std::ops::RangeInclusive<f64> = 1.0 / 3_600.0..=1e6;

/// Most creates or deletes in one sync upstream.
pub const UPSTREAM_BURST_REPLICAS: u64 = 500;
/// Most workers, machine threads and the like.
const MAX_THREADS: u64 = 4_096;

/// What a user asked for; absent where nothing was said.
#[derive(Clone, Debug, Default)]
pub struct SettingsRequest {
    /// `--scenario`.
    pub scenario: Option<Arc<Scenario>>,
    /// `--engine`.
    pub engine: Option<EngineKind>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--threads`.
    pub threads: Option<u64>,
    /// Sizes.
    pub size: SizeRequest,
    /// `--concurrent-replicaset-syncs`.
    pub concurrent_replicaset_syncs: Option<u64>,
    /// `--concurrent-rc-syncs`.
    pub concurrent_rc_syncs: Option<u64>,
    /// `--burst-replicas`.
    pub burst_replicas: Option<u64>,
    /// `--kube-api-qps`, more than zero.
    pub kube_api_qps: Option<f64>,
    /// `--kube-api-burst`.
    pub kube_api_burst: Option<u64>,
    /// `--upstream-defaults`.
    pub upstream_defaults: bool,
    /// `--min-ready-seconds`, ns.
    pub min_ready_ns: Option<i64>,
    /// Each `--feature-gates`.
    pub feature_gates: Vec<String>,
    /// `--behaviour`.
    pub behaviour: Option<Behaviour>,
    /// `--pod-startup-latency`.
    pub pod_startup_latency: Option<Latency>,
    /// `--pod-termination-latency`.
    pub pod_termination_latency: Option<Latency>,
    /// `--api-latency`.
    pub api_latency: Option<Latency>,
    /// `--api-errors`, a share from 0 to 1.
    pub api_errors: Option<f64>,
    /// `--watch-latency`.
    pub watch_latency: Option<Latency>,
    /// `--scheduling-latency`.
    pub scheduling_latency: Option<Latency>,
    /// `--duration`, ns.
    pub duration_ns: Option<i64>,
    /// `--time-limit`, ns.
    pub time_limit_ns: Option<i64>,
    /// `--churn-rate`, per second.
    pub churn_pods_per_second: Option<f64>,
    /// `--burst`.
    pub burst_pods: Option<u64>,
    /// What `-f` brought; absent without `-f`.
    pub input: Option<InputSize>,
}

/// What the machine offers.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Processors.
    pub cpus: usize,
    /// Memory, bytes; absent where it can't be told.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Machine {
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::memory_of_machine(),
        }
    }
}

/// Settings that contradict each other or can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

impl From<SizeError> for SettingsError {
    fn from(error: SizeError) -> Self {
        SettingsError(error.to_string())
    }
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, SettingsError> {
    Err(SettingsError(problem.into()))
}

/// Decides every setting.
///
/// # Errors
/// Requests that contradict each other, sizes that don't fit each other or the machine.
pub fn resolve(request: &SettingsRequest, machine: Machine) -> Result<Settings, SettingsError> {
    let scenario = scenario(request)?;
    let request = &scenario.settings.beneath(request);
    let engine = engine(request, &scenario)?;
    let burst_pods = narrow(
        "--burst",
        request.burst_pods.unwrap_or(500),
        i32::MAX as u64,
    )?;
    let size = match &request.input {
        Some(input) => {
            let burst = if scenario.uses_burst() { burst_pods } else { 0 };
            size::beside_input(&request.size, input, burst)?
        }
        None => generated(request, &scenario, burst_pods)?,
    };
    if let Some(problem) = machine
        .memory_bytes
        .and_then(|memory| memory::shortage(&size, memory))
    {
        return refuse(problem);
    }
    // One run, one simulated day: enough for 100,000 pods at a stock client's 20 QPS.
    let default_limit = match engine {
        EngineKind::Threads => 600 * NS_PER_SECOND,
        EngineKind::Virtual => 86_400 * NS_PER_SECOND,
    };
    let time_limit_ns = request.time_limit_ns.unwrap_or(default_limit);
    if time_limit_ns == 0 {
        return refuse("--time-limit 0s leaves no time to run");
    }
    refuse_endless(request, time_limit_ns)?;
    Ok(Settings {
        engine,
        seed: request.seed.unwrap_or(1),
        threads: threads(request, engine, machine)?,
        size,
        controller: controller(request)?,
        behaviour: request.behaviour.unwrap_or_default(),
        latency: LatencySettings {
            pod_startup: request.pod_startup_latency.unwrap_or(Latency::ZERO),
            pod_termination: request.pod_termination_latency.unwrap_or(Latency::ZERO),
            api: request.api_latency.unwrap_or(Latency::ZERO),
            watch: request.watch_latency.unwrap_or(Latency::ZERO),
            scheduling: request.scheduling_latency.unwrap_or(Latency::ZERO),
        },
        api_errors: api_errors(request)?,
        duration_ns: duration(request, &scenario, time_limit_ns)?,
        time_limit_ns,
        churn_pods_per_second: churn_rate(request, &scenario)?,
        burst_pods: burst_pods as u32,
        min_ready_seconds: min_ready_seconds(request)?,
        scenario,
    })
}

fn scenario(request: &SettingsRequest) -> Result<Arc<Scenario>, SettingsError> {
    let has_input = request.input.is_some();
    let scenario = match &request.scenario {
        None if has_input => Scenario::manifests(),
        None => Scenario::up_down(),
        Some(scenario) => Arc::clone(scenario),
    };
    let name = &scenario.name;
    if !has_input && scenario.loads_input() && !scenario.generates_cluster() {
        return refuse(format!(
            "the scenario {name} runs objects from files: give them with -f FILE"
        ));
    }
    if let Some(input) = &request.input {
        scenario.check_input(input).map_err(SettingsError)?;
    }
    if request.burst_pods.is_some() && !scenario.uses_burst() {
        return refuse(format!(
            "--burst belongs to scenarios with a burst, such as burst, not to {name}"
        ));
    }
    Ok(scenario)
}

/// Threads unless the scenario says otherwise, or needs virtual time.
fn engine(request: &SettingsRequest, scenario: &Scenario) -> Result<EngineKind, SettingsError> {
    let latency = |latency: Option<Latency>| latency.is_none_or(|latency| latency.is_zero());
    if scenario.rejects_pods() && latency(request.pod_startup_latency) {
        return refuse(format!(
            "the scenario {} rejects pods, which are then made anew for ever: a loop without an end \
             unless starting a pod takes time; give --pod-startup-latency",
            scenario.name
        ));
    }
    match (request.engine, scenario.is_disturbed()) {
        (Some(EngineKind::Threads), true) => refuse(format!(
            "--engine threads: the scenario {} disturbs the controller's connection, for minutes at \
             times, which only simulated time passes in an instant; leave --engine out or say \
             --engine virtual",
            scenario.name
        )),
        (None, true) => Ok(EngineKind::Virtual),
        (engine, _) => Ok(engine.unwrap_or(EngineKind::Threads)),
    }
}

/// The size of a generated cluster with as much room as the scenario says.
fn generated(
    request: &SettingsRequest,
    scenario: &Scenario,
    burst_pods: u64,
) -> Result<ClusterSize, SettingsError> {
    let asked = &request.size;
    let extra = |pods: u64| {
        let room = scenario.capacity.map_or(0, |room| room.some_of(pods));
        let burst = if scenario.uses_burst() { burst_pods } else { 0 };
        room.saturating_sub(pods).max(burst)
    };
    if scenario.groups.is_empty() {
        let pods = size::pods(asked)?;
        return Ok(size::generated(asked, extra(pods))?);
    }
    if asked.replicasets.is_some() || asked.pods_per_replicaset.is_some() {
        return refuse(format!(
            "the scenario {} has groups of ReplicaSets of its own sizes: leave --replicasets and \
             --pods-per-replicaset out",
            scenario.name
        ));
    }
    let pods_asked = size::pods(asked)?;
    let groups = group_sizes(&scenario.groups, pods_asked);
    let replicasets: u64 = groups.iter().map(|(sets, _)| sets).sum();
    let pods: u64 = groups.iter().map(|(sets, pods)| sets * *pods as u64).sum();
    let sized = SizeRequest {
        pods: Some(pods),
        replicasets: Some(replicasets),
        ..*asked
    };
    let size = size::generated(&sized, extra(pods))?;
    Ok(ClusterSize {
        groups,
        pods_asked: Some(pods_asked),
        ..size
    })
}

fn threads(
    request: &SettingsRequest,
    engine: EngineKind,
    machine: Machine,
) -> Result<usize, SettingsError> {
    match (engine, request.threads) {
        (EngineKind::Virtual, Some(_)) => refuse(
            "--threads belongs to the threads engine: the virtual engine runs on one thread so \
             that a seed repeats exactly",
        ),
        (EngineKind::Virtual, None) => Ok(1),
        (EngineKind::Threads, None) => Ok(machine.cpus.max(1)),
        (EngineKind::Threads, Some(threads)) => {
            Ok(narrow("--threads", threads, MAX_THREADS)? as usize)
        }
    }
}

fn controller(request: &SettingsRequest) -> Result<ControllerSettings, SettingsError> {
    let syncs = |flag: &str, given: Option<u64>| {
        narrow(flag, given.unwrap_or(UPSTREAM_SYNCS), MAX_THREADS).map(|syncs| syncs as usize)
    };
    let burst_replicas = request.burst_replicas.unwrap_or(UPSTREAM_BURST_REPLICAS);
    let (kube_api_qps, kube_api_burst) = client_limit(request)?;
    let given = request.feature_gates.iter().map(String::as_str);
    let feature_gates =
        gates::parse(given).map_err(|error| SettingsError(format!("--feature-gates: {error}")))?;
    Ok(ControllerSettings {
        concurrent_replicaset_syncs: syncs(
            "--concurrent-replicaset-syncs",
            request.concurrent_replicaset_syncs,
        )?,
        concurrent_rc_syncs: syncs("--concurrent-rc-syncs", request.concurrent_rc_syncs)?,
        burst_replicas: narrow("--burst-replicas", burst_replicas, i32::MAX as u64)? as u32,
        kube_api_qps,
        kube_api_burst,
        feature_gates,
    })
}

fn client_limit(request: &SettingsRequest) -> Result<(Option<f64>, u32), SettingsError> {
    let burst = match request.kube_api_burst {
        Some(burst) => Some(narrow("--kube-api-burst", burst, i32::MAX as u64)? as u32),
        None => None,
    };
    if request.upstream_defaults {
        if let Some(qps) = request.kube_api_qps.filter(|qps| *qps != UPSTREAM_QPS) {
            return refuse(format!(
                "--upstream-defaults means --kube-api-qps 20, but --kube-api-qps says {}: leave \
                 one of them out",
                number_for_people(qps)
            ));
        }
        if let Some(burst) = burst.filter(|burst| *burst != UPSTREAM_BURST) {
            return refuse(format!(
                "--upstream-defaults means --kube-api-burst 30, but --kube-api-burst says \
                 {burst}: leave one of them out"
            ));
        }
        return Ok((Some(UPSTREAM_QPS), UPSTREAM_BURST));
    }
    if let Some(qps) = request.kube_api_qps
        && !QPS_RANGE.contains(&qps)
    {
        return refuse(format!(
            "--kube-api-qps {qps:?} is out of range: from {} (a request in 17 minutes) to {}; leave it \
             out for no limit",
            QPS_RANGE.start(),
            QPS_RANGE.end()
        ));
    }
    match (request.kube_api_qps, burst) {
        (None, Some(_)) => refuse(
            "--kube-api-burst limits nothing without a rate: give --kube-api-qps too, or \
             --upstream-defaults",
        ),
        (qps, burst) => Ok((qps, burst.unwrap_or(UPSTREAM_BURST))),
    }
}

fn duration(
    request: &SettingsRequest,
    scenario: &Scenario,
    time_limit_ns: i64,
) -> Result<i64, SettingsError> {
    match request.duration_ns {
        Some(_) if !scenario.uses_duration() => refuse(format!(
            "--duration is how long churn goes on; {} ends when it is done (--time-limit ends it \
             earlier)",
            scenario.name
        )),
        Some(0) => refuse("--duration 0s leaves no time to churn"),
        Some(duration) if duration > time_limit_ns => {
            refuse("--duration is longer than --time-limit: raise --time-limit")
        }
        Some(duration) => Ok(duration),
        None => Ok((60 * NS_PER_SECOND).min(time_limit_ns)),
    }
}

fn churn_rate(request: &SettingsRequest, scenario: &Scenario) -> Result<f64, SettingsError> {
    match request.churn_pods_per_second {
        Some(_) if !scenario.uses_churn_rate() => refuse(format!(
            "--churn-rate belongs to scenarios with churn, such as churn, not to {}",
            scenario.name
        )),
        Some(rate) if !CHURN_RANGE.contains(&rate) => {
            refuse("--churn-rate is out of range: from 1/h to 1000k/s")
        }
        Some(rate) => Ok(rate),
        None => Ok(100.0),
    }
}

fn api_errors(request: &SettingsRequest) -> Result<f64, SettingsError> {
    match request.api_errors {
        Some(share) if share > 0.9 => refuse(
            "--api-errors: more than 90% of the calls refused leaves nothing to look at; give 90% at \
             most",
        ),
        share => Ok(share.unwrap_or(0.0)),
    }
}

/// What alone takes longer than the whole run may would only be seen to fail at its end.
fn refuse_endless(request: &SettingsRequest, time_limit_ns: i64) -> Result<(), SettingsError> {
    let least = |latency: Option<Latency>| match latency.unwrap_or(Latency::ZERO) {
        Latency::Constant(ns) | Latency::Uniform(ns, _) => ns,
        Latency::Lognormal { p50, .. } => p50,
    };
    // A pod is gone after its grace period at the latest, whatever its termination takes.
    for (flag, ns) in [
        ("--api-latency", least(request.api_latency)),
        ("--watch-latency", least(request.watch_latency)),
        ("--scheduling-latency", least(request.scheduling_latency)),
        ("--pod-startup-latency", least(request.pod_startup_latency)),
        ("--min-ready-seconds", request.min_ready_ns.unwrap_or(0)),
    ] {
        if ns > time_limit_ns {
            return refuse(format!(
                "{flag} of {} is longer than the run may take, {}: shorten it or raise --time-limit",
                duration_text(ns),
                duration_text(time_limit_ns)
            ));
        }
    }
    Ok(())
}

fn min_ready_seconds(request: &SettingsRequest) -> Result<i32, SettingsError> {
    let ns = request.min_ready_ns.unwrap_or(0);
    if ns % NS_PER_SECOND != 0 {
        return refuse("--min-ready-seconds: minReadySeconds counts whole seconds");
    }
    if ns > 0 && request.input.is_some() {
        return refuse(
            "--min-ready-seconds applies to generated ReplicaSets; with -f write \
             spec.minReadySeconds in the files",
        );
    }
    i32::try_from(ns / NS_PER_SECOND)
        .map_err(|_| SettingsError("--min-ready-seconds: longer than 68 years".into()))
}

fn narrow(flag: &str, value: u64, max: u64) -> Result<u64, SettingsError> {
    if value == 0 {
        return refuse(format!("{flag} must be at least 1"));
    }
    if value > max {
        return refuse(format!("{flag} {value} is too many: at most {max}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
