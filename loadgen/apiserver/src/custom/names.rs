//! Acceptance of a definition's names: only names that no other definition of its group has.
//!
//! Source: `status/naming_controller.go` and `establish` of Kubernetes' `apiextensions-apiserver`.

use std::collections::BTreeSet;

use podstorm_objects::{DynamicObject, Map, Time};
use serde_json::{Value, json};

/// Returns the condition of a type; `None` if there is none.
fn condition<'o>(object: &'o DynamicObject, kind: &str) -> Option<&'o Value> {
    let conditions = object.fields.get("status")?.get("conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Reports whether a condition has the status `True`.
pub(super) fn is_true(object: &DynamicObject, kind: &str) -> bool {
    has(object, kind, "True")
}

/// Reports whether a condition has this status.
pub(super) fn has(object: &DynamicObject, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

/// The state of a condition.
#[derive(Clone, Copy)]
pub(super) struct State<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Sets a condition. Its transition time changes only with its status.
pub(super) fn set(object: &mut DynamicObject, kind: &str, state: State<'_>, now: Time) {
    let State {
        status,
        reason,
        message,
    } = state;
    let old = condition(object, kind);
    let same = old.filter(|condition| condition["status"] == status);
    let since = same.map_or_else(
        || now.to_string().into(),
        |it| it["lastTransitionTime"].clone(),
    );
    let new = json!({"type": kind, "status": status, "lastTransitionTime": since,
        "reason": reason, "message": message});
    let status = object.fields.entry("status").or_insert_with(|| json!({}));
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        match conditions
            .iter_mut()
            .find(|condition| condition["type"] == kind)
        {
            Some(condition) => *condition = new,
            None => conditions.push(new),
        }
    }
}

/// The accepted names of a group's other definitions: those of resources and those of kinds.
#[derive(Debug, Default)]
pub(super) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Adds the accepted names of another definition.
    pub(super) fn add(&mut self, other: &DynamicObject) {
        let names = other
            .fields
            .get("status")
            .map(|status| &status["acceptedNames"]);
        let Some(names) = names else {
            return;
        };
        let text = |member: &str| names[member].as_str().map(str::to_owned);
        let short = names["shortNames"].as_array().into_iter().flatten();
        let short = short.filter_map(Value::as_str).map(str::to_owned);
        self.resources.extend(
            ["plural", "singular"]
                .into_iter()
                .filter_map(text)
                .chain(short),
        );
        self.kinds
            .extend(["kind", "listKind"].into_iter().filter_map(text));
    }
}

/// Accepts the names that are not taken. Establishes the definition once all its names are
/// accepted.
pub(super) fn accept(definition: &mut DynamicObject, taken: &Taken, now: Time) {
    let none = Value::Null;
    let wanted = definition
        .fields
        .get("spec")
        .map_or(&none, |spec| &spec["names"])
        .clone();
    let old = definition
        .fields
        .get("status")
        .map_or(&none, |it| &it["acceptedNames"]);
    let mut accepted = old.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    for (member, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let names = match member {
            "kind" | "listKind" => &taken.kinds,
            _ => &taken.resources,
        };
        match problem(&wanted[member], &accepted, member, names) {
            Some(problem) => conflict = Some((reason, problem)),
            None => put(&mut accepted, member, &wanted[member]),
        }
    }
    put(&mut accepted, "categories", &wanted["categories"]);
    let status = definition
        .fields
        .entry("status")
        .or_insert_with(|| json!({}));
    status["acceptedNames"] = accepted.into();
    let is_accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    let status = if is_accepted { "True" } else { "False" };
    let accepted = State {
        status,
        reason,
        message: &message,
    };
    set(definition, "NamesAccepted", accepted, now);
    if is_true(definition, "Established") {
        return;
    }
    let established = match is_accepted {
        true => State {
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        },
        false => State {
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted",
        },
    };
    set(definition, "Established", established, now);
}

fn put(names: &mut Map, member: &str, value: &Value) {
    match value.is_null() {
        true => drop(names.remove(member)),
        false => drop(names.insert(member.to_owned(), value.clone())),
    }
}

/// Returns the problem with a name or a list of names; `None` if there is none.
fn problem(
    wanted: &Value,
    accepted: &Map,
    member: &str,
    taken: &BTreeSet<String>,
) -> Option<String> {
    let mine = accepted.get(member);
    let has = |name: &str| match mine {
        Some(Value::String(mine)) => mine == name,
        Some(Value::Array(mine)) => mine.iter().any(|mine| mine == name),
        _ => false,
    };
    let names = match wanted {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        wanted => Vec::from_iter(wanted.as_str()),
    };
    let in_use = names
        .into_iter()
        .filter(|name| !has(name) && taken.contains(*name));
    let problems: Vec<String> = in_use
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    match &problems[..] {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}
