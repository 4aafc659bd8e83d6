//! Field managers: which client owns which fields of an object, and what records it.

use std::fmt::Debug;

use podstorm_objects::{ApiError, Kind, Map, Object};
use serde_json::Value;

/// Notes who owns which fields of what is written (`metadata.managedFields`).
pub trait FieldManager: Debug + Sync {
    /// Called with an object that is about to be written, with its defaults and as the client sent it
    /// otherwise, and with the stored object. Called again where another writer was faster.
    fn written(&self, old: Option<&dyn Object>, new: &mut dyn Object);

    /// The kind that the request names, which may be another version of the stored one: it says how often the
    /// rules look at metadata.
    fn kind(&self) -> Option<Kind> {
        None
    }

    /// Called with the document that a patch has made, before it is read as an object. It may be brought into
    /// form. `patch` has the members of one that is merged, with whether it is strategic; a JSON patch has
    /// none.
    ///
    /// # Errors
    /// What the request is answered with then.
    fn patched(&self, _patch: Option<(&Map, bool)>, _document: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Adds the members to the document of a stored object that clients are shown although they are empty:
    /// patches may be about them.
    fn complete(&self, _document: &mut Value) {}

    /// As [`written`](FieldManager::written), of a status that the server itself writes because of the
    /// request.
    fn written_by_server(&self, old: Option<&dyn Object>, new: &mut dyn Object);
}

/// What the server itself writes because of somebody's request.
#[derive(Debug)]
pub(crate) struct ByServer<'a>(pub(crate) &'a dyn FieldManager);

impl FieldManager for ByServer<'_> {
    fn written(&self, old: Option<&dyn Object>, new: &mut dyn Object) {
        self.0.written_by_server(old, new);
    }

    fn written_by_server(&self, old: Option<&dyn Object>, new: &mut dyn Object) {
        self.0.written_by_server(old, new);
    }
}

/// The manager that records it; none for what controllers in this process write.
pub(crate) type Manager<'a> = Option<&'a dyn FieldManager>;
