//! Compares two results, or two sets of results from several seeds: every metric, other
//! differences, and regressions beyond the tolerance.
//!
//! [`load`] reads result files, [`identity`] determines whether two results can be compared,
//! [`compare`] gives a verdict on every metric under [`Tolerances`], [`render`] formats the
//! comparison as text, [`page`] renders it as an HTML page.

pub mod baseline;
pub mod identity;
pub mod load;
pub mod page;
pub mod render;
pub mod significance;
#[cfg(test)]
mod tests;
pub mod tolerance;
pub mod verdict;

pub use identity::{Difference, Weight};
pub use load::{Loaded, read, read_text};
pub use tolerance::{Tolerance, Tolerances};
pub use verdict::{Comparison, Row, Verdict, compare};
