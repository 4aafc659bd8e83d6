//! JSON of namespaces.

use super::{open, put_kind};
use crate::decode::{DecodeError, Path};
use crate::json::{JsonValue, Writer};
use crate::shape::{Shape, check};
use crate::{Kind, Map, Namespace, Object, ObjectMeta, Resource};

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

impl Object for Namespace {
    fn kind(&self) -> Kind {
        Self::KIND
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn write_json(&self, out: &mut Writer) {
        let mut fields = self.fields.clone();
        let phase = fields.get("status").and_then(|status| status.get("phase"));
        // A typed member that was changed after reading wins.
        if self.terminating != phase.is_some_and(|phase| phase == "Terminating") {
            let phase = if self.terminating {
                "Terminating"
            } else {
                "Active"
            };
            let entry = fields.entry("status").or_insert_with(|| Map::new().into());
            if let Some(status) = entry.as_object_mut() {
                status.insert("phase".into(), phase.into());
            }
        }
        out.object(|out| {
            put_kind(out, Kind::NAMESPACE);
            out.member("metadata", |out| out.object(|out| self.metadata.write(out)));
            out.put_members(&fields);
        });
    }
}

impl Resource for Namespace {
    const KIND: Kind = Kind::NAMESPACE;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let mut members = open(value, Kind::NAMESPACE)?;
        let metadata = members
            .child("metadata", ObjectMeta::read)?
            .unwrap_or_default();
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

    #[test]
    fn namespaces_round_trip() {
        assert!(NAMESPACE.is_sorted());
        let namespace: Namespace = round_trip(&json!({"metadata": {"name": "shop"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}}));
        assert!(namespace.terminating);
    }

    #[test]
    fn a_namespace_writes_the_phase_it_has_now() {
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
