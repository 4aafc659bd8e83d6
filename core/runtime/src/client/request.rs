//! The API calls that a sync can request, and their answers.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{AnyObject, Kind, OwnerPatch, Pod, ResourceVersion, Str, Uid};

use super::ApiError;

/// An API call that a sync requests from its driver.
#[derive(Clone, Debug)]
pub enum Request {
    /// `POST` of a pod. All creates of a burst share one pod.
    CreatePod {
        /// The namespace in the request path; the pod has none.
        namespace: Str,
        /// `generateName`, labels, annotations, finalizers, one owner reference, the spec.
        pod: Arc<Pod>,
        /// The pod's name, which the driver sets in the pod. `None` lets the server generate one
        /// from `generateName`.
        name: Option<CompactString>,
    },
    /// `DELETE` of a pod by name.
    DeletePod {
        /// The pod's namespace.
        namespace: Str,
        /// The pod's name.
        name: CompactString,
        /// The UID that the pod must have, as a precondition; `None` sends empty options.
        uid: Option<Uid>,
    },
    /// Strategic-merge `PATCH` of an object's owner references.
    PatchOwners {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: CompactString,
        /// What to change.
        patch: OwnerPatch,
    },
    /// A consistent read of an object: the one being synced, or any other.
    Get {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: Str,
        /// Its name.
        name: CompactString,
    },
    /// `POST` of an object other than a pod, with its name and namespace.
    Create {
        /// The object.
        object: AnyObject,
    },
    /// `PUT` of an object but for its status, at the version that it carries.
    Put {
        /// The object.
        object: AnyObject,
    },
    /// `DELETE` of an object other than a pod, by name, with empty options.
    Delete {
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
    /// A consistent read of the version that a resource has reached, without its objects: `GET
    /// ?limit=1` of the whole resource without a `resourceVersion`.
    ReadVersion {
        /// The kind of its objects.
        kind: Kind,
    },
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod as created or patched.
    Pod(Arc<Pod>),
    /// The object as read, created, written or patched.
    Object(AnyObject),
    /// The deletion was accepted, with the version of its commit if the server returned it.
    Deleted(Option<ResourceVersion>),
    /// The version that a resource has reached. A cache that has reached it shows every write that
    /// was committed before the read.
    Version(ResourceVersion),
    /// Anything but success.
    Failed(ApiError),
}
