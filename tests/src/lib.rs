//! What the cross-crate tests share: the conformance runner, the fuzz targets, a cluster to walk
//! through, scripted faults, and the mutants that all tests together must notice.

pub mod command;
pub mod conformance;
pub mod fuzz;
pub mod hazard;
pub mod lab;
pub mod mutants;
