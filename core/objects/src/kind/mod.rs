//! Kinds of object, each described by one row.

mod columns;
mod custom;
mod dynamic;
mod gated;
mod untyped;
mod warnings;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

pub use columns::{Cell, Column, JsonPath, cells};
pub use custom::{CustomSchema, CustomType, ScalePaths};
pub use dynamic::DynamicObject;
pub use gated::GatedMember;
pub use warnings::{OfSent, Warnings, Written};

use crate::{Cause, ObjectMeta, OwnerReference, Shape};
use untyped::{
    CLUSTER_ROLE, CONFIG_MAP, CONTROLLER_REVISION, DEPLOYMENT, ENDPOINT_SLICE, ENDPOINTS, JOB,
    LEASE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET, SECRET, SERVICE,
    SERVICE_ACCOUNT, STATEFUL_SET, STORAGE_CLASS,
};

/// What the API needs to know about a kind of object: one row of the table of kinds. There is no
/// other list of kinds.
///
/// Source: `APIResource` in Kubernetes' discovery, and the strategies in its `pkg/registry`.
#[derive(Clone, Copy, Debug)]
pub struct ResourceType {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The `apiVersion` of an object's JSON: that group and a version, e.g. `apps/v1`, or `v1`.
    pub api_version: &'static str,
    /// The `kind` of an object's JSON, e.g. `ReplicaSet`.
    pub kind: &'static str,
    /// The resource in URLs and messages: plural and lower case, e.g. `replicasets`.
    pub resource: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `status` can be written only through `/status`.
    pub has_status: bool,
    /// Whether `metadata.generation` counts the changes outside metadata and status.
    pub has_generation: bool,
    /// The changes that the generation counts.
    pub generation_of: GenerationOf,
    /// Whether a `PUT` must state the version that it replaces.
    pub needs_version: bool,
    /// Whether a deletion without a propagation policy orphans the dependents. Otherwise they are
    /// garbage-collected.
    pub orphans_dependents: bool,
    /// Defaults and validation. Only for kinds without a Rust type, whose objects are
    /// [`DynamicObject`]s.
    pub rules: Rules,
    /// Shorter names of the resource, e.g. `rs`.
    pub short_names: &'static [&'static str],
    /// Groups of resources that include it, e.g. `all`, which `kubectl get all` lists.
    pub categories: &'static [&'static str],
    /// Whether `/scale` reads and writes the number of replicas.
    pub has_scale: bool,
    /// The subresources except `status` and `scale`.
    pub subresources: &'static [Subresource],
    /// The members that field selectors may name besides `metadata.name` and
    /// `metadata.namespace`, e.g. `spec.nodeName`.
    pub selectable: &'static [&'static str],
    /// The format of names.
    pub name_format: NameFormat,
    /// How often an update checks the metadata.
    pub metadata_checks: MetadataChecks,
    /// Whether a `PUT` of a missing object creates it.
    pub put_creates: bool,
    /// Whether the answer to an immediate deletion is the object instead of a `Status`.
    pub returns_deleted: bool,
    /// The columns of the tables that `kubectl get` prints.
    pub columns: &'static [Column],
    /// The additional data from a CustomResourceDefinition; `None` for the kinds of Kubernetes.
    pub custom: Option<&'static CustomType>,
}

/// The changes that `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationOf {
    /// Changes outside metadata and status.
    Spec,
    /// Changes outside metadata and status, and changes of labels.
    SpecAndLabels,
    /// Changes outside metadata and status, and changes of annotations.
    SpecAndAnnotations,
    /// No changes: it stays 1.
    Creation,
}

/// The format of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFormat {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
    /// Any string that can be a segment of a path.
    PathSegment,
}

/// How often an update checks the metadata, in addition to the checks that all kinds share. Each
/// check reports its own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// The number of checks of the metadata as if the object were new.
    pub whole: usize,
    /// The number of checks of the changes to the metadata.
    pub change: usize,
}

