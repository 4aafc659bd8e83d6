//! The rows of kinds whose objects the server stores without a Rust type. The server adds their
//! columns and rules.

use super::{GenerationOf, MetadataChecks, NameFormat, ResourceType, Subresource};

pub(super) static DEPLOYMENT: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    kind: "Deployment",
    resource: "deployments",
    has_status: true,
    has_generation: true,
    generation_of: GenerationOf::SpecAndAnnotations,
    short_names: &["deploy"],
    categories: &["all"],
    has_scale: true,
    ..ResourceType::DEFAULT
};

pub(super) static JOB: ResourceType = ResourceType {
    group: "batch",
    api_version: "batch/v1",
    kind: "Job",
    resource: "jobs",
    has_status: true,
    has_generation: true,
    orphans_dependents: true,
    categories: &["all"],
    selectable: &["status.successful"],
    ..ResourceType::DEFAULT
};

pub(super) static STATEFUL_SET: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    kind: "StatefulSet",
    resource: "statefulsets",
    has_status: true,
    has_generation: true,
    // The names of pods begin with the set's name, followed by a number.
    name_format: NameFormat::Label,
    short_names: &["sts"],
    categories: &["all"],
    has_scale: true,
    ..ResourceType::DEFAULT
};

pub(super) static CONTROLLER_REVISION: ResourceType = ResourceType {
    group: "apps",
    api_version: "apps/v1",
    kind: "ControllerRevision",
    metadata_checks: MetadataChecks::BOTH,
    resource: "controllerrevisions",
    ..ResourceType::DEFAULT
};

pub(super) static POD_DISRUPTION_BUDGET: ResourceType = ResourceType {
    group: "policy",
    api_version: "policy/v1",
    kind: "PodDisruptionBudget",
    name_format: NameFormat::PathSegment,
    metadata_checks: MetadataChecks::NONE,
    resource: "poddisruptionbudgets",
    has_status: true,
    has_generation: true,
    needs_version: true,
    short_names: &["pdb"],
    ..ResourceType::DEFAULT
};

pub(super) static SERVICE: ResourceType = ResourceType {
    kind: "Service",
    name_format: NameFormat::Label,
    // An update checks only the change, because names of new Services may be longer than before.
    metadata_checks: MetadataChecks::CHANGE,
    put_creates: true,
    resource: "services",
    subresources: &[Subresource::of_core(
        "proxy",
        "ServiceProxyOptions",
        Subresource::PROXY,
    )],
    has_status: true,
    short_names: &["svc"],
    categories: &["all"],
    selectable: &["spec.clusterIP", "spec.type"],
    returns_deleted: true,
    ..ResourceType::DEFAULT
};

pub(super) static ENDPOINTS: ResourceType = ResourceType {
    kind: "Endpoints",
    metadata_checks: MetadataChecks::BOTH,
    put_creates: true,
    resource: "endpoints",
    short_names: &["ep"],
    ..ResourceType::DEFAULT
};

pub(super) static ENDPOINT_SLICE: ResourceType = ResourceType {
    group: "discovery.k8s.io",
    api_version: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    generation_of: GenerationOf::SpecAndLabels,
    metadata_checks: MetadataChecks::WHOLE,
    resource: "endpointslices",
    has_generation: true,
    ..ResourceType::DEFAULT
};

pub(super) static PERSISTENT_VOLUME: ResourceType = ResourceType {
    kind: "PersistentVolume",
    metadata_checks: MetadataChecks {
        whole: 2,
        change: 0,
    },
    resource: "persistentvolumes",
    namespaced: false,
    has_status: true,
    short_names: &["pv"],
    returns_deleted: true,
    ..ResourceType::DEFAULT
};

pub(super) static PERSISTENT_VOLUME_CLAIM: ResourceType = ResourceType {
    kind: "PersistentVolumeClaim",
    metadata_checks: MetadataChecks::BOTH,
    resource: "persistentvolumeclaims",
    has_status: true,
    short_names: &["pvc"],
    returns_deleted: true,
    ..ResourceType::DEFAULT
};

pub(super) static STORAGE_CLASS: ResourceType = ResourceType {
    group: "storage.k8s.io",
    api_version: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata_checks: MetadataChecks::BOTH,
    resource: "storageclasses",
    namespaced: false,
    short_names: &["sc"],
    returns_deleted: true,
    ..ResourceType::DEFAULT
};

pub(super) static CLUSTER_ROLE: ResourceType = ResourceType {
    group: "rbac.authorization.k8s.io",
    api_version: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    name_format: NameFormat::PathSegment,
    metadata_checks: MetadataChecks::BOTH,
    resource: "clusterroles",
    namespaced: false,
    ..ResourceType::DEFAULT
};

pub(super) static SERVICE_ACCOUNT: ResourceType = ResourceType {
    kind: "ServiceAccount",
    metadata_checks: MetadataChecks::BOTH,
    resource: "serviceaccounts",
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        kind: "TokenRequest",
        api_version: "authentication.k8s.io/v1",
        verbs: &["create"],
    }],
    returns_deleted: true,
    ..ResourceType::DEFAULT
};

pub(super) static CONFIG_MAP: ResourceType = ResourceType {
    kind: "ConfigMap",
    metadata_checks: MetadataChecks::BOTH,
    resource: "configmaps",
    short_names: &["cm"],
    ..ResourceType::DEFAULT
};

pub(super) static SECRET: ResourceType = ResourceType {
    kind: "Secret",
    metadata_checks: MetadataChecks::BOTH,
    resource: "secrets",
    selectable: &["type"],
    ..ResourceType::DEFAULT
};

pub(super) static LEASE: ResourceType = ResourceType {
    group: "coordination.k8s.io",
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    needs_version: true,
    put_creates: true,
    resource: "leases",
    ..ResourceType::DEFAULT
};
