//! Writes the schemas of the kinds that the API server serves, as its OpenAPI documents contain them:
//!
//!     cargo run -p podstorm-tests --features openapi --bin openapi > loadgen/http/src/openapi/schemas.json.gz
//!
//! Names, types and descriptions are those of Kubernetes 1.36, by way of `k8s-openapi`'s types. To
//! serve a new kind, add its type here and run the command.

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Binding, ConfigMap, Event, Namespace, Node, Pod, ReplicationController,
};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Status};
use schemars::generate::SchemaSettings;

fn main() -> std::io::Result<()> {
    let mut schemas = SchemaSettings::openapi3().into_generator();
    macro_rules! add {
        ($($kind:ty),+) => {
            $(let _reference = schemas.subschema_for::<$kind>();)+
        };
    }
    add!(
        Binding,
        ConfigMap,
        Event,
        Namespace,
        Node,
        Pod,
        ReplicationController
    );
    add!(DeleteOptions, Eviction, Lease, ReplicaSet, Scale, Status);
    let mut out = GzEncoder::new(std::io::stdout().lock(), Compression::best());
    serde_json::to_writer(&mut out, &schemas.take_definitions(true))?;
    out.finish().map(drop)
}
