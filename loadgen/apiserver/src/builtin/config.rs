//! ConfigMaps and Secrets.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_objects::{Cause, Cell, Column, DynamicObject, Kind, ResourceType, Rules, Shape};
use serde_json::Value;

use super::columns::column;
use crate::defaulting::{Fill, Within};
use crate::errors::{forbidden_field, invalid_value, required, too_long};
use crate::validation::Checks;

pub(super) static ROWS: [ResourceType; 2] = [
    ResourceType {
        columns: CONFIG_MAP,
        rules: Rules {
            shape: Shape::Object(&[
                ("binaryData", Shape::MapOf(&Shape::Text)),
                ("data", Shape::MapOf(&Shape::Text)),
                ("immutable", Shape::Flag),
            ]),
            validate: |new, old| validate(new, old, &["data", "binaryData"]),
            ..Rules::NONE
        },
        ..*Kind::CONFIG_MAP.row()
    },
    ResourceType {
        columns: SECRET,
        rules: Rules {
            shape: Shape::Object(&[
                ("data", Shape::MapOf(&Shape::Text)),
                ("immutable", Shape::Flag),
                ("stringData", Shape::MapOf(&Shape::Text)),
                ("type", Shape::Text),
            ]),
            default: default_secret,
            validate: validate_secret,
            ..Rules::NONE
        },
        ..*Kind::SECRET.row()
    },
];

/// Encodes `stringData` and moves it into `data`. Responses never contain `stringData`.
fn default_secret(secret: &mut DynamicObject) {
    secret.fields.set("type", "Opaque");
    let Some(Value::Object(texts)) = secret.fields.remove("stringData") else {
        return;
    };
    secret.fields.within("data", |data| {
        for (key, text) in texts {
            let encoded = BASE64_STANDARD.encode(text.as_str().unwrap_or(""));
            data.insert(key, encoded.into());
        }
    });
}

fn validate_secret(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    checks.extend(validate(new, old, &["data"]));
    let kind = checks.field(new, "type");
    if let Some(old) = old {
        kind.unchanged(checks.field(old, "type").value);
    }
    // The keys that secrets of these types need.
    let needed: &[&str] = match kind.text() {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        _ => &[],
    };
    let data = checks.field(new, "data");
    let lacks = |key: &str| data.value[key].is_null();
    for key in needed.iter().filter(|key| lacks(key)) {
        data.key(key).required("");
    }
    if kind.text() == "kubernetes.io/basic-auth" && lacks("username") && lacks("password") {
        data.key("username").required("");
        data.key("password").required("");
    }
    if kind.text() == "kubernetes.io/service-account-token" {
        const ACCOUNT: &str = "kubernetes.io/service-account.name";
        let account = new.metadata.annotations.get(ACCOUNT);
        if account.is_none_or(|account| account.is_empty()) {
            checks.push(required(format!("metadata.annotations[{ACCOUNT}]"), ""));
        }
    }
    checks.found()
}

const CONFIG_MAP: &[Column] = &[
    Column::NAME,
    column(
        "Data",
        Cell::Of(|map, _| {
            let count = |member| map[member].as_object().map_or(0, |entries| entries.len());
            (count("data") + count("binaryData")).into()
        }),
    ),
    Column::AGE,
];

const SECRET: &[Column] = &[
    Column::NAME,
    column("Type", Cell::TextOrEmpty("/type")),
    column(
        "Data",
        Cell::Of(|secret, _| {
            secret["data"]
                .as_object()
                .map_or(0, |data| data.len())
                .into()
        }),
    ),
    Column::AGE,
];

/// Source: `ValidateConfigMap` and `ValidateConfigMapUpdate` of Kubernetes.
fn validate(new: &DynamicObject, old: Option<&DynamicObject>, members: &[&str]) -> Vec<Cause> {
    const BYTES_MAX: usize = 1 << 20;
    const IS_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                          (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                          validation is '[-._a-zA-Z0-9]+')";
    let mut causes = Vec::new();
    let mut bytes = 0;
    let binary = new.fields.get("binaryData");
    for member in members.iter().copied() {
        let is_text = member == "data" && members.len() > 1;
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
            match key.as_str() {
                "." | ".." => wrong(&format!("must not be '{key}'")),
                _ if key.starts_with("..") => wrong("must not start with '..'"),
                _ => {}
            }
            if is_text && binary.is_some_and(|binary| binary.get(key).is_some()) {
                wrong("duplicate of key present in binaryData");
            }
            // The limit applies to decoded data: four base64 characters are three bytes.
            let text = value.as_str().map_or(0, str::len);
            bytes += if is_text { text } else { text / 4 * 3 };
        }
    }
    if bytes > BYTES_MAX {
        // Sic: upstream's path to the whole object.
        causes.push(too_long("[]", BYTES_MAX));
    }
    if let Some(old) = old.filter(|old| old.fields.get("immutable") == Some(&true.into())) {
        for member in ["immutable"].into_iter().chain(members.iter().copied()) {
            if new.fields.get(member) != old.fields.get(member) {
                let detail = "field is immutable when `immutable` is set";
                causes.push(forbidden_field(member, detail));
            }
        }
    }
    causes
}
