//! The styles in which strings are written: plain, quoted, or literal.

/// The style of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

pub(super) fn style_of(text: &str, is_key: bool) -> Style {
    let found = Found::parse(text);
    if text.contains('\n') {
        return match found.allows_block && !is_key {
            true => Style::Literal,
            false => Style::Double,
        };
    }
    if is_other_than_text(text) {
        return Style::Double;
    }
    if found.allows_plain {
        Style::Plain
    } else if found.allows_single {
        Style::Single
    } else {
        Style::Double
    }
}

/// The styles that a string allows.
struct Found {
    allows_plain: bool,
    allows_single: bool,
    allows_block: bool,
}

impl Found {
    fn parse(text: &str) -> Found {
        let mut has_indicator = text.starts_with("---") || text.starts_with("...");
        let (mut is_special, mut space_break, mut break_space) = (false, false, false);
        let characters: Vec<char> = text.chars().collect();
        for (at, character) in characters.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| characters[at]);
            let next = characters.get(at + 1);
            let ends_word = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            has_indicator |= match character {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                | '%' | '@' | '`'
                    if at == 0 =>
                {
                    true
                }
                '?' | '-' if at == 0 => ends_word,
                ':' => ends_word,
                '#' => matches!(before, Some(' ' | '\t' | '\n' | '\r')),
                _ => false,
            };
            is_special |= !is_printable(*character);
            space_break |= *character == '\n' && before == Some(' ');
            break_space |= *character == ' ' && before == Some('\n');
        }
        let is_blank = |end: Option<char>| matches!(end, Some(' ' | '\n'));
        let has_blank_end = is_blank(text.chars().next()) || is_blank(text.chars().next_back());
        let is_odd = is_special || space_break;
        Found {
            allows_plain: !(has_indicator
                || has_blank_end
                || is_odd
                || break_space
                || text.contains('\n')),
            allows_single: !(is_odd || break_space),
            allows_block: !(is_odd || text.ends_with(' ')),
        }
    }
}

fn is_printable(character: char) -> bool {
    matches!(character,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Returns the escape sequence of a character in double quotes; `None` if the character needs none.
pub(super) fn escape(character: char) -> Option<String> {
    let short = match character {
        '"' => '"',
        '\\' => '\\',
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        other if is_printable(other) => return None,
        other => {
            let code = u32::from(other);
            return Some(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{short}"))
}

/// Reports whether an unquoted text would resolve to a number, a time, a boolean or null.
fn is_other_than_text(text: &str) -> bool {
    const WORDS: [&str; 31] = [
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE",
        "on", "On", "ON", "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off",
        "OFF", ".nan", ".NaN", ".NAN", "<<",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    WORDS.contains(&text)
        || [".inf", ".Inf", ".INF"].contains(&unsigned)
        || is_number(text)
        || is_sexagesimal(unsigned)
        || is_time(text)
}

fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return false;
    }
    for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        if let Some(digits) = prefixes.iter().find_map(|it| unsigned.strip_prefix(it)) {
            return u64::from_str_radix(digits, radix).is_ok();
        }
    }
    // A float: digits, a point, digits, and an optional exponent with a sign.
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or(("", mantissa));
    let has_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']);
        digits.is_some_and(|digits| !digits.is_empty() && is_digits(digits))
    });
    is_digits(whole) && !fraction.is_empty() && is_digits(fraction) && has_exponent
}

/// Reports whether a string is a number in base 60, as in YAML 1.1: `10:30`.
fn is_sexagesimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or("");
    let is_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit() || it == b'_');
    let mut count = 0;
    let all_fit = parts.all(|part| {
        count += 1;
        part.parse::<u8>().is_ok_and(|number| number < 60) && part.len() < 3
    });
    first.starts_with(|first: char| first.is_ascii_digit())
        && is_digits(first)
        && is_digits(fraction)
        && count > 0
        && all_fit
}

/// Reports whether a string is a date, with or without a time: `2006-1-2`, `2006-01-02T15:04:05Z`.
fn is_time(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let is_short = |part: &str| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok();
    let mut parts = date.split('-').skip(1);
    let is_date = parts.next().is_some_and(is_short)
        && parts.next().is_some_and(is_short)
        && parts.next().is_none();
    let is_clock = |time: &str| {
        let at = time.find(|it: char| !(it.is_ascii_digit() || ":.".contains(it)));
        let (clock, zone) = time.split_at(at.unwrap_or(time.len()));
        let clock = clock.split('.').next().unwrap_or("");
        let in_zone = match text.contains(' ') {
            true => zone.is_empty(),
            false => zone == "Z" || zone.len() == 6 && zone.starts_with(['+', '-']),
        };
        clock.split(':').count() == 3 && clock.split(':').all(is_short) && in_zone
    };
    is_date && time.is_none_or(is_clock)
}