impl MetadataChecks {
    /// No checks.
    pub const NONE: MetadataChecks = MetadataChecks {
        whole: 0,
        change: 0,
    };
    /// One check of the changes.
    pub const CHANGE: MetadataChecks = MetadataChecks {
        whole: 0,
        change: 1,
    };
    /// One check as if the object were new.
    pub const WHOLE: MetadataChecks = MetadataChecks {
        whole: 1,
        change: 0,
    };
    /// One check of each type.
    pub const BOTH: MetadataChecks = MetadataChecks {
        whole: 1,
        change: 1,
    };
}

/// A subresource, as discovery lists it.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The last segment of its path, e.g. `binding`.
    pub name: &'static str,
    /// The `apiVersion` of the objects that it accepts or returns.
    pub api_version: &'static str,
    /// The `kind` of these objects.
    pub kind: &'static str,
    /// The supported verbs, e.g. `create`.
    pub verbs: &'static [&'static str],
}

impl Subresource {
    /// The verbs of subresources that read and change a part of an object.
    pub const CHANGE: &[&str] = &["get", "patch", "update"];
    /// The verbs of subresources that open streams.
    pub const STREAM: &[&str] = &["create", "get"];
    /// The verbs of subresources that forward requests.
    pub const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

    /// Creates a subresource that accepts or returns a kind of the core group.
    pub const fn of_core(
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Subresource {
        Subresource {
            name,
            api_version: "v1",
            kind,
            verbs,
        }
    }
}

/// Defaults and validation of a kind without a Rust type.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The types of the members other than metadata. Members not listed are accepted unread. The
    /// tables are sorted by name.
    pub shape: Shape,
    /// Fills in defaults.
    pub default: fn(&mut DynamicObject),
    /// Members that objects have only while a feature gate is on.
    pub gated: &'static [GatedMember],
    /// Sets the members that clients may not set: to initial values in a new object, and to those
    /// of the stored object in an update.
    pub prepare: fn(&mut DynamicObject, Option<&DynamicObject>),
    /// Sets the members that depend on the name and the UID of a new object and that its rules
    /// check. If set, the name and the UID are assigned before the check.
    pub identify: Option<fn(&mut DynamicObject)>,
    /// Sets the members of a new object that depend on its name and UID, and on a number that no
    /// other object gets.
    pub complete: fn(&mut DynamicObject, u64),
    /// The initial phase in a new object's status; empty for kinds without a phase.
    pub first_phase: &'static str,
    /// Fills in defaults of a changed status.
    pub prepare_status: fn(&mut DynamicObject),
    /// Returns the violations of an object's rules, except those of metadata. The second argument
    /// is the stored object if this is an update.
    pub validate: fn(&DynamicObject, Option<&DynamicObject>) -> Vec<Cause>,
    /// Returns the violations of a changed status. The second argument is the stored object.
    pub validate_status: fn(&DynamicObject, &DynamicObject) -> Vec<Cause>,
    /// What clients are warned of.
    pub warnings: &'static Warnings,
}

impl Rules {
    /// No rules.
    pub const NONE: Rules = Rules {
        shape: Shape::ANY_OBJECT,
        default: |_| {},
        gated: &[],
        prepare: |_, _| {},
        identify: None,
        complete: |_, _| {},
        first_phase: "",
        prepare_status: |_| {},
        validate: |_, _| Vec::new(),
        validate_status: |_, _| Vec::new(),
        warnings: &Warnings::NONE,
    };
}

impl ResourceType {
    /// Reports whether `api_version` has the group `group` and the tables of the shape are sorted.
    pub fn is_sound(&self) -> bool {
        let version = self.api_version.strip_prefix(self.group);
        let fits = match version {
            Some(version) if self.group.is_empty() => !version.contains('/'),
            Some(version) => version.starts_with('/'),
            None => false,
        };
        fits && self.rules.shape.is_sorted()
    }

