//! Lists of strategic merge patches: merging entries by key or as a set, deleting and ordering
//! them.

use serde_json::Value;

use super::{
    DIRECTIVE, Directive, ELEMENT_ORDER, MergeField, MergeRules, Of, PatchProblem, added_list,
    added_map, directive, go_text, merge_map,
};
use crate::{Map, Places};

/// Returns the identity of a list entry: the value of its key or, if `key` is empty, the entry
/// itself. `None` if the entry has no such key.
fn id_of<'v>(entry: &'v Value, key: &str) -> Option<&'v Value> {
    match key {
        "" => Some(entry),
        key => entry.get(key),
    }
}

/// Merges the entries of a patch into a list.
pub(super) fn merge<R: MergeRules>(
    stored: &mut Vec<Value>,
    changes: &[Value],
    field: &MergeField<'_, Of<R>>,
) -> Result<(), PatchProblem> {
    if stored.is_empty() && changes.is_empty() {
        return Ok(());
    }
    let before = std::mem::take(stored);
    *stored = merged(&before, changes, changes, field)?;
    Ok(())
}

/// Returns the stored list merged with the changes, in the order of `order`.
fn merged<R: MergeRules>(
    stored: &[Value],
    changes: &[Value],
    order: &[Value],
    field: &MergeField<'_, Of<R>>,
) -> Result<Vec<Value>, PatchProblem> {
    let entries = match check_entries(stored, changes)? {
        Entry::Map => {
            let key = match field.merge_key {
                "" => {
                    let of = field.inside.struct_name().unwrap_or("");
                    let problem = format!("cannot merge lists without merge key for {of}");
                    return Err(PatchProblem::Unfit(problem));
                }
                key => key,
            };
            merge_maps(stored, changes, key, field.inside)?
        }
        _ => {
            let mut seen: Places<&Value> = Places::default();
            let mut entries = Vec::with_capacity(stored.len() + changes.len());
            for value in stored.iter().chain(changes) {
                if !seen.contains(&value) {
                    seen.push(value);
                    entries.push(value.clone());
                }
            }
            entries
        }
    };
    arrange(entries, order, stored, field.merge_key)
}

/// Merges lists of maps by the maps' key. New entries of the patch come last.
fn merge_maps<R: MergeRules>(
    stored: &[Value],
    changes: &[Value],
    key: &str,
    of: Of<R>,
) -> Result<Vec<Value>, PatchProblem> {
    let mut plain: Vec<&Map> = Vec::with_capacity(changes.len());
    let mut deleted = Places::default();
    let mut is_replaced = false;
    for change in changes.iter().filter_map(Value::as_object) {
        if change.get(DIRECTIVE).is_some_and(|it| it == "merge") {
            let problem = "merging lists cannot yet be specified in the patch";
            return Err(PatchProblem::Unfit(problem.to_owned()));
        }
        match directive(change)? {
            Some(Directive::Replace) => is_replaced = true,
            Some(Directive::Delete) => {
                deleted.push(change.get(key).ok_or_else(|| without_key(change, key))?);
            }
            None => plain.push(change),
        }
    }
    if is_replaced {
        return Ok(plain
            .into_iter()
            .map(|entry| added_map(entry).into())
            .collect());
    }
    let is_kept = |entry: &&Value| id_of(entry, key).is_none_or(|id| !deleted.contains(&id));
    let mut entries: Vec<Value> = stored.iter().filter(is_kept).cloned().collect();
    let mut ids: Places<Option<&Value>> = (stored.iter().filter(is_kept))
        .map(|entry| id_of(entry, key))
        .collect();
    for change in plain {
        let id = change.get(key);
        if id.is_none() {
            return Err(without_key(change, key));
        }
        // The patch may have had null for the key, and the merge then removed the key.
        let place = ids.position(&id);
        let place = place.filter(|place| id_of(&entries[*place], key) == id);
        match place.map(|place| &mut entries[place]) {
            Some(Value::Object(entry)) => merge_map(entry, change, of)?,
            _ => {
                entries.push(added_map(change).into());
                ids.push(id);
            }
        }
    }
    Ok(entries)
}

/// Orders a list and merges it with the patch's changes to it.
///
/// # Errors
/// Fails if the order or the list is not a list, or if the patch has its entries in another order.
pub(super) fn order<R: MergeRules>(
    target: &mut Map,
    member: &str,
    changes: Option<&Value>,
    order: &Value,
    of: Of<R>,
) -> Result<(), PatchProblem> {
    let order = list(order)?;
    let stored = target.get(member).filter(|stored| !stored.is_null());
    let stored = stored.map(list).transpose()?;
    // As in upstream, null is not a list either.
    let changes = changes.map(list).transpose()?;
    let field = of.declared(member)?;
    check_order(changes.map_or(&[], Vec::as_slice), order, field.merge_key)?;
    let arranged = match (stored, changes) {
        (None, None) => return Ok(()),
        (Some(stored), None) => {
            check_entries(stored, &[])?;
            arrange(stored.clone(), order, stored, field.merge_key)?
        }
        (None, Some(changes)) => {
            check_entries(&[], changes)?;
            let new = added_list(changes);
            arrange(new, order, &[], field.merge_key)?
        }
        (Some(stored), Some(changes)) if field.has_strategy("merge") => {
            merged(stored, changes, order, &field)?
        }
        (Some(stored), Some(changes)) => {
            check_entries(stored, changes)?;
            arrange(added_list(changes), order, stored, field.merge_key)?
        }
    };
    target.insert(member.to_owned(), arranged.into());
    Ok(())
}

