//! What `loadgen explain` answers about workloads: which pods of an owner go and why, and what a rollout does next.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::bail;
use podstorm::policy::Policy;
use podstorm::replicaset::POD_DELETION_COST;
use podstorm_objects::Now;

use self::selection::Preferred;
use crate::input::{InputCounts, InputObject};

pub use super::replicaset::explain::*;

/// What is asked about an object.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What the files hold.
    pub(crate) objects: Vec<InputObject>,
    pub(crate) counts: InputCounts,
    /// How many pods it is to have; as it says itself where absent.
    pub(crate) replicas: Option<i32>,
    /// The image that it is to get.
    pub(crate) image: Option<String>,
    /// Pods that should go first.
    pub(crate) preferred: Preferred,
    pub(crate) gates: BTreeMap<String, bool>,
    pub(crate) burst_replicas: usize,
    pub(crate) policy: Policy,
    /// The present.
    pub(crate) now: Now,
}

impl Asked {
    /// Checks that pods can be preferred.
    ///
    /// # Errors
    /// They can't, since the gate for deletion costs is off.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if !self.preferred.is_none() && !POD_DELETION_COST.is_on(&self.gates) {
            bail!(
                "{}: with PodDeletionCost=false no annotation changes the order; leave one of the two \
                 out",
                self.preferred.text()
            );
        }
        Ok(())
    }
}

/// An answer, for programs and for people.
pub(crate) trait Explanation {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// The writer's.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The answer for the terminal.
    fn text(&self, layout: Layout) -> String;
}

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// All eight ranking fields instead of the ones that people know pods by.
    pub(crate) wide: bool,
    /// How many rows from the front, then the boundary; `None` shows all.
    pub(crate) limit: Option<usize>,
    /// Columns of the terminal; a wide table does not keep to them.
    pub(crate) width: u16,
}