    /// A namespaced kind without status and generation, to be completed with the `..` syntax.
    pub const DEFAULT: ResourceType = ResourceType {
        group: "",
        api_version: "v1",
        kind: "",
        resource: "",
        namespaced: true,
        has_status: false,
        has_generation: false,
        generation_of: GenerationOf::Spec,
        needs_version: false,
        orphans_dependents: false,
        rules: Rules::NONE,
        short_names: &[],
        categories: &[],
        has_scale: false,
        subresources: &[],
        selectable: &[],
        name_format: NameFormat::Subdomain,
        metadata_checks: MetadataChecks::CHANGE,
        put_creates: false,
        returns_deleted: false,
        columns: Column::USUAL,
        custom: None,
    };
}

/// A kind of Kubernetes object: a reference to its row. Kinds are equal if their group and resource
/// are equal, and sort by these.
#[derive(Clone, Copy)]
pub struct Kind(&'static ResourceType);

static NAMESPACE: ResourceType = ResourceType {
    kind: "Namespace",
    name_format: NameFormat::Label,
    metadata_checks: MetadataChecks::BOTH,
    resource: "namespaces",
    namespaced: false,
    has_status: true,
    short_names: &["ns"],
    subresources: &[Subresource::of_core("finalize", "Namespace", &["update"])],
    selectable: &["name", "status.phase"],
    columns: columns::NAMESPACE,
    ..ResourceType::DEFAULT
};

static NODE: ResourceType = ResourceType {
    kind: "Node",
    metadata_checks: MetadataChecks::BOTH,
    resource: "nodes",
    namespaced: false,
    has_status: true,
    short_names: &["no"],
    subresources: &[Subresource::of_core(
        "proxy",
        "NodeProxyOptions",
        Subresource::PROXY,
    )],
    selectable: &["spec.unschedulable"],
    columns: columns::NODE,
    ..ResourceType::DEFAULT
};

static POD: ResourceType = ResourceType {
    kind: "Pod",
    metadata_checks: MetadataChecks::BOTH,
    resource: "pods",
    has_status: true,
    has_generation: true,
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Subresource::of_core("attach", "PodAttachOptions", Subresource::STREAM),
        Subresource::of_core("binding", "Binding", &["create"]),
        Subresource::of_core("ephemeralcontainers", "Pod", Subresource::CHANGE),
        Subresource {
            name: "eviction",
            api_version: "policy/v1",
            kind: "Eviction",
            verbs: &["create"],
        },
        Subresource::of_core("exec", "PodExecOptions", Subresource::STREAM),
        Subresource::of_core("log", "Pod", &["get"]),
        Subresource::of_core("portforward", "PodPortForwardOptions", Subresource::STREAM),
        Subresource::of_core("proxy", "PodProxyOptions", Subresource::PROXY),
        Subresource::of_core("resize", "Pod", Subresource::CHANGE),
    ],
    selectable: &[
        "spec.hostNetwork",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ],
    returns_deleted: true,
    columns: columns::POD,
    ..ResourceType::DEFAULT
};

static REPLICA_SET: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    kind: "ReplicaSet",
    resource: "replicasets",
    has_status: true,
    has_generation: true,
    short_names: &["rs"],
    categories: &["all"],
    has_scale: true,
    columns: columns::REPLICA_SET,
    ..ResourceType::DEFAULT
};

static REPLICATION_CONTROLLER: ResourceType = ResourceType {
    kind: "ReplicationController",
    resource: "replicationcontrollers",
    has_status: true,
    has_generation: true,
    orphans_dependents: true,
    short_names: &["rc"],
    categories: &["all"],
    has_scale: true,
    selectable: &["status.replicas"],
    columns: columns::REPLICATION_CONTROLLER,
    ..ResourceType::DEFAULT
};

