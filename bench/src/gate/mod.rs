//! The gate: compares counts of instructions and allocations with the committed budgets.
//!
//! The built-in checks of gungraun and dhat do not suffice. Gungraun compares counts with a
//! baseline in the target directory, or with limits that apply to a whole list of benches. Neither
//! tool keeps a reason, distinguishes toolchains, or reports gains. Therefore, the tools only
//! count, and the gate compares.
//!
//! Data flows in one direction: `collect` builds and runs the two counting benches and returns a
//! [`measurement::Measurement`]; [`compare`] compares it with [`budgets::Budgets`] and returns a
//! verdict for each row; `show` prints the verdicts; [`bless`] rewrites the chosen rows. Only
//! `collect` and `tools` start other programs, and only `cli` writes files.

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

/// The exit status if all rows pass.
pub const EXIT_PASS: u8 = 0;
/// The exit status if a row regressed, disappeared or has no budget yet.
pub const EXIT_REGRESSION: u8 = 1;
/// The exit status if no decision was possible: wrong usage, unreadable budgets, a missing tool.
pub const EXIT_UNUSABLE: u8 = 2;
/// The exit status if rows are outside their tolerance, but were blessed with another compiler,
/// with other flags or on another machine: bless them again.
pub const EXIT_TOOLCHAIN: u8 = 3;

/// Reports whether an id is `prefix` or is below it. Only whole segments count: `a/b` includes
/// `a/b/1`, but not `a/bc/1`.
pub fn is_under(id: &str, prefix: &str) -> bool {
    let rest = id.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reports progress on standard error.
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
