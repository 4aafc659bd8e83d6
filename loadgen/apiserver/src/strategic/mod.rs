//! Merge patches of JSON documents: strategic ones, which know the keyed lists of the Kubernetes
//! API, and plain ones.

use podstorm_objects::Map;
use serde_json::Value;

use crate::places::Places;

/// The member that says what to do with its map or list entry: `delete` or `replace`.
const DIRECTIVE: &str = "$patch";
/// The member with the keys of a map that stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// Prefix of the member with the entries to remove from a list of strings.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// Prefix of the member that orders a list's entries.
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    /// The patch's list replaces the stored one.
    Atomic,
    /// A set of strings: the patch's entries are added.
    Set,
    /// Maps with this key: entries with equal keys are merged.
    Keyed(&'static str),
}

/// How a list is merged; `parent` is the member that holds it, `""` at the root.
fn list_kind(parent: &str, member: &str) -> ListKind {
    use ListKind::{Atomic, Keyed, Set};
    match (parent, member) {
        ("metadata", "ownerReferences") => Keyed("uid"),
        ("metadata", "finalizers") | ("spec", "podCIDRs" | "finalizers") => Set,
        (_, "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env") => {
            Keyed("name")
        }
        ("spec", "imagePullSecrets" | "schedulingGates" | "resourceClaims") => Keyed("name"),
        ("spec", "hostAliases") => Keyed("ip"),
        ("spec", "topologySpreadConstraints") => Keyed("topologyKey"),
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => {
            Keyed("containerPort")
        }
        (_, "volumeMounts") => Keyed("mountPath"),
        (_, "volumeDevices") => Keyed("devicePath"),
        ("status", "conditions" | "addresses") => Keyed("type"),
        ("status", "podIPs" | "hostIPs") => Keyed("ip"),
        _ => Atomic,
    }
}

/// The member by which the entries of a list are told apart in strategic merge patches: its merge
/// key, empty for a set of strings; `None` for a list that patches replace. `parent` is the member
/// that holds the object with the list, `""` at the root.
pub fn merge_key(parent: &str, member: &str) -> Option<&'static str> {
    match list_kind(parent, member) {
        ListKind::Atomic => None,
        ListKind::Set => Some(""),
        ListKind::Keyed(key) => Some(key),
    }
}

/// A patch that can't be applied; the text says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatchProblem(pub String);

/// Applies a strategic merge patch. Null removes a member; a map is merged member by member; a
/// list with a merge key entry by entry; anything else is replaced.
///
/// # Errors
/// A directive that does not exist or stands where it can't.
pub fn strategic_merge(target: &mut Map, patch: &Map) -> Result<(), PatchProblem> {
    merge_map(target, patch, "")
}

fn merge_map(target: &mut Map, patch: &Map, place: &str) -> Result<(), PatchProblem> {
    match directive(patch)? {
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("replace") => {
            *target = patch.clone();
            target.remove(DIRECTIVE);
            return Ok(());
        }
        _ => {}
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        let keys = keys.as_array().map(Vec::as_slice).unwrap_or_default();
        let keys: Places<&str> = keys.iter().filter_map(Value::as_str).collect();
        target.retain(|key, _| keys.contains(&key.as_str()));
    }
    for (member, value) in patch {
        if let Some(list) = member.strip_prefix(DELETE_FROM) {
            delete_from(target, list, value);
        } else if member.starts_with('$') {
            // The order of a list is applied when the list is merged; the rest was read above.
        } else {
            merge_member(target, patch, member, value, place)?;
        }
    }
    // A patch may order a list without changing it.
    for (member, order) in patch {
        if let Some(list) = member.strip_prefix(ELEMENT_ORDER)
            && !patch.contains_key(list)
            && let Some(Value::Array(entries)) = target.get_mut(list)
            && let Value::Array(order) = order
        {
            let kind = list_kind(place, list);
            let stored = entries.clone();
            *entries = arrange(std::mem::take(entries), order, &stored, kind);
        }
    }
    Ok(())
}

