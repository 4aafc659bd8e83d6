//! The questions and answers of `loadgen explain` about workloads: which pods of an owner are
//! deleted and why, and what a rollout does next.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::bail;
use podstorm::policy::Policy;
use podstorm::replicaset::POD_DELETION_COST;
use podstorm_objects::Now;

use self::selection::Preferred;
use crate::input::{InputCounts, InputObject};

pub use super::replicaset::explain::*;

/// A question about a workload object.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The objects from the files.
    pub(crate) objects: Vec<InputObject>,
    pub(crate) counts: InputCounts,
    /// The desired number of pods; `None` for the number in the object.
    pub(crate) replicas: Option<i32>,
    /// The new image of a rollout, if the question is about one.
    pub(crate) image: Option<String>,
    /// The pods that should be deleted first.
    pub(crate) preferred: Preferred,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) burst_replicas: usize,
    pub(crate) policy: Policy,
    /// The time for which the question is answered.
    pub(crate) now: Now,
}

impl Asked {
    /// Checks that the question's preferred pods can be deleted first.
    ///
    /// # Errors
    /// Pods are preferred although the gate for deletion costs is off.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if !self.preferred.is_none() && !POD_DELETION_COST.is_on(&self.gates) {
            bail!(
                "{}: with PodDeletionCost=false no annotation changes the order; use only one of the \
                 two",
                self.preferred.text()
            );
        }
        Ok(())
    }
}

/// An answer, in formats for programs and for people.
pub(crate) trait Explanation {
    /// Writes the answer as JSON.
    ///
    /// # Errors
    /// Writing to `out` fails.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Formats the answer for the terminal.
    fn text(&self, layout: Layout) -> String;
}

/// The layout of the answer's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Whether to show all eight ranking fields, and not only the most common ones.
    pub(crate) wide: bool,
    /// The maximum number of rows to show from the top, except those around the boundary; `None`
    /// shows all rows.
    pub(crate) limit: Option<usize>,
    /// The width of the terminal in columns; wide tables ignore it.
    pub(crate) width: u16,
}
