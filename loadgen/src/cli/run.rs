//! `loadgen run`: check everything that can be checked, run, report.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use terminal_size::{Width, terminal_size_of};

use super::flags::{RunFlags, SettingsFormat};
use super::outputs::{self, Outputs};
use super::{baseline, dry_run, effective, interrupt, live, print, profile, warn};
use crate::exposition::MetricsServer;
use crate::manifest::{self, Loaded};
use crate::metrics::Threshold;
use crate::report::progress::ProgressView;
use crate::report::terminal;
use crate::report::{colour, html};
use crate::result::thresholds;
use crate::run::{self, Metrics, Observer, Progress};
use crate::settings::resolve::{Machine, resolve};
use crate::settings::{EngineKind, Settings};
use crate::size::InputSize;

/// Runs, and gives the exit code.
///
/// # Errors
/// Wrong usage, input or output path; nothing has run then.
pub(super) fn run(flags: &RunFlags) -> Result<u8> {
    let machine = Machine::this();
    // Contradictions among flags are told before any file is read.
    let has_files = !flags.shape.files.is_empty();
    resolve(
        &flags.shape.request(has_files.then(InputSize::default)),
        machine,
    )?;
    live::check(flags)?;
    let runs = flags.print_scenario.is_none() && !flags.dry_run;
    let outputs = match runs {
        true => Some(Outputs::open(flags)?),
        false => None,
    };
    let cancel = Arc::new(AtomicBool::new(false));
    // A message would be lost on the screen of a view, which tells it itself.
    let says_nothing = flags.quiet || flags.tui;
    let temporary = outputs.as_ref().map(Outputs::temporary);
    let interrupter = interrupt::watch(&cancel, temporary.unwrap_or_default(), says_nothing);
    let loaded: Option<Loaded> = match has_files {
        true => Some(manifest::load(&flags.shape.files, io::stdin().lock())?),
        false => None,
    };
    if let Some(loaded) = loaded.as_ref().filter(|_| !flags.quiet) {
        warn(&loaded.warnings);
    }
    let settings = resolve(
        &flags
            .shape
            .request(loaded.as_ref().map(|loaded| loaded.size)),
        machine,
    )?;
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
    let baseline = flags.baselines.load(&settings, &counts)?;

    let metrics = match flags.metrics_addr {
        Some(address) => Some(MetricsServer::start(address)?),
        None => None,
    };
    if let Some(server) = &metrics
        && (!flags.quiet || flags.metrics_addr != Some(server.address()))
    {
        // A port that the system chose must be told in any case.
        let _ = writeln!(
            io::stderr(),
            "metrics at http://{}/metrics",
            server.address()
        );
    }
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
    };
    let saved_baseline = outputs.baseline.take();
    let profile_outputs = outputs.profile.take();
    let profile_files: Vec<_> = match &profile_outputs {
        Some(profile) => profile.all().filter_map(outputs::name_of).collect(),
        None => Vec::new(),
    };
    let (run, profiled) = profile::sampled(profile_outputs, &replay, || {
        let run = run::run(&settings, objects, &view, &cancel);
        view.progress.finish();
        run
    })?;
    let mut result = run?;
    // The metrics are the run's: who reads them later finds nobody.
    drop(view);

    result.input.ignored = counts.ignored;
    // A virtual result says nothing that differs from one machine to the next.
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
    let (mut written, problem) = outputs.write(&html::Report {
        result: &result,
        command: &replay,
        settings: &shown,
    });
    if profiled.is_ok() {
        written.extend(profile_files);
    }
    if !flags.quiet {
        // Standard output belongs to the file that `-` stands for.
        let width = match uses_stdout {
            true => terminal_size_of(io::stderr()),
            false => terminal_size_of(io::stdout()),
        };
        let width = terminal::columns(width.map(|(Width(columns), _)| usize::from(columns)));
        let mut report = terminal::render(&result, host.as_ref(), &again, &written, width);
        report.push_str(&compared.unwrap_or_default());
        let painted = |wanted: bool| match wanted {
            true => colour::coloured(&report, result.outcome.exit_code),
            false => report.clone(),
        };
        if uses_stdout {
            let report = painted(colour::is_wanted(&io::stderr()));
            let _ = io::stderr().lock().write_all(report.as_bytes());
        } else {
            print(&painted(colour::is_wanted(&io::stdout())))?;
        }
    }
    problem?;
    if let Some(output) = saved_baseline {
        baseline::save(output, &result, is_well, flags.quiet)?;
    }
    profiled?;
    Ok(result.outcome.exit_code)
}

/// The command that repeats the run and judges it alike.
fn repeating(flags: &RunFlags, settings: &Settings) -> String {
    let mut command = effective::command(settings, &flags.shape.files);
    command.push_str(&effective::thresholds(&flags.thresholds));
    command.push_str(&flags.baselines.repeated());
    if flags.host_metrics && settings.engine == EngineKind::Virtual {
        command.push_str(" --host-metrics");
    }
    command
}

/// The scenario's thresholds, and those of the flags.
fn thresholds(flags: &RunFlags, settings: &Settings) -> Vec<Threshold> {
    let mut all = settings.scenario.bounds();
    all.extend(flags.thresholds.iter().cloned());
    all
}

/// A threshold on a metric that the result won't have would always fail: it is refused before the run.
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
            "--threshold '{threshold}': the result of a virtual run says nothing of the machine \
             unless --host-metrics is given"
        );
    }
    Ok(())
}

/// Who looks at the run while it goes on.
struct View {
    progress: ProgressView,
    metrics: Option<MetricsServer>,
}

impl Observer for View {
    fn progress(&self, progress: &Progress<'_>) {
        self.progress.progress(progress);
    }

    fn begins(&self, metrics: &Metrics) {
        if let Some(server) = &self.metrics {
            server.show(metrics);
        }
    }
}
