//! Loads the objects of files into the cluster of a server. Objects with a UID existed before: they
//! are restored as from a backup, with status, UID and times. Other objects are created, as if by a
//! client.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::identity::DEFAULT_ACCOUNT;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, Plugin, kind_named};
use podstorm_objects::{ApiError, Kind, Namespace, Now, Pod, PodSpec, Str};
use serde_json::json;

use crate::input::{InputObject, described, missing_namespaces};

/// The rank, in the loading order, of objects that have a UID because they existed before.
const EXISTING: u8 = 3;

/// An object that the API server refuses to load.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct Refused {
    /// The object's index in the input; `None` if the server added the object itself.
    pub number: Option<usize>,
    /// The object in words: `Pod shop/web-1`, `Node n1`.
    pub object: String,
    /// The API server's error.
    pub problem: ApiError,
}

/// Loads objects, each after the objects that its admission needs. Namespaces that are referenced
/// but missing are created. If `accounts` is set, every namespace gets its service account
/// `default` before any pod is loaded.
///
/// # Errors
/// The error for the first object that the API server refuses.
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
        // New objects come last, so that generated names never collide with those of a dump.
        _ if !object.metadata().uid.is_empty() => EXISTING,
        _ => 4,
    };
    // The sort is stable: objects of equal rank keep the order of the files.
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
    // Only now, because the objects of the terminating definitions are loaded.
    cluster.end_definitions(now);
    Ok(())
}

/// Pods after admission, because many pods share a spec. The key is the address of the spec as
/// it was sent and, if admission depends on it, the namespace. The value has the sent spec, too.
type Admitted = HashMap<(*const PodSpec, Str), (Arc<PodSpec>, Pod), RandomState>;

/// The maximum number of entries in [`Admitted`].
const ADMITTED_MAX: usize = 1_000;

/// Applies admission to new pods. New nodes do not get the taint of unready nodes: the nodes of
/// files are ready, and no controller here would remove the taint.
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

/// Creates the service account `default` in every namespace, because new pods use it and the
/// controller that normally creates it does not run yet.
///
/// # Errors
/// The server refuses an account for a reason other than that the account exists, the namespace is
/// terminating or a quota is exhausted.
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
