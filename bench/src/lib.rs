//! What the benches share: drawn inputs, the same for the same seed.

pub mod pods;
pub mod profiler;
