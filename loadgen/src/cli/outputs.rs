//! The output files of a command. Before the run, each is opened for writing, so that a file that
//! can't be written is an early error. No two outputs may be the same file, and none may be an
//! input.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::report::output::{Inputs, Output, OutputError};

/// A function that writes the content of a file.
pub(super) type Content<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// The requested output files, each with its flag.
#[derive(Debug, Default)]
pub(super) struct Outputs(Vec<Output>);

impl Outputs {
    /// Opens the output file of a flag; does nothing without a path.
    ///
    /// # Errors
    /// The file can't be written, is an input, or is already an output.
    pub(super) fn open(
        &mut self,
        flag: &'static str,
        path: Option<&PathBuf>,
        inputs: &Inputs,
    ) -> Result<()> {
        self.open_by(Output::open, flag, path, inputs)
    }

    /// Like [`Outputs::open`], with [`Output::open`] or [`Output::open_private`].
    ///
    /// # Errors
    /// The same as [`Outputs::open`].
    pub(super) fn open_by(
        &mut self,
        open: fn(&'static str, &Path, &Inputs) -> Result<Output, OutputError>,
        flag: &'static str,
        path: Option<&PathBuf>,
        inputs: &Inputs,
    ) -> Result<()> {
        match path {
            Some(path) => self.add(open(flag, path, inputs)?),
            None => Ok(()),
        }
    }

    /// Adds an opened output file.
    ///
    /// # Errors
    /// Another output is the same file, or both are standard output.
    pub(super) fn add(&mut self, output: Output) -> Result<()> {
        let same = |other: &&Output| match (output.path(), other.path()) {
            (Some(path), Some(other)) => path == other,
            _ => output.is_stdout() && other.is_stdout(),
        };
        if let Some(other) = self.0.iter().find(same) {
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
        self.0.push(output);
        Ok(())
    }

    /// Removes and returns the output file of a flag; `None` if there is none.
    pub(super) fn take(&mut self, flag: &str) -> Option<Output> {
        let at = self.0.iter().position(|output| output.flag() == flag)?;
        Some(self.0.remove(at))
    }

    /// Writes the requested files in sequence. If one can't be written, continues with the next,
    /// because the files are the only record of the run. Returns the files that were written, with
    /// their flags, and the first error.
    pub(super) fn write(
        &mut self,
        contents: &[(&str, Content<'_>)],
    ) -> (Vec<(&'static str, String)>, Result<()>) {
        let (mut written, mut problem) = (Vec::new(), Ok(()));
        for (flag, content) in contents {
            let Some(output) = self.take(flag) else {
                continue;
            };
            let name = name_of(&output);
            match output.write(content) {
                Ok(()) => written.extend(name),
                Err(error) => problem = problem.and(Err(error.into())),
            }
        }
        (written, problem)
    }

    /// Reports whether one of the outputs is standard output, which then can't be used otherwise.
    pub(super) fn use_stdout(&self) -> bool {
        self.0.iter().any(Output::is_stdout)
    }

    /// Returns the temporary files, which must be removed if the process exits without unwinding.
    pub(super) fn temporary(&self) -> Vec<PathBuf> {
        let temporary = self.0.iter().filter_map(Output::temporary);
        temporary.map(Path::to_owned).collect()
    }
}

/// Returns the flag and path of an output; `None` if it has no path. A path inside the current
/// directory is relative to it.
pub(super) fn name_of(output: &Output) -> Option<(&'static str, String)> {
    let here = std::env::current_dir().unwrap_or_default();
    let path = output.path()?;
    let path = path.strip_prefix(&here).unwrap_or(path);
    Some((output.flag(), path.display().to_string()))
}
