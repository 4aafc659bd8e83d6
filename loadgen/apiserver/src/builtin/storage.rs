//! PersistentVolumes, PersistentVolumeClaims and StorageClasses. A controller binds claims to
//! volumes.

use std::sync::Arc;

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, Kind, LabelSelector, Map, Now, Quantity, ResourceType,
    Rules, Warnings,
};
use serde_json::Value;

use super::columns::{column, or_unset, wide_column};
use super::pod::warnings::of_claim;
use crate::defaulting::{Fill, Within};
use crate::errors::not_supported;
use crate::internal;
use crate::validation::{Checks, Field, names, validate_selector};

pub(super) static ROWS: [ResourceType; 3] = [
    ResourceType {
        columns: VOLUME,
        rules: Rules {
            default: default_volume,
            prepare: |new, old| protect(new, old, "kubernetes.io/pv-protection"),
            complete: |volume, _| {
                let created = volume.metadata.creation_timestamp.to_string();
                volume.fields.within("status", |status| {
                    status.set_absent("lastPhaseTransitionTime", created);
                });
            },
            validate: validate_volume,
            first_phase: "Pending",
            ..Rules::NONE
        },
        ..*Kind::PERSISTENT_VOLUME.row()
    },
    ResourceType {
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
            warnings: &Warnings {
                written: |claim| {
                    let mut warnings = Vec::new();
                    of_claim(&(claim.json)()["spec"], "spec", &mut warnings);
                    warnings
                },
                ..Warnings::NONE
            },
            first_phase: "Pending",
            ..Rules::NONE
        },
        ..*Kind::PERSISTENT_VOLUME_CLAIM.row()
    },
    ResourceType {
        columns: CLASS,
        rules: Rules {
            default: |class| {
                class.fields.set_absent("reclaimPolicy", "Delete");
                class.fields.set_absent("volumeBindingMode", "Immediate");
            },
            validate: validate_class,
            ..Rules::NONE
        },
        ..*Kind::STORAGE_CLASS.row()
    },
];

/// Adds the finalizer that protects volumes and claims in use.
fn protect(new: &mut DynamicObject, old: Option<&DynamicObject>, finalizer: &str) {
    let held = new.metadata.finalizers();
    if old.is_none() && !held.iter().any(|held| &**held == finalizer) {
        let all = held.iter().cloned().chain([finalizer.into()]);
        new.metadata.finalizers = Some(Arc::new(all.collect()));
    }
}

fn default_volume(volume: &mut DynamicObject) {
    volume.fields.within("spec", |spec| {
        spec.set("persistentVolumeReclaimPolicy", "Retain");
        spec.set_absent("volumeMode", "Filesystem");
        spec.with("hostPath", |path| path.set_absent("type", ""));
    });
}

/// Sets the defaults of a claim's spec.
pub(super) fn default_claim_spec(spec: &mut Map) {
    spec.set_absent("volumeMode", "Filesystem");
    spec.set_absent("resources", Map::new());
}

/// Makes the two fields for the source of a claim consistent. `dataSource`, the old field, allows
/// only claims and snapshots; any other source in it is dropped. If one field is missing, it gets
/// the value of the other, provided that it allows this value.
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
    let checks = Checks::default();
    let status = checks.field(claim, "status");
    for (_, entry) in status.at("capacity").entries() {
        if let Ok(amount) = Quantity::from_json(entry.value)
            && amount.is_negative()
        {
            let shown = i64::try_from(amount.ceil()).unwrap_or(i64::MIN);
            entry.invalid_as(shown, "must be a valid resource quantity");
        }
    }
    checks.found()
}

