//! Objects as rows of a Table, which `kubectl get` prints, and objects reduced to their metadata.
//!
//! Source: `apis/meta/v1` `Table` and `PartialObjectMetadata`, and the printers of Kubernetes.

use podstorm_apiserver::errors;
use podstorm_objects::{AnyObject, ApiError, Cell, Column, Kind, Now, Object};
use serde_json::{Value, json};

use crate::query::Query;
use crate::view;

/// How much of its object each row contains: `includeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Metadata,
    Object,
    None,
}

impl Include {
    /// Parses `includeObject`.
    ///
    /// # Errors
    /// 400 for an invalid value.
    pub(crate) fn from_query(query: &Query<'_>) -> Result<Include, ApiError> {
        match query.text("includeObject") {
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            "None" => Ok(Include::None),
            other => Err(errors::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Returns a Table of objects of one kind. `metadata` is that of the list, or the version of a
/// single object.
pub(crate) fn table(
    kind: Kind,
    items: &[AnyObject],
    version: &str,
    include: Include,
    metadata: Value,
    now: Now,
) -> Value {
    let columns = columns(kind);
    let rows: Vec<Value> = items
        .iter()
        .map(|item| row(kind, &**item, version, include, now))
        .collect();
    // Sic: upstream's default printer appends rows to a nil slice, which is null when empty.
    let columns_of = view::stored_kind(kind).row().columns;
    let is_plain = columns_of.iter().any(|column| column.name == "Created At");
    let rows = Some(rows).filter(|rows| !(is_plain && rows.is_empty()));
    json!({"kind": "Table", "apiVersion": version, "metadata": metadata,
        "columnDefinitions": columns, "rows": rows})
}

/// Returns a Table with one row and without columns, for all events of a watch except the first.
pub(crate) fn row_alone(
    kind: Kind,
    item: &dyn Object,
    version: &str,
    include: Include,
    now: Now,
) -> Value {
    let at = item.metadata().resource_version.to_string();
    json!({"kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": at},
        "columnDefinitions": null, "rows": [row(kind, item, version, include, now)]})
}

/// The columns of Scales, which are not stored objects.
const SCALE: [Column; 4] = [
    Column {
        cell: Cell::Text("/metadata/name"),
        format: "",
        ..Column::NAME
    },
    Column::new(
        "Desired",
        "replicas is the desired number of instances for the scaled object.",
        Cell::Number("/spec/replicas"),
    ),
    Column::new(
        "Available",
        "replicas is the actual number of observed instances of the scaled object.",
        Cell::Number("/status/replicas"),
    ),
    Column::AGE,
];

/// Returns a Table of one Scale.
pub(crate) fn of_scale(
    kind: Kind,
    scale: Value,
    version: &str,
    include: Include,
    now: Now,
) -> Value {
    let columns: Value = SCALE.iter().map(|it| column(kind, it)).collect();
    let cells: Value = SCALE
        .iter()
        .map(|column| column.cell.value(&scale, now))
        .collect();
    let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
    let rows = json!([{"cells": cells, "object": carried(kind, scale, version, include)}]);
    json!({"kind": "Table", "apiVersion": version, "metadata": metadata,
        "columnDefinitions": columns, "rows": rows})
}

/// Returns the columns of a kind's tables.
pub(crate) fn columns(kind: Kind) -> Value {
    let stored = view::stored_kind(kind);
    let columns = stored.row().columns.iter();
    columns.map(|it| column(stored, it)).collect()
}

fn column(kind: Kind, column: &podstorm_objects::Column) -> Value {
    let description = podstorm_apiserver::column_description(kind, column);
    json!({"name": column.name, "type": column.kind, "format": column.format,
        "description": description, "priority": column.priority})
}

fn row(kind: Kind, item: &dyn Object, version: &str, include: Include, now: Now) -> Value {
    let whole = item.to_json();
    let stored = view::stored_kind(kind);
    let of_view = view::is_view(kind).then(|| view::stored_json(kind, &whole));
    let json = of_view.as_ref().unwrap_or(&whole);
    let columns = stored.row().columns.iter();
    let cells: Value = columns.map(|column| column.cell.value(json, now)).collect();
    let completed = completed(kind, json);
    let mut row = json!({"cells": cells, "object": carried(kind, whole, version, include)});
    if let Some((reason, message)) = completed {
        row["conditions"] = json!([{"type": "Completed", "status": "True", "reason": reason,
            "message": message}]);
    }
    row
}

/// Returns how a finished pod ended, as reason and message; `None` for other objects. Clients may
/// hide rows with this condition.
///
/// Source: `printPod` of Kubernetes' `printers/internalversion`.
fn completed(kind: Kind, object: &Value) -> Option<(&'static str, &'static str)> {
    match object["status"]["phase"].as_str()? {
        _ if kind != Kind::POD => None,
        "Succeeded" => Some(("Succeeded", "The pod has completed successfully.")),
        "Failed" => Some(("Failed", "The pod failed.")),
        _ => None,
    }
}

/// Returns the part of an object that its row contains.
fn carried(kind: Kind, whole: Value, version: &str, include: Include) -> Value {
    match include {
        Include::Object => whole,
        Include::None => Value::Null,
        Include::Metadata => metadata_alone(kind, &whole, version),
    }
}

/// Returns `PartialObjectMetadata` for an object's JSON.
pub(crate) fn metadata_alone(kind: Kind, whole: &Value, version: &str) -> Value {
    let metadata = alone(kind, whole["metadata"].clone());
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata})
}

/// Returns `PartialObjectMetadata` for an object, in the newest version.
pub(crate) fn metadata_of(item: &dyn Object) -> Value {
    partial(item, "meta.k8s.io/v1")
}

/// Returns `PartialObjectMetadata` for an object.
pub(crate) fn partial(item: &dyn Object, version: &str) -> Value {
    metadata_alone(item.kind(), &item.to_json(), version)
}

/// Returns an object's metadata for use without the object. Upstream keeps the template generation
/// of a DaemonSet elsewhere, and adds it as an annotation only to the whole object.
fn alone(kind: Kind, mut metadata: Value) -> Value {
    if kind.name() == "DaemonSet"
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            metadata["annotations"].take();
        }
    }
    match metadata {
        Value::Object(mut members) => {
            members.retain(|_, value| !value.is_null());
            members.into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_descriptions_match_their_kind() {
        let columns = columns(Kind::REPLICATION_CONTROLLER).to_string();
        assert!(columns.contains("ready replicas for this replication controller"));
        assert!(!columns.to_lowercase().contains("replicaset"), "{columns}");
    }

    #[test]
    fn the_row_of_a_finished_pod_has_a_condition() {
        let now = Now {
            mono_ns: 0,
            wall_ns: 0,
        };
        for (kind, phase, reason) in [
            (Kind::POD, "Succeeded", "Succeeded"),
            (Kind::POD, "Failed", "Failed"),
            (Kind::POD, "Running", ""),
            (Kind::POD, "", ""),
            (Kind::NAMESPACE, "Failed", ""),
        ] {
            let object = json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
            let object = podstorm_objects::DynamicObject::from_json(kind, object).unwrap();
            let row = row(kind, &object, "meta.k8s.io/v1", Include::None, now);
            assert_eq!(
                row["conditions"][0]["reason"].as_str().unwrap_or(""),
                reason,
                "{phase}"
            );
        }
    }
}
