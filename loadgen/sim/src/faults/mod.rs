//! Fault injection between a controller and its cluster: the faults as data, and the places where
//! they happen.
//!
//! * [`class`]: the kinds of faults, with the numbers of the reliability plan;
//! * [`answer`]: the wrong answers that an API server or a network gives;
//! * [`network`]: faults armed against requests;
//! * [`watching`]: faults of watches;
//! * [`connection`]: the connection of one controller manager, which its requests and watches pass,
//!   and its clock.
//!
//! In a run without fault injection the connection is absent, which costs one test.
//!
//! A new class is a row in [`class`], and happens in [`watching`], [`network`] or [`connection`]. In the fault simulator it
//! has an `Action`, a draw (`draw::faults`, or `Subject::draw_own` for a fault of one workload), bounds (`subject::schedule`),
//! its effect (`simulation::faults`), the steps that it can meet (`coverage`) and the signs that it was noticed
//! (`invariants::reach`). A new class changes the meaning of seeds.

/// Declares an enum with the list of its values, `ALL`.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident),+ $(,)?
    }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$variant_meta])* $variant),+
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: [$name; [$($name::$variant),+].len()] = [$($name::$variant),+];
        }
    };
}

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
