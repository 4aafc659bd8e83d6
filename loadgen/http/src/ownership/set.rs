//! Sets of an object's fields, and their form in `metadata.managedFields`: FieldsV1.
//!
//! Source: `fieldpath` of `sigs.k8s.io/structured-merge-diff`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use podstorm_apiserver::limits::Listed;
use serde_json::{Map, Value};

use super::schema::Type;

/// The member of a FieldsV1 node that marks the node itself as a member of the set.
const SELF: &str = ".";

/// A step of a path, as in FieldsV1: `f:` and the name of a member, `k:` and the keys of a list
/// entry, `v:` and the value of a list entry, or `i:` and an index.
pub(crate) type PathElement = String;

/// Returns the step to a member.
pub(crate) fn member(name: &str) -> PathElement {
    format!("f:{name}")
}

/// Returns the step to the list entry with these keys, which must be sorted by name.
pub(crate) fn entry(keys: Map<String, Value>) -> PathElement {
    format!("k:{}", Value::Object(keys))
}

/// Returns the step to an entry of a list of values.
pub(super) fn value(value: &Value) -> PathElement {
    format!("v:{value}")
}

/// Formats a step for messages: `.replicas`, `[name="a"]`, `[="a"]`, `[0]`.
pub(super) fn shown(step: &str) -> String {
    let rest = step.get(2..).unwrap_or("");
    match step.get(..2) {
        Some("k:") => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, it)| format!("{key}={it}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some("v:") => format!("[={rest}]"),
        Some("i:") => format!("[{rest}]"),
        _ => format!(".{rest}"),
    }
}

/// A set of fields: a tree of steps. Every operation takes O(size of the sets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<PathElement, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Whether the field at this step is in the set, regardless of the fields below it.
    is_member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the set of one path.
    pub(super) fn from_path(path: &[&str]) -> FieldSet {
        let mut set = FieldSet::default();
        set.insert(&path.iter().map(|name| member(name)).collect::<Vec<_>>());
        set
    }

    /// Adds a field. Ignores the empty path, because the root is not a field.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        if let Some((last, before)) = path.split_last() {
            let mut at = self;
            for step in before {
                at = &mut at.0.entry(step.clone()).or_default().below;
            }
            at.0.entry(last.clone()).or_default().is_member = true;
        }
    }

    /// Adds a step with the fields below it. Does nothing if the result would contain no field.
    pub(super) fn put(&mut self, step: &str, is_member: bool, below: FieldSet) {
        if is_member || !below.is_empty() {
            self.0.insert(step.to_owned(), Node { is_member, below });
        }
    }

    /// Reports whether the field at this step is in the set.
    pub(super) fn has(&self, step: &str) -> bool {
        self.0.get(step).is_some_and(|node| node.is_member)
    }

    /// Returns the part of the set below this step, or `None` if it is empty.
    pub(super) fn below(&self, step: &str) -> Option<&FieldSet> {
        let below = &self.0.get(step)?.below;
        (!below.is_empty()).then_some(below)
    }

    /// Reports whether the set contains the field at this path or one below it.
    pub(super) fn reaches(&self, path: &[&str]) -> bool {
        match path.split_first() {
            None => true,
            Some((name, rest)) => {
                let node = self.0.get(&member(name));
                node.is_some_and(|node| match rest {
                    [] => true,
                    rest => node.below.reaches(rest),
                })
            }
        }
    }

    /// Returns the fields in either set.
    pub(super) fn union(mut self, other: &FieldSet) -> FieldSet {
        for (step, node) in &other.0 {
            let own = self.0.entry(step.clone()).or_default();
            own.is_member |= node.is_member;
            own.below = std::mem::take(&mut own.below).union(&node.below);
        }
        self
    }

    /// Returns the fields in both sets.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |own, other| match other {
            None => Node::default(),
            Some(other) => Node {
                is_member: own.is_member && other.is_member,
                below: own.below.intersection(&other.below),
            },
        })
    }

    /// Returns the fields that are not in the other set. Fields below a field of the other set
    /// remain.
    pub(super) fn without(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |own, other| match other {
            None => own.clone(),
            Some(other) => Node {
                is_member: own.is_member && !other.is_member,
                below: own.below.without(&other.below),
            },
        })
    }

    /// Returns the fields that are neither in the other set nor below one of its fields.
    pub(super) fn without_all(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |own, other| match other {
            None => own.clone(),
            Some(other) if other.is_member => Node::default(),
            Some(other) => Node {
                is_member: own.is_member,
                below: own.below.without_all(&other.below),
            },
        })
    }

    fn combine(&self, other: &FieldSet, change: impl Fn(&Node, Option<&Node>) -> Node) -> FieldSet {
        let changed = |(step, node): (&PathElement, &Node)| {
            let node = change(node, other.0.get(step));
            (!node.is_empty()).then(|| (step.clone(), node))
        };
        FieldSet(self.0.iter().filter_map(changed).collect())
    }

    /// Adds every struct member above a field of the set, but no list entries and no keys of maps,
    /// so that removing the set leaves no empty structs.
    pub(super) fn with_structs(&self, of: Type<'_>) -> FieldSet {
        let extended = self.0.iter().map(|(step, node)| {
            let name = step.strip_prefix("f:");
            let is_struct = !node.below.is_empty() && name.is_some_and(|name| of.declares(name));
            let below = match of.at(step) {
                Some(inner) => node.below.with_structs(inner),
                None => node.below.clone(),
            };
            let is_member = node.is_member || is_struct;
            (step.clone(), Node { is_member, below })
        });
        FieldSet(extended.collect())
    }

    /// Lists the path of each field as in messages, until the list is full. The fields of each
    /// level come before those below them.
    pub(super) fn list_paths(&self, listed: &mut Listed) {
        self.paths_from(&mut String::new(), listed);
    }

    fn paths_from(&self, path: &mut String, listed: &mut Listed) {
        let length = path.len();
        for (step, _) in self.0.iter().filter(|(_, node)| node.is_member) {
            listed.push(format_args!("{path}{}", shown(step)));
        }
        for (step, node) in self.0.iter().filter(|(_, node)| !node.below.is_empty()) {
            if listed.is_full() {
                return;
            }
            path.push_str(&shown(step));
            node.below.paths_from(path, listed);
            path.truncate(length);
        }
    }

    /// Writes the set as FieldsV1, sorted.
    pub(super) fn write_fields_v1(&self, out: &mut String) {
        self.write(false, out);
    }

    fn write(&self, is_member: bool, out: &mut String) {
        out.push('{');
        let mut comma = "";
        if is_member && !self.is_empty() {
            let _ = write!(out, "\"{SELF}\":{{}}");
            comma = ",";
        }
        for (step, node) in &self.0 {
            out.push_str(comma);
            write_text(step, out);
            out.push(':');
            node.below.write(node.is_member, out);
            comma = ",";
        }
        out.push('}');
    }

    /// Reads FieldsV1. `None` if it is invalid.
    pub(super) fn from_fields_v1(fields: &Value) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        for (step, below) in fields.as_object()?.iter().filter(|(step, _)| *step != SELF) {
            let inner = FieldSet::from_fields_v1(below)?;
            let is_member = inner.is_empty() || below.get(SELF).is_some();
            let node = Node {
                is_member,
                below: inner,
            };
            set.0.insert(canonical(step)?, node);
        }
        Some(set)
    }
}

