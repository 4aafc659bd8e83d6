//! The API's verbs as one method each, for steps that need a result instead of an [`Answer`].

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{
    AnyObject, ApiError, DeleteOptions, Kind, Object, ObjectMeta, ObjectReference, OwnerPatch, Str,
};

use super::{Calls, SyncFailure};
use crate::client::{Answer, EventIntent, EventMessage, EventType, Patch, Request};

impl SyncFailure {
    /// Creates a failure that a retry may fix.
    pub fn new(label: &'static str, message: impl Into<String>) -> SyncFailure {
        SyncFailure {
            label,
            message: message.into(),
            is_final: false,
        }
    }

    /// Returns a function for `map_err` that turns an API error into the failure of a step.
    pub fn at(label: &'static str) -> impl Fn(ApiError) -> SyncFailure {
        move |error| SyncFailure::new(label, error.message)
    }
}

/// Returns `None` if the call failed because its object does not exist.
///
/// # Errors
/// Returns any other error of the call.
pub fn unless_gone<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Err(error) if error.is_not_found() => Ok(None),
        result => result.map(Some),
    }
}

impl Calls {
    /// Makes an API call and waits for its answer.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn send(&self, request: Request) -> Result<Answer, ApiError> {
        match self.request(request).await {
            Answer::Failed(error) => Err(error),
            answer => Ok(answer),
        }
    }

    /// Reads an object from the server.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn read(
        &self,
        kind: Kind,
        namespace: &Str,
        name: &str,
    ) -> Result<AnyObject, ApiError> {
        let (namespace, name) = (namespace.clone(), CompactString::from(name));
        let get = Request::Get {
            kind,
            namespace,
            name,
        };
        self.object(get).await
    }

    /// Reads an object from the server as its type.
    ///
    /// # Errors
    /// Returns the server's error.
    ///
    /// # Panics
    /// Panics if objects of the kind are stored as another type.
    pub async fn get<T: Object>(
        &self,
        kind: Kind,
        namespace: &Str,
        name: &str,
    ) -> Result<Arc<T>, ApiError> {
        self.read(kind, namespace, name).await.map(typed)
    }

    /// Creates an object. Returns the object as stored.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn create(&self, object: impl Object) -> Result<AnyObject, ApiError> {
        let object: AnyObject = Arc::new(object);
        self.object(Request::Create { object }).await
    }

    /// Replaces an object, except for its status, at the version that it carries. Returns the
    /// object as stored.
    ///
    /// # Errors
    /// Returns the server's error.
    ///
    /// # Panics
    /// Panics if objects of the kind are stored as another type.
    pub async fn put<T: Object>(&self, object: T) -> Result<Arc<T>, ApiError> {
        let object: AnyObject = Arc::new(object);
        self.object(Request::Put { object }).await.map(typed)
    }

    /// Replaces the status of an object, at the version that the object carries. Returns the object
    /// as stored.
    ///
    /// # Errors
    /// Returns the server's error.
    ///
    /// # Panics
    /// Panics if objects of the kind are stored as another type.
    pub async fn put_status<T: Object>(&self, object: T) -> Result<Arc<T>, ApiError> {
        let object: AnyObject = Arc::new(object);
        self.object(Request::PutStatus { object }).await.map(typed)
    }

    /// Patches an object. Returns the object as stored.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn patch(
        &self,
        kind: Kind,
        meta: &ObjectMeta,
        patch: Patch,
        of_status: bool,
    ) -> Result<AnyObject, ApiError> {
        let patch = Request::Patch {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            patch: Box::new(patch),
            of_status,
        };
        self.object(patch).await
    }

    /// Changes the owner references of an object. Returns the object as stored.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn patch_owners(
        &self,
        kind: Kind,
        meta: &ObjectMeta,
        patch: OwnerPatch,
    ) -> Result<AnyObject, ApiError> {
        let patch = Request::PatchOwners {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            patch,
        };
        self.object(patch).await
    }

    /// Deletes an object by name.
    ///
    /// # Errors
    /// Returns the server's error.
    pub async fn delete(
        &self,
        kind: Kind,
        meta: &ObjectMeta,
        options: Option<DeleteOptions>,
    ) -> Result<(), ApiError> {
        let delete = Request::Delete {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            options: options.map(Box::new),
        };
        self.send(delete).await.map(drop)
    }

    /// Records an Event about an object.
    pub fn report(
        &self,
        object: &dyn Object,
        kind: EventType,
        reason: &'static str,
        text: impl AsRef<str>,
    ) {
        let reference = ObjectReference::new(object.kind(), object.metadata());
        self.event(EventIntent {
            regarding: Arc::new(reference),
            kind,
            reason,
            message: EventMessage::Text(text.as_ref().into()),
        });
    }

    async fn object(&self, request: Request) -> Result<AnyObject, ApiError> {
        match self.send(request).await? {
            Answer::Object(object) => Ok(object),
            Answer::Pod(pod) => Ok(pod),
            other => panic!("{other:?} does not answer this verb"),
        }
    }
}

fn typed<T: Object>(object: AnyObject) -> Arc<T> {
    let kind = object.kind();
    let read = object.downcast();
    read.unwrap_or_else(|| panic!("a {} was read as another type", kind.name()))
}
