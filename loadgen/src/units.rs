//! Human-readable values: sizes (`100k`), durations (`500ms`), rates (`20/s`) and latencies
//! (`p50=3ms,p99=40ms`), parsed strictly and formatted in the same syntax.
//!
//! A quantity that has a unit is refused without it: `5` is neither five seconds nor five
//! milliseconds. Errors are complete, except that the caller adds the name of the flag.

use std::path::Path;

use podstorm_apiserver::latency::Latency;

/// The number of nanoseconds in a second.
pub const NS_PER_SECOND: i64 = 1_000_000_000;

/// The units of a duration and their lengths in nanoseconds, longest first.
const DURATION_UNITS: [(&str, i64); 7] = [
    ("d", 86_400 * NS_PER_SECOND),
    ("h", 3_600 * NS_PER_SECOND),
    ("m", 60 * NS_PER_SECOND),
    ("s", NS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Returns an error; `problem` says what is wrong with a string and what is expected.
pub(crate) fn refuse<T>(problem: impl Into<String>) -> Result<T, String> {
    Err(problem.into())
}

/// Parses a count of at least one: digits, with an optional `k` for thousands or `m` for millions.
/// A fraction is allowed if the result is an integer: `1.5k`.
///
/// # Errors
/// The string is not a number, or the number is negative, zero, fractional or too large.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    if digits.strip_prefix('-').is_some_and(is_decimal) {
        return refuse("a size must be at least 1, not negative");
    }
    if !is_decimal(digits) {
        return refuse(
            "expected a whole number, with k for thousands or m for millions: 500, 100k, 1m",
        );
    }
    let size = scaled(digits, factor);
    match size.map(u64::try_from) {
        Some(Ok(0)) => refuse("a size must be at least 1"),
        Some(Ok(size)) => Ok(size),
        None if digits.contains('.') => refuse("not a whole number"),
        _ => refuse("too large"),
    }
}

/// Parses a number of bytes: digits, with an optional `Ki`, `Mi`, `Gi` or `Ti`.
///
/// # Errors
/// The string is not an integer, or the number is zero or too large.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let unit = units
        .into_iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let number = digits
        .parse::<u64>()
        .ok()
        .filter(|_| digits.bytes().all(|c| c.is_ascii_digit()));
    match number.and_then(|number| number.checked_mul(1 << shift)) {
        Some(bytes @ 1..) => Ok(bytes),
        _ => refuse("expected bytes above 0, such as 512Mi or 2Gi"),
    }
}

/// Parses a duration in nanoseconds: a number with its unit (`500ms`, `1.5s`), or several (`1h30m`,
/// `1d12h`). Zero is `0s`.
///
/// # Errors
/// The number is missing or negative, the unit is missing or unknown, or the duration exceeds 292
/// years.
pub fn parse_duration_ns(text: &str) -> Result<i64, String> {
    let text = text.trim();
    if text.is_empty() {
        return refuse("expected a duration such as 500ms, 3s or 5m");
    }
    if text.starts_with('-') {
        return refuse("a duration can't be negative");
    }
    if is_decimal(text) {
        return refuse(format!(
            "a unit is missing: write {text}ms, {text}s or {text}m (units: ns, us, ms, s, m, h, d)"
        ));
    }
    let mut total: i128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        if !is_decimal(number) {
            return refuse("expected a number with its unit, such as 500ms, 3s or 5m");
        }
        if unit.is_empty() {
            return refuse(format!(
                "{number} has no unit (units: ns, us, ms, s, m, h, d)"
            ));
        }
        let name = if unit == "µs" { "us" } else { unit };
        let Some((_, factor)) = DURATION_UNITS.iter().find(|(known, _)| *known == name) else {
            return refuse(format!(
                "unknown unit {unit:?} (units: ns, us, ms, s, m, h, d)"
            ));
        };
        let Some(part) = scaled(number, *factor) else {
            return refuse("finer than a nanosecond, or too long");
        };
        total = total.saturating_add(part);
        rest = tail;
    }
    i64::try_from(total).or_else(|_| refuse("too long: the longest duration is about 292 years"))
}

