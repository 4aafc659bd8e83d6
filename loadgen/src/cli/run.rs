//! `loadgen run`: check everything that can be checked, run, report.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::flags::{RunFlags, SettingsFormat};
use super::outputs::{self, Outputs};
use super::{effective, interrupt, print, profile};
use crate::engine::{self, Metrics, Observer, Progress};
use crate::exposition::MetricsServer;
use crate::manifest::{self, Loaded};
use crate::report::progress::ProgressView;
use crate::report::terminal;
use crate::report::{colour, html};
use crate::settings::EngineKind;
use crate::settings::resolve::{Machine, resolve};
use crate::settings::size::InputSize;

/// Runs, and gives the exit code.
///
/// # Errors
/// Wrong usage, input or output path; nothing has run then.
pub(super) fn run(flags: &RunFlags) -> Result<u8> {
    let machine = Machine::this();
    // Contradictions among flags are told before any file is read.
    let has_files = !flags.files.is_empty();
    resolve(&flags.request(has_files.then(InputSize::default)), machine)?;
    let outputs = match flags.print_scenario {
        None => Some(Outputs::open(flags)?),
        Some(_) => None,
    };
    let loaded: Option<Loaded> = match has_files {
        true => Some(manifest::load(&flags.files, io::stdin().lock())?),
        false => None,
    };
    let settings = resolve(
        &flags.request(loaded.as_ref().map(|loaded| loaded.size)),
        machine,
    )?;
    let Some(mut outputs) = outputs else {
        let all = effective::settings(&settings, &flags.files);
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
    let cancel = Arc::new(AtomicBool::new(false));
    interrupt::watch(&cancel, outputs.temporary(), flags.quiet);
    let uses_stdout = outputs.use_stdout();
    let replay = effective::command(&settings, &flags.files);
    let view = View {
        progress: ProgressView::new(flags.quiet),
        metrics,
    };
    let profile_outputs = outputs.profile.take();
    let profile_files: Vec<_> = match &profile_outputs {
        Some(profile) => profile.all().filter_map(outputs::name_of).collect(),
        None => Vec::new(),
    };
    let (run, profiled) = profile::sampled(profile_outputs, &replay, || {
        let run = engine::run(&settings, objects, &view, &cancel);
        view.progress.finish();
        run
    })?;
    let mut result = run?;
    // The metrics are the run's: who reads them later finds nobody.
    drop(view);

    result.input = counts;
    // A virtual result says nothing that differs from one machine to the next.
    let host = result.host.clone();
    if settings.engine == EngineKind::Virtual && !flags.host_figures {
        result.host = None;
    }
    let shown = effective::shown(&settings, &flags.files);
    let (mut written, problem) = outputs.write(&html::Report {
        result: &result,
        command: &replay,
        settings: &shown,
    });
    if profiled.is_ok() {
        written.extend(profile_files);
    }
    if !flags.quiet {
        let report = terminal::render(&result, host.as_ref(), &replay, &written);
        let painted = |wanted: bool| match wanted {
            true => colour::coloured(&report, result.outcome.exit_code),
            false => report.clone(),
        };
        if uses_stdout {
            // Standard output belongs to the file that `-` stands for.
            let report = painted(colour::is_wanted(&io::stderr()));
            let _ = io::stderr().lock().write_all(report.as_bytes());
        } else {
            print(&painted(colour::is_wanted(&io::stdout())))?;
        }
    }
    problem?;
    profiled?;
    Ok(result.outcome.exit_code)
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
