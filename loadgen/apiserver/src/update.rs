//! Reads and updates of any kind: preconditions, what a write may not change, no-op writes.

use std::sync::Arc;

use podstorm_objects::{ApiError, Now, ObjectMeta};

use super::create::refuse_invalid;
use super::store::counts::{Verb, WriteEffects};
use super::store::{CommitOutcome, KeyHash, KindStore};
use super::{Cluster, ClusterResource, Strategy, errors, meta};

/// What an update makes of the stored object.
pub(super) enum Update<R> {
    /// Nothing.
    Keep,
    /// This, by a write that counts so. Its version, if it differs in nothing else, is ignored.
    Write(R, WriteEffects),
}

impl Cluster {
    /// The stored object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn get<R: ClusterResource>(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        R::store(self).get(namespace, name)
    }

    /// Replaces an object. Status is kept; a version that the object carries must be the stored
    /// one. What changes nothing is not written and answered with the stored object.
    ///
    /// # Errors
    /// 404; 409 for another UID or version; 422 for a broken rule.
    pub fn update<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.put(R::store(self), object, Verb::Update, now)
    }

    /// Replaces an object's status (and metadata); its spec is kept. A version that the object
    /// carries must be the stored one.
    ///
    /// # Errors
    /// As [`update`](Cluster::update).
    pub fn update_status<R: ClusterResource>(
        &self,
        object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.put(R::store(self), object, Verb::UpdateStatus, now)
    }

    pub(crate) fn put<R: Strategy>(
        &self,
        store: &KindStore<R>,
        object: R,
        verb: Verb,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let unconditional = is_unconditional(&object);
        let mut new = object;
        loop {
            let metadata = new.metadata();
            let key = store.key(&metadata.namespace, &metadata.name);
            let hash = key.hash;
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(store.kind(), &metadata.name));
            };
            check_put(&new, &*old)?;
            let unprepared = unconditional.then(|| new.clone());
            prepare_and_validate(&mut new, &*old, verb)?;
            match (
                self.commit(store, hash, &old, new, WriteEffects::of(verb), now),
                unprepared,
            ) {
                (CommitOutcome::Done(stored), _) => return Ok(stored),
                (CommitOutcome::Conflict, Some(unprepared)) => new = unprepared,
                (CommitOutcome::Conflict, None) => {
                    return Err(errors::stale(store.kind(), &old.metadata().name));
                }
            }
        }
    }

    /// Changes the stored object: `change` is given the present state and may be called again
    /// when another writer was faster. The object it returns must have been prepared.
    ///
    /// # Errors
    /// 404 and what `change` answers.
    pub(super) fn modify<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        name: &str,
        now: Now,
        mut change: impl FnMut(&Arc<R>) -> Result<Update<R>, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        let key = store.key(namespace, name);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(store.kind(), name));
            };
            let Update::Write(new, effects) = change(&old)? else {
                return Ok(old);
            };
            if let CommitOutcome::Done(stored) =
                self.commit(store, key.hash, &old, new, effects, now)
            {
                return Ok(stored);
            }
        }
    }

    /// Puts a changed and prepared object in the place of the stored one, unless it changes
    /// nothing. Where it takes the last finalizer off a deleted object, that is removed.
    fn commit<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: KeyHash,
        old: &Arc<R>,
        mut new: R,
        mut effects: WriteEffects,
        now: Now,
    ) -> CommitOutcome<R> {
        new.metadata_mut().resource_version = old.metadata().resource_version.clone();
        if !new.obviously_differs(old) && new == **old {
            return CommitOutcome::Done(old.clone());
        }
        let (before, after) = (old.metadata(), new.metadata());
        let kept = !after.finalizers().is_empty() || new.keeps_until_empty();
        let was_kept = !before.finalizers().is_empty() || old.keeps_until_empty();
        let removed = !kept && was_kept && meta::is_past_grace(before);
        let done = if removed {
            // The write becomes the deletion of the stored state.
            let last = Arc::new(R::clone(old));
            store.remove(key, old, None, last, &effects, now)
        } else {
            count_ownership(&mut effects, before, after);
            effects.ready = !old.is_ready_pod() && new.is_ready_pod();
            store.replace(key, old, Arc::new(new), &effects, now)
        };
        if let CommitOutcome::Done(stored) = &done {
            self.notify_gc(store, Some(&**old), (!removed).then_some(&**stored));
        }
        done
    }
}

