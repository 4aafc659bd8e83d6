//! The API calls that a sync can request, and the answers to them: the verbs of the API, and typed
//! forms of the most frequent calls.

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
    /// `POST` of a pod. All creates of a burst share the same pod.
    CreatePod {
        /// The namespace in the request path. The pod itself has no namespace.
        namespace: Str,
        /// The pod: `generateName`, labels, annotations, finalizers, one owner reference and the
        /// spec.
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
    /// `PATCH` of an object's owner references, as a strategic merge patch.
    PatchOwners {
        /// The object's kind.
        kind: Kind,
        /// The object's namespace.
        namespace: Str,
        /// The object's name.
        name: CompactString,
        /// The change to the owner references.
        patch: OwnerPatch,
    },
    /// A consistent read of an object, which need not be the one being synced.
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
    /// `POST` of an object other than a pod. The object has its name and namespace.
    Create {
        /// The object.
        object: AnyObject,
    },
    /// `PUT` of an object, except for its status, at the version that the object carries.
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
        /// The patch.
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
    /// resource for the reference's kind. The answer is a 404 only if the object is missing. It is
    /// another error if the kind is not served or has no scale.
    GetOwnerScale {
        /// The owner's namespace.
        namespace: Str,
        /// The owner reference.
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
        /// The scale as read, with another `replicas`. Its UID and version are preconditions unless
        /// they are empty.
        scale: Box<Scale>,
    },
    /// `PUT` of a namespace's `/finalize`: sets the finalizers of its spec.
    Finalize {
        /// The namespace with its changes, at the version that it carries.
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
        /// The options; `None` sends empty options.
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
        /// The options of each deletion; `None` sends empty options.
        options: Option<Box<DeleteOptions>>,
    },
    /// A consistent read of the version that a resource has reached, without its objects: `GET` of
    /// the whole resource with `limit=1` and without a `resourceVersion`.
    ReadVersion {
        /// The kind of the resource's objects.
        kind: Kind,
    },
    /// Discovery of all kinds that the server serves: `GET` of `/api` and `/apis`.
    Discover,
    /// `GET` of a path whose answer is not an object of a known [`Kind`], e.g. in the metrics API.
    Raw {
        /// The path with its query, e.g. `/apis/metrics.k8s.io/v1beta1/namespaces/a/pods`.
        path: CompactString,
    },
}

/// The objects of a collection to which a request applies. By default it applies to all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `labelSelector`; empty selects all labels. The string form of
    /// [`Selector::nothing`](podstorm_objects::Selector::nothing) is empty, too.
    pub labels: CompactString,
    /// `fieldSelector`, e.g. `spec.nodeName=a`; empty selects all fields.
    pub fields: CompactString,
}

/// The body of a `PATCH`, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Map),
    /// The strategic merge patch that removes this finalizer. [`Patch::strategic`] returns its
    /// body, which a client in the server's process does not need.
    RemoveFinalizer(&'static str),
    /// `application/merge-patch+json`: RFC 7386.
    Merge(Map),
    /// `application/json-patch+json`: the operations of RFC 6902.
    Json(Vec<Map>),
    /// `application/apply-patch+yaml`: server-side apply.
    Apply {
        /// The fields that the manager sets, with `apiVersion` and `kind`.
        object: Map,
        /// The `fieldManager`.
        manager: CompactString,
        /// Whether to take over fields that other managers own.
        force: bool,
    },
}

impl Patch {
    /// The member of a strategic merge patch that lists the finalizers to remove.
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
    /// The pod after a create or patch.
    Pod(Arc<Pod>),
    /// The object after a read, create, write or patch.
    Object(AnyObject),
    /// The answer to a list.
    List {
        /// The objects, sorted by namespace and name.
        items: Vec<AnyObject>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// The scale after a read or write.
    Scale(Box<Scale>),
    /// The deletion was accepted. Holds the version of its commit if the server returned it.
    Deleted(Option<ResourceVersion>),
    /// The version that a resource has reached. A cache that has reached this version shows every
    /// write that was committed before the read.
    Version(ResourceVersion),
    /// The kinds that the server serves.
    Discovered(Box<Discovery>),
    /// The content at a [path](Request::Raw).
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
    /// The groups whose discovery failed, if any. Their kinds are missing from `kinds`.
    pub failed: Option<FailedGroups>,
    /// The error for a malformed group version, e.g. `a/b/c`, if there is one.
    pub malformed: Option<String>,
}

/// A kind that a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredKind {
    /// The kind with its group and version.
    pub kind: Kind,
    /// The verbs that the kind supports, e.g. `delete` and `deletecollection`.
    pub verbs: Vec<CompactString>,
}

impl DiscoveredKind {
    /// Reports whether the server supports this verb for the kind.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// The groups whose discovery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedGroups {
    /// The number of groups.
    pub count: usize,
    /// The error message, which names the groups.
    pub message: String,
}

// A batch holds hundreds of requests: their size determines the memory of a sync and the cost of
// moving an answer.
const _: () = assert!(size_of::<Request>() <= 80 && size_of::<Answer>() <= 64);
