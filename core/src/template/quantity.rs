//! Resource quantities as Go holds them in memory. The dump shows the parts of a quantity; equality
//! compares only the value.
//!
//! A short quantity is a 64-bit number and a power of ten. Any other quantity is a number of any
//! length with nine decimals, rounded away from zero. Source: `ParseQuantity` of apimachinery's
//! `resource.Quantity`.

use std::fmt;

use smallvec::SmallVec;

/// A parsed quantity: `magnitude` · 10^`exponent`, with a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quantity<'t> {
    /// Whether the quantity is held as a number of any length.
    is_big: bool,
    is_negative: bool,
    magnitude: Magnitude,
    exponent: i32,
    /// The string itself if it is canonical; otherwise empty.
    cached: &'t str,
    format: &'static str,
}

/// The exponent of the last decimal digit that is kept.
const NANO: i32 = -9;

/// The maximum number of decimal digits of a short quantity.
const SHORT_DIGITS: usize = 18;

/// The maximum number of digits with a binary suffix, without the digits that the suffix may add.
const SHORT_BINARY_DIGITS: usize = 14;

/// The maximum exponent of a long quantity. Larger exponents are refused, because all digits would
/// be written.
const EXPONENT_MAX: i64 = 10_000;

/// The maximum value of a long quantity with a binary suffix.
const BINARY_MAX: u64 = i64::MAX as u64;

const DECIMAL_SI: &str = "DecimalSI";

/// The factor that a suffix denotes.
enum Suffix {
    Ten(i64),
    /// A power of two: the number of bits to shift.
    Two(u32),
}

impl<'t> Quantity<'t> {
    /// Returns the quantity that a Go struct has if the JSON has none.
    pub(super) fn absent() -> Quantity<'t> {
        Quantity {
            is_big: false,
            is_negative: false,
            magnitude: Magnitude::default(),
            exponent: 0,
            cached: "",
            format: "",
        }
    }

    /// Parses a quantity; `None` if the string is not a quantity or would need thousands of digits.
    pub(super) fn parse(text: &'t str) -> Option<Quantity<'t>> {
        let text = text.trim();
        if text == "0" {
            return Some(Quantity {
                cached: "0",
                format: DECIMAL_SI,
                ..Quantity::absent()
            });
        }
        let number = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(number);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let (suffix, format) = parse_suffix(suffix)?;
        let parts = Parts {
            text,
            is_negative: text.starts_with('-'),
            whole,
            fraction,
            format,
        };
        parts.short(&suffix).or_else(|| parts.long(&suffix))
    }

    /// Writes the quantity as upstream's dump shows it.
    pub(super) fn dump(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let is_short = !self.is_big;
        let (value, scale) = match self.magnitude.0.first() {
            Some(word) if is_short => (i128::from(*word), self.exponent),
            _ if is_short => (0, self.exponent),
            _ => (0, 0),
        };
        let sign = if self.is_negative && value != 0 {
            "-"
        } else {
            ""
        };
        write!(
            out,
            "{{i:(resource.int64Amount){{value:(int64){sign}{value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        )?;
        if is_short {
            out.write_str("<nil>")?;
        } else {
            let neg = self.is_negative && !self.magnitude.is_zero();
            write!(out, "{{unscaled:(big.Int){{neg:(bool){neg} abs:(big.nat)")?;
            self.magnitude.dump(out)?;
            write!(out, "}} scale:(inf.Scale){}}}", -self.exponent)?;
        }
        let (cached, format) = (self.cached, self.format);
        write!(
            out,
            "}} s:(string){cached} Format:(resource.Format){format}}}"
        )
    }

    /// Writes only the value: the output is the same exactly if the values are equal.
    pub(super) fn write_value(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let (mut magnitude, mut exponent) = (self.magnitude.clone(), self.exponent);
        if magnitude.is_zero() {
            return out.write_char('q');
        }
        loop {
            let mut tenth = magnitude.clone();
            if tenth.div_rem(10) != 0 {
                break;
            }
            (magnitude, exponent) = (tenth, exponent + 1);
        }
        out.write_char(if self.is_negative { '-' } else { '+' })?;
        magnitude
            .0
            .iter()
            .try_for_each(|word| write!(out, "{word},"))?;
        write!(out, "e{exponent}q")
    }
}

/// The parts of a quantity's string.
struct Parts<'t> {
    text: &'t str,
    is_negative: bool,
    /// The digits before the point, without leading zeros; at least one digit.
    whole: &'t str,
    fraction: &'t str,
    format: &'static str,
}

impl<'t> Parts<'t> {
    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    fn digits_count(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// Returns the quantity as a 64-bit number and a power of ten; `None` if it does not fit.
    fn short(&self, suffix: &Suffix) -> Option<Quantity<'t>> {
        let fraction = i64::try_from(self.fraction.len()).ok()?;
        let (digits_max, exponent, times) = match suffix {
            Suffix::Ten(power) => (SHORT_DIGITS, power - fraction, 1),
            Suffix::Two(_) if fraction != 0 => return None,
            Suffix::Two(bits) => {
                let added = (bits * 3 / 10) as usize;
                (SHORT_BINARY_DIGITS.checked_sub(added)?, 0, 1_i64 << bits)
            }
        };
        let exponent = i32::try_from(exponent).ok()?;
        if self.digits_count() > digits_max || exponent < NANO {
            return None;
        }
        let number = self
            .digits()
            .fold(0, |it, digit| it * 10 + i64::from(digit - b'0'));
        let value = number.checked_mul(times)?;
        let is_canonical = match suffix {
            Suffix::Two(_) => number % 8 != 0,
            Suffix::Ten(_) => {
                let ends_with_zeros = self.digits().rev().take(3).eq([b'0'; 3]);
                exponent % 3 == 0 && !ends_with_zeros && !self.whole.starts_with('0')
            }
        };
        Some(Quantity {
            is_big: false,
            is_negative: self.is_negative,
            magnitude: Magnitude::default().times_plus(1, value.unsigned_abs()),
            exponent,
            cached: if is_canonical { self.text } else { "" },
            format: self.format,
        })
    }

