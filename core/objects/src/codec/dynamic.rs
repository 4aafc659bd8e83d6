//! JSON of objects whose kind has no Rust type.

use serde_json::Value;

use super::{open, put_kind};
use crate::decode::{DecodeError, Path};
use crate::json::{JsonValue, Tape, Writer};
use crate::shape::check;
use crate::{DynamicObject, Kind, Object, ObjectMeta};

impl DynamicObject {
    /// Reads an object of this kind from its JSON form. `apiVersion` and `kind` may be absent.
    ///
    /// # Errors
    /// Fails if the value is not an object, the object is of another kind, or a member has a wrong
    /// type.
    pub fn from_json(kind: Kind, value: Value) -> Result<DynamicObject, DecodeError> {
        DynamicObject::read(kind, Tape::new(&value).root())
    }

    /// Like [`from_json`](DynamicObject::from_json), for a value on a tape.
    ///
    /// # Errors
    /// The same as [`from_json`](DynamicObject::from_json).
    pub fn read(kind: Kind, value: JsonValue<'_>) -> Result<DynamicObject, DecodeError> {
        let (members, metadata) = open(value, kind)?;
        let mut object = DynamicObject::new(kind);
        object.metadata = metadata;
        check(value, &kind.row().rules.shape, &Path::ROOT)?;
        object.fields = members.left_to_map();
        Ok(object)
    }
}

impl Object for DynamicObject {
    fn kind(&self) -> Kind {
        DynamicObject::kind(self)
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn write_json(&self, out: &mut Writer) {
        out.object(|out| {
            put_kind(out, self.kind());
            out.member("metadata", |out| out.object(|out| self.metadata.write(out)));
            out.put_members(&self.fields);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ResourceType;

    #[test]
    fn members_without_a_type_are_carried_unchanged() {
        let kind = Kind::define(ResourceType {
            group: "example.com",
            api_version: "example.com/v1",
            kind: "Widget",
            resource: "widgets",
            ..ResourceType::DEFAULT
        });
        let value = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "labels": {"a": "b"}},
            "spec": {"size": 3, "parts": [{"name": "x"}, null]}, "data": {"k": ""},
        });
        let read = DynamicObject::from_json(kind, value.clone()).unwrap();
        assert_eq!(read.metadata.name, "w");
        assert_eq!(read.to_json(), value);
        let other = json!({"apiVersion": "v1", "kind": "Widget"});
        let refused = DynamicObject::from_json(kind, other).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the object: expected example.com/v1 Widget, found v1 Widget"
        );
    }
}
