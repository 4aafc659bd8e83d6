//! Pretty-printed JSON for human readers: on request (`pretty`), and by default for browsers and
//! curl.
//!
//! Source: `isPrettyPrint` in `endpoints/handlers/negotiation` of Kubernetes' apiserver; Go's
//! `json.Indent`.

use http::Method;
use http::header::{ACCEPT, USER_AGENT};
use http::request::Parts;

use crate::query::Query;
use crate::route::Route;

/// The prefixes of the `User-Agent` headers of interactive programs.
const OF_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Reports whether JSON answers to the request are pretty-printed.
pub(crate) fn is_wanted(head: &Parts, route: &Route, query: &Query<'_>) -> bool {
    let headers = &head.headers;
    match route {
        // Upstream always pretty-prints these.
        Route::Root | Route::Version => return head.method == Method::GET,
        Route::CoreVersions
        | Route::Groups
        | Route::Group(_)
        | Route::Resources(_)
        | Route::Objects(_)
        | Route::Review(..)
        | Route::UnknownResource => {}
        _ => return false,
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_meant = match query.text("pretty") {
        "" => {
            let agent = text(USER_AGENT).unwrap_or("");
            OF_PEOPLE.iter().any(|program| agent.starts_with(program))
        }
        said => ["1", "t", "T", "true", "TRUE", "True"].contains(&said),
    };
    is_meant || {
        let said = text(ACCEPT).unwrap_or("");
        said.contains("pretty=1") && said.split([',', ';']).any(|part| part.trim() == "pretty=1")
    }
}

/// Pretty-prints JSON piece by piece. Input that is not JSON comes out mangled.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// Whether the previous token opened an object or a list.
    is_new: bool,
}

impl Indenter {
    /// Returns the next piece pretty-printed. O(bytes + indentation).
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        for byte in bytes {
            self.put(*byte, &mut out);
        }
        out
    }

    fn put(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.is_in_text {
            out.push(byte);
            self.is_in_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let was_new = std::mem::take(&mut self.is_new);
        match byte {
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !was_new {
                    self.break_line(out);
                }
            }
            _ if was_new => self.break_line(out),
            _ => {}
        }
        out.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.is_new = true;
            }
            b',' => self.break_line(out),
            b':' => out.push(b' '),
            b'"' => self.is_in_text = true,
            _ => {}
        }
    }

    fn break_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_is_pretty_printed_from_any_pieces() {
        let document = json!({"a": {}, "b": [], "c": [1, {"d": "x{[,:]}\\\" \u{e9}\n", "": null}],
            "e": true, "f": [[[]]], "g": -1.5e7});
        let lines = serde_json::to_string_pretty(&document).expect("JSON");
        let text = document.to_string();
        for cut in 0..=text.len() {
            let mut indenter = Indenter::default();
            let mut out = indenter.push(&text.as_bytes()[..cut]);
            out.extend(indenter.push(&text.as_bytes()[cut..]));
            assert_eq!(String::from_utf8(out).as_deref(), Ok(lines.as_str()));
        }
        let again = Indenter::default().push(lines.as_bytes());
        assert_eq!(again, lines.as_bytes());
        assert_eq!(
            serde_json::from_str::<Value>(&lines).expect("JSON"),
            document
        );
    }

    #[test]
    fn invalid_json_does_not_panic() {
        for text in ["", "]]]}", "{{{", "\"", "\\", "a b"] {
            let _something = Indenter::default().push(text.as_bytes());
        }
    }
}
