//! Creates and updates of any kind.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::object::{Kind, Now, ObjectMeta, ResourceVersion, Time};

use super::counts::{Tally, Verb};
use super::name::{Draw, NAME_ATTEMPTS};
use super::store::Commit;
use super::{AdmissionRequest, Cluster, ClusterResource, errors, meta};

/// What an update makes of the stored object.
pub(super) enum Update<R> {
    /// Nothing.
    Keep,
    /// This, by a write that counts so. Its version, if it differs in nothing else, is ignored.
    Write(R, Tally),
}

impl Cluster {
    /// The stored object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn get<R: ClusterResource>(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        store
            .read(&store.key(namespace, name))
            .ok_or_else(|| errors::not_found(R::KIND, name))
    }

    /// Creates an object, in the namespace that it names. The server sets UID, time stamps,
    /// generation and status, whatever the client sent; a missing name is made from
    /// `generate_name`.
    ///
    /// # Errors
    /// 404 and 403 for a namespace that is missing or terminating, what admission answers, 422
    /// for a broken rule, 409 for a taken name.
    pub fn create<R: ClusterResource>(&self, mut object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.admit_create(R::KIND, object.metadata())?;
        object.set_defaults();
        object.prepare_for_create();
        let metadata = object.metadata_mut();
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = i64::from(R::HAS_GENERATION);
        metadata.deletion_timestamp = Time::UNSET;
        metadata.deletion_grace_period_seconds = None;
        meta::drop_repeated_owners(&mut metadata.owner_references);
        validate_create(&object)?;
        self.store_new(object, now)
    }

    /// Stores an object as it is, status, UID and time stamps included, as if it had been there
    /// all along: how a run takes over an existing cluster. Only the version is new; a missing
    /// UID, creation time or generation is filled in. No rule but those of creation is checked.
    ///
    /// # Errors
    /// As [`create`](Cluster::create).
    pub fn import<R: ClusterResource>(&self, mut object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.admit_create(R::KIND, object.metadata())?;
        object.set_defaults();
        let metadata = object.metadata_mut();
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = metadata.generation.max(i64::from(R::HAS_GENERATION));
        validate_create(&object)?;
        let draw = self.names.draw();
        let metadata = object.metadata_mut();
        if metadata.uid.is_empty() {
            metadata.uid = draw.uid();
        }
        if metadata.creation_timestamp.is_unset() {
            metadata.creation_timestamp = now.wall();
        }
        self.insert(object, draw, now)
    }

    /// Replaces an object. Status is kept; a version that the object carries must be the stored
    /// one. What changes nothing is not written and answered with the stored object.
    ///
    /// # Errors
    /// 404; 409 for another UID or version; 422 for a broken rule.
    pub fn update<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.put(object, Verb::Update, now)
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
        self.put(object, Verb::UpdateStatus, now)
    }

    fn put<R: ClusterResource>(&self, object: R, verb: Verb, now: Now) -> Result<Arc<R>, ApiError> {
        let (namespace, name) = {
            let metadata = object.metadata();
            (metadata.namespace.clone(), metadata.name.clone())
        };
        let mut object = Some(object);
        self.modify::<R>(&namespace, &name, now, |old| {
            // Only another writer makes a second attempt necessary.
            let mut new = object.take().expect("an update is prepared once");
            check_put(&new, old)?;
            let unprepared = is_unconditional(&new).then(|| new.clone());
            prepare_and_validate(&mut new, old, verb)?;
            object = unprepared;
            Ok(Update::Write(new, Tally::of(verb)))
        })
    }

    /// Changes the stored object: `change` is given the present state and may be called again
    /// when another writer was faster. The object it returns must have been prepared.
    ///
    /// # Errors
    /// 404 and what `change` answers.
    pub(super) fn modify<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        now: Now,
        mut change: impl FnMut(&Arc<R>) -> Result<Update<R>, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        let key = store.key(namespace, name);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(R::KIND, name));
            };
            let Update::Write(mut new, mut tally) = change(&old)? else {
                return Ok(old);
            };
            new.metadata_mut().resource_version = old.metadata().resource_version.clone();
            if new == *old {
                return Ok(old);
            }
            let (before, after) = (old.metadata(), new.metadata());
            if meta::is_past_grace(before)
                && after.finalizers().is_empty()
                && !before.finalizers().is_empty()
            {
                // The last finalizer is gone: the write becomes the deletion of the stored state.
                let last = Arc::new(R::clone(&old));
                if let Commit::Done(last) = store.remove(&key, &old, None, last, &tally, now) {
                    self.note(Some(&*old), None);
                    return Ok(last);
                }
                continue;
            }
            count_ownership(&mut tally, before, after);
            tally.ready = !old.is_ready_pod() && new.is_ready_pod();
            if let Commit::Done(new) = store.replace(&key, &old, Arc::new(new), &tally, now) {
                self.note(Some(&*old), Some(&*new));
                return Ok(new);
            }
        }
    }

    /// Admission of a create: its namespace, then the hook.
    pub(super) fn admit_create(&self, kind: Kind, metadata: &ObjectMeta) -> Result<(), ApiError> {
        let (namespace, name) = (&*metadata.namespace, metadata.name.as_str());
        if kind.is_namespaced() {
            self.admit_namespace(kind, namespace, name)?;
        } else if !namespace.is_empty() {
            let why = "namespace may not be set on a cluster-scoped object";
            return Err(errors::bad_request(why));
        }
        match &self.options.admission {
            None => Ok(()),
            Some(admission) => admission(&AdmissionRequest {
                kind,
                namespace,
                name,
            }),
        }
    }

    fn admit_namespace(&self, kind: Kind, namespace: &str, name: &str) -> Result<(), ApiError> {
        if namespace.is_empty() {
            let why = "an empty namespace may not be set during creation";
            return Err(errors::bad_request(why));
        }
        let key = self.namespaces.key("", namespace);
        match self.namespaces.inspect(&key, |found| found.terminating) {
            Some(false) => Ok(()),
            Some(true) => Err(errors::namespace_terminating(kind, name, namespace)),
            None => Err(errors::not_found(Kind::Namespace, namespace)),
        }
    }

    /// Stores a new object that has been prepared and validated.
    pub(super) fn store_new<R: ClusterResource>(
        &self,
        mut object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let draw = self.names.draw();
        let metadata = object.metadata_mut();
        metadata.uid = draw.uid();
        metadata.creation_timestamp = now.wall();
        self.insert(object, draw, now)
    }

    fn insert<R: ClusterResource>(
        &self,
        object: R,
        draw: Draw,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        let tally = Tally::of(Verb::Create);
        let generated = object.metadata().name.is_empty();
        let mut object = Arc::new(object);
        let mut attempt = 0;
        loop {
            if generated {
                let metadata = Arc::get_mut(&mut object)
                    .expect("not shared yet")
                    .metadata_mut();
                let prefix = metadata.generate_name.as_deref().unwrap_or("");
                metadata.name = draw.name(prefix, attempt);
            }
            let metadata = object.metadata();
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            let key = store.key(&namespace, &name);
            match store.insert(&key, object, &tally, now) {
                Ok(stored) => {
                    self.note(None, Some(&*stored));
                    return Ok(stored);
                }
                Err((refused, holder)) => {
                    attempt += 1;
                    object = refused;
                    if !generated {
                        let terminating = holder.metadata().is_deleting();
                        return Err(errors::already_exists(R::KIND, &name, terminating));
                    }
                    if attempt == NAME_ATTEMPTS {
                        return Err(errors::name_not_generated(R::KIND, &name));
                    }
                }
            }
        }
    }
}

