//! Loads the objects of files into the cluster of a server. Existing objects, which have a UID, are
//! restored as from a backup, with status, UID and times. Other objects are created as by a client.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::identity::DEFAULT_ACCOUNT;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, Plugin, kind_named};
use podstorm_objects::{ApiError, Kind, Namespace, Now, Pod, PodSpec, Str};
use serde_json::json;

use crate::input::{InputObject, described, missing_namespaces};

/// The rank of existing objects, which have a UID, in the order of loading.
const EXISTING: u8 = 3;

/// An object that the API server refuses to load.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct Refused {
    /// The number of the object; `None` for a namespace that was added.
    pub number: Option<usize>,
    /// The object: `Pod shop/web-1`, `Node n1`.
    pub object: String,
    /// The error of the API server.
    pub problem: ApiError,
}

/// Loads objects, each after those that its admission needs; namespaces that are referenced but
/// missing are created. If `accounts` is set, every namespace gets its account before pods are
/// loaded.
///
/// # Errors
/// Returns the first object that the API server refuses.
pub(super) fn load(
    cluster: &Cluster,
    objects: Vec<InputObject>,
    accounts: bool,
    now: Now,
) -> Result<(), Box<Refused>> {
    let missing: Vec<InputObject> = missing_namespaces(&objects).collect();
    let missing = missing.into_iter().map(|namespace| (None, namespace));
    let numbered = objects.into_iter().enumerate();
    let mut objects: Vec<(Option<usize>, InputObject)> = missing
        .chain(numbered.map(|(number, object)| (Some(number), object)))
        .collect();
    let definition = kind_named("CustomResourceDefinition");
    let classes = [kind_named("PriorityClass"), kind_named("RuntimeClass")];
    let rank = |object: &InputObject| match object.kind() {
        kind if kind == Kind::NAMESPACE => 0,
        kind if Some(kind) == definition => 1,
        kind if classes.contains(&Some(kind)) || kind == Kind::SERVICE_ACCOUNT => 2,
        // New ones last, so that generated names never collide with those of a dump.
        _ if !object.metadata().uid.is_empty() => EXISTING,
        _ => 4,
    };
    // The sort is stable: the order is otherwise that of the files.
    objects.sort_by_key(|(_, object)| rank(object));
    let mut lacks_accounts = accounts;
    let mut admitted = Admitted::with_hasher(FIXED_STATE);
    for (number, mut object) in objects {
        let described = described(object.as_object());
        let has_others = rank(&object) >= EXISTING;
        if has_others && std::mem::take(&mut lacks_accounts) {
            add_accounts(cluster, now).map_err(|problem| Refused {
                number: None,
                object: "ServiceAccount default".to_owned(),
                problem,
            })?;
        }
        let loaded = admit(cluster, &mut object, &mut admitted).and_then(|()| {
            let kind = object.kind();
            cluster.api(kind).load(object.into_any(), now)
        });
        loaded.map_err(|problem| Refused {
            number,
            object: described,
            problem,
        })?;
    }
    // Their objects exist now.
    cluster.end_definitions(now);
    Ok(())
}

/// Specs as they came, by memory address and, if admission depends on it, namespace, and the pods
/// that admission made of them: many pods share a spec.
type Admitted = HashMap<(*const PodSpec, Str), (Arc<PodSpec>, Pod), RandomState>;

/// How many of them are kept.
const ADMITTED_MAX: usize = 1_000;

/// Applies admission to new pods. New nodes do not get the taint of unready nodes: nodes of files
/// are ready, and no controller here would remove it.
///
/// # Errors
/// 403 if admission refuses a pod.
fn admit(
    cluster: &Cluster,
    object: &mut InputObject,
    known: &mut Admitted,
) -> Result<(), ApiError> {
    if let InputObject::Pod(pod) = object
        && pod.metadata.uid.is_empty()
    {
        let namespace = match cluster.has_plugin(Plugin::ServiceAccount) {
            true => pod.metadata.namespace.clone(),
            false => Str::default(),
        };
        let key = (Arc::as_ptr(&pod.spec), namespace);
        if let Some((_, other)) = known.get(&key) {
            cluster.admit_alike(pod, other);
            return Ok(());
        }
        // Keeping the spec alive prevents reuse of its address.
        let sent = Arc::clone(&pod.spec);
        cluster.admit_new(pod)?;
        if known.len() == ADMITTED_MAX {
            known.clear();
        }
        known.insert(key, (sent, Pod::clone(pod)));
    }
    Ok(())
}

/// Gives every namespace the account `default`, which its new pods use, because the controller that
/// normally creates it does not run yet.
///
/// # Errors
/// An account is refused, except if the namespace has it already, is terminating or is at its
/// quota.
fn add_accounts(cluster: &Cluster, now: Now) -> Result<(), ApiError> {
    let accounts = cluster.api(Kind::SERVICE_ACCOUNT);
    for namespace in cluster.list::<Namespace>(None).0 {
        let name = namespace.metadata.name.as_str();
        let account =
            accounts.read(json!({"metadata": {"namespace": name, "name": DEFAULT_ACCOUNT}}))?;
        let account = account.expect("the JSON is a valid ServiceAccount");
        match accounts.create(account, now) {
            Err(error) if ![403, 409].contains(&error.code) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
