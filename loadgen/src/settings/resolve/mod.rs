//! Resolves a request to [`Settings`]: fills in defaults, and refuses contradictions, each with a
//! way to resolve it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Command, FromArgMatches};
use podstorm::limits::BURST_REPLICAS;
use podstorm_sim::options::{UPSTREAM_BURST, UPSTREAM_QPS, WorkerCounts};
use podstorm_sim::rows::Rows;

use super::{
    ClusterSize, ControllerSettings, EngineKind, Latency, LatencySettings, Settings, memory,
};
use crate::gates;
use crate::input::InputSize;
use crate::scenario::{Scenario, ScenarioSettings, group_sizes};
use crate::size;
use crate::units::{NS_PER_SECOND, duration_text, number_for_people};
use crate::values::{LatencyText, Size};
use crate::workloads::flags::{self, FlagValue, FlagValues};
use crate::workloads::{self, Makes, objects};

/// The range of a client limit, in requests per second. Below it, a single request would take
/// longer than a run on the threads engine by default; above it, the limit would be finer than the
/// resolution of the engine's clock.
const QPS_RANGE: std::ops::RangeInclusive<f64> = 0.001..=1e6;

/// The range of pods to delete from outside per second; the minimum is one per hour.
const CHURN_RANGE: std::ops::RangeInclusive<f64> = 1.0 / 3_600.0..=1e6;

/// The maximum number of workers and of OS threads.
const MAX_THREADS: u64 = 4_096;

/// The request for a run.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsRequest {
    /// The scenario: a built-in one (see `loadgen scenarios`) or a file, .yaml or .toml [default:
    /// scale-out; with -f: manifests]. Flags override its settings
    #[arg(long, value_name = "NAME|FILE", value_parser = Scenario::find)]
    pub scenario: Option<Arc<Scenario>>,

    /// Objects from files instead of a generated cluster: Kubernetes YAML or JSON with any number
    /// of documents and Lists, optionally gzipped; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,

    /// The settings from flags.
    #[command(flatten)]
    pub settings: ScenarioSettings,

    /// The size of the files' content; `None` without `-f`.
    #[arg(skip)]
    pub input: Option<InputSize>,
}

impl SettingsRequest {
    /// Returns the command whose flags make up a request.
    pub(crate) fn command() -> Command {
        SettingsRequest::augment_args(Command::new("run").no_binary_name(true))
    }

    /// Parses flags in the same way as `loadgen run`.
    ///
    /// # Errors
    /// The error of the command line, if a flag is invalid.
    pub fn read<T: Into<OsString> + Clone>(
        flags: impl IntoIterator<Item = T>,
    ) -> Result<SettingsRequest, clap::Error> {
        let matches = SettingsRequest::command().try_get_matches_from(flags)?;
        SettingsRequest::from_arg_matches(&matches)
    }

    /// Returns a copy of the request with the size of the files' content.
    pub fn with_input(&self, input: Option<InputSize>) -> SettingsRequest {
        SettingsRequest {
            input,
            ..self.clone()
        }
    }
}

/// The resources of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The number of processors.
    pub cpus: usize,
    /// The memory in bytes; `None` if the system does not report it.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn this() -> Machine {
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::memory_of_machine(),
        }
    }

    /// Returns a machine with this many processors and unlimited memory.
    pub const fn with_cpus(cpus: usize) -> Machine {
        Machine {
            cpus,
            memory_bytes: None,
        }
    }
}

impl Settings {
    /// Resolves the flags of `loadgen run`, separated by spaces, for a machine with this many
    /// processors and unlimited memory. The result does not depend on the actual machine.
    ///
    /// # Errors
    /// A flag is invalid, or the settings can't be resolved.
    pub fn of_flags(flags: &str, cpus: usize) -> Result<Settings, String> {
        let request = SettingsRequest::read(flags.split_ascii_whitespace());
        let request = request.map_err(|error| error.to_string())?;
        resolve(&request, Machine::with_cpus(cpus)).map_err(|error| error.to_string())
    }
}

/// The error for settings that are contradictory or impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