/// Whether the writer named no version, so that its write applies to whatever is stored.
fn is_unconditional<R: ClusterResource>(object: &R) -> bool {
    matches!(
        meta::named_version(&object.metadata().resource_version),
        Ok(None)
    )
}

/// The preconditions that a `PUT` carries in its object: first its UID, then its version.
pub(super) fn check_put<R: ClusterResource>(new: &R, old: &R) -> Result<(), ApiError> {
    let (new, old) = (new.metadata(), old.metadata());
    if !new.uid.is_empty() && new.uid != old.uid {
        let resource = R::KIND.group_resource();
        return Err(errors::uid_mismatch(
            resource, &old.name, &new.uid, &old.uid,
        ));
    }
    match meta::named_version(&new.resource_version) {
        Ok(None) => Ok(()),
        Ok(Some(version)) if old.resource_version.number() == Some(version) => Ok(()),
        Ok(Some(_)) => Err(errors::stale(R::KIND, &old.name)),
        Err(text) => {
            let causes = vec![errors::invalid_value(
                "metadata.resourceVersion",
                &text.to_string().into(),
                "must be an unsigned integer",
            )];
            Err(errors::invalid(R::KIND, &old.name, causes))
        }
    }
}

/// Brings a changed object into the form that would be stored and checks it.
///
/// # Errors
/// 422 with every rule that it breaks.
pub(super) fn prepare_and_validate<R: ClusterResource>(
    new: &mut R,
    old: &R,
    verb: Verb,
) -> Result<(), ApiError> {
    let status = matches!(verb, Verb::UpdateStatus | Verb::PatchStatus);
    if status {
        new.prepare_for_status_update(old);
    } else {
        new.set_defaults();
        new.prepare_for_update(old);
    }
    meta::prepare_for_update(new.metadata_mut(), old.metadata());
    if R::HAS_GENERATION && !status && new.spec_differs(old) {
        new.metadata_mut().generation += 1;
    }
    let mut causes = Vec::new();
    meta::validate_update(new.metadata(), old.metadata(), &mut causes);
    if status {
        new.validate_status_update(old, &mut causes);
    } else {
        new.validate_update(old, &mut causes);
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(errors::invalid(R::KIND, &old.metadata().name, causes))
    }
}

