//! Prints the table of targets after a full run and writes it to `bench/results/`.

use std::io::{self, Write as _};

use super::run::{Run, TABLE_ELSEWHERE};
use super::{report, targets};
use crate::asked::Asked;

/// Prints and writes the table if this program has run everything.
///
/// # Errors
/// Fails if the figures can't be read or the table can't be written.
pub fn print(asked: &Asked) -> anyhow::Result<()> {
    if !asked.is_smoke_test && asked.is_full() && std::env::var_os(TABLE_ELSEWHERE).is_none() {
        let quick = if asked.is_quick() { " -- --quick" } else { "" };
        let mut run = Run::begin(format!("cargo bench{quick}"));
        run.load_before = None;
        let (text, _) = report(targets::load_own()?, &mut run, None, true)?;
        let _ = writeln!(io::stdout(), "{text}");
    }
    Ok(())
}
