//! ControllerRevisions: the earlier templates of a workload, for StatefulSets and DaemonSets.
//!
//! A revision has the template as a patch that restores it. `history` lists and sorts revisions,
//! `data` builds and names them, `find` finds or creates the one for the current template, and
//! `restore` applies one.
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

/// The label with the hash of a revision's data.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The maximum length in bytes of a workload's name in the name of a revision.
const PREFIX_BYTES_MAX: usize = 223;

/// Returns the name of the revision of a workload with this hash. Truncates a name that leaves too
/// little room.
pub fn revision_name(workload: &str, hash: &str) -> String {
    let kept = &workload[..workload.floor_char_boundary(PREFIX_BYTES_MAX)];
    format!("{kept}-{hash}")
}
