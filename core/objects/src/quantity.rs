//! Resource quantities such as `250m`, `1.5`, `512Mi`, `2e3`.

use std::str::FromStr;

use serde_json::Value;

use super::json::JsonValue;

/// An amount of a resource, exact to a billionth. Smaller fractions round away from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// The error for a string that is not a resource quantity, or is one that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a resource quantity")]
pub struct QuantityError;

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity from JSON: a string or a plain number.
    ///
    /// # Errors
    /// Fails for any other value, and for a string that is not a quantity.
    pub fn from_json(value: &Value) -> Result<Quantity, QuantityError> {
        match value {
            Value::String(text) => text.parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(QuantityError),
        }
    }

    /// Like [`from_json`](Quantity::from_json), for a value on a tape.
    ///
    /// # Errors
    /// Fails as [`from_json`](Quantity::from_json) does.
    pub fn read(value: JsonValue<'_>) -> Result<Quantity, QuantityError> {
        match value.as_str() {
            Some(text) => text.parse(),
            None => Quantity::from_json(&value.to_value()),
        }
    }

    /// Returns the amount rounded up to a whole number.
    pub const fn ceil(self) -> i128 {
        self.nanos.div_euclid(NANO) + (self.nanos.rem_euclid(NANO) != 0) as i128
    }

    /// Returns the amount in thousandths, rounded up.
    pub const fn ceil_milli(self) -> i128 {
        const MILLI: i128 = NANO / 1000;
        self.nanos.div_euclid(MILLI) + (self.nanos.rem_euclid(MILLI) != 0) as i128
    }

    /// Reports whether the amount is a whole number.
    pub const fn is_whole(self) -> bool {
        self.nanos.rem_euclid(NANO) == 0
    }

    /// Reports whether the amount is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Reports whether the amount is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns the sum of two amounts, saturating.
    #[must_use]
    pub const fn plus(self, other: Quantity) -> Quantity {
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }
}

