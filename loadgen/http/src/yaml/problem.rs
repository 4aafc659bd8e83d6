//! What is wrong with a text that is no YAML, in the words of go-yaml where they are known.
//!
//! Source: `parserc.go` and `decode.go` of go-yaml 2.

/// The problem of a text that could not be read, after `yaml: `.
pub(crate) fn problem(text: &[u8], error: &serde_saphyr::Error) -> String {
    let told = error.to_string();
    let Some(close) = [("'{'", '}'), ("'['", ']')]
        .into_iter()
        .find_map(|(open, close)| {
            told.contains(&format!("unclosed bracket {open}"))
                .then_some(close)
        })
    else {
        return told;
    };
    // Where the text ends, which is at the begin of a line; lines are counted from nought there.
    let breaks = text.iter().filter(|byte| **byte == b'\n').count();
    let line = breaks + usize::from(!text.ends_with(b"\n"));
    match text.trim_ascii_end().last() {
        Some(b',' | b':' | b'{' | b'[') => {
            format!("line {line}: did not find expected node content")
        }
        _ => format!("line {line}: did not find expected ',' or '{close}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn what_is_left_open_is_told_as_go_yaml_tells_it() {
        for (text, told) in [
            ("{bad", "line 1: did not find expected ',' or '}'"),
            (
                "a: 1\nb: [1, 2\n",
                "line 2: did not find expected ',' or ']'",
            ),
            ("{a: [1", "line 1: did not find expected ',' or ']'"),
            ("{a: 1,\n", "line 1: did not find expected node content"),
        ] {
            let error = serde_saphyr::from_str::<serde_json::Value>(text).unwrap_err();
            assert_eq!(problem(text.as_bytes(), &error), told, "{text}");
        }
    }
}
