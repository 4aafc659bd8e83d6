//! `loadgen scenarios`: the built-in scenarios with their questions; one of them as a file to edit; a
//! custom file read and checked.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;

use super::print;
use crate::scenario::Scenario;
use crate::units::counted;

/// What `loadgen scenarios` is asked for.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen scenarios                               what can be run
  loadgen scenarios --print churn > my.yaml       a commented file to begin with
  loadgen scenarios --check my.yaml               whether it can be read
  loadgen run --scenario my.yaml --pods 10k       runs it; flags win over its settings
  loadgen schema scenario > scenario.schema.json  what a file may hold, for editors")]
pub(super) struct ScenariosFlags {
    /// Print the file of a built-in scenario, commented, to edit
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    print: Option<String>,

    /// Read a scenario file, and say what is wrong with it
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

/// Lists or prints, and gives the exit code.
///
/// # Errors
/// A name that is not known, a file that is no scenario.
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
        let problem = problem.unwrap_or_else(|| "is a file already".to_owned());
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
         Begin your own with: loadgen scenarios --print NAME > my.yaml\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_within_the_width_of_a_screen() {
        let text = list();
        for name in Scenario::names() {
            assert!(text.contains(name));
        }
        for line in text.lines() {
            assert!(line.len() <= 120, "{line}");
        }
    }
}
