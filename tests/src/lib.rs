//! What the cross-crate tests share: the conformance runner, the fuzz targets, and a cluster to walk through.

pub mod command;
pub mod conformance;
pub mod fuzz;
pub mod lab;
