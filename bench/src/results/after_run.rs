//! The table of targets after a full run, on the terminal and in `bench/results/`; a smoke test only checks that
//! the table can be made.

use std::io::{self, Write as _};
use std::time::SystemTime;

use super::run::{Run, TABLE_ELSEWHERE};
use super::{package_directory, render, report, table, targets};
use crate::asked::Asked;

/// Prints the table, after all that this program was asked.
///
/// # Errors
/// Figures that can't be read, or a table that can't be written.
pub fn print(asked: &Asked) -> anyhow::Result<()> {
    let targets = targets::load_own()?;
    if asked.is_smoke_test {
        let run = Run::begin(String::new());
        let nothing = package_directory().join("results/none");
        let lines = table::lines(targets, &nothing, SystemTime::UNIX_EPOCH, &run.machine)?;
        assert!(render::markdown(&lines, &run).len() > lines.len());
    } else if asked.is_full() && std::env::var_os(TABLE_ELSEWHERE).is_none() {
        let quick = if asked.is_quick() { " -- --quick" } else { "" };
        let mut run = Run::begin(format!("cargo bench{quick}"));
        run.load_before = None;
        let (text, _) = report(targets, &mut run, None, true)?;
        let _ = writeln!(io::stdout(), "{text}");
    }
    Ok(())
}
