//! API time stamps in whole seconds, and the `Now` that callers pass in.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil::{DateTime, date, datetime};

/// An API time stamp: whole seconds since 1970-01-01T00:00:00Z, the resolution in which the API
/// server serves `metav1.Time`. Unset is what Go calls the zero time and sorts before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The unset time stamp (JSON null or absent).
    pub const UNSET: Time = Time(i64::MIN);

    /// The instant `seconds` after the Unix epoch.
    pub const fn from_unix_seconds(seconds: i64) -> Time {
        Time(seconds)
    }

    /// The second that a wall-clock reading in nanoseconds since the Unix epoch falls in.
    pub const fn from_unix_nanos(nanos: i64) -> Time {
        Time(nanos.div_euclid(1_000_000_000))
    }

    /// Whether no time is set.
    pub const fn is_unset(self) -> bool {
        self.0 == i64::MIN
    }

    /// Seconds since the Unix epoch; `None` when unset.
    pub const fn unix_seconds(self) -> Option<i64> {
        if self.is_unset() { None } else { Some(self.0) }
    }

    /// Nanoseconds since the Unix epoch, saturating; `None` when unset.
    pub const fn unix_nanos(self) -> Option<i64> {
        if self.is_unset() {
            None
        } else {
            Some(self.0.saturating_mul(1_000_000_000))
        }
    }
}

/// A [`Time`] in six bytes, to fit between smaller members.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PackedTime([u16; 3]);

impl PackedTime {
    /// The seconds that fit: 4.4 million years in both directions. The smallest value means unset.
    const SECONDS: std::ops::RangeInclusive<i64> = -(1 << 47)..=(1 << 47) - 1;

    /// The packed time. A time beyond 4.4 million years, which no text can express, becomes the
    /// nearest that fits.
    pub const fn new(time: Time) -> PackedTime {
        let (low, high) = (*Self::SECONDS.start(), *Self::SECONDS.end());
        let seconds = if time.is_unset() {
            low
        } else if time.0 <= low {
            low + 1
        } else if time.0 > high {
            high
        } else {
            time.0
        };
        PackedTime([
            seconds as u16,
            (seconds >> 16) as u16,
            (seconds >> 32) as u16,
        ])
    }

    /// The unpacked time.
    pub const fn get(self) -> Time {
        let [low, middle, high] = self.0;
        // Two steps: the sign is in the highest part.
        let seconds = (high as i16 as i64) << 32 | (middle as i64) << 16 | low as i64;
        if seconds == *Self::SECONDS.start() {
            Time::UNSET
        } else {
            Time(seconds)
        }
    }
}

impl From<Time> for PackedTime {
    fn from(time: Time) -> Self {
        PackedTime::new(time)
    }
}

impl fmt::Debug for PackedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Default for Time {
    fn default() -> Self {
        Time::UNSET
    }
}

impl Time {
    /// Whether this time is written as exactly that text. The text must be of the same time.
    pub(crate) fn is_written(self, text: &str) -> bool {
        // Without a fraction and an offset, a time has exactly one text.
        text.len() == "2026-01-02T03:04:05Z".len() && text.ends_with('Z')
    }
}

/// Where seconds count from.
const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// The first and last second that RFC 3339 can write, 0000-01-01T00:00:00Z and
/// 9999-12-31T23:59:59Z: the epoch is day 719,528 of the former's calendar, 10,000 years are
/// 3,652,425 days.
const WRITABLE_SECONDS: std::ops::RangeInclusive<i64> =
    -719_528 * 86_400..=(3_652_425 - 719_528) * 86_400 - 1;

/// 0001-01-01T00:00:00Z, which Go cannot tell from an unset time.
const GO_ZERO_SECONDS: i64 = -719_162 * 86_400;

/// A text that is not an RFC 3339 time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the form 2026-01-02T03:04:05Z")]
pub struct TimeError;

impl fmt::Display for Time {
    /// RFC 3339 in UTC, e.g. `2026-01-02T03:04:05Z`; nothing when unset. A time outside the years
    /// 0 to 9999 shows as the nearest one within.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(seconds) = self.unix_seconds() else {
            return Ok(());
        };
        let seconds = seconds.clamp(*WRITABLE_SECONDS.start(), *WRITABLE_SECONDS.end());
        let at = EPOCH + SignedDuration::from_secs(seconds);
        let mut text = *b"0000-00-00T00:00:00Z";
        let (year, two) = (at.year().unsigned_abs(), |part: i8| part.unsigned_abs());
        for (place, part) in [
            (0, (year / 100) as u8),
            (2, (year % 100) as u8),
            (5, two(at.month())),
            (8, two(at.day())),
            (11, two(at.hour())),
            (14, two(at.minute())),
            (17, two(at.second())),
        ] {
            text[place] += part / 10;
            text[place + 1] += part % 10;
        }
        f.write_str(str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl FromStr for Time {
    type Err = TimeError;

    /// Reads RFC 3339 with any offset. A fraction is cut off. The empty text means unset, and so
    /// does 0001-01-01T00:00:00Z, the zero time of Go.
    fn from_str(text: &str) -> Result<Time, TimeError> {
        if text.is_empty() {
            return Ok(Time::UNSET);
        }
        let (local, rest) = text.split_at_checked(19).ok_or(TimeError)?;
        let local = read_local(local.as_bytes()).ok_or(TimeError)?;
        let offset = read_offset(skip_fraction(rest)?)?;
        let seconds = local - offset;
        if !WRITABLE_SECONDS.contains(&seconds) {
            return Err(TimeError);
        }
        Ok(if seconds == GO_ZERO_SECONDS {
            Time::UNSET
        } else {
            Time(seconds)
        })
    }
}

/// Reads `2026-01-02T03:04:05` as seconds since the epoch.
fn read_local(text: &[u8]) -> Option<i64> {
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| text[at] != mark) {
        return None;
    }
    let part = |at: usize| two_digits(&text[at..at + 2]);
    let year = i16::from(part(0)?) * 100 + i16::from(part(2)?);
    let day = jiff::civil::Date::new(year, part(5)?, part(8)?).ok()?;
    let (hour, minute, second) = (part(11)?, part(14)?, part(17)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = day.duration_since(date(1970, 1, 1)).as_secs();
    Some(days + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second))
}

