//! The built-in kinds, in files by purpose. A kind's file has all that is its own: row, defaults,
//! rules, columns, warnings, and other versions. For a kind with a Rust type the file has the
//! [`Strategy`](crate::Strategy) in place of the row; the row, the defaults and the columns are in
//! `objects`, where controllers use them, and the rules in `validation`.
//!
//! A new kind needs:
//!
//! * in a file of this folder, a row with all of that (the rules are written with
//!   `validation::field`); in [`rows`], a new file's rows; tests in `tests.rs`;
//! * upstream's descriptions of the columns, in `columns.json`;
//! * for an additional version, an [`OtherVersion`] beside the row and in [`OTHER_VERSIONS`];
//! * its type in `tests/bin/openapi.rs`, which writes its schema, and the rules of its fields in
//!   the tables of `schemas`;
//! * the numbers of its fields, in `messages.txt` of `http`'s `protobuf`;
//! * for a controller that computes with it, a Rust type: `spec_and_status!` in `objects`' `codec`.

mod admission_registration;
mod apps;
mod autoscaling;
mod batch;
mod columns;
mod config;
mod core;
mod counts;
mod csi;
mod devices;
mod endpoint_slice;
mod event;
mod flow_control;
mod indexes;
mod job;
mod job_policies;
mod job_status;
mod lease;
mod limits;
mod machinery;
mod members;
mod namespace;
mod networking;
mod node;
mod pod;
mod policy;
mod rbac;
mod replica_set;
mod replication_controller;
mod rollout;
mod schedule;
mod service;
mod service_addresses;
mod service_rules;
mod storage;
mod template;
mod version;

use podstorm_objects::{Kind, ResourceType, Warnings};

pub use columns::column_description;
pub(crate) use pod::pending_status;
pub(crate) use service_rules::not_allocated;
pub use version::{OTHER_VERSIONS, OtherVersion};

use crate::custom;

/// The kind `v1` `Service`.
pub(crate) const SERVICE: Kind = Kind::from_row(&service::ROWS[0]);
/// The kind `scheduling.k8s.io/v1` `PriorityClass`.
pub(crate) const PRIORITY_CLASS: Kind = Kind::from_row(&policy::ROWS[1]);
/// The kind `v1` `ResourceQuota`.
pub(crate) const QUOTA: Kind = Kind::from_row(&policy::ROWS[2]);
/// The kind `v1` `LimitRange`.
pub(crate) const LIMIT_RANGE: Kind = Kind::from_row(&policy::ROWS[3]);

/// Returns the warnings of a kind.
pub fn warnings_of(kind: Kind) -> &'static Warnings {
    // The rows of the kinds with a Rust type have no rules.
    let typed = [
        (Kind::POD, &pod::WARNINGS),
        (Kind::REPLICA_SET, &replica_set::WARNINGS),
        (
            Kind::REPLICATION_CONTROLLER,
            &replication_controller::WARNINGS,
        ),
    ];
    let of_typed = typed.into_iter().find(|(typed, _)| *typed == kind);
    of_typed.map_or(kind.row().rules.warnings, |(_, warnings)| warnings)
}

/// Returns all rows.
fn rows() -> impl Iterator<Item = &'static ResourceType> {
    let all: [&'static [ResourceType]; 17] = [
        &config::ROWS,
        &core::ROWS,
        &service::ROWS,
        &storage::ROWS,
        &apps::ROWS,
        &batch::ROWS,
        &policy::ROWS,
        &autoscaling::ROWS,
        &rbac::ROWS,
        &lease::ROWS,
        &networking::ROWS,
        &admission_registration::ROWS,
        &csi::ROWS,
        &devices::ROWS,
        &flow_control::ROWS,
        &machinery::ROWS,
        &custom::ROWS,
    ];
    all.into_iter().flatten()
}

/// Returns all built-in kinds without a Rust type.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    rows().map(Kind::from_row)
}

/// Returns all built-in kinds, those with a Rust type first.
pub(crate) fn all_kinds() -> impl Iterator<Item = Kind> {
    Kind::TYPED.into_iter().chain(kinds())
}

pub(crate) fn is_built_in(kind: Kind) -> bool {
    all_kinds().any(|known| known == kind)
}

/// Returns the built-in kind with a name, e.g. `Pod` or `ConfigMap`.
pub fn kind_named(name: &str) -> Option<Kind> {
    all_kinds().find(|kind| kind.name() == name)
}

/// Returns the verbs of a stored kind, without subresources, in the order of Kubernetes' discovery.
pub fn verbs(kind: Kind) -> &'static [&'static str] {
    // Sic: upstream's order for custom kinds.
    const OF_CUSTOM: &[&str] = &[
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ];
    if kind.row().custom.is_some() {
        return OF_CUSTOM;
    }
    match kind == Kind::NAMESPACE {
        // The server can't delete all namespaces in one request.
        true => &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
        false => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }
}

#[cfg(test)]
mod tests;
