//! A reader for YAML as `kubectl get -o yaml` writes it: block style, each scalar on its own line.
//! It gives up at anything else (comments, anchors, flow style except `{}` and `[]`, scalars of
//! unclear type), and a YAML library then reads the whole text. Both readers return the same
//! values.

use std::borrow::Cow;

use super::quick;
use super::tape::{self, Slot};
use super::value::order;

/// The maximum number of levels of lists and mappings.
const DEPTH_MAX: usize = 127;

/// Appends the value of a document to a tape. `None` if a YAML library must read the document.
pub(super) fn read<'t>(text: &'t str, slots: &mut Vec<Slot<'t>>) -> Option<()> {
    let mut reader = Reader { text, at: 0 };
    let indent = reader.next_line()?;
    reader.node(indent, slots, DEPTH_MAX)?;
    reader.next_line().is_none().then_some(())
}

/// The reader. Its position is the first non-space character of a line, or the start of a value
/// after a name.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Skips spaces and blank lines. Returns the column of the next text; `None` at the end.
    fn next_line(&mut self) -> Option<usize> {
        loop {
            let left = &self.text.as_bytes()[self.at..];
            let blanks = left.iter().take_while(|byte| **byte == b' ').count();
            match left.get(blanks)? {
                b'\n' => self.at += blanks + 1,
                _ => {
                    self.at += blanks;
                    return Some(blanks);
                }
            }
        }
    }

    /// Returns the column and the first byte of the next text without consuming it.
    fn peek_line(&self) -> Option<(usize, u8)> {
        let mut ahead = Reader { ..*self };
        let column = ahead.next_line()?;
        Some((column, self.text.as_bytes()[ahead.at]))
    }

    /// Consumes and returns the rest of the line; `None` if it has unusual characters.
    fn line(&mut self) -> Option<&'t str> {
        let left = &self.text[self.at..];
        let end = memchr::memchr(b'\n', left.as_bytes()).unwrap_or(left.len());
        self.at = (self.at + end + 1).min(self.text.len());
        let line = &left[..end];
        (is_usual(line) && !line.ends_with(' ')).then_some(line)
    }

    /// Reads the value after a name or a dash: the rest of the line, or the following lines with
    /// more indentation. After a name, a list may begin at the column of the name.
    fn node(&mut self, column: usize, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.text.as_bytes()[self.at] {
            b'-' => self.list(column, slots, depth),
            _ => self.mapping(column, slots, depth),
        }
    }

    fn list(&mut self, column: usize, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let at = slots.len();
        slots.push(Slot::List(0));
        loop {
            let line = self.text[self.at..].strip_prefix("- ")?;
            let begins = line.as_bytes().first()?;
            self.at += 2;
            let inner = column + 2;
            let end = memchr::memchr(b'\n', line.as_bytes()).unwrap_or(line.len());
            let is_mapping =
                !matches!(begins, b'"' | b'\'' | b'-') && name_end(&line[..end]).is_some();
            if is_mapping {
                self.mapping(inner, slots, depth.checked_sub(1)?)?;
            } else if line.starts_with("- ") {
                self.list(inner, slots, depth.checked_sub(1)?)?;
            } else {
                self.scalar(column, slots)?;
            }
            match self.peek_line() {
                Some((next, b'-')) if next == column => drop(self.next_line()),
                Some((next, _)) if next > column => return None,
                _ => break,
            }
        }
        slots[at] = Slot::List(u32::try_from(slots.len() - at - 1).ok()?);
        Some(())
    }

    fn mapping(&mut self, column: usize, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let at = slots.len();
        slots.push(Slot::Object(0));
        let (mut last, mut in_order) = (at, true);
        loop {
            let left = &self.text[self.at..];
            let end = memchr::memchr(b'\n', left.as_bytes()).unwrap_or(left.len());
            let name = &left[..name_end(&left[..end])?];
            (is_usual(name) && is_text(name)).then_some(())?;
            let name = text_slot(name);
            in_order = in_order && (last == at || order(slots[last].name(), name.name()).is_lt());
            self.at += name.name().len() + 1;
            last = slots.len();
            slots.push(name);
            self.member(column, slots, depth)?;
            match self.peek_line() {
                Some((_, b'-')) | None => break,
                Some((next, _)) if next > column => return None,
                Some((next, _)) if next == column => drop(self.next_line()),
                _ => break,
            }
        }
        slots[at] = Slot::Object(u32::try_from(slots.len() - at - 1).ok()?);
        match in_order {
            true => Some(()),
            false => tape::sort(slots, at + 1).ok(),
        }
    }

    /// Reads the value of a member whose name has been consumed.
    fn member(&mut self, column: usize, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        match self.text.as_bytes().get(self.at) {
            Some(b' ') => {
                self.at += 1;
                self.scalar(column, slots)
            }
            // The value is on the lines below, or absent.
            _ => match self.peek_line() {
                Some((next, first)) if next > column || (next == column && first == b'-') => {
                    self.next_line()?;
                    self.node(next, slots, depth)
                }
                _ => {
                    self.line();
                    slots.push(Slot::Null);
                    Some(())
                }
            },
        }
    }

    /// Reads a scalar in the rest of the line, or a literal block on the lines below.
    fn scalar(&mut self, column: usize, slots: &mut Vec<Slot<'t>>) -> Option<()> {
        let line = self.line()?;
        let slot = match line {
            "{}" => Slot::Object(0),
            "[]" => Slot::List(0),
            "true" => Slot::Bool(true),
            "false" => Slot::Bool(false),
            "null" => Slot::Null,
            "|" => self.literal(column, true)?,
            "|-" => self.literal(column, false)?,
            _ => match line.as_bytes().first()? {
                b'"' => {
                    let inner = line.strip_prefix('"')?.strip_suffix('"')?;
                    (!inner.contains(['"', '\\'])).then(|| text_slot(inner))?
                }
                b'\'' => {
                    let inner = line.strip_prefix('\'')?.strip_suffix('\'')?;
                    (!inner.contains('\'')).then(|| text_slot(inner))?
                }
                _ => match integer(line) {
                    Some(number) => Slot::Int(number),
                    None => is_text(line).then(|| text_slot(line))?,
                },
            },
        };
        slots.push(slot);
        Some(())
    }

    /// Returns the text of the literal block on the following lines, which are indented deeper than
    /// `column`.
    fn literal(&mut self, column: usize, ends_with_feed: bool) -> Option<Slot<'t>> {
        let (indent, _) = self.peek_line().filter(|(indent, _)| *indent > column)?;
        let mut text = String::new();
        let mut blank_lines = 0;
        while let Some(left) = self.text.get(self.at..).filter(|left| !left.is_empty()) {
            let end = memchr::memchr(b'\n', left.as_bytes()).unwrap_or(left.len());
            let line = &left[..end];
            if line.is_empty() {
                blank_lines += 1;
            } else {
                let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
                if blanks < indent {
                    break;
                }
                let has_odd = line.chars().any(|c| c.is_control() || c == '\u{feff}');
                if has_odd || blanks == line.len() || line.ends_with(' ') {
                    return None;
                }
                // Blank lines at the end are left to the YAML library.
                text.extend(std::iter::repeat_n('\n', blank_lines));
                blank_lines = 0;
                text.push_str(&line[indent..]);
                text.push('\n');
            }
            self.at = (self.at + end + 1).min(self.text.len());
        }
        if blank_lines > 0 || !self.text[..self.at].ends_with('\n') {
            return None;
        }
        if !ends_with_feed {
            text.pop();
        }
        Some(Slot::Text(Cow::Owned(text)))
    }
}

