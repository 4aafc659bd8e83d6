//! Loads the objects of files into the cluster of a server. What exists, by its UID, is restored as from a backup:
//! status, UID and times stay. Anything else is created as a client would.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::identity::DEFAULT_ACCOUNT;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, Plugin, kind_named};
use podstorm_objects::{ApiError, Kind, Namespace, Now, Object, Pod, PodSpec, Str};
use serde_json::json;

use crate::input::{InputObject, missing_namespaces};

/// The place in the order of loading of what exists, by its UID.
const EXISTING: u8 = 3;

/// An object that the API server refuses to load.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {problem}")]
pub struct Refused {
    /// Which of the objects it is; `None` of a namespace that was added to them.
    pub number: Option<usize>,
    /// `Pod shop/web-1`, `Node n1`.
    pub object: String,
    /// What the API server says.
    pub problem: ApiError,
}

/// Loads objects, each after those that admission asks about; namespaces that are named but not among them are
/// created. Where `accounts` is true, every namespace has its account before a pod is loaded.
///
/// # Errors
/// The first object that the API server refuses.
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
        // New ones last, so that no generated name is one of a dump.
        _ if !object.metadata().uid.is_empty() => EXISTING,
        _ => 4,
    };
    // Stable: otherwise in the order of the files.
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
    // Their objects are there now.
    cluster.end_definitions(now);
    Ok(())
}

/// Specs as they came, by their place in memory and the namespace where admission asks for it, and pods as they were
/// admitted with them: many share one.
type Admitted = HashMap<(*const PodSpec, Str), (Arc<PodSpec>, Pod), RandomState>;

/// How many of them are kept.
const ADMITTED_MAX: usize = 1_000;

/// Fills in what admission fills into new pods. A new node does not get the taint of one that is not ready: those of
/// files are, and no controller here would take it away.
///
/// # Errors
/// 403 for a pod that admission refuses.
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
        // The first keeps the place from being another's.
        let sent = Arc::clone(&pod.spec);
        cluster.admit_new(pod)?;
        if known.len() == ADMITTED_MAX {
            known.clear();
        }
        known.insert(key, (sent, Pod::clone(pod)));
    }
    Ok(())
}

/// Gives every namespace the account `default`, which its new pods get: the controller that makes it otherwise does
/// not run yet.
///
/// # Errors
/// One that is refused, but for a namespace that has it, ends or may have no more.
fn add_accounts(cluster: &Cluster, now: Now) -> Result<(), ApiError> {
    let accounts = cluster.api(Kind::SERVICE_ACCOUNT);
    for namespace in cluster.list::<Namespace>(None).0 {
        let name = namespace.metadata.name.as_str();
        let account =
            accounts.read(json!({"metadata": {"namespace": name, "name": DEFAULT_ACCOUNT}}))?;
        let account = account.expect("it has the form of an account");
        match accounts.create(account, now) {
            Err(error) if ![403, 409].contains(&error.code) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// `Pod shop/web-1`, `Node n1`.
fn described(object: &dyn Object) -> String {
    let (metadata, kind) = (object.metadata(), object.kind().name());
    let name = match &*metadata.name {
        "" => metadata.generate_name.as_deref().unwrap_or(""),
        name => name,
    };
    match &*metadata.namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}
