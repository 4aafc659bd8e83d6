//! What a user sees of a run: progress while it goes on, one screen afterwards, and the
//! files asked for. Writing never panics: a reader that went away ends the output quietly.

mod brake;
pub mod colour;
pub(crate) mod columns;
pub mod csv;
pub mod html;
pub mod json;
pub mod junit;
#[cfg(feature = "tui")]
pub mod live;
pub mod output;
pub(crate) mod page;
pub mod perf_dash;
pub(crate) mod placed;
pub mod progress;
mod stale_watch;
pub mod terminal;
#[cfg(test)]
pub(crate) mod tests;
