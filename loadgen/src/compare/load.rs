//! Reads files of results: one result of `run --json`, the results of `run --runs --json`, a JSON
//! array of results, or several results in sequence (JSON lines).

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::metrics::MetricValues;
use crate::units::without_mark;

/// A result and its origin.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file and, if it contains several results, the number of the result: `a.json`,
    /// `a.json (result 2)`.
    pub place: String,
    /// The metrics of the result.
    pub metrics: MetricValues,
}

/// The maximum size of a file of results, in bytes; one result takes about 100 kB.
const MAX_BYTES: u64 = 256 << 20;

/// A member of a result: its name, its expected type, and a check of its value.
type Member = (&'static str, &'static str, fn(&Value) -> bool);

/// The members that identify a JSON object as a result, with their types.
const NEEDED: [Member; 6] = [
    ("schema_version", "a number", Value::is_u64),
    ("scenario", "a text", Value::is_string),
    ("engine", "a text", Value::is_string),
    ("behaviour", "a text", Value::is_string),
    ("seed", "a number", Value::is_u64),
    ("settings", "an object", Value::is_object),
];

/// Reads the results in a file; `-` is standard input.
///
/// # Errors
/// The file can't be read, is not JSON, or contains something other than results.
pub fn read(path: &Path) -> Result<Vec<Loaded>> {
    let mut text = String::new();
    let (shown, read) = if path.as_os_str() == "-" {
        let read = io::stdin()
            .lock()
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text);
        ("standard input".to_owned(), read)
    } else {
        let file = fs::File::open(path);
        let read = file.and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
        (path.display().to_string(), read)
    };
    if let Err(error) = read {
        match error.kind() {
            io::ErrorKind::NotFound => bail!("{shown}: there is no such file"),
            io::ErrorKind::InvalidData => bail!("{shown}: is not text, and so not JSON"),
            io::ErrorKind::IsADirectory => bail!("{shown}: is a directory; expected a file"),
            _ => bail!("{shown}: can't be read: {error}"),
        }
    }
    if text.len() as u64 > MAX_BYTES {
        bail!("{shown}: is larger than 256 MiB: it contains too many results, or something else");
    }
    read_text(&shown, without_mark(&text))
}

/// Parses the results in a string; `shown` names their origin in errors.
///
/// # Errors
/// The string is not JSON, or contains something other than results.
pub fn read_text(shown: &str, text: &str) -> Result<Vec<Loaded>> {
    let mut values: Vec<Value> = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value {
            Ok(Value::Array(items)) => values.extend(items),
            Ok(Value::Object(mut members)) if members.contains_key("results") => {
                match members.remove("results") {
                    Some(Value::Array(items)) => values.extend(items),
                    _ => {
                        bail!(
                            "{shown}: not a result of `loadgen run --json`: results is not an array"
                        )
                    }
                }
            }
            Ok(value) => values.push(value),
            Err(error) => bail!("{shown}: is not JSON: {error}"),
        }
    }
    if values.is_empty() {
        bail!("{shown}: contains no result; `loadgen run --json FILE` writes one");
    }
    let several = values.len() > 1;
    let mut loaded = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let place = match several {
            true => format!("{shown} (result {})", index + 1),
            false => shown.to_owned(),
        };
        check(&place, &value)?;
        let metrics = MetricValues::from_json(value);
        loaded.push(Loaded { place, metrics });
    }
    Ok(loaded)
}

fn check(place: &str, value: &Value) -> Result<()> {
    let wrong = |problem| bail!("{place}: not a result of `loadgen run --json`: {problem}");
    let Some(members) = value.as_object() else {
        return wrong("expected a JSON object".to_owned());
    };
    if members.contains_key("cells") {
        return wrong(
            "it is the output of `loadgen sweep --json`, whose cells contain results".to_owned(),
        );
    }
    for (name, kind, is_right) in NEEDED {
        match members.get(name) {
            None => return wrong(format!("{name} is missing")),
            Some(member) if !is_right(member) => return wrong(format!("{name} is not {kind}")),
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        super::super::tests::result(serde_json::json!({}))
            .metrics
            .json()
            .to_string()
    }

    #[test]
    fn a_result_an_array_and_json_lines_are_accepted() {
        let one = text();
        assert_eq!(read_text("a.json", &one).unwrap()[0].place, "a.json");
        for several in [
            format!("[{one}, {one}]"),
            format!("{one}\n{one}\n"),
            format!("{{\"summary\": [], \"results\": [{one}, {one}]}}"),
        ] {
            let loaded = read_text("a.json", &several).unwrap();
            assert_eq!(loaded.len(), 2);
            assert_eq!(loaded[1].place, "a.json (result 2)");
        }
    }

    #[test]
    fn files_without_a_result_are_refused() {
        let without_seed = text().replace("\"seed\"", "\"sead\"");
        let seed_text = text().replace("\"seed\":1", "\"seed\":\"x\"");
        for (text, words) in [
            ("", "contains no result"),
            ("[]", "contains no result"),
            ("{\"results\": []}", "contains no result"),
            ("{\"results\": 5}", "results is not an array"),
            ("hello", "is not JSON: expected"),
            ("{\"a\": ", "is not JSON: EOF"),
            ("5", "expected a JSON object"),
            ("{}", "schema_version is missing"),
            ("{\"cells\": []}", "loadgen sweep"),
            (without_seed.as_str(), "seed is missing"),
            (seed_text.as_str(), "seed is not a number"),
        ] {
            let problem = read_text("a.json", text).unwrap_err().to_string();
            assert!(problem.starts_with("a.json"), "{problem}");
            assert!(problem.contains(words), "{text}: {problem}");
        }
        let problem = read(Path::new("none.json")).unwrap_err().to_string();
        assert_eq!(problem, "none.json: there is no such file");
    }
}
