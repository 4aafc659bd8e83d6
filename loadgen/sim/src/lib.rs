//! A simulated cluster: clocks, an executor of virtual or real time, nodes, faults, and controllers
//! over the embedded API server.

pub mod clock;
pub mod engine;
pub mod executor;
pub mod faults;
pub mod nodes;
pub mod options;