/// Parses a rate, such as `20/s`, `1200/m` or `5/h`, and returns it per second.
///
/// # Errors
/// The number or the unit is missing or invalid, or the rate is negative or zero.
pub fn parse_rate_per_second(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return refuse("a rate can't be negative");
    }
    let Some((number, unit)) = text.split_once('/') else {
        let example = if is_decimal(text) { text } else { "20" };
        return refuse(format!(
            "a unit is missing: write {example}/s, {example}/m or {example}/h"
        ));
    };
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return refuse(format!("unknown unit {unit:?}: write 20/s, 1200/m or 5/h")),
    };
    let (digits, factor) = match number.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (number, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(value) if is_decimal(digits) && value.is_finite() && value > 0.0 => {
            Ok(value * factor / seconds)
        }
        Ok(0.0) => refuse("a rate must be greater than zero"),
        _ => refuse("expected a number with its unit, such as 20/s, 1200/m or 5/h"),
    }
}

/// Parses a latency: a duration, `constant:5ms`, `uniform:1ms,5ms`, or
/// `lognormal:p50=3ms,p99=40ms`, whose prefix may be omitted.
///
/// # Errors
/// The form is unknown, a part is not a duration, or the parts are in the wrong order.
pub fn parse_latency(text: &str) -> Result<Latency, String> {
    let text = text.trim();
    let (form, parts) = match text.split_once(':') {
        Some((form, parts)) => (form.trim(), parts.trim()),
        None if text.contains('=') => ("lognormal", text),
        None => ("constant", text),
    };
    match form {
        "constant" => Ok(Latency::Constant(parse_duration_ns(parts)?)),
        "uniform" => {
            let Some((low, high)) = parts.split_once(',') else {
                return refuse("uniform needs two durations: uniform:1ms,5ms");
            };
            let (low, high) = (parse_duration_ns(low)?, parse_duration_ns(high)?);
            if low > high {
                return refuse("the first duration of uniform: must be the smaller one");
            }
            Ok(Latency::Uniform(low, high))
        }
        "lognormal" => parse_lognormal(parts),
        other => refuse(format!(
            "unknown distribution {other:?}: write 5ms, constant:5ms, uniform:1ms,5ms or \
             p50=3ms,p99=40ms"
        )),
    }
}

fn parse_lognormal(parts: &str) -> Result<Latency, String> {
    let (mut p50, mut p99) = (None, None);
    for part in parts.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return refuse("expected p50=...,p99=..., such as p50=3ms,p99=40ms");
        };
        let slot = match name.trim() {
            "p50" => &mut p50,
            "p99" => &mut p99,
            other => return refuse(format!("unknown quantile {other:?}: use p50 and p99")),
        };
        if slot.replace(parse_duration_ns(value)?).is_some() {
            return refuse(format!("{} is given twice", name.trim()));
        }
    }
    match (p50, p99) {
        (Some(p50), Some(p99)) if p50 > p99 => refuse("p50 is larger than p99"),
        (Some(0), Some(p99)) if p99 > 0 => {
            refuse("a p50 of zero leaves no room for a larger p99: write at least p50=1ns")
        }
        (Some(p50), Some(p99)) => Ok(Latency::Lognormal { p50, p99 }),
        (None, _) => refuse("p50 is missing: write p50=3ms,p99=40ms"),
        (_, None) => refuse("p99 is missing: write p50=3ms,p99=40ms"),
    }
}

/// Reports whether the string consists of digits with at most one decimal point.
fn is_decimal(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && text.bytes().filter(|b| *b == b'.').count() <= 1
}

/// Multiplies a decimal number by a factor exactly; `None` if the result is not an integer or is
/// too large.
fn scaled(decimal: &str, factor: i64) -> Option<i128> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let divisor = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let product = digits.checked_mul(i128::from(factor))?;
    (product % divisor == 0).then_some(product / divisor)
}

/// Formats a duration exactly, in the syntax of [`parse_duration_ns`]: `0s`, `1m30s`, `2s500ms`.
pub fn duration_text(ns: i64) -> String {
    if ns == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    let mut rest = ns;
    for (unit, factor) in DURATION_UNITS {
        if rest / factor > 0 {
            text += &format!("{}{unit}", rest / factor);
            rest %= factor;
        }
    }
    text
}

/// Formats a latency exactly, in the syntax of [`parse_latency`].
pub fn latency_text(latency: Latency) -> String {
    match latency {
        Latency::Constant(ns) => duration_text(ns),
        Latency::Uniform(low, high) => {
            format!("uniform:{},{}", duration_text(low), duration_text(high))
        }
        Latency::Lognormal { p50, p99 } => {
            format!("p50={},p99={}", duration_text(p50), duration_text(p99))
        }
    }
}

