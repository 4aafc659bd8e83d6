//! Members that a kind needs, and members that stay as they were made.

use podstorm_objects::{Cause, DynamicObject};
use serde_json::Value;

use crate::errors::{invalid_value, required};

/// A cause for each member that is absent or empty. A path is written as in messages, with `[]` for every
/// entry of a list: `webhooks[].sideEffects`. What lies under an absent object or list is not asked for,
/// unless that has a path of its own.
pub(super) fn missing(object: &DynamicObject, paths: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for path in paths {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let member = first.trim_end_matches("[]");
        let value = object.fields.get(member).unwrap_or(&Value::Null);
        look(value, first, rest, member.to_owned(), &mut causes);
    }
    causes
}

fn look(value: &Value, part: &str, rest: &str, at: String, causes: &mut Vec<Cause>) {
    if part.ends_with("[]") {
        for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
            descend(entry, rest, &format!("{at}[{index}]"), causes);
        }
        return;
    }
    if rest.is_empty() {
        let is_empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(entries) => entries.is_empty(),
            _ => false,
        };
        if is_empty {
            causes.push(required(at, ""));
        }
        return;
    }
    // A spec is never absent: where it isn't given it is empty.
    if value.is_object() || at == "spec" {
        descend(value, rest, &at, causes);
    }
}

fn descend(value: &Value, path: &str, at: &str, causes: &mut Vec<Cause>) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let member = first.trim_end_matches("[]");
    look(
        &value[member],
        first,
        rest,
        format!("{at}.{member}"),
        causes,
    );
}

/// A cause for each member that an update changes though it is fixed; a path leads through objects.
pub(super) fn unchanged(
    new: &DynamicObject,
    old: Option<&DynamicObject>,
    paths: &[&str],
) -> Vec<Cause> {
    let Some(old) = old else { return Vec::new() };
    let find = |object: &DynamicObject, path: &str| -> Value {
        let mut names = path.split('.');
        let first = names.next().and_then(|name| object.fields.get(name));
        let found = names.try_fold(first.unwrap_or(&Value::Null), |value, name| value.get(name));
        found.cloned().unwrap_or_default()
    };
    let changed = paths
        .iter()
        .filter(|path| find(new, path) != find(old, path));
    changed
        .map(|path| invalid_value(*path, &find(new, path), "field is immutable"))
        .collect()
}
