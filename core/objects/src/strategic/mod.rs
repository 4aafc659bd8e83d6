//! Merge patches of JSON documents: strategic ones, which merge lists and maps by the rules of
//! their fields, and plain JSON merge patches.
//!
//! Source: `util/strategicpatch` in Kubernetes' apimachinery.

mod lists;

use serde_json::Value;

use crate::{Map, Places};

/// The member that states what to do with its map or list entry: `delete` or `replace`.
const DIRECTIVE: &str = "$patch";
/// The member that lists the keys to keep in a map.
const RETAIN_KEYS: &str = "$retainKeys";
/// The prefix of a member that lists the values to delete from a list.
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// The prefix of a member that lists the order of a list's entries.
const ELEMENT_ORDER: &str = "$setElementOrder";

/// The reason why a patch can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchProblem {
    /// A directive has a wrong form.
    #[error("{0}")]
    Malformed(&'static str),
    /// The patch requests an unsupported merge.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The patch and the document don't match, for this reason.
    #[error("{0}")]
    Unfit(String),
}

const WRONG_RETAIN_KEYS: PatchProblem =
    PatchProblem::Malformed("invalid patch format of retainKeys");
const WRONG_DELETION: PatchProblem =
    PatchProblem::Malformed("invalid patch format of primitive list");
const WRONG_ORDER: PatchProblem =
    PatchProblem::Malformed("invalid patch format of setElementOrder list");

/// What is known about the type of a merged value. Only structs have known members.
pub trait MergeRules: Copy {
    /// Returns Go's name of the struct; `None` if the value is not a struct and may have any
    /// member.
    fn struct_name(&self) -> Option<&str>;

    /// Returns how a member is merged; `None` if nothing is known about it.
    fn member(&self, name: &str) -> Option<MergeField<'_, Self>>;
}

/// The rules by which patches merge a member.
#[derive(Clone, Copy, Debug)]
pub struct MergeField<'r, R> {
    /// The strategies, separated by commas.
    pub strategies: &'r str,
    /// The merge key of the list; empty for a list of scalars.
    pub merge_key: &'r str,
    /// The type of the value or, for a list, of its entries.
    pub inside: R,
}

impl<R> MergeField<'_, R> {
    fn has_strategy(&self, strategy: &str) -> bool {
        self.strategies.split(',').any(|it| it == strategy)
    }
}

/// The type of a value, if it is known. If not, the types of the values inside are unknown, too.
#[derive(Clone, Copy, Debug)]
struct Of<R>(Option<R>);

impl<R: MergeRules> Of<R> {
    /// # Errors
    /// Fails if a struct has no member with this name.
    fn declared(&self, member: &str) -> Result<MergeField<'_, Of<R>>, PatchProblem> {
        let struct_name = self.struct_name().unwrap_or("");
        match self.known(member) {
            None if !struct_name.is_empty() => Err(PatchProblem::Unfit(format!(
                "unable to find api field in struct {struct_name} for the json field {member:?}"
            ))),
            known => Ok(known.unwrap_or(Of::UNKNOWN)),
        }
    }

    const UNKNOWN: MergeField<'static, Of<R>> = MergeField {
        strategies: "",
        merge_key: "",
        inside: Of(None),
    };

    fn struct_name(&self) -> Option<&str> {
        self.0.as_ref()?.struct_name()
    }

    fn member(&self, name: &str) -> MergeField<'_, Of<R>> {
        self.known(name).unwrap_or(Of::UNKNOWN)
    }

    fn known(&self, name: &str) -> Option<MergeField<'_, Of<R>>> {
        let field = self.0.as_ref()?.member(name)?;
        Some(MergeField {
            strategies: field.strategies,
            merge_key: field.merge_key,
            inside: Of(Some(field.inside)),
        })
    }
}

/// Applies a strategic merge patch to an object with these rules. Null removes a member. Maps are
/// merged member by member, and lists entry by entry if their field has that rule. Anything else is
/// replaced. No directive stays in the object. O(object + patch).
///
/// # Errors
/// Fails for a directive that does not exist, has a wrong form or is in a wrong place, and for
/// entries of a list without their key. The object is then partly patched.
pub fn strategic_merge<R: MergeRules>(
    rules: Option<R>,
    target: &mut Map,
    patch: &Map,
) -> Result<(), PatchProblem> {
    merge_map(target, patch, Of(rules))
}

