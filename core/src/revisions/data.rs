//! The data of a revision: a pod template exactly as upstream writes it, byte for byte, and the
//! hash of these bytes.

use std::fmt::Write as _;

use compact_str::{CompactString, ToCompactString as _};
use podstorm_objects::Map;
use serde_json::{Number, Value, json};

use crate::template::{Mismatch, as_upstream_writes};

/// The data that a revision stores about its workload: the patch that restores the template.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionData {
    value: Value,
}

impl RevisionData {
    /// Returns the data for a template. O(bytes).
    ///
    /// # Errors
    /// Fails if the template has a value of the wrong type.
    ///
    /// Source: `getPatch` of Kubernetes' `pkg/controller/statefulset`, and its twin in the
    /// DaemonSet controller.
    pub fn of_template(template: &Value) -> Result<RevisionData, Mismatch> {
        let mut template = as_upstream_writes(template)?;
        pass_through_doubles(&mut template);
        template["$patch"] = "replace".into();
        let value = json!({"spec": {"template": template}});
        Ok(RevisionData { value })
    }

    /// Returns the data as the JSON value that a revision contains.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the string whose bytes upstream hashes. O(bytes).
    pub fn text(&self) -> String {
        let mut text = String::new();
        write(&self.value, &mut text);
        text
    }
}

/// Returns the hash of a revision's data, in characters that can't form words. `collision_count` is
/// that in the workload's status; 0 and `None` result in different hashes.
///
/// Source: `HashControllerRevision` of Kubernetes' `pkg/controller/history`.
pub fn revision_hash(data: &str, collision_count: Option<i32>) -> CompactString {
    const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let count = collision_count.map(|count| count.to_compact_string());
    let count = count.as_deref().unwrap_or_default();
    let bytes = data.bytes().chain(count.bytes());
    // FNV-1. With its two steps in the other order it would be FNV-1a, which names ReplicaSets.
    let hash = bytes.fold(2_166_136_261_u32, |hash, byte| {
        hash.wrapping_mul(16_777_619) ^ u32::from(byte)
    });
    let digits = hash.to_compact_string();
    let safe = |digit: u8| char::from(SAFE[usize::from(digit) % SAFE.len()]);
    digits.bytes().map(safe).collect()
}

/// Converts all numbers to doubles and back. Upstream reads the JSON of the template without types,
/// so that every number is a double.
fn pass_through_doubles(value: &mut Value) {
    match value {
        Value::Number(number) => *number = as_double(number),
        Value::Array(items) => items.iter_mut().for_each(pass_through_doubles),
        Value::Object(members) => members.values_mut().for_each(pass_through_doubles),
        _ => {}
    }
}

/// Returns the number with the fewest decimal digits that reads back as the same double.
fn as_double(number: &Number) -> Number {
    let shortest = number.as_f64().map(|double| double.to_string());
    let read = shortest.and_then(|text| text.parse().ok());
    read.unwrap_or_else(|| number.clone())
}

/// Writes JSON as Go does: compact, with members sorted by bytes, and with more characters escaped
/// than necessary.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(at, out);
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => write_members(members, out),
        // Writing to a string can't fail.
        other => _ = write!(out, "{other}"),
    }
}

fn write_members(members: &Map, out: &mut String) {
    out.push('{');
    for (at, (name, value)) in members.iter().enumerate() {
        separate(at, out);
        write_text(name, out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

fn separate(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                _ = write!(out, "\\u{:04x}", u32::from(character));
                continue;
            }
            other => {
                out.push(other);
                continue;
            }
        };
        out.push_str(escape);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_go_escapes_them() {
        let mut out = String::new();
        write(
            &json!({"b": "<\u{8}\u{1}\u{7f}é\u{2028}\"\\", "a": [1, null]}),
            &mut out,
        );
        assert_eq!(
            out,
            "{\"a\":[1,null],\"b\":\"\\u003c\\b\\u0001\u{7f}é\\u2028\\\"\\\\\"}"
        );
    }

    #[test]
    fn numbers_round_trip_through_doubles() {
        for (number, double) in [
            (9_007_199_254_740_993_i64, "9007199254740992"),
            (4_611_686_018_427_387_905, "4611686018427388000"),
            (i64::MAX, "9223372036854775807"),
            (30, "30"),
        ] {
            let text = as_double(&number.into()).to_string();
            // The last number no longer fits into a signed 64-bit number.
            let double = if number == i64::MAX {
                "9223372036854775808"
            } else {
                double
            };
            let read = |text: &str| text.parse::<f64>().ok();
            assert_eq!(read(&text), read(double));
            assert!(number == i64::MAX || text == double);
        }
    }
}
