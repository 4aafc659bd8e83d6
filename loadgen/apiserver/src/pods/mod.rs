//! Requests that exist only for pods: the frequent ones (create from a template, bind, status
//! patch, adopt and release), and eviction.

mod account;
mod admission;
pub(super) mod evict;

use std::sync::{Arc, Weak};

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{
    ApiError, ConditionStatus, ConditionType, Kind, Labels, Now, ObjectMeta, OwnerPatch, Pod,
    PodSpec, PodStatus, ResourceVersion, Rest, Str, TokenVolume, Uid,
};

use super::builtin::pending_status;
use super::create::{prepare_metadata, refuse_invalid};
use super::store::counts::{Verb, WriteEffects};
use super::store::lock::Lock;
use super::update::{Update, prepare_and_validate};
use super::validation::{validate_pod, validate_pod_like};
use super::{Cluster, Strategy, errors};

pub use admission::{Annotations, NewPod, Plugin, Plugins, add_by_key};

use account::Admitted;

/// The number of slots for templates. Two templates that share a slot displace each other.
const TEMPLATES: usize = 256;

/// The number of specs to keep before removing unused ones.
const SPECS_MIN: usize = 1024;

/// Prepared pods by template, complete except for name and identity.
///
/// A controller's burst creates hundreds of pods from one template. Defaulting, validation and the
/// first status are computed once, and the pods share the result. The next burst has a different
/// template, usually with the same spec.
#[derive(Debug)]
pub(super) struct TemplateCache {
    slots: Box<[Lock<Slot>]>,
    specs: Lock<Specs>,
    hasher: RandomState,
}

/// The state of a slot. A template is prepared when it is used for the second time, because each
/// pod of an indexed Job has its own template.
#[derive(Debug, Default)]
struct Slot {
    /// The address of the last unprepared template.
    seen: usize,
    /// The prepared pod of a template. It matches by the template's address, and keeps the template
    /// alive.
    prepared: Option<Arc<Prepared>>,
}

#[derive(Debug)]
struct Prepared {
    template: Arc<Pod>,
    namespace: Str,
    pod: Pod,
    /// The account of the pods, if admission set it.
    account: Option<Admitted>,
    /// Whether admission added the token volume, whose name differs between pods.
    has_own_volume: bool,
}

/// The pod specs that have been validated.
#[derive(Debug)]
struct Specs {
    /// The specs by the address of the spec that the client sent. An entry prevents the reuse of
    /// the address.
    known: HashMap<usize, FilledSpec, RandomState>,
    /// The number of entries at which unused ones are removed.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
struct FilledSpec {
    sent: Weak<PodSpec>,
    /// The spec after defaulting; absent if defaulting did not change it.
    filled: Option<Arc<PodSpec>>,
    /// The QoS class, for the first status of the pods.
    qos: Rest,
    /// The account that admission set; absent if it set none.
    account: Option<Admitted>,
    /// Whether admission added the token volume.
    has_own_volume: bool,
    /// The metadata of the pod that was validated with the spec.
    valid: Arc<ObjectMeta>,
}

impl TemplateCache {
    pub(super) fn new() -> TemplateCache {
        let hasher = RandomState::with_seeds(0x7370, 0x6563, 0x7300, 0x0001);
        let specs = Specs {
            known: HashMap::with_hasher(hasher.clone()),
            sweep_at: SPECS_MIN,
        };
        TemplateCache {
            slots: (0..TEMPLATES).map(|_| Lock::default()).collect(),
            specs: Lock::new(specs),
            hasher,
        }
    }

    /// Returns the slot of a template, by content instead of address. This way the same templates
    /// displace each other in every process, and a run always has the same cost.
    fn slot(&self, template: &Arc<Pod>) -> &Lock<Slot> {
        let meta = &template.metadata;
        let owner = meta.controller().map(|owner| &owner.uid);
        let hash = self.hasher.hash_one((owner, &meta.generate_name));
        &self.slots[hash as usize % TEMPLATES]
    }

    fn spec(&self, spec: &Arc<PodSpec>) -> Option<FilledSpec> {
        let specs = self.specs.lock();
        specs
            .known
            .get(&address(spec))
            .filter(|known| known.sent.strong_count() > 0)
            .cloned()
    }

