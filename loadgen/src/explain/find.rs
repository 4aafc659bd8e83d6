//! The object asked about, by name: `NAMESPACE/NAME`, or `NAME` where only one has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{Kind, ReplicaSet};

use super::{ExplainError, Objects};

/// Most near names that a message lists.
const NEAR_MAX: usize = 3;

/// Finds the object of a kind.
///
/// # Errors
/// None of that name, with the nearest ones; several of it in different namespaces; an empty part.
pub fn find(objects: &Objects, kind: Kind, wanted: &str) -> Result<Arc<ReplicaSet>, ExplainError> {
    let all = objects.owners(kind);
    let what = kind.name();
    let other_kind = other_kind(objects, kind);
    if all.is_empty() {
        return refuse(format!("the input has no {what}{other_kind}"));
    }
    let (namespace, name) = parts(wanted, what)?;
    let mut found = all.iter().filter(|object| {
        let meta = &object.metadata;
        meta.name == name && namespace.is_none_or(|namespace| *meta.namespace == *namespace)
    });
    match (found.next(), found.next()) {
        (Some(object), None) => Ok(Arc::clone(object)),
        (Some(_), Some(_)) => {
            let same = all.iter().filter(|object| object.metadata.name == name);
            refuse_several(what, name, same.map(|object| full_name(object)))
        }
        (None, _) => {
            let names: Vec<String> = all.iter().map(|object| full_name(object)).collect();
            let known = |full: &String| match namespace {
                Some(_) => full.clone(),
                None => full.split_once('/').map_or("", |(_, name)| name).to_owned(),
            };
            let near = nearest(wanted, names.iter().map(|full| (known(full), full.clone())));
            let there = match near.is_empty() {
                true => format!("it has {}", some_of(&names)),
                false => format!("the nearest: {}", near.join(", ")),
            };
            refuse(format!(
                "the input has no {what} {wanted:?}; {there}{other_kind}"
            ))
        }
    }
}

fn refuse<T>(problem: String) -> Result<T, ExplainError> {
    Err(ExplainError(problem))
}

fn refuse_several<T>(
    what: &str,
    name: &str,
    all: impl Iterator<Item = String>,
) -> Result<T, ExplainError> {
    let names = some_of(&all.collect::<Vec<_>>());
    refuse(format!(
        "{what} {name:?} is in several namespaces; say which: {names}"
    ))
}

/// The namespace, if there is one, and the name.
pub(super) fn parts<'a>(
    wanted: &'a str,
    what: &str,
) -> Result<(Option<&'a str>, &'a str), ExplainError> {
    let (namespace, name) = match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    };
    if name.is_empty() || name.contains('/') || namespace == Some("") {
        return refuse(format!(
            "{wanted:?} names no {what}; write NAMESPACE/NAME, or NAME where only one has it"
        ));
    }
    Ok((namespace, name))
}

/// The names nearest to the wanted one, for a message; all where none is near.
pub(super) fn nearest_of(wanted: &str, names: &[String]) -> String {
    let known = |full: &String| match wanted.contains('/') {
        true => full.clone(),
        false => full.split_once('/').map_or("", |(_, name)| name).to_owned(),
    };
    let near = nearest(wanted, names.iter().map(|full| (known(full), full.clone())));
    match near.is_empty() {
        true => some_of(names),
        false => near.join(", "),
    }
}

