//! Required and immutable fields of kinds.

use podstorm_objects::{Cause, DynamicObject};
use serde_json::Value;

use crate::validation::{Checks, Field};

/// Returns a cause for each field that is absent or empty. Paths are written as in messages, with
/// `[]` for every entry of a list: `webhooks[].sideEffects`. Fields under an absent object or list
/// are not required, unless a separate path requires their parent.
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
        // An absent spec counts as empty.
        descend(field, rest);
    }
}

fn descend(field: &Field<'_>, path: &str) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    look(&field.at(first.trim_end_matches("[]")), first, rest);
}

/// Returns a cause for each immutable field that an update changes. The paths lead only through
/// objects, not through lists.
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

/// Returns the causes of [`missing`] and [`unchanged`].
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
