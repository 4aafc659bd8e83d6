//! Test helpers.

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Namespace, Now, Pod, PodPhase, ReplicaSet, Resource, Str, WatchEvent,
};
use serde_json::{Value, json};

use super::{
    Cluster, ClusterOptions, ClusterResource, DeleteOptions, Watch, WatchFrom, WatchOptions,
};

/// The Unix time at which tests start.
pub(super) const EPOCH: i64 = 1_700_000_000;

/// Returns the time `seconds` after the start of the test.
pub(super) fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * 1_000_000_000,
        wall_ns: (EPOCH + seconds) * 1_000_000_000,
    }
}

/// Creates a cluster with the namespaces `default` and `other`.
pub(super) fn cluster() -> Cluster {
    cluster_with(ClusterOptions {
        seed: 1,
        ..ClusterOptions::default()
    })
}

/// Like [`cluster`], with the given options.
pub(super) fn cluster_with(options: ClusterOptions) -> Cluster {
    let cluster = Cluster::new(options);
    for name in ["default", "other"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = name.into();
        cluster
            .create(namespace, at(0))
            .expect("the namespace is new");
    }
    cluster
}

/// Decodes an object or panics.
pub(super) fn read<R: Resource>(value: Value) -> R {
    R::from_json(value).expect("the object is well formed")
}

/// Returns `value` with `patch` merged in.
pub(super) fn merged(value: Value, patch: Value) -> Value {
    let (Value::Object(mut value), Value::Object(patch)) = (value, patch) else {
        panic!("both are maps");
    };
    super::json_merge(&mut value, &patch);
    Value::Object(value)
}

/// Parses a table of cases, separated by blank lines. A case is JSON, and below it the expected
/// problems, or their beginnings, each after `> `.
pub(super) fn cases(table: &str) -> Vec<(Value, Vec<&str>)> {
    let cases = table.trim().split("\n\n").map(|case| {
        let mut lines = case.split("\n> ");
        let value = serde_json::from_str(lines.next().unwrap_or_default());
        (value.expect(case), lines.collect())
    });
    cases.collect()
}

/// Asserts that each string starts as expected.
pub(super) fn assert_starts(found: &[String], starts: &[impl AsRef<str>], case: &Value) {
    assert_eq!(found.len(), starts.len(), "{case}: {found:?}");
    for (found, start) in found.iter().zip(starts) {
        let start = start.as_ref();
        assert!(
            found.starts_with(start),
            "{found} should start with {start}"
        );
    }
}

/// Returns a pod in `default` with `patch` merged in.
pub(super) fn pod(name: &str, patch: Value) -> Pod {
    let value = json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
    });
    read(merged(value, patch))
}

/// Returns a ReplicaSet in `default` with `patch` merged in.
pub(super) fn replica_set(name: &str, patch: Value) -> ReplicaSet {
    read(merged(
        workload(name, json!({"matchLabels": {"app": "web"}})),
        patch,
    ))
}

/// Returns a workload with this selector, as JSON.
pub(super) fn workload(name: &str, selector: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": selector,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x:1"}]},
            },
        },
    })
}

/// Returns an entry of `ownerReferences` that names `owner`.
pub(super) fn owned_by<R: ClusterResource>(owner: &R, controller: bool, blocks: bool) -> Value {
    let metadata = owner.metadata();
    json!({
        "apiVersion": R::KIND.api_version(),
        "kind": R::KIND.name(),
        "name": metadata.name.as_str(),
        "uid": metadata.uid.to_string(),
        "controller": controller,
        "blockOwnerDeletion": blocks,
    })
}

/// Returns a pod in `default` with these owners.
pub(super) fn owned_pod(name: &str, owners: Value) -> Pod {
    pod(name, json!({"metadata": {"ownerReferences": owners}}))
}

/// Creates a pod and binds it.
pub(super) fn bound_pod(cluster: &Cluster, name: &str, patch: Value) -> Arc<Pod> {
    cluster
        .create(pod(name, patch), at(0))
        .expect("the pod is valid");
    cluster
        .bind("default", name, &Str::from("n1"), at(0))
        .expect("the pod is unbound")
}

/// Returns the options of a deletion without a grace period.
pub(super) fn forced() -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    }
}

/// Sets a pod's phase.
pub(super) fn set_phase(cluster: &Cluster, pod: &Pod, phase: PodPhase) -> Arc<Pod> {
    let mut pod = pod.clone();
    pod.status.phase = phase;
    cluster
        .update_status(pod, at(0))
        .expect("the status is valid")
}

/// Opens a watch of all events from now on.
pub(super) fn watch<R: ClusterResource>(cluster: &Cluster) -> Watch<R> {
    let from = WatchFrom::Version(cluster.resource_version());
    cluster
        .watch(from, WatchOptions::default())
        .expect("the version is current")
}

/// Returns all events of a watch in short form: `ADDED name version`, ...
pub(super) fn drain<R: ClusterResource>(watch: &mut Watch<R>) -> Vec<String> {
    events(watch).iter().map(word).collect()
}

/// Returns all events of a watch.
pub(super) fn events<R: ClusterResource>(watch: &mut Watch<R>) -> Vec<WatchEvent<R>> {
    let mut out = Vec::new();
    while watch.poll(100, at(0), &mut out).more {}
    out
}

/// Formats an event in short form.
pub(super) fn word<R: ClusterResource>(event: &WatchEvent<R>) -> String {
    let object = |word: &str, object: &R| {
        let metadata = object.metadata();
        format!("{word} {} {}", metadata.name, metadata.resource_version)
    };
    match event {
        WatchEvent::Added(it) => object("ADDED", it),
        WatchEvent::Modified(it) => object("MODIFIED", it),
        WatchEvent::Deleted(it) => object("DELETED", it),
        WatchEvent::Bookmark {
            version,
            initial_events_end: false,
        } => {
            format!("BOOKMARK {version}")
        }
        WatchEvent::Bookmark { version, .. } => format!("SYNCED {version}"),
        WatchEvent::Error(error) => format!("ERROR {}", error.code),
    }
}

/// Returns an expected error in short form: `409 Conflict`.
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    let error = result.expect_err("the request must be refused");
    format!("{} {}", error.code, error.reason)
}

/// Returns the fields of the causes of a 422, without consecutive repetitions: updates repeat
/// problems of metadata.
pub(super) fn fields<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Vec<String> {
    let error = result.expect_err("the request must be refused");
    assert_eq!(error.code, 422, "{error:?}");
    let causes = error.causes().iter();
    let mut fields: Vec<String> = causes.map(|cause| cause.field.clone()).collect();
    fields.dedup();
    fields
}
