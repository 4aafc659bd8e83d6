//! Members of an object that are carried unread, as text.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use arcstr::ArcStr;
use memchr::memchr2;
use serde_json::Value;

use super::{Tape, Writer};
use crate::Map;

/// Members of an object without a typed field, as compact JSON text. Members are sorted by name, in
/// nested objects too, so equal members have equal texts. The value takes one word. A clone shares
/// the text, and the empty value takes no memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Rest(ArcStr);

const _: () = assert!(size_of::<Rest>() == size_of::<usize>());

thread_local! {
    /// The buffer in which texts are composed before they are copied at their exact length.
    static SCRATCH: Cell<Writer> = Cell::default();
}

/// The maximum size of the buffer that a thread keeps. A pod's spec has a few thousand bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

impl Rest {
    /// No members.
    pub const NONE: Rest = Rest(ArcStr::new());

    /// Creates the members that `put` writes, which must be sorted by name.
    pub fn written_by(put: impl FnOnce(&mut Writer)) -> Rest {
        Rest::NONE.or_new(put)
    }

    /// Like [`Rest::written_by`], but shares the memory of this value if the members are equal.
    #[must_use]
    pub fn or_new(&self, put: impl FnOnce(&mut Writer)) -> Rest {
        let mut out = SCRATCH.take();
        put(&mut out);
        let rest = match out.as_str() {
            "" => Rest::NONE,
            text if text == self.as_str() => self.clone(),
            text => Rest(text.into()),
        };
        out.clear_to(SCRATCH_BYTES_MAX);
        SCRATCH.set(out);
        rest
    }

    /// Returns the members without the braces around them, e.g. `"a":1,"b":[]`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether both values share one text in memory.
    pub fn is_same(&self, other: &Rest) -> bool {
        ArcStr::ptr_eq(&self.0, &other.0)
    }

    /// Reports whether another value shares the text.
    pub fn is_shared(&self) -> bool {
        ArcStr::strong_count(&self.0) != Some(1)
    }

    /// Returns the members. O(bytes): each call parses the text.
    pub fn to_map(&self) -> Map {
        if self.is_empty() {
            return Map::new();
        }
        let text = format!("{{{}}}", self.0);
        Tape::of_written(&text).root().to_map()
    }

    /// Returns the value of a member; `None` if it is absent. O(bytes): use it only on rare paths.
    pub fn get(&self, name: &str) -> Option<Value> {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        let value = match name.bytes().all(is_plain) {
            true => self.raw(name),
            false => {
                let name = Value::from(name).to_string();
                let mut parts = self.parts();
                parts.find(|(found, _)| *found == name).map(|it| it.1)
            }
        };
        Some(Tape::of_written(value?).root().to_value())
    }

    /// Returns the compact JSON text of a member whose name does not need escaping; `None` if it is
    /// absent. O(bytes), without an allocation.
    pub fn raw(&self, name: &str) -> Option<&str> {
        raw_part(self.as_str(), name)
    }

    /// Returns the names of the members. O(bytes).
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.parts().map(|(name, _)| {
            let plain = name.trim_matches('"');
            match name.contains('\\') {
                false => Cow::Borrowed(plain),
                true => serde_json::from_str(name).map_or(Cow::Borrowed(plain), Cow::Owned),
            }
        })
    }

    /// Returns the texts of the names, in quotes, and of the values.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        parts(self.as_str())
    }

    /// Returns these members with one of them set to a value. O(bytes).
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<Value>) -> Rest {
        let mut members = self.to_map();
        members.insert(name.to_owned(), value.into());
        members.into()
    }

    /// Returns these members with one of them set to a value in compact JSON. The members of
    /// objects in the value must be sorted by name. O(bytes).
    #[must_use]
    pub fn with_text(&self, name: &str, value: &str) -> Rest {
        let member = format!("{}:{value}", Value::from(name));
        let others = self.without(name);
        if others.is_empty() {
            return Rest(member.into());
        }
        let texts = others
            .parts()
            .map(|(name, value)| format!("{name}:{value}"));
        let mut texts: Vec<String> = texts.chain([member]).collect();
        texts.sort();
        Rest(texts.join(",").into())
    }

    /// Returns these members without one of them. O(bytes).
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

/// Returns the text of a member of `object`; both texts are compact JSON. The name must not need
/// escaping. `None` if `object` is not an object or lacks the member. O(bytes), without an
/// allocation.
pub fn raw_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    raw_part(object.strip_prefix('{')?.strip_suffix('}')?, name)
}

fn raw_part<'a>(members: &'a str, name: &str) -> Option<&'a str> {
    let is_it = |quoted: &str| quoted.len() == name.len() + 2 && quoted[1..].starts_with(name);
    let first = name.bytes().next().unwrap_or(b'"');
    // Members are sorted: a name with a later first letter comes after it, unless it is escaped.
    let is_before = |quoted: &str| quoted.as_bytes()[1] <= first || quoted.as_bytes()[1] == b'\\';
    let mut candidates = parts(members).take_while(|(found, _)| is_before(found));
    let (_, value) = candidates.find(|(found, _)| is_it(found))?;
    Some(value)
}

/// Returns the texts of the names of members, in quotes, and of their values.
fn parts(mut left: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let colon = end_of_string(left.as_bytes())?;
        let (name, value) = (&left[..colon], &left[colon + 1..]);
        let end = end_of_value(value.as_bytes());
        left = value.get(end + 1..).unwrap_or("");
        Some((name, &value[..end]))
    })
}

/// Returns the end of the string at the start of the text; `None` if the text ends first.
fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += quote_or_backslash(text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Returns the position of the first quote or backslash.
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    // Most strings are short, and for eight bytes this is faster than calling a search made for
    // long texts.
    let mut at = 0;
    while at < SHORT_BYTES
        && let Some(eight) = text[at..].first_chunk()
    {
        let eight = u64::from_le_bytes(*eight);
        let found = first_zero(eight ^ QUOTES) | first_zero(eight ^ BACKSLASHES);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Some(at + memchr2(b'"', b'\\', &text[at..])?)
}

/// The number of bytes of a string that are read before the search for long texts is called.
const SHORT_BYTES: usize = 32;

const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);

/// Marks zero bytes: the lowest set bit of the result is the highest bit of the first zero byte.
fn first_zero(eight: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    eight.wrapping_sub(LOW) & !eight & (LOW << 7)
}

/// Returns the end of the value at the start of the text: a comma outside brackets, or the end of
/// the text.
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
    fn the_first_quote_or_backslash_is_found_at_any_position() {
        for length in 0..80 {
            let mut text = vec![b'a'; length];
            assert_eq!(quote_or_backslash(&text), None);
            text.extend(*b"\xff#![]\"");
            for at in 0..length {
                let quote = text.len() - 1;
                assert_eq!(quote_or_backslash(&text), Some(quote));
                let before = std::mem::replace(&mut text[at], b'\\');
                assert_eq!(quote_or_backslash(&text), Some(at));
                text[at] = before;
            }
        }
    }

    #[test]
    fn members_stay_sorted_and_change_in_copies() {
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
        let list = rest.raw("b").expect("a member");
        let object = list.trim_matches(['[', ']']);
        assert_eq!(raw_member(object, "x"), Some(r#""{}""#));
        assert_eq!(raw_member(object, "y"), Some("1"));
        assert_eq!([raw_member(object, "z"), raw_member(list, "x")], [None; 2]);
    }
}
