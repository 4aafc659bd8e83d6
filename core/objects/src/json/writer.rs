//! Writes JSON text without building a tree.

use std::fmt::{self, Display, Write};

use serde_json::Value;

use super::{Rest, Tape, quick};
use crate::{Map, Time};

/// A writer of JSON text: compact, with members in the order in which they are put.
#[derive(Clone, Debug, Default)]
pub struct Writer(String);

/// A value that is written in only one way.
pub trait Scalar {
    /// Writes the value.
    fn write(self, out: &mut Writer);
}

impl Scalar for &str {
    fn write(self, out: &mut Writer) {
        out.text(self);
    }
}

impl Scalar for bool {
    fn write(self, out: &mut Writer) {
        out.bool(self);
    }
}

impl Scalar for i64 {
    fn write(self, out: &mut Writer) {
        out.integer(self);
    }
}

impl Scalar for i32 {
    fn write(self, out: &mut Writer) {
        out.integer(self.into());
    }
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Returns the text written so far.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the written value as a tree.
    ///
    /// # Panics
    /// Panics if the text is not a complete value.
    pub(crate) fn to_value(&self) -> Value {
        Tape::of_written(&self.0).root().to_value()
    }

    /// Returns an object with the members that `put` writes, as a tree.
    pub(crate) fn object_value(put: impl FnOnce(&mut Writer)) -> Value {
        let mut out = Writer::new();
        out.object(put);
        out.to_value()
    }

    /// Writes a tree, for types outside this crate.
    pub fn value(&mut self, value: &Value) {
        self.shown(value);
    }

    /// Clears the text and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Clears the text and keeps at most this many bytes of memory.
    pub(crate) fn clear_to(&mut self, bytes_max: usize) {
        self.0.clear();
        self.0.shrink_to(bytes_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes a string unchanged.
    pub(crate) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    pub(crate) fn bool(&mut self, flag: bool) {
        self.raw(if flag { "true" } else { "false" });
    }

    pub(crate) fn integer(&mut self, number: i64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = number.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if number < 0 {
            self.0.push('-');
        }
        self.raw(str::from_utf8(&digits[at..]).expect("digits are ASCII"));
    }

    /// Writes the `Display` form of a value, which must be JSON.
    pub(crate) fn shown(&mut self, json: &impl Display) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{json}");
    }

    /// Writes a string.
    pub(crate) fn text(&mut self, text: &str) {
        self.0.push('"');
        self.escaped(text);
        self.0.push('"');
    }

    /// Writes a string that does not need escaping.
    pub(crate) fn plain(&mut self, text: &str) {
        self.0.reserve(text.len() + 2);
        self.0.push('"');
        self.0.push_str(text);
        self.0.push('"');
    }

    fn escaped(&mut self, mut text: &str) {
        while let Some(at) = quick::first_escaped(text) {
            self.raw(&text[..at]);
            match text.as_bytes()[at] {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                b'\r' => self.raw("\\r"),
                b'\t' => self.raw("\\t"),
                0x08 => self.raw("\\b"),
                0x0c => self.raw("\\f"),
                other => {
                    let _ = write!(self.0, "\\u{other:04x}");
                }
            }
            text = &text[at + 1..];
        }
        self.raw(text);
    }

    pub(crate) fn open(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    pub(crate) fn close(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    /// Writes a comma unless the next value is the first inside its brackets.
    pub(crate) fn comma(&mut self) {
        if !matches!(self.0.as_bytes().last(), Some(b'{' | b'[') | None) {
            self.0.push(',');
        }
    }

    /// Writes an object with the members that `write` puts.
    pub fn object(&mut self, write: impl FnOnce(&mut Writer)) {
        self.0.push('{');
        write(self);
        self.0.push('}');
    }

    /// Writes a list with the items that `write` puts.
    pub fn list(&mut self, write: impl FnOnce(&mut Writer)) {
        self.0.push('[');
        write(self);
        self.0.push(']');
    }

    /// Puts an item of a list.
    pub(crate) fn item(&mut self, write: impl FnOnce(&mut Writer)) {
        self.comma();
        write(self);
    }

    /// Puts a member with any name.
    pub(crate) fn member_named(&mut self, name: &str, write: impl FnOnce(&mut Writer)) {
        self.begin_member(name);
        write(self);
    }

    /// Puts the name of a member. Its value is written next.
    pub(crate) fn begin_member(&mut self, name: &str) {
        self.comma();
        self.text(name);
        self.0.push(':');
    }

    /// Puts a member whose name does not need escaping.
    pub(crate) fn member(&mut self, name: &'static str, write: impl FnOnce(&mut Writer)) {
        self.comma();
        self.0.push('"');
        self.raw(name);
        self.raw("\":");
        write(self);
    }

    /// Puts a member whose name does not need escaping.
    pub fn put(&mut self, name: &'static str, value: impl Scalar) {
        self.member(name, |out| value.write(out));
    }

    pub(crate) fn put_some(&mut self, name: &'static str, value: Option<impl Scalar>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Puts a member with a string unless the string is empty.
    pub(crate) fn put_text(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.put(name, text);
        }
    }

    /// Puts a member with the `Display` form of a value, as a string.
    pub(crate) fn put_shown(&mut self, name: &'static str, value: &impl Display) {
        self.member(name, |out| {
            out.0.push('"');
            // Writing to a string does not fail.
            let _ = write!(Escape(out), "{value}");
            out.0.push('"');
        });
    }

    /// Puts a member with a number unless the number is zero.
    pub(crate) fn put_number(&mut self, name: &'static str, number: i64) {
        if number != 0 {
            self.put(name, number);
        }
    }

    /// Puts a member with a time unless the time is unset.
    pub(crate) fn put_time(&mut self, name: &'static str, time: Time) {
        if !time.is_unset() {
            self.member(name, |out| out.plain(time.text(&mut [0; 20])));
        }
    }

    /// Puts a member with a time, or null if the time is unset.
    pub fn put_time_or_null(&mut self, name: &'static str, time: Time) {
        match time.is_unset() {
            true => self.member(name, |out| out.raw("null")),
            false => self.put_time(name, time),
        }
    }

    /// Puts a member with a list unless the list is empty.
    pub(crate) fn put_list<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some() {
            self.member(name, |out| {
                out.list(|out| items.for_each(|item| out.item(|out| write(out, item))));
            });
        }
    }

    /// Puts a list of objects, each with the members that `write` puts, unless it is empty.
    pub(crate) fn put_objects<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Writer, T),
    ) {
        self.put_list(name, items, |out, item| out.object(|out| write(out, item)));
    }

