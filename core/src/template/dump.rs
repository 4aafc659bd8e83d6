//! Two forms of a template, one for hashing and one for comparison, and the FNV-1a hashes into
//! which they are streamed.

use std::fmt::{self, Write};

use podstorm_objects::Time;

use super::quantity::Quantity;
use super::walk::Sink;

/// The form that upstream hashes: a dump of the template as it is in memory, with all types and all
/// absent members.
///
/// A time that is set has no stable form: upstream's contains the process's time zones. It is
/// dumped as RFC 3339, so that the hash is at least the same everywhere and at any time.
pub(super) struct Dump<W>(pub(super) W);

/// The values only, each with a recognizable end. Templates are equal exactly if these forms are
/// equal.
pub(super) struct Canonical<W>(pub(super) W);

/// Checks the result of a write to a string or a hash, which can't fail.
fn infallible(result: fmt::Result) {
    debug_assert!(result.is_ok());
}

impl<W: Write> Sink for Dump<W> {
    fn fixed(&mut self, text: &str) {
        infallible(self.0.write_str(text));
    }

    fn count(&mut self, _: usize) {}

    fn text(&mut self, text: &str) {
        infallible(self.0.write_str(text));
    }

    fn int(&mut self, number: i64) {
        infallible(write!(self.0, "{number}"));
    }

    fn flag(&mut self, flag: bool) {
        infallible(write!(self.0, "{flag}"));
    }

    fn quantity(&mut self, quantity: &Quantity<'_>) {
        infallible(quantity.dump(&mut self.0));
    }

    fn time(&mut self, time: Time) {
        infallible(if time.is_unset() {
            let unset = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}";
            self.0.write_str(unset)
        } else {
            write!(self.0, "{time}")
        });
    }
}

impl<W: Write> Sink for Canonical<W> {
    fn fixed(&mut self, _: &str) {}

    // A count of 0 is the common case: the member is absent.
    fn count(&mut self, count: usize) {
        infallible(match count {
            0 => self.0.write_str("0;"),
            _ => write!(self.0, "{count};"),
        });
    }

    fn text(&mut self, text: &str) {
        infallible(match text {
            "" => self.0.write_str("0:"),
            _ => write!(self.0, "{}:{text}", text.len()),
        });
    }

    fn int(&mut self, number: i64) {
        infallible(match number {
            0 => self.0.write_str("0;"),
            _ => write!(self.0, "{number};"),
        });
    }

    fn flag(&mut self, flag: bool) {
        infallible(self.0.write_char(if flag { 't' } else { 'f' }));
    }

    fn quantity(&mut self, quantity: &Quantity<'_>) {
        infallible(quantity.write_value(&mut self.0));
    }

    fn time(&mut self, time: Time) {
        infallible(write!(
            self.0,
            "{};",
            time.unix_seconds().unwrap_or(i64::MIN)
        ));
    }
}

/// A 32-bit FNV-1a hash.
pub(super) struct Fnv32(pub(super) u32);

impl Fnv32 {
    pub(super) const START: Fnv32 = Fnv32(2_166_136_261);

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(16_777_619);
        }
    }
}

impl Write for Fnv32 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// A 64-bit FNV-1a hash.
pub(super) struct Fnv64(pub(super) u64);

impl Fnv64 {
    pub(super) const START: Fnv64 = Fnv64(0xcbf2_9ce4_8422_2325);
}

impl Write for Fnv64 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.as_bytes() {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
