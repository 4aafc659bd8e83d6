//! `loadgen schema`: the JSON Schemas of what loadgen reads and writes, derived from the types that do
//! it. Those in `schemas/` are these; a test holds them together.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::print_json;
use crate::result::RunResult;
use crate::scenario::Scenario;

/// What `loadgen schema` is asked for.
#[derive(Args, Debug)]
pub(super) struct SchemaFlags {
    /// Which format
    #[arg(value_enum)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Scenario files, as `run --scenario FILE` reads them
    Scenario,
    /// Results, as `run --json` writes them
    Result,
}

/// Prints the schema, and gives the exit code.
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
