//! `resource.k8s.io`: devices and claims to them. Stored; nothing allocates a device here.
//!
//! Source: `pkg/registry/resource` and `pkg/apis/resource` of Kubernetes.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cell, Column, DynamicObject, Map, MetadataChecks, Now, ResourceType, Rules,
};
use serde_json::Value;

use super::members::{missing, unchanged};
use crate::defaulting::{DefaultValue, Fill, Within};

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
            new_status: "{}",
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

/// One device of a class, unless a request says how many.
fn default_claim(spec: &mut Map) {
    spec.with("devices", |devices| {
        devices.each("requests", |request| {
            request.with("exactly", default_count);
            request.each("firstAvailable", default_count);
        });
    });
}

fn default_count(request: &mut Map) {
    request.set("allocationMode", DefaultValue::Text("ExactCount"));
    if request.text("allocationMode") == "ExactCount" {
        request.set("count", DefaultValue::Number(1));
    }
}

fn fixed_spec(
    new: &DynamicObject,
    old: Option<&DynamicObject>,
    needed: &str,
) -> Vec<podstorm_objects::Cause> {
    let mut causes = missing(new, &[needed]);
    causes.extend(unchanged(new, old, &["spec"]));
    causes
}

const CLAIM: &[Column] = &[
    Column::NAME,
    Column::new(
        "State",
        "A summary of the current state (allocated, pending, reserved, etc.).",
        Cell::Of(state),
    ),
    Column::AGE,
];

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
    Column::new(
        "Node",
        "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list only ResourceSlice objects belonging to a certain node.",
        Cell::Of(|slice, _| match text(slice, "/spec/nodeName") {
            "" => "<unset>".into(),
            node => node.into(),
        }),
    ),
    Column::new(
        "Driver",
        "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list only ResourceSlice objects with a certain driver name.",
        Cell::TextOrEmpty("/spec/driver"),
    ),
    Column::new(
        "Pool",
        "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.",
        Cell::TextOrEmpty("/spec/pool/name"),
    ),
    Column::AGE,
];