impl<R: Strategy> KindStore<R> {
    /// The stored object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        self.read(&self.key(namespace, name))
            .ok_or_else(|| errors::not_found(self.kind(), name))
    }
}

/// Whether the writer named no version, so that its write applies to whatever is stored.
fn is_unconditional<R: Strategy>(object: &R) -> bool {
    matches!(
        meta::named_version(&object.metadata().resource_version),
        Ok(None)
    )
}

/// The preconditions that a `PUT` carries in its object: first its UID, then its version.
pub(super) fn check_put<R: Strategy>(new: &R, old: &R) -> Result<(), ApiError> {
    let kind = old.kind();
    let (new, old) = (new.metadata(), old.metadata());
    if !new.uid.is_empty() && new.uid != old.uid {
        let resource = kind.group_resource();
        return Err(errors::uid_mismatch(
            &resource, &old.name, &new.uid, &old.uid,
        ));
    }
    match meta::named_version(&new.resource_version) {
        Ok(None) => Ok(()),
        Ok(Some(version)) if old.resource_version.number() == Some(version) => Ok(()),
        Ok(Some(_)) => Err(errors::stale(kind, &old.name)),
        Err(text) => {
            let causes = vec![errors::invalid_value(
                "metadata.resourceVersion",
                &text.to_string().into(),
                "must be an unsigned integer",
            )];
            Err(errors::invalid(kind, &old.name, causes))
        }
    }
}

/// Brings a changed object into the form that would be stored and checks it.
///
/// # Errors
/// 422 with every rule that it breaks.
pub(super) fn prepare_and_validate<R: Strategy>(
    new: &mut R,
    old: &R,
    verb: Verb,
) -> Result<(), ApiError> {
    let status = matches!(verb, Verb::UpdateStatus | Verb::PatchStatus);
    if status {
        new.prepare_for_status_update(old);
    } else {
        new.set_defaults(Some(old));
        new.prepare_for_update(old);
    }
    meta::prepare_for_update(new.metadata_mut(), old.metadata());
    if new.kind().row().has_generation && !status && new.spec_differs(old) {
        new.metadata_mut().generation += 1;
    }
    let mut causes = Vec::new();
    meta::validate_update(new.metadata(), old.metadata(), &mut causes);
    causes.extend(if status {
        new.validate_status_update(old)
    } else {
        new.validate_update(old)
    });
    refuse_invalid(old, causes)
}

