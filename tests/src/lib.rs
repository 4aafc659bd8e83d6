//! What the cross-crate tests share: the conformance runner, a cluster to walk through, and scripted
//! faults.

pub mod command;
pub mod conformance;
pub mod hazard;
pub mod lab;
