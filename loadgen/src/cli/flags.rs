//! The flags of `loadgen run`, under the names that operators know, and what they ask for.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use podstorm::policy::Behaviour;

use super::baseline::BaselineFlags;
use crate::metrics::Threshold;
use crate::report::output::Inputs;
use crate::scenario::Scenario;
use crate::settings::resolve::{SettingsError, SettingsRequest};
use crate::settings::{EngineKind, Latency};
use crate::size::{InputSize, SizeRequest};
use crate::units::{parse_duration_ns, parse_latency, parse_rate_per_second, parse_size};

/// What shapes a run: scenario, engine, sizes, controller and latencies. `loadgen sweep` varies them.
#[derive(Args, Debug)]
pub(super) struct ShapeFlags {
    /// The scenario: a built-in one (see `loadgen scenarios`) or a file, .yaml or .toml [default:
    /// up-down; with -f: manifests]. Flags win over its settings
    #[arg(long, value_name = "NAME|FILE", value_parser = Scenario::find)]
    scenario: Option<Arc<Scenario>>,

    /// threads: real time on every core; virtual: simulated time, the same result for the same
    /// seed [default: threads, unless the scenario says virtual; of a sweep: virtual]
    #[arg(long, value_enum)]
    engine: Option<EngineFlag>,

    /// The seed of everything that is drawn [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed: Option<u64>,

    /// Machine threads of the threads engine [default: all cores]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true)]
    threads: Option<u64>,

    /// Objects from files instead of a generated cluster: Kubernetes YAML or JSON, several
    /// documents, Lists, also packed by gzip; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    pub(super) files: Vec<PathBuf>,

    /// How long the steady part of churn lasts [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, allow_hyphen_values = true)]
    duration: Option<i64>,

    /// Give up after so much time [default: 10m; virtual engine: 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, allow_hyphen_values = true)]
    time_limit: Option<i64>,

    /// Pods deleted from outside (scenario churn) [default: 100/s]
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_second,
          allow_hyphen_values = true)]
    churn_rate: Option<f64>,

    /// Pods added and removed at once (scenario burst) [default: 500]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    burst: Option<u64>,

    /// Pods at 100 % [default: 100k, unless the scenario says otherwise]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    pods: Option<u64>,

    /// ReplicaSets; the pods are divided over them evenly [default: pods/50]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    replicasets: Option<u64>,

    /// Pods of each ReplicaSet; of this, --pods and --replicasets any two decide the third
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    pods_per_replicaset: Option<u64>,

    /// Nodes [default: pods/20, or those of the files]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    nodes: Option<u64>,

    /// Namespaces [default: 100]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    namespaces: Option<u64>,

    /// Pods that fit on a node [default: 110]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Size of the generated cluster")]
    pods_per_node: Option<u64>,

    /// Workers for ReplicaSets [default: 5]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Controller")]
    concurrent_replicaset_syncs: Option<u64>,

    /// Workers for ReplicationControllers [default: 5]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Controller")]
    concurrent_rc_syncs: Option<u64>,

    /// Most creates or deletes in one sync [default: 500]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Controller")]
    burst_replicas: Option<u64>,

    /// Requests per second of the controller's client, events included [default: those of the
    /// scenario, or unlimited]
    #[arg(long, value_name = "NUMBER", value_parser = qps, allow_hyphen_values = true,
          help_heading = "Controller")]
    kube_api_qps: Option<f64>,

    /// Requests above --kube-api-qps that may be saved up [default: those of the scenario, or 30]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Controller")]
    kube_api_burst: Option<u64>,

    /// The client limit of a stock controller-manager: 20 QPS, burst 30, in place of both numbers of
    /// the scenario where it has a limit of its own
    #[arg(long, help_heading = "Controller")]
    upstream_defaults: bool,

    /// minReadySeconds of the generated ReplicaSets, with its unit: 10s [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, allow_hyphen_values = true,
          help_heading = "Controller")]
    min_ready_seconds: Option<i64>,

    /// Gates that change behaviour: PodDeletionCost, DeploymentReplicaSetTerminatingReplicas,
    /// StaleControllerConsistencyReplicaSet, WatchListClient (all on by default; the scenario
    /// stale-watch has StaleControllerConsistencyReplicaSet off, as before 1.36, unless it is given),
    /// LogarithmicScaleDown (locked on)
    #[arg(long, value_name = "NAME=BOOL,...", help_heading = "Controller")]
    feature_gates: Vec<String>,

    /// Whose behaviour: upstream is that of Kubernetes 1.36; hardened is the same without the races
    /// and delays that upstream is known for, at the cost of some reads and waiting
    /// [default: upstream]
    #[arg(long, value_name = "NAME", value_parser = behaviour, help_heading = "Controller")]
    behaviour: Option<Behaviour>,

    /// From a pod's being bound to its being ready [default: 0s]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency, allow_hyphen_values = true,
          help_heading = "Latencies")]
    pod_startup_latency: Option<Latency>,

    /// From a pod's deletion to its being gone, its grace period at most [default: 0s]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency, allow_hyphen_values = true,
          help_heading = "Latencies")]
    pod_termination_latency: Option<Latency>,

    /// One API call of the controller, there and back [default: 0s]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency, allow_hyphen_values = true,
          help_heading = "Latencies")]
    api_latency: Option<Latency>,

    /// API calls of the controller that are refused with an internal error, by lot: 1% [default: 0%]
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true,
          help_heading = "Latencies")]
    api_errors: Option<f64>,

    /// From a write to the controller's seeing it [default: 0s]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency, allow_hyphen_values = true,
          help_heading = "Latencies")]
    watch_latency: Option<Latency>,

    /// From a pod's creation to its being bound [default: 0s]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency, allow_hyphen_values = true,
          help_heading = "Latencies")]
    scheduling_latency: Option<Latency>,
}

