//! Where a run's files go: each known to be writable before the run, no two the same, none an input.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::flags::{RunFlags, note_inputs};
use super::profile::ProfileOutputs;
use crate::report::html::{self, Report};
use crate::report::output::{self, Inputs, Output};
use crate::report::{csv, junit, perf_dash};

/// The files that are asked for.
#[derive(Debug)]
pub(super) struct Outputs {
    /// `--json`.
    json: Option<Output>,
    /// `--save-baseline`.
    pub(super) baseline: Option<Output>,
    /// `--report`.
    report: Option<Output>,
    /// `--csv`.
    csv: Option<Output>,
    /// `--junit`.
    junit: Option<Output>,
    /// `--perf-dash`.
    perf_dash: Option<Output>,
    /// `--flamegraph`, `--pprof`, `--folded`.
    pub(super) profile: Option<ProfileOutputs>,
}

impl Outputs {
    /// Opens them all.
    ///
    /// # Errors
    /// One can't be written or is an input file, two are the same, or the build can't profile.
    pub(super) fn open(flags: &RunFlags) -> Result<Outputs> {
        let mut inputs = Inputs::default();
        note_inputs(&flags.shape, &mut inputs)?;
        flags.baselines.note_inputs(&mut inputs);
        let open = |flag, path: &Option<PathBuf>| {
            let path = path.as_ref();
            path.map(|path| Output::open(flag, path, &inputs))
                .transpose()
        };
        let outputs = Outputs {
            json: open("--json", &flags.json)?,
            report: open("--report", &flags.report)?,
            csv: open("--csv", &flags.csv)?,
            junit: open("--junit", &flags.junit)?,
            perf_dash: open("--perf-dash", &flags.perf_dash)?,
            baseline: flags.baselines.open(&inputs)?,
            profile: ProfileOutputs::open(flags, &inputs)?,
        };
        refuse_same(outputs.all())?;
        Ok(outputs)
    }

    fn all(&self) -> impl Iterator<Item = &Output> {
        let profile = self.profile.iter().flat_map(ProfileOutputs::all);
        let files = [
            &self.json,
            &self.baseline,
            &self.report,
            &self.csv,
            &self.junit,
            &self.perf_dash,
        ];
        files.into_iter().flatten().chain(profile)
    }

    /// Writes everything but the profile, one after the other, even where one can't be written: it is
    /// the only trace of the run. The first value is what was written, flag and file.
    pub(super) fn write(self, report: &Report<'_>) -> (Vec<(&'static str, String)>, Result<()>) {
        type Content<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;
        let Report {
            result, command, ..
        } = *report;
        let contents: [(Option<Output>, Content<'_>); 5] = [
            (self.json, &|out| output::json(out, result)),
            (self.report, &|out| html::write(out, report)),
            (self.csv, &|out| csv::write(out, result)),
            (self.junit, &|out| junit::write(out, result, command)),
            (self.perf_dash, &|out| perf_dash::write(out, result)),
        ];
        let (mut written, mut problem) = (Vec::new(), Ok(()));
        for (output, content) in contents {
            let Some(output) = output else { continue };
            let name = name_of(&output);
            match output.write(content) {
                Ok(()) => written.extend(name),
                Err(error) => problem = problem.and(Err(error.into())),
            }
        }
        (written, problem)
    }

    /// Whether one of them is standard output, which then belongs to it alone.
    pub(super) fn use_stdout(&self) -> bool {
        self.all().any(Output::is_stdout)
    }

    /// The temporary files, to be removed by whoever ends the process without unwinding.
    pub(super) fn temporary(&self) -> Vec<PathBuf> {
        self.all()
            .filter_map(Output::temporary)
            .map(Path::to_owned)
            .collect()
    }
}

/// The flag of a file and its path, from the present directory where it lies within it.
pub(super) fn name_of(output: &Output) -> Option<(&'static str, String)> {
    let here = std::env::current_dir().unwrap_or_default();
    let path = output.path()?;
    let path = path.strip_prefix(&here).unwrap_or(path);
    Some((output.flag(), path.display().to_string()))
}

/// Refuses two outputs that are one file, or both standard output.
pub(super) fn refuse_same<'a>(outputs: impl Iterator<Item = &'a Output>) -> Result<()> {
    let mut seen: Vec<&Output> = Vec::new();
    for output in outputs {
        let same = |other: &&&Output| match (output.path(), other.path()) {
            (Some(path), Some(other)) => path == other,
            _ => output.is_stdout() && other.is_stdout(),
        };
        if let Some(other) = seen.iter().find(same) {
            let place = match output.path() {
                Some(path) => path.display().to_string(),
                None => "standard output".to_owned(),
            };
            bail!(
                "{} and {} would both be written to {place}; name two files",
                other.flag(),
                output.flag()
            );
        }
        seen.push(output);
    }
    Ok(())
}
