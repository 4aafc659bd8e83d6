//! Leases and their validation.

use podstorm_objects::{Cause, Cell, Column, DynamicObject, Kind, ResourceType, Rules, Shape};

use super::columns::column;
use crate::validation::Checks;

pub(super) static ROWS: [ResourceType; 1] = [ResourceType {
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
    ..*Kind::LEASE.row()
}];

const LEASE: &[Column] = &[
    Column::NAME,
    column("Holder", Cell::TextOrEmpty("/spec/holderIdentity")),
    Column::AGE,
];

/// Source: `ValidateLeaseSpec` of Kubernetes.
fn validate_lease(new: &DynamicObject, _old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    spec.at("leaseDurationSeconds")
        .at_least(1, "must be greater than 0");
    spec.at("leaseTransitions").not_negative();
    let holder = spec.at("preferredHolder");
    if spec
        .value
        .get("preferredHolder")
        .is_some_and(|it| *it != "")
        && spec.at("strategy").text().is_empty()
    {
        holder.forbidden("may only be specified if `strategy` is defined");
    }
    checks.found()
}
