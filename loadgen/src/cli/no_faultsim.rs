//! `fuzz`, `replay` and `bugs` in a build without the fault simulator: the parser accepts these
//! commands, and then they are refused.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;

use crate::units::shell_path;

/// Accepts any flags of these commands.
#[derive(Args, Debug)]
pub(super) struct AnyFlags {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

#[cfg(not(feature = "faultsim"))]
pub(super) use {AnyFlags as BugsFlags, AnyFlags as FuzzFlags, AnyFlags as ReplayFlags};

/// Refuses the command.
///
/// # Errors
/// Always fails: this build has no fault simulator.
pub(super) fn run(_: &AnyFlags) -> Result<u8> {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| shell_path(Path::new(&word))).collect();
    bail!(
        "this build of loadgen has no fault simulator: build it with `--features faultsim`: \
         cargo run --release -p podstorm-loadgen --features faultsim -- {}",
        words.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{AnyFlags, run};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AnyFlags,
    }

    #[test]
    fn commands_are_refused_with_the_build_command_that_has_them() {
        for line in [
            "fuzz",
            "fuzz --seeds 5",
            "replay 7 --bug m01",
            "bugs --none-such",
        ] {
            let line = Line::try_parse_from(line.split(' ')).unwrap();
            let said = run(&line.flags).unwrap_err().to_string();
            assert!(
                said.contains("cargo run --release -p podstorm-loadgen --features faultsim -- "),
                "{said}"
            );
        }
    }
}
