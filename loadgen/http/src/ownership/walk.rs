//! Walks over JSON objects by their schema: the fields of an object, the difference between two
//! objects, merging one into another, and removing fields.
//!
//! Source: `typed` of `sigs.k8s.io/structured-merge-diff`.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_apiserver::limits::Listed;
use podstorm_objects::decode::Path;
use serde_json::{Map, Value};

use super::schema::{Form, Type};
use super::set::{self, FieldSet, PathElement};

/// Returns the fields of an object, which its applier owns.
pub(super) fn fields_of(object: &Value, of: Type<'_>) -> FieldSet {
    let mut fields = FieldSet::default();
    collect(object, of, &mut Vec::new(), &mut fields);
    fields
}

fn collect(value: &Value, of: Type<'_>, path: &mut Vec<PathElement>, fields: &mut FieldSet) {
    match (of.form(value), value) {
        (Form::Map, Value::Object(members)) => {
            for (name, inner) in members {
                path.push(set::member(name));
                let is_empty = inner.is_null() || inner.as_object().is_some_and(Map::is_empty);
                if is_empty || !of.declares(name) {
                    fields.insert(path);
                }
                if let Some(inner_type) = of.member(name) {
                    collect(inner, inner_type, path, fields);
                }
                path.pop();
            }
        }
        (form @ (Form::Keyed | Form::Set), Value::Array(items)) => {
            for item in items {
                path.push(of.step_to(form, item));
                fields.insert(path);
                collect(item, of.item(), path, fields);
                path.pop();
            }
        }
        (Form::Map | Form::Keyed | Form::Set, Value::Null) => {}
        _ => fields.insert(path),
    }
}

/// The difference between two objects.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: FieldSet,
    pub(super) changed: FieldSet,
    pub(super) removed: FieldSet,
}

impl Difference {
    pub(super) fn between(old: &Value, new: &Value, of: Type<'_>) -> Difference {
        Difference::compare(Some(old), Some(new), of).below
    }

    /// Returns the added and changed fields.
    pub(super) fn written(&self) -> FieldSet {
        self.changed.clone().union(&self.added)
    }

    pub(super) fn is_none(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Removes these fields and all fields below them from the difference.
    pub(super) fn ignoring(self, ignored: &FieldSet) -> Difference {
        Difference {
            added: self.added.without_all(ignored),
            changed: self.changed.without_all(ignored),
            removed: self.removed.without_all(ignored),
        }
    }

    fn compare(old: Option<&Value>, new: Option<&Value>, of: Type<'_>) -> Change {
        let mut below = Difference::default();
        let own = Own::compare(&old, &new);
        if own == Own::Same {
            return Change { below, own };
        }
        let Some(form) = new.or(old).map(|value| of.form(value)) else {
            return Change {
                below,
                own: Own::Same,
            };
        };
        let parts = |value: Option<&Value>| value.is_some_and(has_parts);
        if form == Form::Atom || !(parts(old) || parts(new)) {
            return Change { below, own };
        }
        match form {
            Form::Map => below.compare_members(old, new, of),
            _ => below.compare_entries(old, new, of, form),
        }
        // A value with parts changes only through its parts.
        let own = match own {
            Own::Changed => Own::Same,
            own => own,
        };
        Change { below, own }
    }

    fn compare_members(&mut self, old: Option<&Value>, new: Option<&Value>, of: Type<'_>) {
        let old = old.and_then(Value::as_object);
        let new = new.and_then(Value::as_object);
        let is_there = |name: &str| new.is_some_and(|members| members.contains_key(name));
        let gone = old
            .into_iter()
            .flatten()
            .filter(|(name, _)| !is_there(name));
        for (name, value) in gone {
            if let Some(inner) = of.member(name) {
                let found = Difference::compare(Some(value), None, inner);
                self.put(&set::member(name), found);
            }
        }
        for (name, value) in new.into_iter().flatten() {
            let before = old.and_then(|members| members.get(name));
            if before != Some(value)
                && let Some(inner) = of.member(name)
            {
                let found = Difference::compare(before, Some(value), inner);
                self.put(&set::member(name), found);
            }
        }
    }

    fn compare_entries(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        of: Type<'_>,
        form: Form,
    ) {
        let (old, new) = (entries(old, of, form), entries(new, of, form));
        let steps: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
        for step in steps {
            let (old, new) = (old.get(step), new.get(step));
            let one = |items: Option<&Vec<&Value>>| items.is_none_or(|items| items.len() == 1);
            let found = match one(old) && one(new) {
                true => {
                    let old = old.and_then(|items| items.first().copied());
                    let new = new.and_then(|items| items.first().copied());
                    Difference::compare(old, new, of.item())
                }
                // Entries with equal keys cannot be distinguished, so compare them as a whole.
                false => Change {
                    below: Difference::default(),
                    own: Own::compare(&old, &new),
                },
            };
            self.put(step, found);
        }
    }

    fn put(&mut self, step: &str, found: Change) {
        let Change { below, own } = found;
        self.added.put(step, own == Own::Added, below.added);
        self.changed.put(step, own == Own::Changed, below.changed);
        self.removed.put(step, own == Own::Removed, below.removed);
    }
}

/// The difference below a value, and the change of the value itself.
struct Change {
    below: Difference,
    own: Own,
}

/// The change of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Same,
    Added,
    Changed,
    Removed,
}

