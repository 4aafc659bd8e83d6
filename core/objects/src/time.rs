//! API timestamps in whole seconds, and the `Now` that callers pass in.

use std::fmt;
use std::str::FromStr;

use crate::calendar;

/// An API timestamp: whole seconds since 1970-01-01T00:00:00Z, the resolution of `metav1.Time` in
/// JSON. The unset time is what Go calls the zero time, and sorts before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The unset timestamp (JSON null or absent).
    pub const UNSET: Time = Time(i64::MIN);

    /// Returns the instant `seconds` after the Unix epoch.
    pub const fn from_unix_seconds(seconds: i64) -> Time {
        Time(seconds)
    }

    /// Returns the second that contains a wall-clock reading in nanoseconds since the Unix epoch.
    pub const fn from_unix_nanos(nanos: i64) -> Time {
        Time(nanos.div_euclid(1_000_000_000))
    }

    /// Reports whether the time is unset.
    pub const fn is_unset(self) -> bool {
        self.0 == i64::MIN
    }

    /// Returns the seconds since the Unix epoch; `None` if unset.
    pub const fn unix_seconds(self) -> Option<i64> {
        if self.is_unset() { None } else { Some(self.0) }
    }

    /// Returns the nanoseconds since the Unix epoch, saturating; `None` if unset.
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
    /// The range of seconds that fit: 4.4 million years each way. The smallest value means unset.
    const SECONDS: std::ops::RangeInclusive<i64> = -(1 << 47)..=(1 << 47) - 1;

    /// Packs a time. A time beyond 4.4 million years, which no text can express, becomes the
    /// nearest one that fits.
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

    /// Returns the unpacked time.
    pub const fn get(self) -> Time {
        let [low, middle, high] = self.0;
        // Widened in two steps, because the highest part contains the sign.
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
    /// Reports whether `text`, which must be a form of this time, is the form that is written.
    pub fn is_written(self, text: &str) -> bool {
        // A time has exactly one form without a fraction and an offset.
        text.len() == "2026-01-02T03:04:05Z".len() && text.ends_with('Z')
    }
}

/// The form of nearly all times.
const USUAL: &[u8; 20] = b"0000-00-00T00:00:00Z";

/// The first and last second that RFC 3339 can write, 0000-01-01T00:00:00Z and
/// 9999-12-31T23:59:59Z: the epoch is day 719,528 of the former's calendar, 10,000 years are
/// 3,652,425 days.
const WRITABLE_SECONDS: std::ops::RangeInclusive<i64> =
    -719_528 * 86_400..=(3_652_425 - 719_528) * 86_400 - 1;

/// 0001-01-01T00:00:00Z, which Go cannot tell from an unset time.
const GO_ZERO_SECONDS: i64 = -719_162 * 86_400;

/// The reason why a string is not an RFC 3339 time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the form 2026-01-02T03:04:05Z")]
pub struct TimeError(Mismatch);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mismatch {
    /// The part of the layout that doesn't match, and the position in the text.
    Part(&'static str, usize),
    /// A part that matches but is out of range.
    Range(&'static str),
    /// The position of the text that follows the time.
    Extra(usize),
    /// The year in UTC does not have four digits.
    Year,
}

impl TimeError {
    /// Returns the error message of Go's `time.Parse` for this text and layout.
    pub fn told(self, text: &str, layout: &str) -> String {
        let quoted = go_time_quoted(text);
        let from = |at: usize| go_time_quoted(text.get(at..).unwrap_or(""));
        match self.0 {
            Mismatch::Part(part, at) => {
                let (layout, from, part) = (go_time_quoted(layout), from(at), go_time_quoted(part));
                format!("parsing time {quoted} as {layout}: cannot parse {from} as {part}")
            }
            Mismatch::Range(what) => format!("parsing time {quoted}: {what} out of range"),
            Mismatch::Extra(at) => format!("parsing time {quoted}: extra text: {}", from(at)),
            Mismatch::Year => format!("parsing time {quoted}: year outside of range [0,9999]"),
        }
    }
}

/// Quotes a string like Go's `time`: byte by byte if it is not ASCII.
fn go_time_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' | '\u{7f}' => quoted.push(character),
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    quoted.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Display for Time {
    /// Formats RFC 3339 in UTC, e.g. `2026-01-02T03:04:05Z`, and nothing if unset. A time outside
    /// the years 0 to 9999 shows as the nearest one within them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(seconds) = self.unix_seconds() else {
            return Ok(());
        };
        f.write_str(usual_text(seconds, &mut [0; USUAL.len()]))
    }
}