    fn remember_spec(&self, sent: &Arc<PodSpec>, prepared: &Prepared) {
        let (filled, qos) = (&prepared.pod.spec, &prepared.pod.status.rest);
        let entry = FilledSpec {
            sent: Arc::downgrade(sent),
            filled: (!Arc::ptr_eq(sent, filled)).then(|| filled.clone()),
            qos: qos.clone(),
            account: prepared.account.clone(),
            has_own_volume: prepared.has_own_volume,
            valid: Arc::new(prepared.pod.metadata.clone()),
        };
        let mut specs = self.specs.lock();
        if specs.known.len() >= specs.sweep_at {
            specs.known.retain(|_, known| known.sent.strong_count() > 0);
            specs.sweep_at = SPECS_MIN.max(2 * specs.known.len());
        }
        specs.known.insert(address(sent), entry);
    }
}

fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// The body of a `POST` to `/binding`.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// The node to bind the pod to.
    pub node: Str,
    /// The UID that the pod must have.
    pub uid: Option<Uid>,
    /// The version that the pod must have.
    pub resource_version: ResourceVersion,
    /// The annotations to add to the pod.
    pub annotations: Labels,
    /// The labels to add to the pod. Existing labels take precedence.
    pub labels: Labels,
    /// Whether to write nothing.
    pub dry_run: bool,
}

impl Binding {
    /// Returns a binding to a node without preconditions.
    pub fn to(node: Str) -> Binding {
        Binding {
            node,
            ..Binding::default()
        }
    }
}

/// Checks the preconditions of a binding.
///
/// # Errors
/// 409 for a pod with a different UID or version.
fn check_binding(binding: &Binding, pod: &Pod) -> Result<(), ApiError> {
    let metadata = &pod.metadata;
    if let Some(uid) = binding.uid.as_ref().filter(|uid| **uid != metadata.uid) {
        return Err(errors::put_uid_mismatch(Kind::POD, metadata, uid));
    }
    let version = &binding.resource_version;
    if !version.is_unset() && *version != metadata.resource_version {
        return Err(errors::put_version_mismatch(Kind::POD, metadata, version));
    }
    Ok(())
}

/// The status field for the node where the scheduler makes room for the pod; obsolete once the pod
/// is bound.
const NOMINATED: &str = "nominatedNodeName";

impl Cluster {
    /// Creates a pod in `namespace` from a template that pods share. The result equals a
    /// [`create`](Cluster::create) of a copy, at the cost of copying one small struct. The pod's
    /// name is `name`, or else that of the template, or else generated from `generateName`.
    ///
    /// # Errors
    /// The same as [`create`](Cluster::create); 400 if the template has another namespace.
    pub fn create_pod(
        &self,
        namespace: &Str,
        template: &Arc<Pod>,
        name: Option<&CompactString>,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        if self.seen.has_ranges() {
            let mut pod = Pod::clone(template);
            pod.metadata.namespace = namespace.clone();
            if let Some(name) = name {
                pod.metadata.name = name.clone();
            }
            if self.options.admits_templates {
                self.admit_new(&mut pod)?;
            }
            return self.create(pod, now);
        }
        let slot = self.templates.slot(template);
        let known = slot.lock().prepared.clone();
        let known = known.filter(|known| {
            Arc::ptr_eq(&known.template, template)
                && known.namespace == *namespace
                && (known.account.as_ref()).is_none_or(|account| self.is_as_admitted(account))
        });
        if let Some(known) = known {
            let mut pod = known.pod.clone();
            if known.has_own_volume {
                pod.token_volume = Some(self.token_volume());
            }
            if let Some(name) = name {
                pod.metadata.name = name.clone();
            }
            self.admit_create(Kind::POD, &pod.metadata)?;
            if name.is_some() {
                refuse_invalid(self, &pod, validate_pod(&pod, true))?;
            }
            return self.store_new(&self.pods, pod, now);
        }
        let prepared = self.prepare_template(namespace, template, name)?;
        // Other templates create only one pod each.
        let meta = &prepared.pod.metadata;
        let is_for_many = meta.name.is_empty()
            && meta.generate_name.is_some()
            && std::mem::replace(&mut slot.lock().seen, address(template)) == address(template);
        let mut pod = match is_for_many {
            true => {
                let prepared = Arc::new(prepared);
                let pod = prepared.pod.clone();
                let displaced = slot.lock().prepared.replace(prepared);
                drop(displaced);
                pod
            }
            false => prepared.pod,
        };
        if let Some(name) = name {
            pod.metadata.name = name.clone();
            refuse_invalid(self, &pod, validate_pod(&pod, true))?;
        }
        self.store_new(&self.pods, pod, now)
    }

