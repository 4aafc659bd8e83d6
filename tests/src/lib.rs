//! What the cross-crate tests share: the conformance runner.

pub mod command;
pub mod conformance;
