//! `fuzz`, `replay` and `bugs` in a build without the fault simulator: known, and refused.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;

use crate::units::shell_path;

/// Whatever one of them is asked for.
#[derive(Args, Debug)]
pub(super) struct AnyFlags {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(super) use {AnyFlags as BugsFlags, AnyFlags as FuzzFlags, AnyFlags as ReplayFlags};

/// Refuses it.
///
/// # Errors
/// Always: this build can't.
pub(super) fn run(_: &AnyFlags) -> Result<u8> {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| shell_path(Path::new(&word))).collect();
    bail!(
        "this build of loadgen has no fault simulator: build it with `--features faultsim`: \
         cargo run --release -p podstorm-loadgen --features faultsim -- {}",
        words.join(" ")
    )
}
