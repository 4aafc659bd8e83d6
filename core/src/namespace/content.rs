//! The deletion of all objects of one kind in a namespace.
//!
//! Source: `deleteAllContentForGroupVersionResource` in Kubernetes' `pkg/controller/namespace/deletion`.

use std::collections::BTreeMap;

use podstorm_objects::{
    AnyObject, ApiError, DeleteOptions, Kind, ObjectMeta, Pod, Propagation, Str,
};
use podstorm_runtime::client::{Answer, DiscoveredKind, Request, Selection};
use podstorm_runtime::driver::Calls;

/// The estimated time, in s, until objects with finalizers are gone.
const FINALIZERS_TAKE: i64 = 15;

/// The objects to delete: those of one kind in one namespace.
pub(super) struct Deletion<'a> {
    /// The kind of the objects.
    pub(super) found: &'a DiscoveredKind,
    /// The namespace of the objects, which is being deleted.
    pub(super) namespace: &'a ObjectMeta,
}

/// The result of deleting the objects of one kind.
#[derive(Default)]
pub(super) struct Deleted {
    /// The estimated time in s until the remaining objects are gone; 0 if there are none.
    pub(super) estimate: i64,
    pub(super) remaining: usize,
    /// The number of remaining objects that have each finalizer.
    pub(super) by_finalizer: BTreeMap<String, usize>,
    pub(super) error: Option<String>,
}

/// Deletes the objects of one kind and reads the remaining ones.
pub(super) async fn delete_all(deletion: &Deletion<'_>, calls: &Calls) -> Deleted {
    let mut deleted = Deleted::default();
    if let Err(error) = deletion.carry_out(calls, &mut deleted).await {
        deleted.error = Some(error);
    }
    deleted
}

impl Deletion<'_> {
    async fn carry_out(&self, calls: &Calls, deleted: &mut Deleted) -> Result<(), String> {
        let kind = self.found.kind;
        let mut estimate = 0;
        if kind == Kind::POD {
            estimate = self.estimate(&self.list(calls).await?, calls);
        }
        deleted.estimate = estimate;
        if !self.delete_collection(calls).await? {
            for object in self.list(calls).await? {
                self.delete(&object, calls).await?;
            }
        }
        let left = self.list(calls).await?;
        if left.is_empty() {
            deleted.estimate = 0;
            return Ok(());
        }
        deleted.remaining = left.len();
        for finalizer in left
            .iter()
            .flat_map(|object| object.metadata().finalizers())
        {
            *deleted
                .by_finalizer
                .entry(finalizer.to_string())
                .or_default() += 1;
        }
        if estimate > 0 {
            return Ok(());
        }
        if !deleted.by_finalizer.is_empty() {
            deleted.estimate = FINALIZERS_TAKE;
            return Ok(());
        }
        // The core group has an empty name, but upstream writes the slash after it.
        let version = kind.api_version().rsplit('/').next().unwrap_or_default();
        Err(format!(
            "unexpected items still remain in namespace: {} for gvr: {}/{version}, Resource={}",
            self.namespace.name,
            kind.group(),
            kind.resource()
        ))
    }

    /// Estimates how long, in s, pods may continue to run: the longest of their grace periods, or 0
    /// if that time has passed since the start of the namespace's deletion.
    fn estimate(&self, pods: &[AnyObject], calls: &Calls) -> i64 {
        let estimate = pods.iter().map(grace_seconds).max().unwrap_or(0);
        let now_ns = calls.now().wall_ns;
        let begun_ns = self.namespace.deletion_timestamp.unix_nanos();
        let since_ns = now_ns - begun_ns.unwrap_or(now_ns);
        match since_ns >= estimate.saturating_mul(1_000_000_000) {
            true => 0,
            false => estimate,
        }
    }

    fn namespace(&self) -> Str {
        self.namespace.name.as_str().into()
    }

    async fn list(&self, calls: &Calls) -> Result<Vec<AnyObject>, String> {
        let request = Request::List {
            kind: self.found.kind,
            namespace: self.namespace(),
            selection: Selection::default(),
        };
        match calls.request(request).await {
            Answer::List { items, .. } => Ok(items),
            Answer::Failed(error) => Err(error.message),
            other => panic!("a list can't be answered by {other:?}"),
        }
    }

    /// Deletes the collection in one request. Returns whether the server supports that.
    async fn delete_collection(&self, calls: &Calls) -> Result<bool, String> {
        if !self.found.has("deletecollection") {
            return Ok(false);
        }
        let request = Request::DeleteCollection {
            kind: self.found.kind,
            namespace: self.namespace(),
            selection: Selection::default(),
            options: background(),
        };
        match calls.request(request).await {
            Answer::Failed(error) if is_unsupported(&error) => Ok(false),
            Answer::Failed(error) => Err(error.message),
            _ => Ok(true),
        }
    }

    async fn delete(&self, object: &AnyObject, calls: &Calls) -> Result<(), String> {
        let request = Request::Delete {
            kind: self.found.kind,
            namespace: self.namespace(),
            name: object.metadata().name.clone(),
            options: background(),
        };
        match calls.request(request).await {
            Answer::Failed(error) if !is_unsupported(&error) => Err(error.message),
            _ => Ok(()),
        }
    }
}

fn background() -> Option<Box<DeleteOptions>> {
    Some(Box::new(DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    }))
}

/// Reports whether the object no longer exists or the server does not support the request.
fn is_unsupported(error: &ApiError) -> bool {
    matches!(error.code, 404 | 405)
}

/// Returns the grace period of a pod in s; 0 if the pod has ended or has none.
fn grace_seconds(pod: &AnyObject) -> i64 {
    let pod = pod.downcast_ref::<Pod>();
    let running = pod.filter(|pod| !pod.status.phase.is_terminal());
    let grace = running.and_then(|pod| pod.spec.termination_grace_period_seconds);
    grace.unwrap_or(0)
}
