//! The fault simulator: small clusters, injected faults of every kind, and a checker that sees
//! every commit. A seed determines the schedule, and a schedule determines the run, byte for byte.
//!
//! ```text
//!  seed ──draw──▶ schedule ──play──▶ simulation (cluster, controllers, faults) ◀── scripted hazards
//!                    ▲                   │ commits, syncs
//!                    │                   ▼
//!                minimise ◀───────── invariants ──▶ verdict
//! ```
//!
//! A schedule ([`Schedule`]) is data: the initial objects, and timed actions of users and faults.
//! It is drawn from a seed ([`draw`]), written by hand, or reduced from a failing schedule
//! ([`minimise`]). A run ([`mod@play`]) has four phases: build, disturb, heal, and quiet. The code
//! for one workload is a [`subject`], in a folder of [`workloads`].

pub mod action;
pub mod bug;
pub mod campaign;
pub mod coverage;
pub mod dice;
pub mod draw;
pub mod invariants;
pub mod minimise;
pub mod objects;
pub mod plan;
pub mod play;
mod row;
pub mod rows;
pub mod simulation;
pub mod subject;
pub mod verdict;
pub mod workloads;

pub use action::Action;
pub use plan::{How, PlannedCluster, TimedAction};
pub use play::play;
pub use rows::{AnySchedule, SubjectRow, Subjects};
pub use subject::{Schedule, Subject};
pub use verdict::{Verdict, Violation};
