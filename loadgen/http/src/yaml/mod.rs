//! JSON documents as YAML, in the exact style of the library with which Kubernetes writes YAML:
//! sorted members, lists at the indentation of their parent's members, long strings folded.
//!
//! Source: `yaml_emitter_emit` of libyaml as go-yaml 2 has it, and that library's `encode.go`.

mod problem;
mod read;
mod resolve;
mod scalar;

use std::cmp::Ordering;

use serde_json::{Map, Value};

pub(crate) use problem::doubled_message;
pub use problem::{Cause, LineColumn, Problem};
pub use read::{Doubled, Yaml, read};
use scalar::{Style, style_of};

/// The number of spaces per level of indentation.
const STEP: usize = 2;
/// The column after which a string is folded at the next space.
const WIDTH: usize = 80;
/// The maximum length of a key that is on one line with its value.
const SIMPLE_KEY_MAX: usize = 128;

/// Formats a document as YAML. O(bytes).
pub(crate) fn text(value: &Value) -> String {
    let mut out = Emitter::default();
    match value {
        Value::Object(members) if !members.is_empty() => out.mapping(members, 0, true),
        Value::Array(items) if !items.is_empty() => out.sequence(items, 0, true),
        other => out.scalar(other, STEP, false),
    }
    out.text.push('\n');
    out.text
}

#[derive(Debug, Default)]
struct Emitter {
    text: String,
    /// The number of characters in the current line.
    column: usize,
}

impl Emitter {
    fn put(&mut self, character: char) {
        self.text.push(character);
        self.column += 1;
    }

    fn puts(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn new_line(&mut self, indent: usize) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    /// Writes a mapping. If `goes_on`, the first member continues the current line.
    fn mapping(&mut self, members: &Map<String, Value>, indent: usize, goes_on: bool) {
        let mut members: Vec<(&String, &Value)> = members.iter().collect();
        members.sort_by(|(a, _), (b, _)| key_order(a, b));
        for (number, (key, value)) in members.into_iter().enumerate() {
            if number > 0 || !goes_on {
                self.new_line(indent);
            }
            if key.len() > SIMPLE_KEY_MAX {
                self.puts("? ");
                self.string(key, indent + STEP, false);
                self.new_line(indent);
            } else {
                self.string(key, indent + STEP, true);
            }
            self.put(':');
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.mapping(inner, indent + STEP, false);
                }
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent, false),
                other => {
                    self.put(' ');
                    self.scalar(other, indent + STEP, false);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, goes_on: bool) {
        for (number, item) in items.iter().enumerate() {
            if number > 0 || !goes_on {
                self.new_line(indent);
            }
            self.puts("- ");
            match item {
                Value::Object(inner) if !inner.is_empty() => {
                    self.mapping(inner, indent + STEP, true);
                }
                Value::Array(inner) if !inner.is_empty() => {
                    self.sequence(inner, indent + STEP, true);
                }
                other => self.scalar(other, indent + STEP, false),
            }
        }
    }

    /// Writes a scalar. `indent` is the indentation of its continuation lines.
    fn scalar(&mut self, value: &Value, indent: usize, is_key: bool) {
        match value {
            Value::String(text) => self.string(text, indent, is_key),
            Value::Object(_) => self.puts("{}"),
            Value::Array(_) => self.puts("[]"),
            other => self.puts(&other.to_string()),
        }
    }

    fn string(&mut self, text: &str, indent: usize, is_key: bool) {
        match style_of(text, is_key) {
            Style::Plain => self.folded(text, indent, is_key, |out, character| {
                out.put(character);
            }),
            Style::Single => {
                self.put('\'');
                self.folded(text, indent, is_key, |out, character| {
                    if character == '\'' {
                        out.put('\'');
                    }
                    out.put(character);
                });
                self.put('\'');
            }
            Style::Double => self.double_quoted(text, indent, is_key),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// Writes a string without line breaks, folded at some of its spaces.
    fn folded(
        &mut self,
        text: &str,
        indent: usize,
        is_key: bool,
        put: impl Fn(&mut Emitter, char),
    ) {
        let mut after_space = false;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let is_space = character == ' ';
            let is_last = matches!(characters.peek(), None | Some(' '));
            if is_space && !is_key && !after_space && self.column > WIDTH && !is_last {
                self.new_line(indent);
            } else {
                put(self, character);
            }
            after_space = is_space;
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, is_key: bool) {
        self.put('"');
        let mut after_space = false;
        let mut characters = text.chars().enumerate().peekable();
        while let Some((at, character)) = characters.next() {
            if let Some(escape) = scalar::escape(character) {
                self.puts(&escape);
                after_space = false;
                continue;
            }
            let next = characters.peek().map(|(_, next)| *next);
            let may_fold = !is_key && !after_space && at > 0 && next.is_some();
            if character == ' ' && may_fold && self.column > WIDTH {
                self.new_line(indent);
                if next == Some(' ') {
                    self.put('\\');
                }
            } else {
                self.put(character);
            }
            after_space = character == ' ';
        }
        self.put('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.puts(&STEP.to_string());
        }
        if !text.ends_with('\n') {
            self.put('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put('+');
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            match line {
                "" => self.new_line(0),
                line => {
                    self.new_line(indent);
                    self.puts(line);
                }
            }
        }
    }
}

/// Compares keys: letters follow all other characters, and numbers are compared by value.
fn key_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = (0..a.len().min(b.len())).find(|at| a[*at] != b[*at]) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero after other digits of a number is an ordinary digit.
    let within = (a[at] == '0' || b[at] == '0')
        && (a[..at].iter().rev())
            .take_while(|digit| digit.is_ascii_digit())
            .any(|digit| *digit != '0');
    let number = |text: &[char]| {
        let digits = text[at..].iter().map_while(|digit| digit.to_digit(10));
        digits.fold((u64::from(within), 0), |(number, count), digit| {
            let next = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            (next, count + 1)
        })
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_have_upstreams_style() {
        let long = "word ".repeat(30);
        let document = json!({
            "b": [{"y": 1, "x": [[1, 2], []]}, "t", {}], "a10": "1", "a9": "no", "f:a": {".": {}},
            "k:{\"name\":\"c\"}": null, "t": "2026-01-02T03:04:05Z", "l": "a\nb\n", "n": "a: b",
            "q": "it's: so", "e": "", "w": long.trim_end(), "c": "a\tb", "i": "10:30", "z": true,
        });
        let folded = format!("{}word\n  {}", "word ".repeat(15), "word ".repeat(14));
        let expected = format!(
            "a9: \"no\"\na10: \"1\"\nb:\n- x:\n  - - 1\n    - 2\n  - []\n  \"y\": 1\n- t\n- {{}}\n\
             c: \"a\\tb\"\ne: \"\"\nf:a:\n  .: {{}}\ni: \"10:30\"\nk:{{\"name\":\"c\"}}: null\n\
             l: |\n  a\n  b\n\"n\": 'a: b'\nq: 'it''s: so'\nt: \"2026-01-02T03:04:05Z\"\n\
             w: {}\nz: true\n",
            folded.trim_end()
        );
        assert_eq!(text(&document), expected);
        let again: Value = read(&text(&json!({"a": {"b": ["c d", "- e"]}})))
            .unwrap()
            .value;
        assert_eq!(again, json!({"a": {"b": ["c d", "- e"]}}));
    }
}
