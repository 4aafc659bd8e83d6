//! Object UIDs: 16 bytes for a canonical UUID, as API servers generate them, and a string for any
//! other UID.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU64;

use super::Str;

/// The UID of an object. UIDs compare like their string forms, byte by byte.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A lower-case UUID in the 8-4-4-4-12 form, stored as a number. The numbers sort like the
    /// texts: the dashes have fixed positions, and `0`..`9` sort before `a`..`f`.
    Uuid { high: u64, low: NonZeroU64 },
    /// Any other string, including the empty one, and a UUID whose lower half is zero. No valid
    /// UUID has such a half, so zero can distinguish the variants.
    Text(Str),
}

/// The metadata of every object contains a UID, so it must be small.
const _: () = assert!(size_of::<Uid>() == 16);

const DASHES: [usize; 4] = [8, 13, 18, 23];
const HEX: &[u8; 16] = b"0123456789abcdef";

impl Uid {
    /// Creates a UID from its string form.
    pub fn new(text: &str) -> Uid {
        match parse_uuid(text.as_bytes()).map(u128::from_be_bytes) {
            Some(bits) => Uid::from_u128(bits),
            None => Uid(Repr::Text(text.into())),
        }
    }

    /// Returns the UID whose canonical UUID form has these bits. The caller sets version and
    /// variant.
    pub fn from_u128(bits: u128) -> Uid {
        match NonZeroU64::new(bits as u64) {
            Some(low) => Uid(Repr::Uuid {
                high: (bits >> 64) as u64,
                low,
            }),
            None => Uid(Repr::Text(text_of(&uuid_text(bits)).into())),
        }
    }

    /// Returns the bits of a canonical UUID, which sort like the string forms; `None` for any other
    /// UID.
    #[inline]
    pub fn as_u128(&self) -> Option<u128> {
        match &self.0 {
            Repr::Uuid { high, low } => Some(bits_of(*high, *low)),
            Repr::Text(text) => bits_of_text(text),
        }
    }

    /// Reports whether the UID is the empty string, as it is until the API server sets it.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    fn with_text<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            Repr::Text(text) => read(text),
            Repr::Uuid { high, low } => read(text_of(&uuid_text(bits_of(*high, *low)))),
        }
    }
}

#[inline]
fn bits_of(high: u64, low: NonZeroU64) -> u128 {
    u128::from(high) << 64 | u128::from(low.get())
}

#[cold]
fn bits_of_text(text: &str) -> Option<u128> {
    parse_uuid(text.as_bytes()).map(u128::from_be_bytes)
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

fn uuid_text(bits: u128) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bits.to_be_bytes() {
        if DASHES.contains(&at) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

fn text_of(uuid: &[u8; 36]) -> &str {
    str::from_utf8(uuid).expect("hex digits and dashes are ASCII")
}

impl Default for Uid {
    fn default() -> Self {
        Uid(Repr::Text(Str::new()))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Uuid { high, low }, Repr::Uuid { high: h, low: l }) => {
                bits_of(*high, *low).cmp(&bits_of(*h, *l))
            }
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
            "a0000000-0000-4000-0000-000000000000",
            "00000000-0000-0000-0000-000000000000",
        ];
        const ZERO: &str = "-0000-000000000000";
        for a in texts {
            assert_eq!(Uid::new(a).to_string(), a);
            let bits = Uid::new(a).as_u128().unwrap();
            assert_eq!(Uid::from_u128(bits), Uid::new(a));
            assert_eq!(matches!(Uid::new(a).0, Repr::Text(_)), a.ends_with(ZERO));
            for b in texts.iter().copied().chain(["u1", "", "zz", "7f42"]) {
                assert_eq!(Uid::new(a).cmp(&Uid::new(b)), a.cmp(b), "{a} against {b}");
            }
        }
    }

    #[test]
    fn other_texts_are_kept_unchanged() {
        for text in [
            "",
            "u1",
            "7F420CBD-206A-47EA-A64A-F37288A6840D",
            "7f420cbd_206a",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
            assert_eq!(Uid::new(text).as_u128(), None);
        }
        assert!(Uid::default().is_empty());
    }
}
