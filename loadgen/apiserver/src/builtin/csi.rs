//! `storage.k8s.io` of drivers: stored, and nothing here acts by them. No volume is simulated.
//!
//! Source: `pkg/registry/storage` and `pkg/apis/storage` of Kubernetes.

use podstorm_objects::cells::{items, or_none, text};
use podstorm_objects::{Cell, Column, MetadataChecks, ResourceType, Rules};
use serde_json::Value;

use super::members::{missing, unchanged};
use crate::defaulting::{DefaultValue, Fill, Within};

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
                    spec.set_absent("attachRequired", DefaultValue::True);
                    for off in [
                        "podInfoOnMount",
                        "storageCapacity",
                        "requiresRepublish",
                        "seLinuxMount",
                    ] {
                        spec.set_absent(off, DefaultValue::False);
                    }
                    spec.set_absent("volumeLifecycleModes", DefaultValue::Texts(&["Persistent"]));
                    spec.set_absent(
                        "fsGroupPolicy",
                        DefaultValue::Text("ReadWriteOnceWithFSType"),
                    );
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
                let mut causes = missing(new, &["storageClassName"]);
                causes.extend(unchanged(new, old, &["storageClassName", "nodeTopology"]));
                causes
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
                let mut causes = missing(new, &["spec.attacher", "spec.nodeName"]);
                causes.extend(unchanged(
                    new,
                    old,
                    &["spec.attacher", "spec.nodeName", "spec.source"],
                ));
                causes
            },
            new_status: r#"{"attached":false}"#,
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
                let mut causes = missing(new, &["driverName", "parameters"]);
                causes.extend(unchanged(new, old, &["driverName", "parameters"]));
                causes
            },
            ..Rules::NONE
        },
        ..STORAGE
    },
];

/// A truth value, as text.
fn flag(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
        .into()
}

const DRIVER: &[Column] = &[
    Column::NAME,
    Column::new(
        "AttachRequired",
        "attachRequired indicates this CSI volume driver requires an attach operation (because it implements the CSI ControllerPublishVolume() method), and that the Kubernetes attach detach controller should call the attach volume interface which checks the volumeattachment status and waits until the volume is attached before proceeding to mounting. The CSI external-attacher coordinates with CSI volume driver and updates the volumeattachment status when the attach operation is complete. If the value is specified to false, the attach operation will be skipped. Otherwise the attach operation will be called.\n\nThis field is immutable.",
        Cell::Of(|driver, _| flag(driver, "/spec/attachRequired")),
    )
    .of_type("boolean"),
    Column::new(
        "PodInfoOnMount",
        "podInfoOnMount indicates this CSI volume driver requires additional pod information (like podName, podUID, etc.) during mount operations, if set to true.",
        Cell::Of(|driver, _| flag(driver, "/spec/podInfoOnMount")),
    )
    .of_type("boolean"),
    Column::new(
        "StorageCapacity",
        "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage capacity that the driver deployment will report by creating CSIStorageCapacity objects with capacity information, if set to true.",
        Cell::Of(|driver, _| flag(driver, "/spec/storageCapacity")),
    )
    .of_type("boolean"),
    Column::new(
        "TokenRequests",
        "tokenRequests indicates the CSI driver needs pods' service account tokens it is mounting volume for to do necessary authentication.",
        Cell::Of(|driver, _| {
            let all = items(driver, "/spec/tokenRequests").map(|request| text(request, "/audience"));
            let all: Vec<&str> = all.collect();
            if all.is_empty() { "<unset>".into() } else { all.join(",").into() }
        }),
    ),
    Column::new(
        "RequiresRepublish",
        "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being periodically called to reflect any possible change in the mounted volume.",
        Cell::Of(|driver, _| flag(driver, "/spec/requiresRepublish")),
    )
    .of_type("boolean"),
    Column::new(
        "Modes",
        "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports.",
        Cell::Of(|driver, _| {
            let all = items(driver, "/spec/volumeLifecycleModes").filter_map(Value::as_str);
            let all: Vec<&str> = all.collect();
            if all.is_empty() { "<none>".into() } else { all.join(",").into() }
        }),
    ),
    Column::AGE,
];

const NODE: &[Column] = &[
    Column::NAME,
    Column::new(
        "Drivers",
        "drivers is a list of information of all CSI Drivers existing on a node. If all drivers in the list are uninstalled, this can become empty.",
        Cell::Of(|node, _| items(node, "/spec/drivers").count().into()),
    )
    .of_type("integer"),
    Column::AGE,
];

const CAPACITY: &[Column] = &[
    Column::NAME,
    Column::new(
        "StorageClassName",
        "storageClassName represents the name of the StorageClass that the reported capacity applies to. It must meet the same requirements as the name of a StorageClass object (non-empty, DNS subdomain). If that object no longer exists, the CSIStorageCapacity object is obsolete and should be removed by its creator. This field is immutable.",
        Cell::TextOrEmpty("/storageClassName"),
    ),
    Column::new(
        "Capacity",
        "capacity is the value reported by the CSI driver in its GetCapacityResponse for a GetCapacityRequest with topology and parameters that match the previous fields.",
        Cell::Of(|capacity, _| match capacity["capacity"].as_str() {
            Some(amount) => amount.into(),
            None => "<unset>".into(),
        }),
    ),
];

const ATTACHMENT: &[Column] = &[
    Column::NAME,
    Column::new(
        "Attacher",
        "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
        Cell::TextOrEmpty("/spec/attacher"),
    ),
    Column::new(
        "PV",
        "source represents the volume that should be attached.",
        Cell::TextOrEmpty("/spec/source/persistentVolumeName"),
    ),
    Column::new(
        "Node",
        "nodeName represents the node that the volume should be attached to.",
        Cell::TextOrEmpty("/spec/nodeName"),
    ),
    Column::new(
        "Attached",
        "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.",
        Cell::Of(|attachment, _| flag(attachment, "/status/attached")),
    )
    .of_type("boolean"),
    Column::AGE,
];

const ATTRIBUTES: &[Column] = &[
    Column::NAME,
    Column::new(
        "DriverName",
        "Name of the CSI driver This field is immutable.",
        Cell::Of(|class, _| or_none(class.get("driverName"))),
    ),
    Column::AGE,
];
