//! The API calls a sync may ask for, and what may come back.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{AnyObject, Kind, Pod, PodPatch, ResourceVersion, Str, Uid};

use super::ApiError;

/// An API call that a sync asks its driver to make.
#[derive(Clone, Debug)]
pub enum Request {
    /// `POST` of a pod. All creates of a burst carry the same body.
    CreatePod {
        /// From the request path; the body has none.
        namespace: Str,
        /// `generateName`, labels, annotations, finalizers, one owner reference, the spec.
        pod: Arc<Pod>,
        /// The pod's name, to be set in the body; `None` lets the server make one from
        /// `generateName`.
        name: Option<CompactString>,
    },
    /// `DELETE` of a pod by name.
    DeletePod {
        /// The pod's namespace.
        namespace: Str,
        /// The pod's name.
        name: CompactString,
        /// The UID the pod must have, as a precondition; `None` sends empty options.
        uid: Option<Uid>,
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
    /// A consistent read of an object: of the one being synced, or of any other.
    Get {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: CompactString,
    },
    /// `PUT` of an object's `/status`.
    PutStatus {
        /// The object with its new status.
        object: AnyObject,
    },
    /// A consistent read of the version that a resource has come to, the objects aside:
    /// `GET ?limit=1` of the whole resource without a `resourceVersion`.
    ReadVersion {
        /// The kind of its objects.
        kind: Kind,
    },
}

/// What came back from a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod as created or patched.
    Pod(Arc<Pod>),
    /// The object as read or written.
    Object(AnyObject),
    /// The deletion was accepted; with the version it was committed at, where the server said so.
    Deleted(Option<ResourceVersion>),
    /// The version that a resource has come to: a cache that has reached it shows every write
    /// committed before it was asked for.
    Version(ResourceVersion),
    /// Anything but success.
    Failed(ApiError),
}
