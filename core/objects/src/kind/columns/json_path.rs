//! Paths to values in an object: the subset of `kubectl`'s JSON paths that definitions of custom
//! kinds may use, which is members, entries, all entries, and entries that have a member with a
//! given value.
//!
//! Source: `client-go/util/jsonpath` in Kubernetes.

use serde_json::Value;

/// A path such as `.spec.replicas` or `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Member(String),
    /// An index, counted from the end if negative.
    Entry(i64),
    All,
    /// The entries that have this string at a path of members.
    Where(Vec<String>, String),
}

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// Returns why the path can't be parsed, and where.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        let mut segments = Vec::new();
        let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let mut rest = inner.unwrap_or(text).trim_start_matches('$');
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(bracket) => {
                    let end = bracket.find(']').ok_or("unterminated array")?;
                    segments.push(in_brackets(&bracket[..end])?);
                    &bracket[end + 1..]
                }
                None => {
                    let named = rest.strip_prefix('.').unwrap_or(rest);
                    let (name, after) = member(named);
                    match name.as_str() {
                        "" if after.starts_with('[') => {}
                        "" => return Err(format!("unexpected {after:?}")),
                        "*" => segments.push(Segment::All),
                        _ => segments.push(Segment::Member(name)),
                    }
                    after
                }
            };
        }
        let text = text.to_owned();
        Ok(JsonPath { text, segments })
    }

    /// Returns the path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the members of the path; `None` if the path has other segments.
    pub fn members(&self) -> Option<Vec<&str>> {
        let names = self.segments.iter().map(|segment| match segment {
            Segment::Member(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Returns the values at the path, in order.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let from = vec![object];
        self.segments.iter().fold(from, |found, segment| {
            let next = found.into_iter().map(|value| segment.select(value));
            next.flatten().collect()
        })
    }
}

impl Segment {
    fn select<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Segment::Member(name), Value::Object(members)) => {
                members.get(name).into_iter().collect()
            }
            (Segment::Entry(at), Value::Array(entries)) => {
                let length = i64::try_from(entries.len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { at + length } else { *at };
                let entry = usize::try_from(at).ok().and_then(|at| entries.get(at));
                entry.into_iter().collect()
            }
            (Segment::All, Value::Array(entries)) => entries.iter().collect(),
            (Segment::All, Value::Object(members)) => members.values().collect(),
            (Segment::Where(path, wanted), Value::Array(entries)) => {
                let fits = |entry: &&Value| {
                    let found = path.iter().try_fold(*entry, |value, name| value.get(name));
                    let found = found.map(|found| match found {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    });
                    found.as_ref() == Some(wanted)
                };
                entries.iter().filter(fits).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the name up to the next `.` or `[`, and the text after it. A `\` escapes the next
/// character.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(characters.next().map(|(_, literal)| literal)),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Parses the text between `[` and `]`.
fn in_brackets(text: &str) -> Result<Segment, String> {
    let unquoted = |text: &str| {
        let quoted = |mark: char| text.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
        quoted('\'').or_else(|| quoted('"')).map(str::to_owned)
    };
    if text == "*" {
        return Ok(Segment::All);
    }
    if let Some(name) = unquoted(text) {
        return Ok(Segment::Member(name));
    }
    if let Ok(at) = text.parse() {
        return Ok(Segment::Entry(at));
    }
    let filter = text.strip_prefix("?(").and_then(|it| it.strip_suffix(')'));
    let (left, right) = filter
        .and_then(|filter| filter.split_once("=="))
        .ok_or_else(|| format!("unrecognized [{text}]"))?;
    let left = left.trim().strip_prefix('@').unwrap_or(left.trim());
    let names = left.split('.').filter(|name| !name.is_empty());
    let right = right.trim();
    let wanted = unquoted(right).unwrap_or_else(|| right.to_owned());
    Ok(Segment::Where(names.map(str::to_owned).collect(), wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_the_values_that_definitions_name() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"size": 3, "list": [{"n": "a"}, {"n": "b"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Stale", "status": "False"}]},
        });
        for (path, found) in [
            (".spec.size", json!([3])),
            ("{.spec.size}", json!([3])),
            ("$.spec.list[1].n", json!(["b"])),
            (".spec.list[-1].n", json!(["b"])),
            (".spec.list[*].n", json!(["a", "b"])),
            (".spec.list[7].n", json!([])),
            (".spec['size']", json!([3])),
            (r".metadata.labels.a\.b/c", json!(["x"])),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type == 'Stale')].status",
                json!(["False"]),
            ),
            (".spec.none", json!([])),
            (".spec.size.more", json!([])),
        ] {
            let at = JsonPath::parse(path).unwrap();
            assert_eq!(json!(at.find(&object)), found, "{path}");
            assert_eq!(at.text(), path);
        }
        for path in [".spec[", ".spec..size", ".a[x]", ".a[?(@.b)]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        let plain = JsonPath::parse(".spec.replicas").unwrap();
        assert_eq!(plain.members(), Some(vec!["spec", "replicas"]));
        assert_eq!(JsonPath::parse(".a[0]").unwrap().members(), None);
    }
}
