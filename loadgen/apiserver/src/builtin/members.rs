//! Members that a kind needs, and members that stay as they were made.

use podstorm_objects::{Cause, DynamicObject};
use serde_json::Value;

use crate::validation::{Checks, Field};

/// A cause for each member that is absent or empty. A path is written as in messages, with `[]` for every
/// entry of a list: `webhooks[].sideEffects`. What lies under an absent object or list is not asked for,
/// unless that has a path of its own.
pub(super) fn missing(object: &DynamicObject, paths: &[&str]) -> Vec<Cause> {
    let checks = Checks::default();
    for path in paths {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        look(
            &checks.field(object, first.trim_end_matches("[]")),
            first,
            rest,
        );
    }
    checks.found()
}

fn look(field: &Field<'_>, part: &str, rest: &str) {
    if part.ends_with("[]") {
        for entry in field.items() {
            descend(&entry, rest);
        }
    } else if rest.is_empty() {
        let is_empty = match field.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(entries) => entries.is_empty(),
            _ => false,
        };
        if is_empty {
            field.required("");
        }
    } else if field.value.is_object() || field.path == "spec" {
        // A spec is never absent: where it isn't given it is empty.
        descend(field, rest);
    }
}

fn descend(field: &Field<'_>, path: &str) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    look(&field.at(first.trim_end_matches("[]")), first, rest);
}

/// A cause for each member that an update changes though it is fixed; a path leads through objects.
pub(super) fn unchanged(
    new: &DynamicObject,
    old: Option<&DynamicObject>,
    paths: &[&str],
) -> Vec<Cause> {
    let checks = Checks::default();
    let Some(old) = old else { return Vec::new() };
    for path in paths {
        let mut names = path.split('.');
        let first = names.next().unwrap_or("");
        let ends = [checks.field(new, first), checks.field(old, first)];
        let [new, old] = ends.map(|field| names.clone().fold(field, |field, name| field.at(name)));
        new.unchanged(old.value);
    }
    checks.found()
}

/// The causes of both.
pub(super) fn needed_and_fixed(
    new: &DynamicObject,
    old: Option<&DynamicObject>,
    needed: &[&str],
    fixed: &[&str],
) -> Vec<Cause> {
    let mut causes = missing(new, needed);
    causes.extend(unchanged(new, old, fixed));
    causes
}
