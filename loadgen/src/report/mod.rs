//! What a user sees of a run: progress while it goes on, one screen afterwards, and the
//! files asked for. Writing never panics: a reader that went away ends the output quietly.

pub(crate) mod columns;
pub mod output;
pub mod progress;
mod stale_watch;
pub mod terminal;
