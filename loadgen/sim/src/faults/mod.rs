//! Fault injection between a controller and its cluster: the faults as data, and the code that
//! applies them.
//!
//! * [`class`]: the classes of faults, with their numbers in the reliability plan;
//! * [`answer`]: wrong answers from an API server or a network;
//! * [`network`]: faults armed against requests;
//! * [`watching`]: faults of watches;
//! * [`connection`]: the connection of one controller manager, which carries its requests and
//!   watches, and its clock.
//!
//! A run without fault injection has no connections; each check for a connection costs one branch.
//!
//! A new class is a row in [`class`] with its effect in [`watching`], [`network`] or
//! [`connection`]. In the fault simulator it needs an `Action`, a draw (`draw::faults`, or
//! `Subject::draw_own` for a fault of one workload), bounds (`subject::schedule`), an effect
//! (`simulation::faults`), the steps that it can affect (`coverage`) and the evidence that a
//! controller noticed it (`invariants::reach`). A new class changes the meaning of seeds.

/// Declares an enum and `ALL`, the list of its values.
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