impl Time {
    /// Returns the time that a text with this second means.
    fn of_readable(seconds: i64) -> Time {
        match seconds {
            GO_ZERO_SECONDS => Time::UNSET,
            seconds => Time(seconds),
        }
    }

    /// Like `Display`, without a formatter: writes the text into `room`.
    pub(crate) fn text(self, room: &mut [u8; 20]) -> &str {
        self.unix_seconds().map_or("", |at| usual_text(at, room))
    }
}

/// Formats a time, or the nearest time with a four-digit year.
fn usual_text(seconds: i64, room: &mut [u8; 20]) -> &str {
    let seconds = seconds.clamp(*WRITABLE_SECONDS.start(), *WRITABLE_SECONDS.end());
    let (day, second) = (
        seconds.div_euclid(86_400),
        seconds.rem_euclid(86_400) as u32,
    );
    let (year, month, day) = calendar::date(day as i32);
    *room = *USUAL;
    for (place, part) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, second / 3600),
        (14, second / 60 % 60),
        (17, second % 60),
    ] {
        room[place] += (part / 10) as u8;
        room[place + 1] += (part % 10) as u8;
    }
    str::from_utf8(room).expect("digits are ASCII")
}

/// Reads a time of the usual form. `None` for any other form, and for parts out of range.
fn read_usual(text: &str) -> Option<i64> {
    let text: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let mut is_usual = true;
    for (byte, usual) in text.iter().zip(USUAL) {
        is_usual &= match usual {
            b'0' => byte.is_ascii_digit(),
            mark => byte == mark,
        };
    }
    let two = |at: usize| u32::from(text[at] & 15) * 10 + u32::from(text[at + 1] & 15);
    let (year, month, day) = (two(0) * 100 + two(2), two(5), two(8));
    let (hour, minute, second) = (two(11), two(14), two(17));
    let is_usual = is_usual
        && (1..=12).contains(&month)
        && (1..=calendar::days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let day = is_usual.then(|| calendar::day(year, month, day))?;
    Some(i64::from(day) * 86_400 + i64::from(hour * 3600 + minute * 60 + second))
}

impl FromStr for Time {
    type Err = TimeError;

    /// Like [`Time::read`], but the empty string means unset.
    fn from_str(text: &str) -> Result<Time, TimeError> {
        if text.is_empty() {
            return Ok(Time::UNSET);
        }
        Time::read(text)
    }
}

impl Time {
    /// Reads RFC 3339 with any offset, as Go does: the hour may have one digit, and a fraction,
    /// which is truncated, may follow a comma. 0001-01-01T00:00:00Z, the zero time of Go, means
    /// unset.
    ///
    /// Source: `time.Parse` in Go.
    ///
    /// # Errors
    /// Fails for a string that Go doesn't read, and for a time whose year in UTC doesn't have four
    /// digits.
    pub fn read(text: &str) -> Result<Time, TimeError> {
        if let Some(seconds) = read_usual(text) {
            return Ok(Time::of_readable(seconds));
        }
        let mut reader = Reader { text, at: 0 };
        let (local, has_day) = reader.local()?;
        let fraction = text.as_bytes().get(reader.at..).unwrap_or_default();
        if let [b'.' | b',', digit, ..] = fraction
            && digit.is_ascii_digit()
        {
            let digits = fraction[1..].iter().take_while(|it| it.is_ascii_digit());
            reader.at += 1 + digits.count();
        }
        reader.end(local, has_day)
    }

    /// Like [`read`](Time::read), for a fraction of six digits. Also returns the microseconds.
    ///
    /// # Errors
    /// The same as [`read`](Time::read).
    pub fn read_micros(text: &str) -> Result<(Time, u32), TimeError> {
        const FRACTION: &str = ".000000";
        let mut reader = Reader { text, at: 0 };
        let (local, has_day) = reader.local()?;
        let fraction = text
            .get(reader.at..)
            .and_then(|it| it.get(..FRACTION.len()));
        let digits = fraction.and_then(|it| it.strip_prefix(['.', ',']));
        let digits = digits.filter(|it| it.bytes().all(|digit| digit.is_ascii_digit()));
        let micros = digits.and_then(|it| it.parse().ok());
        let micros = micros.ok_or_else(|| reader.mismatch(FRACTION))?;
        reader.at += FRACTION.len();
        Ok((reader.end(local, has_day)?, micros))
    }
}

/// Reads the parts of a time.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn mismatch(&self, part: &'static str) -> TimeError {
        TimeError(Mismatch::Part(part, self.at))
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn digit(&self, ahead: usize) -> Option<i64> {
        let digit = self.byte(ahead).filter(u8::is_ascii_digit);
        digit.map(|digit| i64::from(digit - b'0'))
    }

    fn mark(&mut self, mark: &'static str) -> Result<(), TimeError> {
        if self.byte(0) != mark.bytes().next() {
            return Err(self.mismatch(mark));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a two-digit number, or a one-digit number if `is_fixed` is false.
    fn number(&mut self, part: &'static str, is_fixed: bool) -> Result<i64, TimeError> {
        let (number, digits) = match (self.digit(0), self.digit(1)) {
            (Some(tens), Some(ones)) => (tens * 10 + ones, 2),
            (Some(ones), None) if !is_fixed => (ones, 1),
            _ => return Err(self.mismatch(part)),
        };
        self.at += digits;
        Ok(number)
    }

    /// Reads `2026-01-02T03:04:05` as seconds since the epoch. Also returns whether the month has
    /// that day.
    fn local(&mut self) -> Result<(i64, bool), TimeError> {
        let range = |what| TimeError(Mismatch::Range(what));
        let mut digits = (0..4).map(|ahead| self.digit(ahead));
        let year: Option<i64> = digits.try_fold(0, |year, digit| Some(year * 10 + digit?));
        let year = year.ok_or_else(|| self.mismatch("2006"))?;
        self.at += 4;
        self.mark("-")?;
        let month = self.number("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(range("month"));
        }
        self.mark("-")?;
        let day = self.number("02", true)?;
        self.mark("T")?;
        let hour = self.number("15", false)?;
        if hour > 23 {
            return Err(range("hour"));
        }
        self.mark(":")?;
        let minute = self.number("04", true)?;
        if minute > 59 {
            return Err(range("minute"));
        }
        self.mark(":")?;
        let second = self.number("05", true)?;
        if second > 59 {
            return Err(range("second"));
        }
        let (year, month) = (year as u32, month as u32);
        let days = i64::from(calendar::day(year, month, 1)) + day - 1;
        let has_day = (1..=i64::from(calendar::days_of_month(year, month))).contains(&day);
        Ok((days * 86_400 + hour * 3600 + minute * 60 + second, has_day))
    }

    /// Reads the offset, `Z` or `+05:30`, which must end the text.
    fn end(mut self, local: i64, has_day: bool) -> Result<Time, TimeError> {
        let offset = self.offset()?;
        if self.at < self.text.len() {
            return Err(TimeError(Mismatch::Extra(self.at)));
        }
        if !has_day {
            return Err(TimeError(Mismatch::Range("day")));
        }
        let seconds = local - offset;
        match WRITABLE_SECONDS.contains(&seconds) {
            true => Ok(Time::of_readable(seconds)),
            false => Err(TimeError(Mismatch::Year)),
        }
    }

    fn offset(&mut self) -> Result<i64, TimeError> {
        const ZONE: &str = "Z07:00";
        if self.byte(0) == Some(b'Z') {
            self.at += 1;
            return Ok(0);
        }
        let wrong = self.mismatch(ZONE);
        if self.byte(3) != Some(b':') || self.text.len() < self.at + ZONE.len() {
            return Err(wrong);
        }
        let sign = self.byte(0);
        self.at += 1;
        let hours = self.number(ZONE, true).map_err(|_| wrong)?;
        self.at += 1;
        let minutes = self.number(ZONE, true).map_err(|_| wrong)?;
        // As in Go, which accepts offsets of 24 hours and 60 minutes.
        let range = |what| Err(TimeError(Mismatch::Range(what)));
        match (hours, minutes, sign) {
            (25.., ..) => range("time zone offset hour"),
            (_, 61.., _) => range("time zone offset minute"),
            (_, _, Some(b'+')) => Ok(hours * 3600 + minutes * 60),
            (_, _, Some(b'-')) => Ok(-(hours * 3600 + minutes * 60)),
            _ => Err(wrong),
        }
    }
}

/// The current time, passed in by the driver, because this crate reads no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic nanoseconds with an arbitrary origin, for delays and timeouts.
    pub mono_ns: i64,
    /// Nanoseconds since the Unix epoch, for everything that is compared with an API time or
    /// written as one.
    pub wall_ns: i64,
}

impl Now {
    /// Returns the wall-clock time, truncated to API resolution.
    #[inline]
    pub const fn wall(self) -> Time {
        Time::from_unix_nanos(self.wall_ns)
    }

    /// Returns `self` moved by `ns` nanoseconds in both fields, saturating.
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
    fn packed_times_unpack_to_the_same_times() {
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
            ("2026-01-02T3:04:05Z", 1_767_323_045),
            ("2026-01-02T03:04:05,25Z", 1_767_323_045),
            ("2026-01-03T03:04:05+24:00", 1_767_323_045),
            ("1600-01-01T00:00:00Z", -11_676_096_000),
            ("2300-01-01T00:00:00Z", 10_413_792_000),
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
    fn other_texts_are_refused_with_gos_messages() {
        const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
        let table = r#"
2026-01-02 => cannot parse "" as "T"
2026-01-02 03:04:05Z => cannot parse " 03:04:05Z" as "T"
2026-01-02t03:04:05Z => cannot parse "t03:04:05Z" as "T"
2026-01-02T03:04:05z => cannot parse "z" as "Z07:00"
2026-01-02T03:04:05 => cannot parse "" as "Z07:00"
2026-01-02T03:04:05.Z => cannot parse ".Z" as "Z07:00"
2026-01-02T03:04:05+0200 => cannot parse "+0200" as "Z07:00"
2026-01-02T03:04:05*02:00 => cannot parse "*02:00" as "Z07:00"
2026-01-02T03:04:0éZ => cannot parse "0\xc3\xa9Z" as "05"
2026-1-02T03:04:05Z => cannot parse "1-02T03:04:05Z" as "01"
2026/01/02 => cannot parse "/01/02" as "-"
+26-01-02T03:04:05Z => cannot parse "+26-01-02T03:04:05Z" as "2006"
soon => cannot parse "soon" as "2006"
 => cannot parse "" as "2006"
2026-13-02T03:04:05Z => month out of range
2026-02-29T03:04:05Z => day out of range
2026-02-00T03:04:05Z => day out of range
2026-01-02T24:04:05Z => hour out of range
2026-01-02T03:60:05Z => minute out of range
2026-01-02T03:04:60Z => second out of range
2026-01-02T03:04:05+25:00 => time zone offset hour out of range
2026-01-02T03:04:05+02:61 => time zone offset minute out of range
2026-01-02T03:04:05Zx => extra text: "x"
0000-01-01T00:00:00+01:00 => year outside of range [0,9999]
"#;
        for line in table.trim_matches('\n').lines() {
            let (text, told) = line.split_once(" => ").expect(line);
            let found = Time::read(text).expect_err(line).told(text, LAYOUT);
            let quoted = go_time_quoted(text);
            let begin = match told.starts_with("cannot") {
                true => format!("parsing time {quoted} as \"{LAYOUT}\": "),
                false => format!("parsing time {quoted}: "),
            };
            assert_eq!(found, begin + told, "{line}");
        }
    }

    #[test]
    fn microsecond_times_have_six_digits() {
        const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
        let read = |text: &str| {
            let read = Time::read_micros(text);
            let read = read.map(|(time, micros)| (time.to_string(), micros));
            read.map_err(|error| error.told(text, LAYOUT))
        };
        let text = "2026-01-02T05:04:05.000700+02:00";
        assert_eq!(read(text), Ok(("2026-01-02T03:04:05Z".to_owned(), 700)));
        for (text, rest, part) in [
            ("2026-01-02T03:04:05Z", "Z", ".000000"),
            ("2026-01-02T03:04:05.12Z", ".12Z", ".000000"),
            ("2026-01-02T03:04:05.1234567Z", "7Z", "Z07:00"),
        ] {
            let told =
                format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {part:?}");
            assert_eq!(read(text), Err(told));
        }
    }
}
