//! The request that a handler answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use podstorm_apiserver::{Api, Cluster};
use podstorm_objects::{Kind, Now};

use crate::catalog::Catalog;
use crate::credentials::User;
use crate::media::Accepted;
use crate::query::Query;
use crate::server::ApiServer;
use crate::view;

/// A request in progress.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a ApiServer,
    /// The authenticated sender.
    pub(crate) user: &'a User,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    pub(crate) now: Now,
    /// The catalog at the time of the request.
    pub(crate) catalog: Arc<Catalog>,
}

impl Call<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        self.server.cluster()
    }

    /// Returns the API of the stored kind: objects of `kind` may be stored in another version.
    pub(crate) fn api(&self, kind: Kind) -> Api<'_> {
        self.cluster().api(view::stored_kind(kind))
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}
