//! `loadgen run`: check everything that can be checked, run, report.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};

use super::flags::{RunFlags, SettingsFormat};
use super::{effective, interrupt, print};
use crate::engine;
use crate::manifest::{self, Loaded};
use crate::report::json::JsonOutput;
use crate::report::progress::ProgressView;
use crate::report::terminal;
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
    if let Some(path) = &flags.json {
        refuse_input_as_output(path, &flags.files)?;
    }
    let output = match &flags.json {
        Some(path) if flags.print_scenario.is_none() => Some(JsonOutput::open(path)?),
        _ => None,
    };
    let loaded: Option<Loaded> = match has_files {
        true => Some(manifest::load(&flags.files, io::stdin().lock())?),
        false => None,
    };
    let settings = resolve(
        &flags.request(loaded.as_ref().map(|loaded| loaded.size)),
        machine,
    )?;
    if let Some(format) = flags.print_scenario {
        let all = effective::settings(&settings, &flags.files);
        print(&match format {
            SettingsFormat::Yaml => effective::yaml(&all),
            SettingsFormat::Json => effective::json(&all),
        })?;
        return Ok(0);
    }
    let (objects, counts) = match loaded {
        Some(loaded) => (loaded.objects, loaded.counts),
        None => Default::default(),
    };

    let cancel = Arc::new(AtomicBool::new(false));
    let temporary = output
        .as_ref()
        .and_then(JsonOutput::temporary)
        .map(Path::to_owned);
    interrupt::watch(&cancel, temporary, flags.quiet);
    let progress = ProgressView::new(flags.quiet);
    let run = engine::run(&settings, objects, &progress, &cancel);
    progress.finish();
    let mut result = run?;

    result.input = counts;
    // A virtual result says nothing that differs from one machine to the next.
    let host = result.host.clone();
    if settings.engine == EngineKind::Virtual && !flags.host_figures {
        result.host = None;
    }
    if !flags.quiet {
        let replay = effective::command(&settings, &flags.files);
        let report = terminal::render(&result, host.as_ref(), &replay);
        if output.as_ref().is_some_and(JsonOutput::is_stdout) {
            // Standard output belongs to the JSON.
            let _ = io::stderr().lock().write_all(report.as_bytes());
        } else {
            print(&report)?;
        }
    }
    if let Some(output) = output {
        output.write(&result)?;
    }
    Ok(result.outcome.exit_code)
}

fn refuse_input_as_output(output: &Path, files: &[PathBuf]) -> Result<()> {
    let Ok(output_file) = output.canonicalize() else {
        return Ok(());
    };
    if files
        .iter()
        .any(|file| file.canonicalize().is_ok_and(|file| file == output_file))
    {
        bail!(
            "--json {} would overwrite an input file; name another",
            output.display()
        );
    }
    Ok(())
}
