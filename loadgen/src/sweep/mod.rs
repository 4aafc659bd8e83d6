//! A scenario over a grid of settings: every cell is an independent seeded run, or one for each of
//! several seeds.
//!
//! [`grid`] parses `--vary` and numbers the cells, [`work`] runs them on several threads,
//! [`outcome`] summarizes cells and finds the cheapest one that meets every threshold, [`output`]
//! writes the table, CSV and JSON, [`report`] the page with its charts; [`repeated`] summarizes the
//! runs of one cell. The command line builds the settings of each cell from flags, so that values
//! are parsed as in `loadgen run`.

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
