//! The messages and decisions of `kubectl rollout status`, `history` and `undo` for Deployments, as
//! pure functions. The controller does not use them. They serve commands that show or control
//! rollouts, and recorded cases.
//!
//! Source of messages and decisions: `polymorphichelpers` of kubectl 1.36.

mod history;
mod status;

pub use history::{History, HistoryRow, Undo, history, undo};
pub use status::{RolloutStatus, rollout_status};

use compact_str::CompactString;
use podstorm_objects::SelectorError;

use super::find_new::RevisionError;

/// The error with which the kubectl command ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// The requested revision is negative.
    #[error("revision must be a positive integer: {0}")]
    NegativeRevision(i64),
    /// The Deployment's revision can't be parsed.
    #[error("cannot get the revision of deployment {deployment:?}: {cause}")]
    UnreadableRevision {
        /// The name of the Deployment.
        deployment: CompactString,
        /// Why the revision can't be parsed.
        cause: RevisionError,
    },
    /// The Deployment is at a revision other than the requested one.
    #[error("desired revision ({wanted}) is different from the running revision ({running})")]
    OtherRevision {
        /// The requested revision.
        wanted: i64,
        /// The current revision of the Deployment.
        running: i64,
    },
    /// The rollout made no progress for too long. Holds the Deployment's name.
    #[error("deployment {0:?} exceeded its progress deadline")]
    DeadlineExceeded(CompactString),
    /// The Deployment's selector can't be compiled.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// No ReplicaSet has the revision to show.
    #[error("unable to find the specified revision")]
    NothingToShow,
    /// No ReplicaSet has the revision to return to. Holds the revision.
    #[error("unable to find specified revision {0} in history")]
    NotInHistory(i64),
    /// There is no revision before the last one. Holds the Deployment's name.
    #[error("no rollout history found for deployment {0:?}")]
    NoHistory(CompactString),
    /// The Deployment is paused, so it can't be rolled back.
    #[error(
        "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again"
    )]
    Paused,
}
