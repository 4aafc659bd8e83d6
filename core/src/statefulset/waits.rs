//! The wait of a StatefulSet: the pod or claim at which its syncs stop. For code that only
//! observes. The checks are those of a sync, in the same order.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{DynamicObject, Map, Now, ObjectMeta, Pod};
use serde_json::Value;

use super::claims::{Owners, Policy};
use super::identity::{claim_name, pod_name};
use super::pods::{SetPod, revision_number, revision_of};
use super::spec::SetSpec;
use super::status::{Health, Status};
use crate::replicaset::reconcile::next_availability_check;

/// The pod for which a set's syncs wait, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The name of the pod.
    pub pod: String,
    /// The name of the pod's revision; empty if the pod does not exist.
    pub revision: String,
    /// What must change before a sync continues.
    pub reason: WaitReason,
    /// Whether the pod has an ordinal that the set no longer wants.
    pub is_condemned: bool,
}

/// What must change before a sync continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The pod is terminating.
    Terminating,
    /// The pod is not running or not ready.
    NotReady,
    /// The pod has not been ready for `minReadySeconds`. Holds the remaining time in ns.
    NotAvailable(i64),
    /// The pod can't be created, because an earlier pod of the same name still owns this claim.
    StaleClaim(String),
}

/// Returns the wait of a set with these pods and claims; `None` if a sync does not wait for
/// anything. O(pods · log pods + replicas).
pub fn wait_of(
    set: &DynamicObject,
    pods: &[Arc<Pod>],
    claims: &[Arc<DynamicObject>],
    now: Now,
) -> Option<Wait> {
    let empty = Map::new();
    let spec = set.fields.get("spec").and_then(Value::as_object);
    let look = Look {
        set: &set.metadata,
        spec: SetSpec::read(spec.unwrap_or(&empty)),
        claims,
        now,
    };
    let (mut replicas, mut condemned) = (BTreeMap::new(), BTreeMap::new());
    for pod in pods {
        let pod = SetPod::from_pod(Arc::clone(pod));
        let ordinal = pod.ordinal();
        match look.spec.has_ordinal(ordinal) {
            true => drop(replicas.insert(ordinal, pod)),
            false if ordinal >= 0 => drop(condemned.insert(ordinal, pod)),
            false => {}
        }
    }
    let (start, end) = (
        look.spec.start,
        look.spec.start.saturating_add(look.spec.replicas),
    );
    let is_ordered = !look.spec.is_parallel;
    for ordinal in start..end {
        match replicas.get(&ordinal) {
            Some(pod) if is_ordered => match look.obstacle(pod, false) {
                None => {}
                wait => return wait,
            },
            Some(_) => {}
            None => match look.stale_claim(ordinal) {
                // An ordered set creates the missing pod before it does anything else.
                None if is_ordered => return None,
                None => {}
                wait => return wait,
            },
        }
    }
    let mut leaving = condemned.values().rev();
    if is_ordered && let Some(wait) = leaving.find_map(|pod| look.obstacle(pod, true)) {
        return Some(wait);
    }
    let update = revision_number(&Status::read(set).update_revision);
    let first = start.saturating_add(look.spec.partition());
    if !look.spec.strategy.is_on_delete {
        let updated = replicas.range(first.min(end)..end).rev();
        for (_, pod) in updated {
            if pod.revision != update && !pod.is_deleting {
                return None;
            }
            if let Some(wait) = look.obstacle(pod, false) {
                return Some(wait);
            }
        }
    }
    let mut all = replicas.values();
    all.find_map(|pod| look.obstacle(pod, false))
}

struct Look<'a> {
    set: &'a ObjectMeta,
    spec: SetSpec,
    claims: &'a [Arc<DynamicObject>],
    now: Now,
}

