//! The kinds without a type of their own that every cluster serves, a row each.

use podstorm_objects::{Cause, DynamicObject, Kind, ResourceType, Rules, Shape};

use crate::errors::{forbidden_field, invalid_value};

static ROWS: [ResourceType; 2] = [
    ResourceType {
        kind: "ConfigMap",
        resource: "configmaps",
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

/// All of them.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(Kind::of)
}

/// The kind of that name that every cluster serves, e.g. `Pod` or `ConfigMap`.
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
            // Binary data counts as what it stands for: three bytes to four characters.
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
mod tests {
    use std::sync::Arc;

    use podstorm_objects::AnyObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{at, cluster, refused};

    #[test]
    fn every_row_is_sound() {
        for row in &ROWS {
            assert!(row.is_sound(), "{}", row.kind);
            let same = |kind: &Kind| *kind == Kind::of(row);
            let all = || Kind::TYPED.into_iter().chain(kinds());
            assert_eq!(all().filter(same).count(), 1, "{}", row.kind);
        }
    }

    fn kind(name: &str) -> Kind {
        kind_named(name).expect("a kind of the table")
    }

    fn object(kind: Kind, mut value: Value) -> AnyObject {
        value["metadata"] = json!({"name": "a", "namespace": "default"});
        Arc::new(DynamicObject::from_json(kind, value).unwrap())
    }

    /// The causes of refusing to create an object with these members.
    fn causes(kind: Kind, value: Value) -> Vec<String> {
        let created = cluster().api(kind).create(object(kind, value), at(0));
        let text = |cause: Cause| format!("{}: {}", cause.field, cause.message);
        created
            .map_or_else(|error| error.causes, |_| Vec::new())
            .into_iter()
            .map(text)
            .collect()
    }

    #[test]
    fn keys_of_a_config_map_are_file_names() {
        let kind = kind("ConfigMap");
        let sound = json!({"data": {"a.txt": "", "B_c-1": "x"}, "binaryData": {"d": "AAAA"}});
        assert_eq!(causes(kind, sound), [""; 0]);
        for (key, what) in [
            (
                "a b",
                "data[a b]: Invalid value: \"a b\": a valid config key must",
            ),
            (".", "data[.]: Invalid value: \".\": must not be '.'"),
            ("..a", "data[..a]: Invalid value: \"..a\": must not be '.'"),
        ] {
            let found = causes(kind, json!({"data": {key: "x"}}));
            assert!(found.len() == 1 && found[0].starts_with(what), "{found:?}");
        }
        let long = "k".repeat(254);
        assert_eq!(causes(kind, json!({"data": {long: "x"}})).len(), 1);
        let both = json!({"data": {"a": "x"}, "binaryData": {"a": "AAAA"}});
        assert_eq!(
            causes(kind, both),
            ["binaryData[a]: Invalid value: \"a\": duplicate of key present in data"]
        );
    }

    #[test]
    fn a_config_map_holds_a_mebibyte() {
        let kind = kind("ConfigMap");
        let of = |bytes: usize| json!({"data": {"a": "x".repeat(bytes)}});
        assert_eq!(causes(kind, of(1 << 20)), [""; 0]);
        assert_eq!(
            causes(kind, of((1 << 20) + 1)),
            [": Too long: may not be more than 1048576 bytes"]
        );
        let wrong = DynamicObject::from_json(kind, json!({"data": {"a": 1}}));
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "data[a]: expected a string, found the number 1"
        );
    }

    #[test]
    fn an_immutable_config_map_keeps_its_data_and_takes_labels() {
        let (kind, cluster) = (kind("ConfigMap"), cluster());
        let api = cluster.api(kind);
        let of = |data: &str, immutable: Option<bool>| {
            object(kind, json!({"data": {"a": data}, "immutable": immutable}))
        };
        api.create(of("1", None), at(0)).unwrap();
        api.update(of("2", Some(true)), at(0)).unwrap();
        for other in [of("3", Some(true)), of("2", Some(false)), of("2", None)] {
            assert_eq!(refused(api.update(other, at(0))), "422 Invalid");
        }
        let mut labelled = DynamicObject::new(kind);
        labelled.metadata.clone_from(of("2", None).metadata());
        labelled.metadata.labels = labelled.metadata.labels.with("a", "b");
        let fields = json!({"data": {"a": "2"}, "immutable": true});
        labelled.fields = fields.as_object().unwrap().clone();
        api.update(Arc::new(labelled), at(0)).unwrap();
    }

    #[test]
    fn a_lease_lasts_and_is_taken_over_no_less_than_never() {
        let kind = kind("Lease");
        let held = json!({"spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-02T03:04:05.678901Z", "renewTime": "2026-01-02T03:04:05.678901Z",
        }});
        assert_eq!(causes(kind, held.clone()), [""; 0]);
        let api = cluster();
        let stored = api
            .api(kind)
            .create(object(kind, held.clone()), at(0))
            .unwrap();
        assert_eq!(stored.to_json()["spec"], held["spec"], "to the microsecond");
        let never = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        assert_eq!(
            causes(kind, never),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        let preferred = json!({"spec": {"preferredHolder": "b"}});
        assert_eq!(
            causes(kind, preferred),
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
        );
        let wrong = DynamicObject::from_json(kind, json!({"spec": {"renewTime": "soon"}}));
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .starts_with("spec.renewTime: ")
        );
    }
}
