//! Resource quota by count: how many objects of a kind a namespace may hold, of pods how many that have
//! not ended.
//!
//! Usage is counted where objects are stored, under the lock of their shard, so that it is exact at
//! every moment whatever writes run side by side, and no create slips past the limit. Shards look
//! at it only while some namespace has a quota.
//!
//! Lock order: a shard, then the table of quotas.

use std::collections::BTreeMap;

use podstorm_objects::{ApiError, Kind};

use super::{KindStore, Lock, Strategy};
use crate::{Cluster, errors};

/// What a namespace may hold, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most objects of the kind; of pods, those whose phase is not terminal.
    pub limit: u64,
    /// Such objects that exist; may be more than the limit, which only stops creates.
    pub used: u64,
}

/// The quotas of a kind by namespace.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_namespace: Lock<BTreeMap<String, Quota>>,
}

impl Quotas {
    /// Books a write that changes `old` to `new`.
    ///
    /// # Errors
    /// The quota in force when `new` is one more than its namespace may hold; then nothing is
    /// booked. Writes of objects that count already are never refused.
    pub(crate) fn book<R: Strategy>(&self, old: Option<&R>, new: Option<&R>) -> Result<(), Quota> {
        let counts = |object: Option<&R>| object.is_some_and(R::counts_for_quota);
        let (before, after) = (counts(old), counts(new));
        if before == after {
            return Ok(());
        }
        let Some(object) = new.or(old) else {
            return Ok(());
        };
        let mut quotas = self.by_namespace.lock();
        let Some(quota) = quotas.get_mut(&*object.metadata().namespace) else {
            return Ok(());
        };
        if before {
            quota.used -= 1;
        } else if old.is_none() && quota.used >= quota.limit {
            return Err(*quota);
        } else {
            quota.used += 1;
        }
        Ok(())
    }

    /// The quota of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> Option<Quota> {
        self.by_namespace.lock().get(namespace).copied()
    }

    /// The quota that leaves no room for this new object, if there is one.
    pub(crate) fn full<R: Strategy>(&self, new: &R) -> Option<Quota> {
        let quotas = self.by_namespace.lock();
        let quota = quotas.get(&*new.metadata().namespace)?;
        (new.counts_for_quota() && quota.used >= quota.limit).then_some(*quota)
    }
}

impl Cluster {
    /// Limits how many objects of a kind that count the namespace may hold, or lifts the limit: pods
    /// count that have not ended, of other kinds all. Objects beyond it stay; creates are refused with
    /// 403 until there are fewer. O(objects of the kind), with every shard of theirs locked.
    ///
    /// # Errors
    /// 404 for a kind that the server doesn't know.
    pub fn set_quota(
        &self,
        kind: Kind,
        namespace: &str,
        limit: Option<u64>,
    ) -> Result<(), ApiError> {
        self.with_store(kind, |store| store.set_quota(namespace, limit))
    }

    /// The quota of a namespace for a kind and its use, if it has one.
    pub fn quota(&self, kind: Kind, namespace: &str) -> Option<Quota> {
        self.with_store(kind, |store| store.quota(namespace)).ok()?
    }

    /// [Limits](Cluster::set_quota) how many pods that have not ended the namespace may hold.
    pub fn set_pod_quota(&self, namespace: &str, limit: Option<u64>) {
        self.pods.set_quota(namespace, limit);
    }

    /// The quota of a namespace for pods and its use, if it has one.
    pub fn pod_quota(&self, namespace: &str) -> Option<Quota> {
        self.pods.quotas().of(namespace)
    }
}

impl<R: Strategy> KindStore<R> {
    /// See [`Cluster::set_quota`].
    pub(crate) fn set_quota(&self, namespace: &str, limit: Option<u64>) {
        self.set_counted(|objects| {
            let mut quotas = self.quotas().by_namespace.lock();
            match limit {
                None => {
                    quotas.remove(namespace);
                }
                Some(limit) => {
                    let counts = |object: &&R| {
                        &*object.metadata().namespace == namespace && object.counts_for_quota()
                    };
                    let used = objects.filter(counts).count() as u64;
                    quotas.insert(namespace.to_owned(), Quota { limit, used });
                }
            }
            !quotas.is_empty()
        });
    }
}

/// 403: the namespace holds as many objects of the kind as it may. Quotas go by the names that
/// Kubernetes' resource quotas have for them: `pods`, `count/widgets.example.com`.
pub(crate) fn exceeded(kind: Kind, name: &str, quota: Quota) -> ApiError {
    let Quota { limit, used } = quota;
    let counted = if kind == Kind::POD {
        kind.group_resource()
    } else {
        format!("count/{}", kind.group_resource()).into()
    };
    let why = format!(
        "exceeded quota: {counted}, requested: {counted}=1, used: {counted}={used}, limited: \
         {counted}={limit}"
    );
    errors::forbidden(kind, name, &why)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use podstorm_objects::{Pod, PodPhase};
    use serde_json::json;

    use super::*;
    use crate::testing::*;
    use crate::{ClusterOptions, CommitObserver, DeleteOptions};

    fn used(cluster: &Cluster) -> u64 {
        cluster.pod_quota("default").unwrap().used
    }

    fn forced() -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        }
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
        assert_eq!(
            refused(cluster.create(pod("a", json!({})), at(0))),
            "403 Forbidden"
        );
        // It is this namespace's, and for pods.
        let elsewhere = json!({"metadata": {"namespace": "other"}});
        cluster.create(pod("c", elsewhere), at(0)).unwrap();
        cluster.create(replica_set("r", json!({})), at(0)).unwrap();
        // A generated name is in the refusal.
        let loose = pod("", json!({"metadata": {"generateName": "web-"}}));
        let error = cluster.create(loose, at(0)).unwrap_err();
        assert!(
            error.message.starts_with("pods \"web-"),
            "{}",
            error.message
        );
        assert!(
            !error.message.starts_with("pods \"web-\""),
            "{}",
            error.message
        );
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
        let slow = DeleteOptions::default();
        cluster.delete::<Pod>("default", "b", &slow, at(0)).unwrap();
        assert_eq!(used(&cluster), 2, "it is still there");
        cluster
            .delete::<Pod>("default", "b", &forced(), at(0))
            .unwrap();
        assert_eq!(used(&cluster), 1);
        // A pod that had ended counted no more.
        cluster
            .delete::<Pod>("default", &failed.metadata.name, &forced(), at(0))
            .unwrap();
        assert_eq!(used(&cluster), 1);
        cluster
            .delete::<Pod>("default", "c", &forced(), at(0))
            .unwrap();
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
}