fn validate_volume(new: &DynamicObject, _: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    check_modes(&spec, "");
    let capacity = spec.at("capacity");
    if capacity.entries().next().is_none() {
        capacity.required("");
    }
    checks.found()
}

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Checks the access modes of a volume or a claim.
fn check_modes(spec: &Field<'_>, detail: &str) {
    let field = spec.at("accessModes");
    let modes: Vec<&str> = field.items().map(|mode| mode.text()).collect();
    if modes.is_empty() {
        field.required(detail);
    }
    for mode in &modes {
        if !MODES.contains(mode) {
            // Sic: upstream's path omits the index of the mode.
            let cause = not_supported(field.path.as_str(), mode, &MODES);
            spec.checks.push(cause);
        }
    }
    if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        field.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks the spec of a claim or of a claim template.
pub(super) fn check_claim_spec(spec: &Field<'_>) {
    check_modes(spec, "at least 1 access mode is required");
    let resources = spec.at("resources");
    let asked = resources.at("requests").at("storage").value;
    // Sic: upstream's path omits `requests`.
    let asked = (spec.checks).value(format!("{}[storage]", resources.path), asked);
    if asked.is_null() {
        asked.required("");
    } else if let Ok(amount) = Quantity::from_json(asked.value)
        && (amount.is_negative() || amount.is_zero())
    {
        asked.invalid("must be greater than zero");
    }
    let class = spec.at("storageClassName");
    if !class.text().is_empty() {
        class.fits(names::dns_subdomain);
    }
    if let Ok(selector) = LabelSelector::from_json(spec.value["selector"].clone())
        && spec.path == "spec"
    {
        spec.checks.extend(validate_selector(&selector));
    }
    spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
}

fn validate_claim(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    check_claim_spec(&spec);
    if let Some(old) = old {
        let status = checks.field(new, "status").value;
        check_claim_change(&spec, checks.field(old, "spec").value, status);
    }
    checks.found()
}

/// Checks the changes to a claim. Its volume and its class may be set once. While the claim is
/// bound, its storage request and attributes class may change.
///
/// Source: `ValidatePersistentVolumeClaimUpdate` of Kubernetes' `pkg/apis/core/validation`.
fn check_claim_change(spec: &Field<'_>, before: &Value, status: &Value) {
    let (mut was, mut is) = (before.clone(), spec.value.clone());
    let (Some(old), Some(new)) = (was.as_object_mut(), is.as_object_mut()) else {
        return;
    };
    let keep = |to: &mut Map, from: &Map, member: &str| match from.get(member) {
        Some(value) => drop(to.insert(member.to_owned(), value.clone())),
        None => drop(to.remove(member)),
    };
    if old.text("volumeName").is_empty() {
        keep(old, new, "volumeName");
    }
    if before["storageClassName"].is_null() {
        keep(new, old, "storageClassName");
    }
    if status["phase"] == "Bound" {
        if let (Some(Value::Object(of_new)), Value::Object(of_old)) = (
            new.get_mut("resources")
                .and_then(|it| it.get_mut("requests")),
            &before["resources"]["requests"],
        ) {
            keep(of_new, of_old, "storage");
        }
        if !spec.at("volumeAttributesClassName").is_null() {
            keep(new, old, "volumeAttributesClassName");
        }
    }
    if is != was {
        let lines = |spec: &Value| internal::lines(spec, "PersistentVolumeClaimSpec");
        let difference = internal::unified(&lines(&was), &lines(&is));
        spec.forbidden(format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{difference}"
        ));
    }
    let size = |value: &Value| Some(Quantity::from_json(value).ok()?.ceil());
    let asked = spec.at("resources").at("requests").at("storage");
    let (new, old) = (
        size(asked.value),
        size(&before["resources"]["requests"]["storage"]),
    );
    if new.is_some() && new < old && new <= size(&status["capacity"]["storage"]) {
        asked.forbidden("field can not be less than status.capacity");
    }
    let mode = spec.checks.value("volumeMode", spec.at("volumeMode").value);
    mode.unchanged(&before["volumeMode"]);
}

fn validate_class(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    checks.field(new, "provisioner").needs_text("");
    let Some(old) = old else {
        return checks.found();
    };
    let before = |member| checks.field(old, member).value;
    for member in ["parameters", "provisioner", "reclaimPolicy"] {
        let field = checks.field(new, member);
        if field.value != before(member) {
            field.forbidden(format!("updates to {member} are forbidden."));
        }
    }
    let mode = checks.field(new, "volumeBindingMode");
    mode.unchanged(before("volumeBindingMode"));
    checks.found()
}

/// Formats access modes as abbreviations, each once: `RWO,ROX`.
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
    or_unset(object, "/spec/volumeAttributesClassName")
}

fn mode(object: &Value, _: Now) -> Value {
    or_unset(object, "/spec/volumeMode")
}

/// Returns the phase, or `Terminating` if the object is being deleted.
fn phase(object: &Value, _: Now) -> Value {
    match object["metadata"]["deletionTimestamp"].is_null() {
        true => text(object, "/status/phase").into(),
        false => "Terminating".into(),
    }
}

const CLAIM: &[Column] = &[
    Column::NAME,
    column("Status", Cell::Of(phase)),
    column("Volume", Cell::TextOrEmpty("/spec/volumeName")),
    column(
        "Capacity",
        Cell::Of(|claim, _| match text(claim, "/spec/volumeName") {
            "" => "".into(),
            _ => text(claim, "/status/capacity/storage").into(),
        }),
    ),
    column(
        "Access Modes",
        Cell::Of(|claim, _| match text(claim, "/spec/volumeName") {
            "" => "".into(),
            _ => modes(claim, "/status/accessModes"),
        }),
    ),
    column("StorageClass", Cell::TextOrEmpty("/spec/storageClassName")),
    column("VolumeAttributesClass", Cell::Of(attributes_class)),
    Column::AGE,
    wide_column("VolumeMode", Cell::Of(mode)),
];

const VOLUME: &[Column] = &[
    Column::NAME,
    column("Capacity", Cell::TextOrEmpty("/spec/capacity/storage")),
    column(
        "Access Modes",
        Cell::Of(|volume, _| modes(volume, "/spec/accessModes")),
    ),
    column(
        "Reclaim Policy",
        Cell::TextOrEmpty("/spec/persistentVolumeReclaimPolicy"),
    ),
    column("Status", Cell::Of(phase)),
    column(
        "Claim",
        Cell::Of(|volume, _| {
            let claim = &volume["spec"]["claimRef"];
            match claim.is_object() {
                true => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")).into(),
                false => "".into(),
            }
        }),
    ),
    column("StorageClass", Cell::TextOrEmpty("/spec/storageClassName")),
    column("VolumeAttributesClass", Cell::Of(attributes_class)),
    column("Reason", Cell::TextOrEmpty("/status/reason")),
    Column::AGE,
    wide_column("VolumeMode", Cell::Of(mode)),
];

const CLASS: &[Column] = &[
    Column::NAME,
    column("Provisioner", Cell::TextOrEmpty("/provisioner")),
    column("ReclaimPolicy", Cell::TextOrEmpty("/reclaimPolicy")),
    column("VolumeBindingMode", Cell::TextOrEmpty("/volumeBindingMode")),
    column(
        "AllowVolumeExpansion",
        Cell::Of(|class, _| (class["allowVolumeExpansion"] == true).into()),
    ),
    Column::AGE,
];
