//! `resource.k8s.io`: devices and claims for devices. Stored only: no device is allocated.
//!
//! Source: `pkg/registry/resource` and `pkg/apis/resource` of Kubernetes.

use podstorm_objects::cells::items;
use podstorm_objects::{
    Cell, Column, DynamicObject, Map, MetadataChecks, Now, ResourceType, Rules,
};
use serde_json::Value;

use super::columns::{column, or_unset};
use super::members::{missing, needed_and_fixed};
use crate::defaulting::{Fill, Within};

const RESOURCE: ResourceType = ResourceType {
    group: "resource.k8s.io",
    api_version: "resource.k8s.io/v1",
    metadata_checks: MetadataChecks::BOTH,
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 4] = [
    ResourceType {
        kind: "DeviceClass",
        resource: "deviceclasses",
        namespaced: false,
        has_generation: true,
        columns: &[Column::NAME, Column::AGE],
        ..RESOURCE
    },
    ResourceType {
        kind: "ResourceClaim",
        resource: "resourceclaims",
        has_status: true,
        columns: CLAIM,
        rules: Rules {
            default: |claim| claim.fields.within("spec", default_claim),
            validate: |new, old| fixed_spec(new, old, "spec.devices.requests[].name"),
            ..Rules::NONE
        },
        ..RESOURCE
    },
    ResourceType {
        kind: "ResourceClaimTemplate",
        resource: "resourceclaimtemplates",
        columns: &[Column::NAME, Column::AGE],
        rules: Rules {
            default: |template| {
                template
                    .fields
                    .within("spec", |spec| spec.within("spec", default_claim))
            },
            validate: |new, old| fixed_spec(new, old, "spec.spec.devices.requests[].name"),
            ..Rules::NONE
        },
        ..RESOURCE
    },
    ResourceType {
        kind: "ResourceSlice",
        resource: "resourceslices",
        namespaced: false,
        has_generation: true,
        selectable: &["spec.driver", "spec.nodeName"],
        columns: SLICE,
        rules: Rules {
            validate: |slice, _| missing(slice, &["spec.driver", "spec.pool.name"]),
            ..Rules::NONE
        },
        ..RESOURCE
    },
];

/// Sets the default number of devices in a request: one.
fn default_claim(spec: &mut Map) {
    spec.with("devices", |devices| {
        devices.each("requests", |request| {
            request.with("exactly", default_count);
            request.each("firstAvailable", default_count);
        });
    });
}

fn default_count(request: &mut Map) {
    request.set("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" {
        request.set("count", 1);
    }
}

fn fixed_spec(
    new: &DynamicObject,
    old: Option<&DynamicObject>,
    needed: &str,
) -> Vec<podstorm_objects::Cause> {
    needed_and_fixed(new, old, &[needed], &["spec"])
}

const CLAIM: &[Column] = &[Column::NAME, column("State", Cell::Of(state)), Column::AGE];

/// Source: `resourceClaimState` of Kubernetes' printers.
fn state(claim: &Value, _: Now) -> Value {
    let mut states = Vec::new();
    if !claim["metadata"]["deletionTimestamp"].is_null() {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_null() {
        if states.is_empty() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        if items(claim, "/status/reservedFor").next().is_some() {
            states.push("reserved");
        }
    }
    states.join(",").into()
}

const SLICE: &[Column] = &[
    Column::NAME,
    column(
        "Node",
        Cell::Of(|slice, _| or_unset(slice, "/spec/nodeName")),
    ),
    column("Driver", Cell::TextOrEmpty("/spec/driver")),
    column("Pool", Cell::TextOrEmpty("/spec/pool/name")),
    Column::AGE,
];
