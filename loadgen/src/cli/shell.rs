//! `loadgen completions` and `loadgen man`: what shells and `man` are told of the command line, made
//! from the definitions that it is read by.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, print};

/// What `loadgen completions` is asked for.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen completions bash > /etc/bash_completion.d/loadgen
  loadgen completions zsh > ~/.zfunc/_loadgen
  loadgen completions fish > ~/.config/fish/completions/loadgen.fish")]
pub(super) struct CompletionsFlags {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions of a shell, and gives the exit code.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn completions(flags: &CompletionsFlags) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "loadgen", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// What `loadgen man` is asked for.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen man | man -l -
  loadgen man --out-dir /usr/local/share/man/man1")]
pub(super) struct ManFlags {
    /// Write a page for every command into this directory, which must exist; without it the page of
    /// loadgen itself is printed
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

/// Prints or writes man pages, and gives the exit code.
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
    fn every_command_has_a_page_that_names_its_flags() {
        let mut command = Cli::command();
        command.build();
        for one in command.get_subcommands().cloned() {
            let flags: Vec<String> = one
                .get_arguments()
                .filter_map(|flag| flag.get_long().map(str::to_owned))
                .collect();
            let text = String::from_utf8(page(one).unwrap()).unwrap();
            for flag in flags {
                // Hyphens are escaped in man pages.
                assert!(text.contains(&flag.replace('-', "\\-")), "{flag}: {text}");
            }
        }
    }
}
