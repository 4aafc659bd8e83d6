//! What the cross-crate tests share: the conformance runner, and a cluster to walk through.

pub mod command;
pub mod conformance;
pub mod lab;
