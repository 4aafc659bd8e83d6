//! The questions and answers of `loadgen explain` about workloads: which pods of an owner go and
//! why, and what a rollout does next.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::bail;
use podstorm::policy::Policy;
use podstorm::replicaset::POD_DELETION_COST;
use podstorm_objects::Now;

use self::selection::Preferred;
use crate::input::{InputCounts, InputObject};

pub use super::replicaset::explain::*;

/// A question about an object.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The objects of the files.
    pub(crate) objects: Vec<InputObject>,
    pub(crate) counts: InputCounts,
    /// The desired number of pods; by default that of the object.
    pub(crate) replicas: Option<i32>,
    /// The new image.
    pub(crate) image: Option<String>,
    /// Pods that should go first.
    pub(crate) preferred: Preferred,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) burst_replicas: usize,
    pub(crate) policy: Policy,
    /// The time of the question.
    pub(crate) now: Now,
}

impl Asked {
    /// Checks that pods can be preferred.
    ///
    /// # Errors
    /// They can't, because the gate for deletion costs is off.
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

/// An answer, in formats for programs and for readers.
pub(crate) trait Explanation {
    /// Writes the answer as JSON.
    ///
    /// # Errors
    /// The writer fails.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Formats the answer for the terminal.
    fn text(&self, layout: Layout) -> String;
}

/// The layout of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Whether to show all eight ranking fields instead of the most common ones.
    pub(crate) wide: bool,
    /// The number of rows from the front, before the boundary; `None` shows all.
    pub(crate) limit: Option<usize>,
    /// Width of the terminal; wide tables ignore it.
    pub(crate) width: u16,
}
