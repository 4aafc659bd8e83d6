//! Code that the tests across crates share: the conformance runner, the fuzz targets, a cluster for
//! walk-throughs, scripted hazards, and access to the source files.
//!
//! Unit tests of a module are in its file or in its `tests.rs`; tests of one crate from outside are
//! in the crate's `tests` folder. This package contains the tests across crates. `tests/all` is one
//! program that needs only Rust: the command line in `cli`, recorded cases, walk-throughs, scripted
//! hazards, the structure and the house rules. `tests/real` is one program whose tests need a
//! browser, kubectl or the real kube-controller-manager (`cargo real`). `schedules` contains
//! schedules of the fault simulator that once failed.

pub mod command;
pub mod conformance;
pub mod fuzz;
pub mod harness;
pub mod hazard;
pub mod requests;
pub mod tree;