fn two_digits(text: &[u8]) -> Option<i8> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| (byte - b'0').cast_signed());
    Some(digit(text[0])? * 10 + digit(text[1])?)
}

fn skip_fraction(text: &str) -> Result<&str, TimeError> {
    let Some(fraction) = text.strip_prefix('.') else {
        return Ok(text);
    };
    let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == fraction.len() {
        Err(TimeError)
    } else {
        Ok(rest)
    }
}

/// Reads `Z` or `+05:30` as seconds east of UTC.
fn read_offset(text: &str) -> Result<i64, TimeError> {
    let bytes = text.as_bytes();
    let sign = match bytes {
        [b'Z'] => return Ok(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return Err(TimeError),
    };
    let hours = two_digits(&bytes[1..3])
        .filter(|&hours| hours <= 23)
        .ok_or(TimeError)?;
    let minutes = two_digits(&bytes[4..6])
        .filter(|&minutes| minutes <= 59)
        .ok_or(TimeError)?;
    Ok(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// The current time, passed in by the driver: core reads no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic nanoseconds with an arbitrary origin: for delays and time-outs.
    pub mono_ns: i64,
    /// Nanoseconds since the Unix epoch: for everything that is compared with an API time or
    /// written as one.
    pub wall_ns: i64,
}

impl Now {
    /// The wall clock cut to API resolution.
    #[inline]
    pub const fn wall(self) -> Time {
        Time::from_unix_nanos(self.wall_ns)
    }

    /// This instant moved by `ns` nanoseconds in both fields, saturating.
    #[must_use]
    pub const fn plus_ns(self, ns: i64) -> Now {
        Now {
            mono_ns: self.mono_ns.saturating_add(ns),
            wall_ns: self.wall_ns.saturating_add(ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_times_are_the_times_they_were() {
        for seconds in [
            0,
            1,
            -1,
            65_535,
            65_536,
            1 << 32,
            -(1 << 32),
            253_402_300_799,
        ] {
            let time = Time::from_unix_seconds(seconds);
            assert_eq!(PackedTime::new(time).get(), time);
        }
        assert_eq!(PackedTime::new(Time::UNSET).get(), Time::UNSET);
        for seconds in [i64::MAX, i64::MIN + 1] {
            let time = PackedTime::new(Time::from_unix_seconds(seconds)).get();
            assert_eq!(time.unix_seconds().map(i64::signum), Some(seconds.signum()));
        }
    }

    #[test]
    fn times_read_and_write_rfc_3339() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-02T03:04:05Z", 1_767_323_045),
            ("2026-01-02T03:04:05.999999999Z", 1_767_323_045),
            ("2026-01-02T05:04:05+02:00", 1_767_323_045),
            ("2026-01-01T21:34:05.5-05:30", 1_767_323_045),
            ("1969-12-31T23:59:59.5Z", -1),
            ("2024-02-29T00:00:00Z", 1_709_164_800),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ];
        for (text, seconds) in cases {
            let time: Time = text.parse().unwrap();
            assert_eq!(time, Time::from_unix_seconds(seconds), "{text}");
            assert_eq!(time.to_string().parse(), Ok(time), "{text}");
        }
        for (seconds, text) in [
            (1_767_323_045, "2026-01-02T03:04:05Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
            (i64::MIN + 1, "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(Time::from_unix_seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn empty_and_zero_times_are_unset() {
        assert_eq!("".parse(), Ok(Time::UNSET));
        assert_eq!("0001-01-01T00:00:00Z".parse(), Ok(Time::UNSET));
        assert_eq!(Time::UNSET.to_string(), "");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02t03:04:05z",
            "2026-02-29T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+0200",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05Z ",
            "0000-01-01T00:00:00+01:00",
            "2026-01-02T03:04:0\u{e9}Z",
            "+26-01-02T03:04:05Z",
        ] {
            assert_eq!(text.parse::<Time>(), Err(TimeError), "{text}");
        }
    }
}
