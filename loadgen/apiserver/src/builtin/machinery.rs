//! What clusters are set up with: RuntimeClasses, CertificateSigningRequests, APIServices. Stored; no
//! certificate is issued, and no request is passed on to another server.
//!
//! Source: `pkg/registry/node`, `pkg/registry/certificates` of Kubernetes, and its `kube-aggregator`.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, MetadataChecks, NameFormat, ResourceType, Rules,
    Subresource,
};
use serde_json::Value;

use super::members::{missing, unchanged};
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{invalid_value, required};

pub(super) static ROWS: [ResourceType; 3] = [
    ResourceType {
        group: "node.k8s.io",
        api_version: "node.k8s.io/v1",
        kind: "RuntimeClass",
        resource: "runtimeclasses",
        namespaced: false,
        needs_version: true,
        metadata_checks: MetadataChecks::BOTH,
        columns: RUNTIME,
        rules: Rules {
            validate: |new, old| {
                let mut causes = missing(new, &["handler"]);
                causes.extend(unchanged(new, old, &["handler"]));
                causes
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "certificates.k8s.io",
        api_version: "certificates.k8s.io/v1",
        kind: "CertificateSigningRequest",
        resource: "certificatesigningrequests",
        namespaced: false,
        has_status: true,
        name_format: NameFormat::PathSegment,
        metadata_checks: MetadataChecks::BOTH,
        short_names: &["csr"],
        subresources: &[Subresource {
            name: "approval",
            kind: "CertificateSigningRequest",
            api_version: "certificates.k8s.io/v1",
            verbs: &["get", "patch", "update"],
        }],
        selectable: &["spec.signerName"],
        columns: REQUEST,
        rules: Rules {
            // Clients may not change what they asked for.
            prepare: |new, old| {
                if let Some(spec) = old.and_then(|old| old.fields.get("spec")) {
                    new.fields.insert("spec".to_owned(), spec.clone());
                }
            },
            validate: |request, _| validate_request(request),
            new_status: "{}",
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "apiregistration.k8s.io",
        api_version: "apiregistration.k8s.io/v1",
        kind: "APIService",
        resource: "apiservices",
        namespaced: false,
        has_status: true,
        categories: &["api-extensions"],
        metadata_checks: MetadataChecks::BOTH,
        columns: SERVICE,
        rules: Rules {
            default: |service| {
                service.fields.within("spec", |spec| {
                    spec.with("service", |service| {
                        service.set_absent("port", DefaultValue::Number(443));
                    });
                });
            },
            validate: |service, _| validate_service(service),
            new_status: "{}",
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

fn validate_request(request: &DynamicObject) -> Vec<Cause> {
    let spec = request.fields.get("spec").unwrap_or(&Value::Null);
    let mut causes = missing(request, &["spec.usages", "spec.request", "spec.signerName"]);
    let signer = text(spec, "/signerName");
    let is_named = signer
        .split_once('/')
        .is_some_and(|(domain, path)| domain.contains('.') && !path.is_empty());
    if !signer.is_empty() && !is_named {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        causes.push(invalid_value("spec.signerName", &signer.into(), detail));
    }
    if let Some(seconds) = spec["expirationSeconds"]
        .as_i64()
        .filter(|seconds| *seconds < 600)
    {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(invalid_value(
            "spec.expirationSeconds",
            &seconds.into(),
            detail,
        ));
    }
    causes
}

/// An APIService is named by version and group.
fn validate_service(service: &DynamicObject) -> Vec<Cause> {
    let spec = service.fields.get("spec").unwrap_or(&Value::Null);
    let (version, group) = (text(spec, "/version"), text(spec, "/group"));
    let mut causes = Vec::new();
    let named = format!("{version}.{group}");
    if service.metadata.name != named {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{named}\"");
        let name = service.metadata.name.as_str().into();
        causes.push(invalid_value("metadata.name", &name, &detail));
    }
    if version.is_empty() {
        causes.push(required("spec.version", ""));
    }
    for (member, least, most, range) in [
        (
            "groupPriorityMinimum",
            1,
            20_000,
            "must be positive and less than 20000",
        ),
        (
            "versionPriority",
            1,
            1_000,
            "must be positive and less than 1000",
        ),
    ] {
        let given = spec[member].as_i64().unwrap_or(0);
        if !(least..=most).contains(&given) {
            causes.push(invalid_value(
                format!("spec.{member}"),
                &given.into(),
                range,
            ));
        }
    }
    causes
}

const RUNTIME: &[Column] = &[
    Column::NAME,
    Column::new(
        "Handler",
        "handler specifies the underlying runtime and configuration that the CRI implementation will use to handle pods of this class. The possible values are specific to the node & CRI configuration.  It is assumed that all handlers are available on every node, and handlers of the same name are equivalent on every node. For example, a handler called \"runc\" might specify that the runc OCI runtime (using native Linux containers) will be used to run the containers in a pod. The Handler must be lowercase, conform to the DNS Label (RFC 1123) requirements, and is immutable.",
        Cell::TextOrEmpty("/handler"),
    ),
    Column::AGE,
];

const REQUEST: &[Column] = &[
    Column::NAME,
    Column::AGE,
    Column::new(
        "SignerName",
        "signerName indicates the requested signer, and is a qualified name.",
        Cell::TextOrEmpty("/spec/signerName"),
    ),
    Column::new(
        "Requestor",
        "username contains the name of the user that created the CertificateSigningRequest. Populated by the API server on creation and immutable.",
        Cell::TextOrEmpty("/spec/username"),
    ),
    Column::new(
        "RequestedDuration",
        "expirationSeconds is the requested duration of validity of the issued certificate.",
        Cell::Of(
            |request, _| match request["spec"]["expirationSeconds"].as_i64() {
                Some(seconds) => podstorm_objects::cells::duration(seconds).into(),
                None => "<none>".into(),
            },
        ),
    ),
    Column::new(
        "Condition",
        "conditions applied to the request. Known conditions are \"Approved\", \"Denied\", and \"Failed\".",
        Cell::Of(|request, _| condition(request)),
    ),
];

/// Source: `extractCSRStatus` of Kubernetes' printers.
fn condition(request: &Value) -> Value {
    let has = |kind: &str| items(request, "/status/conditions").any(|it| it["type"] == kind);
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown.into()
}

const SERVICE: &[Column] = &[
    Column::NAME,
    Column::new(
        "Service",
        "The reference to the service that hosts this API endpoint.",
        Cell::Of(|service, _| match &service["spec"]["service"] {
            Value::Null => "Local".into(),
            of => format!("{}/{}", text(of, "/namespace"), text(of, "/name")).into(),
        }),
    ),
    Column::new(
        "Available",
        "Whether this service is available.",
        Cell::Of(|service, _| {
            let mut all =
                items(service, "/status/conditions").filter(|it| it["type"] == "Available");
            match all.next() {
                None => "Unknown".into(),
                Some(it) if it["status"] == "True" => "True".into(),
                Some(it) => format!("{} ({})", text(it, "/status"), text(it, "/reason")).into(),
            }
        }),
    ),
    Column::AGE,
];