/// What `loadgen run` is asked for.
#[derive(Args, Debug)]
#[command(after_long_help = "\
UNITS
  SIZE      a whole number, k = 1,000, m = 1,000,000:  500  100k  1m
  TIME      a number with its unit ns, us, ms, s, m or h:  500ms  3s  1h30m
  RATE      a number per unit of time:  20/s  1200/m
  LATENCY   a TIME, or a distribution:  5ms  constant:5ms  uniform:1ms,5ms
            p50=3ms,p99=40ms  (log-normal)

EXAMPLES
  loadgen run
      100,000 pods in 2,000 ReplicaSets on 5,000 nodes: up, half down, all down
  loadgen run --pods 1m --replicasets 20k --json result.json
      a million pods, the metrics for a program
  loadgen run --scenario churn --duration 10m --tui
      ten minutes of pods that go and come, full screen while they do
  loadgen run --engine virtual --pods 10k --upstream-defaults --api-latency p50=3ms,p99=40ms
      hours of a stock controller-manager in seconds, the same every time
  loadgen run -f loadgen/examples/frontend.yaml -f loadgen/examples/nginx-rc.yaml
      a ReplicaSet and a ReplicationController as people write them
  loadgen run --scenario stale-watch
      a pod watch that stalls: pods created twice (kubernetes#129795), and what mends it
  loadgen run --engine virtual --threshold 'pod_ready_latency p99 < 5s'
      exit code 1 where the 99th percentile is 5 s or more
  loadgen run --engine virtual --save-baseline main
  loadgen run --engine virtual --behaviour hardened --baseline main --tolerance p99=10%
      a result saved, and another beside it: exit code 1 where a metric is worse
  kubectl get rs,rc,pods,nodes -A -o json | loadgen run -f -
      a dump of a real cluster: the controller starts over it

EXIT CODES
  0 done   1 not done by --time-limit, a threshold not met, or worse than the baseline
  2 wrong usage, input or output path   3 an invariant was broken   130 interrupted, after the report")]
pub(super) struct RunFlags {
    #[command(flatten)]
    pub(super) shape: ShapeFlags,

    /// Write the result as JSON to this file, whole or not at all; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// What a metric must keep to; exit code 1 where it does not: 'pod_ready_latency p99 < 5s',
    /// 'excess_pods_created == 0' (`loadgen metrics` lists the metrics); repeatable
    #[arg(long = "threshold", value_name = "TEXT", help_heading = "Output")]
    pub(super) thresholds: Vec<Threshold>,

    /// Write a report as one web page to this file: charts, distributions, the slowest ReplicaSets,
    /// settings; it needs no network
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) report: Option<PathBuf>,

    /// Write the time series as CSV to this file: pods, queue, API calls, at most 1,000 rows or so
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) csv: Option<PathBuf>,

    /// Write the phases as a JUnit test report to this file; a phase that was not done is a failure
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) junit: Option<PathBuf>,

    /// Write the latencies to this file as Kubernetes' performance dashboard reads them
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) perf_dash: Option<PathBuf>,

    /// Serve the run's metrics to Prometheus at http://ADDRESS/metrics while it goes on: localhost:9090,
    /// or :9090 for every address of this machine; port 0 is one that is free
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address, help_heading = "Output")]
    pub(super) metrics_addr: Option<SocketAddr>,

    /// Sample the run and draw where its processor time went as a flamegraph (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) flamegraph: Option<PathBuf>,

    /// Sample the run and write a profile for `go tool pprof`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) pprof: Option<PathBuf>,

    /// Sample the run and write its stacks, one a line with its number of samples; two such files
    /// make a differential flamegraph
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) folded: Option<PathBuf>,

    /// Samples of a profile per second of processor time, 1 to 1000 [default: 199]
    #[arg(long, value_name = "NUMBER", help_heading = "Output", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) profile_hertz: Option<u16>,

    /// Put wall time, CPU, memory and machine into the result of a virtual run too
    #[arg(long, help_heading = "Output")]
    pub(super) host_metrics: bool,

    #[command(flatten)]
    pub(super) baselines: BaselineFlags,

    /// Show the run on the whole screen while it goes on: the phase, and pods, rate and queue over
    /// time; q or Ctrl-C stops it and reports on what ran
    #[arg(long, help_heading = "Output")]
    pub(super) tui: bool,

    /// Neither progress nor report; the exit code and --json tell
    #[arg(short, long, help_heading = "Output")]
    pub(super) quiet: bool,

    /// Print the effective settings and run nothing
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "yaml", help_heading = "Output")]
    pub(super) print_scenario: Option<SettingsFormat>,

    /// Print what the files of -f hold, what of it is left out, and what isn't as wanted, and run
    /// nothing
    #[arg(long, requires = "files", help_heading = "Output")]
    pub(super) dry_run: bool,
}

