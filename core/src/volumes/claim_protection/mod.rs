//! Claim protection: it keeps a claim that a scheduled pod names until the pod is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Kind, Now, Pod, Str};
use podstorm_runtime::client::{Answer, Request, Selection};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, Workers};

use super::{Cached, awaits_finalizer, put_finalizer};
use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::{ControllerType, Setup};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// The claim protection controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentVolumeClaimProtection;

/// The controller that protects claims. A clone is a handle to the same controller.
#[derive(Clone, Debug)]
pub struct ClaimProtection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    claims: Arc<Store<Cached>>,
    pods: Arc<PodCache>,
    queue: RateLimitingQueue<KeyId>,
    /// The scheduled pods that name each claim, by the claim's namespace and name. Empty in a
    /// cluster whose pods name no claims.
    users: Mutex<BTreeMap<(Str, Str), BTreeSet<CompactString>>>,
}

impl ControllerType for PersistentVolumeClaimProtection {
    type Workload = ClaimProtection;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        component: "persistentvolumeclaim-protection-controller",
        purpose: "protection of claims in use",
        kind: Some(Kind::PERSISTENT_VOLUME_CLAIM),
        pods: Pods::All,
        writes: &[
            Write::new(Kind::PERSISTENT_VOLUME_CLAIM, &["update"]),
            Write::new(Kind::POD, &["list"]),
        ],
        queues: &[QueueRow {
            workers: Workers::Number(1),
            ..QueueRow::new("pvcprotection")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<ClaimProtection> {
        let shared = Arc::new(Shared {
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            pods: Arc::clone(informers.pods()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
            users: Mutex::default(),
        });
        informers.add_handler::<Cached>(Kind::PERSISTENT_VOLUME_CLAIM, Arc::clone(&shared) as _);
        Arc::new(ClaimProtection(shared))
    }
}

impl Shared {
    fn pod_changed(&self, old: Option<&Pod>, new: Option<&Pod>, now: Now) {
        let same = |old: &Pod, new: &Pod| {
            Arc::ptr_eq(&old.spec, &new.spec) && old.node_name == new.node_name
        };
        if old.zip(new).is_some_and(|(old, new)| same(old, new)) {
            return;
        }
        for (pod, is_there) in [(old, false), (new, true)] {
            let Some(pod) = pod.filter(|pod| pod.node_name.is_some()) else {
                continue;
            };
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            for claim in pod.spec.claims(name) {
                let key = self.claims.intern(namespace, &claim.name);
                let claim = (namespace.clone(), claim.name);
                let mut users = lock(&self.users);
                if is_there {
                    users.entry(claim).or_default().insert(name.clone());
                    continue;
                }
                if let Some(pods) = users.get_mut(&claim) {
                    pods.remove(name);
                    if pods.is_empty() {
                        users.remove(&claim);
                    }
                }
                drop(users);
                self.queue.add(key, now.mono_ns);
            }
        }
    }

    fn is_used(&self, namespace: &Str, claim: &str) -> bool {
        lock(&self.users).contains_key(&(namespace.clone(), claim.into()))
    }
}

impl Handler<Cached> for Shared {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        let new = change.new.as_ref();
        if new.is_some_and(|new| awaits_finalizer(new, FINALIZER)) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(claim) = shared.claims.get(key) else {
        return Ok(End::Forget);
    };
    let (meta, is_held) = (&claim.metadata, claim.metadata.has_finalizer(FINALIZER));
    if !meta.is_deleting() {
        if !is_held {
            put_finalizer(&claim, FINALIZER, true, &calls).await?;
        }
        return Ok(End::Forget);
    }
    let may_go = is_held && !shared.is_used(&meta.namespace, &meta.name);
    // A pod that is not in the cache yet may have been scheduled.
    if may_go && !is_used_now(&meta.namespace, &meta.name, &calls).await? {
        put_finalizer(&claim, FINALIZER, false, &calls).await?;
    }
    Ok(End::Forget)
}

/// Reports whether a scheduled pod on the server names the claim. O(pods of the namespace).
async fn is_used_now(namespace: &Str, claim: &str, calls: &Calls) -> Result<bool, SyncFailure> {
    let list = Request::List {
        kind: Kind::POD,
        namespace: namespace.clone(),
        selection: Selection::default(),
    };
    match calls
        .send(list)
        .await
        .map_err(SyncFailure::at("list failed"))?
    {
        Answer::List { items, .. } => Ok(items.iter().any(|object| {
            let pod = object.downcast_ref::<Pod>();
            let pod = pod.filter(|pod| pod.node_name.is_some());
            pod.is_some_and(|pod| {
                let claims = pod.spec.claims(&pod.metadata.name);
                claims.iter().any(|it| *it.name == *claim)
            })
        })),
        other => panic!("a list can't be answered by {other:?}"),
    }
}

impl AsyncWorkload for ClaimProtection {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.claims.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        let new = Some(&*change.new).filter(|_| !change.deleted);
        let old = change.old.as_deref();
        self.0.pod_changed(old, new, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        for pod in self.0.pods.filled_by(listed) {
            self.0.pod_changed(None, Some(&pod), now);
        }
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

#[cfg(test)]
mod tests;
