//! Sources for informers: list and watch of pods by their type, or of any kind.

use std::sync::Arc;

use podstorm::client::{ApiError, WatchEvent};
use podstorm_apiserver::{AnyWatch, Cluster, ListOptions, Poll, Watch, WatchFrom, WatchOptions};
use podstorm_objects::{Kind, Now, Object, Pod, ResourceVersion};

/// The objects of a list, and its version.
pub(super) type Listed<T> = Result<(Vec<Arc<T>>, ResourceVersion), ApiError>;

/// The list and watch operations for one kind.
pub(super) trait Source: Send {
    type Object: Object + ?Sized;
    type Watch: Send;

    fn list(&self) -> Listed<Self::Object>;
    fn list_as_of(&self, version: u64) -> Listed<Self::Object>;
    fn last_version(&self) -> u64;
    fn watch(&self, from: WatchFrom, options: WatchOptions) -> Result<Self::Watch, ApiError>;
    fn poll(
        watch: &mut Self::Watch,
        max: usize,
        now: Now,
        events: &mut Vec<WatchEvent<Self::Object>>,
    ) -> Poll;
}

/// The source of pods. It uses the pod type instead of trait objects, because most events are pod
/// events.
pub(super) struct PodSource(pub(super) Arc<Cluster>);

impl Source for PodSource {
    type Object = Pod;
    type Watch = Watch<Pod>;

    fn list(&self) -> Listed<Pod> {
        Ok(self.0.list(None))
    }

    fn list_as_of(&self, version: u64) -> Listed<Pod> {
        self.0.list_as_of(None, version)
    }

    fn last_version(&self) -> u64 {
        self.0.last_version::<Pod>()
    }

    fn watch(&self, from: WatchFrom, options: WatchOptions) -> Result<Watch<Pod>, ApiError> {
        self.0.watch(from, options)
    }

    fn poll(
        watch: &mut Watch<Pod>,
        max: usize,
        now: Now,
        events: &mut Vec<WatchEvent<Pod>>,
    ) -> Poll {
        watch.poll(max, now, events)
    }
}

/// The source of objects of any kind.
pub(super) struct KindSource(pub(super) Arc<Cluster>, pub(super) Kind);

impl Source for KindSource {
    type Object = dyn Object;
    type Watch = AnyWatch;

    fn list(&self) -> Listed<dyn Object> {
        let page = self.0.api(self.1).list(&ListOptions::default())?;
        Ok((page.items, page.resource_version))
    }

    fn list_as_of(&self, version: u64) -> Listed<dyn Object> {
        self.0.api(self.1).list_as_of(version)
    }

    fn last_version(&self) -> u64 {
        // A kind that is not served has no versions.
        self.0.api(self.1).last_version().unwrap_or(0)
    }

    fn watch(&self, from: WatchFrom, options: WatchOptions) -> Result<AnyWatch, ApiError> {
        self.0.api(self.1).watch(from, options)
    }

    fn poll(
        watch: &mut AnyWatch,
        max: usize,
        now: Now,
        events: &mut Vec<WatchEvent<dyn Object>>,
    ) -> Poll {
        watch.poll(max, now, events)
    }
}
