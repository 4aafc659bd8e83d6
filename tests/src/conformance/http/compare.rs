//! Comparison of a response with a recorded one. In recordings, symbols replace the values that the
//! server chooses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shapes::fits;

/// The values that the symbols have in one case.
#[derive(Clone, Debug, Default)]
pub(super) struct Symbols {
    values: BTreeMap<String, String>,
    /// Whether the recording omits `managedFields`.
    pub(super) without_managed_fields: bool,
}

/// The symbols that have one value per case if they are numbered.
const BOUND: [&str; 8] = [
    "uid",
    "rv",
    "lrv",
    "gen",
    "continue",
    "clusterIP",
    "nodePort",
    "etag",
];
/// The symbols that may have a different value at every occurrence.
const FREE: [&str; 11] = [
    "gen",
    "nodePort",
    "time",
    "microtime",
    "age",
    "token",
    "current",
    "asked",
    "host",
    "hash",
    "dnserror",
];

/// A part of a recorded text.
enum Piece<'a> {
    /// Literal text. In it, n repetitions of x have replaced `$run(x,n)`.
    Text(Cow<'a, str>),
    Bound(&'a str),
    Free(&'a str),
}

/// Splits a recorded text into symbols and the literal text between them.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find('$').map(|at| at + from) {
        let after = &rest[at + 1..];
        let word = after.len()
            - after
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let digits = after[word..].len()
            - after[word..]
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let (name, mut end) = (&after[..word], at + 1 + word + digits);
        let piece = match digits {
            0 if FREE.contains(&name) || BOUND.contains(&name) => Piece::Free(name),
            1.. if BOUND.contains(&name) => Piece::Bound(&rest[at + 1..end]),
            0 if name == "run"
                && let Some((run, length)) = run(&rest[end..]) =>
            {
                end += length;
                Piece::Text(run.into())
            }
            _ => {
                from = at + 1;
                continue;
            }
        };
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].into()));
        }
        pieces.push(piece);
        rest = &rest[end..];
        from = 0;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    pieces
}

/// Expands a leading `(x,n)`. Returns the result and the length of the notation; `None` if there is
/// no such notation.
fn run(text: &str) -> Option<(String, usize)> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let (unit, count) = inside.rsplit_once(',')?;
    Some((unit.repeat(count.parse().ok()?), inside.len() + 2))
}

/// Reports whether a path, without its query, equals `name`.
pub(super) fn is_named(path: &str, name: &str) -> bool {
    path.split('?').next() == Some(name)
}

impl Symbols {
    /// Returns the versions to which symbols of objects are bound.
    pub(super) fn versions(&self) -> BTreeMap<String, u64> {
        let versions = self
            .values
            .iter()
            .filter(|(name, _)| name.starts_with("rv"));
        let versions =
            versions.filter_map(|(name, value)| Some((name.clone(), value.parse().ok()?)));
        versions.collect()
    }

