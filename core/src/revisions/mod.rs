//! ControllerRevisions: the templates that a workload had, for StatefulSets and DaemonSets.
//!
//! A revision holds the template as a patch that restores it. Revisions are listed and sorted (`history`), made and
//! named (`data`), found or created for the template of today (`find`), and applied (`restore`).
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

/// The longest part of a workload's name in the name of a revision, in bytes.
const PREFIX_BYTES_MAX: usize = 223;

/// The name of the revision of a workload with this hash. A name that leaves too little room is cut.
pub fn revision_name(workload: &str, hash: &str) -> String {
    let kept = &workload[..workload.floor_char_boundary(PREFIX_BYTES_MAX)];
    format!("{kept}-{hash}")
}
