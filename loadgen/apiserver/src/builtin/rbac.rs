//! `rbac.authorization.k8s.io/v1`: stored, not enforced.

use podstorm_objects::{Cause, Cell, Column, DynamicObject, Kind, ResourceType, Rules};
use serde_json::Value;

use super::columns::column;
use crate::defaulting::Fill;
use crate::validation::Checks;

const RBAC: ResourceType = ResourceType {
    namespaced: true,
    ..*Kind::CLUSTER_ROLE.row()
};

const BINDING: Rules = Rules {
    default: |binding| {
        binding.fields.with("roleRef", |role| {
            role.set("apiGroup", "rbac.authorization.k8s.io");
        });
        binding.fields.each("subjects", |subject| {
            if matches!(subject.text("kind"), "User" | "Group") {
                subject.set("apiGroup", "rbac.authorization.k8s.io");
            }
        });
    },
    validate: validate_binding,
    ..Rules::NONE
};

pub(super) static ROWS: [ResourceType; 4] = [
    *Kind::CLUSTER_ROLE.row(),
    ResourceType {
        kind: "ClusterRoleBinding",
        resource: "clusterrolebindings",
        namespaced: false,
        columns: BINDINGS,
        rules: BINDING,
        ..RBAC
    },
    ResourceType {
        kind: "Role",
        resource: "roles",
        ..RBAC
    },
    ResourceType {
        kind: "RoleBinding",
        resource: "rolebindings",
        columns: BINDINGS,
        rules: BINDING,
        ..RBAC
    },
];

fn validate_binding(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let role = checks.field(new, "roleRef");
    role.at("name").needs_text("");
    if old.is_some_and(|old| checks.field(old, "roleRef").value != role.value) {
        role.invalid("cannot change roleRef");
    }
    checks.found()
}

const BINDINGS: &[Column] = &[
    Column::NAME,
    column(
        "Role",
        Cell::Of(|binding, _| {
            let role = &binding["roleRef"];
            let part = |member: &str| role[member].as_str().unwrap_or("").to_owned();
            Value::from(format!("{}/{}", part("kind"), part("name")))
        }),
    ),
    Column::AGE,
];
