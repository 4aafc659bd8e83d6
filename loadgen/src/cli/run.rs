//! `loadgen run`: checks everything that can be checked beforehand, runs the scenario, and reports.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use podstorm_apiserver::Cluster;
use podstorm_http::draw_hash_seed;
use podstorm_sim::clock::RealClock;
use terminal_size::{Width, terminal_size_of};

use super::flags::{RunFlags, SettingsFormat, note_inputs};
use super::interrupt::Interrupter;
use super::kubeconfig::Kubeconfig;
use super::outputs::{self, Outputs};
use super::{
    baseline, dry_run, effective, interrupt, live, print, print_beside, profile, repeated, warn,
};
use crate::exposition::MetricsServer;
use crate::input::{InputCounts, InputObject, InputSize};
use crate::manifest::{self, Loaded};
use crate::metrics::Threshold;
use crate::report::output::Inputs;
use crate::report::progress::ProgressView;
use crate::report::terminal;
use crate::report::{colour, csv, html, junit, perf_dash};
use crate::result::{Alternative, thresholds};
use crate::run::{self, Metrics, Observer, Progress};
use crate::serve::{Login, RunServer, descriptors};
use crate::settings::resolve::{Machine, alternatives, resolve};
use crate::settings::{EngineKind, Settings};
use crate::sweep::{self, RunPlan};
use crate::text::json;