/// Writes a string as JSON.
pub(super) fn write_text(text: &str, out: &mut String) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    match text.bytes().all(is_plain) {
        true => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        false => {
            let _ = write!(out, "{}", Value::from(text));
        }
    }
}

/// Normalizes the JSON in a step from a client. `None` if the step is invalid.
fn canonical(step: &str) -> Option<PathElement> {
    let rest = step.get(2..)?;
    match step.get(..2)? {
        "f:" => Some(step.to_owned()),
        "i:" => rest.parse::<i64>().ok().map(|_| step.to_owned()),
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
            Some(entry(keys))
        }
        "v:" => Some(value(&serde_json::from_str(rest).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_fields_v1(&fields).unwrap()
    }

    #[test]
    fn fields_v1_round_trips() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers":
            {"v:\"x/y\"": {}}}, "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}":
            {".": {}, "f:port": {}}}, "f:replicas": {}}});
        let mut text = String::new();
        set(fields.clone()).write_fields_v1(&mut text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), fields);
        assert_eq!(FieldSet::from_fields_v1(&json!({"x": {}})), None);
        assert_eq!(FieldSet::from_fields_v1(&json!({"k:{": {}})), None);
        assert_eq!(FieldSet::from_fields_v1(&json!(1)), None);
    }

    #[test]
    fn sets_are_combined_field_by_field() {
        let one = set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}}));
        let two = set(json!({"f:a": {"f:c": {}, "f:d": {}}, "f:e": {}}));
        let all = json!({"f:a": {".": {}, "f:b": {}, "f:c": {}, "f:d": {}}, "f:e": {}});
        assert_eq!(one.clone().union(&two), set(all));
        assert_eq!(one.intersection(&two), set(json!({"f:a": {"f:c": {}}})));
        assert_eq!(one.without(&two), set(json!({"f:a": {".": {}, "f:b": {}}})));
        let a = set(json!({"f:a": {}}));
        assert_eq!(one.without(&a), set(json!({"f:a": {"f:b": {}, "f:c": {}}})));
        assert!(one.without_all(&a).is_empty());
    }

    #[test]
    fn paths_are_formatted_as_upstream() {
        let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}},
            "f:replicas": {}}, "f:metadata": {"f:finalizers": {"v:\"x/y\"": {}}}});
        let mut paths = Listed::default();
        set(fields).list_paths(&mut paths);
        assert_eq!(
            paths.into_vec(),
            [
                ".metadata.finalizers[=\"x/y\"]",
                ".spec.replicas",
                ".spec.containers[name=\"c\"].image"
            ]
        );
    }
}