/// Reports whether the text has only printable ASCII characters.
fn is_usual(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[inline]
fn text_slot(text: &str) -> Slot<'_> {
    match quick::first_escaped(text) {
        None => Slot::Plain(text),
        Some(_) => Slot::Text(Cow::Borrowed(text)),
    }
}

/// Returns the end of the name at the start of a line: a colon followed by a space or the end of
/// the line.
fn name_end(line: &str) -> Option<usize> {
    let mut colons = memchr::memchr_iter(b':', line.as_bytes());
    colons.find(|at| matches!(line.as_bytes().get(at + 1), None | Some(b' ')))
}

/// Parses an integer in JSON's form; `None` for any other text.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_usual = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', more @ ..] => more.len() < 18 && more.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_usual.then(|| text.parse().ok())?
}

/// Reports whether a plain scalar is certainly a string. False for a scalar that is a number, a
/// boolean or null in any version of YAML, or that has YAML syntax.
fn is_text(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity",
    ];
    let bytes = text.as_bytes();
    let has = |wanted: &[u8]| memchr::memmem::find(bytes, wanted).is_some();
    let Some(first) = bytes.first() else {
        return false;
    };
    if text.ends_with([':', ' ']) || has(b": ") || has(b" #") {
        return false;
    }
    match first {
        b'a'..=b'z' | b'A'..=b'Z' => !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)),
        b'/' | b'_' => true,
        // For example, a command-line argument.
        b'-' => matches!(bytes, [_, b'-', b'a'..=b'z' | b'A'..=b'Z', ..]),
        b'0'..=b'9' => {
            let letter = |byte: &u8| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E');
            let dash = |pair: &[u8]| pair[1] == b'-' && !matches!(pair[0], b'e' | b'E');
            bytes.contains(&b'/')
                || bytes.windows(2).any(dash)
                || bytes.iter().filter(|byte| **byte == b'.').count() >= 2
                || (*first != b'0' && bytes.iter().any(letter))
        }
        _ => false,
    }
}
