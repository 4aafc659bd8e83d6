//! Leases.

use podstorm_objects::{Cause, Cell, Column, DynamicObject, ResourceType, Rules, Shape};

use crate::errors::{forbidden_field, invalid_value};

pub(super) static ROWS: [ResourceType; 1] = [ResourceType {
    group: "coordination.k8s.io",
    api_version: "coordination.k8s.io/v1",
    kind: "Lease",
    needs_version: true,
    put_creates: true,
    resource: "leases",
    columns: LEASE,
    rules: Rules {
        shape: Shape::Object(&[(
            "spec",
            Shape::Object(&[
                ("acquireTime", Shape::Time),
                ("holderIdentity", Shape::Text),
                ("leaseDurationSeconds", Shape::Int32),
                ("leaseTransitions", Shape::Int32),
                ("preferredHolder", Shape::Text),
                ("renewTime", Shape::Time),
                ("strategy", Shape::Text),
            ]),
        )]),
        validate: validate_lease,
        ..Rules::NONE
    },
    ..ResourceType::DEFAULT
}];

const LEASE: &[Column] = &[
    Column::NAME,
    Column {
        name: "Holder",
        description: "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
        kind: "string",
        format: "",
        priority: 0,
        cell: Cell::TextOrEmpty("/spec/holderIdentity"),
    },
    Column::AGE,
];

/// Source: `ValidateLeaseSpec` of Kubernetes.
fn validate_lease(new: &DynamicObject, _old: Option<&DynamicObject>) -> Vec<Cause> {
    let spec = new.fields.get("spec");
    let member = |name: &str| spec.and_then(|spec| spec.get(name));
    let mut causes = Vec::new();
    for (name, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if let Some(value) = member(name)
            && value.as_i64().is_some_and(|number| number < least)
        {
            causes.push(invalid_value(format!("spec.{name}"), value, detail));
        }
    }
    let strategy = member("strategy").and_then(|strategy| strategy.as_str());
    if member("preferredHolder").is_some_and(|holder| holder.as_str() != Some(""))
        && strategy.unwrap_or("").is_empty()
    {
        let detail = "may only be specified if `strategy` is defined";
        causes.push(forbidden_field("spec.preferredHolder", detail));
    }
    causes
}
