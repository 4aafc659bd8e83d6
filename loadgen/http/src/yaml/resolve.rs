//! Types of YAML scalars: go-yaml 2 implements YAML 1.1, in which `0400` is 256 and `yes` is true.
//!
//! Source: `resolve.go` of go-yaml 2.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use granit_parser::Tag;
use serde_json::{Number, Value};

/// The prefix of YAML's own tags.
const CORE: &str = "tag:yaml.org,2002:";

/// A scalar with the type to which go-yaml resolves it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'t, str>),
    /// The name `<<`.
    Merge,
}

impl<'t> Scalar<'t> {
    /// Returns the JSON that Go writes for the scalar.
    ///
    /// # Errors
    /// Fails with Go's message if JSON cannot represent a number.
    pub(super) fn value(&self) -> Result<Value, String> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(flag) => (*flag).into(),
            Scalar::Integer(number) => (*number).into(),
            Scalar::Unsigned(number) => (*number).into(),
            Scalar::Float(number) => json_number(*number)?.into(),
            Scalar::Text(text) => text.as_ref().into(),
            Scalar::Merge => "<<".into(),
        })
    }

    /// Returns the scalar as the name of a member; `None` for null, which is not a valid name.
    pub(super) fn name(&self) -> Option<Cow<'t, str>> {
        Some(match self {
            Scalar::Null => return None,
            Scalar::Bool(flag) => flag.to_string().into(),
            Scalar::Integer(number) => number.to_string().into(),
            Scalar::Unsigned(number) => number.to_string().into(),
            Scalar::Float(number) if number.is_nan() => ".nan".into(),
            Scalar::Float(number) if *number == f64::INFINITY => ".inf".into(),
            Scalar::Float(number) if *number == f64::NEG_INFINITY => "-.inf".into(),
            Scalar::Float(number) => (*number as f32).to_string().into(),
            Scalar::Text(text) => text.clone(),
            Scalar::Merge => "<<".into(),
        })
    }

    /// Returns the scalar for a value; `None` for lists and maps.
    pub(super) fn from_value(value: &Value) -> Option<Scalar<'static>> {
        Some(match value {
            Value::Null => Scalar::Null,
            Value::Bool(flag) => Scalar::Bool(*flag),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Scalar::Integer(number),
                (_, Some(number)) => Scalar::Unsigned(number),
                _ => Scalar::Float(number.as_f64()?),
            },
            Value::String(text) => Scalar::Text(text.clone().into()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    /// Returns go-yaml's tag for the scalar.
    fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "bool",
            Scalar::Integer(_) | Scalar::Unsigned(_) => "int",
            Scalar::Float(_) => "float",
            Scalar::Text(_) => "str",
            Scalar::Merge => "merge",
        }
    }
}

/// Converts a number as Go writes it in JSON: without a decimal point if it has no fraction.
fn json_number(number: f64) -> Result<Number, String> {
    const WITH_EXPONENT: f64 = 1e21;
    if number.fract() == 0.0 && number.abs() < WITH_EXPONENT {
        let text = number.to_string();
        let signed = text.parse::<i64>().map(Number::from);
        if let Ok(number) = signed.or_else(|_| text.parse::<u64>().map(Number::from)) {
            return Ok(number);
        }
    }
    Number::from_f64(number).ok_or_else(|| {
        let shown = match number {
            number if number.is_nan() => "NaN",
            number if number > 0.0 => "+Inf",
            _ => "-Inf",
        };
        format!("json: unsupported value: {shown}")
    })
}

/// Resolves a scalar by its tag or, if it has no tag and is plain, by its text.
///
/// # Errors
/// Fails if the text is invalid for the tag.
pub(super) fn resolve<'t>(
    text: &'t str,
    is_plain: bool,
    tag: Option<&Tag>,
) -> Result<Scalar<'t>, String> {
    let core = match tag.map(Tag::parts) {
        None if is_plain => return Ok(plain(text)),
        None => return Ok(Scalar::Text(text.into())),
        Some((handle, suffix)) => format!("{handle}{suffix}"),
    };
    let Some(core) = core.strip_prefix(CORE) else {
        return Ok(Scalar::Text(text.into()));
    };
    let found = match core {
        "str" => return Ok(Scalar::Text(text.into())),
        "binary" => {
            let bytes = BASE64_STANDARD.decode(text);
            let bytes = bytes.map_err(|_| "!!binary value contains invalid base64 data")?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return Ok(Scalar::Text(text.into()));
        }
        "bool" | "int" | "float" | "null" => plain(text),
        _ => return Ok(Scalar::Text(text.into())),
    };
    match (core, found) {
        ("float", Scalar::Integer(number)) => Ok(Scalar::Float(number as f64)),
        (core, found) if found.tag() == core => Ok(found),
        (core, found) => Err(format!(
            "cannot decode !!{} `{text}` as a !!{core}",
            found.tag()
        )),
    }
}

/// Resolves a plain (unquoted) scalar.
fn plain(text: &str) -> Scalar<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        "<<" => return Scalar::Merge,
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'0'..=b'9' | b'+' | b'-' if text.contains('_') => number(&text.replace('_', "")),
        b'0'..=b'9' | b'+' | b'-' => number(text),
        b'.' => float(text),
        _ => None,
    };
    number.unwrap_or(Scalar::Text(text.into()))
}