    /// Replaces the symbols in a recorded text by the values of this run, for sending.
    /// `$rv1+1000000` is a sum.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut out = String::new();
        let mut pieces = pieces(text).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Text(text) => out.push_str(&text),
                Piece::Free(_) => out.push_str("free"),
                Piece::Bound(name) => {
                    let value = self
                        .values
                        .get(name)
                        .cloned()
                        .unwrap_or_else(|| format!("${name}"));
                    let sum = match pieces.peek() {
                        Some(Piece::Text(text)) => text.strip_prefix('+').map(|text| {
                            let digits = text.len()
                                - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                            (&text[..digits], &text[digits..])
                        }),
                        _ => None,
                    };
                    match (sum, value.parse::<u64>()) {
                        (Some((more, rest)), Ok(value)) if !more.is_empty() => {
                            let more: u64 = more.parse().unwrap_or(0);
                            out.push_str(&(value + more).to_string());
                            out.push_str(rest);
                            pieces.next();
                        }
                        _ => out.push_str(&value),
                    }
                }
            }
        }
        out
    }

    /// Replaces the symbols in a recorded value by the values of this run, for sending.
    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(members) => {
                if let Some(Value::Array(run)) = members.get("$repeatString") {
                    let count = run[1].as_u64().unwrap_or(0) as usize;
                    return run[0].as_str().unwrap_or("").repeat(count).into();
                }
                if let Some(Value::Array(run)) = members.get("$repeat") {
                    let count = run[0].as_u64().unwrap_or(0) as usize;
                    return vec![self.fill_value(&run[1]); count].into();
                }
                let members = members.iter();
                members
                    .map(|(name, value)| (name.clone(), self.fill_value(value)))
                    .collect()
            }
            other => other.clone(),
        }
    }

    /// Reports whether a string matches the recorded one. Binds unbound symbols to the text at
    /// their position.
    pub(super) fn matches_text(&mut self, recorded: &str, found: &str) -> bool {
        let (recorded, found) = (without_quoted(recorded), without_quoted(found));
        let all = pieces(&recorded);
        let mut rest = &*found;
        for (number, piece) in all.iter().enumerate() {
            let symbol = match piece {
                Piece::Text(text) => match rest.strip_prefix(&**text) {
                    Some(after) => {
                        rest = after;
                        continue;
                    }
                    None => return false,
                },
                Piece::Bound(name) => {
                    if let Some(value) = self.values.get(*name) {
                        match rest.strip_prefix(value.as_str()) {
                            Some(after) => rest = after,
                            None => return false,
                        }
                        continue;
                    }
                    name
                }
                Piece::Free(name) => name,
            };
            let end = match all.get(number + 1) {
                Some(Piece::Text(next)) => match rest.find(&**next) {
                    Some(end) => end,
                    None => return false,
                },
                _ => rest.len(),
            };
            let value = &rest[..end];
            if !self.may_be(symbol, value) {
                return false;
            }
            if matches!(piece, Piece::Bound(_)) {
                self.values.insert((*symbol).to_owned(), value.to_owned());
            }
            rest = &rest[end..];
        }
        rest.is_empty()
    }

    /// Reports whether an unbound symbol may have this value.
    fn may_be(&self, symbol: &str, value: &str) -> bool {
        let kind = symbol.trim_end_matches(char::is_numeric);
        if !fits(kind, value) {
            return false;
        }
        if kind == symbol {
            // Without a number, the value may differ at each occurrence.
            return true;
        }
        if kind == "lrv" {
            // The version of a list is at least any version that was seen before.
            let version = value.parse::<u64>().unwrap_or(0);
            return self.versions().values().all(|seen| *seen <= version);
        }
        let is_of_kind = |name: &str| name.trim_end_matches(char::is_numeric) == kind;
        let mut others = self.values.iter().filter(|(name, _)| is_of_kind(name));
        others.all(|(_, other)| other != value)
    }

    /// Adds the differences between a response and the recorded response to a list.
    pub(super) fn differences(
        &mut self,
        path: &str,
        recorded: &Value,
        found: &Value,
        all: &mut Vec<String>,
    ) {
        let is_same = match (recorded, found) {
            (Value::String(recorded), Value::String(found)) => self.matches_text(recorded, found),
            (Value::String(symbol), Value::Number(found)) if symbol.starts_with('$') => {
                self.matches_text(symbol, &found.to_string())
            }
            (Value::String(text), _) if text.starts_with("not kept") => true,
            (Value::Object(recorded), Value::Object(_)) if path.ends_with("fieldsV1") => {
                // Empty members have a meaning here, and names may contain symbols.
                let recorded = self.fill(&Value::Object(recorded.clone()).to_string());
                serde_json::from_str::<Value>(&recorded).is_ok_and(|recorded| recorded == *found)
            }
            (Value::Array(recorded), Value::Array(items)) if recorded.len() == items.len() => {
                let is_managed = path.ends_with("managedFields");
                let (recorded, items) = match is_managed {
                    true => (&by_owner(recorded), &by_owner(items)),
                    false => (recorded, items),
                };
                for (number, (recorded, found)) in recorded.iter().zip(items).enumerate() {
                    self.differences(&format!("{path}[{number}]"), recorded, found, all);
                }
                true
            }
            (Value::Object(recorded), Value::Object(members)) => {
                self.member_differences(path, recorded, members, all);
                true
            }
            _ => recorded == found,
        };
        if !is_same {
            all.push(format!("{path}: recorded {recorded}, found {found}"));
        }
    }

    fn member_differences(
        &mut self,
        path: &str,
        recorded_members: &Map<String, Value>,
        members: &Map<String, Value>,
        all: &mut Vec<String>,
    ) {
        for (name, recorded) in recorded_members {
            if name == "$rest" || self.is_dropped(name) {
                continue;
            }
            if name == "columnDefinitions" && recorded.is_string() {
                continue;
            }
            // In an abridged object, null represents an absent member.
            if recorded.is_null() && recorded_members.contains_key("$rest") {
                continue;
            }
            let at = format!("{path}.{name}");
            match members.get(name) {
                Some(found) => self.differences(&at, recorded, found, all),
                None => all.push(format!("{at}: recorded {recorded}, found nothing")),
            }
        }
        if recorded_members.contains_key("$rest") {
            return;
        }
        for (name, found) in members {
            if !recorded_members.contains_key(name) && !self.is_dropped(name) {
                all.push(format!("{path}.{name}: recorded nothing, found {found}"));
            }
        }
    }

    /// Reports whether the recording omits a member.
    fn is_dropped(&self, name: &str) -> bool {
        name == "managedFields" && self.without_managed_fields
    }
}

/// Removes an object that a message quotes in full after an undecodable patch. The text after the
/// object is kept.
fn without_quoted(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "Invalid value: \"{";
    const END: &str = "}\": ";
    let at = text.find(BEGIN).zip(text.rfind(END));
    match at.filter(|(begin, end)| begin < end) {
        Some((begin, end)) => Cow::Owned(format!("{}{BEGIN}{}", &text[..begin], &text[end..])),
        None => Cow::Borrowed(text),
    }
}

/// Sorts entries of `managedFields` regardless of their times.
fn by_owner(entries: &[Value]) -> Vec<Value> {
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| {
        ["operation", "manager", "subresource", "apiVersion"].map(|name| entry[name].to_string())
    });
    entries
}