/// Runs the scenario and returns the exit code.
///
/// # Errors
/// The usage, an input or an output path is invalid; nothing has run.
pub(super) fn run(flags: &RunFlags) -> Result<u8> {
    let machine = Machine::this();
    repeated::check(flags)?;
    // Refuse contradicting flags before reading any file.
    let has_files = !flags.shape.files.is_empty();
    resolve(
        &flags.shape.with_input(has_files.then(InputSize::default)),
        machine,
    )?;
    live::check(flags)?;
    if flags.serve.is_some() {
        draw_hash_seed().context("can't draw random numbers")?;
    }
    let runs = flags.print_scenario.is_none() && !flags.dry_run;
    let outputs = match runs {
        true => Some(open_outputs(flags)?),
        false => None,
    };
    let cancel = Arc::new(AtomicBool::new(false));
    // A message about an interrupt would be lost: the full-screen view overwrites it, and shows the
    // interrupt itself.
    let says_nothing = flags.quiet || flags.tui;
    let temporary = outputs.as_ref().map(Outputs::temporary);
    let interrupter = interrupt::watch(&cancel, temporary.unwrap_or_default(), says_nothing);
    let loading = RealClock::start();
    let loaded: Option<Loaded> = match has_files {
        true => Some(manifest::load(&flags.shape.files, io::stdin().lock())?),
        false => None,
    };
    let load_seconds = if has_files { loading.seconds() } else { 0.0 };
    if let Some(loaded) = loaded.as_ref().filter(|_| !flags.quiet) {
        warn(&loaded.warnings);
    }
    let request = flags
        .shape
        .with_input(loaded.as_ref().map(|loaded| loaded.size.clone()));
    let settings = resolve(&request, machine)?;
    let thresholds = thresholds(flags, &settings);
    refuse_absent_metrics(flags, &thresholds, &settings)?;
    thresholds::refuse_absent_phases(&thresholds, &settings)?;
    if let Some(loaded) = loaded.as_ref().filter(|_| flags.dry_run) {
        print(&dry_run::summary(loaded, &settings))?;
        return Ok(0);
    }
    let Some(mut outputs) = outputs else {
        let all = effective::settings(&settings, &flags.shape.files);
        print(&match flags.print_scenario {
            Some(SettingsFormat::Json) => effective::json(&all),
            _ => effective::yaml(&all),
        })?;
        return Ok(0);
    };
    let (objects, counts) = match loaded {
        Some(loaded) => (loaded.objects, loaded.counts),
        None => Default::default(),
    };
    if let Some(runs) = flags.runs {
        let plan = RunPlan {
            settings,
            objects: Arc::new(objects),
            input: counts,
            keeps_host: true,
        };
        return repeated::run(
            flags,
            runs,
            &plan,
            &thresholds,
            outputs,
            &cancel,
            &interrupter,
        );
    }
    let baseline = flags.baselines.load(&settings, &counts)?;
    let others = alternatives(&request, machine)?;
    let objects_again = match others.is_empty() {
        true => Vec::new(),
        false => objects.clone(),
    };

    let metrics = match flags.metrics_addr {
        Some(address) => Some(MetricsServer::start(address)?),
        None => None,
    };
    if let Some(server) = &metrics
        && (!flags.quiet || flags.metrics_addr != Some(server.address()))
    {
        // Print the address even with `--quiet`, because the system may have chosen the port.
        let _ = writeln!(
            io::stderr(),
            "metrics at http://{}/metrics",
            server.address()
        );
    }
    let (server, _kubeconfig) = serve(flags, &settings, &interrupter)?.unzip();
    interrupter.begin();
    let uses_stdout = outputs.use_stdout();
    let again = |settings: &Settings| repeating(flags, settings);
    let replay = again(&settings);
    let address = metrics.as_ref().map(MetricsServer::address);
    let view = View {
        progress: match flags.tui {
            true => live::start(&settings, address, &cancel, interrupter)?,
            false => ProgressView::new(flags.quiet),
        },
        metrics,
        server,
    };
    let saved_baseline = outputs.take("--save-baseline");
    let profiles = ["--flamegraph", "--pprof", "--folded"];
    let profiles: Vec<_> = profiles
        .iter()
        .filter_map(|flag| outputs.take(flag))
        .collect();
    let profile_files: Vec<_> = profiles.iter().filter_map(outputs::name_of).collect();
    let (mut result, profiled) = profile::sampled(profiles, flags.profile_hertz, &replay, || {
        let result = run::run(&settings, objects, &view, &cancel);
        view.progress.finish();
        result
    })?;
    if result.outcome.exit_code == 0 {
        result.alternatives = also_with(others, objects_again, &counts, machine, &cancel);
    }
    // The metrics server stops when the run ends; the cluster's server stops after the report.
    let View { server, .. } = view;

    result.input.ignored = counts.ignored;
    if let Some(host) = &mut result.host {
        host.load_seconds = load_seconds;
        host.wall_seconds += load_seconds;
    }
    // The JSON of a virtual run must not differ between machines.
    let host = result.host.clone();
    if settings.engine == EngineKind::Virtual && !flags.host_metrics {
        result.host = None;
    }
    thresholds::apply(&mut result, &thresholds);
    let is_well = result.outcome.exit_code == 0;
    let compared = baseline.as_ref().and_then(|baseline| {
        let comparison = baseline.compare(&mut result)?;
        Some(baseline.report(&comparison))
    });
    let shown = effective::shown(&settings, &flags.shape.files);
    let report = html::Report {
        result: &result,
        command: &replay,
        settings: &shown,
    };
    let (mut written, problem) = outputs.write(&[
        ("--json", &|out| json::write(out, &result)),
        ("--report", &|out| html::write(out, &report)),
        ("--csv", &|out| csv::write(out, &result)),
        ("--junit", &|out| junit::write(out, &result, &replay)),
        ("--perf-dash", &|out| perf_dash::write(out, &result)),
    ]);
    if profiled.is_ok() {
        written.extend(profile_files);
    }
    if !flags.quiet {
        let (width, paints) = match uses_stdout {
            true => (
                terminal_size_of(io::stderr()),
                colour::is_wanted(&io::stderr()),
            ),
            false => (
                terminal_size_of(io::stdout()),
                colour::is_wanted(&io::stdout()),
            ),
        };
        let width = terminal::columns(width.map(|(Width(columns), _)| usize::from(columns)));
        let mut text = terminal::render(&result, host.as_ref(), &again, &written, width);
        text.push_str(&compared.unwrap_or_default());
        if paints {
            text = colour::coloured(&text, result.outcome.exit_code);
        }
        print_beside(uses_stdout, &text)?;
    }
    problem?;
    if let Some(output) = saved_baseline {
        baseline::save(output, &result, is_well, flags.quiet)?;
    }
    profiled?;
    if let (Some(server), true) = (&server, flags.keep_serving) {
        keep_serving(server, &cancel);
    }
    Ok(result.outcome.exit_code)
}

/// Runs the scenario with other settings, several runs at a time, and returns their results by
/// name.
fn also_with(
    others: Vec<(String, Settings)>,
    objects: Vec<InputObject>,
    input: &InputCounts,
    machine: Machine,
    cancel: &AtomicBool,
) -> Vec<Alternative> {
    let objects = Arc::new(objects);
    let (names, settings): (Vec<String>, Vec<Settings>) = others.into_iter().unzip();
    let plans = settings.into_iter().map(|settings| RunPlan {
        settings,
        objects: Arc::clone(&objects),
        input: input.clone(),
        keeps_host: false,
    });
    let plans: Vec<RunPlan> = plans.collect();
    let results = sweep::run(&plans, machine.cpus, cancel, &|_| {});
    let ran = names.into_iter().zip(results);
    ran.filter_map(|(name, result)| Some(Alternative::new(name, &result?)))
        .collect()
}

