//! ControllerRevisions: the earlier templates of a workload, for StatefulSets and DaemonSets.
//!
//! A revision contains the template as a patch that restores it. `history` lists and sorts
//! revisions, `data` builds and names them, `find` finds or creates the revision of the current
//! template, and `restore` applies a revision.
//!
//! Source: Kubernetes' `pkg/controller/history`.

mod data;
mod find;
mod history;
mod restore;

pub use data::{RevisionData, revision_hash};
pub use find::{Found, Owner, delete_all};
pub use history::{Revision, next_number, sort, surplus};
pub use restore::{RestoreError, is_same_template, restored_spec};

/// The label that holds the hash of a revision's data.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The maximum length in bytes of the workload's name within the name of a revision.
const PREFIX_BYTES_MAX: usize = 223;

/// Returns the name of the workload's revision with this hash. Truncates the name of the workload
/// if it leaves too little room for the hash.
pub fn revision_name(workload: &str, hash: &str) -> String {
    let kept = &workload[..workload.floor_char_boundary(PREFIX_BYTES_MAX)];
    format!("{kept}-{hash}")
}
