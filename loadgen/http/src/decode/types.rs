//! Scalar types: their valid values, and upstream's messages about invalid ones.
//!
//! Source: `UnmarshalTypeError` of Go's `encoding/json`; `FromUnstructured` and the types of
//! apimachinery that decode themselves.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use base64::{DecodeError, DecodeSliceError};
use podstorm_apiserver::schemas::referred;
use podstorm_objects::{
    Quantity, Time, TimeError, canonical_quantity, is_canonical_quantity, milli_quantity,
};
use serde_json::{Number, Value};

use super::pass::{At, By, Of};
use crate::json_syntax;

/// A type error.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The value has the wrong type. Decoding continues, and only the first such error is reported.
    GoesOn(String),
    /// A type with its own decoder rejects the value. This ends decoding.
    Ends(String),
}

/// Returns the error for a value of the JSON type `found` where the type `of` is expected.
pub(super) fn wrong(of: Of<'_>, found: &str, by: By, at: &At<'_>) -> Wrong {
    match of.last() {
        "Quantity" => Wrong::Ends(NO_QUANTITY.to_owned()),
        // The decoders of these types expect a string or an int32.
        "Time" | "MicroTime" => Wrong::Ends(unmarshal(found, "string", at)),
        "IntOrString" => Wrong::Ends(unmarshal(found, "int32", at)),
        _ if by == By::Json => Wrong::GoesOn(unmarshal(found, &go_type(of.property), at)),
        _ => Wrong::Ends(unconvertible(of, found)),
    }
}

fn unmarshal(found: &str, wanted: &str, at: &At<'_>) -> String {
    let field = at.go_field();
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
}

/// Returns the conversion's message for a value of the JSON type `found`.
fn unconvertible(of: Of<'_>, found: &str) -> String {
    let source = match found {
        "array" => "slice",
        "object" => "map",
        found => found,
    };
    let go = go_type(of.property);
    let is_map = of.schema.get("additionalProperties").is_some();
    match (of.json_type(), source) {
        ("array", _) => format!("cannot restore slice from {source}"),
        ("object", _) if is_map => format!("cannot restore map from {source}"),
        ("object", _) => format!("cannot restore struct from: {source}"),
        (_, "int64" | "float64") => format!("cannot convert {source} to {go}"),
        _ => format!("unrecognized type: {go}"),
    }
}

/// Checks and normalizes a scalar.
///
/// # Errors
/// Fails if the value is invalid for its type.
pub(super) fn scalar(of: Of<'_>, value: Value, by: By, at: &At<'_>) -> Result<Value, Wrong> {
    let found = |value: &Value| match value {
        Value::Number(number) if by == By::Conversion => match number.is_i64() {
            true => "int64".to_owned(),
            false => "float64".to_owned(),
        },
        // Messages quote a number that is out of the range of its type.
        Value::Number(number) if is_number(of) => format!("number {}", go_number(number)),
        other => json_syntax::name_of(other).to_owned(),
    };
    let refuse = |value: &Value| Err(wrong(of, &found(value), by, at));
    match of.last() {
        "Quantity" => return quantity(value, at),
        "IntOrString" => {
            let fits = match &value {
                Value::Number(number) => fits_int32(number),
                other => other.is_string(),
            };
            return if fits { Ok(value) } else { refuse(&value) };
        }
        "Time" | "MicroTime" => {
            return match value {
                Value::String(text) => time(text, of.last() == "MicroTime"),
                other => refuse(&other),
            };
        }
        _ => {}
    }
    if of.is.is_int_or_string() {
        let fits = value.is_string() || value.is_number();
        return if fits { Ok(value) } else { refuse(&value) };
    }
    match (of.json_type(), value) {
        ("string", Value::String(text)) if of.is.is_bytes() => {
            match wrong_base64(&text) {
                None => Ok(text.into()),
                Some(told) => Err(Wrong::GoesOn(told)),
            }
        }
        ("string", value @ Value::String(_))
        | ("boolean", value @ Value::Bool(_))
        | ("number", value @ Value::Number(_))
        // A schema without a type accepts any value.
        | ("", value) => Ok(value),
        ("integer", Value::Number(number)) => integer(of, number, by).or_else(|value| refuse(&value)),
        (_, value) => refuse(&value),
    }
}

fn is_number(of: Of<'_>) -> bool {
    of.json_type() == "integer" || of.last() == "IntOrString"
}

fn fits_int32(number: &Number) -> bool {
    number.as_i64().is_some_and(|it| i32::try_from(it).is_ok())
}

