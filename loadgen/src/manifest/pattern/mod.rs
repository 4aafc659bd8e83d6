//! Pods of one ReplicaSet are alike to the letter but for a few values: names, times, addresses. A
//! [`Pattern`] is the text of one such pod with places for those values. Where another pod's text
//! fits it, the pod is a copy of the first one with its own values put in, and its text is compared
//! instead of parsed, decoded, defaulted and checked anew.
//!
//! A value is put in only where the slow way would have taken it: each sort of value has a form (a
//! UUID, a time in seconds, a DNS name) that is narrower than what the slow way takes, and what has
//! another form is read the slow way, mistakes above all. So a pattern changes how long reading
//! takes and never what is read.

mod fill;
mod json;
mod kin;
mod place;
#[cfg(test)]
mod tests;
mod yaml;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use podstorm_objects::Pod;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

pub(super) use self::kin::Patterns;
use self::place::Slot;
use super::collect::Collector;
use super::decode::Decoded;
use crate::input::InputObject;

/// What language a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Yaml,
}

/// The text of a pod with places for the values that its like have of their own.
#[derive(Debug)]
pub(super) struct Pattern {
    language: Language,
    /// The text without the values.
    literal: Box<[u8]>,
    /// The values' places: what stands there, and where in `literal`.
    slots: Box<[(usize, Slot)]>,
    /// The first pod of the pattern; `None` where its like can't be made of it. Set once it has
    /// been decoded.
    first: OnceLock<Option<Box<Pod>>>,
}

/// Where the values of a text stand, in the order of the pattern's slots.
pub(super) type Values = Vec<Range<u32>>;

impl Pattern {
    /// The pattern of a text with values at these places, in their order.
    fn new(language: Language, text: &[u8], values: &[(Range<usize>, Slot)]) -> Pattern {
        let mut literal = Vec::with_capacity(text.len());
        let mut slots = Vec::with_capacity(values.len());
        let mut at = 0;
        for (range, slot) in values {
            literal.extend_from_slice(&text[at..range.start]);
            slots.push((literal.len(), *slot));
            at = range.end;
        }
        literal.extend_from_slice(&text[at..]);
        Pattern {
            language,
            literal: literal.into(),
            slots: slots.into(),
            first: OnceLock::new(),
        }
    }

    /// The values of the text that fits at the beginning of `text`, and where it ends. O(length of
    /// the text), most of it the comparison of bytes.
    fn fit(&self, text: &[u8]) -> Option<(Values, usize)> {
        let mut values = Values::new();
        let (mut at, mut passed) = (0, 0);
        for (place, _) in &self.slots {
            let literal = &self.literal[passed..*place];
            let rest = text.get(at..)?.strip_prefix(literal)?;
            let length = rest.iter().position(|byte| !is_value(*byte))?;
            if length == 0 || length > VALUE_BYTES_MAX {
                return None;
            }
            if values.is_empty() {
                values.reserve_exact(self.slots.len());
            }
            passed = *place;
            at += literal.len();
            values.push(at as u32..(at + length) as u32);
            at += length;
        }
        let literal = &self.literal[passed..];
        text[at..].starts_with(literal).then_some(())?;
        Some((values, at + literal.len()))
    }

    /// The pod of a text with these values; `None` where the text must be read in full.
    fn pod(&self, text: &[u8], values: &Values) -> Option<Box<Pod>> {
        self.pod_like(self.first.get()?.as_deref()?, text, values)
    }

    fn pod_like(&self, first: &Pod, text: &[u8], values: &Values) -> Option<Box<Pod>> {
        let slots = self.slots.iter().map(|(_, slot)| *slot);
        let values = values.iter().map(|range| {
            let range = range.start as usize..range.end as usize;
            std::str::from_utf8(&text[range]).expect("values are ASCII")
        });
        fill::fill(first, self.language, slots.zip(values))
    }

    /// Tells the pattern the pod that its first text was, shared as it will be stored.
    fn set_first(&self, text: &[u8], decoded: &Decoded) {
        let first = match decoded {
            Decoded::Shared(InputObject::Pod(pod)) => Some(pod.clone()),
            _ => None,
        };
        // What does not give the pod that it was made of is not understood.
        let is_understood = |first: &Pod| {
            let (values, _) = self.fit(text)?;
            (*self.pod_like(first, text, &values)? == *first).then_some(())
        };
        let first = first.filter(|first| is_understood(first).is_some());
        // Only the first text of a pattern is told of, once.
        let _ = self.first.set(first);
    }

    fn bytes(&self) -> usize {
        self.literal.len() + self.slots.len() * size_of::<(usize, Slot)>()
    }
}

/// Longest value that has a place in a pattern.
const VALUE_BYTES_MAX: usize = 253;

/// Whether a byte can be part of a value: what stands in names, times, addresses and identifiers,
/// and is itself in JSON and YAML.
fn is_value(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            let letter = byte as u8;
            table[byte] = letter.is_ascii_alphanumeric()
                || matches!(letter, b'-' | b'.' | b':' | b'/' | b'_');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// An item of a list and what is known of its text.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a [u8],
    pub(super) likeness: &'a Likeness,
}

/// Whether a text is like another.
#[derive(Clone, Debug)]
pub(super) enum Likeness {
    /// Not that anybody knows.
    None,
    /// The pattern was made of it.
    First(Arc<Pattern>),
    /// It fits a pattern, with these values.
    Next(Arc<Pattern>, Values),
}

/// Decodes items on all cores, `decode` those that are like no other. Gives them in their order.
pub(super) fn decode_all(
    pieces: &[Piece<'_>],
    decode: impl Fn(&[u8]) -> Decoded + Sync,
    collector: &mut Collector,
) -> Vec<Decoded> {
    let in_full = |piece: &Piece<'_>| match piece.likeness {
        Likeness::Next(..) => None,
        Likeness::None | Likeness::First(_) => Some(decode(piece.text)),
    };
    let mut decoded = map_all(pieces, in_full);
    for (piece, decoded) in pieces.iter().zip(&mut decoded) {
        if let (Likeness::First(pattern), Some(decoded)) = (piece.likeness, decoded) {
            collector.share(decoded);
            pattern.set_first(piece.text, decoded);
        }
    }
    let alike = map_all(pieces, |piece| match piece.likeness {
        Likeness::Next(pattern, values) => Some(match pattern.pod(piece.text, values) {
            Some(pod) => Decoded::Shared(InputObject::Pod(pod)),
            None => decode(piece.text),
        }),
        Likeness::None | Likeness::First(_) => None,
    });
    let all = decoded.into_iter().zip(alike);
    all.map(|(in_full, alike)| in_full.or(alike).expect("each is one or the other"))
        .collect()
}

/// What `map` makes of all pieces, in their order, on all cores; on the caller's where there is no
/// other.
fn map_all<T: Send>(pieces: &[Piece<'_>], map: impl Fn(&Piece<'_>) -> T + Sync + Send) -> Vec<T> {
    match rayon::current_num_threads() {
        1 => pieces.iter().map(map).collect(),
        _ => pieces.par_iter().map(map).collect(),
    }
}