    fn prepare_template(
        &self,
        namespace: &Str,
        template: &Arc<Pod>,
        name: Option<&CompactString>,
    ) -> Result<Prepared, ApiError> {
        let mut pod = Pod::clone(template);
        let unnamed = pod.metadata.name.is_empty() && pod.metadata.generate_name.is_none();
        if let (true, Some(name)) = (unnamed, name) {
            pod.metadata.name = name.clone();
        }
        if pod.metadata.namespace.is_empty() {
            pod.metadata.namespace = namespace.clone();
        } else if *pod.metadata.namespace != **namespace {
            return Err(errors::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
        self.admit_create(Kind::POD, &pod.metadata)?;
        prepare_metadata(Kind::POD, &mut pod.metadata);
        // If the node is preset, it must be validated together with the spec.
        let known = self.templates.spec(&template.spec).filter(|known| {
            let is_current = |account: &Admitted| {
                account.namespace == *namespace && self.is_as_admitted(account)
            };
            pod.node_name.is_none() && known.account.as_ref().is_none_or(is_current)
        });
        let is_known = known.is_some();
        let (mut account, mut has_own_volume) = (None, false);
        if let Some(known) = known {
            (account, has_own_volume) = (known.account, known.has_own_volume);
            if has_own_volume {
                pod.token_volume = Some(self.token_volume());
            }
            pod.spec = known.filled.unwrap_or_else(|| template.spec.clone());
            pod.status = pending_status(known.qos);
            refuse_invalid(self, &pod, validate_pod_like(&pod, &known.valid))?;
        } else {
            if self.options.admits_templates {
                // Read before admission: if the account changes during admission, the old version
                // is recorded and will not match.
                account = self.account_of(namespace, &pod.spec);
                self.admit_new(&mut pod)?;
                has_own_volume = pod.token_volume != template.token_volume;
            }
            pod.set_defaults(None);
            pod.prepare_for_create();
            refuse_invalid(self, &pod, validate_pod(&pod, false))?;
        }
        let prepared = Prepared {
            template: template.clone(),
            namespace: namespace.clone(),
            pod,
            account,
            has_own_volume,
        };
        if !is_known {
            self.templates.remember_spec(&template.spec, &prepared);
        }
        Ok(prepared)
    }

    /// Returns a name for the token volume of a new pod.
    pub(super) fn token_volume(&self) -> TokenVolume {
        let name = self.names.draw().name(TokenVolume::PREFIX, 0);
        TokenVolume::new(&name).expect("generated names have five letters or digits")
    }

    /// Binds a pod to a node (`POST` to `/binding`): sets `spec.nodeName` and the condition
    /// `PodScheduled`. The generation stays the same.
    ///
    /// # Errors
    /// 404; 409 if the pod is bound, is being deleted or has scheduling gates; 504 when the time
    /// limit of the request is exceeded.
    pub fn bind(
        &self,
        namespace: &str,
        name: &str,
        node: &Str,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        self.bind_as(namespace, name, &Binding::to(node.clone()), now)
    }

    /// Binds a pod with all contents of a binding.
    ///
    /// # Errors
    /// The same as [`bind`](Cluster::bind); 409 for a pod with a different UID or version.
    pub fn bind_as(
        &self,
        namespace: &str,
        name: &str,
        binding: &Binding,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let effects = WriteEffects {
            bound: true,
            dry_run: binding.dry_run,
            ..WriteEffects::for_verb(Verb::Bind)
        };
        self.modify(&self.pods, namespace, name, now, |old| {
            check_binding(binding, old)?;
            let refuse = |why: String| Err(errors::conflict("pods/binding", name, &why));
            if old.metadata.is_deleting() {
                return refuse(format!(
                    "pod {name} is being deleted, cannot be assigned to a host"
                ));
            }
            if let Some(node) = old.node_name.as_deref().filter(|node| !node.is_empty()) {
                return refuse(format!("pod {name} is already assigned to node {node:?}"));
            }
            if old.spec.is_gated {
                return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
            }
            let mut new = Pod::clone(old);
            new.node_name = Some(binding.node.clone());
            let metadata = &mut new.metadata;
            for (key, value) in binding.annotations.pairs() {
                metadata.annotations = metadata.annotations.with(key, value);
            }
            for (key, value) in binding.labels.pairs() {
                if metadata.labels.get(key).is_none() {
                    metadata.labels = metadata.labels.with(key, value);
                }
            }
            // Searches the text first, because parsing costs more and few pods have the field.
            if old.status.rest.as_str().contains(NOMINATED) {
                new.status.rest = old.status.rest.without(NOMINATED);
            }
            let conditions = &mut new.status.conditions;
            let (kind, status) = (ConditionType::PodScheduled, ConditionStatus::True);
            conditions.set(kind, status, now.wall());
            Ok(Update::Write(new, effects))
        })
    }

    /// Patches a pod's status like a kubelet: at any stored version, but only if the pod has this
    /// UID.
    ///
    /// # Errors
    /// 404; 409 for a different UID; 422 for a broken rule; 504 when the time limit of the request
    /// is exceeded.
    pub fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        uid: &Uid,
        status: PodStatus,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let effects = WriteEffects::for_verb(Verb::PatchStatus);
        self.modify(&self.pods, namespace, name, now, |old| {
            if old.metadata.uid != *uid {
                return Err(errors::uid_mismatch("pods", name, uid, &old.metadata.uid));
            }
            let mut new = Pod::clone(old);
            new.status = status.clone();
            prepare_and_validate(self, &mut new, old, effects.verb, None)?;
            Ok(Update::Write(new, effects))
        })
    }

    /// Adopts or releases a pod: the typed form of the controller's strategic merge patch of its
    /// owner references.
    ///
    /// # Errors
    /// 404; 422 if the pod has a different UID or would get a second controller; 504 when the time
    /// limit of the request is exceeded.
    pub fn patch_pod_owner(
        &self,
        namespace: &str,
        name: &str,
        patch: &OwnerPatch,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        self.patch_pod_metadata(namespace, name, now, |metadata| {
            let owners = &mut metadata.owner_references;
            match patch {
                OwnerPatch::Adopt { owner, uid } => {
                    metadata.uid = uid.clone();
                    match owners.iter_mut().find(|other| other.uid == owner.uid) {
                        Some(same) => *same = owner.clone(),
                        // The merge by UID puts new entries first.
                        None => owners.insert(0, owner.clone()),
                    }
                }
                OwnerPatch::Release { owner_uid, uid } => {
                    metadata.uid = uid.clone();
                    owners.retain(|other| other.uid != *owner_uid);
                }
            }
        })
    }

    /// Removes a finalizer from a pod: the typed form of the strategic merge patch of the list.
    ///
    /// # Errors
    /// 404; 504 when the time limit of the request is exceeded.
    pub fn remove_pod_finalizer(
        &self,
        namespace: &str,
        name: &str,
        finalizer: &str,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        self.patch_pod_metadata(namespace, name, now, |metadata| {
            metadata.remove_finalizer(finalizer);
        })
    }

    /// Changes a pod's metadata as a patch would.
    fn patch_pod_metadata(
        &self,
        namespace: &str,
        name: &str,
        now: Now,
        change: impl Fn(&mut ObjectMeta),
    ) -> Result<Arc<Pod>, ApiError> {
        let effects = WriteEffects::for_verb(Verb::Patch);
        self.modify(&self.pods, namespace, name, now, |old| {
            let mut new = Pod::clone(old);
            change(&mut new.metadata);
            prepare_and_validate(self, &mut new, old, effects.verb, None)?;
            Ok(Update::Write(new, effects))
        })
    }
}

#[cfg(test)]
mod tests;