/// Starts the server for the run's cluster, if requested, writes its kubeconfig, and prints how
/// clients reach it.
///
/// # Errors
/// The address is in use or other machines can reach it, or the run is virtual and over too soon to
/// observe.
fn serve(
    flags: &RunFlags,
    settings: &Settings,
    interrupter: &Interrupter,
) -> Result<Option<(RunServer, Kubeconfig)>> {
    let Some(address) = flags.serve else {
        return Ok(None);
    };
    if !address.ip().is_loopback() {
        bail!(
            "--serve {address}: other machines could reach it, and no client has to authenticate; listen at \
             127.0.0.1"
        );
    }
    if settings.engine == EngineKind::Virtual {
        bail!(
            "--serve {address}: a virtual run is over before a client could connect; use --engine \
             threads, or `loadgen serve --engine virtual`, whose time clients move"
        );
    }
    descriptors::raise_limit();
    let server = RunServer::start(address, &settings.scenario.name)?;
    let address = server.address();
    let kubeconfig = Kubeconfig::write(address, &Login::default(), None, interrupter)?;
    // Print this even with `--quiet`: without the address, clients can't find the run.
    let _ = writeln!(
        io::stderr(),
        "serving http://{address}: {}",
        kubeconfig.export()
    );
    Ok(Some((server, kubeconfig)))
}

/// Serves the final state of the run until Ctrl-C.
fn keep_serving(server: &RunServer, cancel: &AtomicBool) {
    let address = server.address();
    let _ = writeln!(
        io::stderr(),
        "the run is over; serving its final state at http://{address} until Ctrl-C"
    );
    // Relaxed: see the store. The final state of an interrupted run is not served.
    while !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Opens the requested output files of a run.
fn open_outputs(flags: &RunFlags) -> Result<Outputs> {
    let mut inputs = Inputs::default();
    note_inputs(&flags.shape, &mut inputs)?;
    flags.baselines.note_inputs(&mut inputs);
    let mut outputs = Outputs::default();
    for (flag, path) in [
        ("--json", &flags.json),
        ("--report", &flags.report),
        ("--csv", &flags.csv),
        ("--junit", &flags.junit),
        ("--perf-dash", &flags.perf_dash),
    ] {
        outputs.open(flag, path.as_ref(), &inputs)?;
    }
    if let Some(baseline) = flags.baselines.open(&inputs)? {
        outputs.add(baseline)?;
    }
    profile::open(flags, &inputs, &mut outputs)?;
    Ok(outputs)
}

/// Returns the command that repeats the run with the same thresholds and baseline.
pub(super) fn repeating(flags: &RunFlags, settings: &Settings) -> String {
    let mut command = effective::command(settings, &flags.shape.files);
    command.push_str(&effective::thresholds(&flags.thresholds));
    command.push_str(&flags.baselines.repeated());
    if flags.host_metrics && settings.engine == EngineKind::Virtual {
        command.push_str(" --host-metrics");
    }
    command
}

/// Returns the thresholds of the scenario, followed by those of the flags.
fn thresholds(flags: &RunFlags, settings: &Settings) -> Vec<Threshold> {
    let mut all = settings.scenario.bounds();
    all.extend(flags.thresholds.iter().cloned());
    all
}

/// Refuses a threshold on a metric that the result won't contain, because it could never hold.
fn refuse_absent_metrics(
    flags: &RunFlags,
    thresholds: &[Threshold],
    settings: &Settings,
) -> Result<()> {
    let has_host = settings.engine == EngineKind::Threads || flags.host_metrics;
    let of_host = |threshold: &&Threshold| threshold.metric().is_of_host();
    if let Some(threshold) = thresholds.iter().find(of_host)
        && !has_host
    {
        bail!(
            "--threshold '{threshold}': the result of a virtual run has machine metrics only \
             with --host-metrics"
        );
    }
    Ok(())
}

/// Shows a run in progress: on the terminal, as metrics, and through the cluster's server.
struct View {
    progress: ProgressView,
    metrics: Option<MetricsServer>,
    server: Option<RunServer>,
}

impl Observer for View {
    fn serves(&self) -> bool {
        self.server.is_some()
    }

    fn serve(&self, cluster: &Arc<Cluster>, clock: RealClock, metrics: &Metrics) {
        if let Some(server) = &self.server {
            server.show(cluster, clock, metrics);
        }
    }

    fn progress(&self, progress: &Progress<'_>) {
        self.progress.progress(progress);
    }

    fn waits(&self, what: &str) {
        self.progress.waits(what);
    }

    fn begins(&self, metrics: &Metrics) {
        if let Some(server) = &self.metrics {
            server.show(metrics);
        }
    }
}
