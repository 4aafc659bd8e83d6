//! `loadgen scenarios`: lists the built-in scenarios with their questions, prints one to edit, or
//! checks a scenario file.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;

use super::print;
use crate::scenario::Scenario;
use crate::units::counted;

/// Flags of `loadgen scenarios`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen scenarios                               list the scenarios
  loadgen scenarios --print churn > my.yaml       a commented file to start from
  loadgen scenarios --check my.yaml               check that the file is valid
  loadgen run --scenario my.yaml --pods 10k       run it; flags override its settings
  loadgen schema scenario > scenario.schema.json  the JSON Schema, for editors")]
pub(super) struct ScenariosFlags {
    /// Print the commented file of a built-in scenario, to edit
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    print: Option<String>,

    /// Check a scenario file and report its errors
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

/// Lists, prints or checks scenarios and returns the exit code.
///
/// # Errors
/// The name is unknown, or the file is not a valid scenario.
pub(super) fn run(flags: &ScenariosFlags) -> Result<u8> {
    if let Some(path) = &flags.check {
        let scenario = Scenario::from_file(path)?;
        let (phases, steps) = (scenario.phases.len(), scenario.steps().len());
        print(&format!(
            "{}: scenario {}, {}, {}: {}\n",
            path.display(),
            scenario.name,
            counted(phases as u64, "phase"),
            counted(steps as u64, "step"),
            scenario.question
        ))?;
        return Ok(0);
    }
    let Some(name) = &flags.print else {
        print(&list())?;
        return Ok(0);
    };
    let Some(text) = Scenario::text(name) else {
        let problem = Scenario::find(name).err();
        let problem = problem.unwrap_or_else(|| "is already a file".to_owned());
        return Err(anyhow!("--print {name}: {problem}"));
    };
    print(text)?;
    Ok(0)
}

fn list() -> String {
    let width = Scenario::names().map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for name in Scenario::names() {
        let question = Scenario::built_in(name).map(|scenario| scenario.question.clone());
        let is_default = name == Scenario::by_default().name;
        text.push_str(&format!(
            "{name:width$}  {}{}\n",
            question.unwrap_or_default(),
            if is_default { " (default)" } else { "" }
        ));
    }
    text.push_str(
        "\nRun one with: loadgen run --scenario NAME\n\
         Write your own from a copy: loadgen scenarios --print NAME > my.yaml\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_fits_the_screen() {
        let text = list();
        for name in Scenario::names() {
            assert!(text.contains(name));
        }
        for line in text.lines() {
            assert!(line.len() <= 120, "{line}");
        }
    }
}
