//! `storage.k8s.io` for drivers: stored without any effect. Volumes are not simulated.
//!
//! Source: `pkg/registry/storage` and `pkg/apis/storage` of Kubernetes.

use podstorm_objects::cells::{items, or_none, text};
use podstorm_objects::{Cell, Column, MetadataChecks, ResourceType, Rules};
use serde_json::Value;

use super::columns::{column, joined};
use super::members::{missing, needed_and_fixed, unchanged};
use crate::defaulting::{Fill, Within};

const STORAGE: ResourceType = ResourceType {
    group: "storage.k8s.io",
    api_version: "storage.k8s.io/v1",
    namespaced: false,
    needs_version: true,
    metadata_checks: MetadataChecks::BOTH,
    ..ResourceType::DEFAULT
};

pub(super) static ROWS: [ResourceType; 5] = [
    ResourceType {
        kind: "CSIDriver",
        resource: "csidrivers",
        has_generation: true,
        columns: DRIVER,
        rules: Rules {
            default: |driver| {
                driver.fields.within("spec", |spec| {
                    spec.set_absent("attachRequired", true);
                    for off in [
                        "podInfoOnMount",
                        "storageCapacity",
                        "requiresRepublish",
                        "seLinuxMount",
                    ] {
                        spec.set_absent(off, false);
                    }
                    spec.set_absent("volumeLifecycleModes", &["Persistent"][..]);
                    spec.set_absent("fsGroupPolicy", "ReadWriteOnceWithFSType");
                })
            },
            validate: |new, old| unchanged(new, old, &["spec.volumeLifecycleModes"]),
            ..Rules::NONE
        },
        ..STORAGE
    },
    ResourceType {
        kind: "CSINode",
        resource: "csinodes",
        columns: NODE,
        rules: Rules {
            validate: |node, _| missing(node, &["spec.drivers[].name", "spec.drivers[].nodeID"]),
            ..Rules::NONE
        },
        ..STORAGE
    },
    ResourceType {
        kind: "CSIStorageCapacity",
        resource: "csistoragecapacities",
        namespaced: true,
        needs_version: false,
        columns: CAPACITY,
        rules: Rules {
            validate: |new, old| {
                needed_and_fixed(
                    new,
                    old,
                    &["storageClassName"],
                    &["storageClassName", "nodeTopology"],
                )
            },
            ..Rules::NONE
        },
        ..STORAGE
    },
    ResourceType {
        kind: "VolumeAttachment",
        resource: "volumeattachments",
        has_status: true,
        columns: ATTACHMENT,
        rules: Rules {
            validate: |new, old| {
                needed_and_fixed(
                    new,
                    old,
                    &["spec.attacher", "spec.nodeName"],
                    &["spec.attacher", "spec.nodeName", "spec.source"],
                )
            },
            ..Rules::NONE
        },
        ..STORAGE
    },
    ResourceType {
        kind: "VolumeAttributesClass",
        resource: "volumeattributesclasses",
        short_names: &["vac"],
        columns: ATTRIBUTES,
        rules: Rules {
            validate: |new, old| {
                needed_and_fixed(
                    new,
                    old,
                    &["driverName", "parameters"],
                    &["driverName", "parameters"],
                )
            },
            ..Rules::NONE
        },
        ..STORAGE
    },
];

/// Returns the boolean at a JSON pointer; false if there is none.
fn flag(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
        .into()
}

const DRIVER: &[Column] = &[
    Column::NAME,
    column(
        "AttachRequired",
        Cell::Of(|driver, _| flag(driver, "/spec/attachRequired")),
    )
    .of_type("boolean"),
    column(
        "PodInfoOnMount",
        Cell::Of(|driver, _| flag(driver, "/spec/podInfoOnMount")),
    )
    .of_type("boolean"),
    column(
        "StorageCapacity",
        Cell::Of(|driver, _| flag(driver, "/spec/storageCapacity")),
    )
    .of_type("boolean"),
    column(
        "TokenRequests",
        Cell::Of(|driver, _| {
            let all =
                items(driver, "/spec/tokenRequests").map(|request| text(request, "/audience"));
            let all: Vec<&str> = all.collect();
            joined(&all, "<unset>")
        }),
    ),
    column(
        "RequiresRepublish",
        Cell::Of(|driver, _| flag(driver, "/spec/requiresRepublish")),
    )
    .of_type("boolean"),
    column(
        "Modes",
        Cell::Of(|driver, _| {
            let all = items(driver, "/spec/volumeLifecycleModes").filter_map(Value::as_str);
            let all: Vec<&str> = all.collect();
            joined(&all, "<none>")
        }),
    ),
    Column::AGE,
];

const NODE: &[Column] = &[
    Column::NAME,
    column(
        "Drivers",
        Cell::Of(|node, _| items(node, "/spec/drivers").count().into()),
    )
    .of_type("integer"),
    Column::AGE,
];

const CAPACITY: &[Column] = &[
    Column::NAME,
    column("StorageClassName", Cell::TextOrEmpty("/storageClassName")),
    column(
        "Capacity",
        Cell::Of(|capacity, _| match capacity["capacity"].as_str() {
            Some(amount) => amount.into(),
            None => "<unset>".into(),
        }),
    ),
];

const ATTACHMENT: &[Column] = &[
    Column::NAME,
    column("Attacher", Cell::TextOrEmpty("/spec/attacher")),
    column("PV", Cell::TextOrEmpty("/spec/source/persistentVolumeName")),
    column("Node", Cell::TextOrEmpty("/spec/nodeName")),
    column(
        "Attached",
        Cell::Of(|attachment, _| flag(attachment, "/status/attached")),
    )
    .of_type("boolean"),
    Column::AGE,
];

const ATTRIBUTES: &[Column] = &[
    Column::NAME,
    column(
        "DriverName",
        Cell::Of(|class, _| or_none(class.get("driverName"))),
    ),
    Column::AGE,
];
