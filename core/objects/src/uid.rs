//! Object UIDs: 16 bytes for the canonical UUIDs the API server makes, text for anything else.

use std::cmp::Ordering;
use std::fmt;

use super::Str;

/// The UID of an object. Two UIDs compare as their texts do, byte by byte.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A lower-case UUID in the 8-4-4-4-12 form. Big-endian bytes order as the text does: the
    /// dashes stand at the same places and `0`..`9` sort before `a`..`f`.
    Uuid([u8; 16]),
    /// Any other text, the empty one included.
    Text(Str),
}

const DASHES: [usize; 4] = [8, 13, 18, 23];
const HEX: &[u8; 16] = b"0123456789abcdef";

impl Uid {
    /// The UID of that text.
    pub fn new(text: &str) -> Uid {
        match parse_uuid(text.as_bytes()) {
            Some(bytes) => Uid(Repr::Uuid(bytes)),
            None => Uid(Repr::Text(text.into())),
        }
    }

    /// The UID whose canonical UUID form has these bits. The caller sets version and variant.
    pub const fn from_u128(bits: u128) -> Uid {
        Uid(Repr::Uuid(bits.to_be_bytes()))
    }

    /// The bits of a canonical UUID, which order as the texts do; `None` for any other text.
    pub const fn as_u128(&self) -> Option<u128> {
        match &self.0 {
            Repr::Uuid(bytes) => Some(u128::from_be_bytes(*bytes)),
            Repr::Text(_) => None,
        }
    }

    /// Whether the text is empty, as before the API server has set it.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    fn with_text<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Repr::Text(text) => read(text),
            Repr::Uuid(bytes) => {
                let text = uuid_text(bytes);
                read(std::str::from_utf8(&text).expect("hex digits and dashes are ASCII"))
            }
        }
    }
}

fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || DASHES.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut bytes = [0u8; 16];
    let mut digits = (0..36)
        .filter(|at| !DASHES.contains(at))
        .map(|at| match text[at] {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        });
    for byte in &mut bytes {
        *byte = (digits.next()?? << 4) | digits.next()??;
    }
    Some(bytes)
}

fn uuid_text(bytes: &[u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bytes {
        if DASHES.contains(&at) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

impl Default for Uid {
    fn default() -> Self {
        Uid(Repr::Text(Str::new()))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Uuid(a), Repr::Uuid(b)) => a.cmp(b),
            _ => self.with_text(|a| other.with_text(|b| a.cmp(b))),
        }
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| write!(f, "{text:?}"))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Uid::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_uuids_round_trip_and_order_as_text() {
        let texts = [
            "00000000-0000-4000-8000-000000000000",
            "7f420cbd-206a-47ea-a64a-f37288a6840d",
            "8df9bcb8-481d-4037-8798-84343b02ebd7",
            "a0000000-0000-4000-8000-000000000000",
        ];
        for a in texts {
            assert_eq!(Uid::new(a).to_string(), a);
            assert!(matches!(Uid::new(a).0, Repr::Uuid(_)));
            for b in texts.iter().copied().chain(["u1", "", "zz", "7f42"]) {
                assert_eq!(Uid::new(a).cmp(&Uid::new(b)), a.cmp(b), "{a} against {b}");
            }
        }
    }

    #[test]
    fn other_texts_are_kept_as_they_are() {
        for text in [
            "",
            "u1",
            "7F420CBD-206A-47EA-A64A-F37288A6840D",
            "7f420cbd_206a",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(Uid::default().is_empty());
    }
}
