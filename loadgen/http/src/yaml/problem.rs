//! Errors in YAML texts, in the words of go-yaml where its message is known.
//!
//! Source: `scannerc.go`, `parserc.go` and `decode.go` of go-yaml 2.

use granit_parser::{ErrorKind, Marker, ScanError};
use podstorm_apiserver::limits::READ_DEPTH_MAX;

use super::read::Doubled;

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// The line, counted from 1.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
}

impl LineColumn {
    pub(super) fn of(at: Marker) -> LineColumn {
        LineColumn {
            line: at.line() as u64,
            column: at.col() as u64 + 1,
        }
    }
}

/// The error for a text that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The position of the error, if known.
    pub place: Option<LineColumn>,
    /// The message of go-yaml without its prefix `yaml: `, or that of Go's JSON encoder.
    pub told: String,
    /// The message without a position.
    pub plain: String,
    /// The class of the error.
    pub cause: Cause,
}

/// The class of an error in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The text is not valid YAML, or JSON cannot represent it.
    Text,
    /// The nesting is too deep.
    Depth,
    /// The expanded aliases exceed the limit.
    Aliases,
}

impl Problem {
    pub(super) fn new(place: Option<LineColumn>, told: String) -> Problem {
        Problem {
            place,
            plain: told.clone(),
            told,
            cause: Cause::Text,
        }
    }

    /// Formats the error as Kubernetes does.
    pub(crate) fn message(&self) -> String {
        // Errors of the JSON encoder, and about invalid map keys, have no prefix.
        let is_yaml = !self.told.starts_with("json: ") && !self.told.starts_with("unsupported map");
        format!("{}{}", if is_yaml { "yaml: " } else { "" }, self.told)
    }
}

/// Returns the error for a character that YAML does not allow.
pub(super) fn of_character(character: char) -> Problem {
    let told = match character {
        '\0'..='\u{9f}' => "control characters are not allowed",
        _ => "invalid Unicode character",
    };
    Problem::new(None, told.to_owned())
}

pub(super) fn too_deep(place: LineColumn) -> Problem {
    Problem {
        cause: Cause::Depth,
        ..Problem::new(
            Some(place),
            format!("is nested deeper than {READ_DEPTH_MAX} levels"),
        )
    }
}

pub(super) fn aliases(place: LineColumn) -> Problem {
    Problem {
        cause: Cause::Aliases,
        ..Problem::new(Some(place), "document contains excessive aliasing".into())
    }
}

/// The error for a character that cannot begin a token.
const NO_TOKEN: &str = "found character that cannot start any token";

/// Returns the error for a tab at the beginning of a token.
pub(super) fn tab(place: LineColumn) -> Problem {
    let told = match place.line {
        1 => NO_TOKEN.to_owned(),
        line => format!("line {line}: {NO_TOKEN}"),
    };
    Problem {
        plain: "a tab cannot be used as indentation".to_owned(),
        ..Problem::new(Some(place), told)
    }
}

/// Returns the message of go-yaml's strict decoder about repeated members.
pub(crate) fn doubled_message(doubled: &[Doubled]) -> String {
    // The JSON decoder's limit.
    const TOLD_MAX: usize = 100;
    let told = doubled.iter().take(TOLD_MAX).map(|one| {
        let (line, name) = (one.place.line, &one.name);
        format!("\n  line {line}: key {name:?} already set in map")
    });
    format!("yaml: unmarshal errors:{}", told.collect::<String>())
}

/// The part of go-yaml that reports the error. The scanner counts lines from 1, the parser from 0.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Scanner,
    Parser,
}

pub(super) fn of_scan(error: &ScanError, text: &str) -> Problem {
    let at = error.marker();
    let place = LineColumn::of(*at);
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        return too_deep(place);
    }
    let plain = error.info();
    let told = match words(error.kind()) {
        // The error for an unclosed collection is at the end of the text.
        Some((told, _)) if is_open(error.kind()) => told_at_end(text, told),
        Some((told, by)) => {
            let before = at.line().saturating_sub(1);
            match (before, by) {
                (0, _) => told.to_owned(),
                (before, By::Scanner) => format!("line {}: {told}", before + 1),
                (before, By::Parser) => format!("line {before}: {told}"),
            }
        }
        None => format!("line {}: {plain}", at.line()),
    };
    Problem {
        place: Some(place),
        told,
        plain,
        cause: Cause::Text,
    }
}

