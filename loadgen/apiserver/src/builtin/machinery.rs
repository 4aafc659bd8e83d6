//! Cluster infrastructure: RuntimeClasses, CertificateSigningRequests, APIServices. Stored only:
//! the server issues no certificates and proxies no requests to other servers.
//!
//! Source: `pkg/registry/node`, `pkg/registry/certificates` of Kubernetes, and its `kube-aggregator`.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, MetadataChecks, NameFormat, ResourceType, Rules,
    Subresource, Warnings,
};
use serde_json::Value;

use super::columns::column;
use super::members::{missing, needed_and_fixed};
use crate::defaulting::{Fill, Within};
use crate::errors::invalid_value;
use crate::validation::Checks;

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
            validate: |new, old| needed_and_fixed(new, old, &["handler"], &["handler"]),
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
            // Clients can't change the spec of a request.
            prepare: |new, old| {
                if let Some(spec) = old.and_then(|old| old.fields.get("spec")) {
                    new.fields.insert("spec".to_owned(), spec.clone());
                }
            },
            validate: |request, _| validate_request(request),
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "apiregistration.k8s.io",
        api_version: "apiregistration.k8s.io/v1",
        kind: "APIService",
        // The name of an APIService of the core group ends with a dot.
        name_format: NameFormat::PathSegment,
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
                        service.set_absent("port", 443);
                    });
                });
            },
            validate: |service, _| validate_service(service),
            warnings: &Warnings {
                written: |service| match (service.json)()["spec"]["service"].is_null() {
                    true => Vec::new(),
                    false => {
                        let text = "podstorm: requests are not forwarded to other servers";
                        vec![text.to_owned()]
                    }
                },
                ..Warnings::NONE
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

fn validate_request(request: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    checks.extend(missing(
        request,
        &["spec.usages", "spec.request", "spec.signerName"],
    ));
    let spec = checks.field(request, "spec");
    let signer = spec.at("signerName");
    let is_named = (signer.text())
        .split_once('/')
        .is_some_and(|(domain, path)| domain.contains('.') && !path.is_empty());
    if !signer.text().is_empty() && !is_named {
        signer.invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    }
    spec.at("expirationSeconds").at_least(
        600,
        "may not specify a duration less than 600 seconds (10 minutes)",
    );
    checks.found()
}

/// Checks that an APIService is named after its version and group.
fn validate_service(service: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(service, "spec");
    let (version, group) = (spec.at("version"), spec.at("group").text());
    let named = format!("{}.{group}", version.text());
    if service.metadata.name != named {
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{named}\"");
        let name = service.metadata.name.as_str().into();
        checks.push(invalid_value("metadata.name", &name, &detail));
    }
    version.needs_text("");
    for (member, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let given = spec.at(member);
        if !(1..=most).contains(&given.number()) {
            let range = format!("must be positive and less than {most}");
            given.invalid_as(given.number(), range);
        }
    }
    checks.found()
}

const RUNTIME: &[Column] = &[
    Column::NAME,
    column("Handler", Cell::TextOrEmpty("/handler")),
    Column::AGE,
];

const REQUEST: &[Column] = &[
    Column::NAME,
    Column::AGE,
    column("SignerName", Cell::TextOrEmpty("/spec/signerName")),
    column("Requestor", Cell::TextOrEmpty("/spec/username")),
    column(
        "RequestedDuration",
        Cell::Of(
            |request, _| match request["spec"]["expirationSeconds"].as_i64() {
                Some(seconds) => podstorm_objects::cells::duration(seconds).into(),
                None => "<none>".into(),
            },
        ),
    ),
    column("Condition", Cell::Of(|request, _| condition(request))),
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
    column(
        "Service",
        Cell::Of(|service, _| match &service["spec"]["service"] {
            Value::Null => "Local".into(),
            of => format!("{}/{}", text(of, "/namespace"), text(of, "/name")).into(),
        }),
    ),
    column(
        "Available",
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
