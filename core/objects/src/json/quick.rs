//! A fast reader of JSON text that reads eight bytes of a string, and sixteen bytes of indentation,
//! at a time. It gives up at any error, and serde_json then reports the error. It accepts nothing
//! that serde_json would refuse or read differently.

use std::borrow::Cow;

use serde_json::Number;

use super::tape::{self, Slot};
use super::value::order;

/// The maximum number of levels of lists and objects in an external text: as many as serde_json
/// allows.
pub(super) const DEPTH_MAX: usize = 127;

/// Appends the value of a document to a tape. The value may have `depth_max` levels. `None` if
/// serde_json must read the document.
pub(super) fn read<'t>(text: &'t str, slots: &mut Vec<Slot<'t>>, depth_max: usize) -> Option<()> {
    let mut reader = Reader { text, at: 0 };
    reader.value(slots, depth_max)?;
    reader.pass_space();
    (reader.at == text.len()).then_some(())
}

const SPACES: u128 = u128::from_le_bytes([b' '; 16]);

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns eight bytes from this position, the first one lowest; `None` near the end.
    fn eight(&self, at: usize) -> Option<u64> {
        let bytes = self.text.as_bytes().get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns sixteen bytes from this position, the first one lowest; `None` near the end.
    fn sixteen(&self, at: usize) -> Option<u128> {
        let bytes = self.text.as_bytes().get(at..at + 16)?;
        bytes.try_into().ok().map(u128::from_le_bytes)
    }

    fn pass_space(&mut self) {
        loop {
            // Indentation: skips the leading spaces of the next sixteen bytes, and continues while
            // all sixteen are spaces.
            while let Some(sixteen) = self.sixteen(self.at) {
                let spaces = (sixteen ^ SPACES).trailing_zeros() / 8;
                self.at += spaces as usize;
                if spaces < 16 {
                    break;
                }
            }
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                _ => return,
            }
        }
    }

    /// Returns the next byte that is not white space, without consuming it.
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        match *bytes.get(self.at)? {
            b'\n' => self.at += 1,
            // One space after a colon.
            b' ' if bytes.get(self.at + 1).is_some_and(|byte| *byte > b' ') => {
                self.at += 1;
                return bytes.get(self.at).copied();
            }
            byte if byte > b' ' => return Some(byte),
            _ => {}
        }
        self.pass_space();
        self.byte()
    }

    fn value(&mut self, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let first = self.next()?;
        self.value_of(first, slots, depth)
    }

    /// Reads the value whose first byte is `first`.
    fn value_of(&mut self, first: u8, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        match first {
            b'"' => {
                let text = self.string()?;
                slots.push(text);
            }
            b'{' => self.object(slots, depth.checked_sub(1)?)?,
            b'[' => self.list(slots, depth.checked_sub(1)?)?,
            b't' => slots.push(self.word("true", Slot::Bool(true))?),
            b'f' => slots.push(self.word("false", Slot::Bool(false))?),
            b'n' => slots.push(self.word("null", Slot::Null)?),
            b'-' | b'0'..=b'9' => slots.push(self.number()?),
            _ => return None,
        }
        Some(())
    }

    fn word(&mut self, word: &str, slot: Slot<'t>) -> Option<Slot<'t>> {
        self.text.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        Some(slot)
    }

    fn list(&mut self, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let at = slots.len();
        slots.push(Slot::List(0));
        self.at += 1;
        if self.next()? != b']' {
            loop {
                self.value(slots, depth)?;
                match self.next()? {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        slots[at] = Slot::List(u32::try_from(slots.len() - at - 1).ok()?);
        Some(())
    }

    fn object(&mut self, slots: &mut Vec<Slot<'t>>, depth: usize) -> Option<()> {
        let at = slots.len();
        slots.push(Slot::Object(0));
        self.at += 1;
        let (mut last, mut in_order) = (at, true);
        if self.next()? != b'}' {
            loop {
                if self.next()? != b'"' {
                    return None;
                }
                let name = self.string()?;
                in_order =
                    in_order && (last == at || order(slots[last].name(), name.name()).is_lt());
                last = slots.len();
                slots.push(name);
                if self.next()? != b':' {
                    return None;
                }
                self.at += 1;
                // Most values are strings, so this saves a call.
                match self.next()? {
                    b'"' => {
                        let text = self.string()?;
                        slots.push(text);
                    }
                    other => self.value_of(other, slots, depth)?,
                }
                match self.next()? {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        slots[at] = Slot::Object(u32::try_from(slots.len() - at - 1).ok()?);
        match in_order {
            true => Some(()),
            false => tape::sort(slots, at + 1).ok(),
        }
    }

    /// Reads a string, from its opening quote to just after the closing one.
    fn string(&mut self) -> Option<Slot<'t>> {
        let start = self.at + 1;
        let end = self.special(start)?;
        if self.text.as_bytes()[end] == b'"' {
            self.at = end + 1;
            return Some(Slot::Plain(self.text.get(start..end)?));
        }
        let mut end = end;
        loop {
            match self.text.as_bytes()[end] {
                b'"' => break,
                b'\\' => end = self.special(end + 2)?,
                _ => return None,
            }
        }
        let text = serde_json::from_str(&self.text[self.at..=end]).ok()?;
        self.at = end + 1;
        Some(Slot::Text(Cow::Owned(text)))
    }

    /// Returns the position of the first quote, backslash or control character from `at` on.
    fn special(&self, mut at: usize) -> Option<usize> {
        while let Some(bytes) = self.eight(at) {
            // The lowest set bit belongs to a match, because borrows propagate upwards.
            let found = zeros(bytes ^ eight_of(b'"'))
                | zeros(bytes ^ eight_of(b'\\'))
                | bytes.wrapping_sub(eight_of(b' ')) & !bytes & eight_of(0x80);
            if found != 0 {
                return Some(at + found.trailing_zeros() as usize / 8);
            }
            at += 8;
        }
        let left = self.text.as_bytes().get(at..)?.iter();
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
        left.clone().position(is_special).map(|more| at + more)
    }

    fn number(&mut self) -> Option<Slot<'t>> {
        const DIGITS_MAX: usize = 18;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let is_negative = bytes[start] == b'-';
        let first = start + usize::from(is_negative);
        let (mut at, mut number) = (first, 0);
        while let Some(digit @ b'0'..=b'9') = bytes.get(at)
            && at - first < DIGITS_MAX
        {
            number = number * 10 + i64::from(digit - b'0');
            at += 1;
        }
        let goes_on = matches!(
            bytes.get(at),
            Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
        );
        let is_usual = at > first && (bytes[first] != b'0' || (at == first + 1 && !is_negative));
        if is_usual && !goes_on {
            self.at = at;
            return Some(Slot::Int(if is_negative { -number } else { number }));
        }
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let end = start
            + bytes[start..]
                .iter()
                .take_while(|byte| is_part(byte))
                .count();
        let number: Number = serde_json::from_str(&self.text[start..end]).ok()?;
        self.at = end;
        Some(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Slot::Int(number),
            (None, Some(number)) => Slot::Uint(number),
            (None, None) => Slot::Float(number.as_f64()?),
        })
    }
}

/// Returns eight copies of this byte.
const fn eight_of(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Returns the high bits of the bytes that are zero, and possibly of bytes above a zero one.
const fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(eight_of(1)) & !bytes & eight_of(0x80)
}

/// Returns the position of the first character that JSON escapes; `None` if there is none.
pub(super) fn first_escaped(text: &str) -> Option<usize> {
    Reader { text, at: 0 }.special(0)
}