    /// Returns the quantity as a number of any length.
    fn long(&self, suffix: &Suffix) -> Option<Quantity<'t>> {
        let mut magnitude = self.digits().fold(Magnitude::default(), |it, digit| {
            it.times_plus(10, u64::from(digit - b'0'))
        });
        let mut exponent = -i64::try_from(self.fraction.len()).ok()?;
        match suffix {
            Suffix::Ten(power) => exponent += power,
            Suffix::Two(bits) => magnitude = magnitude.times_plus(1 << bits, 0),
        }
        if exponent > EXPONENT_MAX {
            return None;
        }
        let mut format = self.format;
        if !magnitude.is_zero() {
            magnitude = magnitude.rescaled(exponent, NANO.into());
            exponent = NANO.into();
            if matches!(suffix, Suffix::Two(_)) {
                let one = 1_000_000_000;
                let nanos = magnitude.as_u128();
                if nanos.is_none_or(|nanos| nanos > u128::from(BINARY_MAX) * one) {
                    magnitude = Magnitude::default().times_plus(1, BINARY_MAX);
                    exponent = 0;
                } else if nanos.is_some_and(|nanos| nanos < one) {
                    format = DECIMAL_SI;
                }
            }
        }
        Some(Quantity {
            is_big: true,
            is_negative: self.is_negative,
            magnitude,
            exponent: i32::try_from(exponent).ok()?,
            cached: "",
            format,
        })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let is_other = |c: char| !c.is_ascii_digit();
    text.split_at(text.find(is_other).unwrap_or(text.len()))
}

fn parse_suffix(suffix: &str) -> Option<(Suffix, &'static str)> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(place) = (0..).zip(DECIMAL).find(|(_, known)| *known == suffix) {
        return Some((Suffix::Ten(3 * place.0 - 9), DECIMAL_SI));
    }
    if let Some(place) = (1..).zip(BINARY).find(|(_, known)| *known == suffix) {
        return Some((Suffix::Two(10 * place.0), "BinarySI"));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Suffix::Ten(exponent.into()), "DecimalExponent"))
}

/// An unsigned number in 64-bit words, lowest first; zero has no words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Magnitude(SmallVec<[u64; 2]>);

impl Magnitude {
    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn as_u128(&self) -> Option<u128> {
        let word = |at: usize| u128::from(self.0.get(at).copied().unwrap_or(0));
        (self.0.len() <= 2).then(|| word(1) << 64 | word(0))
    }

    fn times_plus(mut self, by: u64, plus: u64) -> Magnitude {
        let mut carry = plus;
        for word in &mut self.0 {
            let product = u128::from(*word) * u128::from(by) + u128::from(carry);
            (*word, carry) = (product as u64, (product >> 64) as u64);
        }
        if carry != 0 {
            self.0.push(carry);
        }
        self
    }

    /// Divides the number by `by`. Returns the remainder.
    fn div_rem(&mut self, by: u64) -> u64 {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let left = u128::from(rest) << 64 | u128::from(*word);
            *word = (left / u128::from(by)) as u64;
            rest = (left % u128::from(by)) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest
    }

    /// Returns the same amount in units of 10^`to` instead of 10^`from`, rounded up.
    fn rescaled(mut self, from: i64, to: i64) -> Magnitude {
        for _ in to..from {
            self = self.times_plus(10, 0);
        }
        let mut is_rounded = false;
        for _ in from..to {
            is_rounded |= self.div_rem(10) != 0;
            if self.is_zero() {
                break;
            }
        }
        if is_rounded { self.plus_one() } else { self }
    }

    fn plus_one(self) -> Magnitude {
        self.times_plus(1, 1)
    }

    fn dump(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_zero() {
            return out.write_str("<nil>");
        }
        for (place, word) in self.0.iter().enumerate() {
            write!(out, "{}{word}", if place == 0 { "[" } else { " " })?;
        }
        out.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> String {
        let mut out = String::new();
        let quantity = Quantity::parse(text).expect("a quantity");
        quantity
            .write_value(&mut out)
            .expect("writing to a string can't fail");
        out
    }

    #[test]
    fn equal_amounts_have_one_value() {
        for (a, b) in [
            ("1", "1000m"),
            ("1.0000000000", "1"),
            ("0.5Gi", "512Mi"),
            ("0", "-0.00000000000Ki"),
            ("1e30", "1000000000000000000000000000000"),
            ("0.0000000001", "1n"),
            ("16Ei", "9223372036854775807"),
            ("+1k", "1e3"),
        ] {
            assert_eq!(value(a), value(b), "{a} {b}");
        }
        for (a, b) in [("1", "-1"), ("1", "10"), ("1Ki", "1k"), ("1e40", "1e41")] {
            assert_ne!(value(a), value(b), "{a} {b}");
        }
    }

    #[test]
    fn other_texts_are_not_quantities() {
        for text in [
            "",
            "-",
            ".",
            "k",
            "1x",
            "1e",
            "1.2.3",
            "123456789012345678901e99999",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_tiny_amount_with_a_low_exponent_rounds_up_fast() {
        assert_eq!(value("1234567890123456789e-2000000000"), value("1n"));
    }
}
