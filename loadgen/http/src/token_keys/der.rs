//! The subset of DER that keys need.
//!
//! Source: ITU-T X.690.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// Returns the tag of an explicitly tagged member.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Reads consecutive values.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the content of the next value if it has this tag. Otherwise reads nothing.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let [found, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // At most three length bytes, as key files are short.
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = length
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        if *found != tag {
            return None;
        }
        self.0 = rest;
        Some(content)
    }

    /// Returns the values in the next value, if that is a sequence.
    pub(super) fn sequence(&mut self) -> Option<Reader<'a>> {
        self.read(SEQUENCE).map(Reader)
    }

    /// Returns the bytes of the next value, if that is a bit string of whole bytes.
    pub(super) fn bits(&mut self) -> Option<&'a [u8]> {
        self.read(BIT_STRING)?.strip_prefix(&[0])
    }
}

/// Encodes a value with its tag and length.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut value = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => value.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let bytes = &bytes[zeros..];
            value.push(0x80 | u8::try_from(bytes.len()).expect("a length has at most 8 bytes"));
            value.extend(bytes);
        }
    }
    value.extend(content);
    value
}
