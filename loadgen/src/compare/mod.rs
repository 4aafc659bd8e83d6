//! Two results, or two sets of results of several seeds, side by side: every metric, what differs,
//! and what is worse by more than it may be.
//!
//! [`load`] reads result files, [`identity`] says whether two results are of the same thing,
//! [`compare`] gives a verdict on every metric under [`Tolerances`], [`render`] shows what came of it, [`page`] as a page.

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
