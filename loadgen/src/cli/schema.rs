//! `loadgen schema`: the JSON Schemas of what loadgen reads and writes, derived from the types that do
//! it. Those in `schemas/` are these; a test holds them together.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::print;
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
}

/// Prints the schema, and gives the exit code.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn run(flags: &SchemaFlags) -> Result<u8> {
    let schema = match flags.format {
        Format::Scenario => schemars::schema_for!(Scenario),
    };
    let mut text = serde_json::to_string_pretty(&schema)?;
    text.push('\n');
    print(&text)?;
    Ok(0)
}