fn is_open(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnclosedFlowCollection { .. }
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::UnexpectedEofFlowSequence
    )
}

/// Returns the message about an error at the end of a text. go-yaml locates the end at the
/// beginning of a line, counted from 0.
fn told_at_end(text: &str, told: &str) -> String {
    let breaks = text.bytes().filter(|byte| *byte == b'\n').count();
    let line = breaks + usize::from(!text.ends_with('\n'));
    let told = match text.trim_ascii_end().as_bytes().last() {
        Some(b',' | b':' | b'{' | b'[') => "did not find expected node content",
        _ => told,
    };
    format!("line {line}: {told}")
}

fn words(kind: &ErrorKind) -> Option<(&'static str, By)> {
    use ErrorKind::*;
    const MAPPING: &str = "did not find expected ',' or '}'";
    const SEQUENCE: &str = "did not find expected ',' or ']'";
    Some(match kind {
        UnclosedFlowCollection { open: '{' }
        | MismatchedFlowCollectionEnd { open: '{', .. }
        | UnexpectedEofFlowMapping
        | UnexpectedEofImplicitFlowMapping
        | ExpectedFlowMappingSeparator => (MAPPING, By::Parser),
        UnclosedFlowCollection { .. }
        | MismatchedFlowCollectionEnd { .. }
        | UnexpectedEofFlowSequence
        | ExpectedFlowSequenceSeparator => (SEQUENCE, By::Parser),
        ExpectedBlockMappingKey => ("did not find expected key", By::Parser),
        ExpectedBlockSequenceEntry => ("did not find expected '-' indicator", By::Parser),
        ExpectedNodeContent | MisplacedFlowCollectionEnd => {
            ("did not find expected node content", By::Parser)
        }
        ExpectedDocumentStart => ("did not find expected <document start>", By::Parser),
        TabNotAllowed | TabInBlockIndentation | TabInIndentation | UnexpectedCharacter { .. } => {
            (NO_TOKEN, By::Scanner)
        }
        MappingValueNotAllowed => (
            "mapping values are not allowed in this context",
            By::Scanner,
        ),
        MappingKeyNotAllowed => ("mapping keys are not allowed in this context", By::Scanner),
        BlockSequenceEntryNotAllowed => (
            "block sequence entries are not allowed in this context",
            By::Scanner,
        ),
        SimpleKeyExpected | InvalidSimpleKey => ("could not find expected ':'", By::Scanner),
        UnclosedQuotedScalar => ("found unexpected end of stream", By::Scanner),
        DocumentIndicatorInQuotedScalar => ("found unexpected document indicator", By::Scanner),
        UnknownQuotedScalarEscape => ("found unknown escape character", By::Scanner),
        InvalidQuotedScalarHexEscape => ("did not find expected hexdecimal number", By::Scanner),
        MissingAnchorOrAliasName => (
            "did not find expected alphabetic or numeric character",
            By::Scanner,
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::read::read;

    #[test]
    fn errors_have_the_words_of_go_yaml() {
        for (text, told) in [
            ("{bad", "line 1: did not find expected ',' or '}'"),
            (
                "a: 1\nb: [1, 2\n",
                "line 2: did not find expected ',' or ']'",
            ),
            ("{a: [1", "line 1: did not find expected ',' or ']'"),
            ("{a: 1,\n", "line 1: did not find expected node content"),
            (
                "\tbad: tab\n",
                "found character that cannot start any token",
            ),
            (
                "a: 1\nb: c: d\n",
                "line 2: mapping values are not allowed in this context",
            ),
            (
                "a: 1\nb: @c\n",
                "line 2: found character that cannot start any token",
            ),
            (
                "a: 1\nb:\n\t- c\n",
                "line 3: found character that cannot start any token",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().told, told, "{text:?}");
        }
    }
}
