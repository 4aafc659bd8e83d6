//! What can go wrong between a controller and its cluster, as data and as the place where it
//! happens.
//!
//! [`class`] lists the kinds of faults under the numbers of the reliability plan; [`answer`] the
//! wrong answers an API server or a network gives; [`network`] what is armed against requests;
//! [`mod@line`] one controller's connection, which every request and every watch of it passes, and its
//! clock. An undisturbed run has none of these, and pays one test of an absent value for it.

pub mod answer;
pub mod class;
pub mod line;
pub mod network;
pub mod watching;

pub use answer::{ApiFault, Call};
pub use class::FaultClass;
pub use line::{CrashPoint, Line};
pub use network::{Armed, Effect, Fate, Mark, Network, Place, Sent};
pub use watching::{StreamEnd, StreamKind};
