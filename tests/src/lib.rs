//! What the cross-crate tests share: the conformance runner, the fuzz targets, a cluster to walk
//! through, scripted faults, and the sources themselves.

pub mod command;
pub mod conformance;
pub mod fuzz;
pub mod harness;
pub mod hazard;
pub mod requests;
pub mod tree;
