//! The built-in kinds without a Rust type, a row each.

use podstorm_objects::{Cause, Cell, Column, DynamicObject, Kind, ResourceType, Rules, Shape};

use crate::errors::{forbidden_field, invalid_value};

static ROWS: [ResourceType; 2] = [
    ResourceType {
        kind: "ConfigMap",
        resource: "configmaps",
        short_names: &["cm"],
        columns: CONFIG_MAP,
        rules: Rules {
            shape: Shape::Object(&[
                ("binaryData", Shape::MapOf(&Shape::Text)),
                ("data", Shape::MapOf(&Shape::Text)),
                ("immutable", Shape::Flag),
            ]),
            validate: validate_config_map,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "coordination.k8s.io",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
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
    },
];

const CONFIG_MAP: &[Column] = &[
    Column::NAME,
    Column {
        name: "Data",
        description: "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
        priority: 0,
        cell: Cell::Of(|map, _| {
            let count = |member| map[member].as_object().map_or(0, |entries| entries.len());
            (count("data") + count("binaryData")).into()
        }),
    },
    Column::AGE,
];

const LEASE: &[Column] = &[
    Column::NAME,
    Column {
        name: "Holder",
        description: "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
        priority: 0,
        cell: Cell::Of(|lease, _| {
            lease["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or("")
                .into()
        }),
    },
    Column::AGE,
];

/// All built-in kinds without a Rust type.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(Kind::of)
}

/// The built-in kind of that name, e.g. `Pod` or `ConfigMap`.
pub fn kind_named(name: &str) -> Option<Kind> {
    let mut all = Kind::TYPED.into_iter().chain(kinds());
    all.find(|kind| kind.name() == name)
}

/// Source: `ValidateConfigMap` and `ValidateConfigMapUpdate` of Kubernetes.
fn validate_config_map(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    const BYTES_MAX: usize = 1 << 20;
    const IS_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                          (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                          validation is '[-._a-zA-Z0-9]+')";
    let mut causes = Vec::new();
    let mut bytes = 0;
    let data = new.fields.get("data");
    for member in ["data", "binaryData"] {
        let entries = new.fields.get(member).and_then(|it| it.as_object());
        for (key, value) in entries.into_iter().flatten() {
            let field = || format!("{member}[{key}]");
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let mut wrong = |detail: &str| {
                causes.push(invalid_value(field(), &key.as_str().into(), detail));
            };
            if key.is_empty() || !key.bytes().all(is_key) {
                wrong(IS_KEY);
            }
            if key.len() > 253 {
                wrong("must be no more than 253 characters");
            }
            if key == "." || key.starts_with("..") {
                wrong("must not be '.' and must not start with '..'");
            }
            if member == "binaryData" && data.is_some_and(|data| data.get(key).is_some()) {
                wrong("duplicate of key present in data");
            }
            // Binary data counts decoded: four base64 characters are three bytes.
            let text = value.as_str().map_or(0, str::len);
            bytes += if member == "data" { text } else { text / 4 * 3 };
        }
    }
    if bytes > BYTES_MAX {
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {BYTES_MAX} bytes"),
            field: String::new(),
        });
    }
    if let Some(old) = old.filter(|old| old.fields.get("immutable") == Some(&true.into())) {
        for member in ["immutable", "data", "binaryData"] {
            if new.fields.get(member) != old.fields.get(member) {
                let detail = "field is immutable when `immutable` is set";
                causes.push(forbidden_field(member, detail));
            }
        }
    }
    causes
}

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

#[cfg(test)]
mod tests;