fn merge_member(
    target: &mut Map,
    patch: &Map,
    member: &str,
    value: &Value,
    place: &str,
) -> Result<(), PatchProblem> {
    match value {
        Value::Null => {
            target.remove(member);
        }
        // Sic: what a directive replaces must be there.
        Value::Object(changes) if directive(changes)?.is_some() && !target.contains_key(member) => {
        }
        Value::Object(changes) => {
            let entry = target
                .entry(member)
                .or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            if let Value::Object(map) = entry {
                merge_map(map, changes, member)?;
            }
            if directive(changes)? == Some("delete") {
                target.remove(member);
            }
        }
        Value::Array(changes) => {
            let kind = list_kind(place, member);
            if kind == ListKind::Atomic {
                target.insert(member.to_owned(), value.clone());
                return Ok(());
            }
            let stored = match target.get_mut(member) {
                Some(Value::Array(entries)) => std::mem::take(entries),
                _ => Vec::new(),
            };
            let order = patch
                .get(&format!("{ELEMENT_ORDER}{member}"))
                .and_then(Value::as_array);
            let merged = merge_list(stored, changes, order, kind, member)?;
            if merged.is_empty() && !target.contains_key(member) {
                // The patch has only directives for a list that does not exist.
                return Ok(());
            }
            target.insert(member.to_owned(), Value::Array(merged));
        }
        other => {
            target.insert(member.to_owned(), other.clone());
        }
    }
    Ok(())
}

/// Merges the entries of a patch into a list of sets or keyed maps.
fn merge_list(
    stored: Vec<Value>,
    changes: &[Value],
    order: Option<&Vec<Value>>,
    kind: ListKind,
    member: &str,
) -> Result<Vec<Value>, PatchProblem> {
    let is_object = |entry: &Value| entry.is_object();
    let mut all = stored.iter().chain(changes).map(is_object);
    let first = all.next();
    if first.is_some_and(|first| all.any(|other| other != first)) {
        let both = Value::Array(vec![stored.into(), changes.into()]);
        let problem = format!("list element types are not identical: {}", go_text(&both));
        return Err(PatchProblem(problem));
    }
    let mut plain: Vec<Value> = Vec::with_capacity(changes.len());
    let mut deleted = Places::default();
    for change in changes {
        if change.get(DIRECTIVE).is_some_and(|it| it == "merge") {
            let problem = "merging lists cannot yet be specified in the patch";
            return Err(PatchProblem(problem.to_owned()));
        }
        let special = change.as_object().map(directive).transpose()?.flatten();
        match special {
            Some("replace") => {
                let is_plain = |entry: &&Value| entry.get(DIRECTIVE).is_none();
                return Ok(changes.iter().filter(is_plain).cloned().collect());
            }
            Some("delete") => {
                if let ListKind::Keyed(key) = kind {
                    let id = change.get(key).ok_or_else(|| without_key(change, key))?;
                    deleted.push(id);
                }
            }
            _ => plain.push(change.clone()),
        }
    }
    let is_kept = |entry: &&Value| match kind {
        ListKind::Keyed(key) if !deleted.is_empty() => {
            entry.get(key).is_none_or(|id| !deleted.contains(&id))
        }
        _ => true,
    };
    let mut entries: Vec<Value> = stored.iter().filter(is_kept).cloned().collect();
    let mut ids: Places<Option<&Value>> = (stored.iter().filter(is_kept))
        .map(|entry| id_of(entry, kind))
        .collect();
    for change in &plain {
        let id = id_of(change, kind);
        let place = ids.position(&id);
        // To merge may have taken a key away that is null or has directives.
        let place = place.filter(|place| id_of(&entries[*place], kind) == id);
        match (kind, change) {
            (ListKind::Keyed(key), Value::Object(members)) => {
                id.ok_or_else(|| without_key(change, key))?;
                if let Some(Value::Object(entry)) = place.map(|place| &mut entries[place]) {
                    merge_map(entry, members, member)?;
                    continue;
                }
                let mut entry = Map::new();
                merge_map(&mut entry, members, member)?;
                entries.push(Value::Object(entry));
            }
            (ListKind::Keyed(key), _) => return Err(without_key(change, key)),
            _ if place.is_some() => continue,
            _ => entries.push(change.clone()),
        }
        ids.push(id);
    }
    Ok(arrange(entries, order.unwrap_or(&plain), &stored, kind))
}

