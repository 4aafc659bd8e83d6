//! `run --baseline` and `--save-baseline`: compares a result with a saved result, and saves it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::compare::baseline::{self, DIRECTORY};
use crate::compare::identity::{differences, problem_within};
use crate::compare::render::{self, Sides};
use crate::compare::{self, Comparison, Loaded, Tolerance, Tolerances, Weight};
use crate::input::InputCounts;
use crate::metrics::MetricValues;
use crate::report::output::{Inputs, Output};
use crate::result::{RunResult, SCHEMA_VERSION};
use crate::settings::Settings;
use crate::text::json;
use crate::units::{shell_path, shell_word};

/// Flags for baselines.
#[derive(Args, Debug)]
pub(super) struct BaselineFlags {
    /// Compare the result with the baseline of this name; exit code 1 if a metric is worse by more
    /// than --tolerance (see `loadgen compare --help`)
    #[arg(long, value_name = "NAME", value_parser = baseline::name, help_heading = "Baselines")]
    baseline: Option<String>,

    /// Save the result as a baseline under this name if the run succeeds
    #[arg(long, value_name = "NAME", value_parser = baseline::name, help_heading = "Baselines")]
    save_baseline: Option<String>,

    /// Folder of the baselines
    #[arg(long, value_name = "FOLDER", default_value = DIRECTORY, help_heading = "Baselines")]
    baseline_dir: std::path::PathBuf,

    /// How much worse than the baseline a metric may be: 5%, p99=10%, pod_ready_latency=5%,
    /// excess=10 [default: 5%]; repeatable
    #[arg(
        long = "tolerance",
        value_name = "[NAME=]LIMIT",
        requires = "baseline",
        allow_hyphen_values = true,
        help_heading = "Baselines"
    )]
    tolerances: Vec<Tolerance>,
}

impl BaselineFlags {
    /// Reports whether `--baseline` is set.
    pub(super) fn compares(&self) -> bool {
        self.baseline.is_some()
    }

    /// Reports whether `--save-baseline` is set.
    pub(super) fn saves(&self) -> bool {
        self.save_baseline.is_some()
    }

    /// Registers the file that `--baseline` reads as an input.
    pub(super) fn note_inputs(&self, inputs: &mut Inputs) {
        if let Some(name) = &self.baseline {
            inputs.add("--baseline", &baseline::file(&self.baseline_dir, name));
        }
    }

    /// Returns the flags that make a repeated run compare with the same baseline, ready to append
    /// to a command; empty without `--baseline`.
    pub(super) fn repeated(&self) -> String {
        let Some(name) = &self.baseline else {
            return String::new();
        };
        let mut text = format!(" --baseline {}", shell_word(name));
        if self.baseline_dir != Path::new(DIRECTORY) {
            text.push_str(&format!(
                " --baseline-dir {}",
                shell_path(&self.baseline_dir)
            ));
        }
        for tolerance in &self.tolerances {
            text.push_str(&format!(
                " --tolerance {}",
                shell_word(&tolerance.to_string())
            ));
        }
        text
    }

    /// Opens the file of `--save-baseline`, and creates its folder if needed; `None` without the
    /// flag.
    ///
    /// # Errors
    /// The file can't be written, is an input, or is the baseline that the run is compared with.
    pub(super) fn open(&self, inputs: &Inputs) -> Result<Option<Output>> {
        let Some(name) = &self.save_baseline else {
            return Ok(None);
        };
        if self.baseline.as_ref() == Some(name) {
            bail!(
                "--save-baseline {name} would replace the baseline that --baseline compares with, \
                 so a regression would show up only once; save under another name"
            );
        }
        if self.baseline_dir.exists() && !self.baseline_dir.is_dir() {
            bail!(
                "--baseline-dir {} is not a folder; leave it empty for {DIRECTORY}",
                self.baseline_dir.display()
            );
        }
        fs::create_dir_all(&self.baseline_dir).with_context(|| {
            format!(
                "--baseline-dir {} can't be created",
                self.baseline_dir.display()
            )
        })?;
        let file = baseline::file(&self.baseline_dir, name);
        Ok(Some(Output::open("--save-baseline", &file, inputs)?))
    }

    /// Loads the baseline and checks that it describes the same run; `None` without `--baseline`.
    ///
    /// # Errors
    /// There is no baseline with that name, it contains no results, or it describes a different
    /// run.
    pub(super) fn load(
        &self,
        settings: &Settings,
        input: &InputCounts,
    ) -> Result<Option<Baseline<'_>>> {
        let Some(name) = &self.baseline else {
            return Ok(None);
        };
        let results = baseline::read(&self.baseline_dir, name)?;
        if let Some(problem) = problem_within("the baseline", &results) {
            bail!("--baseline {name}: {problem}");
        }
        let this = MetricValues::from_json(serde_json::json!({
            "schema_version": SCHEMA_VERSION,
            "scenario": settings.scenario.name,
            "engine": settings.engine.name(),
            "input": input,
            "settings": settings,
        }));
        let unlike = differences(&results[0].metrics, &this);
        if let Some(one) = unlike.iter().find(|one| one.weight == Weight::Incomparable) {
            bail!(
                "--baseline {name} describes a different run: its {} is {}, this run's is {}",
                one.what,
                one.base,
                one.new
            );
        }
        Ok(Some(Baseline {
            name,
            results,
            tolerances: Tolerances::new(self.tolerances.clone()),
        }))
    }
}

/// A baseline that a run is compared with.
#[derive(Debug)]
pub(super) struct Baseline<'a> {
    name: &'a str,
    results: Vec<Loaded>,
    tolerances: Tolerances,
}

impl Baseline<'_> {
    /// Compares a run with the baseline. A regression makes the run's outcome a failure. Returns
    /// `None` for an interrupted run, which is not compared.
    pub(super) fn compare(&self, result: &mut RunResult) -> Option<Comparison> {
        if result.outcome.exit_code == super::interrupt::EXIT_INTERRUPTED {
            return None;
        }
        // Convert to text and back, so that numbers are rounded as in a file.
        let text = serde_json::to_string(result).expect("the keys of a result are strings");
        let new = compare::read_text("this run", &text).expect("a serialized result can be parsed");
        let comparison = compare::compare(&self.results, &new, &self.tolerances, &[]);
        let reason = render::reason(&comparison, &format!("the baseline {}", self.name));
        if !reason.is_empty() {
            result.outcome.fail(&reason);
        }
        Some(comparison)
    }

    /// Formats the comparison for the terminal.
    pub(super) fn report(&self, comparison: &Comparison) -> String {
        let sides = Sides {
            base: format!("baseline {}", self.name),
            new: "this run".to_owned(),
        };
        format!("\n{}", render::table(comparison, &sides, false))
    }
}

/// Writes the result as a baseline if the run succeeded.
///
/// # Errors
/// The file can't be written.
pub(super) fn save(output: Output, result: &RunResult, is_well: bool, quiet: bool) -> Result<()> {
    if is_well {
        output.write(|out| json::write(out, result))?;
    } else if !quiet {
        let path = output.path().unwrap_or(Path::new("-")).display();
        let note =
            format!("the run failed, so it is not saved as a baseline: {path} is unchanged\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
    }
    Ok(())
}