/// Quotes a string so that a shell reads it as a single word.
pub fn shell_word(text: &str) -> String {
    shell_bytes(text.as_bytes())
}

/// Quotes a path so that a shell reads it as a single word, regardless of the bytes in it.
pub fn shell_path(path: &Path) -> String {
    shell_bytes(path.as_os_str().as_encoded_bytes())
}

fn shell_bytes(bytes: &[u8]) -> String {
    let safe = |b: &u8| b.is_ascii_alphanumeric() || b"-_./,:=%+@".contains(b);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(safe) => text.to_owned(),
        Ok(text) if !text.contains(char::is_control) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        // Escape unprintable bytes in the syntax of bash, zsh and ksh.
        _ => {
            let escaped = bytes.iter().map(|b| match b {
                b' '..=b'~' if !b"'\\".contains(b) => char::from(*b).to_string(),
                b => format!("\\x{b:02x}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

/// Formats seconds with about three significant digits: `412 us`, `1.53 s`, `2 h 05 min`,
/// `3 d 07 h`.
pub fn seconds_for_people(seconds: f64) -> String {
    let magnitude = seconds.abs();
    let scales = [(1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")];
    if magnitude == 0.0 {
        "0 s".to_owned()
    } else if magnitude < 1e-6 {
        format!("{:.0} ns", seconds * 1e9)
    } else if let Some((_, factor, unit)) = scales.iter().find(|(below, ..)| magnitude < *below) {
        format!("{} {unit}", three_digits(seconds * factor))
    } else if magnitude < 7200.0 {
        let whole = seconds.round();
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        let (large, small, of_large) = match magnitude < 172_800.0 {
            true => ("h", "min", 60.0),
            false => ("d", "h", 24.0),
        };
        let small_seconds = if of_large == 60.0 { 60.0 } else { 3_600.0 };
        let count = (seconds / small_seconds).round();
        format!(
            "{:.0} {large} {:02.0} {small}",
            (count / of_large).floor(),
            count % of_large
        )
    }
}

/// Formats a rate or ratio with three significant digits below 1,000, and with thousands separators
/// above: `152,400`, `21.3`.
pub fn number_for_people(value: f64) -> String {
    if value >= 999.5 {
        count_for_people(value.round() as u64)
    } else {
        three_digits(value)
    }
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn count_for_people(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, which is given in the singular: `1 namespace`, `2,000 pods`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count_for_people(count))
}

/// Formats bytes in decimal units: `512 kB`, `1.53 GB`.
pub fn bytes_for_people(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // 999.5 instead of 1000: a value that rounds to four digits belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// Formats three significant digits without trailing zeros: `150`, `1.5`.
pub fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let text = if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Wraps a string into lines of at most `width` characters, broken at spaces. A longer word gets
/// its own line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the string, shortened to `columns` columns with `…` at the end if it is longer.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let start: String = text.chars().take(columns - 1).collect();
    format!("{}…", start.trim_end())
}

/// Returns a string without the byte order mark that some editors put at the start.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_wraps_at_blanks() {
        assert_eq!(super::wrapped("aa b  cccc d", 4), ["aa b", "cccc", "d"]);
        assert_eq!(super::wrapped("", 4), [""; 0]);
    }

    use super::*;

    #[test]
    fn a_noun_agrees_with_its_count() {
        let texts = [0, 1, 2_000].map(|count| counted(count, "pod"));
        assert_eq!(texts, ["0 pods", "1 pod", "2,000 pods"]);
    }

    #[test]
    fn sizes_accept_thousands_and_millions() {
        for (text, size) in [
            ("1", 1),
            ("100k", 100_000),
            ("1m", 1_000_000),
            ("1.5k", 1_500),
            ("2M", 2_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for (text, word) in [
            ("0", "at least 1"),
            ("0k", "at least 1"),
            ("-5", "negative"),
            ("-5k", "negative"),
            ("1.5", "not a whole number"),
            ("", "expected a whole number"),
            ("k", "expected a whole number"),
            ("ten", "expected a whole number"),
            ("1e5", "expected a whole number"),
            ("99999999999999999999m", "too large"),
            ("99999999999999999999999999999999999999999999", "too large"),
        ] {
            let problem = parse_size(text).expect_err(text);
            assert!(problem.contains(word), "{text:?}: {problem}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ns) in [
            ("0s", 0),
            ("500ms", 500_000_000),
            ("3s", 3_000_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("2d", 172_800_000_000_000),
            ("1d12h", 129_600_000_000_000),
            ("1.5s", 1_500_000_000),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("7ns", 7),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        for (text, word) in [
            ("5", "unit is missing"),
            ("0", "unit is missing"),
            ("1.5", "unit is missing"),
            ("-3s", "negative"),
            ("5 parsecs", "unknown unit"),
            ("1m30", "has no unit"),
            ("s", "expected a number"),
            ("", "expected a duration"),
            ("0.1ns", "finer"),
            ("9999999h", "too long"),
        ] {
            let problem = parse_duration_ns(text).expect_err(text);
            assert!(problem.contains(word), "{text:?}: {problem}");
        }
    }

    #[test]
    fn latencies_have_four_forms() {
        let ms = 1_000_000;
        let lognormal = Latency::Lognormal {
            p50: 3 * ms,
            p99: 40 * ms,
        };
        for (text, latency) in [
            ("5ms", Latency::Constant(5 * ms)),
            ("constant:5ms", Latency::Constant(5 * ms)),
            ("uniform:1ms,5ms", Latency::Uniform(ms, 5 * ms)),
            ("p50=3ms,p99=40ms", lognormal),
            ("lognormal:p99=40ms, p50=3ms", lognormal),
        ] {
            assert_eq!(parse_latency(text), Ok(latency), "{text}");
        }
        for (text, word) in [
            ("5", "unit is missing"),
            ("uniform:5ms", "two durations"),
            ("uniform:5ms,1ms", "smaller"),
            ("p50=3ms", "p99 is missing"),
            ("p99=3ms", "p50 is missing"),
            ("p50=3ms,p99=1ms", "larger"),
            ("p50=3ms,p99=4", "unit is missing"),
            ("p50=3ms,p50=3ms", "twice"),
            ("p50=3ms,p90=4ms", "unknown quantile"),
            ("gamma:3ms", "unknown distribution"),
        ] {
            let problem = parse_latency(text).expect_err(text);
            assert!(problem.contains(word), "{text:?}: {problem}");
        }
    }

    #[test]
    fn rates_need_a_unit() {
        assert_eq!(parse_rate_per_second("20/s"), Ok(20.0));
        assert_eq!(parse_rate_per_second("1.5k/s"), Ok(1500.0));
        assert_eq!(parse_rate_per_second("1200/m"), Ok(20.0));
        for text in ["20", "0/s", "-1/s", "x/s", "20/d", "/s", "inf/s"] {
            assert!(parse_rate_per_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn formatted_values_parse_back() {
        for ns in [
            0,
            1,
            999,
            1_000_000,
            1_500_000_000,
            90_000_000_000,
            5_400_000_000_001,
            86_400_000_000_000,
            129_600_000_000_000,
            i64::MAX,
        ] {
            assert_eq!(parse_duration_ns(&duration_text(ns)), Ok(ns));
        }
        for text in ["3s", "1d12h", "uniform:1ms,5ms", "p50=3ms,p99=40ms"] {
            assert_eq!(latency_text(parse_latency(text).unwrap()), text);
        }
    }

    #[test]
    fn formatted_numbers_are_short() {
        assert_eq!(seconds_for_people(0.000_412), "412 us");
        assert_eq!(seconds_for_people(1.534), "1.53 s");
        assert_eq!(seconds_for_people(125.0), "2 min 05 s");
        assert_eq!(seconds_for_people(7500.0), "2 h 05 min");
        assert_eq!(seconds_for_people(172_799.0), "48 h 00 min");
        assert_eq!(seconds_for_people(284_400.0), "3 d 07 h");
        assert_eq!(count_for_people(1_234_567), "1,234,567");
        assert_eq!(count_for_people(999), "999");
        assert_eq!(number_for_people(152_400.4), "152,400");
        assert_eq!(number_for_people(21.34), "21.3");
        assert_eq!(number_for_people(999.7), "1,000");
        assert_eq!(bytes_for_people(1_534_000_000), "1.53 GB");
        assert_eq!(bytes_for_people(999_999), "1 MB");
    }
}
