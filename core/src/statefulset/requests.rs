//! The requests that create, update and delete pods and claims.
//!
//! Source: `StatefulPodControl` in Kubernetes' `pkg/controller/statefulset`.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Pod, Reason};
use podstorm_runtime::claim::aggregate;
use podstorm_runtime::client::{Answer, EventType, Request};

use super::claims::{Owners, Policy};
use super::identity::{claim_name, identity_matches, ordinal_of, storage_matches};
use super::pod::{set_identity, set_storage};
use super::spec::SetSpec;
use super::sync::{Errors, StatefulSetSync};

/// The maximum number of attempts to write a pod when there are conflicts. Upstream pauses for some
/// milliseconds in between; this controller retries immediately, because a sync has no timer.
const POD_WRITES_MAX: usize = 4;

/// The change of a pod that an Event reports.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Create,
    Update,
    Delete,
}

impl StatefulSetSync<'_> {
    /// Creates the claims of a pod, and then the pod.
    pub(super) async fn create_pod(&self, pod: &Arc<Pod>) -> Result<(), Errors> {
        let spec = &self.set.spec.read;
        let claims = self.create_claims(spec, pod).await;
        claims.inspect_err(|errors| self.pod_event(Deed::Create, pod, Some(errors)))?;
        let meta = &pod.metadata;
        let create = Request::CreatePod {
            namespace: meta.namespace.clone(),
            pod: Arc::clone(pod),
            name: Some(meta.name.clone()),
        };
        let created = self.calls.send(create).await;
        if let Ok(Answer::Pod(created)) = &created {
            self.wrote(Kind::POD, &created.metadata.resource_version);
        }
        let is_taken = matches!(&created, Err(error) if error.reason == Reason::AlreadyExists);
        let created = created.map(drop).map_err(|error| vec![error.message]);
        if is_taken {
            return created;
        }
        self.correct_claims_of(spec, pod).await?;
        self.pod_event(Deed::Create, pod, created.as_ref().err());
        created
    }

    /// Deletes a pod. A pod that no longer exists counts as deleted.
    pub(super) async fn delete_pod(&self, pod: &Pod) -> Result<(), Errors> {
        let delete = Request::DeletePod {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: None,
        };
        let deleted = match self.calls.send(delete).await {
            Err(error) if !error.is_not_found() => Err(vec![error.message]),
            _ => Ok(()),
        };
        self.pod_event(Deed::Delete, pod, deleted.as_ref().err());
        deleted
    }

    /// Corrects the identity, storage and claims of a pod. Like upstream, writes the pod if
    /// anything was wrong, even if only a claim was.
    pub(super) async fn update_pod(&self, spec: &SetSpec, pod: &Pod) -> Result<(), Errors> {
        let set = &self.set.object.metadata;
        let mut pod = pod.clone();
        let mut writes = 0;
        let updated = loop {
            let mut is_wrong = false;
            if !identity_matches(set, &pod.metadata) {
                let ordinal = ordinal_of(&pod.metadata);
                set_identity(&mut pod.metadata, set, ordinal);
                is_wrong = true;
            }
            if !storage_matches(set, spec, &pod) {
                is_wrong = true;
                set_storage(&mut pod, set, spec).map_err(|error| vec![error])?;
                let created = self.create_claims(spec, &pod).await;
                created.inspect_err(|errors| self.pod_event(Deed::Update, &pod, Some(errors)))?;
            }
            if !self.has_right_claims(spec, &pod) {
                is_wrong = true;
                self.correct_claims_of(spec, &pod).await?;
            }
            if !is_wrong {
                break Ok(());
            }
            writes += 1;
            let error = match self.calls.put(pod.clone()).await {
                Ok(stored) => {
                    self.wrote(Kind::POD, &stored.metadata.resource_version);
                    break Ok(());
                }
                Err(error) => error,
            };
            let name = &pod.metadata.name;
            if let Some(cached) = self.shared.pods.get(&set.namespace, name) {
                pod = Pod::clone(&cached);
            }
            if error.reason != Reason::Conflict || writes == POD_WRITES_MAX {
                break Err(vec![error.message]);
            }
        };
        if writes > 0 {
            self.pod_event(Deed::Update, &pod, updated.as_ref().err());
        }
        updated
    }

    /// Creates the missing claims of a pod. Returns the errors of all refused creates.
    pub(super) async fn create_claims(&self, spec: &SetSpec, pod: &Pod) -> Result<(), Errors> {
        let set = &self.set.object.metadata;
        let ordinal = ordinal_of(&pod.metadata);
        let mut errors = Errors::new();
        for template in &spec.claim_templates {
            let claim = template.claim(set, ordinal, &spec.match_labels);
            let name = claim.metadata.name.clone();
            match self.cached_claim(&name) {
                Some(cached) if cached.metadata.is_deleting() => {
                    errors.push(format!("pvc {name} is being deleted"));
                }
                Some(_) => {}
                None => match self.calls.create(claim).await {
                    Ok(created) => {
                        let version = &created.metadata().resource_version;
                        self.wrote(Kind::PERSISTENT_VOLUME_CLAIM, version);
                        let text = format!(
                            "Create Claim {name} Pod {} in StatefulSet {} success",
                            pod.metadata.name, set.name
                        );
                        self.event(EventType::Normal, "SuccessfulCreate", &text);
                    }
                    Err(error) => {
                        if error.reason != Reason::AlreadyExists {
                            let text = format!(
                                "Create Claim {name} for Pod {} in StatefulSet {} failed error: {error}",
                                pod.metadata.name, set.name
                            );
                            self.event(EventType::Warning, "FailedCreate", &text);
                        }
                        errors.push(format!("failed to create PVC {name}: {error}"));
                    }
                },
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Sets the owners of a pod's claims as the policy requires. Stops at the first failure.
    pub(super) async fn correct_claims(&self, spec: &SetSpec, pod: &Pod) -> Result<(), Errors> {
        let owners = Owners::new(&self.set.object.metadata, spec, &pod.metadata);
        for claim in self.cached_claims(spec, pod) {
            let (name, refs) = (&claim.metadata.name, &claim.metadata.owner_references);
            if owners.has_unexpected_controller(refs) {
                // The misspelling is upstream's.
                let text = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                );
                self.event(EventType::Warning, "ConflictingController", &text);
            }
            if owners.are_up_to_date(refs) {
                continue;
            }
            let mut changed = DynamicObject::clone(&claim);
            changed.metadata.owner_references = owners.corrected(refs);
            let stored = self.calls.put(changed).await.map_err(|error| {
                let text =
                    format!("could not update claim {name} for delete policy ownerRefs: {error}");
                vec![text]
            })?;
            let version = &stored.metadata.resource_version;
            self.wrote(Kind::PERSISTENT_VOLUME_CLAIM, version);
        }
        Ok(())
    }

    /// Like [`correct_claims`](StatefulSetSync::correct_claims), for a wanted pod, but reports a
    /// failure as an Event, too.
    pub(super) async fn correct_claims_of(&self, spec: &SetSpec, pod: &Pod) -> Result<(), Errors> {
        let corrected = self.correct_claims(spec, pod).await;
        corrected.inspect_err(|errors| self.pod_event(Deed::Update, pod, Some(errors)))
    }

    /// Reports whether the claims of a pod have the owners that the policy requires.
    pub(super) fn has_right_claims(&self, spec: &SetSpec, pod: &Pod) -> bool {
        if spec.claim_templates.is_empty() {
            return true;
        }
        let owners = Owners::new(&self.set.object.metadata, spec, &pod.metadata);
        let mut claims = self.cached_claims(spec, pod);
        claims.all(|claim| owners.are_up_to_date(&claim.metadata.owner_references))
    }

    /// Reports whether an earlier pod of the same name still owns a claim of a new pod.
    pub(super) fn has_stale_claim(&self, pod: &Pod) -> bool {
        let spec = &self.set.spec.read;
        if spec.claim_templates.is_empty() || spec.policy.when_scaled == Policy::Retain {
            return false;
        }
        let owners = Owners::new(&self.set.object.metadata, spec, &pod.metadata);
        let mut claims = self.cached_claims(spec, pod);
        claims.any(|claim| owners.is_of_earlier_pod(&claim.metadata.owner_references))
    }

    /// Returns those claims of a pod that are cached.
    fn cached_claims(&self, spec: &SetSpec, pod: &Pod) -> impl Iterator<Item = Arc<DynamicObject>> {
        let ordinal = ordinal_of(&pod.metadata);
        spec.claim_templates.iter().filter_map(move |template| {
            let name = claim_name(template.name(), &self.set.object.metadata.name, ordinal);
            self.cached_claim(&name)
        })
    }

    fn cached_claim(&self, name: &str) -> Option<Arc<DynamicObject>> {
        let namespace = &self.set.object.metadata.namespace;
        let claim = self.shared.claims.get_named(namespace, name)?;
        Some(Arc::clone(&claim))
    }

    fn pod_event(&self, deed: Deed, pod: &Pod, errors: Option<&Errors>) {
        let (verb, done, failed) = match deed {
            Deed::Create => ("Create", "SuccessfulCreate", "FailedCreate"),
            Deed::Update => ("Update", "SuccessfulUpdate", "FailedUpdate"),
            Deed::Delete => ("Delete", "SuccessfulDelete", "FailedDelete"),
        };
        let (pod, set) = (&pod.metadata.name, &self.set.object.metadata.name);
        let what = format!("{verb} Pod {pod} in StatefulSet {set}");
        match errors.and_then(|errors| aggregate(errors)) {
            None => self.event(EventType::Normal, done, &format!("{what} successful")),
            Some(error) => {
                let text = format!("{what} failed error: {error}");
                self.event(EventType::Warning, failed, &text);
            }
        }
    }
}