/// # Errors
/// 422 with every rule that the new object breaks.
pub(super) fn validate_create<R: ClusterResource>(object: &R) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let metadata = object.metadata();
    if metadata.name.is_empty() && metadata.generate_name.as_deref().unwrap_or("").is_empty() {
        causes.push(errors::required(
            "metadata.name",
            "name or generateName is required",
        ));
    }
    meta::validate_owners(&metadata.owner_references, &mut causes);
    object.validate_create(&mut causes);
    if causes.is_empty() {
        Ok(())
    } else {
        Err(errors::invalid(R::KIND, &metadata.name, causes))
    }
}

/// Counts a controller gained or lost.
fn count_ownership(tally: &mut Tally, before: &ObjectMeta, after: &ObjectMeta) {
    if super::owners::same_owners(&before.owner_references, &after.owner_references) {
        return;
    }
    let uid = |metadata: &ObjectMeta| metadata.controller().map(|owner| owner.uid.clone());
    let (before, after) = (uid(before), uid(after));
    if before != after {
        tally.adopted = after.is_some();
        tally.released = before.is_some();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use podstorm::object::{Pod, PodPhase, ReplicaSet, ReplicationController, Uid};
    use serde_json::json;

    use super::super::name::Names;
    use super::super::testing::*;
    use super::super::{ClusterOptions, DeleteOptions};
    use super::*;

    #[test]
    fn a_create_sets_what_only_the_server_may() {
        let cluster = cluster();
        let sent = replica_set(
            "a",
            json!({
                "metadata": {
                    "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9,
                    "resourceVersion": "77", "deletionTimestamp": "2001-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 3},
                "status": {"replicas": 5, "observedGeneration": 3},
            }),
        );
        let stored = cluster.create(sent, at(5)).unwrap();
        let metadata = &stored.metadata;
        assert_ne!(metadata.uid, Uid::new("mine"));
        assert_eq!(metadata.creation_timestamp, at(5).wall());
        assert_eq!(metadata.generation, 1);
        assert_eq!(
            metadata.resource_version.number(),
            Some(cluster.resource_version())
        );
        assert!(!metadata.is_deleting());
        assert_eq!(metadata.deletion_grace_period_seconds, None);
        assert_eq!(stored.status, Default::default());
        let sent = pod("a", json!({"status": {"phase": "Running"}}));
        let stored = cluster.create(sent, at(5)).unwrap();
        assert_eq!(
            (stored.metadata.generation, &stored.status.phase),
            (1, &PodPhase::Pending)
        );
    }

    #[test]
    fn a_create_is_refused_for_its_namespace_or_name() {
        let cluster = cluster();
        cluster
            .create(
                pod("a", json!({"metadata": {"finalizers": ["a.b/c"]}})),
                at(0),
            )
            .unwrap();
        let in_namespace =
            |namespace: &str| pod("b", json!({"metadata": {"namespace": namespace}}));
        let error = cluster.create(in_namespace("none"), at(0)).unwrap_err();
        assert_eq!(
            (error.code, &*error.message),
            (404, "namespaces \"none\" not found")
        );
        assert_eq!(
            refused(cluster.create(in_namespace(""), at(0))),
            "400 BadRequest"
        );
        assert_eq!(
            fields(cluster.create(pod("", json!({})), at(0))),
            ["metadata.name"]
        );
        let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
        assert_eq!(
            (error.code, &*error.message),
            (409, "pods \"a\" already exists")
        );
        cluster
            .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
            .unwrap();
        let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
        assert_eq!(
            error.message,
            "object is being deleted: pods \"a\" already exists"
        );
        // The same name elsewhere is free.
        cluster
            .create(pod("a", json!({"metadata": {"namespace": "other"}})), at(0))
            .unwrap();
    }

    #[test]
    fn admission_is_asked_and_its_answer_is_final() {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = asked.clone();
        let options = ClusterOptions {
            admission: Some(Arc::new(move |request: &AdmissionRequest<'_>| {
                counter.fetch_add(1, Ordering::Relaxed);
                let why = "exceeded quota: pods";
                match request.kind {
                    Kind::Pod => Err(errors::forbidden(Kind::Pod, request.name, why)),
                    _ => Ok(()),
                }
            })),
            ..ClusterOptions::default()
        };
        let cluster = cluster_with(options);
        let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
        assert_eq!(
            error.message,
            "pods \"a\" is forbidden: exceeded quota: pods"
        );
        assert!(!error.has_cause("NamespaceTerminating"));
        assert_eq!(asked.load(Ordering::Relaxed), 3, "two namespaces and a pod");
    }

    #[test]
    fn generated_names_give_up_after_eight_attempts() {
        let cluster = cluster();
        let sent = || pod("", json!({"metadata": {"generateName": "web-"}}));
        // Take all names that the next create will try.
        let draw = Names::new(1);
        let draws = cluster.write_counts().pods.created + 2 + 8;
        let next = (0..=draws)
            .map(|_| draw.draw())
            .last()
            .expect("at least one");
        for attempt in 0..8 {
            let name = next.name("web-", attempt);
            cluster.create(pod(&name, json!({})), at(0)).unwrap();
        }
        let error = cluster.create(sent(), at(0)).unwrap_err();
        assert_eq!((error.code, error.retry_after_seconds), (409, Some(1)));
        assert!(
            error
                .message
                .contains("was not able to generate a unique name")
        );
        assert!(
            cluster.create(sent(), at(0)).is_ok(),
            "the next draw is another"
        );
    }

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
        let stored = bound_pod(
            &cluster,
            "a",
            json!({"metadata": {"ownerReferences": owners}}),
        );
        let mut sent = Pod::clone(&stored);
        sent.node_name = Some("elsewhere".into());
        sent.spec = Default::default();
        sent.metadata.owner_references.clear();
        sent.metadata.deletion_timestamp = at(1).wall();
        sent.metadata.annotations = sent.metadata.annotations.with("a", "b");
        sent.status.phase = PodPhase::Running;
        let updated = cluster.update_status(sent, at(1)).unwrap();
        assert_eq!(updated.node_name, stored.node_name);
        assert_eq!(updated.spec, stored.spec);
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
        sent.metadata.deletion_grace_period_seconds = Some(7);
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
        sent.metadata.deletion_grace_period_seconds = None;
        let before = cluster.resource_version();
        cluster.update(sent, at(2)).unwrap();
        assert_eq!(
            cluster.resource_version(),
            before,
            "nothing was left to change"
        );
        let mut sent = Pod::clone(&marked);
        sent.metadata.deletion_grace_period_seconds = Some(8);
        assert_eq!(
            fields(cluster.update(sent, at(2))),
            ["metadata.deletionGracePeriodSeconds"]
        );
        let mut sent = Pod::clone(&marked);
        sent.metadata.finalizers = Some(["a.b/c".into(), "a.b/d".into()].into());
        assert_eq!(fields(cluster.update(sent, at(2))), ["metadata.finalizers"]);
    }

    #[test]
    fn owners_are_checked_and_repeated_ones_dropped() {
        let cluster = cluster();
        let owner = |uid: &str, controller: bool| {
            json!({"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": uid,
                   "controller": controller})
        };
        let create =
            |name: &str, owners: serde_json::Value| cluster.create(owned_pod(name, owners), at(0));
        let stored = create(
            "a",
            json!([owner("1", true), owner("1", true), owner("1", false)]),
        );
        assert_eq!(stored.unwrap().metadata.owner_references.len(), 2);
        let two = create("b", json!([owner("1", true), owner("2", true)]));
        assert_eq!(fields(two), ["metadata.ownerReferences"]);
        let empty = create("b", json!([owner("", false)]));
        assert_eq!(fields(empty), ["metadata.ownerReferences[0].uid"]);
        // Whether the owner exists is not asked, and kinds nobody knows are never collected.
        assert_eq!(cluster.collect_garbage(10, at(0)), 0);
    }

    #[test]
    fn an_import_keeps_identity_status_and_deletion() {
        let cluster = cluster();
        let sent = pod(
            "a",
            json!({
                "metadata": {
                    "uid": "8df9bcb8-481d-4037-8798-84343b02ebd7", "generation": 4,
                    "resourceVersion": "77", "creationTimestamp": "2023-01-01T00:00:00Z",
                    "deletionTimestamp": "2023-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running"},
            }),
        );
        let stored = cluster.import(sent.clone(), at(0)).unwrap();
        assert_eq!(stored.metadata.uid, sent.metadata.uid);
        assert_eq!(
            stored.metadata.creation_timestamp,
            sent.metadata.creation_timestamp
        );
        assert_eq!(
            stored.metadata.deletion_timestamp,
            sent.metadata.deletion_timestamp
        );
        assert_eq!(
            (stored.metadata.generation, &stored.status),
            (4, &sent.status)
        );
        assert_eq!(
            stored.metadata.resource_version.number(),
            Some(cluster.resource_version())
        );
        let bare = cluster.import(pod("b", json!({})), at(6)).unwrap();
        assert!(!bare.metadata.uid.is_empty());
        assert_eq!(bare.metadata.creation_timestamp, at(6).wall());
        assert_eq!(bare.metadata.generation, 1);
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
    fn equal_calls_give_equal_objects() {
        let run = || {
            let cluster = cluster();
            for _ in 0..20 {
                let sent = pod("", json!({"metadata": {"generateName": "web-"}}));
                cluster.create(sent, at(1)).unwrap();
            }
            let (pods, version) = cluster.list::<Pod>(None);
            (
                pods.iter().map(|pod| Pod::clone(pod)).collect::<Vec<_>>(),
                version,
            )
        };
        assert_eq!(run(), run());
    }
}
