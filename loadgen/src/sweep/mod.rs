//! The same scenario over a grid of settings: every cell an independent seeded run, or one for each
//! of several seeds.
//!
//! [`grid`] reads `--vary` and numbers the cells, [`work`] runs them on several threads, [`outcome`]
//! sums a cell up and finds the cheapest that keeps every threshold, [`output`] writes the table, CSV
//! and JSON, [`report`] the page with its charts; [`repeated`] sums up the runs of one cell. What a cell runs is made by the command line from
//! its flags, so that a value here is read as `loadgen run` reads it.

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
