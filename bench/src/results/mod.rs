//! From measurements to the table of targets.
//!
//! A row of `bench/targets.toml` names its measurement by an id, `subject/variant/size`. The figure
//! of an id is in one of two files in cargo's target directory:
//!
//! * `criterion/<id>/new/estimates.json`: from criterion, by a bench with this group, function and
//!   value. The table uses the median and its confidence interval, in nanoseconds.
//! * `criterion/<id>/new/figure.json`: a [`Figure`] from a bench that doesn't use criterion,
//!   because it measures bytes, whole runs or ratios. [`record`] writes it:
//!
//! ```no_run
//! use podstorm_bench::results::{Unit, record};
//!
//! record("memory/pod-shared/100000", 291.4, Unit::Bytes);
//! record("memory/pod-shared-plain/100000", 1_412.0, Unit::Bytes);
//! ```
//!
//! The plain rival of `subject/variant/size` is `subject/variant-plain/size`, in either form. Under
//! `cargo bench -- --test` nothing is recorded.

pub mod after_run;
pub mod document;
pub mod figure;
pub mod machine;
pub mod render;
pub mod run;
pub mod table;
pub mod targets;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use figure::{Figure, Measured, Unit, record, record_runs};

/// Returns the table of these targets for the terminal, and whether every row has its figure.
/// Figures from before `since` are stale; without `since`, figures from before the last change of
/// the sources are. `write` also writes the table to `bench/results/`.
///
/// # Errors
/// Fails if the figures can't be read or the table can't be written.
pub fn report(
    targets: Vec<targets::Target>,
    run: &mut run::Run,
    since: Option<SystemTime>,
    write: bool,
) -> anyhow::Result<(String, bool)> {
    let words = match since {
        Some(_) => "the start of the run",
        None => "the last change of the sources",
    };
    run.fresh_since = words.to_owned();
    run.end(run::now());
    let since = since.unwrap_or_else(run::sources_changed);
    let lines = table::lines(targets, &measurements_directory(), since, &run.machine)?;
    let mut text = render::terminal(&lines, run);
    if write {
        render::write(&lines, run, &package_directory().join("results"))?;
        text.push_str("Written: bench/results/targets.md, bench/results/targets.json\n");
    }
    let complete = lines.iter().all(|line| line.verdict.is_complete());
    Ok((text, complete))
}

/// Returns the folder of this package in the source tree. It contains `targets.toml` and
/// `results/`.
pub fn package_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder in which criterion and [`record`] store their figures: `$CRITERION_HOME`, or
/// `criterion` in cargo's target directory.
pub fn measurements_directory() -> PathBuf {
    if let Some(home) = std::env::var_os("CRITERION_HOME") {
        return home.into();
    }
    target_directory().join("criterion")
}

/// Returns cargo's target directory: `$CARGO_TARGET_DIR`, or the tagged folder that contains this
/// program.
pub fn target_directory() -> PathBuf {
    let root = package_directory().join("..");
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        // Cargo resolves a relative path in the folder in which it was called, which benches don't
        // know.
        return root.join(target);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let tagged = program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged.map_or_else(|| root.join("target"), Path::to_path_buf)
}
