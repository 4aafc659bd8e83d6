//! Finds the object in question by its name: `NAMESPACE/NAME`, or `NAME` if that is unique.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm_objects::{DynamicObject, Kind, ObjectMeta, ReplicaSet};

use super::Objects;

/// The maximum number of similar names to list in a message.
const NEAR_MAX: usize = 3;

/// Finds the owner of this kind and name.
///
/// # Errors
/// No object has this name (the error contains the most similar names), several objects in
/// different namespaces have it, or a part of the name is empty.
pub fn find(objects: &Objects, kind: Kind, wanted: &str) -> Result<Arc<ReplicaSet>> {
    let all = objects.owners(kind);
    let what = kind.name();
    let other_kind = other_kind(objects, kind);
    if all.is_empty() {
        bail!("the input has no {what}{other_kind}");
    }
    let names: Vec<String> = all.iter().map(|one| full_name(&one.metadata)).collect();
    if let Some(at) = only(what, wanted, &names)? {
        return Ok(Arc::clone(&all[at]));
    }
    let near = near_names(wanted, &names);
    let there = match near.is_empty() {
        true => format!("it has {}", some_of(&names)),
        false => format!("the nearest: {}", near.join(", ")),
    };
    bail!("the input has no {what} {wanted:?}; {there}{other_kind}")
}

/// Finds the untyped object with this name. `dump` names the resources to dump, for the error if
/// the object is missing.
///
/// # Errors
/// No object or several have this name.
pub(crate) fn untyped(
    kind: Kind,
    wanted: &str,
    mut all: Vec<Arc<DynamicObject>>,
    dump: &str,
) -> Result<(Arc<DynamicObject>, Vec<Arc<DynamicObject>>)> {
    let what = kind.name();
    let names: Vec<String> = all.iter().map(|it| full_name(&it.metadata)).collect();
    if names.is_empty() {
        bail!("the input has no {what}; dump it with its pods: kubectl get {dump} -A -o json");
    }
    let Some(at) = only(what, wanted, &names)? else {
        let near = match near_names(wanted, &names) {
            near if near.is_empty() => some_of(&names),
            near => near.join(", "),
        };
        bail!("the input has no {what} {wanted:?}; the nearest: {near}");
    };
    let found = all.swap_remove(at);
    Ok((found, all))
}

/// Returns the index, in `names`, of the only object with this name, which may lack the namespace.
/// `None` if there is no such object.
///
/// # Errors
/// Several objects in different namespaces have this name, or a part of the name is empty.
pub(crate) fn only(what: &str, wanted: &str, names: &[String]) -> Result<Option<usize>> {
    let (namespace, name) = match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    };
    if name.is_empty() || name.contains('/') || namespace == Some("") {
        bail!(
            "{wanted:?} is not the name of a {what}; write NAMESPACE/NAME, or NAME if it is unique"
        );
    }
    let is_it = |at: &usize| as_asked(wanted, &names[*at]) == wanted;
    let found: Vec<usize> = (0..names.len()).filter(is_it).collect();
    if let [_, _, ..] = found[..] {
        let names: Vec<String> = found.iter().map(|at| names[*at].clone()).collect();
        let names = some_of(&names);
        bail!("{what} {name:?} is in several namespaces; use one of: {names}");
    }
    Ok(found.first().copied())
}

/// Returns a full name in the form of the wanted name: with or without its namespace.
fn as_asked<'a>(wanted: &str, full: &'a str) -> &'a str {
    match (wanted.contains('/'), full.split_once('/')) {
        (false, Some((_, name))) => name,
        _ => full,
    }
}

/// Returns the full names that are most similar to the wanted name, for a message.
pub(crate) fn near_names(wanted: &str, names: &[String]) -> Vec<String> {
    let known = |full: &String| (as_asked(wanted, full).to_owned(), full.clone());
    nearest(wanted, names.iter().map(known))
}

/// Finds the newest ReplicaSet of a Deployment: by the revision that the Deployment controller
/// counts, then by age. If several have replicas, the second value describes the choice.
///
/// # Errors
/// There is no ReplicaSet of such a Deployment (the error contains the most similar names), or
/// several Deployments have this name.
pub fn find_deployment(
    objects: &Objects,
    wanted: &str,
) -> Result<(Arc<ReplicaSet>, Option<String>)> {
    let mut owned: BTreeMap<(&str, &str), Vec<&Arc<ReplicaSet>>> = BTreeMap::new();
    for object in objects.owners(Kind::REPLICA_SET) {
        let meta = &object.metadata;
        let owner = meta.controller();
        if let Some(owner) = owner.filter(|owner| *owner.kind == *"Deployment") {
            let key = (&*meta.namespace, &*owner.name);
            owned.entry(key).or_default().push(object);
        }
    }
    let full = |(namespace, name): &(&str, &str)| format!("{namespace}/{name}");
    let names: Vec<String> = owned.keys().map(full).collect();
    let Some(at) = only("Deployment", wanted, &names)? else {
        let near = near_names(wanted, &names);
        let there = match (near.is_empty(), names.is_empty()) {
            (false, _) => format!(" (the nearest Deployments with: {})", near.join(", ")),
            (true, false) => format!(" (Deployments with: {})", some_of(&names)),
            (true, true) => String::new(),
        };
        bail!(
            "the input has no ReplicaSet of a Deployment {wanted:?}, and a Deployment's pods are its \
             ReplicaSets': dump them too, kubectl get rs,rc,pods,nodes -A -o json{there}"
        );
    };
    let mut all = owned
        .into_values()
        .nth(at)
        .expect("every object has a name");
    let age = |object: &ReplicaSet| (revision(object), object.metadata.creation_timestamp);
    // The newest first, and equally new ones by name.
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
        None => "the newest by creation, because none has a revision",
    };
    let note = (with_replicas.len() > 1 || newest.replicas() == 0).then(|| {
        let has = match with_replicas.is_empty() {
            true => "none has replicas".to_owned(),
            false => format!("replicas have {}", some_of(&with_replicas)),
        };
        format!(
            "Of the {} ReplicaSets of Deployment {} this is {by}, {}; {has}. During a \
             rollout a Deployment divides its replicas over several ReplicaSets: --replicaset \
             selects another one, and --replicas applies to this one.",
            all.len(),
            names[at],
            newest.metadata.name,
        )
    });
    Ok((Arc::clone(newest), note))
}

/// Returns the revision number in a ReplicaSet's annotation; `None` without a valid annotation.
fn revision(object: &ReplicaSet) -> Option<u64> {
    let revision = object
        .metadata
        .annotations
        .get("deployment.kubernetes.io/revision")?;
    revision.parse().ok()
}

/// Formats the full name of an object: `NAMESPACE/NAME`.
pub(crate) fn full_name(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}

/// Returns the known names that are similar to the wanted one, most similar first. The first string
/// of a pair is compared, the second one is returned.
pub(super) fn nearest(wanted: &str, known: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut near: Vec<(u64, String)> = known
        .map(|(text, shown)| (strsim::jaro_winkler(wanted, &text), shown))
        .filter(|(similarity, _)| *similarity >= 0.7)
        // Similarities lie between 0 and 1; as integers they can be sorted.
        .map(|(similarity, shown)| ((similarity * 1e6) as u64, shown))
        .collect();
    near.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    near.truncate(NEAR_MAX);
    near.into_iter().map(|(_, shown)| shown).collect()
}

/// Formats the beginning of a list of names.
pub(crate) fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0..=SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}

/// Returns a hint at the kind that the user may have meant.
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
