//! PersistentVolumes, PersistentVolumeClaims and StorageClasses. No volume is simulated: claims
//! stay pending unless a client binds them.

use std::sync::Arc;

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, LabelSelector, Map, MetadataChecks, Now, Quantity,
    ResourceType, Rules,
};
use serde_json::Value;

use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::{dns_subdomain_problem, validate_selector};

pub(super) static ROWS: [ResourceType; 3] = [
    ResourceType {
        kind: "PersistentVolume",
        metadata_checks: MetadataChecks {
            whole: 2,
            change: 0,
        },
        resource: "persistentvolumes",
        namespaced: false,
        has_status: true,
        short_names: &["pv"],
        returns_deleted: true,
        columns: VOLUME,
        rules: Rules {
            default: default_volume,
            prepare: |new, old| protect(new, old, "kubernetes.io/pv-protection"),
            complete: |volume, _| {
                let created = volume.metadata.creation_timestamp.to_string();
                volume.fields.within("status", |status| {
                    status.insert("lastPhaseTransitionTime".to_owned(), created.into());
                });
            },
            validate: validate_volume,
            new_status: r#"{"phase":"Pending"}"#,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        kind: "PersistentVolumeClaim",
        metadata_checks: MetadataChecks::BOTH,
        resource: "persistentvolumeclaims",
        has_status: true,
        short_names: &["pvc"],
        returns_deleted: true,
        columns: CLAIM,
        rules: Rules {
            default: |claim| claim.fields.within("spec", default_claim_spec),
            prepare: |new, old| {
                protect(new, old, "kubernetes.io/pvc-protection");
                if old.is_none() {
                    new.fields.with("spec", settle_sources);
                }
            },
            validate: validate_claim,
            validate_status: |claim, _| validate_claim_status(claim),
            new_status: r#"{"phase":"Pending"}"#,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "storage.k8s.io",
        api_version: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata_checks: MetadataChecks::BOTH,
        resource: "storageclasses",
        namespaced: false,
        short_names: &["sc"],
        returns_deleted: true,
        columns: CLASS,
        rules: Rules {
            default: |class| {
                class
                    .fields
                    .set_absent("reclaimPolicy", DefaultValue::Text("Delete"));
                class
                    .fields
                    .set_absent("volumeBindingMode", DefaultValue::Text("Immediate"));
            },
            validate: validate_class,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

/// Adds the finalizer with which admission protects volumes and claims in use.
fn protect(new: &mut DynamicObject, old: Option<&DynamicObject>, finalizer: &str) {
    let held = new.metadata.finalizers();
    if old.is_none() && !held.iter().any(|held| &**held == finalizer) {
        let all = held.iter().cloned().chain([finalizer.into()]);
        new.metadata.finalizers = Some(Arc::new(all.collect()));
    }
}

fn default_volume(volume: &mut DynamicObject) {
    volume.fields.within("spec", |spec| {
        spec.set(
            "persistentVolumeReclaimPolicy",
            DefaultValue::Text("Retain"),
        );
        spec.set_absent("volumeMode", DefaultValue::Text("Filesystem"));
        spec.with("hostPath", |path| {
            path.set_absent("type", DefaultValue::Text(""))
        });
    });
}

/// Sets the defaults of a claim's spec.
pub(super) fn default_claim_spec(spec: &mut Map) {
    spec.set_absent("volumeMode", DefaultValue::Text("Filesystem"));
    spec.set_absent("resources", DefaultValue::EmptyObject);
}

/// What a claim is filled from has an old name, under which only claims and snapshots are known, and a new one:
/// each is set where the other is.
fn settle_sources(spec: &mut Map) {
    const OLD: &str = "dataSource";
    const NEW: &str = "dataSourceRef";
    let text = |source: &Value, member: &str| source[member].as_str().unwrap_or("").to_owned();
    let is_known = |source: &Value| {
        let named = (text(source, "apiGroup"), text(source, "kind"));
        let known = [
            ("", "PersistentVolumeClaim"),
            ("snapshot.storage.k8s.io", "VolumeSnapshot"),
        ];
        known.contains(&(named.0.as_str(), named.1.as_str()))
    };
    if spec.get(OLD).is_some_and(|source| !is_known(source)) {
        spec.remove(OLD);
    }
    let (old, new) = (spec.get(OLD).cloned(), spec.get(NEW).cloned());
    match (old, new) {
        (Some(old), None) => drop(spec.insert(NEW.to_owned(), old)),
        (None, Some(new)) if text(&new, "namespace").is_empty() && is_known(&new) => {
            spec.insert(OLD.to_owned(), new);
        }
        _ => {}
    }
}

fn validate_claim_status(claim: &DynamicObject) -> Vec<Cause> {
    let capacity = claim.fields.get("status").map(|status| &status["capacity"]);
    let entries = capacity.and_then(Value::as_object).into_iter().flatten();
    let negative = entries.filter_map(|(name, value)| {
        let amount = Quantity::from_json(value).ok()?;
        let field = format!("status.capacity[{name}]");
        let shown = i64::try_from(amount.ceil()).unwrap_or(i64::MIN).into();
        let detail = "must be a valid resource quantity";
        amount
            .is_negative()
            .then(|| invalid_value(field, &shown, detail))
    });
    negative.collect()
}

fn validate_volume(new: &DynamicObject, _: Option<&DynamicObject>) -> Vec<Cause> {
    let none = Value::Null;
    let spec = new.fields.get("spec").unwrap_or(&none);
    let mut causes = Vec::new();
    check_modes(spec, "spec", "", &mut causes);
    if spec["capacity"]
        .as_object()
        .is_none_or(|capacity| capacity.is_empty())
    {
        causes.push(required("spec.capacity", ""));
    }
    causes
}

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// The rules of the access modes of a volume or a claim.
fn check_modes(spec: &Value, at: &str, detail: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.accessModes");
    let modes: Vec<&str> = items(spec, "/accessModes")
        .map(|mode| mode.as_str().unwrap_or(""))
        .collect();
    if modes.is_empty() {
        causes.push(required(&field, detail));
    }
    for mode in &modes {
        if !MODES.contains(mode) {
            causes.push(not_supported(&field, mode, &MODES));
        }
    }
    if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        causes.push(forbidden_field(&field, detail));
    }
}

/// The rules of the spec of a claim or of a template of claims.
pub(super) fn check_claim_spec(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    check_modes(spec, at, "at least 1 access mode is required", causes);
    let field = format!("{at}.resources[storage]");
    match spec.pointer("/resources/requests/storage") {
        None | Some(Value::Null) => causes.push(required(field, "")),
        Some(value) => {
            if let Ok(amount) = Quantity::from_json(value)
                && (amount.is_negative() || amount.is_zero())
            {
                causes.push(invalid_value(field, value, "must be greater than zero"));
            }
        }
    }
    if let Some(class) = spec["storageClassName"]
        .as_str()
        .filter(|it| !it.is_empty())
        && let Some(problem) = dns_subdomain_problem(class)
    {
        let field = format!("{at}.storageClassName");
        causes.push(invalid_value(field, &class.into(), &problem));
    }
    if let Ok(selector) = LabelSelector::from_json(spec["selector"].clone())
        && at == "spec"
    {
        causes.extend(validate_selector(&selector));
    }
    let modes = ["Block", "Filesystem"];
    if let Some(mode) = spec["volumeMode"].as_str()
        && !modes.contains(&mode)
    {
        causes.push(not_supported(format!("{at}.volumeMode"), mode, &modes));
    }
}

fn validate_claim(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let none = Value::Null;
    let spec = new.fields.get("spec").unwrap_or(&none);
    let mut causes = Vec::new();
    check_claim_spec(spec, "spec", &mut causes);
    if let Some(old) = old.and_then(|old| old.fields.get("spec")) {
        let fixed = |spec: &Value| {
            let mut spec = spec.as_object().cloned().unwrap_or_default();
            for member in ["resources", "volumeAttributesClassName", "volumeName"] {
                spec.remove(member);
            }
            spec
        };
        if fixed(spec) != fixed(old) {
            let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            causes.push(forbidden_field("spec", detail));
        }
    }
    causes
}

fn validate_class(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let provisioner = new.fields.get("provisioner").and_then(Value::as_str);
    if provisioner.unwrap_or("").is_empty() {
        causes.push(required("provisioner", ""));
    }
    let Some(old) = old else { return causes };
    for (member, detail) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new.fields.get(member) != old.fields.get(member) {
            causes.push(forbidden_field(member, detail));
        }
    }
    if new.fields.get("volumeBindingMode") != old.fields.get("volumeBindingMode") {
        let mode = new
            .fields
            .get("volumeBindingMode")
            .cloned()
            .unwrap_or_default();
        causes.push(invalid_value(
            "volumeBindingMode",
            &mode,
            "field is immutable",
        ));
    }
    causes
}

/// Access modes, each once, in short: `RWO,ROX`.
fn modes(object: &Value, pointer: &str) -> Value {
    let all = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| items(object, pointer).any(|found| found == mode);
    let texts: Vec<&str> = all
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    texts.join(",").into()
}

fn attributes_class(object: &Value, _: Now) -> Value {
    match text(object, "/spec/volumeAttributesClassName") {
        "" => "<unset>".into(),
        name => name.into(),
    }
}

fn mode(object: &Value, _: Now) -> Value {
    match text(object, "/spec/volumeMode") {
        "" => "<unset>".into(),
        mode => mode.into(),
    }
}

/// The phase, and that it is going.
fn phase(object: &Value, _: Now) -> Value {
    match object["metadata"]["deletionTimestamp"].is_null() {
        true => text(object, "/status/phase").into(),
        false => "Terminating".into(),
    }
}

const CLAIM: &[Column] = &[
    Column::NAME,
    Column::new(
        "Status",
        "phase represents the current phase of PersistentVolumeClaim.",
        Cell::Of(phase),
    ),
    Column::new(
        "Volume",
        "volumeName is the binding reference to the PersistentVolume backing this claim.",
        Cell::TextOrEmpty("/spec/volumeName"),
    ),
    Column::new(
        "Capacity",
        "capacity represents the actual resources of the underlying volume.",
        Cell::Of(|claim, _| match text(claim, "/spec/volumeName") {
            "" => "".into(),
            _ => text(claim, "/status/capacity/storage").into(),
        }),
    ),
    Column::new(
        "Access Modes",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
        Cell::Of(|claim, _| match text(claim, "/spec/volumeName") {
            "" => "".into(),
            _ => modes(claim, "/status/accessModes"),
        }),
    ),
    Column::new(
        "StorageClass",
        "StorageClass of the pvc",
        Cell::TextOrEmpty("/spec/storageClassName"),
    ),
    Column::new(
        "VolumeAttributesClass",
        "VolumeAttributesClass of the pvc",
        Cell::Of(attributes_class),
    ),
    Column::AGE,
    Column::wide(
        "VolumeMode",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
        Cell::Of(mode),
    ),
];

const VOLUME: &[Column] = &[
    Column::NAME,
    Column::new(
        "Capacity",
        "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
        Cell::TextOrEmpty("/spec/capacity/storage"),
    ),
    Column::new(
        "Access Modes",
        "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
        Cell::Of(|volume, _| modes(volume, "/spec/accessModes")),
    ),
    Column::new(
        "Reclaim Policy",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        Cell::TextOrEmpty("/spec/persistentVolumeReclaimPolicy"),
    ),
    Column::new(
        "Status",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        Cell::Of(phase),
    ),
    Column::new(
        "Claim",
        "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
        Cell::Of(|volume, _| {
            let claim = &volume["spec"]["claimRef"];
            match claim.is_object() {
                true => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")).into(),
                false => "".into(),
            }
        }),
    ),
    Column::new(
        "StorageClass",
        "StorageClass of the pv",
        Cell::TextOrEmpty("/spec/storageClassName"),
    ),
    Column::new(
        "VolumeAttributesClass",
        "VolumeAttributesClass of the pv",
        Cell::Of(attributes_class),
    ),
    Column::new(
        "Reason",
        "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.",
        Cell::TextOrEmpty("/status/reason"),
    ),
    Column::AGE,
    Column::wide(
        "VolumeMode",
        "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.",
        Cell::Of(mode),
    ),
];

const CLASS: &[Column] = &[
    Column::NAME,
    Column::new(
        "Provisioner",
        "provisioner indicates the type of the provisioner.",
        Cell::TextOrEmpty("/provisioner"),
    ),
    Column::new(
        "ReclaimPolicy",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
        Cell::TextOrEmpty("/reclaimPolicy"),
    ),
    Column::new(
        "VolumeBindingMode",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
        Cell::TextOrEmpty("/volumeBindingMode"),
    ),
    Column::new(
        "AllowVolumeExpansion",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
        Cell::Of(|class, _| (class["allowVolumeExpansion"] == true).into()),
    ),
    Column::AGE,
];
