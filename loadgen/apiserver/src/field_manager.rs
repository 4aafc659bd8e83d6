//! Field managers: clients that own fields of an object, and the interface that records this.

use std::fmt::Debug;

use podstorm_objects::{ApiError, Kind, Map, Object};
use serde_json::Value;

use crate::store::counts::{Verb, WriteEffects};

/// Records the owners of written fields (`metadata.managedFields`).
pub trait FieldManager: Debug + Sync {
    /// Called with an object before it is written, and with the stored object. The object is as the
    /// client sent it, but with defaults. Called again if another writer was faster.
    fn written(&self, old: Option<&dyn Object>, new: &mut dyn Object);

    /// Returns the kind in the request, which may be another version of the stored kind. It
    /// determines how often the metadata is validated.
    fn kind(&self) -> Option<Kind> {
        None
    }

    /// Called with a patched document before it is decoded as an object. May normalize the
    /// document. `patch` has the members of a merge patch and whether it is strategic; it is `None`
    /// for a JSON patch.
    ///
    /// # Errors
    /// The response to the request.
    fn patched(&self, _patch: Option<(&Map, bool)>, _document: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Adds the empty fields that clients see to the document of a stored object, because a patch
    /// may refer to them.
    fn complete(&self, _document: &mut Value) {}

    /// Like [`written`](FieldManager::written), for a status that the server itself writes as a
    /// result of the request.
    fn written_by_server(&self, old: Option<&dyn Object>, new: &mut dyn Object);
}

/// How a request writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing<'a> {
    pub(crate) effects: WriteEffects,
    pub(crate) manager: Manager<'a>,
}

impl Writing<'_> {
    /// A write of a controller in this process.
    pub(crate) const fn unmanaged(verb: Verb) -> Writing<'static> {
        Writing {
            effects: WriteEffects::for_verb(verb),
            manager: None,
        }
    }
}

/// The manager for the writes that the server itself makes as a result of a client's request.
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

/// The manager that records ownership; `None` for writes by controllers in this process.
pub(crate) type Manager<'a> = Option<&'a dyn FieldManager>;