impl Look<'_> {
    /// Returns the wait for a pod at which a sync stops; `None` if it does not stop there.
    fn obstacle(&self, pod: &SetPod, is_condemned: bool) -> Option<Wait> {
        let seconds = self.spec.min_ready_seconds;
        let health = Health {
            min_ready_seconds: seconds,
            now_ns: self.now.wall_ns,
        };
        let reason = if pod.is_deleting {
            WaitReason::Terminating
        } else if !pod.is_running_and_ready() {
            WaitReason::NotReady
        } else if !health.is_available(pod) {
            let left_ns = next_availability_check([&*pod.pod], seconds, self.now.wall_ns);
            WaitReason::NotAvailable(left_ns.unwrap_or(0))
        } else {
            return None;
        };
        Some(Wait {
            pod: pod.pod.metadata.name.to_string(),
            revision: revision_of(&pod.pod).to_owned(),
            reason,
            is_condemned,
        })
    }

    /// Returns the wait for a claim that blocks the creation of the pod with this ordinal, if any.
    fn stale_claim(&self, ordinal: i64) -> Option<Wait> {
        if self.spec.policy.when_scaled == Policy::Retain {
            return None;
        }
        let name = pod_name(&self.set.name, ordinal);
        let pod = ObjectMeta {
            name: name.as_str().into(),
            namespace: self.set.namespace.clone(),
            ..ObjectMeta::default()
        };
        let owners = Owners::new(self.set, &self.spec, &pod);
        let names = self.spec.claim_templates.iter();
        let mut names = names.map(|it| claim_name(it.name(), &self.set.name, ordinal));
        let stale = names.find(|name| {
            let claim = self.claims.iter().find(|it| it.metadata.name == *name);
            claim.is_some_and(|it| owners.is_of_earlier_pod(&it.metadata.owner_references))
        })?;
        Some(Wait {
            pod: name,
            revision: String::new(),
            reason: WaitReason::StaleClaim(stale),
            is_condemned: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Kind, Resource as _};
    use serde_json::json;

    use super::*;
    use crate::statefulset::identity::REVISION_LABEL;

    const NOW: Now = Now {
        mono_ns: 0,
        wall_ns: 0,
    };

    fn set(policy: &str, replicas: i64, partition: i64) -> DynamicObject {
        let set = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "s"},
            "spec": {"replicas": replicas, "podManagementPolicy": policy,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
            "status": {"updateRevision": "new"}});
        DynamicObject::from_json(Kind::STATEFUL_SET, set).expect("a set")
    }

    /// Builds a pod in the state `ready`, `unready` or `leaving`.
    fn pod(name: &str, revision: &str, state: &str) -> Arc<Pod> {
        let ready = if state == "unready" { "False" } else { "True" };
        let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": name,
                "labels": {REVISION_LABEL: revision}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        if state == "leaving" {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Arc::new(Pod::from_json(pod).expect("a pod"))
    }

    fn waits(set: &DynamicObject, pods: &[Arc<Pod>]) -> Option<(String, WaitReason)> {
        let wait = wait_of(set, pods, &[], NOW);
        wait.map(|wait| (wait.pod, wait.reason))
    }

    #[test]
    fn an_ordered_set_stops_at_the_first_unhealthy_pod() {
        let ordered = set("OrderedReady", 3, 0);
        let [a, c] = [pod("web-0", "new", "ready"), pod("web-2", "old", "unready")];
        let broken = pod("web-1", "old", "unready");
        let found = waits(&ordered, &[a.clone(), broken.clone(), c.clone()]);
        assert_eq!(found, Some(("web-1".to_owned(), WaitReason::NotReady)));
        let leaving = pod("web-1", "old", "leaving");
        let found = waits(&ordered, &[a.clone(), leaving, c.clone()]);
        assert_eq!(found, Some(("web-1".to_owned(), WaitReason::Terminating)));
        // A missing pod is created, and a healthy outdated pod is deleted.
        assert_eq!(waits(&ordered, &[a.clone(), c.clone()]), None);
        let all = [
            a.clone(),
            pod("web-1", "old", "ready"),
            pod("web-2", "new", "ready"),
        ];
        assert_eq!(waits(&ordered, &all), None);
        // Without an order, the broken pod of the old revision is deleted.
        let parallel = set("Parallel", 3, 0);
        assert_eq!(waits(&parallel, &[a.clone(), broken, c]), None);
        let updating = pod("web-2", "new", "unready");
        let found = waits(&parallel, &[a, pod("web-1", "old", "ready"), updating]);
        assert_eq!(found, Some(("web-2".to_owned(), WaitReason::NotReady)));
    }

    #[test]
    fn a_set_waits_for_leaving_pods_but_not_below_the_partition() {
        let ordered = set("OrderedReady", 1, 0);
        let pods = [pod("web-0", "new", "ready"), pod("web-1", "new", "leaving")];
        let wait = wait_of(&ordered, &pods, &[], NOW).expect("it waits");
        assert_eq!((&*wait.pod, wait.is_condemned), ("web-1", true));
        let kept = set("OrderedReady", 2, 1);
        let pods = [pod("web-0", "old", "ready"), pod("web-1", "new", "ready")];
        assert_eq!(waits(&kept, &pods), None);
    }

    #[test]
    fn a_claim_of_the_earlier_pod_blocks_the_next_pod() {
        let claim = json!({"metadata": {"name": "data-web-0", "namespace": "shop", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "gone", "controller": true}]}});
        let claim =
            DynamicObject::from_json(Kind::PERSISTENT_VOLUME_CLAIM, claim).expect("a claim");
        for policy in ["OrderedReady", "Parallel"] {
            let wait = wait_of(&set(policy, 1, 0), &[], &[Arc::new(claim.clone())], NOW);
            let reason = wait.expect("it waits").reason;
            assert_eq!(reason, WaitReason::StaleClaim("data-web-0".to_owned()));
        }
    }
}
