//! Writes the schemas of the kinds that the API server serves, as its OpenAPI documents contain them:
//!
//!     cargo run -p podstorm-tests --features openapi --bin openapi > loadgen/apiserver/src/schemas/schemas.json.gz
//!
//! Names, types and descriptions are those of Kubernetes 1.36, by way of `k8s-openapi`'s types. To
//! serve a new kind, add its type here and run the command.

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::autoscaling::{v1, v2};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController,
    ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::{
    IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, Patch, Status, WatchEvent,
};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use schemars::generate::SchemaSettings;

fn main() -> std::io::Result<()> {
    let mut schemas = SchemaSettings::openapi3().into_generator();
    macro_rules! add {
        ($($kind:ty),+) => {
            $(let _reference = schemas.subschema_for::<$kind>();)+
        };
    }
    add!(Binding, ConfigMap, Endpoints, Event, LimitRange, Namespace);
    add!(Node, PersistentVolume, PersistentVolumeClaim, Pod);
    add!(PodTemplate, ReplicationController, ResourceQuota, Secret);
    add!(Service, ServiceAccount, ControllerRevision, DaemonSet);
    add!(Deployment, ReplicaSet, StatefulSet);
    add!(v1::HorizontalPodAutoscaler, v1::Scale);
    add!(v2::HorizontalPodAutoscaler, CronJob, Job, Lease);
    add!(EndpointSlice, events::v1::Event, Eviction);
    add!(PodDisruptionBudget, ClusterRole, ClusterRoleBinding, Role);
    add!(RoleBinding, PriorityClass, StorageClass);
    add!(LocalSubjectAccessReview, SelfSubjectAccessReview);
    add!(SelfSubjectReview, SelfSubjectRulesReview);
    add!(SubjectAccessReview, TokenRequest, TokenReview);
    add!(MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding);
    add!(MutatingWebhookConfiguration, ValidatingAdmissionPolicy);
    add!(ValidatingAdmissionPolicyBinding);
    add!(ValidatingWebhookConfiguration, Ingress, IngressClass);
    add!(IPAddress, NetworkPolicy, ServiceCIDR);
    add!(CertificateSigningRequest, RuntimeClass, APIService);
    add!(CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment);
    add!(VolumeAttributesClass, FlowSchema);
    add!(PriorityLevelConfiguration, DeviceClass, ResourceClaim);
    add!(ResourceClaimTemplate, ResourceSlice, ComponentStatus);
    add!(CustomResourceDefinition, DeleteOptions, Status, APIGroup);
    add!(APIGroupList, APIResourceList, APIVersions, Info, Patch);
    add!(WatchEvent<RawExtension>);
    let mut definitions = schemas.take_definitions(true);
    // Of any type, whatever Rust's is.
    for name in [
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    ] {
        let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}");
        if let Some(schema) = definitions.get_mut(&name).and_then(|it| it.as_object_mut()) {
            schema.remove("type");
        }
    }
    let mut out = GzEncoder::new(std::io::stdout().lock(), Compression::best());
    serde_json::to_writer(&mut out, &definitions)?;
    out.finish().map(drop)
}
