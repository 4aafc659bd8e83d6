//! YAML files: the stream is cut into documents as it is read, so that only one document is in
//! memory, errors have its number, and lines count from the start of the file. Even a single
//! document is not held completely if it is a large list: its items are cut out (`yaml_list`).

use std::io::{self, BufRead, Read};

use podstorm_http::documents::{self, Cause};
use podstorm_located::{Located, Mistake, Place};
use podstorm_objects::decode::describe;
use podstorm_objects::json::{JsonValue, Tape};
use serde_json::Value;

use super::collect::Collector;
use super::decode;
use super::document::{self, Document, NO_ITEMS, OBJECT};
use super::error::ManifestError;
use super::json::given_twice;
use super::text::{NUL, nul_in, place_of};
use super::yaml_list;

/// The words for a text that ends too early.
pub(super) const CUT_OFF: &str = "cut off";

/// The size from which the list in a document is read item by item, in bytes.
const LARGE_BYTES: usize = 4 << 20;

/// The maximum number of bytes of text to hold, for a document or for an item of a large list.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Reads every document in a stream.
pub(super) fn read(
    reader: impl BufRead,
    collector: &mut Collector,
) -> Result<(), Box<ManifestError>> {
    read_in_pieces(reader, LARGE_BYTES, collector)
}

/// Like [`read`], with a different threshold for large documents.
pub(super) fn read_in_pieces(
    reader: impl BufRead,
    large_bytes: usize,
    collector: &mut Collector,
) -> Result<(), Box<ManifestError>> {
    let mut chunks = Chunks::new(reader);
    loop {
        let chunk = chunks.next(large_bytes);
        let Some(mut chunk) = chunk.map_err(|e| collector.unreadable(&e, chunks.bytes))? else {
            return Ok(());
        };
        collector.begin_document();
        if !chunk.is_whole {
            if let Some(list) = yaml_list::Items::begin(&chunk) {
                list.read(chunk, large_bytes, &mut chunks, collector)?;
                continue;
            }
            // Stop if the text is invalid.
            chunk_text(&chunk, collector)?;
            while !chunk.is_whole {
                let more = chunks.append(&mut chunk, usize::MAX);
                more.map_err(|e| collector.unreadable(&e, chunks.bytes))?;
            }
        }
        read_whole(&chunk, chunks.is_at_end, collector)?;
    }
}

fn read_whole(
    chunk: &Chunk,
    is_last: bool,
    collector: &mut Collector,
) -> Result<(), Box<ManifestError>> {
    let text = chunk_text(chunk, collector)?;
    let quick = Tape::from_block_yaml(text.strip_prefix("---\n").unwrap_or(text));
    let read;
    let tape = match quick.filter(|tape| tape.root().is_object()) {
        Some(tape) => tape,
        None => {
            read = read_document(text).map_err(|error| {
                let mut error = placed(error, chunk, is_last, collector);
                let line = error.position.map_or(0, |at| at.line);
                if !error.problem.contains(CUT_OFF) {
                    add_open_end(&mut error, chunk, is_last, |end| line >= end.first_line);
                }
                error
            })?;
            Tape::new(&read)
        }
    };
    if tape.root().is_null() {
        return collector.end_document(Document::Empty, Vec::new());
    }
    let Some((members, items)) = document::list_of(tape.root()) else {
        return collector.end_document(Document::Object(tape.root().to_map()), Vec::new());
    };
    if !items.is_list() && !items.is_null() {
        let place = Located::from_yaml(text).map(|read| read.place_of("items"));
        let problem = NO_ITEMS.to_owned();
        let mistake = Mistake {
            place: place.ok(),
            problem,
        };
        return Err(placed(mistake, chunk, is_last, collector));
    }
    let items: Vec<JsonValue<'_>> = items.items().collect();
    let decoded = decode::all(&items, |item| {
        decode::item(*item, &members, &collector.checked)
    });
    // An item without a kind can't get one from this list, and is an error.
    let taken = collector.take_items(0, decoded, |_, position| position);
    taken.map_err(|(at, mut error)| {
        add_open_end(&mut error, chunk, is_last, |end| end.item == at);
        error
    })?;
    collector.end_document(Document::List(members), Vec::new())
}

