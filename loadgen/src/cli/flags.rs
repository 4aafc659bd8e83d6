//! Flags of `loadgen run`: settings, outputs and display.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::address;
use super::baseline::BaselineFlags;
use crate::metrics::Threshold;
use crate::report::output::Inputs;
use crate::settings::resolve::SettingsRequest;

/// Flags of `loadgen run`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
UNITS
  SIZE      a whole number, k = 1,000, m = 1,000,000:  500  100k  1m
  TIME      a number with its unit ns, us, ms, s, m, h or d:  500ms  3s  1h30m  2d
  RATE      a number per unit of time:  20/s  1200/m
  LIMIT     a percentage, or a number of pods:  25%  1
  LATENCY   a TIME, or a distribution:  5ms  constant:5ms  uniform:1ms,5ms
            p50=3ms,p99=40ms  (log-normal)

EXAMPLES
  loadgen run
      2,000 ReplicaSets of a stock cluster scale to 100,000 pods, with several client limits
  loadgen run --scenario up-down
      the speed of this machine: 100,000 pods up, half down, all down, without latencies
  loadgen run --scenario up-down --pods 1m --replicasets 20k --json result.json
      a million pods, with the metrics as JSON
  loadgen run --scenario churn --duration 10m --tui
      ten minutes of pods that come and go, in the full-screen view
  loadgen run --pods 10k --kube-api-qps 50 --api-latency p50=20ms,p99=200ms
      a smaller cluster with a different client limit and a slower API
  loadgen run -f loadgen/examples/frontend.yaml -f loadgen/examples/nginx-rc.yaml
      a ReplicaSet and a ReplicationController from hand-written manifests
  loadgen run --scenario stale-watch
      a stalled pod watch: pods are created twice (kubernetes#129795), and how to prevent it
  loadgen run --threshold 'pod_ready_latency p99 < 5s'
      exit code 1 if the 99th percentile is 5 s or more
  loadgen run --pods 10k --runs 10 --json base.json
      ten runs and their spread; `loadgen compare` tests two such files for a difference
  loadgen run --save-baseline main
  loadgen run --behaviour hardened --baseline main --tolerance p99=10%
      save a result and compare a later one with it: exit code 1 if a metric is worse
  kubectl get rs,rc,pods,nodes -A -o json | loadgen run -f -
      a dump of a real cluster: the controllers start with its objects

EXIT CODES
  0 done   1 not done within --time-limit, a threshold not met, or worse than the baseline
  2 wrong usage, input or output path   3 an invariant was broken   130 interrupted, after the report")]
pub(super) struct RunFlags {
    #[command(flatten)]
    pub(super) shape: SettingsRequest,

    /// Run N times in sequence, with consecutive seeds from --seed on, and show mean and deviation
    /// of the main metrics and the answer of the median run. On the virtual engine runs differ only
    /// by their seed; on the threads engine also by the state of the machine. --json contains every
    /// result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000),
          allow_hyphen_values = true, help_heading = "Output")]
    pub(super) runs: Option<u16>,

    /// Write the result as JSON to this file, atomically; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// A bound on a metric, with exit code 1 if it does not hold: 'pod_ready_latency p99 < 5s',
    /// 'excess_pods_created == 0' (`loadgen metrics` lists the metrics); repeatable
    #[arg(long = "threshold", value_name = "TEXT", help_heading = "Output")]
    pub(super) thresholds: Vec<Threshold>,

    /// Write a self-contained web page to this file: charts, distributions, the slowest ReplicaSets
    /// and the settings
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) report: Option<PathBuf>,

    /// Write time series as CSV to this file: pods, queue and API calls, about 1,000 rows at most
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) csv: Option<PathBuf>,

    /// Write the phases as a JUnit test report to this file; an unfinished phase is a failure
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) junit: Option<PathBuf>,

    /// Write the latencies to this file in the format of Kubernetes' performance dashboard
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) perf_dash: Option<PathBuf>,

    /// Serve the run's metrics to Prometheus at http://ADDRESS/metrics during the run:
    /// localhost:9090, or :9090 for every address of this machine; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address::any, help_heading = "Output")]
    pub(super) metrics_addr: Option<SocketAddr>,

    /// Serve the run's cluster to kubectl and other clients during the run, in real time, until the
    /// report is printed. :PORT is 127.0.0.1:PORT
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address::local, help_heading = "Output")]
    pub(super) serve: Option<SocketAddr>,

    /// Keep serving the final state of the cluster after the run, until Ctrl-C
    #[arg(long, requires = "serve", help_heading = "Output")]
    pub(super) keep_serving: bool,

    /// Sample the run and draw its CPU time as a flamegraph (SVG); this flag and the next three
    /// need a build with `--features profile`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) flamegraph: Option<PathBuf>,

    /// Sample the run and write a profile for `go tool pprof`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) pprof: Option<PathBuf>,

    /// Sample the run and write its folded stacks, one per line with its number of samples; two
    /// such files make a differential flamegraph
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) folded: Option<PathBuf>,

    /// Samples per second of CPU time, 1 to 1000 [default: 199]
    #[arg(long, value_name = "NUMBER", help_heading = "Output", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) profile_hertz: Option<u16>,

    /// Include wall time, CPU, memory and machine in the result of a virtual run
    #[arg(long, help_heading = "Output")]
    pub(super) host_metrics: bool,

    #[command(flatten)]
    pub(super) baselines: BaselineFlags,

    /// Show the run full screen: the phase, and charts of pods, rate and queue; q or Ctrl-C stops
    /// the run and prints the report. Needs a build with `--features tui`
    #[arg(long, help_heading = "Output")]
    pub(super) tui: bool,

    /// Print neither progress nor report, only errors
    #[arg(short, long, help_heading = "Output")]
    pub(super) quiet: bool,

    /// Print the effective settings and run nothing
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "yaml", help_heading = "Output")]
    pub(super) print_scenario: Option<SettingsFormat>,

    /// Summarize the files of -f: their objects, the kinds that are not simulated, and deviations
    /// from the desired state; run nothing
    #[arg(long, requires = "files", help_heading = "Output")]
    pub(super) dry_run: bool,
}

/// Values of `--print-scenario`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingsFormat {
    Yaml,
    Json,
}

/// Registers the files that a run reads as inputs.
///
/// # Errors
/// Two flags would read standard input.
pub(super) fn note_inputs(asked: &SettingsRequest, inputs: &mut Inputs) -> Result<()> {
    for file in &asked.files {
        inputs.add("-f", file);
    }
    if let Some(path) = asked.scenario.as_ref().and_then(|one| one.path.as_ref()) {
        if path == "-" && asked.files.iter().any(|file| file.as_os_str() == "-") {
            bail!("standard input (-) is both --scenario and -f, but can be read only once");
        }
        inputs.add("--scenario", Path::new(path));
    }
    Ok(())
}