impl From<String> for SettingsError {
    fn from(problem: String) -> Self {
        SettingsError(problem)
    }
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, SettingsError> {
    Err(SettingsError(problem.into()))
}

/// Resolves every setting.
///
/// # Errors
/// The request contradicts itself, or a size does not fit another size or the machine.
pub fn resolve(request: &SettingsRequest, machine: Machine) -> Result<Settings, SettingsError> {
    let scenario = scenario(request)?;
    let has_input = request.input.is_some();
    let kinds = scenario.sized_kinds();
    let asked = &scenario
        .settings
        .under(&request.settings, has_input, &kinds);
    check_generated(&request.settings, &scenario, has_input)?;
    let engine = engine(asked, &scenario)?;
    let burst_pods = narrow("--burst", asked.burst, 500, i32::MAX as u64)?;
    let extra_pods = if scenario.uses_burst() { burst_pods } else { 0 };
    let size = match &request.input {
        Some(input) => size::beside_input(asked, kinds[0], input, extra_pods)?,
        None => generated(asked, &scenario, extra_pods)?,
    };
    if let Some(problem) = machine
        .memory_bytes
        .and_then(|memory| memory::shortage(&size, memory))
    {
        return refuse(problem);
    }
    // A run lasts one simulated day at most: enough for 100,000 pods at a stock client's 20 QPS.
    let default_limit = match engine {
        EngineKind::Threads => 600 * NS_PER_SECOND,
        EngineKind::Virtual => 86_400 * NS_PER_SECOND,
    };
    let time_limit_ns = asked.time_limit.map_or(default_limit, |time| time.0);
    if time_limit_ns == 0 {
        return refuse("--time-limit 0s leaves no time to run");
    }
    refuse_endless(asked, time_limit_ns)?;
    if !has_input && asked.start_stuck_pods {
        return refuse(
            "--start-stuck-pods applies to the pods of files: add -f FILE, or remove the flag",
        );
    }
    let min_ready_seconds = min_ready_seconds(asked, has_input)?;
    let workloads: FlagValues = asked.rows.generated().filled(|_| true).collect();
    scenario
        .check_switches(&workloads)
        .map_err(|(flag, problem)| format!("--{flag} {problem}"))?;
    flags::all().try_for_each(|flag| flag.check(&workloads))?;
    let mut all = workloads::ALL.iter();
    all.try_for_each(|workload| workload.check_flags(&workloads, min_ready_seconds))?;
    let latency = |latency: Option<LatencyText>| latency.map_or(Latency::ZERO, |latency| latency.0);
    Ok(Settings {
        engine,
        seed: asked.seed.unwrap_or(1),
        threads: threads(asked, engine, machine)?,
        size,
        controller: controller(asked)?,
        controller_times: Rows::installed()
            .run_times()
            .filter_map(|number| Some((number.flag, asked.rows.time_ns(number.flag)?)))
            .collect(),
        behaviour: asked.behaviour.map_or_else(Default::default, |name| name.0),
        latency: LatencySettings {
            pod_startup: latency(asked.pod_startup_latency),
            pod_termination: latency(asked.pod_termination_latency),
            api: latency(asked.api_latency),
            watch: latency(asked.watch_latency),
            scheduling: latency(asked.scheduling_latency),
        },
        pod_run_time_ns: pod_run_time(asked, &scenario)?,
        pod_failures: asked.pod_failures.map_or(0.0, |share| share.0),
        start_stuck_pods: asked.start_stuck_pods,
        api_errors: api_errors(asked)?,
        duration_ns: duration(asked, &scenario, time_limit_ns)?,
        time_limit_ns,
        churn_pods_per_second: churn_rate(asked, &scenario)?,
        burst_pods: burst_pods as u32,
        min_ready_seconds,
        workloads,
        scenario,
    })
}

/// Resolves the settings of the scenario's alternatives, each with its description. Empty on the
/// threads engine, where each alternative would take as long as the run itself.
///
/// # Errors
/// The same as [`resolve`].
pub fn alternatives(
    request: &SettingsRequest,
    machine: Machine,
) -> Result<Vec<(String, Settings)>, SettingsError> {
    let scenario = scenario(request)?;
    let has_input = request.input.is_some();
    let others = scenario.alternatives.iter();
    let others = others.filter(|other| !other.settings.is_given_by(&request.settings));
    // With files, alternatives that differ only in generated objects would all be the same run.
    let is_generated = |it: &ScenarioSettings| it.rows.generated() != FlagValues::default();
    let others = others.filter(|other| !has_input || !is_generated(&other.settings));
    let settings = others.map(|other| {
        let scenario = Scenario {
            settings: scenario
                .settings
                .under(&other.settings, has_input, &scenario.sized_kinds()),
            alternatives: Vec::new(),
            ..Scenario::clone(&scenario)
        };
        let request = SettingsRequest {
            scenario: Some(Arc::new(scenario)),
            ..request.clone()
        };
        resolve(&request, machine).map(|settings| (other.with.clone(), settings))
    });
    let settings: Result<Vec<_>, _> = settings.collect();
    let is_virtual = |(_, settings): &(String, Settings)| settings.engine == EngineKind::Virtual;
    Ok(settings?.into_iter().filter(is_virtual).collect())
}

fn scenario(request: &SettingsRequest) -> Result<Arc<Scenario>, SettingsError> {
    let has_input = request.input.is_some();
    let scenario = match &request.scenario {
        None if has_input => Scenario::manifests(),
        None => Scenario::by_default(),
        Some(scenario) => Arc::clone(scenario),
    };
    let name = &scenario.name;
    if !has_input && scenario.loads_input() && !scenario.generates_cluster() {
        return refuse(format!(
            "the scenario {name} runs objects from files: add -f FILE"
        ));
    }
    if let Some(input) = &request.input {
        scenario.check_input(input)?;
    }
    if request.settings.burst.is_some() && !scenario.uses_burst() {
        return refuse(format!(
            "--burst belongs to scenarios with a burst, such as burst, not to {name}"
        ));
    }
    Ok(scenario)
}

/// Checks that flags for generated objects are given only if such objects are generated.
///
/// # Errors
/// A flag would have no effect.
fn check_generated(
    given: &ScenarioSettings,
    scenario: &Scenario,
    has_input: bool,
) -> Result<(), SettingsError> {
    for workload in workloads::ALL {
        let kind = workload.kind().name();
        let mut flags = workload.flags().iter();
        let Some(flag) = flags.find(|flag| given.rows.has(flag.name)) else {
            continue;
        };
        let flag = flag.name;
        if has_input {
            return refuse(format!(
                "--{flag} applies to generated {kind}s and can't be used with -f, whose files define the \
                 cluster"
            ));
        }
        let values = given.or(&scenario.settings).rows.generated();
        let is_switch = |makes: &Makes| makes.switch.is_on(&values);
        let makes = workload.makes();
        // A scenario may generate only other workloads, which then determine its size.
        let kinds = scenario.sized_kinds();
        let has = |sizes| kinds.iter().any(|own| own.sizes == sizes);
        let is_sized = workload.sizes().is_none_or(has);
        let is_generated = scenario.creates(workload.kind())
            || makes.as_ref().is_some_and(is_switch)
            || workload.is_in_every_run() && is_sized;
        if !is_generated {
            return refuse(format!(
                "--{flag} applies to generated {kind}s, and the scenario {} generates none{}",
                scenario.name,
                makes.map_or(String::new(), |makes| format!(
                    " without --{}",
                    makes.switch.name
                ))
            ));
        }
    }
    Ok(())
}

/// Returns the requested engine. The default is threads, but virtual if the scenario disturbs the
/// controllers' connection.
fn engine(asked: &ScenarioSettings, scenario: &Scenario) -> Result<EngineKind, SettingsError> {
    let takes_time = |latency: LatencyText| !latency.0.is_zero();
    if scenario.rejects_pods() && !asked.pod_startup_latency.is_some_and(takes_time) {
        return refuse(format!(
            "the scenario {} rejects pods, and controllers would recreate them endlessly \
             unless starting a pod takes time; add --pod-startup-latency",
            scenario.name
        ));
    }
    match (asked.engine.map(|name| name.0), scenario.is_disturbed()) {
        (Some(EngineKind::Threads), true) => refuse(format!(
            "--engine threads: the scenario {} disturbs the controllers' connection, sometimes for \
             minutes, which only simulated time skips; remove --engine or use --engine virtual",
            scenario.name
        )),
        (None, true) => Ok(EngineKind::Virtual),
        (engine, _) => Ok(engine.unwrap_or(EngineKind::Threads)),
    }
}

/// Returns the size of a generated cluster, including the capacity that the scenario asks for.
fn generated(
    asked: &ScenarioSettings,
    scenario: &Scenario,
    extra_pods: u64,
) -> Result<ClusterSize, SettingsError> {
    let extra = |pods: u64| {
        let capacity = scenario.capacity.map_or(0, |share| share.some_of(pods));
        capacity.saturating_sub(pods).max(extra_pods)
    };
    let kinds = scenario.sized_kinds();
    let sizes = kinds[0].sizes;
    let is_sized = asked.rows.has(sizes.count) || asked.rows.has(sizes.each);
    if is_sized && !scenario.groups.is_empty() {
        return refuse(format!(
            "the scenario {} has groups with their own sizes: remove --{} and --{}",
            scenario.name, sizes.count, sizes.each
        ));
    }
    let requests = objects::pod_requests(super::template_of(scenario).as_deref());
    let (pods_asked, counts, groups) = if scenario.is_mixed() {
        let (counts, groups) = size::mixed(asked, &kinds)?;
        (None, Some(counts), groups)
    } else {
        let (pods, _) = size::pods_and_workloads(asked, sizes)?;
        if scenario.groups.is_empty() {
            return Ok(size::generated(asked, kinds[0], extra(pods), &requests)?);
        }
        (Some(pods), None, group_sizes(&scenario.groups, pods))
    };
    let workloads: u64 = groups.iter().map(|(workloads, _)| workloads).sum();
    let pods: u64 = groups
        .iter()
        .map(|(workloads, pods)| workloads * *pods as u64)
        .sum();
    let mut sized = ScenarioSettings {
        pods: Some(Size(pods)),
        ..asked.clone()
    };
    let count = FlagValue::Size(Size(workloads));
    sized.rows.set(sizes.count, Some(count));
    sized.rows.set(sizes.each, None);
    let size = size::generated(&sized, kinds[0], extra(pods), &requests)?;
    Ok(ClusterSize {
        groups,
        pods_asked,
        counts: counts.unwrap_or(size.counts),
        ..size
    })
}

fn threads(
    asked: &ScenarioSettings,
    engine: EngineKind,
    machine: Machine,
) -> Result<usize, SettingsError> {
    match (engine, asked.threads) {
        (EngineKind::Virtual, Some(_)) => refuse(
            "--threads requires the threads engine: the virtual engine runs on one thread so \
             that a seed repeats exactly",
        ),
        (EngineKind::Virtual, None) => Ok(1),
        (EngineKind::Threads, threads) => {
            let cpus = (machine.cpus as u64).clamp(1, MAX_THREADS);
            Ok(narrow("--threads", threads, cpus, MAX_THREADS)? as usize)
        }
    }
}

fn controller(asked: &ScenarioSettings) -> Result<ControllerSettings, SettingsError> {
    let mut workers = WorkerCounts::default();
    for (_, flag) in Rows::installed().worker_flags() {
        let (name, given) = (format!("--{}", flag.flag), asked.rows.size(flag.flag));
        let count = narrow(&name, given, flag.default as u64, MAX_THREADS)?;
        workers.set(flag, count as usize);
    }
    let (kube_api_qps, kube_api_burst) = client_limit(asked)?;
    let given = asked.feature_gates.iter().map(String::as_str);
    Ok(ControllerSettings {
        workers,
        burst_replicas: narrow(
            "--burst-replicas",
            asked.burst_replicas,
            BURST_REPLICAS as u64,
            i32::MAX as u64,
        )? as u32,
        kube_api_qps,
        kube_api_burst,
        feature_gates: gates::parse(given).map_err(|error| format!("--feature-gates: {error}"))?,
    })
}

fn client_limit(asked: &ScenarioSettings) -> Result<(Option<f64>, u32), SettingsError> {
    let most = i32::MAX as u64;
    let burst = narrow(
        "--kube-api-burst",
        asked.kube_api_burst,
        UPSTREAM_BURST.into(),
        most,
    )? as u32;
    let qps = asked.kube_api_qps.map(|qps| qps.0);
    if asked.upstream_defaults {
        if let Some(qps) = qps.filter(|qps| *qps != UPSTREAM_QPS) {
            return refuse(format!(
                "--upstream-defaults sets --kube-api-qps to 20, but --kube-api-qps is {}: use \
                 only one of them",
                number_for_people(qps)
            ));
        }
        if burst != UPSTREAM_BURST {
            return refuse(format!(
                "--upstream-defaults sets --kube-api-burst to 30, but --kube-api-burst is \
                 {burst}: use only one of them"
            ));
        }
        return Ok((Some(UPSTREAM_QPS), UPSTREAM_BURST));
    }
    if let Some(qps) = qps
        && !QPS_RANGE.contains(&qps)
    {
        return refuse(format!(
            "--kube-api-qps {qps:?} is out of range: from {} (a request in 17 minutes) to {}; omit \
             it for no limit",
            QPS_RANGE.start(),
            QPS_RANGE.end()
        ));
    }
    if qps.is_none() && asked.kube_api_burst.is_some() {
        return refuse(
            "--kube-api-burst limits nothing without a rate: add --kube-api-qps or \
             --upstream-defaults",
        );
    }
    Ok((qps, burst))
}

fn pod_run_time(
    asked: &ScenarioSettings,
    scenario: &Scenario,
) -> Result<Option<i64>, SettingsError> {
    match asked.pod_run_time {
        None if asked.pod_failures.is_some() => refuse(
            "--pod-failures is a share of the pods that end: add --pod-run-time, or remove it",
        ),
        Some(_) if scenario.has_node_faults() => refuse(format!(
            "--pod-run-time: the scenario {} lets nodes fail, and pods that end are not simulated on \
             such nodes; remove it",
            scenario.name
        )),
        time => Ok(time.map(|time| time.0)),
    }
}

fn duration(
    asked: &ScenarioSettings,
    scenario: &Scenario,
    time_limit_ns: i64,
) -> Result<i64, SettingsError> {
    match asked.duration.map(|time| time.0) {
        Some(_) if !scenario.uses_duration() => refuse(format!(
            "--duration applies to scenarios with churn; {} ends when it is done (--time-limit ends it \
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

fn churn_rate(asked: &ScenarioSettings, scenario: &Scenario) -> Result<f64, SettingsError> {
    match asked.churn_rate.map(|rate| rate.0) {
        Some(_) if !scenario.uses_churn_rate() => refuse(format!(
            "--churn-rate applies to scenarios with churn, such as churn, not to {}",
            scenario.name
        )),
        Some(rate) if !CHURN_RANGE.contains(&rate) => {
            refuse("--churn-rate is out of range: from 1/h to 1000k/s")
        }
        Some(rate) => Ok(rate),
        None => Ok(100.0),
    }
}

fn api_errors(asked: &ScenarioSettings) -> Result<f64, SettingsError> {
    match asked.api_errors {
        Some(share) if share.0 > 0.9 => refuse(
            "--api-errors: with more than 90% of the calls failing a run makes no progress; use 90% at \
             most",
        ),
        share => Ok(share.map_or(0.0, |share| share.0)),
    }
}

/// Refuses a latency that exceeds the time limit of the run, because the run would fail only at its
/// end.
fn refuse_endless(asked: &ScenarioSettings, time_limit_ns: i64) -> Result<(), SettingsError> {
    let least = |latency: Option<LatencyText>| match latency.map(|latency| latency.0) {
        None => 0,
        Some(Latency::Constant(ns) | Latency::Uniform(ns, _)) => ns,
        Some(Latency::Lognormal { p50, .. }) => p50,
    };
    // A pod is removed at the latest after its grace period, regardless of its termination latency.
    for (flag, ns) in [
        ("--api-latency", least(asked.api_latency)),
        ("--watch-latency", least(asked.watch_latency)),
        ("--scheduling-latency", least(asked.scheduling_latency)),
        ("--pod-startup-latency", least(asked.pod_startup_latency)),
        (
            "--min-ready-seconds",
            asked.min_ready_seconds.map_or(0, |time| time.0),
        ),
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

fn min_ready_seconds(asked: &ScenarioSettings, has_input: bool) -> Result<i32, SettingsError> {
    let ns = asked.min_ready_seconds.map_or(0, |time| time.0);
    if ns % NS_PER_SECOND != 0 {
        return refuse("--min-ready-seconds: minReadySeconds counts whole seconds");
    }
    if ns > 0 && has_input {
        return refuse(
            "--min-ready-seconds applies to generated workloads; with -f write \
             spec.minReadySeconds in the files",
        );
    }
    i32::try_from(ns / NS_PER_SECOND)
        .map_err(|_| SettingsError("--min-ready-seconds: longer than 68 years".into()))
}

/// Returns the requested size, or the default; refuses a size above `max`.
fn narrow(flag: &str, given: Option<Size>, default: u64, max: u64) -> Result<u64, SettingsError> {
    let value = given.map_or(default, |size| size.0);
    if value > max {
        return refuse(format!("{flag} {value} is too many: at most {max}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
