//! The row of CustomResourceDefinitions.

use podstorm_objects::{
    Cell, Column, DynamicObject, Map, MetadataChecks, ResourceType, Rules, Warnings,
};
use serde_json::{Value, json};

use super::definition::{storage_version, validate_definition};
use super::unenforced;
use crate::defaulting::Within;

pub(crate) static ROWS: [ResourceType; 1] = [ResourceType {
    group: "apiextensions.k8s.io",
    api_version: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    resource: "customresourcedefinitions",
    namespaced: false,
    has_status: true,
    has_generation: true,
    metadata_checks: MetadataChecks::BOTH,
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    columns: &[Column::NAME, CREATED],
    rules: Rules {
        default: set_defaults,
        prepare,
        validate: validate_definition,
        warnings: &Warnings {
            written: |definition| {
                let json = (definition.json)();
                json.as_object().map(unenforced).unwrap_or_default()
            },
            ..Warnings::NONE
        },
        ..Rules::NONE
    },
    ..ResourceType::DEFAULT
}];

const CREATED: Column = Column {
    name: "Created At",
    kind: "date",
    cell: Cell::Text("/metadata/creationTimestamp"),
    ..Column::AGE
};

/// Source: `SetDefaults_CustomResourceDefinitionSpec` of Kubernetes' `apiextensions-apiserver`.
fn set_defaults(definition: &mut DynamicObject) {
    definition.fields.within("spec", |spec| {
        // Go omits a false value.
        if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
            spec.remove("preserveUnknownFields");
        }
        spec.within("conversion", |conversion| {
            set_text(conversion, "strategy", || "None".to_owned());
        });
        let Some(Value::Object(names)) = spec.get_mut("names") else {
            return;
        };
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned();
        if !kind.is_empty() {
            set_text(names, "singular", || kind.to_lowercase());
            set_text(names, "listKind", || format!("{kind}List"));
        }
    });
}

fn set_text(members: &mut Map, name: &str, text: impl FnOnce() -> String) {
    let given = members.get(name).and_then(Value::as_str).unwrap_or("");
    if given.is_empty() {
        members.insert(name.to_owned(), text().into());
    }
}

/// Sets the status of a new definition. Adds the storage version to the status of a changed one.
fn prepare(definition: &mut DynamicObject, old: Option<&DynamicObject>) {
    let Some(version) = storage_version(definition) else {
        return;
    };
    if old.is_none() {
        let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": [version]});
        definition.fields.insert("status".to_owned(), status);
        return;
    }
    definition.fields.within("status", |status| {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Value::Array(stored) = stored
            && !stored.iter().any(|known| *known == version)
        {
            stored.push(version.into());
        }
    });
}
