//! Bodies that are too large for recordings, which contain only their size and a description.

use serde_json::json;

/// Builds a body of the given size from its description.
///
/// # Errors
/// Fails if the description is unknown, or if the body has another size.
pub(super) fn body(note: &str, bytes: u64) -> Result<String, String> {
    let unknown = || format!("unknown body: {note}");
    let text = |words: &str| {
        let count = words.strip_suffix(" times x").ok_or_else(unknown)?;
        let count: usize = count.parse().map_err(|_| unknown())?;
        Ok::<_, String>("x".repeat(count))
    };
    let body = if let Some(words) = note.strip_prefix("body: merge patch data.a = ") {
        json!({"data": {"a": text(words)?}})
    } else {
        let words = note.strip_prefix("body: JSON of a ConfigMap named ");
        let (name, words) = words
            .and_then(|words| words.split_once(" with data.a of "))
            .ok_or_else(unknown)?;
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"a": text(words)?}})
    };
    let body = body.to_string();
    match body.len() as u64 == bytes {
        true => Ok(body),
        false => Err(format!("{} bytes, recorded {bytes}: {note}", body.len())),
    }
}
