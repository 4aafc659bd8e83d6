//! What crosses crates and needs nothing but Rust, in one program: linked once, and its tests fill all cores.

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
