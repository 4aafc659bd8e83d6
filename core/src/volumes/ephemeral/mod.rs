//! The ephemeral volume controller: it creates the claims of generic ephemeral volumes. Each claim
//! is created from the template in its pod, and the pod owns it. It is deleted with the pod.
//!
//! Keys are those of claims. A claim is named after its pod and volume, so two pods may need claims
//! with the same name. In that case the claim is created for one of them, and the other one waits.
//!
//! One lock guards the pods that need each claim. It is not held across a call.
//!
//! Source: Kubernetes' `pkg/controller/volume/ephemeral`, whose keys are pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{DecodeError, DynamicObject, Kind, Labels, Map, Now, Pod};
use podstorm_runtime::client::EventType;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, Workers};
use serde_json::Value;

use super::Cached;
use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::{ControllerType, Setup};

/// The ephemeral volume controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EphemeralVolumes;

impl ControllerType for EphemeralVolumes {
    type Workload = PodVolumes;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "ephemeral-volume-controller",
        alias: "ephemeral-volume",
        component: "ephemeral_volume",
        purpose: "claims of generic ephemeral volumes",
        kind: Some(Kind::PERSISTENT_VOLUME_CLAIM),
        pods: Pods::All,
        writes: &[Write::new(Kind::PERSISTENT_VOLUME_CLAIM, &["create"])],
        queues: &[QueueRow {
            workers: Workers::Number(5),
            ..QueueRow::new("ephemeral_volume")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<PodVolumes> {
        let shared = Arc::new(Shared {
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            pods: Arc::clone(informers.pods()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
            wanted: Mutex::default(),
        });
        informers.add_handler::<Cached>(Kind::PERSISTENT_VOLUME_CLAIM, Arc::clone(&shared) as _);
        Arc::new(PodVolumes(shared))
    }
}

/// The ephemeral volume controller. Other controllers may share its informers. A clone is a handle
/// to the same controller.
#[derive(Clone, Debug)]
pub struct PodVolumes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    claims: Arc<Store<Cached>>,
    pods: Arc<PodCache>,
    queue: RateLimitingQueue<KeyId>,
    /// The names of the pods that need each claim. Written by the handler of pods. Has no empty
    /// sets.
    wanted: Mutex<BTreeMap<KeyId, BTreeSet<CompactString>>>,
}

/// Returns why an existing claim can't serve the pod's ephemeral volume; `None` if it
/// can.
pub fn owner_problem(claim: &DynamicObject, pod: &Pod) -> Option<String> {
    let (claim, pod) = (&claim.metadata, &pod.metadata);
    let is_own = claim.controller().is_some_and(|owner| owner.uid == pod.uid);
    (!is_own).then(|| {
        format!(
            "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
            claim.namespace, claim.name, pod.namespace, pod.name
        )
    })
}

impl Shared {
    /// Handles a change of a pod. `old` is the earlier state; `new` is `None` if the pod was
    /// deleted.
    fn pod_changed(&self, old: Option<&Pod>, new: Option<&Pod>, now: Now) {
        let is_alive = |pod: &&Pod| !pod.metadata.is_deleting();
        let (old, new) = (old.filter(is_alive), new.filter(is_alive));
        let same = |(old, new): (&Pod, &Pod)| {
            Arc::ptr_eq(&old.spec, &new.spec) && old.metadata.uid == new.metadata.uid
        };
        if old.zip(new).is_some_and(same) {
            return;
        }
        for (pod, is_there) in [(old, false), (new, true)] {
            let Some(pod) = pod else { continue };
            let meta = &pod.metadata;
            for claim in pod.spec.claims(&meta.name) {
                if claim.template.is_none() {
                    continue;
                }
                let key = self.claims.intern(&meta.namespace, &claim.name);
                let mut wanted = lock(&self.wanted);
                if is_there {
                    wanted.entry(key).or_default().insert(meta.name.clone());
                    drop(wanted);
                    self.queue.add(key, now.mono_ns);
                } else if let Some(pods) = wanted.get_mut(&key) {
                    pods.remove(&meta.name);
                    if pods.is_empty() {
                        wanted.remove(&key);
                    }
                }
            }
        }
    }
}

/// Wakes a claim that was deleted although a pod needs it, so that it is recreated.
impl Handler<Cached> for Shared {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        if change.new.is_none() && lock(&self.wanted).contains_key(&change.key) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queue.is_idle(key) && !lock(&self.wanted).contains_key(&key)
    }

    fn forget(&self, key: KeyId) {
        self.queue.forget(key);
    }
}

impl AsyncWorkload for PodVolumes {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.claims.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        let new = Some(&*change.new).filter(|_| !change.deleted);
        self.0.pod_changed(change.old.as_deref(), new, now);
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

/// Creates a claim for the first pod that needs it. Reports problems as Events about the pods.
async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let ObjectKey { namespace, name } = shared.claims.name(key);
    let pods = lock(&shared.wanted).get(&key).cloned().unwrap_or_default();
    let mut failed = None;
    let mut claim = shared.claims.get(key).map(|claim| Arc::clone(&*claim));
    for pod in pods {
        let Some(pod) = shared.pods.get(&namespace, &pod) else {
            continue;
        };
        let mut claims = pod.spec.claims(&pod.metadata.name).into_iter();
        let template = claims
            .find(|it| *it.name == *name)
            .and_then(|it| it.template);
        let Some((volume, template)) = template.filter(|_| !pod.metadata.is_deleting()) else {
            continue;
        };
        let problem = match &claim {
            Some(claim) => owner_problem(claim, &pod),
            None => match from_template(&pod, &name, &template) {
                Err(error) => Some(format!("volumeClaimTemplate: {error}")),
                Ok(new) => match calls.create(new).await {
                    Err(error) => Some(format!("create PVC {name}: {error}")),
                    Ok(created) => {
                        claim = created.downcast();
                        None
                    }
                },
            },
        };
        if let Some(problem) = problem {
            let text = format!("ephemeral volume {volume}: {problem}");
            calls.report(&*pod, EventType::Warning, "FailedBinding", &text);
            let meta = &pod.metadata;
            failed = Some(format!("pod {}/{}, {text}", meta.namespace, meta.name));
        }
    }
    match failed {
        None => Ok(End::Forget),
        Some(problem) => Err(SyncFailure::new("no claim", problem)),
    }
}

/// Builds the claim for an ephemeral volume.
fn from_template(pod: &Pod, name: &str, template: &Value) -> Result<DynamicObject, DecodeError> {
    let mut claim = DynamicObject::new(Kind::PERSISTENT_VOLUME_CLAIM);
    let labels = |member: &str| Labels::from_json(template["metadata"][member].clone());
    let meta = &mut claim.metadata;
    meta.namespace = pod.metadata.namespace.clone();
    meta.name = name.into();
    meta.labels = labels("labels")?;
    meta.annotations = labels("annotations")?;
    let owner = Kind::POD.controller_reference(&pod.metadata);
    meta.owner_references.push(Arc::new(owner));
    claim.fields = Map::from_iter([("spec".to_owned(), template["spec"].clone())]);
    Ok(claim)
}

#[cfg(test)]
mod tests;
