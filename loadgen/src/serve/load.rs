//! Loads the objects of files into the cluster of a server. What exists, by its UID, is restored as from a backup:
//! status, UID and times stay. Anything else is created as a client would.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::{Cluster, kind_named};
use podstorm_objects::{ApiError, Kind, Now, Object, PodSpec};

use crate::input::{InputObject, missing_namespaces};

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
/// created.
///
/// # Errors
/// The first object that the API server refuses.
pub(super) fn load(
    cluster: &Cluster,
    objects: Vec<InputObject>,
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
    // Stable: otherwise in the order of the files.
    objects.sort_by_key(|(_, object)| match object.kind() {
        kind if kind == Kind::NAMESPACE => 0,
        kind if Some(kind) == definition => 1,
        kind if classes.contains(&Some(kind)) => 2,
        // New ones last, so that no generated name is one of a dump.
        _ if !object.metadata().uid.is_empty() => 3,
        _ => 4,
    });
    let mut admitted = Admitted::with_hasher(FIXED_STATE);
    for (number, mut object) in objects {
        let described = described(object.as_object());
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

/// Specs as they came, by their place in memory, and as they were admitted: many pods share one.
type Admitted = HashMap<*const PodSpec, (Arc<PodSpec>, Arc<PodSpec>), RandomState>;

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
        let at = Arc::as_ptr(&pod.spec);
        pod.spec = match known.get(&at) {
            Some((_, admitted)) => Arc::clone(admitted),
            None => {
                let admitted = cluster.admitted(pod)?;
                if known.len() == ADMITTED_MAX {
                    known.clear();
                }
                // The first keeps the place from being another's.
                known.insert(at, (Arc::clone(&pod.spec), Arc::clone(&admitted)));
                admitted
            }
        };
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