/// Adds to an error in the last item of a list without an end that the file was cut off.
fn add_open_end(
    error: &mut ManifestError,
    chunk: &Chunk,
    is_last: bool,
    is_there: impl FnOnce(&yaml_list::OpenEnd) -> bool,
) {
    let open = yaml_list::open_end(chunk).filter(|end| is_last && is_there(end));
    if let Some(end) = open {
        error.problem.push_str(&end.words());
    }
}

/// Returns the text of a chunk. Text that is not UTF-8 is an error.
pub(super) fn chunk_text<'a>(
    chunk: &'a Chunk,
    collector: &Collector,
) -> Result<&'a str, Box<ManifestError>> {
    if let Some(place) = nul_in(&chunk.text) {
        return Err(collector.at(Some(chunk.in_file(place)), NUL.to_owned()));
    }
    std::str::from_utf8(&chunk.text).map_err(|error| {
        let place = place_of(&chunk.text, error.valid_up_to());
        collector.at(Some(chunk.in_file(place)), "not UTF-8 text".to_owned())
    })
}

/// Converts the position of an error to one in the file. An error at the end of the file also says
/// that the file may have been cut off.
pub(super) fn placed(
    error: Mistake,
    chunk: &Chunk,
    is_last: bool,
    collector: &Collector,
) -> Box<ManifestError> {
    let lines = (1u64..).zip(chunk.text.split(|b| *b == b'\n'));
    let written = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let last = written.map(|(number, _)| number).last().unwrap_or(1);
    let at_end = |place: Place| is_last && place.line >= last;
    let mut problem = error.problem;
    if error.place.is_some_and(at_end) {
        problem.push_str("; the text ends there: it may have been ");
        problem.push_str(CUT_OFF);
    }
    collector.at(error.place.map(|place| chunk.in_file(place)), problem)
}

/// The text of one document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The bytes of the document, including the `---` line that opens it.
    pub(super) text: Vec<u8>,
    /// The line of the file at which the text begins, counted from 1.
    pub(super) first_line: u64,
    /// Whether the document ends with the text.
    pub(super) is_whole: bool,
}

impl Chunk {
    /// Converts a place in the text to one in the file.
    fn in_file(&self, place: Place) -> Place {
        Place::new(self.first_line + place.line - 1, place.column)
    }
}

/// Cuts a YAML stream into documents at its `---` and `...` lines. Such a marker at the start of a
/// line ends a document in any context, so no parsing is needed.
#[derive(Debug)]
pub(super) struct Chunks<R> {
    reader: R,
    /// The number of lines read so far.
    lines: u64,
    /// The number of bytes read so far.
    pub(super) bytes: u64,
    /// Whether the stream has ended.
    pub(super) is_at_end: bool,
    /// The `---` line that ended the previous document and opens the next one.
    opening: Option<Vec<u8>>,
    line: Vec<u8>,
}

impl<R: BufRead> Chunks<R> {
    pub(super) fn new(reader: R) -> Chunks<R> {
        Chunks {
            reader,
            lines: 0,
            bytes: 0,
            is_at_end: false,
            opening: None,
            line: Vec::new(),
        }
    }

