//! Syntax of JSON texts: errors in the words of Go's decoder, and details that parsed values lose
//! (the notation of numbers, whitespace).
//!
//! Source: `scanner.go` of Go's `encoding/json`.

use serde_json::Value;

/// The maximum nesting depth of lists and objects that Go decodes.
const DEPTH_MAX: usize = 10_000;

/// Returns Go's name for the type of a value.
pub(crate) fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Like [`name_of`], for the value of a valid JSON text.
pub(crate) fn name_of_text(text: &[u8]) -> &'static str {
    match text.trim_ascii_start().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') | None => "null",
        Some(_) => "number",
    }
}

/// Returns Go's message about the first syntax error of a text; `None` if the text is valid JSON.
/// O(bytes).
pub(crate) fn problem(text: &[u8]) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    reader.document().err()
}

/// Returns the notation of the first number with this value in a valid JSON text; `None` if there
/// is no such number. O(bytes).
pub(crate) fn spelling(text: &[u8], number: f64) -> Option<&str> {
    let mut reader = Reader { text, at: 0 };
    while let Some(byte) = reader.peek() {
        let begin = reader.at;
        match byte {
            b'"' => reader.string().ok()?,
            b'-' | b'0'..=b'9' => {
                reader.number().ok()?;
                let found = std::str::from_utf8(&text[begin..reader.at]).ok()?;
                if found.parse() == Ok(number) {
                    return Some(found);
                }
            }
            _ => reader.at += 1,
        }
    }
    None
}

/// Reports whether a member of a valid JSON object contains whitespace outside strings. O(bytes).
pub(crate) fn has_blanks(text: &[u8], member: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    let Some(value) = reader.member(member) else {
        return false;
    };
    let mut reader = Reader { text: value, at: 0 };
    while let Some(byte) = value.get(reader.at) {
        match byte {
            b'"' if reader.string().is_err() => return false,
            b'"' => {}
            b' ' | b'\t' | b'\r' | b'\n' => return true,
            _ => reader.at += 1,
        }
    }
    false
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    /// Reads the next member name of the current object and moves past its colon.
    fn next_name(&mut self) -> Option<String> {
        if let Some(b'{' | b',') = self.peek() {
            self.at += 1;
        }
        self.peek().filter(|byte| *byte == b'"')?;
        let begin = self.at;
        self.string().ok()?;
        let name = serde_json::from_slice(&self.text[begin..self.at]).ok()?;
        self.peek();
        self.at += 1;
        Some(name)
    }

    /// Returns the text of a member of the object at the current position; `None` if the object
    /// lacks the member. If the member is repeated, the last one counts.
    fn member(&mut self, wanted: &str) -> Option<&'t [u8]> {
        let mut found = None;
        while let Some(name) = self.next_name() {
            self.peek();
            let begin = self.at;
            self.value().ok()?;
            if name == wanted {
                found = Some(&self.text[begin..self.at]);
            }
        }
        found
    }
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// Skips whitespace and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn unexpected(&self, place: &str) -> String {
        let Some(byte) = self.text.get(self.at) else {
            return "unexpected end of JSON input".to_owned();
        };
        let shown = match byte {
            b'\'' => r"\'".to_owned(),
            b'"' => "\"".to_owned(),
            b'\\' => r"\\".to_owned(),
            b'\n' => r"\n".to_owned(),
            b'\r' => r"\r".to_owned(),
            b'\t' => r"\t".to_owned(),
            0x20..=0x7e => char::from(*byte).to_string(),
            0x80..=0x9f | 0..=0x1f | 0x7f => format!("\\x{byte:02x}"),
            _ => char::from(*byte).to_string(),
        };
        format!("invalid character '{shown}' {place}")
    }

    /// Moves past the value at the current position. The open lists and objects are kept on the
    /// heap, because Go decodes 10,000 levels.
    fn value(&mut self) -> Result<(), String> {
        let mut closing = Vec::new();
        loop {
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    let close = if open == b'{' { b'}' } else { b']' };
                    closing.push(close);
                    if closing.len() > DEPTH_MAX {
                        return Err("exceeded max depth".to_owned());
                    }
                    if self.peek() != Some(close) {
                        self.begin_element(close)?;
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                _ => return Err(self.unexpected("looking for beginning of value")),
            }
            loop {
                let Some(close) = closing.last().copied() else {
                    return Ok(());
                };
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.begin_element(close)?;
                        break;
                    }
                    Some(byte) if byte == close => {
                        self.at += 1;
                        closing.pop();
                    }
                    _ if close == b'}' => {
                        return Err(self.unexpected("after object key:value pair"));
                    }
                    _ => return Err(self.unexpected("after array element")),
                }
            }
        }
    }

    /// Moves to the value of the next element of the list or object that `close` ends. In an
    /// object, this is past the name and the colon.
    fn begin_element(&mut self, close: u8) -> Result<(), String> {
        if close == b']' {
            return Ok(());
        }
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.text.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.text.get(self.at) {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                        Some(b'u') => self.four_digits()?,
                        _ => return Err(self.unexpected("in string escape code")),
                    }
                }
                None | Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn four_digits(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            self.at += 1;
            if !self.text.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            }
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        if !self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Err(self.unexpected(place));
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for letter in word.chars() {
            if self.text.get(self.at).copied().map(char::from) != Some(letter) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{letter}')")));
            }
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_has_the_words_of_go() {
        for (text, told) in [
            ("", "unexpected end of JSON input"),
            (
                "{not json",
                "invalid character 'n' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1] x", "invalid character 'x' after top-level value"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("[{}}", "invalid character '}' after array element"),
            (
                "{\"a\":[]]",
                "invalid character ']' after object key:value pair",
            ),
            ("tru", "unexpected end of JSON input"),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            ("\"a\n\"", "invalid character '\\n' in string literal"),
            ("-x", "invalid character 'x' in numeric literal"),
        ] {
            assert_eq!(problem(text.as_bytes()).as_deref(), Some(told), "{text}");
        }
        let fine = "{\"a\": [1.5e-3, -0, \"\\u00e9\\n\", null, true, {}]}";
        assert_eq!(problem(fine.as_bytes()), None);
    }

    #[test]
    fn the_maximum_depth_is_that_of_go() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(problem(nested(10_000).as_bytes()), None);
        let told = problem(nested(10_001).as_bytes());
        assert_eq!(told.as_deref(), Some("exceeded max depth"));
    }

    #[test]
    fn spelling_and_whitespace_are_found() {
        let text = br#"{"100": "100", "a": [1e2, 100], "b": {"c":"d e"}, "c": {"d": 1}}"#;
        assert_eq!(spelling(text, 100.0), Some("1e2"));
        assert_eq!(spelling(text, 3.0), None);
        assert!(!has_blanks(text, "b"));
        assert!(has_blanks(text, "c"));
        assert!(!has_blanks(text, "d"));
    }
}
