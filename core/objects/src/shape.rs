//! The types of the members that are carried unread. Tables list the members' types, so a value of
//! a wrong type is refused with its path although no code reads the member.

use std::cmp::Ordering;

use crate::decode::{DecodeError, Path, read_i32, read_i64, read_time};
use crate::json::{JsonValue, order};

/// The type of a JSON value. Null is accepted as absent wherever a member may be absent.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// An RFC 3339 time.
    Time,
    /// A string or a 32-bit integer: a port by name or number, a count or a percentage.
    IntOrText,
    /// A string or a number: a resource quantity.
    Quantity,
    /// A map whose values have this shape.
    MapOf(&'static Shape),
    /// A list whose items have this shape.
    List(&'static Shape),
    /// An object with these members, sorted by name. Other members are accepted unread.
    Object(&'static [(&'static str, Shape)]),
}

impl Shape {
    /// An object with any members.
    pub const ANY_OBJECT: Shape = Shape::Object(&[]);

    /// Reports whether all tables in this shape are sorted by name, as required.
    pub fn is_sorted(&self) -> bool {
        match self {
            Shape::MapOf(each) | Shape::List(each) => each.is_sorted(),
            Shape::Object(known) => {
                known.is_sorted_by(|(a, _), (b, _)| a < b)
                    && known.iter().all(|(_, shape)| shape.is_sorted())
            }
            _ => true,
        }
    }
}

/// Checks the members of an object at `path` against the shape of an object.
pub(crate) fn check(
    object: JsonValue<'_>,
    shape: &Shape,
    path: &Path<'_>,
) -> Result<(), DecodeError> {
    let Shape::Object(known) = shape else {
        return Ok(());
    };
    // Both are sorted by name.
    let mut known = known.iter();
    let mut next = known.next();
    for (name, value) in object.pairs() {
        while let Some((member, shape)) = next {
            match order(member, name) {
                Ordering::Less => next = known.next(),
                Ordering::Equal if !value.is_null() => {
                    check_value(value, shape, &path.member(name))?;
                    break;
                }
                _ => break,
            }
        }
    }
    Ok(())
}

fn check_value(value: JsonValue<'_>, shape: &Shape, path: &Path<'_>) -> Result<(), DecodeError> {
    let (fits, expected) = match shape {
        Shape::Text => (value.as_str().is_some(), "a string"),
        Shape::Flag => (value.as_bool().is_some(), "a boolean"),
        Shape::IntOrText if value.is_number() => return read_i32(value, path).map(|_| ()),
        Shape::IntOrText => (value.as_str().is_some(), "a string or an integer"),
        Shape::Quantity => (value.as_str().is_some() || value.is_number(), "a quantity"),
        Shape::Int32 => return read_i32(value, path).map(|_| ()),
        Shape::Int64 => return read_i64(value, path).map(|_| ()),
        Shape::Time => return read_time(value, path).map(|_| ()),
        Shape::MapOf(each) if value.is_object() => {
            let mut entries = value.pairs().filter(|(_, value)| !value.is_null());
            return entries.try_for_each(|(key, value)| check_value(value, each, &path.key(key)));
        }
        Shape::MapOf(Shape::Text) => (false, "a map of strings"),
        Shape::MapOf(_) => (false, "a map"),
        Shape::List(each) if value.is_list() => {
            let mut items = value.items().enumerate();
            return items.try_for_each(|(i, item)| check_value(item, each, &path.item(i)));
        }
        Shape::List(_) => (false, "a list"),
        Shape::Object(_) if value.is_object() => return check(value, shape, path),
        Shape::Object(_) => (false, "an object"),
    };
    if fits {
        Ok(())
    } else {
        Err(path.mismatch(expected, value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::codec::testing::wrong_values;
    use crate::json::Tape;

    const SHAPE: Shape = Shape::Object(&[
        ("flag", Shape::Flag),
        ("list", Shape::List(&Shape::Int32)),
        ("map", Shape::MapOf(&Shape::Quantity)),
        ("port", Shape::IntOrText),
        ("when", Shape::Time),
    ]);

    #[test]
    fn known_members_are_checked_and_others_pass() {
        assert!(SHAPE.is_sorted());
        let ok = [
            json!({}),
            json!({"aaa": 1, "flag": true, "gap": [], "zzz": 1}),
            json!({"flag": null, "list": null, "map": {"cpu": 1, "mem": "1Gi", "x": null}}),
            json!({"port": "http"}),
            json!({"port": 80, "when": "2026-01-02T03:04:05Z"}),
        ];
        for value in ok {
            let checked = check(Tape::new(&value).root(), &SHAPE, &Path::ROOT);
            assert_eq!(checked, Ok(()), "{value}");
        }
        let bad = r#"
{"flag": "x"} => flag: expected a boolean, found the string "x"
{"list": [1, null]} => list[1]: expected an integer, found null
{"map": {"cpu": []}} => map[cpu]: expected a quantity, found a list
{"map": 1} => map: expected a map, found the number 1
{"port": 1.5} => port: expected an integer, found the number 1.5
{"port": true} => port: expected a string or an integer, found the boolean true
{"when": 3} => when: expected a time such as 2026-01-02T03:04:05Z, found the number 3
"#;
        for (value, problem) in wrong_values(bad) {
            let error = check(Tape::new(&value).root(), &SHAPE, &Path::ROOT).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}
