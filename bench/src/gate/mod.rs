//! The gate: counts of instructions and allocations against the committed budgets.
//!
//! Data flows one way: `collect` builds and runs the two counting benches and gives a
//! [`measurement::Measurement`]; [`compare`] holds it against [`budgets::Budgets`] and gives a verdict for each
//! row; `show` prints them; [`bless`] rewrites the rows it is told to. Only `collect`, `tools` and `wall`
//! start other programs, and only `cli` writes files.
//!
//! `wall` is something else that shares the name: advice on wall time between two revisions,
//! which never decides anything.

pub mod bless;
pub mod budgets;
mod cli;
mod collect;
pub mod compare;
pub mod measurement;
pub mod paired;
mod show;
mod tools;
mod wall;

pub use cli::main;

/// Exit status of a gate that found nothing wrong.
pub const EXIT_PASS: u8 = 0;
/// Exit status when a row regressed, disappeared or has no budget yet.
pub const EXIT_REGRESSION: u8 = 1;
/// Exit status when nothing could be decided: wrong usage, budgets that can't be read, a tool that is not there.
pub const EXIT_UNUSABLE: u8 = 2;
/// Exit status when rows left their tolerance, but under another compiler, other flags or another
/// machine than they were blessed with: bless them again.
pub const EXIT_TOOLCHAIN: u8 = 3;

/// Whether an id is `prefix` or lies under it, by whole segments: `a/b` holds `a/b/1`, not `a/bc/1`.
pub fn is_under(id: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    let rest = id.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_under;

    #[test]
    fn a_prefix_ends_at_a_segment() {
        assert!(is_under("a/b/1", "a/b/1"));
        assert!(is_under("a/b/1", "a"));
        assert!(is_under("a/b/1", "a/"));
        assert!(!is_under("a/b/10", "a/b/1"));
        assert!(!is_under("ab/c/1", "a"));
    }
}