impl Own {
    fn compare<T: PartialEq>(old: &Option<T>, new: &Option<T>) -> Own {
        match (old, new) {
            (None, _) => Own::Added,
            (_, None) => Own::Removed,
            (Some(old), Some(new)) if old != new => Own::Changed,
            _ => Own::Same,
        }
    }
}

fn has_parts(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Groups the entries of a list by their steps.
fn entries<'v>(
    list: Option<&'v Value>,
    of: Type<'_>,
    form: Form,
) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut by_step: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        by_step
            .entry(of.step_to(form, item))
            .or_default()
            .push(item);
    }
    by_step
}

/// Merges a configuration into the stored value: sets its fields and removes none.
pub(super) fn merged(stored: &Value, config: &Value, of: Type<'_>) -> Value {
    match (of.form(config), stored, config) {
        (Form::Map, Value::Object(stored), Value::Object(config)) => {
            let mut out = stored.clone();
            for (name, value) in config {
                let old = stored.get(name).unwrap_or(&Value::Null);
                let new = match of.member(name) {
                    Some(inner) => merged(old, value, inner),
                    None => value.clone(),
                };
                out.insert(name.clone(), new);
            }
            Value::Object(out)
        }
        (form @ (Form::Keyed | Form::Set), Value::Array(stored), Value::Array(config)) => {
            Value::Array(merged_lists(stored, config, of, form))
        }
        // A null claims the field, but not the fields below it.
        (Form::Map | Form::Keyed | Form::Set, stored, Value::Null) if has_parts(stored) => {
            stored.clone()
        }
        _ => config.clone(),
    }
}

/// Merges two lists. Entries that are in both lists have the order of the configuration; the others
/// keep their position in the stored list.
fn merged_lists(stored: &[Value], config: &[Value], of: Type<'_>, form: Form) -> Vec<Value> {
    let step = |item: &Value| of.step_to(form, item);
    let stored: Vec<(PathElement, &Value)> = stored.iter().map(|item| (step(item), item)).collect();
    let config: Vec<(PathElement, &Value)> = config.iter().map(|item| (step(item), item)).collect();
    let in_stored: BTreeMap<&PathElement, &Value> = stored
        .iter()
        .rev()
        .map(|(step, item)| (step, *item))
        .collect();
    let in_config: BTreeSet<&PathElement> = config.iter().map(|(step, _)| step).collect();
    let mut shared = config.iter().map(|(step, _)| step);
    let mut shared = shared
        .by_ref()
        .filter(|step| in_stored.contains_key(*step))
        .peekable();
    let mut out = Vec::with_capacity(stored.len() + config.len());
    let (mut left, mut right) = (stored.iter().peekable(), config.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some((step, item)), _) if !in_config.contains(step) => {
                out.push((*item).clone());
                left.next();
            }
            // The entry is in both lists, but out of order: emit it at its position in the
            // configuration.
            (Some((step, _)), _) if shared.peek() != Some(&step) => {
                left.next();
            }
            (_, Some((step, item))) => {
                match in_stored.get(step) {
                    Some(old) => out.push(merged(old, item, of.item())),
                    None => out.push((*item).clone()),
                }
                if shared.peek() == Some(&step) {
                    shared.next();
                    left.next_if(|(other, _)| other == step);
                }
                right.next();
            }
            (Some(_), None) => {
                left.next();
            }
            (None, None) => return out,
        }
    }
}

/// Returns the value without these fields and all fields below them; null if nothing remains.
pub(super) fn removed(value: &Value, fields: &FieldSet, of: Type<'_>) -> Value {
    let left: Value = match (of.form(value), value) {
        (Form::Map, Value::Object(members)) => {
            let kept = members.iter().filter_map(|(name, inner)| {
                let step = set::member(name);
                let inner = keep(inner, &step, fields, of.member(name))?;
                Some((name.clone(), inner))
            });
            kept.collect()
        }
        (form @ (Form::Keyed | Form::Set), Value::Array(items)) => {
            let kept = items
                .iter()
                .filter_map(|item| keep(item, &of.step_to(form, item), fields, Some(of.item())));
            kept.collect()
        }
        _ => return value.clone(),
    };
    match has_parts(&left) {
        true => left,
        false => Value::Null,
    }
}

