//! Finds the values of a pod's own in JSON text. Text of any other form than JSON's is no pod's, and
//! what reads it in full says what is wrong with it.

use std::ops::Range;

use super::is_value;
use super::place::{Place, Slot, prefix_bytes};

/// The values and their places in the text, in order; `None` where the text is no JSON object or
/// is nested too deeply.
pub(super) fn values(text: &[u8]) -> Option<Vec<(Range<usize>, Slot)>> {
    let mut walk = Walk {
        text,
        at: 0,
        found: Vec::new(),
    };
    walk.value(Place::Root, DEPTH_MAX)?;
    Some(walk.found)
}

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 64;

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    found: Vec<(Range<usize>, Slot)>,
}

impl Walk<'_> {
    /// Passes the value that begins here.
    fn value(&mut self, place: Place, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' => {
                self.at += 1;
                if self.pass(b'}') {
                    return Some(());
                }
                loop {
                    self.peek()?;
                    let key = self.string()?;
                    let member = place.member(&self.text[key]);
                    self.pass(b':').then_some(())?;
                    self.value(member, depth.checked_sub(1)?)?;
                    if self.pass(b'}') {
                        return Some(());
                    }
                    self.pass(b',').then_some(())?;
                }
            }
            b'[' => {
                self.at += 1;
                if self.pass(b']') {
                    return Some(());
                }
                for index in 0.. {
                    self.value(place.item(index), depth.checked_sub(1)?)?;
                    if self.pass(b']') {
                        return Some(());
                    }
                    self.pass(b',').then_some(())?;
                }
                None
            }
            b'"' => {
                let range = self.string()?;
                if let Place::Value(slot) = place
                    && !slot.is_number()
                    && self.text[range.clone()].iter().all(|b| is_value(*b))
                    && let Some(prefix) = prefix_bytes(slot, &self.text[range.clone()])
                {
                    self.found.push((range.start + prefix..range.end, slot));
                }
                Some(())
            }
            _ => {
                let is_end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b'}' | b']');
                let rest = &self.text[self.at..];
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                let range = self.at..self.at + length;
                if let Place::Value(slot) = place
                    && slot.is_number()
                    && self.text[range.clone()].iter().all(u8::is_ascii_digit)
                {
                    self.found.push((range.clone(), slot));
                }
                self.at = range.end;
                (length > 0).then_some(())
            }
        }
    }

    /// The next byte that is no blank, left where it is.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|b| !b.is_ascii_whitespace())?;
        Some(self.text[self.at])
    }

    /// Passes that byte, if it is the next.
    fn pass(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Passes the string that begins here; gives what is between its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        (self.text[self.at] == b'"').then_some(())?;
        let start = self.at + 1;
        let mut end = start;
        loop {
            let rest = self.text.get(end..)?;
            end += rest.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            if self.text[end] == b'"' {
                self.at = end + 1;
                return Some(start..end);
            }
            end += 2;
        }
    }
}
