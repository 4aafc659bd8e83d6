//! The interface of all objects, and the type of an object of any kind.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::json::{JsonValue, Tape, Writer};
use super::{DecodeError, Kind, ObjectMeta, ReadError};

/// The interface of every object.
pub trait Object: Any + Debug + Send + Sync {
    /// Returns the object's kind.
    fn kind(&self) -> Kind;

    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the object's metadata, to be changed before the object is published.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Writes the JSON form, including `apiVersion` and `kind`. Unset members are omitted.
    fn write_json(&self, out: &mut Writer);

    /// Returns the JSON form as a tree. O(bytes): the text is written, then parsed.
    fn to_json(&self) -> Value {
        let mut out = Writer::new();
        self.write_json(&mut out);
        out.to_value()
    }
}

/// An object whose kind has its own Rust type.
pub trait Resource: Object + Clone {
    /// The kind of this type.
    const KIND: Kind;

    /// Reads an object. `apiVersion` and `kind` may be absent. Members without a typed field are
    /// carried in `rest`.
    ///
    /// # Errors
    /// Fails for a member of a wrong type or with an unreadable value. The error has its path.
    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError>;

    /// Reads an object from its JSON text: one pass over the text and a short one over its values.
    ///
    /// # Errors
    /// Fails if the text is not JSON or has a duplicate member, or if [`read`](Resource::read)
    /// fails.
    fn from_slice(text: &[u8]) -> Result<Self, ReadError> {
        Ok(Self::read(Tape::from_slice(text)?.root())?)
    }

    /// Reads an object from a tree; see [`read`](Resource::read).
    ///
    /// # Errors
    /// The same as [`read`](Resource::read).
    fn from_json(value: Value) -> Result<Self, DecodeError> {
        Self::read(Tape::new(&value).root())
    }
}

/// A shared object of any kind. An `Arc` of any object type converts to it.
pub type AnyObject = Arc<dyn Object>;

impl dyn Object {
    /// Returns the object with its Rust type; `None` if it has another type.
    pub fn downcast<T: Object>(self: Arc<Self>) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }

    /// Returns a reference to the object with its Rust type; `None` if it has another type.
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
    fn an_object_of_any_kind_downcasts_to_its_type() {
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
