//! Resource quota by count: the number of objects of a kind that a namespace may hold. Of pods
//! those count that have not ended.
//!
//! Usage is counted at the commit, under the lock of the shard. So it is exact at every moment
//! under concurrent writes, and no create exceeds the limit. Shards count only while some namespace
//! has a quota.
//!
//! Lock order: a shard, then the table of quotas.

use std::collections::BTreeMap;

use podstorm_objects::{ApiError, Kind};

use super::{KindStore, Lock, Strategy};
use crate::{Cluster, errors};

/// The limit and the usage of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most objects of the kind; of pods those count whose phase is not terminal.
    pub limit: u64,
    /// The number of such objects; may exceed the limit, which only stops creates.
    pub used: u64,
}

/// The quotas of a kind by namespace.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_namespace: Lock<BTreeMap<String, Quota>>,
}

impl Quotas {
    /// Counts a write that changes `old` to `new`.
    ///
    /// # Errors
    /// The quota, when `new` exceeds it; then nothing is counted. Writes of objects that count
    /// already are never refused.
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

    /// The quota that this new object exceeds, if any.
    pub(crate) fn full<R: Strategy>(&self, new: &R) -> Option<Quota> {
        let quotas = self.by_namespace.lock();
        let quota = quotas.get(&*new.metadata().namespace)?;
        (new.counts_for_quota() && quota.used >= quota.limit).then_some(*quota)
    }
}

impl Cluster {
    /// Limits the number of objects of a kind in a namespace, or removes the limit. Of pods those
    /// count that have not ended, of other kinds all. Objects beyond the limit stay; creates get
    /// 403 until there are fewer. O(objects of the kind), with all shards of the kind locked.
    ///
    /// # Errors
    /// 404 for a kind that the server does not serve.
    pub fn set_quota(
        &self,
        kind: Kind,
        namespace: &str,
        limit: Option<u64>,
    ) -> Result<(), ApiError> {
        self.with_store(kind, |store| store.set_quota(namespace, limit))
    }

    /// The quota of a namespace for a kind, if there is one.
    pub fn quota(&self, kind: Kind, namespace: &str) -> Option<Quota> {
        self.with_store(kind, |store| store.quota(namespace)).ok()?
    }

    /// [Limits](Cluster::set_quota) the number of pods in a namespace that have not ended.
    pub fn set_pod_quota(&self, namespace: &str, limit: Option<u64>) {
        self.pods.set_quota(namespace, limit);
    }

    /// The quota of a namespace for pods, if there is one.
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

/// 403: the quota of the namespace is exhausted. The error names resources like Kubernetes' quotas
/// do: `pods`, `count/widgets.example.com`.
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
mod tests;
