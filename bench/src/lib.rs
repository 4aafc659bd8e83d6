//! What the benches share: drawn inputs, the same for the same seed; the hot paths that are timed
//! and counted; and the gate over the counts.

pub mod clusters;
pub mod cold_start;
pub mod files;
pub mod gate;
pub mod hot;
pub mod memory;
pub mod plain;
pub mod pods;
pub mod profiler;
pub mod results;
pub mod scaling;
pub mod smoke;
pub mod whole;