fn keep(value: &Value, step: &str, fields: &FieldSet, of: Option<Type<'_>>) -> Option<Value> {
    if fields.has(step) {
        return None;
    }
    Some(match (fields.below(step), of) {
        (Some(below), Some(of)) => removed(value, below, of),
        _ => value.clone(),
    })
}

/// Returns the type errors of a configuration in upstream's words: as many as can be
/// [listed](Listed).
pub(super) fn problems(config: &Value, of: Type<'_>) -> Vec<String> {
    let mut found = Listed::default();
    check(config, of, &Path::ROOT, &mut found);
    found.into_vec()
}

/// Formats a path for messages: `.spec.containers[name="a"]`; empty for the root.
fn place(path: &Path<'_>) -> String {
    match path.is_root() {
        true => String::new(),
        false => format!(".{path}"),
    }
}

fn check(value: &Value, of: Type<'_>, path: &Path<'_>, found: &mut Listed) {
    if found.is_full() {
        return;
    }
    let mut wrong = |wanted: &str| {
        let path = place(path);
        found.push(format_args!("{path}: expected {wanted}, got {}", go(value)));
    };
    match (of.json_type(), value) {
        (_, Value::Null) => {}
        _ if of.is_int_or_string() => {}
        ("integer" | "number", Value::Number(_)) | ("boolean", Value::Bool(_)) => {}
        ("string", Value::String(_)) => {}
        ("string", Value::Number(_)) if of.is_quantity() => {}
        ("integer" | "number", _) => wrong("numeric (int or float)"),
        // Upstream shows the value only for this type.
        ("string", _) => {
            let (path, value) = (place(path), go_syntax(value));
            found.push(format_args!(
                "{path}: expected string, got &value.valueUnstructured{{Value:{value}}}"
            ));
        }
        ("boolean", _) => wrong("boolean"),
        ("object", Value::Object(members)) => {
            for (name, inner) in members {
                let at = path.member(name);
                match of.member(name) {
                    Some(inner_type) => check(inner, inner_type, &at, found),
                    None if of.form(value) == Form::Atom
                        && !of.declares(name)
                        && !of.is_struct() => {}
                    None if found.is_full() => return,
                    None => {
                        found.push(format_args!("{}: field not declared in schema", place(&at)));
                    }
                }
            }
        }
        ("object", _) => wrong("map"),
        ("array", Value::Array(items)) => check_items(items, value, of, path, found),
        ("array", _) => wrong("list"),
        _ => {}
    }
}

fn check_items(items: &[Value], list: &Value, of: Type<'_>, path: &Path<'_>, found: &mut Listed) {
    let form = of.form(list);
    let mut seen = BTreeSet::new();
    for (number, item) in items.iter().enumerate() {
        let step = match form {
            Form::Keyed | Form::Set => of.step_to(form, item),
            _ => format!("i:{number}"),
        };
        let shown = set::shown(&step);
        // The path adds the brackets around a key.
        let key = shown
            .strip_prefix('[')
            .and_then(|key| key.strip_suffix(']'));
        let key = key.unwrap_or(&shown);
        check(item, of.item(), &path.key(key), found);
        if !seen.insert(step) && !found.is_full() {
            let path = place(path);
            found.push(format_args!("{path}: duplicate entries for key {shown}"));
        }
    }
}