    /// Returns the next non-empty document, or only its beginning if it is longer than
    /// `most_bytes`; `None` at the end of the stream.
    pub(super) fn next(&mut self, most_bytes: usize) -> io::Result<Option<Chunk>> {
        let mut chunk = Chunk {
            text: Vec::new(),
            first_line: self.lines + 1,
            is_whole: true,
        };
        let mut has_content = false;
        let mut is_opened = self.opening.is_some();
        if let Some(opening) = self.opening.take() {
            chunk.first_line = self.lines;
            has_content = has_text(&opening[3..]);
            chunk.text = opening;
        }
        while self.read_line()? {
            if is_marker(&self.line, b"---") {
                if has_content {
                    self.opening = Some(self.line.clone());
                    return Ok(Some(chunk));
                }
                // Directives belong to the following document. Drop a document that was opened but
                // has no content, because the parser would count it.
                if is_opened {
                    chunk.text.clear();
                    chunk.first_line = self.lines;
                }
                is_opened = true;
                has_content = has_text(&self.line[3..]);
            } else if is_marker(&self.line, b"...") {
                if has_content {
                    return Ok(Some(chunk));
                }
                // The text so far has no content except comments.
                chunk.text.clear();
                chunk.first_line = self.lines + 1;
                is_opened = false;
                continue;
            } else {
                has_content |= has_text(&self.line) && !self.line.starts_with(b"%");
            }
            chunk.text.extend_from_slice(&self.line);
            check_size(&chunk)?;
            if has_content && chunk.text.len() > most_bytes {
                chunk.is_whole = false;
                return Ok(Some(chunk));
            }
        }
        Ok(has_content.then_some(chunk))
    }

    /// Appends lines to an incomplete chunk: `bytes` bytes or slightly more.
    pub(super) fn append(&mut self, chunk: &mut Chunk, bytes: usize) -> io::Result<()> {
        let enough = chunk.text.len().saturating_add(bytes);
        while chunk.text.len() < enough {
            if !self.read_line()? || is_marker(&self.line, b"...") {
                chunk.is_whole = true;
                return Ok(());
            }
            if is_marker(&self.line, b"---") {
                self.opening = Some(self.line.clone());
                chunk.is_whole = true;
                return Ok(());
            }
            chunk.text.extend_from_slice(&self.line);
            check_size(chunk)?;
        }
        Ok(())
    }

    /// Reads the next line into `line`. Returns false at the end of the stream.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        // A line that is longer than the largest document is refused together with its document.
        let limit = DOCUMENT_BYTES_MAX as u64 + 1;
        let mut limited = Read::take(&mut self.reader, limit);
        let read = limited.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            self.is_at_end = true;
            return Ok(false);
        }
        self.bytes += read as u64;
        self.lines += 1;
        if self.lines == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Ok(true)
    }
}

