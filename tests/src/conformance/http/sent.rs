//! Request bodies as they were sent: with the original order of members, notation of numbers, and
//! spaces.

use serde_json::Value;

/// Stores the text of each JSON body in its step. `line` is the text of the case. Bodies that
/// contain long runs are not changed.
///
/// The recorder sent a space after each comma and colon, but did not record it. Upstream keeps
/// these spaces in the data of a ControllerRevision, and rejects a change that removes them.
pub fn keep_texts(case: &mut Value, line: &str) {
    let steps = case["steps"].as_array_mut().into_iter().flatten();
    let texts = member(line, "steps").map(parts).unwrap_or_default();
    for (step, text) in steps.zip(texts) {
        let Some(body) = member(text, "body").filter(|body| !body.contains("\"$repeat")) else {
            continue;
        };
        if let Some(members) = step.as_object_mut() {
            members.remove("body");
            members.insert("bodyText".to_owned(), with_blanks(body).into());
        }
    }
}

/// Adds a space after each comma and colon of a compact JSON text.
pub(super) fn with_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some(at) = rest.find(['"', ',', ':']) {
        let end = match rest.as_bytes()[at] {
            b'"' => end_of_string(rest, at),
            _ => at + 1,
        };
        out.push_str(&rest[..end]);
        if rest.as_bytes()[at] != b'"' {
            out.push(' ');
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Returns the text of a member of an object; `None` if the object lacks it. The name must not need
/// escapes.
fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    let parts = parts(object);
    let mut members = parts.iter().filter_map(|part| {
        let end = end_of_string(part, part.find('"')?);
        let (found, value) = part.split_at(end);
        Some((found.trim(), value.trim_start().strip_prefix(':')?.trim()))
    });
    let quoted = format!("\"{name}\"");
    members
        .find(|(found, _)| *found == quoted)
        .map(|(_, value)| value)
}

/// Splits the content of a list or an object at its commas.
fn parts(text: &str) -> Vec<&str> {
    let text = text.trim();
    let inside = &text[1..text.len() - 1];
    let (mut parts, mut depth, mut begin, mut at) = (Vec::new(), 0, 0, 0);
    while let Some(byte) = inside.as_bytes().get(at) {
        match byte {
            b'"' => {
                at = end_of_string(inside, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(inside[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = inside[begin..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Returns the end of the string that starts at `at`.
fn end_of_string(text: &str, at: usize) -> usize {
    let mut bytes = text.bytes().enumerate().skip(at + 1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return at + 1,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_sent_as_they_were_recorded() {
        let line = r#"{"id":"a","steps":[{"path":"/x","body":{"b":[1,{}],"a\"":99999999999999999999}},
            {"path":"[,"},{"body":{"a":{"$repeat":[2,"x"]}}},{"body":[]}]}"#;
        let mut case: Value = serde_json::from_str(line).unwrap();
        keep_texts(&mut case, line);
        let body = r#"{"b": [1, {}], "a\"": 99999999999999999999}"#;
        assert_eq!(case["steps"][0]["bodyText"], body);
        assert_eq!(case["steps"][0].get("body"), None);
        assert_eq!(case["steps"][1].get("bodyText"), None);
        assert_eq!(case["steps"][2]["body"]["a"]["$repeat"][0], 2);
        assert_eq!(case["steps"][3]["bodyText"], "[]");
    }
}
