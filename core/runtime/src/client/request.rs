//! The API calls that a sync can request, and their answers: the API's verbs, and typed forms of
//! the most frequent ones.

use std::borrow::Cow;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{
    AnyObject, DeleteOptions, Kind, Map, Namespace, OwnerPatch, OwnerReference, Pod,
    ResourceVersion, Scale, Str, Uid,
};
use serde_json::{Value, json};

use super::ApiError;

/// An API call that a sync requests from its driver.
#[derive(Clone, Debug)]
pub enum Request {
    /// `POST` of a pod. All creates of a burst share one pod.
    CreatePod {
        /// The namespace in the request path. The pod has none.
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
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
        /// The change.
        patch: OwnerPatch,
    },
    /// A consistent read of an object: the one being synced, or any other.
    Get {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
    },
    /// A consistent read of all objects of a collection, in one page.
    List {
        /// The kind of the objects.
        kind: Kind,
        /// The namespace of the objects; empty for all namespaces.
        namespace: Str,
        /// The selection of objects.
        selection: Selection,
    },
    /// `POST` of an object other than a pod, with its name and namespace.
    Create {
        /// The object.
        object: AnyObject,
    },
    /// `PUT` of an object except for its status, at the version that it carries.
    Put {
        /// The object.
        object: AnyObject,
    },
    /// `PUT` of an object's `/status`.
    PutStatus {
        /// The object with its new status.
        object: AnyObject,
    },
    /// `PATCH` of an object.
    Patch {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
        /// The change.
        patch: Box<Patch>,
        /// Whether the request patches `/status`.
        of_status: bool,
    },
    /// `GET` of an object's `/scale`.
    GetScale {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
    },
    /// `GET` of the `/scale` of the object that an owner reference names. The transport finds the
    /// resource for the reference's kind. Only a missing object is answered with 404. A kind that
    /// is not served, or has no scale, is answered with another error.
    GetOwnerScale {
        /// The owner's namespace.
        namespace: Str,
        /// The reference.
        owner: Arc<OwnerReference>,
    },
    /// `PUT` of an object's `/scale`: sets the desired number of replicas.
    PutScale {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
        /// The scale as read, with another `replicas`. UID and version are preconditions unless
        /// they are empty.
        scale: Box<Scale>,
    },
    /// `PUT` of a namespace's `/finalize`: sets the finalizers of its spec.
    Finalize {
        /// The namespace, at the version that it carries.
        namespace: Arc<Namespace>,
    },
    /// `DELETE` of an object by name.
    Delete {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
        /// The options; `None` sends empty ones.
        options: Option<Box<DeleteOptions>>,
    },
    /// `DELETE` of the objects of a collection, one after the other.
    DeleteCollection {
        /// The kind of the objects.
        kind: Kind,
        /// The namespace of the objects; empty for all namespaces.
        namespace: Str,
        /// The selection of objects.
        selection: Selection,
        /// The options of each deletion; `None` sends empty ones.
        options: Option<Box<DeleteOptions>>,
    },
    /// A consistent read of the version that a resource has reached, without its objects: `GET
    /// ?limit=1` of the whole resource without a `resourceVersion`.
    ReadVersion {
        /// The kind of the resource's objects.
        kind: Kind,
    },
    /// Discovery of all kinds that the server serves: `GET` of `/api` and `/apis`.
    Discover,
    /// `GET` of a path whose answer is not an object of a [`Kind`], e.g. of the metrics API.
    Raw {
        /// The path with its query, e.g. `/apis/metrics.k8s.io/v1beta1/namespaces/a/pods`.
        path: CompactString,
    },
}

/// The objects of a collection that a request applies to. By default all objects in the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `labelSelector`; empty for any labels. The text of
    /// [`Selector::nothing`](podstorm_objects::Selector::nothing) is empty too.
    pub labels: CompactString,
    /// `fieldSelector`, e.g. `spec.nodeName=a`; empty for any fields.
    pub fields: CompactString,
}

/// The body of a `PATCH`, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Map),
    /// The strategic merge patch that removes this finalizer. [`Patch::strategic`] returns its
    /// body. A client in the server's process needs no body to carry it out.
    RemoveFinalizer(&'static str),
    /// `application/merge-patch+json`: RFC 7386.
    Merge(Map),
    /// `application/json-patch+json`: the operations of RFC 6902.
    Json(Vec<Map>),
    /// `application/apply-patch+yaml`: server-side apply.
    Apply {
        /// The fields that the manager wants, with `apiVersion` and `kind`.
        object: Map,
        /// `fieldManager`.
        manager: CompactString,
        /// Whether to take over fields of other managers.
        force: bool,
    },
}

impl Patch {
    /// The member of a strategic merge patch that removes finalizers.
    pub const REMOVED_FINALIZERS: &str = "$deleteFromPrimitiveList/finalizers";

    /// Returns the body of a strategic merge patch; `None` for a patch of another type.
    pub fn strategic(&self) -> Option<Cow<'_, Map>> {
        match self {
            Patch::Strategic(body) => Some(Cow::Borrowed(body)),
            Patch::RemoveFinalizer(name) => {
                let metadata = json!({Patch::REMOVED_FINALIZERS: [name]});
                let body = Map::from_iter([("metadata".to_owned(), metadata)]);
                Some(Cow::Owned(body))
            }
            Patch::Merge(_) | Patch::Json(_) | Patch::Apply { .. } => None,
        }
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The pod as created or patched.
    Pod(Arc<Pod>),
    /// The object as read, created, written or patched.
    Object(AnyObject),
    /// The objects of a list.
    List {
        /// Sorted by namespace and name.
        items: Vec<AnyObject>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// The scale as read or written.
    Scale(Box<Scale>),
    /// The deletion was accepted. The version of its commit, if the server returned it.
    Deleted(Option<ResourceVersion>),
    /// The version that a resource has reached. A cache that has reached it shows every write that
    /// was committed before the read.
    Version(ResourceVersion),
    /// The kinds that the server serves.
    Discovered(Box<Discovery>),
    /// The content of a [path](Request::Raw).
    Raw(Value),
    /// The request failed.
    Failed(ApiError),
}

/// The kinds that a server serves.
///
/// Source: `ServerPreferredResources` of Kubernetes' `client-go/discovery`.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Each kind, in the version that the server prefers.
    pub kinds: Vec<DiscoveredKind>,
    /// The groups whose discovery failed. Their kinds are missing in `kinds`.
    pub failed: Option<FailedGroups>,
    /// The error of a group version that is malformed, e.g. `a/b/c`.
    pub malformed: Option<String>,
}

/// A kind that a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredKind {
    /// The kind.
    pub kind: Kind,
    /// The verbs that its objects support, e.g. `delete` and `deletecollection`.
    pub verbs: Vec<CompactString>,
}

impl DiscoveredKind {
    /// Reports whether the server serves requests with this verb for the kind.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// The groups whose discovery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedGroups {
    /// The number of groups.
    pub count: usize,
    /// The error, which names the groups.
    pub message: String,
}

// A batch holds hundreds: the memory of a sync and the time to move an answer depend on these.
const _: () = assert!(size_of::<Request>() <= 80 && size_of::<Answer>() <= 64);
