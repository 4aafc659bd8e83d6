//! Reading objects from JSON: typed access to members, with errors that name the field.
//!
//! A [`Members`] takes typed members of a JSON object one by one. The remaining members are carried
//! unread. Null means absent everywhere, as in the Kubernetes API. A [`Path`] is a chain on the
//! stack that costs nothing until an error needs its text.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use smallvec::SmallVec;

use super::json::{JsonValue, Pairs, Rest, order};
use super::{Map, Str, Time};

/// The path of a member in an object, e.g. `spec.template.spec.containers[0].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(pub String);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "the object"
        } else {
            &self.0
        })
    }
}

/// The error for a member that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct DecodeError {
    /// The path of the member.
    pub path: FieldPath,
    /// What is wrong and what is expected, e.g. `expected an integer, found the string "three"`.
    pub problem: String,
}

/// The error for a text that could not be read as an object.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is not JSON, or it has a duplicate member.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// A member can't be read.
    #[error(transparent)]
    Member(#[from] DecodeError),
}

/// The position of a reader, as a chain of steps from the root.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy, Debug)]
enum PathStep<'a> {
    Root,
    Member(&'a str),
    Item(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The path of the whole object.
    pub const ROOT: Path<'static> = Path {
        parent: None,
        step: PathStep::Root,
    };

    /// Reports whether this is the path of the whole object.
    pub fn is_root(&self) -> bool {
        matches!(self.step, PathStep::Root)
    }

    /// Returns the path of a member of the object at this path: `.name`.
    pub fn member(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: PathStep::Member(name),
        }
    }

    /// Returns the path of an entry of the list at this path: `[3]`.
    pub fn item(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            step: PathStep::Item(index),
        }
    }

    /// Returns the path of an entry of the map at this path: `[app]`.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: PathStep::Key(key),
        }
    }

    /// Returns an error at this path.
    pub fn error(&self, problem: impl Into<String>) -> DecodeError {
        DecodeError {
            path: FieldPath(self.to_string()),
            problem: problem.into(),
        }
    }

    /// Returns the error for a value at this path that has another type or form than expected.
    pub fn mismatch(&self, expected: &str, found: JsonValue<'_>) -> DecodeError {
        let found = describe(&found.to_value());
        self.error(format!("expected {expected}, found {found}"))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathStep::Root => Ok(()),
            PathStep::Member(name) => {
                let first = self.parent.is_none_or(Path::is_root);
                write!(f, "{}{name}", if first { "" } else { "." })
            }
            PathStep::Item(index) => write!(f, "[{index}]"),
            PathStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// Describes a JSON value: `the number 3`, `the string "three"`, `a list`. Truncates long strings.
pub fn describe(value: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 64;
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() > SHOWN_CHARS_MAX => {
            let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            format!("the string {start:?}...")
        }
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// The members of one JSON object while it is being read. Members are sorted by name, so a reader
/// that asks in that order needs one pass over the object.
#[derive(Debug)]
pub struct Members<'t, 'p> {
    all: Pairs<'t>,
    /// The members that the last lookup has not passed. `place` is the index of the first of them,
    /// and `passed` is the name before it.
    ahead: Pairs<'t>,
    place: usize,
    passed: Option<&'t str>,
    /// One bit per member, by index: set once the member is taken.
    taken: SmallVec<[u64; 1]>,
    path: &'p Path<'p>,
}

impl<'t, 'p> Members<'t, 'p> {
    /// Opens the members of `value`, which is at `path`. Null has no members.
    ///
    /// # Errors
    /// Fails if the value is neither an object nor null.
    pub fn new(value: JsonValue<'t>, path: &'p Path<'p>) -> Result<Members<'t, 'p>, DecodeError> {
        if value.is_null() || value.is_object() {
            return Ok(Members {
                all: value.pairs(),
                ahead: value.pairs(),
                place: 0,
                passed: None,
                taken: SmallVec::new(),
                path,
            });
        }
        Err(path.mismatch("an object", value))
    }

    /// Takes a member. Null means absent.
    pub fn take(&mut self, key: &str) -> Option<JsonValue<'t>> {
        let value = self.find(key)?;
        if self.taken.len() <= self.place / 64 {
            self.taken.resize(self.place / 64 + 1, 0);
        }
        self.taken[self.place / 64] |= 1 << (self.place % 64);
        Some(value).filter(|value| !value.is_null())
    }

    /// Reverts [`take`](Members::take): the member counts as not taken.
    pub fn put_back(&mut self, key: &str) {
        if self.find(key).is_some()
            && let Some(bits) = self.taken.get_mut(self.place / 64)
        {
            *bits &= !(1 << (self.place % 64));
        }
    }

    /// Returns a member without taking it. Null means absent.
    pub(crate) fn look(&mut self, key: &str) -> Option<JsonValue<'t>> {
        self.find(key).filter(|value| !value.is_null())
    }

    /// Moves to the first member whose name is not before `key`, from the start if needed. Returns
    /// the member's value if its name is `key`; otherwise `None`.
    fn find(&mut self, key: &str) -> Option<JsonValue<'t>> {
        if self
            .passed
            .is_some_and(|passed| !order(passed, key).is_lt())
        {
            (self.ahead, self.place, self.passed) = (self.all.clone(), 0, None);
        }
        loop {
            let mut after = self.ahead.clone();
            let (name, value) = after.next()?;
            match order(name, key) {
                Ordering::Less => {
                    (self.ahead, self.passed) = (after, Some(name));
                    self.place += 1;
                }
                Ordering::Equal => return Some(value),
                Ordering::Greater => return None,
            }
        }
    }

    /// Takes a string; `None` if the member is absent.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn opt_text(&mut self, key: &str) -> Result<Option<&'t str>, DecodeError> {
        let read = |value| read_text(value, &self.path.member(key));
        self.take(key).map(read).transpose()
    }

    /// Takes a string. Absent means empty.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn text(&mut self, key: &str) -> Result<&'t str, DecodeError> {
        Ok(self.opt_text(key)?.unwrap_or_default())
    }

    /// Takes a string as a shared string. Absent means empty.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn string(&mut self, key: &str) -> Result<Str, DecodeError> {
        Ok(self.text(key)?.into())
    }

    /// Takes a 64-bit integer; `None` if the member is absent.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn opt_i64(&mut self, key: &str) -> Result<Option<i64>, DecodeError> {
        let read = |value| read_i64(value, &self.path.member(key));
        self.take(key).map(read).transpose()
    }

    /// Takes a 32-bit integer; `None` if the member is absent.
    ///
    /// # Errors
    /// Fails if the member has another type or is out of range.
    pub fn opt_i32(&mut self, key: &str) -> Result<Option<i32>, DecodeError> {
        let read = |value| read_i32(value, &self.path.member(key));
        self.take(key).map(read).transpose()
    }

    /// Takes a 32-bit integer. Absent means 0.
    ///
    /// # Errors
    /// Fails if the member has another type or is out of range.
    pub fn i32(&mut self, key: &str) -> Result<i32, DecodeError> {
        Ok(self.opt_i32(key)?.unwrap_or(0))
    }

    /// Takes a boolean; `None` if the member is absent.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn opt_flag(&mut self, key: &str) -> Result<Option<bool>, DecodeError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let wrong = || self.path.member(key).mismatch("a boolean", value);
        value.as_bool().ok_or_else(wrong).map(Some)
    }

    /// Takes an RFC 3339 time. Absent means unset.
    ///
    /// # Errors
    /// Fails if the member is not such a time.
    pub fn time(&mut self, key: &str) -> Result<Time, DecodeError> {
        let read = |value| read_time(value, &self.path.member(key));
        self.take(key).map_or(Ok(Time::UNSET), read)
    }

    /// Takes a member and reads it with `read`; `None` if the member is absent.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn child<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(JsonValue<'t>, &Path<'_>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        read(value, &self.path.member(key)).map(Some)
    }

    /// Takes a list and reads each entry with `read`. Absent means empty.
    ///
    /// # Errors
    /// Fails if the member is not a list. Returns the first error of `read`.
    pub fn list<T, C: FromIterator<T>>(
        &mut self,
        key: &str,
        read: impl Fn(JsonValue<'t>, &Path<'_>) -> Result<T, DecodeError>,
    ) -> Result<C, DecodeError> {
        let path = self.path.member(key);
        match self.take(key) {
            None => Ok(C::from_iter([])),
            Some(list) if list.is_list() => list
                .items()
                .enumerate()
                .map(|(index, item)| read(item, &path.item(index)))
                .collect(),
            Some(other) => Err(path.mismatch("a list", other)),
        }
    }

    /// Returns the members that were not taken, without nulls, sorted by name.
    pub fn left(&self) -> impl Iterator<Item = (&'t str, JsonValue<'t>)> {
        let is_taken = |place: usize| {
            let bits = self.taken.get(place / 64).copied().unwrap_or(0);
            bits & (1 << (place % 64)) != 0
        };
        let pairs = self.all.clone().enumerate();
        pairs
            .filter(move |(place, (_, value))| !is_taken(*place) && !value.is_null())
            .map(|(_, pair)| pair)
    }

    /// Returns the members that were not taken, without nulls, as trees.
    pub fn left_to_map(&self) -> Map {
        let left = self.left();
        left.map(|(name, value)| (name.to_owned(), value.to_value()))
            .collect()
    }

    /// Returns the members that were not taken, without nulls, as text to carry unread.
    pub fn rest(&self) -> Rest {
        Rest::written_by(|out| {
            for (name, value) in self.left() {
                out.member_named(name, |out| value.write(out));
            }
        })
    }
}