fn list(value: &Value) -> Result<&Vec<Value>, PatchProblem> {
    value.as_array().ok_or_else(|| {
        let found = match Entry::from_value(value) {
            Entry::Null => "%!s(<nil>)",
            Entry::Flag => "bool",
            Entry::Integer => "int64",
            Entry::Float => "float64",
            Entry::Text => "string",
            Entry::List => "[]interface {}",
            Entry::Map => "map[string]interface {}",
        };
        PatchProblem::Unfit(format!(
            "expected a []interface {{}}, but received a {found}"
        ))
    })
}

/// Checks that the patch's entries follow the given order.
///
/// # Errors
/// Fails if the entries that the patch keeps don't follow each other in the given order.
fn check_order(changes: &[Value], order: &[Value], key: &str) -> Result<(), PatchProblem> {
    let is_kept = |change: &&Value| change.get(DIRECTIVE).is_none();
    let mut wanted = changes.iter().filter(is_kept).peekable();
    if order.is_empty() {
        return Ok(());
    }
    for place in order {
        let Some(change) = wanted.peek() else {
            return Ok(());
        };
        if keyed(change, key)? == keyed(place, key)? {
            wanted.next();
        }
    }
    if wanted.peek().is_none() {
        return Ok(());
    }
    let text = |list: &[Value]| go_text(&list.into());
    Err(PatchProblem::Unfit(format!(
        "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
        text(changes),
        text(order)
    )))
}

fn keyed<'v>(entry: &'v Value, key: &str) -> Result<&'v Value, PatchProblem> {
    id_of(entry, key).ok_or_else(|| match entry {
        Value::Object(entry) => without_key(entry, key),
        other => PatchProblem::Unfit(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go_text(other)
        )),
    })
}

/// Deletes the entries of `values` from a list.
pub(super) fn delete(target: &mut Map, list: &str, values: &Value) -> Result<(), PatchProblem> {
    if let (Some(Value::Array(entries)), Value::Array(values)) = (target.get_mut(list), values)
        && !(entries.is_empty() && values.is_empty())
    {
        check_entries(entries, values)?;
        let values: Places<&Value> = values.iter().collect();
        entries.retain(|entry| !values.contains(&entry));
    }
    Ok(())
}

/// The type of a list's entries, as Go distinguishes types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Null,
    Flag,
    Integer,
    Float,
    Text,
    List,
    Map,
}

impl Entry {
    fn from_value(value: &Value) -> Entry {
        match value {
            Value::Null => Entry::Null,
            Value::Bool(_) => Entry::Flag,
            Value::Number(number) if number.is_i64() => Entry::Integer,
            Value::Number(_) => Entry::Float,
            Value::String(_) => Entry::Text,
            Value::Array(_) => Entry::List,
            Value::Object(_) => Entry::Map,
        }
    }
}

/// Returns the type that all entries of both lists share.
///
/// # Errors
/// Fails if the entries have several types, if they are lists, or if there are none.
fn check_entries(stored: &[Value], changes: &[Value]) -> Result<Entry, PatchProblem> {
    let mut all = stored.iter().chain(changes).map(Entry::from_value);
    let Some(first) = all.next() else {
        let problem = "no elements in any of the given slices";
        return Err(PatchProblem::Unfit(problem.to_owned()));
    };
    if first == Entry::List {
        return Err(PatchProblem::Unsupported(
            "lists of lists are not supported",
        ));
    }
    if all.any(|other| other != first) {
        let both = Value::Array(vec![stored.into(), changes.into()]);
        let problem = format!("list element types are not identical: {}", go_text(&both));
        return Err(PatchProblem::Unfit(problem));
    }
    Ok(first)
}

/// Sorts the entries. Those in `order` get that order, the others keep the stored order. One of the
/// others precedes one in `order` only if it was stored before it, so new entries precede those
/// that the patch does not name.
fn arrange(
    entries: Vec<Value>,
    order: &[Value],
    stored: &[Value],
    key: &str,
) -> Result<Vec<Value>, PatchProblem> {
    let in_order: Places<Option<&Value>> = order.iter().map(|entry| id_of(entry, key)).collect();
    let in_stored: Places<Option<&Value>> = stored.iter().map(|entry| id_of(entry, key)).collect();
    // An entry with its positions in the order and in the stored list.
    type Placed = (Option<usize>, Option<usize>, Value);
    let placed = entries.into_iter().map(|entry| {
        let id = Some(keyed(&entry, key)?);
        let (in_order, in_stored) = (in_order.position(&id), in_stored.position(&id));
        Ok((in_order, in_stored, entry))
    });
    let placed: Result<Vec<Placed>, PatchProblem> = placed.collect();
    let (mut listed, mut others): (Vec<Placed>, Vec<Placed>) = placed?
        .into_iter()
        .partition(|(in_order, ..)| in_order.is_some());
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
    Ok(placed.map(|(_, _, entry)| entry).collect())
}

fn without_key(entry: &Map, key: &str) -> PatchProblem {
    PatchProblem::Unfit(format!(
        "map: {} does not contain declared merge key: {key}",
        go_text(&entry.clone().into())
    ))
}
