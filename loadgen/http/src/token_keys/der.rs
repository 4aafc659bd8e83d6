//! The subset of DER that is needed for keys and for the subjects of certificates.
//!
//! Source: ITU-T X.690.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Returns the tag of an explicitly tagged member.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Reads consecutive values.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the tag and the content of the next value. Reads nothing if it is invalid.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else {
            return None;
        };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // At most three length bytes, as keys and certificates are short.
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
        self.0 = rest;
        Some((*tag, content))
    }

    /// Returns the content of the next value if it has this tag. Otherwise reads nothing.
    pub(crate) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut after = Reader(self.0);
        let (_, content) = after.any().filter(|(found, _)| *found == tag)?;
        *self = after;
        Some(content)
    }

    /// Returns the values in the next value, if that is a sequence.
    pub(crate) fn sequence(&mut self) -> Option<Reader<'a>> {
        self.read(SEQUENCE).map(Reader)
    }

    /// Returns the bytes of the next value, if that is a bit string of whole bytes.
    pub(crate) fn bits(&mut self) -> Option<&'a [u8]> {
        self.read(BIT_STRING)?.strip_prefix(&[0])
    }
}

/// Encodes a value with its tag and length.
pub(crate) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
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
