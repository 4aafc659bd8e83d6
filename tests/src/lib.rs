//! What the cross-crate tests share: the conformance runner, the fuzz targets, a cluster to walk
//! through, scripted faults, and the sources themselves.
//!
//! The tests of one module are in its file or in its `tests.rs`, those of one crate from outside in the crate's `tests`
//! folder. Here are the tests across crates: `tests/all` is one program that needs nothing but Rust (the command line in
//! `cli`, recorded cases, walk-throughs, scripted hazards, the structure and the house rules), and `tests/real` is one
//! program whose tests need a browser, kubectl or the real kube-controller-manager (`cargo real`). `schedules` has schedules of
//! the fault simulator that failed once.

pub mod command;
pub mod conformance;
pub mod fuzz;
pub mod harness;
pub mod hazard;
pub mod requests;
pub mod tree;