/// Returns Go's name for the type of a value.
fn go(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value in Go's syntax (`%#v`).
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("{}{{{}}}", go(value), items.join(", "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{name:?}:{}", go_syntax(value)));
            let mut members: Vec<String> = members.collect();
            members.sort_unstable();
            format!("{}{{{}}}", go(value), members.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::kind_named;
    use serde_json::json;

    use super::super::schema::{Schema, schema_of};
    use super::*;

    fn pod() -> Type<'static> {
        let schema = schema_of(kind_named("Pod").unwrap());
        let Schema::Known(schema) = schema else {
            unreachable!("a built-in kind")
        };
        Type::from_schema(schema)
    }

    fn fields(fields: Value) -> FieldSet {
        FieldSet::from_fields_v1(&fields).unwrap()
    }

    fn names(object: &Value) -> Vec<&str> {
        let containers = object["spec"]["containers"].as_array().unwrap().iter();
        containers.map(|it| it["name"].as_str().unwrap()).collect()
    }

    fn containers(names: &[&str]) -> Value {
        let named = names.iter().map(|name| json!({"name": name}));
        json!({"spec": {"containers": named.collect::<Vec<_>>()}})
    }

    #[test]
    fn applied_entries_are_reordered_and_others_stay() {
        for (stored, config, wanted) in [
            (&["a", "b", "c"][..], &["c", "a"][..], &["b", "c", "a"][..]),
            (&["a", "b"], &["x", "b"], &["a", "x", "b"]),
            (&["a"], &["b"], &["a", "b"]),
            (&[], &["b", "a"], &["b", "a"]),
            (&["a", "b"], &[], &["a", "b"]),
        ] {
            let merged = merged(&containers(stored), &containers(config), pod());
            assert_eq!(names(&merged), wanted, "{stored:?} and {config:?}");
        }
    }

    #[test]
    fn atomic_values_are_replaced_and_others_merged() {
        let stored = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x/a"]},
            "spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]}});
        let config = json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["x/b"]},
            "spec": {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "b"}]}});
        let wanted = json!({"metadata": {"labels": {"a": "1", "b": "2"},
            "finalizers": ["x/a", "x/b"]},
            "spec": {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "b"}]}});
        assert_eq!(merged(&stored, &config, pod()), wanted);
        let owned = fields_of(&config, pod());
        assert_eq!(
            owned,
            fields(json!({"f:metadata": {"f:labels": {"f:b": {}},
                "f:finalizers": {"v:\"x/b\"": {}}},
                "f:spec": {"f:nodeSelector": {}, "f:tolerations": {}}}))
        );
    }

    #[test]
    fn removing_fields_leaves_no_empty_list_or_map() {
        let object = json!({"metadata": {"labels": {"a": "1"}, "name": "p"},
            "spec": {"containers": [{"name": "a", "image": "i",
                "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}});
        let gone = fields(json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec":
            {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}, "f:ports":
                {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}}}}}}));
        let left = json!({"metadata": {"labels": null, "name": "p"},
            "spec": {"containers": [{"name": "a",
                "ports": [{"containerPort": 80, "protocol": "UDP"}]}]}});
        assert_eq!(removed(&object, &gone, pod()), left);
    }

    #[test]
    fn differences_are_computed_field_by_field() {
        let old = json!({"metadata": {"labels": {"a": "1", "b": "1"}},
            "spec": {"nodeName": "n"}});
        let new = json!({"metadata": {"labels": {"a": "2", "c": "1"}, "annotations": {"k": "v"}}});
        let found = Difference::between(&old, &new, pod());
        let labels = |name: &str| json!({"f:metadata": {"f:labels": {name: {}}}});
        assert_eq!(found.changed, fields(labels("f:a")));
        assert_eq!(
            found.added,
            fields(json!({"f:metadata": {"f:labels": {"f:c": {}},
                "f:annotations": {".": {}, "f:k": {}}}}))
        );
        assert_eq!(
            found.removed,
            fields(json!({"f:metadata": {"f:labels": {"f:b": {}}},
                "f:spec": {".": {}, "f:nodeName": {}}}))
        );
        assert!(Difference::between(&old, &old, pod()).is_none());
    }

    #[test]
    fn type_errors_of_configurations_are_reported() {
        let table = r#"
{"spec": {"containers": {}}} => .spec.containers: expected list, got map[string]interface {}
{"spec": {"hostNetwork": "yes"}} => .spec.hostNetwork: expected boolean, got string
{"metadata": {"labels": {"a": 1}}} => .metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}
{"spec": {"nodeName": ["a", true, null, {"b": 0.5}]}} => .spec.nodeName: expected string, got &value.valueUnstructured{Value:[]interface {}{"a", true, interface {}(nil), map[string]interface {}{"b":0.5}}}
{"metadata": {"labels": []}} => .metadata.labels: expected map, got []interface {}
{"spec": {"containers": [{"name": "a", "imaeg": "x"}]}} => .spec.containers[name="a"].imaeg: field not declared in schema
{"metadata": {"finalizers": ["x/a", "x/a"]}} => .metadata.finalizers: duplicate entries for key [="x/a"]
"#;
        for line in table.trim().lines() {
            let (config, problem) = line.split_once(" => ").expect(line);
            let config = serde_json::from_str(config).expect(config);
            assert_eq!(problems(&config, pod()), [problem]);
        }
        let fine = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}],
            "volumes": [{"name": "v", "emptyDir": {}}]}});
        assert_eq!(problems(&fine, pod()), [""; 0]);
    }
}