/// Counts a controller gained or lost.
fn count_ownership(effects: &mut WriteEffects, before: &ObjectMeta, after: &ObjectMeta) {
    if super::store::owners::same_owners(&before.owner_references, &after.owner_references) {
        return;
    }
    let uid = |metadata: &ObjectMeta| metadata.controller().map(|owner| owner.uid.clone());
    let (before, after) = (uid(before), uid(after));
    if before != after {
        effects.adopted = after.is_some();
        effects.released = before.is_some();
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{
        OptionalSeconds, Pod, PodPhase, ReplicaSet, ReplicationController, Time,
    };
    use serde_json::json;

    use super::super::DeleteOptions;
    use super::super::testing::*;

    #[test]
    fn a_put_checks_uid_before_version_and_neither_when_left_out() {
        let cluster = cluster();
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let put = |uid: &str, version: &str, replicas: i32| {
            let metadata = json!({"uid": uid, "resourceVersion": version});
            let patch = json!({"metadata": metadata, "spec": {"replicas": replicas}});
            cluster.update(replica_set("a", patch), at(0))
        };
        let uid_text = "Precondition failed: UID in precondition";
        let error = put("other", "1", 3).unwrap_err();
        assert!(error.message.contains(uid_text), "{}", error.message);
        assert_eq!(refused(put("other", "", 3)), "409 Conflict");
        let error = put("", "1", 3).unwrap_err();
        assert!(
            error.message.contains("the object has been modified"),
            "{}",
            error.message
        );
        assert_eq!(fields(put("", "x", 3)), ["metadata.resourceVersion"]);
        assert_eq!(put("", "", 3).unwrap().metadata.generation, 2);
        let version = cluster.resource_version().to_string();
        assert_eq!(put("", &version, 4).unwrap().metadata.generation, 3);
        let missing = cluster.update(replica_set("none", json!({})), at(0));
        assert_eq!(refused(missing), "404 NotFound");
    }

    #[test]
    fn writes_that_change_nothing_are_not_written() {
        let cluster = cluster();
        let stored = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let before = cluster.resource_version();
        let mut watch = watch::<ReplicaSet>(&cluster);
        let again = cluster.update(replica_set("a", json!({})), at(9)).unwrap();
        assert_eq!(
            again.metadata.resource_version,
            stored.metadata.resource_version
        );
        cluster
            .update_status(ReplicaSet::clone(&stored), at(9))
            .unwrap();
        assert_eq!(cluster.resource_version(), before);
        assert!(drain(&mut watch).is_empty());
    }

    #[test]
    fn an_update_keeps_status_and_what_only_the_server_sets() {
        let cluster = cluster();
        let stored = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let patch = json!({
            "metadata": {
                "generation": 50, "creationTimestamp": "2001-01-01T00:00:00Z",
                "labels": {"tier": "front"}},
            "status": {"replicas": 9},
        });
        let updated = cluster.update(replica_set("a", patch), at(9)).unwrap();
        assert_eq!(updated.metadata.uid, stored.metadata.uid);
        assert_eq!(
            updated.metadata.creation_timestamp,
            stored.metadata.creation_timestamp
        );
        assert_eq!(updated.metadata.generation, 1, "no change of the spec");
        assert_eq!(updated.status.replicas, 0);
        assert_eq!(updated.metadata.labels.len(), 1);
    }

    #[test]
    fn a_status_update_keeps_the_spec_and_takes_the_metadata() {
        let cluster = cluster();
        let stored = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let mut sent = ReplicaSet::clone(&stored);
        sent.spec.replicas = Some(9);
        sent.status.replicas = 2;
        sent.status.observed_generation = 1;
        sent.metadata.labels = sent.metadata.labels.with("tier", "front");
        let updated = cluster.update_status(sent.clone(), at(1)).unwrap();
        assert_eq!(updated.spec, stored.spec);
        assert_eq!(
            (updated.status.replicas, updated.metadata.generation),
            (2, 1)
        );
        assert_eq!(updated.metadata.labels.len(), 1);
        assert_eq!(refused(cluster.update_status(sent, at(1))), "409 Conflict");

        let value = workload("a", json!({"app": "web"}));
        let stored = cluster
            .create(read::<ReplicationController>(value), at(0))
            .unwrap();
        let mut sent = ReplicationController::clone(&stored);
        (sent.replicas, sent.status.replicas) = (Some(9), 2);
        let updated = cluster.update_status(sent, at(1)).unwrap();
        assert_eq!(
            (updated.replicas, updated.status.replicas),
            (stored.replicas, 2)
        );
    }

    #[test]
    fn a_pods_status_update_keeps_spec_owners_and_deletion() {
        let cluster = cluster();
        let owners = json!([{"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": "f"}]);
        let patch = json!({"metadata": {"ownerReferences": owners},
            "spec": {"volumes": [{"name": "kube-api-access-aaaaa"}]}});
        let stored = bound_pod(&cluster, "a", patch);
        let mut sent = Pod::clone(&stored);
        sent.node_name = Some("elsewhere".into());
        sent.spec = Default::default();
        sent.token_volume = None;
        sent.metadata.owner_references.clear();
        sent.metadata.deletion_timestamp = at(1).wall();
        sent.metadata.annotations = sent.metadata.annotations.with("a", "b");
        sent.status.phase = PodPhase::Running;
        let updated = cluster.update_status(sent, at(1)).unwrap();
        assert_eq!(updated.node_name, stored.node_name);
        assert_eq!(updated.spec, stored.spec);
        assert!(updated.token_volume.is_some());
        assert_eq!(updated.token_volume, stored.token_volume);
        assert_eq!(
            updated.metadata.owner_references,
            stored.metadata.owner_references
        );
        assert!(!updated.metadata.is_deleting());
        assert_eq!(updated.metadata.annotations.len(), 1);
        assert_eq!(updated.status.phase, PodPhase::Running);
    }

    #[test]
    fn deletion_members_are_kept_and_cannot_be_changed() {
        let cluster = cluster();
        let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
        let stored = bound_pod(&cluster, "a", held);
        let mut sent = Pod::clone(&stored);
        sent.metadata.deletion_timestamp = at(7).wall();
        assert_eq!(
            fields(cluster.update(sent, at(1))),
            ["metadata.deletionTimestamp"]
        );
        let mut sent = Pod::clone(&stored);
        sent.metadata.deletion_grace_period_seconds = OptionalSeconds::new(7);
        assert_eq!(
            fields(cluster.update(sent, at(1))),
            ["metadata.deletionGracePeriodSeconds"]
        );

        let options = DeleteOptions {
            grace_period_seconds: Some(9),
            ..DeleteOptions::default()
        };
        let marked = cluster
            .delete::<Pod>("default", "a", &options, at(1))
            .unwrap()
            .object;
        let mut sent = Pod::clone(&marked);
        sent.metadata.deletion_timestamp = Time::UNSET;
        sent.metadata.deletion_grace_period_seconds = OptionalSeconds::NONE;
        let before = cluster.resource_version();
        cluster.update(sent, at(2)).unwrap();
        assert_eq!(
            cluster.resource_version(),
            before,
            "nothing was left to change"
        );
        let mut sent = Pod::clone(&marked);
        sent.metadata.deletion_grace_period_seconds = OptionalSeconds::new(8);
        assert_eq!(
            fields(cluster.update(sent, at(2))),
            ["metadata.deletionGracePeriodSeconds"]
        );
        let mut sent = Pod::clone(&marked);
        sent.metadata.finalizers = Some(vec!["a.b/c".into(), "a.b/d".into()].into());
        assert_eq!(fields(cluster.update(sent, at(2))), ["metadata.finalizers"]);
    }

    #[test]
    fn revisions_add_up_to_the_version() {
        let cluster = cluster();
        bound_pod(&cluster, "a", json!({}));
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        cluster
            .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
            .unwrap();
        let counts = cluster.write_counts();
        assert_eq!(
            counts.writes.values().sum::<u64>(),
            cluster.resource_version()
        );
        assert_eq!(counts.writes["create pods/binding"], 1);
        assert_eq!(
            (counts.pods.created, counts.pods.bound, counts.pods.peak),
            (1, 1, 1)
        );
        assert_eq!(cluster.count::<Pod>(), 1);
    }

    #[test]
    fn rules_of_updates_are_enforced() {
        let cluster = cluster();
        let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let template = json!({"metadata": {"labels": {"tier": "x"}}});
        let selector = json!({"matchLabels": {"tier": "x"}});
        let table = [
            (json!({"replicas": -1}), "spec.replicas"),
            (json!({"minReadySeconds": -1}), "spec.minReadySeconds"),
            (
                json!({"selector": selector, "template": template}),
                "spec.selector",
            ),
        ];
        for (spec, field) in table {
            let result = cluster.update(replica_set("a", json!({"spec": spec})), at(0));
            assert_eq!(fields(result), [field]);
        }
        let mut bad = ReplicaSet::clone(&set);
        bad.status.ready_replicas = 3;
        assert_eq!(
            fields(cluster.update_status(bad, at(0))),
            ["status.readyReplicas"]
        );

        let pod = bound_pod(&cluster, "p", json!({}));
        let mut moved = Pod::clone(&pod);
        moved.node_name = Some("n2".into());
        assert_eq!(fields(cluster.update(moved, at(0))), ["spec"]);
        let mut class = Pod::clone(&pod);
        class.status.rest = read::<Pod>(json!({"status": {"qosClass": "Burstable"}}))
            .status
            .rest;
        assert_eq!(
            fields(cluster.update_status(class, at(0))),
            ["status.qosClass"]
        );
    }

    #[test]
    fn the_service_class_outlives_a_status_that_leaves_it_out() {
        let cluster = cluster();
        let pod = bound_pod(&cluster, "p", json!({}));
        let class = |pod: &Pod| {
            let class = pod.status.rest.get("qosClass").expect("the class is set");
            class.as_str().map(str::to_owned)
        };
        assert_eq!(class(&pod).as_deref(), Some("BestEffort"));
        for status in [json!({}), json!({"podIP": "10.0.0.1"})] {
            let mut bare = Pod::clone(&cluster.get("default", "p").unwrap());
            bare.status = read::<Pod>(json!({"status": status})).status;
            let written = cluster.update_status(bare, at(0)).unwrap();
            assert_eq!(class(&written).as_deref(), Some("BestEffort"));
        }
    }

    #[test]
    fn a_changed_image_moves_a_pods_generation() {
        let cluster = cluster();
        let pod = bound_pod(&cluster, "p", json!({}));
        let mut value = podstorm_objects::Object::to_json(&*pod);
        value["spec"]["containers"][0]["image"] = "x:2".into();
        let updated = cluster.update(read::<Pod>(value), at(0)).unwrap();
        assert_eq!(updated.metadata.generation, 2);
    }
}
