//! Where a run's files go: each known to be writable before the run, no two the same, none an input.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::flags::RunFlags;
use super::profile::ProfileOutputs;
use crate::report::output::Output;

/// The files that are asked for.
#[derive(Debug)]
pub(super) struct Outputs {
    /// `--json`.
    pub(super) json: Option<Output>,
    /// `--save-baseline`.
    pub(super) baseline: Option<Output>,
    /// `--flamegraph`, `--pprof`, `--folded`.
    pub(super) profile: Option<ProfileOutputs>,
}

impl Outputs {
    /// Opens them all.
    ///
    /// # Errors
    /// One can't be written or is an input file, two are the same, or the build can't profile.
    pub(super) fn open(flags: &RunFlags) -> Result<Outputs> {
        let paths = [
            ("--json", &flags.json),
            ("--flamegraph", &flags.flamegraph),
            ("--pprof", &flags.pprof),
            ("--folded", &flags.folded),
        ];
        for (flag, path) in paths {
            if let Some(path) = path {
                refuse_input_as_output(flag, path, &flags.shape.files)?;
            }
        }
        let outputs = Outputs {
            json: match &flags.json {
                Some(path) => Some(Output::open("--json", path)?),
                None => None,
            },
            baseline: flags.baselines.open()?,
            profile: ProfileOutputs::open(flags)?,
        };
        refuse_same(outputs.all())?;
        Ok(outputs)
    }

    fn all(&self) -> impl Iterator<Item = &Output> {
        let profile = self.profile.iter().flat_map(ProfileOutputs::all);
        self.json.iter().chain(&self.baseline).chain(profile)
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

/// Refuses an output that is one of the input files.
pub(super) fn refuse_input_as_output(flag: &str, output: &Path, files: &[PathBuf]) -> Result<()> {
    let Ok(output_file) = output.canonicalize() else {
        return Ok(());
    };
    if files
        .iter()
        .any(|file| file.canonicalize().is_ok_and(|file| file == output_file))
    {
        bail!(
            "{flag} {} would overwrite an input file; name another",
            output.display()
        );
    }
    Ok(())
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