static EVENT: ResourceType = ResourceType {
    kind: "Event",
    name_format: NameFormat::PathSegment,
    metadata_checks: MetadataChecks::NONE,
    put_creates: true,
    resource: "events",
    short_names: &["ev"],
    selectable: &[
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    columns: columns::EVENT,
    ..ResourceType::DEFAULT
};

impl Kind {
    /// `v1` `Namespace`, cluster-scoped.
    pub const NAMESPACE: Kind = Kind(&NAMESPACE);
    /// `v1` `Node`, cluster-scoped.
    pub const NODE: Kind = Kind(&NODE);
    /// `v1` `Pod`.
    pub const POD: Kind = Kind(&POD);
    /// `apps/v1` `ReplicaSet`.
    pub const REPLICA_SET: Kind = Kind(&REPLICA_SET);
    /// `apps/v1` `Deployment`, which the server stores without a Rust type.
    pub const DEPLOYMENT: Kind = Kind(&DEPLOYMENT);
    /// `batch/v1` `Job`, which the server stores without a Rust type.
    pub const JOB: Kind = Kind(&JOB);
    /// `coordination.k8s.io/v1` `Lease`, which the server stores without a Rust type.
    pub const LEASE: Kind = Kind(&LEASE);
    /// `apps/v1` `StatefulSet`, which the server stores without a Rust type.
    pub const STATEFUL_SET: Kind = Kind(&STATEFUL_SET);
    /// `apps/v1` `ControllerRevision`, which the server stores without a Rust type.
    pub const CONTROLLER_REVISION: Kind = Kind(&CONTROLLER_REVISION);
    /// `policy/v1` `PodDisruptionBudget`, which the server stores without a Rust type.
    pub const POD_DISRUPTION_BUDGET: Kind = Kind(&POD_DISRUPTION_BUDGET);
    /// `v1` `Service`, which the server stores without a Rust type.
    pub const SERVICE: Kind = Kind(&SERVICE);
    /// `v1` `Endpoints`, which the server stores without a Rust type.
    pub const ENDPOINTS: Kind = Kind(&ENDPOINTS);
    /// `discovery.k8s.io/v1` `EndpointSlice`, which the server stores without a Rust type.
    pub const ENDPOINT_SLICE: Kind = Kind(&ENDPOINT_SLICE);
    /// `v1` `PersistentVolume`, cluster-scoped, which the server stores without a Rust type.
    pub const PERSISTENT_VOLUME: Kind = Kind(&PERSISTENT_VOLUME);
    /// `v1` `PersistentVolumeClaim`, which the server stores without a Rust type.
    pub const PERSISTENT_VOLUME_CLAIM: Kind = Kind(&PERSISTENT_VOLUME_CLAIM);
    /// `storage.k8s.io/v1` `StorageClass`, cluster-scoped, which the server stores without a Rust
    /// type.
    pub const STORAGE_CLASS: Kind = Kind(&STORAGE_CLASS);
    /// `v1` `ReplicationController`.
    pub const REPLICATION_CONTROLLER: Kind = Kind(&REPLICATION_CONTROLLER);
    /// `rbac.authorization.k8s.io/v1` `ClusterRole`, cluster-scoped, which the server stores
    /// without a Rust type.
    pub const CLUSTER_ROLE: Kind = Kind(&CLUSTER_ROLE);
    /// `v1` `ServiceAccount`, which the server stores without a Rust type.
    pub const SERVICE_ACCOUNT: Kind = Kind(&SERVICE_ACCOUNT);
    /// `v1` `ConfigMap`, which the server stores without a Rust type.
    pub const CONFIG_MAP: Kind = Kind(&CONFIG_MAP);
    /// `v1` `Secret`, which the server stores without a Rust type.
    pub const SECRET: Kind = Kind(&SECRET);
    /// `v1` `Event`.
    pub const EVENT: Kind = Kind(&EVENT);

    /// The kinds that a server stores with a Rust type, in a fixed order.
    pub const TYPED: [Kind; 6] = [
        Kind::NAMESPACE,
        Kind::NODE,
        Kind::POD,
        Kind::REPLICA_SET,
        Kind::REPLICATION_CONTROLLER,
        Kind::EVENT,
    ];

    /// Returns the kind that a row of a table describes.
    pub const fn from_row(row: &'static ResourceType) -> Kind {
        Kind(row)
    }

    /// Defines a kind at run time, like a CustomResourceDefinition. Its row lives as long as the
    /// process.
    ///
    /// # Panics
    /// Panics if the row is not [consistent](ResourceType::is_sound).
    pub fn define(row: ResourceType) -> Kind {
        assert!(row.is_sound(), "{row:?} contradicts itself");
        Kind(Box::leak(Box::new(row)))
    }

    /// Returns the row of the kind.
    pub const fn row(self) -> &'static ResourceType {
        self.0
    }

    /// Returns the `kind` of an object's JSON, e.g. `ReplicaSet`.
    pub const fn name(self) -> &'static str {
        self.0.kind
    }

    /// Returns the API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        self.0.group
    }

    /// Returns the `apiVersion` of an object's JSON: `apps/v1` or `v1`.
    pub const fn api_version(self) -> &'static str {
        self.0.api_version
    }

    /// Reports whether an `apiVersion` belongs to this kind's group, in any version.
    pub fn is_of_group(self, api_version: &str) -> bool {
        // Compares the text before the slash. Searching for the slash would slow down every create.
        match api_version.strip_prefix(self.0.group) {
            Some(rest) if self.0.group.is_empty() => rest.starts_with('/') || !rest.contains('/'),
            Some(rest) => rest.starts_with('/'),
            None => false,
        }
    }

    /// Returns the resource name in URLs and messages, e.g. `replicasets`.
    pub const fn resource(self) -> &'static str {
        self.0.resource
    }

    /// Returns the resource with its group, as in error messages, e.g. `replicasets.apps`, `pods`.
    pub fn group_resource(self) -> Cow<'static, str> {
        match self.0.group {
            "" => self.0.resource.into(),
            group => format!("{}.{group}", self.0.resource).into(),
        }
    }

    /// Returns the controller reference to `owner`, an object of this kind, as its controller
    /// writes it into the objects that it creates.
    pub fn controller_reference(self, owner: &ObjectMeta) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version().into(),
            kind: self.name().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Reports whether objects of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        self.0.namespaced
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind)
    }
}

