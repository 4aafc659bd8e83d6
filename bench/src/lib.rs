//! Shared parts of the benches: inputs drawn from seeds, the hot paths that are timed and counted,
//! the gate that checks the counts, and the table of targets.
//!
//! [`hot`] lists each hot path once: criterion, callgrind and dhat measure the same code. [`plain`]
//! contains the plain rivals. [`gate`] compares counts with `budgets.toml`, [`results`] writes the
//! table for `targets.toml`, [`scaling`] measures the throughput at 1 to N threads, and [`whole`]
//! runs the `loadgen` command. `README.md` lists the commands and the figures.

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

/// Returns the cargo that runs this program, otherwise the one in `PATH`. Removes the variables in
/// which cargo describes this package: a build script that depends on them, such as ring's, would
/// run again, and cargo would rebuild every crate above it.
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

/// Creates or replaces a file with this text. If the write is interrupted, the old file stays
/// intact. Errors refer to the file as `what`.
///
/// # Errors
/// Fails if the path is a folder or can't be written.
pub fn write_whole(what: &'static str, path: &Path, text: &str) -> Result<(), OutputError> {
    Output::open(what, path, &Inputs::default())?.write(|file| file.write_all(text.as_bytes()))
}
