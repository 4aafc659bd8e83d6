//! The gate: counts of instructions and allocations, held to the committed budgets.
//!
//! What gungraun and dhat offer by themselves does not suffice: gungraun compares with a baseline that lies in the
//! target directory, or with limits that are the same for a whole list of benches; neither tool keeps a reason, knows
//! another toolchain, or says what got cheaper. So the two count, and the gate compares.
//!
//! Data flows one way: `collect` builds and runs the two counting benches and gives a
//! [`measurement::Measurement`]; [`compare`] holds it to [`budgets::Budgets`] and gives a verdict for each
//! row; `show` prints the verdicts; [`bless`] rewrites the chosen rows. Only `collect` and `tools` start other
//! programs, and only `cli` writes files.

pub mod bless;
pub mod budgets;
mod cli;
mod collect;
pub mod compare;
pub mod measurement;
mod show;
mod tools;

use std::io::{self, Write as _};

pub use cli::main;

/// Exit status of a gate that found nothing wrong.
pub const EXIT_PASS: u8 = 0;
/// Exit status when a row regressed, disappeared or has no budget yet.
pub const EXIT_REGRESSION: u8 = 1;
/// Exit status when nothing could be decided: wrong usage, budgets that can't be read, a missing tool.
pub const EXIT_UNUSABLE: u8 = 2;
/// Exit status when rows left their tolerance, but under another compiler, other flags or another
/// machine than they were blessed with: bless them again.
pub const EXIT_TOOLCHAIN: u8 = 3;

/// Reports whether an id is `prefix` or lies under it, by whole segments: `a/b` holds `a/b/1`, not `a/bc/1`.
pub fn is_under(id: &str, prefix: &str) -> bool {
    let rest = id.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What happens, on standard error.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "gate: {text}");
}

#[cfg(test)]
mod tests {
    use super::is_under;

    #[test]
    fn a_prefix_ends_at_a_segment() {
        assert!(is_under("a/b/1", "a/b/1"));
        assert!(is_under("a/b/1", "a/"));
        assert!(!is_under("a/b/10", "a/b/1"));
        assert!(!is_under("ab/c/1", "a"));
    }
}