/// Reads a string.
pub(crate) fn read_text<'t>(value: JsonValue<'t>, path: &Path<'_>) -> Result<&'t str, DecodeError> {
    value
        .as_str()
        .ok_or_else(|| path.mismatch("a string", value))
}

/// Reads a shared string.
pub(crate) fn read_string(value: JsonValue<'_>, path: &Path<'_>) -> Result<Str, DecodeError> {
    Ok(read_text(value, path)?.into())
}

/// Reads a 64-bit integer.
pub(crate) fn read_i64(value: JsonValue<'_>, path: &Path<'_>) -> Result<i64, DecodeError> {
    value
        .as_i64()
        .ok_or_else(|| path.mismatch("an integer", value))
}

/// Reads a 32-bit integer.
pub(crate) fn read_i32(value: JsonValue<'_>, path: &Path<'_>) -> Result<i32, DecodeError> {
    let number = read_i64(value, path)?;
    i32::try_from(number).map_err(|_| path.mismatch("a 32-bit integer", value))
}

/// Reads a time. The empty string means unset.
pub(crate) fn read_time(value: JsonValue<'_>, path: &Path<'_>) -> Result<Time, DecodeError> {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.ok_or_else(|| path.mismatch("a time such as 2026-01-02T03:04:05Z", value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::json::Tape;
    use super::*;

    #[test]
    fn paths_read_as_people_write_them() {
        let root = Path::ROOT;
        let spec = root.member("spec");
        let containers = spec.member("containers");
        let first = containers.item(0);
        assert_eq!(
            first.member("image").to_string(),
            "spec.containers[0].image"
        );
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
        assert_eq!(root.error("bad").to_string(), "the object: bad");
    }

    #[test]
    fn wrong_types_are_reported_with_the_value_found() {
        let path = Path::ROOT.member("spec");
        let value =
            json!({"a": 3, "b": "three", "c": 4_294_967_296_i64, "d": 1.5, "e": [1], "t": "x"});
        let tape = Tape::new(&value);
        let mut members = Members::new(tape.root(), &path).unwrap();
        let errors = [
            members.text("a").err(),
            members.i32("b").err(),
            members.i32("c").err(),
            members.opt_i64("d").err(),
            members.list::<Str, Vec<Str>>("e", read_string).err(),
            members.time("t").err(),
        ];
        let problems = [
            "spec.a: expected a string, found the number 3",
            "spec.b: expected an integer, found the string \"three\"",
            "spec.c: expected a 32-bit integer, found the number 4294967296",
            "spec.d: expected an integer, found the number 1.5",
            "spec.e[0]: expected a string, found the number 1",
            "spec.t: expected a time such as 2026-01-02T03:04:05Z, found the string \"x\"",
        ];
        assert_eq!(errors.map(|error| error.unwrap().to_string()), problems);
    }

    #[test]
    fn null_is_absent_and_untaken_members_remain() {
        let value = json!({"a": null, "b": null, "c": 1});
        let tape = Tape::new(&value);
        let mut members = Members::new(tape.root(), &Path::ROOT).unwrap();
        assert_eq!(members.opt_text("a"), Ok(None));
        assert_eq!(members.time("a"), Ok(Time::UNSET));
        assert_eq!(members.rest().as_str(), "\"c\":1");
        let null = Tape::new(&Value::Null);
        let members = Members::new(null.root(), &Path::ROOT).unwrap();
        assert_eq!(members.rest(), Rest::NONE);
    }
}