fn merge_map<R: MergeRules>(target: &mut Map, patch: &Map, of: Of<R>) -> Result<(), PatchProblem> {
    match directive(patch)? {
        Some(Directive::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(Directive::Replace) => {
            *target = added_map(patch);
            return Ok(());
        }
        None => {}
    }
    retain_keys(target, patch)?;
    let has_orders = patch.keys().any(|name| name.starts_with(ELEMENT_ORDER));
    let order_of = |member: &str| match has_orders {
        true => patch.get(&format!("{ELEMENT_ORDER}/{member}")),
        false => None,
    };
    for (member, value) in patch {
        match Member::parse(member)? {
            Member::Plain(member) => match order_of(member) {
                None => merge_member(target, member, value, of)?,
                Some(order) => lists::order(target, member, Some(value), order, of)?,
            },
            Member::Deletion(list) => lists::delete(target, list, value)?,
            // Handled with the list itself if the patch contains it.
            Member::Order(list) if !patch.contains_key(list) => {
                lists::order(target, list, None, value, of)?;
            }
            Member::Order(_) | Member::Directive => {}
        }
    }
    Ok(())
}

/// A member of a patch, classified by its name.
enum Member<'a> {
    Plain(&'a str),
    /// Values to delete from this list.
    Deletion(&'a str),
    /// The order of this list.
    Order(&'a str),
    /// A directive that was handled before.
    Directive,
}

impl Member<'_> {
    /// # Errors
    /// Fails if the name is a directive for a list but names no list.
    fn parse(name: &str) -> Result<Member<'_>, PatchProblem> {
        if !name.starts_with('$') {
            return Ok(Member::Plain(name));
        }
        let list = |begin: &str| name.strip_prefix(begin).map(|rest| rest.strip_prefix('/'));
        if let Some(list) = list(DELETE_FROM) {
            return list.map(Member::Deletion).ok_or(WRONG_DELETION);
        }
        if let Some(list) = list(ELEMENT_ORDER) {
            return list.map(Member::Order).ok_or(WRONG_ORDER);
        }
        Ok(match name {
            DIRECTIVE | RETAIN_KEYS => Member::Directive,
            other => Member::Plain(other),
        })
    }
}

/// Removes the members that the patch's `$retainKeys` does not list.
///
/// # Errors
/// Fails if the keys to keep are not a list, or if the patch sets a key that is not among them.
fn retain_keys(target: &mut Map, patch: &Map) -> Result<(), PatchProblem> {
    let Some(keys) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or(WRONG_RETAIN_KEYS)?;
    let keys: Places<&str> = keys.iter().filter_map(Value::as_str).collect();
    for (member, value) in patch {
        let sets = matches!(Member::parse(member), Ok(Member::Plain(_))) && !value.is_null();
        if sets && !keys.contains(&member.as_str()) {
            return Err(WRONG_RETAIN_KEYS);
        }
    }
    target.retain(|key, _| keys.contains(&key.as_str()));
    Ok(())
}

fn merge_member<R: MergeRules>(
    target: &mut Map,
    member: &str,
    value: &Value,
    of: Of<R>,
) -> Result<(), PatchProblem> {
    if value.is_null() {
        target.remove(member);
        return Ok(());
    }
    match (target.get_mut(member), value) {
        (Some(Value::Object(stored)), Value::Object(changes)) => {
            let field = of.member(member);
            if field.has_strategy("replace") {
                *stored = added_map(changes);
            } else {
                merge_map(stored, changes, field.inside)?;
            }
        }
        (Some(Value::Array(stored)), Value::Array(changes)) => {
            let field = of.member(member);
            match field.has_strategy("merge") {
                true => lists::merge(stored, changes, &field)?,
                false => *stored = added_list(changes),
            }
        }
        _ => match added(value) {
            Some(value) => drop(target.insert(member.to_owned(), value)),
            None => drop(target.remove(member)),
        },
    }
    Ok(())
}

/// Returns what a value of a patch adds if there is nothing to merge it with: the value without its
/// nulls and directives. `None` if it has a directive for the missing value. As in upstream, this
/// includes `replace`.
fn added(value: &Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => Some(added_map(members).into()),
        Value::Array(items) => {
            let added = added_list(items);
            let is_nothing = added.is_empty() && !items.is_empty();
            (!is_nothing).then_some(added.into())
        }
        other => Some(other.clone()),
    }
}

fn added_map(members: &Map) -> Map {
    let stays = |(name, value): &(&String, &Value)| !is_directive(name) && !value.is_null();
    let members = members.iter().filter(stays);
    members
        .filter_map(|(name, value)| Some((name.clone(), added(value)?)))
        .collect()
}

fn added_list(items: &[Value]) -> Vec<Value> {
    items.iter().filter_map(added).collect()
}

fn is_directive(name: &str) -> bool {
    !matches!(Member::parse(name), Ok(Member::Plain(_)))
}

/// The value of `$patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Delete,
    Replace,
}

fn directive(map: &Map) -> Result<Option<Directive>, PatchProblem> {
    match map.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if text == "delete" => Ok(Some(Directive::Delete)),
        Some(Value::String(text)) if text == "replace" => Ok(Some(Directive::Replace)),
        Some(other) => {
            // Formatted as Go prints a value that should be a string.
            let shown = match other {
                Value::Number(number) if number.is_i64() => format!("%!s(int64={number})"),
                Value::Number(number) => format!("%!s(float64={number})"),
                Value::Bool(flag) => format!("%!s(bool={flag})"),
                other => go_text(other),
            };
            let map = go_text(&Value::Object(map.clone()));
            Err(PatchProblem::Unfit(format!(
                "unknown patch type: {shown} in map: {map}"
            )))
        }
    }
}

/// Formats a value as Go prints it.
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