/// Finds the newest ReplicaSet of a Deployment, by revision as Deployments count them and then by
/// age; the second value says how it was chosen, where there were several with replicas.
///
/// # Errors
/// No ReplicaSet of such a Deployment, with the nearest ones; several Deployments of that name.
pub fn find_deployment(
    objects: &Objects,
    wanted: &str,
) -> Result<(Arc<ReplicaSet>, Option<String>), ExplainError> {
    let mut owned: BTreeMap<(&str, &str), Vec<&Arc<ReplicaSet>>> = BTreeMap::new();
    for object in objects.owners(Kind::REPLICA_SET) {
        let meta = &object.metadata;
        let owner = meta.controller();
        if let Some(owner) = owner.filter(|owner| *owner.kind == *"Deployment") {
            let key = (&*meta.namespace, &*owner.name);
            owned.entry(key).or_default().push(object);
        }
    }
    let (namespace, name) = parts(wanted, "Deployment")?;
    let full = |(namespace, name): &(&str, &str)| format!("{namespace}/{name}");
    let is_wanted = |(of, other): &(&str, &str)| {
        *other == name && namespace.is_none_or(|namespace| namespace == *of)
    };
    let found: Vec<_> = owned.keys().copied().filter(|key| is_wanted(key)).collect();
    let key = match found[..] {
        [key] => key,
        [] => {
            let known = owned.keys().map(|key| match namespace {
                Some(_) => (full(key), full(key)),
                None => (key.1.to_owned(), full(key)),
            });
            let near = nearest(wanted, known);
            let names: Vec<String> = owned.keys().map(full).collect();
            let there = match (near.is_empty(), names.is_empty()) {
                (false, _) => format!(" (the nearest Deployments with: {})", near.join(", ")),
                (true, false) => format!(" (Deployments with: {})", some_of(&names)),
                (true, true) => String::new(),
            };
            return refuse(format!(
                "the input has no ReplicaSet of a Deployment {wanted:?}, and a Deployment's pods \
                 are its ReplicaSets': dump them too, kubectl get rs,rc,pods,nodes -A -o json{there}"
            ));
        }
        ref several => return refuse_several("Deployment", name, several.iter().map(full)),
    };
    let mut all = owned.remove(&key).expect("the key is one of its own");
    let age = |object: &ReplicaSet| (revision(object), object.metadata.creation_timestamp);
    // The newest first; of equals the first by name.
    all.sort_by(|a, b| {
        let names = || a.metadata.name.cmp(&b.metadata.name);
        age(b).cmp(&age(a)).then_with(names)
    });
    let with_replicas = all
        .iter()
        .filter(|object| object.replicas() > 0)
        .map(|object| {
            let revision = revision(object).map(|number| format!(" of revision {number}"));
            let (name, replicas) = (&object.metadata.name, object.replicas());
            format!("{name}{} with {replicas}", revision.unwrap_or_default())
        });
    let with_replicas: Vec<String> = with_replicas.collect();
    let newest = all[0];
    let by = match revision(newest) {
        Some(_) => "the newest by revision",
        None => "the newest by creation, for none names a revision",
    };
    let note = (with_replicas.len() > 1 || newest.replicas() == 0).then(|| {
        let has = match with_replicas.is_empty() {
            true => "none has replicas".to_owned(),
            false => format!("replicas have {}", some_of(&with_replicas)),
        };
        format!(
            "Of the {} ReplicaSets of Deployment {} this is {by}, {}; {has}. A Deployment with a \
             roll-out under way divides its replicas over several: --replicaset asks about another, \
             and --replicas is the ReplicaSet's own.",
            all.len(),
            full(&key),
            newest.metadata.name,
        )
    });
    Ok((Arc::clone(newest), note))
}

/// Which of its Deployment's revisions a ReplicaSet is, if it says so.
fn revision(object: &ReplicaSet) -> Option<u64> {
    let revision = object
        .metadata
        .annotations
        .get("deployment.kubernetes.io/revision")?;
    revision.parse().ok()
}

/// `NAMESPACE/NAME`.
pub fn full_name(object: &ReplicaSet) -> String {
    format!("{}/{}", object.metadata.namespace, object.metadata.name)
}

/// Those of the texts that are near a wanted one, the nearest first, each shown by its second part.
pub(super) fn nearest(wanted: &str, known: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut near: Vec<(u64, String)> = known
        .map(|(text, shown)| (strsim::jaro_winkler(wanted, &text), shown))
        .filter(|(similarity, _)| *similarity >= 0.7)
        // Similarities are from 0 to 1: as whole numbers they have an order.
        .map(|(similarity, shown)| ((similarity * 1e6) as u64, shown))
        .collect();
    near.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    near.truncate(NEAR_MAX);
    near.into_iter().map(|(_, shown)| shown).collect()
}

/// A list of names that stays short.
pub(super) fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0..=SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}

/// A hint at the kind that was perhaps meant.
fn other_kind(objects: &Objects, kind: Kind) -> String {
    let (other, flag) = match kind == Kind::REPLICATION_CONTROLLER {
        true => (Kind::REPLICA_SET, "--replicaset"),
        false => (Kind::REPLICATION_CONTROLLER, "--replicationcontroller"),
    };
    match objects.owners(other).len() {
        0 => String::new(),
        count => format!(" (it has {count} {}: {flag})", other.name()),
    }
}
