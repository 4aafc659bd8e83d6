//! Members that are carried unread.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use arcstr::ArcStr;
use serde_json::Value;

use super::{Tape, Writer};
use crate::Map;

/// Members of an object that nobody reads, as compact JSON text: sorted by name, the names of each
/// object in it as well, so that equal members are equal texts. One word; a clone shares the text, and
/// no members take no memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Rest(ArcStr);

const _: () = assert!(size_of::<Rest>() == size_of::<usize>());

thread_local! {
    /// Where texts are put together, to be kept at their length.
    static SCRATCH: Cell<Writer> = Cell::default();
}

/// What a thread keeps of that; a pod's spec is a few thousand bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

impl Rest {
    /// No members.
    pub const NONE: Rest = Rest(ArcStr::new());

    /// The members that `put` puts, sorted by name.
    pub(crate) fn of(put: impl FnOnce(&mut Writer)) -> Rest {
        let mut out = SCRATCH.take();
        put(&mut out);
        let rest = match out.as_str() {
            "" => Rest::NONE,
            text => Rest(text.into()),
        };
        out.clear_to(SCRATCH_BYTES_MAX);
        SCRATCH.set(out);
        rest
    }

    /// The members without the braces around them, e.g. `"a":1,"b":[]`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are one and the same text in memory.
    pub fn is_same(&self, other: &Rest) -> bool {
        ArcStr::ptr_eq(&self.0, &other.0)
    }

    /// Whether another holder of the text exists.
    pub(crate) fn is_shared(&self) -> bool {
        ArcStr::strong_count(&self.0) != Some(1)
    }

    /// The members. O(bytes): they are read anew each time.
    pub fn to_map(&self) -> Map {
        if self.is_empty() {
            return Map::new();
        }
        let text = format!("{{{}}}", self.0);
        Tape::of_written(&text).root().to_map()
    }

    /// The value of a member. O(bytes): for what is read seldom.
    pub fn get(&self, name: &str) -> Option<Value> {
        let name = Value::from(name).to_string();
        let (_, value) = self.parts().find(|(found, _)| *found == name)?;
        Some(Tape::of_written(value).root().to_value())
    }

    /// The names of the members. O(bytes).
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.parts().map(|(name, _)| {
            let plain = name.trim_matches('"');
            match name.contains('\\') {
                false => Cow::Borrowed(plain),
                true => serde_json::from_str(name).map_or(Cow::Borrowed(plain), Cow::Owned),
            }
        })
    }

    /// The texts of names, in quotes, and values.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut left = self.as_str();
        std::iter::from_fn(move || {
            let colon = end_of_string(left.as_bytes())?;
            let (name, value) = (&left[..colon], &left[colon + 1..]);
            let end = end_of_value(value.as_bytes());
            left = value.get(end + 1..).unwrap_or("");
            Some((name, &value[..end]))
        })
    }

    /// These members with one set to another value. O(bytes).
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<Value>) -> Rest {
        let mut members = self.to_map();
        members.insert(name.to_owned(), value.into());
        members.into()
    }

    /// These members without one. O(bytes).
    #[must_use]
    pub fn without(&self, name: &str) -> Rest {
        let name = Value::from(name).to_string();
        if self.parts().all(|(found, _)| found != name) {
            return self.clone();
        }
        let kept = self.parts().filter(|(found, _)| *found != name);
        let texts: Vec<String> = kept
            .map(|(name, value)| format!("{name}:{value}"))
            .collect();
        match texts.as_slice() {
            [] => Rest::NONE,
            texts => Rest(texts.join(",").into()),
        }
    }
}

/// Where the string that the text begins with is over; `None` at the end of the text.
fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Where the value that the text begins with is over: at a comma outside of brackets, or the end.
fn end_of_value(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += end_of_string(&text[at..]).unwrap_or(1);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    at
}

impl From<Map> for Rest {
    fn from(members: Map) -> Rest {
        let text = Value::Object(members).to_string();
        let members = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        match members {
            None | Some("") => Rest::NONE,
            Some(members) => Rest(members.into()),
        }
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_kept_sorted_and_changed_in_copies() {
        let Value::Object(map) = json!({"b": [{"y": 1, "x": "{}"}], "a": null}) else {
            unreachable!("an object literal")
        };
        let rest = Rest::from(map.clone());
        assert_eq!(rest.as_str(), r#""a":null,"b":[{"x":"{}","y":1}]"#);
        assert_eq!(rest.to_map(), map);
        assert_eq!(rest.get("a"), Some(Value::Null));
        assert_eq!(rest.get("c"), None);
        assert_eq!(rest.get("b"), Some(json!([{"x": "{}", "y": 1}])));
        let odd = Rest::NONE.with("q\"\\", "a,}\\").with("z", json!([1, {}]));
        assert_eq!(odd.get("q\"\\"), Some("a,}\\".into()));
        assert_eq!(odd.without("q\"\\").as_str(), r#""z":[1,{}]"#);
        let other = rest.without("b").with("c", 3);
        assert_eq!(other.as_str(), r#""a":null,"c":3"#);
        assert!(rest.without("c").is_same(&rest));
        assert_eq!(rest.without("a").without("b"), Rest::NONE);
        assert_eq!(Rest::from(Map::new()), Rest::NONE);
    }
}
