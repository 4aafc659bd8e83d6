//! The API calls a sync may ask for, and what may come back.

use std::sync::Arc;

use compact_str::CompactString;

use super::ApiError;
use crate::object::{OwnerReference, Pod, ReplicaSet, Str, Uid};

/// An API call that a sync asks its driver to make.
#[derive(Clone, Debug)]
pub enum Request {
    /// `POST` of a pod. All creates of a burst carry the same body.
    CreatePod {
        /// From the request path; the body has none.
        namespace: Str,
        /// `generateName`, labels, annotations, finalizers, one owner reference, the spec.
        body: Arc<Pod>,
    },
    /// `DELETE` of a pod by name, with empty options.
    DeletePod {
        /// The pod's namespace.
        namespace: Str,
        /// The pod's name.
        name: CompactString,
    },
    /// Strategic-merge `PATCH` of a pod's owner references.
    PatchPod {
        /// The pod's namespace.
        namespace: Str,
        /// The pod's name.
        name: CompactString,
        /// What to change.
        patch: PodPatch,
    },
    /// A quorum read of the ReplicaSet (or ReplicationController) being synced.
    GetParent {
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: CompactString,
    },
    /// `PUT` of the parent's `/status`.
    PutStatus {
        /// The whole object with its new status.
        object: Arc<ReplicaSet>,
    },
}

/// A change of a pod's owner references.
#[derive(Clone, Debug, PartialEq)]
pub enum PodPatch {
    /// Adds the controller reference; refused by the server when the UID isn't the pod's.
    Adopt {
        /// The reference to add.
        owner: Arc<OwnerReference>,
        /// The UID the pod must have.
        pod_uid: Uid,
    },
    /// Removes the reference with that UID.
    Release {
        /// UID of the reference to remove.
        owner_uid: Uid,
        /// The UID the pod must have.
        pod_uid: Uid,
    },
}

/// What came back from a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod as created or patched.
    Pod(Arc<Pod>),
    /// The parent as read or written.
    Parent(Arc<ReplicaSet>),
    /// The deletion was accepted.
    Deleted,
    /// Anything but success.
    Failed(ApiError),
}