/// What tells an entry of a list from the others: its key, or itself; `None` where it has none.
fn id_of(entry: &Value, kind: ListKind) -> Option<&Value> {
    match kind {
        ListKind::Keyed(key) => entry.get(key),
        _ => Some(entry),
    }
}

/// Sorts the entries: those in `order` get that order, the others keep the stored order. One of the
/// others goes before one of `order` only if it was stored before it. So new entries come before
/// those that the patch does not name.
fn arrange(entries: Vec<Value>, order: &[Value], stored: &[Value], kind: ListKind) -> Vec<Value> {
    let in_order: Places<Option<&Value>> = order.iter().map(|entry| id_of(entry, kind)).collect();
    let in_stored: Places<Option<&Value>> = stored.iter().map(|entry| id_of(entry, kind)).collect();
    // With its places in the order and in the stored list.
    type Placed = (Option<usize>, Option<usize>, Value);
    let placed = entries.into_iter().map(|entry| {
        let id = id_of(&entry, kind);
        (in_order.position(&id), in_stored.position(&id), entry)
    });
    let (mut listed, mut others): (Vec<Placed>, Vec<Placed>) =
        placed.partition(|(in_order, ..)| in_order.is_some());
    listed.sort_by_key(|(in_order, ..)| *in_order);
    others.sort_by_key(|(_, in_stored, _)| *in_stored);
    let mut arranged = Vec::with_capacity(listed.len() + others.len());
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    while let (Some((_, left, _)), Some((_, right, _))) = (others.peek(), listed.peek()) {
        let left_first = match (left, right) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        arranged.extend(if left_first {
            others.next()
        } else {
            listed.next()
        });
    }
    let placed = arranged.into_iter().chain(listed).chain(others);
    placed.map(|(_, _, entry)| entry).collect()
}

fn delete_from(target: &mut Map, list: &str, texts: &Value) {
    if let (Some(Value::Array(entries)), Value::Array(texts)) = (target.get_mut(list), texts) {
        let texts: Places<&Value> = texts.iter().collect();
        entries.retain(|entry| !texts.contains(&entry));
    }
}

fn directive(map: &Map) -> Result<Option<&str>, PatchProblem> {
    match map.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if matches!(&**text, "delete" | "replace") => Ok(Some(text)),
        Some(other) => {
            // As Go prints what should be a text.
            let shown = match other {
                Value::Number(number) if number.is_i64() => format!("%!s(int64={number})"),
                Value::Bool(flag) => format!("%!s(bool={flag})"),
                other => go_text(other),
            };
            let map = go_text(&Value::Object(map.clone()));
            Err(PatchProblem(format!(
                "unknown patch type: {shown} in map: {map}"
            )))
        }
    }
}

fn without_key(entry: &Value, key: &str) -> PatchProblem {
    PatchProblem(format!(
        "map: {} does not contain declared merge key: {key}",
        go_text(entry)
    ))
}

/// A value as Go prints it.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{name}:{}", go_text(value)))
                .collect();
            members.sort_unstable();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

/// Applies a JSON merge patch: null removes, maps are merged, anything else is replaced.
pub fn json_merge(target: &mut Map, patch: &Map) {
    for (member, value) in patch {
        match value {
            Value::Null => {
                target.remove(member);
            }
            Value::Object(changes) => {
                let entry = target
                    .entry(member)
                    .or_insert_with(|| Value::Object(Map::new()));
                if !entry.is_object() {
                    *entry = Value::Object(Map::new());
                }
                if let Value::Object(map) = entry {
                    json_merge(map, changes);
                }
            }
            other => {
                target.insert(member.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
