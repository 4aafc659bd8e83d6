//! What can go wrong between a controller and its cluster, as data and as the place where it
//! happens.
//!
//! [`class`] lists the kinds of faults under the numbers of the reliability plan; [`answer`] the
//! wrong answers an API server or a network gives; [`network`] what is armed against requests;
//! [`connection`] one controller's connection, which every request and every watch of it passes, and its
//! clock. An undisturbed run has none of these, and pays one test of an absent value for it.

pub mod answer;
pub mod class;
pub mod connection;
pub mod network;
pub mod watching;

pub use answer::{ApiFault, Call};
pub use class::FaultClass;
pub use connection::{Connection, CrashPoint};
pub use network::{
    Armed, BatchPosition, Effect, FaultId, InjectedOutcome, Network, OutgoingRequest,
};
pub use watching::{StreamEnd, StreamKind};