/// Refuses a document, or the part of it that is held, if it is too large.
fn check_size(chunk: &Chunk) -> io::Result<()> {
    if chunk.text.len() <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    if let Some(place) = nul_in(&chunk.text) {
        let Place { line, column } = chunk.in_file(place);
        let problem = format!("line {line} column {column}: {NUL}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    let problem = format!(
        "the text from line {} is larger than {} MiB: only lists in block style (items: and a dash \
         before each) are read piece by piece; split it, write such a List, or use JSON in a \
         file named .json",
        chunk.first_line,
        DOCUMENT_BYTES_MAX >> 20
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
}

/// Reports whether a line is this document marker, either alone or followed by whitespace.
#[inline]
fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| {
        rest.first()
            .is_none_or(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
    })
}

/// Reports whether a line contains anything other than a comment.
#[inline]
fn has_text(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    !text.is_empty() && text[0] != b'#'
}

/// Parses a text with a single document: an object, or null.
pub(super) fn read_document(text: &str) -> Result<Value, Mistake> {
    match read_value(text)? {
        value @ (Value::Object(_) | Value::Null) => Ok(value),
        other => Err(Mistake {
            place: Some(Place::new(1, 1)),
            problem: format!("expected {OBJECT}, found {}", describe(&other)),
        }),
    }
}

/// Parses a text with a single value. A member may occur twice only if one of the two comes from a
/// merge key (`<<`).
pub(super) fn read_value(text: &str) -> Result<Value, Mistake> {
    let read = documents::yaml(text).map_err(|found| {
        let problem = match found.cause {
            Cause::Text | Cause::Depth => found.plain,
            Cause::Aliases => {
                "its anchors and aliases (&a, *a) expand to far more text than there is: write \
                 it out"
                    .to_owned()
            }
        };
        // The caller counts lines from the start of the file.
        Mistake {
            place: found.place.map(|at| Place::new(at.line, at.column)),
            problem,
        }
    })?;
    match read.doubled.iter().find(|one| !one.is_merged) {
        None => Ok(read.value),
        Some(one) => Err(Mistake {
            place: Some(Place::new(one.place.line, one.place.column)),
            problem: given_twice(&one.name),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<(u64, String)> {
        let mut chunks = Chunks::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(chunk) = chunks.next(usize::MAX).unwrap() {
            all.push((chunk.first_line, String::from_utf8(chunk.text).unwrap()));
        }
        all
    }

    fn object(text: &str) -> Value {
        read_document(text).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn documents_are_cut_at_their_markers() {
        let text = "# head\n---\na: 1\n---\n---  # empty\n\n--- {b: 2}\n...\nc: 3\n";
        let chunks = chunks(text);
        let texts: Vec<&str> = chunks.iter().map(|(_, text)| text.trim_end()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].ends_with("a: 1"));
        assert!(texts[1].ends_with("--- {b: 2}"));
        assert_eq!(texts[2], "c: 3");
        assert_eq!(chunks[2].0, 9);
    }

    #[test]
    fn comments_are_not_a_document() {
        assert!(chunks("").is_empty());
        assert!(chunks("# nothing\n---\n# still\n...\n\n").is_empty());
    }

    #[test]
    fn every_chunk_is_one_document_to_the_parser() {
        let text = "%YAML 1.2\n---\na: 1\n---\n# c\n---\nb: |\n  x\n  --- y\n...\n---\nc: 3";
        let mut seen = Vec::new();
        for (_, text) in chunks(text) {
            seen.push(object(&text));
        }
        let expected = serde_json::json!([{"a": 1}, {"b": "x\n--- y\n"}, {"c": 3}]);
        assert_eq!(serde_json::Value::from(seen), expected);
    }

    #[test]
    fn values_parse_as_in_kubernetes_tools() {
        let value = object(
            "a: yes\nb: 0644\nc: null\nd: 1.5\ne: \"1\"\nf: 2024-01-02T03:04:05Z\n8: ~\ng: 0x1f",
        );
        let expected = serde_json::json!({
            "a": true, "b": 420, "c": null, "d": 1.5, "e": "1", "f": "2024-01-02T03:04:05Z",
            "8": null, "g": 31,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn anchors_and_merge_keys_are_expanded() {
        let value = object("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  l: 2\n");
        assert_eq!(value["c"], serde_json::json!({"k": 1, "l": 2}));
        assert_eq!(value["b"]["k"], 1);
    }

    #[test]
    fn errors_have_their_place() {
        for (text, line) in [
            ("a: [1, 2\nb: 3\n", 2),
            ("a: 1\n  b: 2\n", 2),
            ("a:\n\t- 1\n", 2),
            ("a: 1\na: 2\n", 2),
            ("a: \"open\n", 2),
        ] {
            let error = read_document(text).expect_err(text);
            let at = error.place.expect("a position").line;
            assert!(at.abs_diff(line) <= 1, "{text:?}: line {at}");
            assert!(!error.problem.contains(" line "), "{}", error.problem);
            assert!(!error.problem.contains('\n'), "{}", error.problem);
        }
    }

    #[test]
    fn a_large_document_is_accepted() {
        let mut text = String::from("items:\n");
        for at in 0..100_000 {
            text.push_str(&format!("- name: x{at}\n  labels: {{a: b, c: d}}\n"));
        }
        let items = &object(&text)["items"];
        assert_eq!(items.as_array().map(Vec::len), Some(100_000));
    }
}