impl PartialEq for Kind {
    #[inline]
    fn eq(&self, other: &Kind) -> bool {
        std::ptr::eq(self.0, other.0)
            || (self.0.resource == other.0.resource && self.0.group == other.0.group)
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        (self.0.group, self.0.resource).cmp(&(other.0.group, other.0.resource))
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.resource.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_compare_and_sort_by_group_and_resource() {
        let row = ResourceType {
            group: "example.com",
            api_version: "example.com/v1",
            kind: "Pod",
            resource: "pods",
            ..ResourceType::DEFAULT
        };
        assert!(row.is_sound() && !ResourceType { group: "", ..row }.is_sound());
        let defined = Kind::define(row);
        assert_ne!(defined, Kind::POD);
        assert_eq!(defined, Kind::define(row));
        let mut kinds = vec![defined, Kind::REPLICA_SET, Kind::POD, Kind::NODE];
        kinds.sort();
        assert_eq!(kinds, [Kind::NODE, Kind::POD, Kind::REPLICA_SET, defined]);
        let names = [Kind::POD, Kind::REPLICA_SET, defined].map(Kind::group_resource);
        assert_eq!(names, ["pods", "replicasets.apps", "pods.example.com"]);
    }

    #[test]
    fn the_group_is_the_text_before_the_slash() {
        for version in ["v1", "v1beta1", "/v1"] {
            assert!(Kind::POD.is_of_group(version), "{version}");
            assert!(!Kind::REPLICA_SET.is_of_group(version), "{version}");
        }
        for version in ["apps/v1", "apps/v1beta2"] {
            assert!(Kind::REPLICA_SET.is_of_group(version), "{version}");
            assert!(!Kind::POD.is_of_group(version), "{version}");
        }
        assert!(!Kind::REPLICA_SET.is_of_group("appsx/v1"));
        assert!(!Kind::REPLICA_SET.is_of_group("apps"));
    }
}
