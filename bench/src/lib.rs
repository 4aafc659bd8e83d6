//! Shared parts of the benches: inputs drawn from seeds; the hot paths that are timed and counted;
//! the gate over the counts; and the table of targets.
//!
//! [`hot`] lists each hot path once: criterion times, callgrind counts and dhat watches the same
//! code. [`plain`] has the plain rivals. [`gate`] compares counts with `budgets.toml`, [`results`]
//! writes the table of `targets.toml`, [`scaling`] measures throughput at 1 to N threads, and
//! [`whole`] runs the command. `README.md` has the commands and the figures.

pub mod asked;
pub mod clusters;
pub mod cold_start;
pub mod gate;
pub mod growth;
pub mod hot;
pub mod memory;
pub mod plain;
pub mod pods;
pub mod profiler;
pub mod results;
pub mod scaling;
pub mod whole;

use std::path::Path;
use std::process::Command;

use podstorm_loadgen::report::output::{Inputs, Output, OutputError};

/// Returns the cargo that runs this program, or the one in `PATH`. Removes the variables in which
/// cargo describes this package: a build script that depends on them, like ring's, would run again
/// and rebuild everything above it.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_of_package = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if is_of_package || text == "OUT_DIR" {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Creates or replaces a file with this text. An interruption leaves the old file intact. Errors
/// call the file `what`.
///
/// # Errors
/// Fails for a folder, or if the path can't be written.
pub fn write_whole(what: &'static str, path: &Path, text: &str) -> Result<(), OutputError> {
    Output::open(what, path, &Inputs::default())?.write(|file| file.write_all(text.as_bytes()))
}