fn number(text: &str) -> Option<Scalar<'static>> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = |at: usize| digits.as_bytes().get(at).map(u8::to_ascii_lowercase);
    let (base, digits) = match (lower(0), lower(1), digits.len()) {
        (Some(b'0'), Some(b'b'), 3..) => (2, &digits[2..]),
        (Some(b'0'), Some(b'o'), 3..) => (8, &digits[2..]),
        (Some(b'0'), Some(b'x'), 3..) => (16, &digits[2..]),
        (Some(b'0'), Some(_), _) => (8, &digits[1..]),
        _ => (10, digits),
    };
    let is_of_base = |it: char| it.is_digit(base);
    if !digits.is_empty() && digits.chars().all(is_of_base) {
        let amount = u64::from_str_radix(digits, base).ok();
        // Go parses numbers over 63 bits as unsigned, without a sign.
        let is_unsigned = !text.starts_with(['+', '-']);
        let whole = amount.and_then(|amount| match is_negative {
            true => 0_i64.checked_sub_unsigned(amount).map(Scalar::Integer),
            false => match i64::try_from(amount) {
                Ok(number) => Some(Scalar::Integer(number)),
                Err(_) => is_unsigned.then_some(Scalar::Unsigned(amount)),
            },
        });
        if whole.is_some() {
            return whole;
        }
        if base != 10 && base != 8 {
            let digits = digits.chars().filter_map(|it| it.to_digit(base));
            let large = digits.fold(0.0, |sum, digit| sum * f64::from(base) + f64::from(digit));
            return Some(Scalar::Float(if is_negative { -large } else { large }));
        }
    }
    float(text)
}

/// Resolves a number with a decimal point or an exponent, or with too many digits for an integer;
/// `None` for any other text.
fn float(text: &str) -> Option<Scalar<'static>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_exponent = |exponent: &str| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    };
    let is_float = is_digits(whole)
        && is_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(is_exponent);
    let number: f64 = is_float.then(|| text.parse().ok()).flatten()?;
    // A number that is out of range is a string.
    number.is_finite().then_some(Scalar::Float(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_resolve_as_in_go_yaml() {
        for (text, wanted) in [
            ("0400", json!(256)),
            ("0o400", json!(256)),
            ("0O17", json!(15)),
            ("0x1F", json!(31)),
            ("-0x1f", json!(-31)),
            ("0b101", json!(5)),
            ("-0b1", json!(-1)),
            ("+7", json!(7)),
            ("0", json!(0)),
            ("00", json!(0)),
            ("-0", json!(0)),
            ("08", json!(8)),
            ("0_8", json!(8)),
            ("1_000", json!(1000)),
            ("1_000.5", json!(1000.5)),
            ("1e3", json!(1000)),
            ("1E-3", json!(0.001)),
            ("400.0", json!(400)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("5.", json!(5)),
            ("-.5", json!(-0.5)),
            ("9223372036854775807", json!(i64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551615", json!(u64::MAX)),
            ("99999999999999999999", json!(1e20)),
            ("1e400", json!("1e400")),
            ("12e", json!("12e")),
            (".", json!(".")),
            ("-", json!("-")),
            ("0b2", json!("0b2")),
            ("0x", json!("0x")),
            ("1:30", json!("1:30")),
            ("2026-01-02", json!("2026-01-02")),
            ("2026-01-02T03:04:05Z", json!("2026-01-02T03:04:05Z")),
            ("100m", json!("100m")),
            ("1Gi", json!("1Gi")),
            ("yes", json!(true)),
            ("On", json!(true)),
            ("y", json!(true)),
            ("NO", json!(false)),
            ("off", json!(false)),
            ("tRue", json!("tRue")),
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("nil", json!("nil")),
        ] {
            assert_eq!(plain(text).value().expect(text), wanted, "{text}");
            let quoted = resolve(text, false, None).expect("a quoted scalar is a string");
            assert_eq!(quoted, Scalar::Text(text.into()));
        }
    }

    #[test]
    fn a_tag_determines_the_type_of_a_text() {
        let tagged = |handle: &str, suffix: &str, text: &str| {
            let tag = Tag::new(handle, suffix);
            resolve(text, false, Some(&tag)).and_then(|found| found.value())
        };
        let core = |suffix: &str, text: &str| tagged(CORE, suffix, text);
        assert_eq!(core("str", "5"), Ok(json!("5")));
        assert_eq!(core("int", "5"), Ok(json!(5)));
        assert_eq!(core("float", "5"), Ok(json!(5)));
        assert_eq!(core("bool", "yes"), Ok(json!(true)));
        assert_eq!(core("binary", "YQ=="), Ok(json!("a")));
        assert_eq!(core("timestamp", "2026-01-02"), Ok(json!("2026-01-02")));
        assert_eq!(tagged("!", "mine", "5"), Ok(json!("5")));
        assert_eq!(tagged("", "!", "5"), Ok(json!("5")));
        let told = "cannot decode !!str `a` as a !!int";
        assert_eq!(core("int", "a"), Err(told.to_owned()));
        let told = "!!binary value contains invalid base64 data";
        assert_eq!(core("binary", "?"), Err(told.to_owned()));
    }

    #[test]
    fn names_of_members_are_strings() {
        for (text, wanted) in [
            ("a", Some("a")),
            ("yes", Some("true")),
            ("0x10", Some("16")),
            ("1.5", Some("1.5")),
            (".inf", Some(".inf")),
            ("-.inf", Some("-.inf")),
            (".nan", Some(".nan")),
            ("~", None),
        ] {
            assert_eq!(plain(text).name().as_deref(), wanted, "{text}");
        }
    }
}