fn integer(of: Of<'_>, number: Number, by: By) -> Result<Value, Value> {
    const WHOLE_MAX: f64 = 9.2e18;
    let is_short = of.is.is_int32();
    let fits = |number: &Number| number.is_i64() && (!is_short || fits_int32(number));
    if fits(&number) {
        return Ok(number.into());
    }
    let whole = number
        .as_f64()
        .filter(|it| it.fract() == 0.0 && it.abs() < WHOLE_MAX);
    match (by, whole) {
        (By::Conversion, Some(whole)) if number.is_f64() => {
            let whole = Number::from(whole as i64);
            if fits(&whole) {
                Ok(whole.into())
            } else {
                Err(number.into())
            }
        }
        _ => Err(number.into()),
    }
}

/// Formats a number as Go does: without a decimal point if it has no fraction.
fn go_number(number: &Number) -> String {
    const WITH_EXPONENT: f64 = 1e21;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.abs() < WITH_EXPONENT => float.to_string(),
        _ => number.to_string(),
    }
}

/// Returns Go's name for the type of a property.
fn go_type(property: &Value) -> String {
    if let Some((name, _)) = referred(property) {
        let mut parts = name.rsplit('.');
        let (last, version) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        return format!("{version}.{last}");
    }
    let format = property["format"].as_str();
    match (property["type"].as_str().unwrap_or(""), format) {
        ("string", Some("byte")) => "[]uint8".to_owned(),
        ("boolean", _) => "bool".to_owned(),
        ("integer", format) => format.unwrap_or("int64").to_owned(),
        ("number", _) => "float64".to_owned(),
        ("array", _) => format!("[]{}", go_type(&property["items"])),
        ("object", _) => match property.get("additionalProperties") {
            Some(each) => format!("map[string]{}", go_type(each)),
            None => "map[string]interface {}".to_owned(),
        },
        (other, _) => other.to_owned(),
    }
}

const NO_QUANTITY: &str = "quantities must match the regular expression \
                           '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Normalizes a quantity. Most quantities are already canonical. Resource amounts, which are values
/// of maps, are rounded up to thousandths.
///
/// Source: `resource.ParseQuantity` of apimachinery.
fn quantity(value: Value, at: &At<'_>) -> Result<Value, Wrong> {
    if value.as_str().is_some_and(is_canonical_quantity) {
        return Ok(value);
    }
    let text = match (Quantity::from_json(&value), &value) {
        (Ok(_), Value::String(text)) => text,
        (Ok(_), Value::Number(number)) => &go_number(number),
        _ => return Err(Wrong::Ends(NO_QUANTITY.to_owned())),
    };
    let spelled = match at.is_key() {
        true => milli_quantity(text),
        false => canonical_quantity(text),
    };
    Ok(spelled.map_or(value, Value::from))
}

/// Normalizes a time to Go's format: in UTC, in whole seconds or with six fractional digits. The
/// zero time becomes null.
///
/// Source: `metav1.Time` and `MicroTime` of apimachinery.
fn time(text: String, is_micro: bool) -> Result<Value, Wrong> {
    const LAYOUTS: [&str; 2] = [
        "2006-01-02T15:04:05Z07:00",
        "2006-01-02T15:04:05.000000Z07:00",
    ];
    let layout = LAYOUTS[usize::from(is_micro)];
    let told = |error: TimeError| Wrong::Ends(error.told(&text, layout));
    if is_micro {
        let (time, micros) = Time::read_micros(&text).map_err(told)?;
        return Ok(match time.is_unset() {
            true => Value::Null,
            false => format!("{}.{micros:06}Z", time.to_string().trim_end_matches('Z')).into(),
        });
    }
    let time = Time::read(&text).map_err(told)?;
    Ok(match time {
        time if time.is_unset() => Value::Null,
        time if time.is_written(&text) => text.into(),
        time => time.to_string().into(),
    })
}

fn wrong_base64(text: &str) -> Option<String> {
    // Go's decoder ignores line ends.
    let text: String = text
        .chars()
        .filter(|it| !matches!(it, '\r' | '\n'))
        .collect();
    let mut out = vec![0; text.len()];
    let at = match BASE64_STANDARD.decode_slice(&text, &mut out).err()? {
        DecodeSliceError::DecodeError(
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _),
        ) => at,
        // Go reports an incomplete group of four, or the end if the padding is incomplete.
        _ if text.ends_with('=') => text.len(),
        _ => text.len() / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

/// Quotes a string as Go's `%q` does.
pub(crate) fn go_quoted(text: &str) -> String {
    let each = text.chars().map(|it| match it {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        it if it.is_ascii_control() => format!("\\x{:02x}", u32::from(it)),
        it if it.is_control() => format!("\\u{:04x}", u32::from(it)),
        it => it.to_string(),
    });
    format!("\"{}\"", each.collect::<String>())
}
