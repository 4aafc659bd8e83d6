//! The syntax of metric values: a time with its unit, a count with `k` or `m`.

use super::catalogue::Unit;
use crate::units::{
    bytes_for_people, count_for_people, number_for_people, parse_duration_ns,
    parse_rate_per_second, refuse, seconds_for_people,
};

/// The units of memory, with the bytes that they stand for; longer names come first.
const BYTE_UNITS: [(&str, f64); 9] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
];

impl Unit {
    /// Parses a bound in this unit: `200ms`, `1.5k`, `500MB`, `1000/s`. Returns seconds, a count,
    /// bytes, or a rate per second.
    ///
    /// # Errors
    /// The number is missing or negative, or its unit is missing or of a different kind.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let text = text.trim();
        match self {
            Unit::Seconds => parse_duration_ns(text).map(|ns| ns as f64 / 1e9),
            Unit::PerSecond => match text {
                "0" | "0/s" => Ok(0.0),
                _ => parse_rate_per_second(text),
            },
            Unit::Count => count(text),
            Unit::Bytes => bytes(text),
        }
    }

    /// Formats a value: `412 us`, `1,234,567`, `1.53 GB`, `152,400/s`.
    pub fn for_people(self, value: f64) -> String {
        match self {
            // A nanosecond is the minimum of the histograms and represents zero.
            Unit::Seconds if (0.0..=1e-9).contains(&value) => "0 s".to_owned(),
            Unit::Seconds => seconds_for_people(value),
            Unit::Count if value >= 0.0 && value.fract() == 0.0 && value < 1e15 => {
                count_for_people(value as u64)
            }
            Unit::Count => number_for_people(value),
            Unit::Bytes => bytes_for_people(value.max(0.0) as u64),
            Unit::PerSecond => format!("{}/s", number_for_people(value)),
        }
    }
}

fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| plain)
}

fn count(text: &str) -> Result<f64, String> {
    if text.starts_with('-') {
        return refuse("a count can't be negative");
    }
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    match decimal(digits) {
        Some(value) => Ok(value * factor),
        None if decimal(text.trim_end_matches(char::is_alphabetic)).is_some() => refuse(format!(
            "{text:?} has a unit, but this is a count: write 500, 100k or 1m"
        )),
        None => refuse("expected a number, with k for thousands or m for millions: 0, 500, 100k"),
    }
}

fn bytes(text: &str) -> Result<f64, String> {
    for (unit, factor) in BYTE_UNITS {
        if let Some(digits) = text.strip_suffix(unit) {
            return match decimal(digits.trim()) {
                Some(value) => Ok(value * factor),
                None => refuse("expected a number with its unit, such as 500MB"),
            };
        }
    }
    match decimal(text) {
        Some(_) => refuse(format!(
            "a unit is missing: write {text}MB or {text}GB (units: B, kB, MB, GB, KiB, MiB, GiB)"
        )),
        None => refuse("expected a number with its unit, such as 500MB or 1.5GB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_in_their_unit() {
        for (unit, text, value) in [
            (Unit::Seconds, "5s", 5.0),
            (Unit::Seconds, "200ms", 0.2),
            (Unit::Seconds, "1h30m", 5400.0),
            (Unit::Count, "0", 0.0),
            (Unit::Count, "1.5k", 1500.0),
            (Unit::Count, "2m", 2e6),
            (Unit::Bytes, "1.5GB", 1.5e9),
            (Unit::Bytes, "2 MiB", 2_097_152.0),
            (Unit::PerSecond, "1000/s", 1000.0),
        ] {
            assert_eq!(unit.parse(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn missing_and_wrong_units_are_refused() {
        for (unit, text, words) in [
            (Unit::Seconds, "5", "a unit is missing: write 5ms, 5s"),
            (Unit::Seconds, "5 parsecs", "unknown unit"),
            (Unit::Seconds, "-1s", "negative"),
            (Unit::Count, "5s", "this is a count"),
            (Unit::Count, "-1", "negative"),
            (Unit::Count, "many", "expected a number"),
            (Unit::Count, "inf", "expected a number"),
            (Unit::Bytes, "500", "write 500MB"),
            (Unit::Bytes, "x", "500MB"),
            (Unit::PerSecond, "20", "20/s"),
        ] {
            let problem = unit.parse(text).unwrap_err().to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn values_are_formatted_in_their_unit() {
        assert_eq!(Unit::Seconds.for_people(0.25), "250 ms");
        assert_eq!(Unit::Seconds.for_people(1e-9), "0 s");
        assert_eq!(Unit::Count.for_people(12_345.0), "12,345");
        assert_eq!(Unit::Count.for_people(1.5), "1.5");
        assert_eq!(Unit::Bytes.for_people(1.5e9), "1.5 GB");
        assert_eq!(Unit::PerSecond.for_people(20.0), "20/s");
    }
}
