//! Quotas.

use std::sync::atomic::{AtomicU64, Ordering};

use podstorm_objects::{Pod, PodPhase};
use serde_json::json;

use super::*;
use crate::testing::*;
use crate::{ClusterOptions, CommitObserver, DeleteOptions};

fn used(cluster: &Cluster) -> u64 {
    cluster.pod_quota("default").unwrap().used
}

fn delete(cluster: &Cluster, name: &str, options: &DeleteOptions) {
    let deleted = cluster.delete::<Pod>("default", name, options, at(0));
    deleted.unwrap();
}

#[test]
fn a_full_namespace_takes_no_more_pods_and_says_why() {
    let cluster = cluster();
    cluster.create(pod("a", json!({})), at(0)).unwrap();
    cluster.set_pod_quota("default", Some(2));
    cluster.create(pod("b", json!({})), at(0)).unwrap();
    let error = cluster.create(pod("c", json!({})), at(0)).unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        error.message,
        "pods \"c\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, \
         limited: pods=2"
    );
    assert!(!error.has_cause("NamespaceTerminating"));
    // The quota is asked before the name.
    let taken = cluster.create(pod("a", json!({})), at(0));
    assert_eq!(refused(taken), "403 Forbidden");
    // It is this namespace's, and for pods.
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    cluster.create(pod("c", elsewhere), at(0)).unwrap();
    cluster.create(replica_set("r", json!({})), at(0)).unwrap();
    // A generated name is in the refusal.
    let loose = pod("", json!({"metadata": {"generateName": "web-"}}));
    let message = cluster.create(loose, at(0)).unwrap_err().message;
    assert!(message.starts_with("pods \"web-"), "{message}");
    assert!(!message.starts_with("pods \"web-\""), "{message}");
    cluster.set_pod_quota("default", None);
    cluster.create(pod("c", json!({})), at(0)).unwrap();
    assert_eq!(cluster.pod_quota("default"), None);
}

#[test]
fn pods_that_end_or_are_removed_make_room_and_terminating_ones_do_not() {
    let cluster = cluster();
    cluster.set_pod_quota("default", Some(3));
    let a = bound_pod(&cluster, "a", json!({}));
    bound_pod(&cluster, "b", json!({}));
    cluster.create(pod("c", json!({})), at(0)).unwrap();
    assert_eq!(used(&cluster), 3);
    let failed = set_phase(&cluster, &a, PodPhase::Failed);
    assert_eq!(used(&cluster), 2);
    delete(&cluster, "b", &DeleteOptions::default());
    assert_eq!(used(&cluster), 2, "it is still there");
    delete(&cluster, "b", &forced());
    assert_eq!(used(&cluster), 1);
    // A pod that had ended counted no more.
    delete(&cluster, &failed.metadata.name, &forced());
    assert_eq!(used(&cluster), 1);
    delete(&cluster, "c", &forced());
    assert_eq!(used(&cluster), 0);
}

#[test]
fn a_lower_limit_leaves_what_exists() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.create(pod(name, json!({})), at(0)).unwrap();
    }
    cluster.set_pod_quota("default", Some(1));
    assert_eq!(
        cluster.pod_quota("default"),
        Some(Quota { limit: 1, used: 3 })
    );
    let labelled = json!({"metadata": {"labels": {"tier": "x"}}});
    cluster.update(pod("a", labelled), at(0)).unwrap();
    assert_eq!(used(&cluster), 3);
}

/// Counts pods as they are committed.
#[derive(Default)]
struct Most {
    pods: AtomicU64,
    most: AtomicU64,
}

impl CommitObserver for Most {
    fn committed(&self, commit: &crate::Commit) {
        use crate::Change;
        if commit.new.kind() != Kind::POD {
            return;
        }
        match commit.change {
            Change::Added => {
                let pods = self.pods.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(pods, Ordering::Relaxed);
            }
            Change::Deleted => {
                self.pods.fetch_sub(1, Ordering::Relaxed);
            }
            Change::Modified => {}
        }
    }
}

#[test]
fn no_create_slips_past_the_limit_whatever_runs_side_by_side() {
    const LIMIT: u64 = 5;
    let most = std::sync::Arc::new(Most::default());
    let cluster = cluster_with(ClusterOptions {
        observer: Some(most.clone()),
        ..ClusterOptions::default()
    });
    cluster.set_pod_quota("default", Some(LIMIT));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..3000 {
                    let name = format!("p{}", rng.u32(..8));
                    if rng.bool() {
                        let _ = cluster.create(pod(&name, json!({})), at(0));
                    } else {
                        let _ = cluster.delete::<Pod>("default", &name, &forced(), at(0));
                    }
                }
            });
        }
        // Setting it again counts again, in the middle of all that.
        for _ in 0..50 {
            cluster.set_pod_quota("default", Some(LIMIT));
        }
    });
    assert_eq!(used(&cluster), cluster.count::<Pod>());
    assert_eq!(most.most.load(Ordering::Relaxed), LIMIT);
}
