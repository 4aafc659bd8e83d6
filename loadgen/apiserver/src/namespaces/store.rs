//! The requests of the namespace controller, carried out on a cluster.

use std::sync::atomic::Ordering;

use podstorm_objects::{AnyObject, ApiError, Kind, Namespace, Now, Pod};

use super::{Content, ContentType, Discovery, NamespaceApi};
use crate::{Cluster, DeleteOptions, ListOptions, Propagation};

/// A cluster as the API of one namespace's syncs.
#[derive(Debug)]
pub struct StoreApi<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The name of the namespace.
    pub name: &'a str,
    /// The time of the requests.
    pub now: Now,
}

fn background() -> DeleteOptions {
    DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    }
}

impl NamespaceApi for StoreApi<'_> {
    type Kind = Kind;

    fn get(&mut self) -> Result<Namespace, ApiError> {
        // Relaxed: see `Cluster::notify_namespaces`.
        self.cluster
            .terminations
            .seen
            .store(true, Ordering::Relaxed);
        let found = self.cluster.get::<Namespace>("", self.name)?;
        Ok(Namespace::clone(&found))
    }

    fn put_status(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError> {
        let written = self.cluster.update_status(namespace.clone(), self.now)?;
        Ok(Namespace::clone(&written))
    }

    fn finalize(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError> {
        let written = self.cluster.finalize(namespace.clone(), false, self.now)?;
        Ok(Namespace::clone(&written))
    }

    fn discover(&mut self) -> Discovery<Kind> {
        let kinds = self.cluster.kinds().into_iter();
        let types = kinds.filter(|kind| kind.is_namespaced()).map(|kind| {
            let version = kind.api_version().rsplit('/').next().unwrap_or_default();
            ContentType {
                kind,
                group: kind.group().to_owned(),
                version: version.to_owned(),
                resource: kind.resource().to_owned(),
                deletes_collections: true,
            }
        });
        Discovery {
            types: types.collect(),
            failed: None,
            unparsable: None,
        }
    }

    fn list(&mut self, of: &ContentType<Kind>) -> Result<Vec<Content>, ApiError> {
        let page = self.cluster.api(of.kind).list(&ListOptions {
            namespace: Some(self.name),
            ..ListOptions::default()
        })?;
        Ok(page.items.iter().map(content).collect())
    }

    fn delete_collection(&mut self, of: &ContentType<Kind>) -> Result<(), ApiError> {
        let (namespace, options) = (Some(self.name), background());
        let api = self.cluster.api(of.kind);
        api.delete_collection(namespace, &|_| true, &options, self.now)
            .map(drop)
    }

    fn delete(&mut self, of: &ContentType<Kind>, name: &str) -> Result<(), ApiError> {
        let api = self.cluster.api(of.kind);
        api.delete(self.name, name, &background(), self.now)
            .map(drop)
    }
}

fn content(object: &AnyObject) -> Content {
    let metadata = object.metadata();
    let pod = object.downcast_ref::<Pod>();
    let running = pod.filter(|pod| !pod.status.phase.is_terminal());
    let grace = running.and_then(|pod| pod.spec.termination_grace_period_seconds);
    Content {
        name: metadata.name.to_string(),
        finalizers: metadata
            .finalizers()
            .iter()
            .map(ToString::to_string)
            .collect(),
        grace_seconds: grace.unwrap_or(0),
    }
}
