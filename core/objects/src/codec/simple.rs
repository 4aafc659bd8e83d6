//! JSON of namespaces.

use super::open;
use crate::decode::{DecodeError, Path};
use crate::json::JsonValue;
use crate::shape::{Shape, check};
use crate::{Kind, Map, Namespace, Resource};

const NAMESPACE: Shape = Shape::Object(&[
    (
        "spec",
        Shape::Object(&[("finalizers", Shape::List(&Shape::Text))]),
    ),
    (
        "status",
        Shape::Object(&[
            ("conditions", Shape::List(&Shape::ANY_OBJECT)),
            ("phase", Shape::Text),
        ]),
    ),
]);

object!(Namespace, |namespace, out| {
    let mut fields = namespace.fields.clone();
    let phase = fields.get("status").and_then(|status| status.get("phase"));
    // A typed member that was changed after reading takes precedence.
    if namespace.terminating != phase.is_some_and(|phase| phase == "Terminating") {
        let phase = if namespace.terminating {
            "Terminating"
        } else {
            "Active"
        };
        let entry = fields.entry("status").or_insert_with(|| Map::new().into());
        if let Some(status) = entry.as_object_mut() {
            status.insert("phase".into(), phase.into());
        }
    }
    out.put_members(&fields);
});

impl Resource for Namespace {
    const KIND: Kind = Kind::NAMESPACE;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let (members, metadata) = open(value, Kind::NAMESPACE)?;
        let fields = members.left_to_map();
        check(value, &NAMESPACE, &Path::ROOT)?;
        let phase = fields.get("status").and_then(|status| status.get("phase"));
        Ok(Namespace {
            terminating: phase.is_some_and(|phase| phase == "Terminating"),
            metadata,
            fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::round_trip;
    use super::*;
    use crate::Object;

    #[test]
    fn namespaces_round_trip() {
        assert!(NAMESPACE.is_sorted());
        let namespace: Namespace = round_trip(&json!({"metadata": {"name": "shop"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}}));
        assert!(namespace.terminating);
    }

    #[test]
    fn a_namespace_writes_its_current_phase() {
        let namespace = Namespace {
            terminating: true,
            ..Namespace::default()
        };
        let written = namespace.to_json();
        assert_eq!(written["status"], json!({"phase": "Terminating"}));
        let mut read = Namespace::from_json(written).unwrap();
        read.terminating = false;
        assert_eq!(read.to_json()["status"], json!({"phase": "Active"}));
    }
}
