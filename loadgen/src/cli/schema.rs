//! `loadgen schema`: the JSON Schema of what `loadgen` writes.

use anyhow::Result;
use clap::{Args, ValueEnum};
use schemars::schema_for;

use super::print;
use crate::report::json;
use crate::result::RunResult;

/// What is asked for.
#[derive(Args, Debug)]
pub(super) struct SchemaFlags {
    /// Of what
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// What `loadgen run --json` writes
    Result,
}

/// Prints the schema.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn run(flags: &SchemaFlags) -> Result<u8> {
    let schema = match flags.what {
        What::Result => schema_for!(RunResult),
    };
    let mut bytes = Vec::new();
    json::write(&mut bytes, &schema)?;
    print(&String::from_utf8_lossy(&bytes))?;
    Ok(0)
}
