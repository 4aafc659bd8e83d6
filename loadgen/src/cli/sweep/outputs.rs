//! The files of a sweep: each known to be writable before anything runs.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::SweepFlags;
use crate::cli::flags::note_inputs;
use crate::cli::outputs::refuse_same;
use crate::report::output::{self, Inputs, Output};
use crate::settings::resolve::SettingsRequest;
use crate::sweep::{self, Cell, Sweep};

/// The files asked for.
#[derive(Debug)]
pub(super) struct Outputs {
    csv: Option<Output>,
    json: Option<Output>,
    report: Option<Output>,
}

impl Outputs {
    /// Opens them all; `shapes` are the flags of every cell, which may each have files of its own.
    ///
    /// # Errors
    /// One can't be written or is an input file, or two are the same.
    pub(super) fn open(flags: &SweepFlags, shapes: &[SettingsRequest]) -> Result<Outputs> {
        let mut inputs = Inputs::default();
        for shape in shapes {
            note_inputs(shape, &mut inputs)?;
        }
        let open = |flag: &'static str, path: &Option<PathBuf>| match path {
            Some(path) => Output::open(flag, path, &inputs).map(Some),
            None => Ok(None),
        };
        let outputs = Outputs {
            csv: open("--csv", &flags.csv)?,
            json: open("--json", &flags.json)?,
            report: open("--report", &flags.report)?,
        };
        refuse_same(outputs.all())?;
        Ok(outputs)
    }

    fn all(&self) -> impl Iterator<Item = &Output> {
        [&self.csv, &self.json, &self.report].into_iter().flatten()
    }

    pub(super) fn use_stdout(&self) -> bool {
        self.all().any(Output::is_stdout)
    }

    pub(super) fn temporary(&self) -> Vec<PathBuf> {
        self.all()
            .filter_map(Output::temporary)
            .map(Path::to_owned)
            .collect()
    }

    pub(super) fn write(
        self,
        sweep: &Sweep,
        common: &[(String, String)],
        command: &dyn Fn(&Cell) -> String,
    ) -> Result<()> {
        if let Some(out) = self.csv {
            out.write(|out| sweep::output::csv(sweep, out))?;
        }
        if let Some(out) = self.json {
            out.write(|out| output::json(out, &sweep::output::json(sweep)))?;
        }
        if let Some(out) = self.report {
            let page = sweep::report::page(sweep, common, command);
            out.write(|out| out.write_all(page.as_bytes()))?;
        }
        Ok(())
    }
}
