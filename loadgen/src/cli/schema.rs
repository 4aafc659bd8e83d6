//! `loadgen schema`: the JSON Schemas of the files that loadgen reads and writes, derived from the
//! Rust types. A test keeps the copies in `schemas/` up to date.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::print_json;
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Flags of `loadgen schema`.
#[derive(Args, Debug)]
pub(super) struct SchemaFlags {
    /// The file format
    #[arg(value_enum)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Scenario files, the input of `run --scenario FILE`
    Scenario,
    /// Results, the output of `run --json`
    Result,
}

/// Prints the schema and returns the exit code.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn run(flags: &SchemaFlags) -> Result<u8> {
    print_json(&match flags.format {
        Format::Scenario => schemars::schema_for!(Scenario),
        Format::Result => schemars::schema_for!(RunResult),
    })?;
    Ok(0)
}
