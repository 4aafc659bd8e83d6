//! Cuts a stream of JSON text into values without parsing them: only brackets and strings determine
//! where a value ends. The values can then be parsed separately and in parallel.
//!
//! Consumed text stays in a window in memory until it is released.

use std::io::{self, Read};
use std::ops::Range;

use podstorm_located::Place;

use super::error::ManifestError;

/// How many bytes to request at a time.
const READ_BYTES: usize = 1 << 18;

/// The maximum number of bytes of text to hold: some items, and one whose end is not found yet. API
/// servers accept objects of up to 3 MiB.
const HELD_BYTES_MAX: usize = 24 << 20;

/// The error about a NUL byte.
pub(super) const NUL: &str = "a NUL byte is not valid text: the file is damaged, or contains something other than YAML or JSON";

/// Returns the line and column of the first NUL byte, counted from 1; `None` if there is none.
pub(super) fn nul_in(text: &[u8]) -> Option<Place> {
    memchr::memchr(0, text).map(|at| place_of(text, at))
}

/// Returns the line and column of an offset in a text, counted from 1.
pub(super) fn place_of(text: &[u8], at: usize) -> Place {
    let before = &text[..at];
    let lines = memchr::memchr_iter(b'\n', before).count() as u64;
    let line = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    Place::new(lines + 1, (at - line) as u64 + 1)
}

/// Why the text can't be cut.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The text can't be read.
    Io(io::Error),
    /// The text ends within a value.
    CutOff,
    /// The text is not valid JSON at this offset.
    Wrong(u64, String),
    /// The text contains something that is refused.
    Refused(Box<ManifestError>),
}

impl From<Box<ManifestError>> for Trouble {
    fn from(error: Box<ManifestError>) -> Trouble {
        Trouble::Refused(error)
    }
}

/// The text of a stream. Offsets count from the beginning of the stream.
pub(super) struct Text<R> {
    reader: R,
    /// The buffer for text, filled up to `end`.
    window: Vec<u8>,
    end: usize,
    is_at_end: bool,
    /// The offset of the window's first byte.
    start: u64,
    /// The position in the window up to which the text is consumed.
    at: usize,
    /// The number of line feeds before the window.
    lines: u64,
    /// The offset at which the line that contains the window's first byte starts.
    line_start: u64,
    /// The brackets that are open. The memory is reused.
    open: Vec<u8>,
}

/// Marks the bytes that begin or end a string, a list or an object.
const OPENS_OR_CLOSES: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 5 {
        table[b"\"[]{}"[at] as usize] = true;
        at += 1;
    }
    table
};

impl<R: Read> Text<R> {
    pub(super) fn new(reader: R) -> Text<R> {
        Text {
            reader,
            window: Vec::new(),
            end: 0,
            is_at_end: false,
            start: 0,
            at: 0,
            lines: 0,
            line_start: 0,
            open: Vec::new(),
        }
    }

    /// Returns the current offset.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Returns the text in a range of offsets that are not released.
    pub(super) fn between(&self, range: &Range<u64>) -> &[u8] {
        let place = |offset: u64| (offset - self.start) as usize;
        &self.window[place(range.start)..place(range.end)]
    }

    /// Releases everything before the current offset.
    pub(super) fn release(&mut self) {
        let passed = &self.window[..self.at];
        if let Some(last) = memchr::memrchr(b'\n', passed) {
            self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
            self.line_start = self.start + last as u64 + 1;
        }
        self.start += self.at as u64;
        self.window.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
    }

    /// Returns the line and column of an offset that is not released, counted from 1.
    pub(super) fn position(&self, offset: u64) -> Place {
        let within = place_of(&self.window, (offset - self.start) as usize);
        match within.line {
            1 => Place::new(self.lines + 1, offset - self.line_start + 1),
            line => Place::new(self.lines + line, within.column),
        }
    }