    /// Puts a member with the object whose members `write` puts, unless the object is empty.
    pub fn put_object(&mut self, name: &'static str, write: impl FnOnce(&mut Writer)) {
        let before = self.len();
        self.member(name, |out| out.object(write));
        if self.0.ends_with("{}") {
            self.0.truncate(before);
        }
    }

    /// Puts the members of a tree.
    pub(crate) fn put_members(&mut self, members: &Map) {
        for (name, value) in members {
            self.member_named(name, |out| out.value(value));
        }
    }

    /// Puts members that are carried unread.
    pub(crate) fn put_rest(&mut self, rest: &Rest) {
        if !rest.is_empty() {
            self.comma();
            self.raw(rest.as_str());
        }
    }

    /// Puts members that are carried unread, except those whose typed members were already put.
    pub(crate) fn put_rest_but(&mut self, rest: &Rest, put: &[Option<&str>]) {
        for (name, value) in rest.parts() {
            if !put.iter().flatten().any(|put| is_quoted(name, put)) {
                self.comma();
                self.raw(name);
                self.raw(":");
                self.raw(value);
            }
        }
    }
}

/// Reports whether `quoted` is `name` in quotes. The name must not need escaping.
pub(super) fn is_quoted(quoted: &str, name: &str) -> bool {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner == Some(name)
}

/// Escapes the `Display` form that is written to it.
struct Escape<'a>(&'a mut Writer);

impl Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.escaped(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_escaped_as_json_requires() {
        for text in [
            "",
            "plain",
            "q\"b\\s/",
            "\u{0}\u{1f}\u{8}\u{c}\n\r\t\u{7f}\u{e9}\u{1f600}",
        ] {
            let mut out = Writer::new();
            out.text(text);
            assert_eq!(out.as_str(), Value::from(text).to_string());
            out.clear();
            out.object(|out| out.put_shown("t", &text));
            assert_eq!(out.as_str(), json!({"t": text}).to_string());
        }
    }

    #[test]
    fn integers_are_written_in_full() {
        for number in [0, 7, -1, 10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut out = Writer::new();
            out.integer(number);
            assert_eq!(out.as_str(), number.to_string());
        }
    }

    #[test]
    fn empty_members_are_omitted() {
        let mut out = Writer::new();
        out.object(|out| {
            out.put_text("a", "");
            out.put_number("b", 0);
            out.put_list("c", [0; 0], Writer::integer);
            out.put_object("d", |_| {});
            out.put_time("f", Time::UNSET);
            out.put_rest(&Rest::NONE);
            out.put("g", "{}");
            out.put_object("h", |out| out.put("i", 1));
            out.put_list("j", [1, 2], Writer::integer);
        });
        assert_eq!(out.as_str(), r#"{"g":"{}","h":{"i":1},"j":[1,2]}"#);
    }
}
