//! The interface of all objects, and an object of any kind.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::json::{JsonValue, Tape, Writer};
use super::{DecodeError, Kind, ObjectMeta, ReadError};

/// The interface of every object, whatever its type.
pub trait Object: Any + Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> Kind;

    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Its metadata, to change before it is published.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Writes its JSON form, `apiVersion` and `kind` included. Unset members are left out.
    fn write_json(&self, out: &mut Writer);

    /// Its JSON form as a tree. O(bytes): the text is written, then parsed.
    fn to_json(&self) -> Value {
        let mut out = Writer::new();
        self.write_json(&mut out);
        out.to_value()
    }
}

/// An object whose kind has a type of its own.
pub trait Resource: Object + Clone {
    /// The kind of this type.
    const KIND: Kind;

    /// Reads an object. `apiVersion` and `kind` may be absent; fields without a typed place are
    /// carried in `rest`.
    ///
    /// # Errors
    /// A field of a wrong type or an unreadable value, with its path.
    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError>;

    /// Reads an object from its JSON text: one pass over the text and a short one over its values.
    ///
    /// # Errors
    /// Where the text is not JSON or gives a member twice; then as [`read`](Resource::read).
    fn from_slice(text: &[u8]) -> Result<Self, ReadError> {
        Ok(Self::read(Tape::from_slice(text)?.root())?)
    }

    /// Reads an object from a tree. As [`read`](Resource::read).
    ///
    /// # Errors
    /// As [`read`](Resource::read).
    fn from_json(value: Value) -> Result<Self, DecodeError> {
        Self::read(Tape::of(&value).root())
    }
}

/// An object of any kind, shared. An `Arc` of any object type converts to it.
pub type AnyObject = Arc<dyn Object>;

impl dyn Object {
    /// Returns the object itself, if it is of that type.
    pub fn downcast<T: Object>(self: Arc<Self>) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }

    /// Returns a reference to the object itself, if it is of that type.
    pub fn downcast_ref<T: Object>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

impl PartialEq for dyn Object {
    /// Compares the JSON forms, unless both are the same object in memory.
    fn eq(&self, other: &dyn Object) -> bool {
        std::ptr::addr_eq(self, other) || (self.kind() == other.kind() && text(self) == text(other))
    }
}

fn text(object: &dyn Object) -> String {
    let mut out = Writer::new();
    object.write_json(&mut out);
    out.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, Pod};

    #[test]
    fn an_object_of_any_kind_is_given_back_as_what_it_is() {
        let pod = Arc::new(Pod::default());
        let any: AnyObject = pod.clone();
        assert_eq!(any.kind(), Kind::POD);
        assert!(Arc::ptr_eq(&any.clone().downcast::<Pod>().unwrap(), &pod));
        assert!(std::ptr::eq(any.downcast_ref::<Pod>().unwrap(), &*pod));
        assert!(any.downcast::<Namespace>().is_none());
    }

    #[test]
    fn objects_are_equal_when_all_their_members_are() {
        let named = |name: &str| -> AnyObject {
            let mut pod = Pod::default();
            pod.metadata.name = name.into();
            Arc::new(pod)
        };
        assert!(*named("a") == *named("a"));
        assert!(*named("a") != *named("b"));
        let other: AnyObject = Arc::new(Namespace::default());
        assert!(*named("") != *other);
    }
}
