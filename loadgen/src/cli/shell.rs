//! `loadgen completions` and `loadgen man`: shell completions and man pages, generated from the
//! definition of the command line.

use std::any::TypeId;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use podstorm::policy::Behaviour;
#[cfg(feature = "faultsim")]
use podstorm_faultsim::{bug::Bug, rows};
use podstorm_sim::faults::FaultClass;

#[cfg(feature = "faultsim")]
use super::fuzz::Wish;
use super::{Cli, print};
use crate::gates;
use crate::metrics::{METRICS, MetricName};
use crate::scenario::Scenario;
use crate::values::BehaviourName;

/// Flags of `loadgen completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen completions bash > /etc/bash_completion.d/loadgen
  loadgen completions zsh > ~/.zfunc/_loadgen
  loadgen completions fish > ~/.config/fish/completions/loadgen.fish")]
pub(super) struct CompletionsFlags {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions of a shell and returns the exit code.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn completions(flags: &CompletionsFlags) -> Result<u8> {
    let mut text = Vec::new();
    let mut command = completed(Cli::command());
    clap_complete::generate(flags.shell, &mut command, "loadgen", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// Adds the possible values of each argument to the command, so that shells complete names where
/// names are expected, and files only for paths.
fn completed(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        if !argument.get_action().takes_values() || !argument.get_possible_values().is_empty() {
            return argument;
        }
        match names(&argument) {
            Some(names) => argument.value_parser(PossibleValuesParser::new(names)),
            // Paths are already marked as such where they are defined.
            None if argument.get_value_hint() == ValueHint::Unknown => {
                argument.value_hint(ValueHint::Other)
            }
            None => argument,
        }
    });
    command.mut_subcommands(completed)
}

/// Returns the names that an argument accepts, from the type that it parses to; `None` for
/// arguments that take other values.
fn names(argument: &Arg) -> Option<Vec<&'static str>> {
    let kind = argument.get_value_parser().type_id();
    let behaviours = Behaviour::ALL.map(Behaviour::as_str);
    #[cfg(feature = "faultsim")]
    if kind == TypeId::of::<Wish>() {
        return Some([&behaviours[..], &["both"]].concat());
    } else if kind == TypeId::of::<&'static Bug>() {
        return Some(rows::bugs().flat_map(|bug| [bug.id, bug.name]).collect());
    }
    if kind == TypeId::of::<BehaviourName>() {
        Some(behaviours.to_vec())
    } else if kind == TypeId::of::<FaultClass>() {
        Some(FaultClass::ALL.iter().map(|class| class.name()).collect())
    } else if kind == TypeId::of::<MetricName>() {
        Some(METRICS.iter().map(|metric| metric.name).collect())
    } else if kind == TypeId::of::<Arc<Scenario>>() || argument.get_id() == "print" {
        Some(Scenario::names().collect())
    } else if argument.get_id() == "feature_gates" {
        let gates = gates::defaults().into_keys();
        let both = gates.flat_map(|gate| [format!("{gate}=true"), format!("{gate}=false")]);
        // Leaks once: the command line is built once per process, and clap needs 'static names.
        Some(both.map(|text| &*text.leak()).collect())
    } else {
        None
    }
}

/// Flags of `loadgen man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen man | man -l -
  loadgen man --out-dir /usr/local/share/man/man1")]
pub(super) struct ManFlags {
    /// Write a page for every command to this existing directory; by default the page of loadgen
    /// itself is printed
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

/// Prints or writes the man pages and returns the exit code.
///
/// # Errors
/// A page can't be written.
pub(super) fn man(flags: &ManFlags) -> Result<u8> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &flags.out_dir else {
        print(&String::from_utf8_lossy(&page(command)?))?;
        return Ok(0);
    };
    let subcommands = command.get_subcommands().filter(|one| !one.is_hide_set());
    let pages: Vec<Command> = std::iter::once(command.clone())
        .chain(subcommands.cloned())
        .collect();
    for one in pages {
        let name = match one.get_name() {
            "loadgen" => "loadgen".to_owned(),
            subcommand => format!("loadgen-{subcommand}"),
        };
        let path = folder.join(format!("{name}.1"));
        if !folder.is_dir() {
            bail!(
                "--out-dir {}: there is no such directory; create it first",
                folder.display()
            );
        }
        fs::write(&path, page(one)?)
            .with_context(|| format!("--out-dir: {} can't be written", path.display()))?;
    }
    Ok(0)
}

fn page(command: Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_complete_files_only_for_paths() {
        let mut command = completed(Cli::command());
        command.build();
        let (mut files, mut listed) = (0, 0);
        for one in command
            .get_subcommands()
            .filter(|one| one.get_name() != "help")
        {
            for argument in one.get_arguments() {
                let is_path = argument.get_value_hint() == ValueHint::AnyPath;
                let is_listed = !argument.get_possible_values().is_empty();
                let is_other = argument.get_value_hint() == ValueHint::Other;
                let takes = argument.get_action().takes_values();
                assert!(!takes || is_path || is_listed || is_other, "{argument:?}");
                files += usize::from(is_path);
                listed += usize::from(is_listed);
            }
        }
        assert!(files > 10 && listed > 10, "{files} {listed}");
        let mut text = Vec::new();
        clap_complete::generate(Shell::Bash, &mut command, "loadgen", &mut text);
        let text = String::from_utf8(text).unwrap();
        for names in [
            #[cfg(feature = "faultsim")]
            "upstream hardened both",
            "scale-out up-down scale-up",
            "table wide json",
        ] {
            assert!(
                text.contains(&format!("compgen -W \"{names}")),
                "{names}: {text}"
            );
        }
    }

    #[test]
    fn the_page_of_every_command_has_its_flags() {
        let mut command = Cli::command();
        command.build();
        for one in command.get_subcommands().cloned() {
            let flags: Vec<String> = one
                .get_arguments()
                .filter_map(|flag| flag.get_long().map(str::to_owned))
                .collect();
            let text = String::from_utf8(page(one).unwrap()).unwrap();
            for flag in flags {
                // Man pages escape hyphens.
                assert!(text.contains(&flag.replace('-', "\\-")), "{flag}: {text}");
            }
        }
    }
}
