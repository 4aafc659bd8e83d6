//! Checks of the embedded API server itself, from outside: what it committed, listed and streamed
//! must fit together, whatever the controllers made of it.
//!
//! A [`Recorder`] writes down every commit; the [`History`] it gives is judged first on its own,
//! then everything that was read is held against it: lists and single objects ([`History::check_list`],
//! [`History::check_get`]), streams ([`History::check_watch`]) and refusals to open one
//! ([`History::check_refusal`]). The checks know the rules and nothing of how the server keeps them.

mod history;
mod reads;
#[cfg(test)]
mod tests;
mod watches;

pub use history::{History, Record, Recorder};
pub use watches::{RecordedWatch, Window};

use std::fmt;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, in a word or two that stay the same.
    pub rule: &'static str,
    /// What was found and what should have been.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Collects violations of one check.
#[derive(Debug, Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, rule: &'static str, what: String) {
        self.0.push(Violation { rule, what });
    }

    fn unless(&mut self, holds: bool, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, what());
        }
    }
}
