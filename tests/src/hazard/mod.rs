//! Scripted faults: a cluster on virtual time, one controller manager or more on lines that can
//! be disturbed, and the rules that hold whatever happens.

mod diary;
mod hand;
pub mod objects;
mod rules;
mod scene;
#[cfg(test)]
mod tests;
mod users;
mod view;

pub use diary::{Asked, Diary, Did, Seen, SyncPage, Written};
pub use hand::{Done, Hand};
pub use scene::{Scene, Setup, fault, minutes, ms, seconds};
pub use view::View;
