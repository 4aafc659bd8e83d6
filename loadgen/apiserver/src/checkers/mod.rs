//! Invariant checkers of the API server: its commits, lists, watches and refusals must be
//! consistent.
//!
//! A [`Recorder`] records every commit. Its [`History`] is checked by itself ([`History::check`]).
//! Then all reads are checked against the history: lists and single objects
//! ([`History::check_list`], [`History::check_get`]), watches ([`History::check_watch`]) and
//! refusals to open a watch ([`History::check_refusal`]). The checkers know the rules but not the
//! server's implementation.

mod history;
mod reads;
mod tests;
mod watches;

pub(crate) use history::{History, Recorder};
pub(crate) use watches::{RecordedWatch, Window};

use std::fmt;

/// A broken rule with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The name of the rule.
    pub(crate) rule: &'static str,
    /// What was observed and what was expected.
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The violations that one check has found.
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
