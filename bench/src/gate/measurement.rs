//! The counts, and the toolchain with which they were taken.

use std::fmt;

use podstorm_loadgen::result::Build;
use serde::{Deserialize, Serialize};

/// The unit of a figure. Figures are per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    /// Instructions under callgrind.
    #[serde(rename = "instructions/call")]
    Instructions,
    /// Blocks requested from the allocator.
    #[serde(rename = "allocations/call")]
    Allocations,
}

impl Unit {
    /// Returns the noun for what is counted.
    pub fn noun(self) -> &'static str {
        match self {
            Unit::Instructions => "instructions",
            Unit::Allocations => "allocations",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/call", self.noun())
    }
}

/// The properties of the environment on which a count depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The compiler, e.g. `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub rustc: String,
    /// The target, its features, and the compiler flags.
    pub flags: String,
    /// The capabilities of the processor, as valgrind presents them to the program. libc selects
    /// its `memcpy` by them.
    pub cpu: String,
    /// The C library, e.g. `glibc 2.36`. Its allocator and `memcpy` are counted, too.
    pub libc: String,
    /// The version of valgrind.
    pub valgrind: String,
}

impl Toolchain {
    /// Returns the compiler and the flags with which this crate was built, without any data about
    /// the machine.
    pub fn of_build() -> Toolchain {
        Toolchain {
            rustc: Build::this().rustc,
            flags: env!("PODSTORM_FLAGS").into(),
            ..Toolchain::default()
        }
    }

    /// Returns the differences from `other` that can change counts of `unit`, as `what: theirs ->
    /// ours`. Allocations depend only on the compiler, instructions also on the machine.
    pub fn differences(&self, other: &Toolchain, unit: Unit) -> Vec<String> {
        let all = [
            ("rustc", &self.rustc, &other.rustc),
            ("flags", &self.flags, &other.flags),
            ("cpu", &self.cpu, &other.cpu),
            ("libc", &self.libc, &other.libc),
            ("valgrind", &self.valgrind, &other.valgrind),
        ];
        let matter = if unit == Unit::Instructions { 5 } else { 2 };
        all[..matter]
            .iter()
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(what, ours, theirs)| format!("{what}: {theirs} -> {ours}"))
            .collect()
    }
}

/// The count of one path in one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The id of the hot path.
    pub id: String,
    /// The unit of the count.
    pub unit: Unit,
    /// The count per call, rounded to three decimals.
    pub figure: f64,
    /// Whether the path claims to allocate nothing.
    pub allocation_free: bool,
}

/// All counts of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The toolchain with which the counts were taken.
    pub toolchain: Toolchain,
    /// The counts in the order of the list of hot paths, with instructions before allocations.
    pub counts: Vec<Count>,
}

impl Measurement {
    /// Returns the count for this path and unit; `None` if there is none.
    pub fn find(&self, id: &str, unit: Unit) -> Option<&Count> {
        let is_it = |count: &&Count| count.id == id && count.unit == unit;
        self.counts.iter().find(is_it)
    }
}

/// Returns `total` divided by `calls`, rounded to three decimals, so that it has the same text on
/// every machine.
pub fn per_call(total: u64, calls: u32) -> f64 {
    (total as f64 / f64::from(calls) * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_do_not_depend_on_the_machine() {
        let ours = Toolchain::of_build();
        assert!(ours.rustc.starts_with("rustc "));
        assert!(ours.flags.contains(std::env::consts::ARCH));
        let theirs = Toolchain {
            cpu: "other".into(),
            ..ours.clone()
        };
        assert!(ours.differences(&theirs, Unit::Allocations).is_empty());
        assert_eq!(
            ours.differences(&theirs, Unit::Instructions),
            ["cpu: other -> "]
        );
    }

    #[test]
    fn figures_have_three_decimals() {
        assert_eq!(per_call(575_029, 5_000), 115.006);
        assert_eq!(per_call(0, 3), 0.0);
        assert_eq!(per_call(2, 3), 0.667);
    }
}