/// `--engine`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineFlag {
    Threads,
    Virtual,
}

/// `--print-scenario`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingsFormat {
    Yaml,
    Json,
}

impl ShapeFlags {
    /// Notes the files that these flags have a run read.
    ///
    /// # Errors
    /// Standard input is to be read twice.
    pub(super) fn note_inputs(&self, inputs: &mut Inputs) -> Result<(), SettingsError> {
        for file in &self.files {
            inputs.add("-f", file);
        }
        if let Some(path) = self.scenario.as_ref().and_then(|one| one.path.as_ref()) {
            if path == "-" && self.files.iter().any(|file| file.as_os_str() == "-") {
                return Err(SettingsError(
                    "standard input (-) is both --scenario and -f; it can be read once only"
                        .to_owned(),
                ));
            }
            inputs.add("--scenario", Path::new(path));
        }
        Ok(())
    }

    /// What the flags ask for; `input` is what the files hold.
    pub(super) fn request(&self, input: Option<InputSize>) -> SettingsRequest {
        SettingsRequest {
            scenario: self.scenario.clone(),
            engine: self.engine.map(|engine| match engine {
                EngineFlag::Threads => EngineKind::Threads,
                EngineFlag::Virtual => EngineKind::Virtual,
            }),
            seed: self.seed,
            threads: self.threads,
            size: SizeRequest {
                pods: self.pods,
                replicasets: self.replicasets,
                pods_per_replicaset: self.pods_per_replicaset,
                nodes: self.nodes,
                namespaces: self.namespaces,
                pods_per_node: self.pods_per_node,
            },
            concurrent_replicaset_syncs: self.concurrent_replicaset_syncs,
            concurrent_rc_syncs: self.concurrent_rc_syncs,
            burst_replicas: self.burst_replicas,
            kube_api_qps: self.kube_api_qps,
            kube_api_burst: self.kube_api_burst,
            upstream_defaults: self.upstream_defaults,
            min_ready_ns: self.min_ready_seconds,
            feature_gates: self.feature_gates.clone(),
            behaviour: self.behaviour,
            pod_startup_latency: self.pod_startup_latency,
            pod_termination_latency: self.pod_termination_latency,
            api_latency: self.api_latency,
            api_errors: self.api_errors,
            watch_latency: self.watch_latency,
            scheduling_latency: self.scheduling_latency,
            duration_ns: self.duration,
            time_limit_ns: self.time_limit,
            churn_pods_per_second: self.churn_rate,
            burst_pods: self.burst,
            input,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%');
    match number.map(|number| number.trim().parse::<f64>()) {
        Some(Ok(value)) if (0.0..=100.0).contains(&value) => Ok(value / 100.0),
        _ => Err("expected a percentage from 0% to 100%, such as 1%".to_owned()),
    }
}

pub(super) fn behaviour(text: &str) -> Result<Behaviour, String> {
    Behaviour::from_name(text).ok_or_else(|| {
        let known = Behaviour::ALL.map(Behaviour::as_str);
        format!("no such behaviour; there are {}", known.join(" and "))
    })
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address with a port, such as 127.0.0.1:9090, localhost:9090, [::1]:0, \
                    or :9090 for every address of this machine";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(expected.to_owned());
    };
    let port: u16 = port.parse().map_err(|_| expected.to_owned())?;
    if host.is_empty() {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    let addresses = (host, port).to_socket_addrs();
    let mut addresses: Vec<SocketAddr> = addresses
        .map_err(|error| format!("the host {host} is not known ({error}); {expected}"))?
        .collect();
    // Of a name's addresses the one that most readers try.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| format!("the host {host} has no address; {expected}"))
}

fn qps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(qps) if qps.is_finite() && qps > 0.0 => Ok(qps),
        Ok(0.0) => Err("must be more than zero; leave the flag out for no limit".to_owned()),
        Ok(_) => Err("must be a finite number more than zero".to_owned()),
        Err(_) => Err("expected a number of requests per second, such as 20".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_served_at_addresses_names_and_ports() {
        for (text, address) in [
            ("127.0.0.1:9090", "127.0.0.1:9090"),
            ("localhost:9091", "127.0.0.1:9091"),
            (":9091", "0.0.0.0:9091"),
            ("[::1]:0", "[::1]:0"),
        ] {
            let read = metrics_address(text).map(|address| address.to_string());
            assert_eq!(read, Ok(address.to_owned()));
        }
        for text in [
            "",
            "9090",
            "localhost",
            ":",
            "localhost:http",
            "localhost:99999",
            "a b:1",
        ] {
            let problem = metrics_address(text).unwrap_err();
            assert!(
                problem.contains("such as 127.0.0.1:9090"),
                "{text}: {problem}"
            );
        }
    }
}
