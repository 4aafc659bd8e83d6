//! What is wrong with a text that is no JSON, in the words of Go's decoder.
//!
//! Source: `scanner.go` of Go's `encoding/json`.

/// Lists and objects within each other that Go reads.
const DEPTH_MAX: usize = 10_000;

/// The first problem of a text; `None` for JSON. O(bytes).
pub(crate) fn problem(text: &[u8]) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    reader.document().err()
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value(0)?;
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// The next byte that is no space.
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

    fn value(&mut self, depth: usize) -> Result<(), String> {
        const BEGINNING: &str = "looking for beginning of value";
        if depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err(self.unexpected(BEGINNING)),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), String> {
        const KEY: &str = "looking for beginning of object key string";
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(KEY));
            }
            self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<(), String> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("after array element")),
            }
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
    use super::problem;

    #[test]
    fn the_first_problem_is_told_as_go_tells_it() {
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
}
