//! What `kubectl rollout status`, `history` and `undo` say and do about a Deployment, as pure
//! functions. The controller uses none of it: this is for commands that show or steer rollouts, and
//! for recorded cases.
//!
//! Source of texts and decisions: `polymorphichelpers` of kubectl 1.36.

mod history;
mod status;

pub use history::{History, HistoryRow, Undo, history, undo};
pub use status::{RolloutStatus, rollout_status};

use compact_str::CompactString;
use podstorm_objects::SelectorError;

use super::find_new::RevisionError;

/// Why kubectl ends with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// The wanted revision is below zero.
    #[error("revision must be a positive integer: {0}")]
    NegativeRevision(i64),
    /// The Deployment's revision can't be read.
    #[error("cannot get the revision of deployment {deployment:?}: {cause}")]
    UnreadableRevision {
        /// The Deployment's name.
        deployment: CompactString,
        /// What is wrong with it.
        cause: RevisionError,
    },
    /// The Deployment is at another revision than the wanted one.
    #[error("desired revision ({wanted}) is different from the running revision ({running})")]
    OtherRevision {
        /// The revision that was asked about.
        wanted: i64,
        /// The Deployment's.
        running: i64,
    },
    /// The rollout made no progress for too long. The Deployment's name.
    #[error("deployment {0:?} exceeded its progress deadline")]
    DeadlineExceeded(CompactString),
    /// The Deployment's selector can't be compiled.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// No ReplicaSet has the revision to be shown.
    #[error("unable to find the specified revision")]
    NothingToShow,
    /// No ReplicaSet has the revision to go back to.
    #[error("unable to find specified revision {0} in history")]
    NotInHistory(i64),
    /// There is no revision before the last. The Deployment's name.
    #[error("no rollout history found for deployment {0:?}")]
    NoHistory(CompactString),
    /// A paused Deployment is not rolled back.
    #[error(
        "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again"
    )]
    Paused,
}
