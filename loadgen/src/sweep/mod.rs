//! Runs a scenario over a grid of settings. Every cell is an independent run with a seed, or one
//! run for each of several seeds.
//!
//! [`grid`] parses `--vary` and numbers the cells, [`work`] runs them on several threads,
//! [`outcome`] summarizes the cells and finds the cheapest one that meets every threshold,
//! [`output`] writes the table, CSV and JSON, [`report`] the page with its charts; [`repeated`]
//! summarizes the runs of a single cell. The command line builds each cell's settings from flags,
//! so that values are parsed in the same way as by `loadgen run`.

pub mod chart;
pub mod grid;
pub mod outcome;
pub mod output;
pub mod repeated;
pub mod report;
#[cfg(test)]
mod tests;
pub mod work;

pub use grid::{Dimension, Grid};
pub use outcome::{Cell, Sweep};
pub use work::{RunPlan, run};
