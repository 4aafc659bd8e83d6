//! Functions that compute cells.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Now, Time};

/// Returns `value` if it is a string that is not empty; otherwise `<none>`.
pub fn or_none(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if !text.is_empty() => text.clone().into(),
        _ => "<none>".into(),
    }
}

/// Returns the string at a JSON pointer; empty if there is none.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// Returns the integer at a JSON pointer; 0 if there is none.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the items of the list at a JSON pointer; no items if there is no list.
pub fn items<'v>(object: &'v Value, pointer: &str) -> impl DoubleEndedIterator<Item = &'v Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Returns the time since a timestamp, in the short form; `<unknown>` if it is not a time.
pub fn since(at: &Value, now: Now) -> String {
    let at = at.as_str().and_then(|text| text.parse::<Time>().ok());
    match at.and_then(|at| at.unix_nanos()) {
        Some(at) => duration(now.wall_ns.saturating_sub(at) / 1_000_000_000),
        None => "<unknown>".to_owned(),
    }
}

/// Formats a number of seconds in the short form: `5s`, `3m10s`, `2d4h`, `3y20d`.
///
/// Source: `duration.HumanDuration` in apimachinery.
pub fn duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // Two units, unless the smaller one is zero.
    let two = |big: i64, big_unit: char, small: i64, small_unit: char| {
        let (whole, rest) = (seconds / big, seconds % big / small);
        match rest {
            0 => format!("{whole}{big_unit}"),
            rest => format!("{whole}{big_unit}{rest}{small_unit}"),
        }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Returns the member `member` of each container in a pod template, e.g. the names, separated by
/// commas.
pub fn containers(object: &Value, member: &str) -> Value {
    let all = items(object, "/spec/template/spec/containers");
    let texts: Vec<&str> = all.filter_map(|one| one[member].as_str()).collect();
    texts.join(",").into()
}

/// Formats a map of labels as `kubectl -l` accepts it.
pub fn pairs(map: &Value) -> Value {
    let pairs = map.as_object().into_iter().flatten();
    let texts: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    match texts.is_empty() {
        true => "<none>".into(),
        false => texts.join(",").into(),
    }
}

/// Formats a label selector as `kubectl -l` accepts it.
pub fn selector(selector: &Value) -> Value {
    let mut text = String::new();
    if let Value::String(labels) = pairs(&selector["matchLabels"])
        && labels != "<none>"
    {
        text = labels;
    }
    for part in items(selector, "/matchExpressions") {
        let (key, values) = (part["key"].as_str().unwrap_or(""), items(part, "/values"));
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match part["operator"].as_str().unwrap_or("") {
            "In" => write!(text, "{comma}{key} in ({})", values.join(",")),
            "NotIn" => write!(text, "{comma}{key} notin ({})", values.join(",")),
            "Exists" => write!(text, "{comma}{key}"),
            _ => write!(text, "{comma}!{key}"),
        };
    }
    match text.is_empty() {
        true => "<none>".into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_or_two_units() {
        const DAY: i64 = 86_400;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 120, "7h2m"),
            (8 * 3600 + 120, "8h"),
            (2 * DAY + 3600, "2d1h"),
            (8 * DAY + 3600, "8d"),
            (2 * 365 * DAY + DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }
}
