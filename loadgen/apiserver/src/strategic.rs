//! Merging JSON documents: strategic merge patches, which know the lists of the Kubernetes API
//! whose entries have keys, and plain merge patches, which do not.

use podstorm_objects::Map;
use serde_json::Value;

/// Says what to do with the map or list entry it stands in: `delete`, `replace`, `merge`.
const DIRECTIVE: &str = "$patch";
/// Keys of a map that may stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// Prefix of the member that names entries to take out of a list of texts.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// Prefix of the member that orders a list's entries.
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    /// The patch's list takes the place of the stored one.
    Atomic,
    /// A set of texts: the patch's are added.
    Set,
    /// Maps with this key: the patch's are merged with those of the same key.
    Keyed(&'static str),
}

/// How the list at a place is merged: `parent` is the member it stands under, `""` at the root.
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
        target.retain(|key, _| keys.iter().any(|kept| kept == key));
    }
    for (member, value) in patch {
        if let Some(list) = member.strip_prefix(DELETE_FROM) {
            delete_from(target, list, value);
        } else if member.starts_with('$') {
            // The order of a list is seen to when the list is merged; the rest was read above.
        } else {
            merge_member(target, patch, member, value, place)?;
        }
    }
    // A list may be ordered without being changed otherwise.
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
                // Nothing but directives for a list that isn't there.
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
    let mut entries = stored.clone();
    let mut plain: Vec<Value> = Vec::with_capacity(changes.len());
    for change in changes {
        let special = change.as_object().map(directive).transpose()?.flatten();
        match special {
            Some("replace") => {
                let is_plain = |entry: &&Value| entry.get(DIRECTIVE).is_none();
                return Ok(changes.iter().filter(is_plain).cloned().collect());
            }
            Some("delete") => {
                if let ListKind::Keyed(key) = kind {
                    let id = change.get(key).ok_or_else(|| without_key(member, key))?;
                    entries.retain(|entry| entry.get(key) != Some(id));
                }
            }
            _ => plain.push(change.clone()),
        }
    }
    for change in &plain {
        match (kind, change) {
            (ListKind::Keyed(key), Value::Object(change)) => {
                let id = change.get(key).ok_or_else(|| without_key(member, key))?;
                let found = entries.iter_mut().find(|entry| entry.get(key) == Some(id));
                if let Some(Value::Object(entry)) = found {
                    merge_map(entry, change, member)?;
                } else {
                    let mut entry = Map::new();
                    merge_map(&mut entry, change, member)?;
                    entries.push(Value::Object(entry));
                }
            }
            (ListKind::Keyed(key), _) => return Err(without_key(member, key)),
            _ if entries.contains(change) => {}
            _ => entries.push(change.clone()),
        }
    }
    Ok(arrange(entries, order.unwrap_or(&plain), &stored, kind))
}

/// Puts the entries that `order` lists into its order, among the others, which keep the stored
/// one: an entry goes before a listed one only if it was stored before it. So entries that are new
/// come before those that the patch does not speak of.
fn arrange(entries: Vec<Value>, order: &[Value], stored: &[Value], kind: ListKind) -> Vec<Value> {
    let at = |list: &[Value], entry: &Value| {
        list.iter().position(|other| match kind {
            ListKind::Keyed(key) => other.get(key) == entry.get(key),
            _ => other == entry,
        })
    };
    let (mut listed, mut others): (Vec<Value>, Vec<Value>) = entries
        .into_iter()
        .partition(|entry| at(order, entry).is_some());
    listed.sort_by_key(|entry| at(order, entry));
    others.sort_by_key(|entry| at(stored, entry));
    let mut arranged = Vec::with_capacity(listed.len() + others.len());
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(left), Some(right)) = (others.peek(), listed.peek()) {
        let left_first = match (at(stored, left), at(stored, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        arranged.extend(if left_first {
            others.next()
        } else {
            listed.next()
        });
    }
    arranged.extend(listed);
    arranged.extend(others);
    arranged
}

fn delete_from(target: &mut Map, list: &str, texts: &Value) {
    if let (Some(Value::Array(entries)), Value::Array(texts)) = (target.get_mut(list), texts) {
        entries.retain(|entry| !texts.contains(entry));
    }
}

fn directive(map: &Map) -> Result<Option<&str>, PatchProblem> {
    match map.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if matches!(&**text, "delete" | "replace" | "merge") => {
            Ok(Some(text))
        }
        Some(other) => Err(PatchProblem(format!("Unknown patch type found: {other}"))),
    }
}

