//! Protobuf's wire format: numbered fields, without their meaning.
//!
//! Source: protobuf.dev, "Encoding".

/// The reason why bytes are not a valid protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("ends within a field")]
    CutOff,
    /// A varint has more than ten bytes.
    #[error("has a number of more than ten bytes")]
    LongNumber,
    /// A field has a wire type that Kubernetes does not use, or an invalid one.
    #[error("has a field of wire type {0}")]
    Form(u8),
    /// A string is not UTF-8.
    #[error("has a string that is not UTF-8")]
    NotUtf8,
    /// JSON cannot represent a value.
    #[error("has a value that is not JSON")]
    NotJson,
    /// RFC 3339 cannot represent a time.
    #[error("has a time outside the years 0 to 9999")]
    Time,
    /// Messages are nested more deeply than in any object.
    #[error("is nested too deeply")]
    TooDeep,
}

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message, with their numbers. Ends after an error.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for place in 0..10 {
            let (first, rest) = self.0.split_first().ok_or(WireError::CutOff)?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << (7 * place);
            if first & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError::LongNumber)
    }

    /// Iterates over the numbers in a packed list. Ends after an error.
    pub(super) fn numbers(mut self) -> impl Iterator<Item = Result<u64, WireError>> {
        std::iter::from_fn(move || {
            let number = (!self.0.is_empty()).then(|| self.varint())?;
            if number.is_err() {
                self.0 = &[];
            }
            Some(number)
        })
    }

    fn bytes(&mut self, count: u64) -> Result<&'a [u8], WireError> {
        let count = usize::try_from(count).map_err(|_| WireError::CutOff)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(WireError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Field<'a>), WireError> {
        let key = self.varint()?;
        // Field numbers that don't fit are unknown in any case.
        let number = u32::try_from(key >> 3).unwrap_or(u32::MAX);
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.bytes(8)?),
            2 => {
                let count = self.varint()?;
                Field::Bytes(self.bytes(count)?)
            }
            5 => Field::Bytes(self.bytes(4)?),
            form => return Err(WireError::Form(form as u8)),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Field<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Writes the fields of a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Writes an integer, a negative one as 64-bit two's complement.
    pub(crate) fn number(&mut self, field: u32, number: i64) {
        self.varint(u64::from(field) << 3);
        self.varint(u64::from_ne_bytes(number.to_ne_bytes()));
    }

    /// Writes a floating-point number.
    pub(crate) fn double(&mut self, field: u32, number: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes a nested message.
    pub(crate) fn message(&mut self, field: u32, put: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        put(&mut inner);
        self.bytes(field, &inner.0);
    }
}