impl Quantity {
    /// Returns the difference of two amounts, saturating.
    #[must_use]
    pub const fn minus(self, other: Quantity) -> Quantity {
        Quantity {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }

    /// Returns how many times `other`, which must be above zero, fits into this amount.
    pub const fn whole_times(self, other: Quantity) -> i128 {
        self.nanos.div_euclid(other.nanos)
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Returns the amount as a string with the type of suffix that `other`, a quantity, uses.
    pub fn text_like(self, other: &str) -> String {
        spelled(self.nanos, other)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        parse(text).ok_or(QuantityError)
    }
}

/// Returns a quantity in the canonical form of servers: no fraction, the largest possible exponent,
/// and a suffix of the same type. `None` if `text` is not a quantity.
///
/// Source: `CanonicalizeBytes` of apimachinery's `resource.Quantity`.
pub fn canonical_quantity(text: &str) -> Option<String> {
    Some(spelled(parse(text)?.nanos, text))
}

/// Like [`canonical_quantity`], but rounded up to thousandths, as servers round resource amounts.
pub fn milli_quantity(text: &str) -> Option<String> {
    const MILLI: i128 = NANO / 1000;
    let nanos = parse(text)?.nanos;
    let up = nanos.signum() * (nanos.abs() + MILLI - 1) / MILLI * MILLI;
    Some(spelled(up, text))
}

/// Quickly checks whether a quantity is in its [canonical](canonical_quantity) form. Recognizes all
/// common canonical forms, but not every one.
pub fn is_canonical_quantity(text: &str) -> bool {
    const DIGITS_MAX: usize = 18;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if digits == 0 || digits > DIGITS_MAX || number.starts_with('0') {
        return text == "0";
    }
    match suffix {
        "" | "m" | "k" | "M" | "G" => !number.ends_with("000"),
        "Ki" | "Mi" | "Gi" => number.parse::<u64>().is_ok_and(|number| number % 1024 != 0),
        _ => false,
    }
}

/// Formats an amount with the type of suffix that `text` uses.
fn spelled(nanos: i128, text: &str) -> String {
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let units = nanos.div_euclid(NANO) + i128::from(nanos.rem_euclid(NANO) != 0);
    if suffix.ends_with('i') && units.abs() >= 1024 {
        let (mut units, mut power) = (units, 0);
        while units % 1024 == 0 && power < 6 {
            units /= 1024;
            power += 1;
        }
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        return format!("{units}{}", BINARY[power]);
    }
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (mut mantissa, mut power) = (nanos, 0);
    while mantissa != 0 && mantissa % 1000 == 0 && power < DECIMAL.len() - 1 {
        mantissa /= 1000;
        power += 1;
    }
    let is_exponent = suffix.len() > 1 && suffix.starts_with(['e', 'E']);
    match (mantissa, power) {
        (0, _) => "0".to_owned(),
        (_, 3) => mantissa.to_string(),
        _ if is_exponent => format!("{mantissa}e{}", power as i32 * 3 - 9),
        _ => format!("{mantissa}{}", DECIMAL[power]),
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, suffix) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    // Nanos per unit of the suffix, as the fraction `times / over`.
    let (times, mut over) = match suffix {
        "n" => (1, 1),
        "u" => (1_000, 1),
        "m" => (1_000_000, 1),
        "" => (NANO, 1),
        "k" => (1_000 * NANO, 1),
        "M" => (1_000_000 * NANO, 1),
        "G" => (1_000_000_000 * NANO, 1),
        "T" => (1_000_000_000_000 * NANO, 1),
        "P" => (1_000_000_000_000_000 * NANO, 1),
        "E" => (1_000_000_000_000_000_000 * NANO, 1),
        "Ki" => (NANO << 10, 1),
        "Mi" => (NANO << 20, 1),
        "Gi" => (NANO << 30, 1),
        "Ti" => (NANO << 40, 1),
        "Pi" => (NANO << 50, 1),
        "Ei" => (NANO << 60, 1),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 {
                (NANO, power)
            } else {
                (NANO.checked_mul(power)?, 1)
            }
        }
    };
    let fraction = fraction.trim_end_matches('0');
    over = 10_i128
        .checked_pow(u32::try_from(fraction.len()).ok()?)?
        .checked_mul(over)?;
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let nanos = digits.checked_mul(times)?;
    let rounded = nanos / over + i128::from(nanos % over != 0);
    Some(Quantity {
        nanos: sign * rounded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().expect("a quantity")
    }

    #[test]
    fn quantities_round_up_to_whole_numbers() {
        let cases = [
            ("110", 110),
            ("1k", 1000),
            ("1.5k", 1500),
            ("1500m", 2),
            ("2Ki", 2048),
            ("1e2", 100),
            ("15e-1", 2),
            ("1E3", 1000),
            ("2E", 2_000_000_000_000_000_000),
            (".5", 1),
            ("5.", 5),
            ("-1.5", -1),
            ("+1", 1),
            ("0.0000000001", 1),
            ("1.500000000000000000000000000000000000000000", 2),
        ];
        for (text, amount) in cases {
            assert_eq!(quantity(text).ceil(), amount, "{text}");
        }
    }

    #[test]
    fn equal_amounts_compare_equal_in_any_spelling() {
        assert_eq!(quantity("1"), quantity("1000m"));
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert!(quantity("999m") < quantity("1"));
        assert!(quantity("-1m").is_negative());
        assert!(quantity("0Mi").is_zero());
        assert_eq!(quantity("0.5").plus(quantity("500m")), quantity("1"));
        let read = |value: serde_json::Value| Quantity::from_json(&value);
        assert_eq!(read(serde_json::json!(2)), Ok(quantity("2")));
        assert_eq!(read(serde_json::json!([])), Err(QuantityError));
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for text in [
            "", "x", "1.2.3", "1 k", "k", "-", "--1", "1kk", "1e99", "e3", "1e",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError), "{text:?}");
        }
    }

    #[test]
    fn quantities_have_one_canonical_form() {
        for (text, canonical) in [
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("0.5Gi", "512Mi"),
            ("1536Mi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1e3", "1e3"),
            ("0.001", "1m"),
            ("-2000m", "-2"),
            ("0", "0"),
            ("0Gi", "0"),
        ] {
            let form = canonical_quantity(text);
            assert_eq!(form.as_deref(), Some(canonical), "{text}");
        }
        assert_eq!(canonical_quantity("1x"), None);
        assert_eq!(milli_quantity("0.0001").as_deref(), Some("1m"));
        assert_eq!(milli_quantity("0.5Ki").as_deref(), Some("512"));
    }

    #[test]
    fn the_quick_check_accepts_only_canonical_forms() {
        for number in ["0", "1", "00", "7000", "1024", "2048", "1500", "3000000"] {
            for suffix in ["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "i"] {
                let text = format!("{number}{suffix}");
                if is_canonical_quantity(&text) {
                    assert_eq!(canonical_quantity(&text), Some(text));
                }
            }
        }
        let canonical = ["250m", "512Mi", "1Gi", "2", "10"];
        assert!(canonical.into_iter().all(is_canonical_quantity));
    }
}
