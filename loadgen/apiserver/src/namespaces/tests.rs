//! Tests of namespaces that are being deleted.

use std::sync::Arc;

use podstorm_objects::{Namespace, Object, Pod};
use serde_json::{Value, json};

use super::*;
use crate::testing::*;
use crate::{Cluster, DeleteOptions};

/// Returns a cluster whose namespace `default` is being deleted. `fill` runs before the deletion.
fn deleting(fill: impl FnOnce(&Cluster)) -> Cluster {
    let cluster = cluster();
    fill(&cluster);
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Namespace>("", "default", &options, at(0));
    deleted.unwrap();
    while cluster.collect_garbage(100, at(0)) > 0 {}
    cluster
}

fn is_there(cluster: &Cluster) -> bool {
    cluster.get::<Namespace>("", "default").is_ok()
}

#[test]
fn a_deleted_namespace_is_terminating_and_refuses_new_objects() {
    let cluster = deleting(|_| {});
    let mut watch = watch::<Namespace>(&cluster);
    let found = cluster.get::<Namespace>("", "default").unwrap();
    assert!(found.terminating);
    let value = found.to_json();
    assert_eq!(value["status"]["phase"], "Terminating");
    assert_eq!(value["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(found.metadata.deletion_timestamp, at(0).wall());
    let error = cluster.create(pod("a", json!({})), at(1)).unwrap_err();
    assert!(error.has_cause("NamespaceTerminating"));
    // A second deletion changes nothing, and no update can undo the first.
    let again = cluster.delete::<Namespace>("", "default", &DeleteOptions::default(), at(1));
    assert!(!again.unwrap().removed);
    let mut back = Namespace::clone(&found);
    back.terminating = false;
    back.fields.clear();
    cluster.update(back, at(1)).unwrap();
    assert_eq!(drain(&mut watch), [""; 0]);
}

#[test]
fn removals_from_a_terminating_namespace_are_reported() {
    let reports = Arc::new(Lock::new(Vec::new()));
    let hook = || -> TerminationHook {
        let out = reports.clone();
        Arc::new(move |report| out.lock().push(format!("{report:?}")))
    };
    let cluster = deleting(|cluster| {
        for name in ["slow", "slower"] {
            bound_pod(cluster, name, json!({}));
        }
        let alone = pod("alone", json!({}));
        cluster.create(alone, at(0)).unwrap();
        cluster.set_termination_hook(Some(hook()));
        let removed = cluster.delete::<Pod>("default", "alone", &forced(), at(0));
        removed.unwrap();
        assert!(reports.lock().is_empty(), "no namespace is being deleted");
    });
    assert_eq!(std::mem::take(&mut *reports.lock()), ["First"]);
    let remove = |namespace: &str, name: &str| {
        let removed = cluster.delete::<Pod>(namespace, name, &forced(), at(6));
        removed.unwrap();
    };
    remove("default", "slow");
    let namespace = "default";
    let report = Termination::Removal {
        namespace,
        now: at(6),
    };
    assert_eq!(*reports.lock(), [format!("{report:?}")]);
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    cluster.create(pod("a", elsewhere), at(6)).unwrap();
    remove("other", "a");
    assert_eq!(
        reports.lock().len(),
        1,
        "the other namespace is not terminating"
    );
    cluster.set_termination_hook(None);
    remove("default", "slower");
    assert_eq!(reports.lock().len(), 1);
    cluster.set_termination_hook(Some(hook()));
    assert_eq!(reports.lock().last().unwrap(), "First");
}

#[test]
fn a_namespace_stays_until_its_last_finalizer_is_removed() {
    let finalize = |cluster: &Cluster, finalizers: Value| {
        let mut namespace = Namespace::clone(&cluster.get("", "default").unwrap());
        let spec = json!({"finalizers": finalizers});
        namespace.fields.insert("spec".into(), spec);
        cluster.finalize(namespace, false, at(0)).unwrap();
    };
    let cluster = deleting(|cluster| finalize(cluster, json!(["x.io/b", "kubernetes"])));
    finalize(&cluster, json!(["x.io/b"]));
    let kept = cluster.get::<Namespace>("", "default").unwrap();
    assert_eq!(kept.finalizers(), ["x.io/b"]);
    let mut freed = Namespace::clone(&kept);
    freed.fields.insert("spec".into(), json!({}));
    assert!(cluster.finalize(freed.clone(), true, at(6)).is_ok());
    assert!(is_there(&cluster), "a dry run removes nothing");
    freed.metadata.resource_version = 1.into();
    let stale = cluster.finalize(freed.clone(), false, at(6));
    assert_eq!(refused(stale), "409 Conflict");
    freed.metadata.resource_version = kept.metadata.resource_version.clone();
    cluster.finalize(freed, false, at(6)).unwrap();
    assert!(!is_there(&cluster));
}

#[test]
fn a_namespace_status_has_a_known_phase_and_keeps_finalizers() {
    let cluster = cluster();
    let with = |part: &str, value: Value| {
        let mut namespace = Namespace::clone(&cluster.get("", "default").unwrap());
        namespace.fields.insert(part.into(), value);
        namespace
    };
    let error = cluster.update_status(with("status", json!({"phase": "Odd"})), at(1));
    assert_eq!(error.unwrap_err().code, 422);
    let kept = cluster.update_status(with("spec", json!({})), at(1));
    let kept = kept.unwrap();
    assert_eq!(kept.fields["spec"]["finalizers"], json!(["kubernetes"]));
}
