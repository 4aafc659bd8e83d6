//! Tests across crates that need nothing but Rust, in one program: it links once, and its tests use
//! all cores.

mod cli;
mod conformance;
mod docs;
mod explain;
mod fuzz;
mod hazards;
mod live_view;
mod mangled;
mod readme;
mod requests;
mod structure;
mod tidy;
mod walkthroughs;