fn without_key(member: &str, key: &str) -> PatchProblem {
    PatchProblem(format!(
        "map: {member} does not contain declared merge key: {key}"
    ))
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
mod tests {
    use serde_json::json;

    use super::*;

    fn strategic(target: Value, patch: Value) -> Value {
        let (Value::Object(mut target), Value::Object(patch)) = (target, patch) else {
            panic!("both are maps");
        };
        strategic_merge(&mut target, &patch).unwrap();
        Value::Object(target)
    }

    fn owners(list: Value) -> Value {
        json!({"metadata": {"name": "a", "ownerReferences": list}})
    }

    #[test]
    fn owner_references_merge_by_uid() {
        let (a, b) = (
            json!({"uid": "a", "name": "x"}),
            json!({"uid": "b", "name": "y"}),
        );
        let controlled = json!({"uid": "a", "name": "x", "controller": true});
        let drop_a = json!([{"$patch": "delete", "uid": "a"}]);
        let table = [
            (json!([a]), json!([b]), json!([b, a])),
            (
                json!([a, b]),
                json!([{"uid": "a", "controller": true}]),
                json!([controlled, b]),
            ),
            (json!([a, b]), drop_a.clone(), json!([b])),
            (json!([b]), drop_a.clone(), json!([b])),
            (json!([a]), json!([{"$patch": "replace"}, b]), json!([b])),
        ];
        for (stored, patch, wanted) in table {
            assert_eq!(strategic(owners(stored), owners(patch)), owners(wanted));
        }
    }

    #[test]
    fn directives_for_a_list_that_is_not_there_change_nothing() {
        let stored = json!({"metadata": {"name": "a"}});
        let patch = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "a"}]}});
        assert_eq!(strategic(stored.clone(), patch), stored);
    }

    #[test]
    fn maps_merge_by_member_and_null_removes() {
        let table = [
            (
                json!({"a": 1, "b": {"c": 2}}),
                json!({"b": {"d": 3}}),
                json!({"a": 1, "b": {"c": 2, "d": 3}}),
            ),
            (json!({"a": 1}), json!({"a": null, "b": null}), json!({})),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"$patch": "replace", "c": 2}}),
                json!({"a": {"c": 2}}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"$patch": "delete"}}),
                json!({}),
            ),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"$retainKeys": ["c", "d"], "d": 3}}),
                json!({"a": {"c": 2, "d": 3}}),
            ),
        ];
        for (stored, patch, wanted) in table {
            assert_eq!(strategic(stored, patch), wanted);
        }
    }

    #[test]
    fn lists_of_texts_grow_and_shrink_as_sets() {
        let of = |list: Value| json!({"metadata": {"finalizers": list}});
        assert_eq!(
            strategic(of(json!(["a"])), of(json!(["a", "b"]))),
            of(json!(["a", "b"]))
        );
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(strategic(of(json!(["a", "b"])), patch), of(json!(["b"])));
    }

    #[test]
    fn containers_merge_by_name_and_other_lists_are_replaced() {
        let of = |containers: Value| json!({"spec": {"containers": containers}});
        let stored = of(json!([{"name": "c", "image": "x:1", "args": ["a", "b"]}]));
        let patch = of(json!([{"name": "c", "image": "x:2", "args": ["c"]}]));
        let wanted = of(json!([{"name": "c", "image": "x:2", "args": ["c"]}]));
        assert_eq!(strategic(stored, patch), wanted);
    }

    #[test]
    fn new_entries_come_before_those_the_patch_does_not_name_unless_ordered() {
        let list = |names: &[&str]| {
            let entries: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"containers": entries}})
        };
        assert_eq!(strategic(list(&["a"]), list(&["b"])), list(&["b", "a"]));
        let mut patch = list(&["b"]);
        patch["spec"]["$setElementOrder/containers"] = json!([{"name": "a"}, {"name": "b"}]);
        assert_eq!(strategic(list(&["a"]), patch), list(&["a", "b"]));
    }

    #[test]
    fn unknown_directives_and_missing_keys_are_refused() {
        let bad = [
            json!({"metadata": {"$patch": "turn"}}),
            owners(json!([{"name": "x"}])),
            owners(json!([{"$patch": "delete"}])),
        ];
        for patch in bad {
            let Value::Object(patch) = patch else {
                panic!("a map")
            };
            assert!(
                strategic_merge(&mut Map::new(), &patch).is_err(),
                "{patch:?}"
            );
        }
    }

    #[test]
    fn a_merge_patch_replaces_lists() {
        let Value::Object(mut target) = json!({"a": [1], "b": {"c": 1}}) else {
            panic!("a map")
        };
        let Value::Object(patch) = json!({"a": [2], "b": {"c": null, "d": 2}}) else {
            panic!("a map")
        };
        json_merge(&mut target, &patch);
        assert_eq!(Value::Object(target), json!({"a": [2], "b": {"d": 2}}));
    }
}
