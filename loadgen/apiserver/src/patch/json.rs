//! JSON patches as upstream's library applies them: RFC 6902 with the library's deviations.
//!
//! Source: `evanphx/json-patch`, version 4.

use serde_json::{Map, Value};

use crate::limits::{self, Exceeded, Growth};

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    op: String,
    /// The path; `None` if it is absent or not a string.
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// The reason why an operation can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The operation is invalid, or does not fit the document.
    Rejected,
    /// The document would exceed a limit.
    Exceeded(Exceeded),
}

use Failed::Rejected;

impl From<Exceeded> for Failed {
    fn from(exceeded: Exceeded) -> Failed {
        Failed::Exceeded(exceeded)
    }
}

impl Operation {
    /// Returns the operation that replaces any document with a whole new one.
    pub(super) fn whole(document: Map<String, Value>) -> Operation {
        Operation {
            op: "replace".to_owned(),
            path: Some(String::new()),
            from: None,
            value: document.into(),
        }
    }

    /// Reads an operation. Missing members are only detected when the operation is applied.
    pub(super) fn read(members: &Map<String, Value>) -> Operation {
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        Operation {
            op: text("op").unwrap_or_default(),
            path: text("path"),
            from: text("from"),
            value: members.get("value").cloned().unwrap_or_default(),
        }
    }

    /// Applies the operation. The value is charged before it is added, so a document that is too
    /// deep is never built: even dropping such a document would overflow the stack.
    fn apply(&self, document: &mut Value, growth: &mut Growth) -> Result<(), Failed> {
        let path = self.path.as_deref().ok_or(Rejected)?;
        let from = || self.from.as_deref().ok_or(Rejected);
        match self.op.as_str() {
            "add" => {
                growth.place(&self.value, levels(path))?;
                add(document, path, self.value.clone(), growth)
            }
            "remove" => remove(document, path, growth).map(drop),
            "replace" => {
                growth.place(&self.value, levels(path))?;
                if path.is_empty() {
                    *document = self.value.clone();
                    return Ok(());
                }
                // Sic: a missing member is added.
                let (holder, last) = holder(document, path)?;
                match holder {
                    Value::Object(members) => drop(members.insert(last, self.value.clone())),
                    other => *child(other, &last)? = self.value.clone(),
                }
                Ok(())
            }
            "move" => {
                let from = from()?;
                let moved = remove(document, from, growth)?;
                if levels(path) > levels(from) {
                    growth.place(&moved, levels(path))?;
                }
                add(document, path, moved, growth)
            }
            "copy" => {
                let copied = find(document, from()?)?;
                growth.copy(copied, levels(path))?;
                let copied = copied.clone();
                add(document, path, copied, growth)
            }
            "test" => {
                // Sic: a missing member equals null.
                let found = match path {
                    "" => &*document,
                    path => find(document, path).map_or(&Value::Null, |found| found),
                };
                match *found == self.value {
                    true => Ok(()),
                    false => Err(Rejected),
                }
            }
            _ => Err(Rejected),
        }
    }
}

/// Applies all operations; applies none if one fails or the document would exceed a limit.
pub(super) fn apply(operations: &[Operation], document: &mut Value) -> Result<(), Failed> {
    let mut changed = document.clone();
    let mut growth = Growth::default();
    for operation in operations {
        operation.apply(&mut changed, &mut growth)?;
    }
    limits::check(&changed)?;
    *document = changed;
    Ok(())
}

/// Returns the depth of the value at a path.
fn levels(path: &str) -> usize {
    path.matches('/').count()
}

/// Returns the value that contains the last part of a path, and that part. Text before the first
/// slash is ignored.
fn holder<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), Failed> {
    let mut parts: Vec<String> = (path.split('/').skip(1))
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = parts.pop().ok_or(Rejected)?;
    let mut holder = document;
    for part in parts {
        holder = child(holder, &part)?;
    }
    Ok((holder, last))
}

fn child<'d>(holder: &'d mut Value, part: &str) -> Result<&'d mut Value, Failed> {
    match holder {
        Value::Object(members) => members.get_mut(part).ok_or(Rejected),
        Value::Array(items) => {
            let at = index(part, items.len())?;
            items.get_mut(at).ok_or(Rejected)
        }
        _ => Err(Rejected),
    }
}

/// Parses an index as Go does. A negative index counts from the end.
fn index(part: &str, length: usize) -> Result<usize, Failed> {
    let number: isize = part.parse().map_err(|_| Rejected)?;
    match usize::try_from(number) {
        Ok(at) => Ok(at),
        Err(_) => length.checked_sub(number.unsigned_abs()).ok_or(Rejected),
    }
}

fn find<'d>(document: &'d mut Value, path: &str) -> Result<&'d mut Value, Failed> {
    let (holder, last) = holder(document, path)?;
    child(holder, &last)
}

fn add(document: &mut Value, path: &str, value: Value, growth: &mut Growth) -> Result<(), Failed> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(members) => {
            members.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&last, items.len() + 1)?;
            let after = items.len().checked_sub(at).ok_or(Rejected)?;
            growth.shift(after)?;
            items.insert(at, value);
        }
        _ => return Err(Rejected),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, growth: &mut Growth) -> Result<Value, Failed> {
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(members) => members.remove(&last).ok_or(Rejected),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            if at >= items.len() {
                return Err(Rejected);
            }
            growth.shift(items.len() - at)?;
            Ok(items.remove(at))
        }
        _ => Err(Rejected),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_a_document_or_all_fail() {
        let patched = |patch: Value| {
            let operations: Vec<Operation> = (patch.as_array().unwrap().iter())
                .map(|members| Operation::read(members.as_object().unwrap()))
                .collect();
            let mut document = json!({"a": [1, 2, 3], "b": {"x/y": "z"}});
            apply(&operations, &mut document).map(|()| document)
        };
        let changed = |patch, a: Value| assert_eq!(patched(patch).unwrap()["a"], a);
        changed(json!([{"op": "remove", "path": "/a/-1"}]), json!([1, 2]));
        let with =
            |op: &str, path: &str, value: Value| json!([{"op": op, "path": path, "value": value}]);
        changed(with("replace", "/a/01", json!(9)), json!([1, 9, 3]));
        changed(with("add", "/a/-1", json!(9)), json!([1, 2, 3, 9]));
        changed(with("add", "/a/-", json!(9)), json!([1, 2, 3, 9]));
        changed(with("test", "/c", Value::Null), json!([1, 2, 3]));
        let from =
            |op: &str, from: &str, path: &str| json!([{"op": op, "from": from, "path": path}]);
        changed(from("move", "/a/0", "/a/1"), json!([2, 1, 3]));
        changed(from("copy", "/b/x~1y", "/a/0"), json!(["z", 1, 2, 3]));
        let relative = patched(with("add", "b/c", json!(1)));
        assert_eq!(relative.unwrap()["c"], 1);
        for wrong in [
            json!({"op": "explode", "path": "/a"}),
            json!({"op": "add", "value": 1}),
            json!({"op": "add", "path": "/a/9", "value": 1}),
            json!({"op": "remove", "path": "/c"}),
            json!({"op": "replace", "path": "/c/d", "value": 1}),
            json!({"op": "test", "path": "/a/0", "value": 2}),
        ] {
            let half = patched(json!([{"op": "remove", "path": "/a"}, wrong]));
            assert_eq!(half, Err(Rejected));
        }
    }
}