    /// Reads more text. Returns false at the end of the stream.
    fn fill(&mut self) -> Result<bool, Trouble> {
        if self.is_at_end {
            return Ok(false);
        }
        if self.end >= HELD_BYTES_MAX {
            let problem = format!(
                "more than {} MiB without the end of an object, which exceeds what API servers accept: only the \
                 items of a list are read separately; split the file, or write a List",
                HELD_BYTES_MAX >> 20
            );
            return Err(Trouble::Wrong(self.start, problem));
        }
        if self.window.len() < self.end + READ_BYTES {
            self.window.resize(2 * self.end + READ_BYTES, 0);
        }
        let place = &mut self.window[self.end..self.end + READ_BYTES];
        let read = loop {
            match self.reader.read(place) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(Trouble::Io)?;
        self.end += read;
        self.is_at_end = read == 0;
        Ok(read > 0)
    }

    /// Returns the next byte that is not whitespace, without consuming it; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Trouble> {
        loop {
            let rest = &self.window[self.at..self.end];
            match rest.iter().position(|b| !b.is_ascii_whitespace()) {
                Some(blanks) => {
                    self.at += blanks;
                    return Ok(Some(self.window[self.at]));
                }
                None => self.at = self.end,
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Like [`peek`](Self::peek), but the end of the text is an error.
    pub(super) fn require(&mut self) -> Result<u8, Trouble> {
        self.peek()?.ok_or(Trouble::CutOff)
    }

    /// Consumes the byte that was peeked.
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    /// Consumes the next byte, which must be one of `wanted`, and returns it.
    pub(super) fn expect(&mut self, wanted: &[u8]) -> Result<u8, Trouble> {
        let found = self.require()?;
        if wanted.contains(&found) {
            self.pass();
            return Ok(found);
        }
        let wanted: Vec<String> = wanted.iter().map(|b| format!("`{}`", *b as char)).collect();
        Err(self.wrong(format!("expected {}", wanted.join(" or "))))
    }

    /// Creates an error at the current offset.
    pub(super) fn wrong(&self, problem: impl Into<String>) -> Trouble {
        Trouble::Wrong(self.offset(), problem.into())
    }

    /// Consumes one value and returns its range of offsets. Inspects only brackets and strings.
    pub(super) fn value(&mut self) -> Result<Range<u64>, Trouble> {
        let first = self.require()?;
        let start = self.offset();
        match first {
            b'{' | b'[' | b'"' => self.pass_closed()?,
            b',' | b':' | b'}' | b']' => return Err(self.wrong("expected a value")),
            _ => self.pass_word()?,
        }
        Ok(start..self.offset())
    }

    /// Consumes a number, true, false or null, or any other word in its place.
    fn pass_word(&mut self) -> Result<(), Trouble> {
        let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b':' | b'}' | b']');
        loop {
            match self.window[self.at..self.end].iter().position(ends) {
                Some(length) => {
                    self.at += length;
                    return Ok(());
                }
                None => self.at = self.end,
            }
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Consumes a string, a list or an object.
    fn pass_closed(&mut self) -> Result<(), Trouble> {
        self.open.clear();
        let mut in_string = false;
        let mut escaped = false;
        loop {
            let bytes = &self.window[self.at..self.end];
            let mut place = 0;
            while place < bytes.len() {
                if in_string {
                    if escaped {
                        escaped = false;
                        place += 1;
                        continue;
                    }
                    let rest = &bytes[place..];
                    match memchr::memchr2(b'"', b'\\', rest) {
                        Some(length) => {
                            place += length + 1;
                            escaped = rest[length] == b'\\';
                            in_string = escaped;
                        }
                        None => place = bytes.len(),
                    }
                } else {
                    while let Some(byte) = bytes.get(place)
                        && !OPENS_OR_CLOSES[usize::from(*byte)]
                    {
                        let is_indented = *byte == b' ' && bytes[place..].starts_with(b"        ");
                        place += if is_indented { 8 } else { 1 };
                    }
                    let Some(byte) = bytes.get(place).copied() else {
                        break;
                    };
                    place += 1;
                    match byte {
                        b'"' => in_string = true,
                        b'{' | b'[' => self.open.push(byte),
                        // In ASCII, `]` and `}` are two more than `[` and `{`.
                        b'}' | b']' if self.open.pop() != Some(byte - 2) => {
                            self.at += place - 1;
                            let problem = format!("`{}` closes nothing", byte as char);
                            return Err(self.wrong(problem));
                        }
                        _ => {}
                    }
                }
                if !in_string && self.open.is_empty() {
                    self.at += place;
                    return Ok(());
                }
            }
            self.at += place;
            if !self.fill()? {
                return Err(Trouble::CutOff);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time, so that values are cut at every position.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            self.0 = rest;
            buffer[0] = *first;
            Ok(1)
        }
    }

    #[test]
    fn values_end_where_their_brackets_close() {
        let values = [
            r#"{"a":[1,{"b":"]}\"\\"}],"c":{}}"#,
            "[]",
            r#""x\\\"y""#,
            "12.5",
            "null",
        ];
        let text = values.join(" \n");
        for slow in [true, false] {
            let reader: Box<dyn Read> = match slow {
                true => Box::new(Slowly(text.as_bytes())),
                false => Box::new(text.as_bytes()),
            };
            let mut text = Text::new(reader);
            for (number, value) in (1..).zip(values) {
                let range = text.value().unwrap();
                assert_eq!(text.between(&range), value.as_bytes());
                assert_eq!(text.position(range.start), Place::new(number, 1));
                if number == 2 {
                    text.release();
                }
            }
            assert_eq!(text.peek().unwrap(), None);
        }
    }

    #[test]
    fn text_that_ends_too_early_is_cut_off() {
        for cut in ["{\"a\":1", "[1,[2]", "\"ab", "\"ab\\\"", ""] {
            let mut text = Text::new(cut.as_bytes());
            assert!(matches!(text.value(), Err(Trouble::CutOff)), "{cut}");
        }
    }

    #[test]
    fn brackets_close_in_their_order() {
        let mut text = Text::new("\n {\"a\": [1}".as_bytes());
        match text.value() {
            Err(Trouble::Wrong(at, _)) => assert_eq!(text.position(at), Place::new(2, 10)),
            other => panic!("{other:?}"),
        }
    }
}
