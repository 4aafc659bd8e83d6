//! YAML lists that are too large to hold in memory: their items are cut out at their dashes, and
//! parsed and decoded on all cores, a few megabytes at a time.
//!
//! In block style, every line of an item is indented deeper than the item's dash, so the lines
//! determine where an item ends. An anchor in one item can't be used in another.

use std::io::BufRead;
use std::ops::Range;

use podstorm_located::Place;
use podstorm_objects::json::Tape;
use serde_json::{Map, Value};

use super::check::CheckedSpecs;
use super::collect::{Collector, NO_LIST};
use super::decode::{self, Decoded, Wrong};
use super::document::{Document, is_list_kind};
use super::error::ManifestError;
use super::json::given_twice;
use super::text::place_of;
use super::yaml::{CUT_OFF, Chunk, Chunks, chunk_text, placed, read_document, read_value};

/// The position of a list's items in its document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Items {
    /// The byte range of the line `items:`.
    line: Range<usize>,
    /// The column of the dashes, counted from 0.
    dash: usize,
}

/// An item in a chunk.
struct Item {
    range: Range<usize>,
    /// The line of the chunk at which the item begins, counted from 0.
    line: u64,
}

/// The role of a line in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Starts an item.
    Dash,
    /// Continues the item.
    Within,
    /// Follows the list.
    Behind,
}

impl Items {
    /// Finds the items if a document begins like a list in block style; otherwise returns `None`.
    pub(super) fn begin(chunk: &Chunk) -> Option<Items> {
        let mut at = 0;
        let mut found: Option<Range<usize>> = None;
        for line in chunk.text.split_inclusive(|b| *b == b'\n') {
            let range = at..at + line.len();
            at = range.end;
            let text = line.trim_ascii();
            match &found {
                None if line.starts_with(b"items:") && text == b"items:" => found = Some(range),
                Some(items) if !text.is_empty() && text[0] != b'#' => {
                    let dash = line.iter().position(|b| *b != b' ')?;
                    let is_dash = classify(line, dash) == Line::Dash;
                    return is_dash.then(|| Items {
                        line: items.clone(),
                        dash,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// Reads the items and the rest of the document.
    pub(super) fn read<R: BufRead>(
        self,
        mut chunk: Chunk,
        piece_bytes: usize,
        chunks: &mut Chunks<R>,
        collector: &mut Collector,
    ) -> Result<(), Box<ManifestError>> {
        let mut members = self.members_before(&chunk, collector)?;
        if members.get("kind").is_some_and(|kind| !is_list_kind(kind)) {
            return Err(collector.at(None, NO_LIST.to_owned()));
        }
        let mut kindless = Vec::new();
        forget(&mut chunk, self.line.end);
        let mut first_index = 0;
        loop {
            let (items, end) = self.cut(&chunk);
            let texts: Vec<&[u8]> = items
                .iter()
                .map(|item| &chunk.text[item.range.clone()])
                .collect();
            let decoded = decode::all(&texts, |text| {
                decode_item(text, &members, &collector.checked)
            });
            let in_file = |at: usize, within: Place| {
                let line = chunk.first_line + items[at].line + within.line - 1;
                Place::new(line, within.column)
            };
            let taken = collector.take_items(first_index, decoded, in_file);
            kindless.extend(taken.map_err(|(at, mut error)| {
                let is_last = chunk.is_whole && chunks.is_at_end;
                let open = OpenEnd::find(&items, &end, &chunk);
                let open = open.filter(|end| is_last && end.item == at);
                if let Some(end) = open
                    && !members.contains_key("kind")
                {
                    error.problem.push_str(&end.words());
                }
                error
            })?);
            first_index += items.len();
            match end {
                End::List(at) => {
                    forget(&mut chunk, at);
                    break;
                }
                End::Open(at) => {
                    forget(&mut chunk, at);
                    let more = chunks.append(&mut chunk, piece_bytes);
                    more.map_err(|error| collector.unreadable(&error, chunks.bytes))?;
                }
            }
        }
        while !chunk.is_whole {
            let more = chunks.append(&mut chunk, usize::MAX);
            more.map_err(|error| collector.unreadable(&error, chunks.bytes))?;
        }
        for (key, value) in members_of(&chunk, chunks.is_at_end, collector)? {
            if key == "items" || members.contains_key(&key) {
                return Err(collector.at(None, given_twice(&key)));
            }
            members.insert(key, value);
        }
        collector.end_document(Document::List(members), kindless)
    }

    fn members_before(
        &self,
        chunk: &Chunk,
        collector: &Collector,
    ) -> Result<Map<String, Value>, Box<ManifestError>> {
        let before = Chunk {
            text: chunk.text[..self.line.start].to_vec(),
            first_line: chunk.first_line,
            is_whole: true,
        };
        members_of(&before, false, collector)
    }

    /// Returns the items of a chunk that begins with an item, and where the cutting ended. Omits
    /// the last item of an incomplete chunk, because it may continue.
    fn cut(&self, chunk: &Chunk) -> (Vec<Item>, End) {
        let mut items: Vec<Item> = Vec::new();
        let mut at = 0;
        let mut end = None;
        for (number, line) in (0..).zip(chunk.text.split_inclusive(|b| *b == b'\n')) {
            match classify(line, self.dash) {
                Line::Dash => {
                    if let Some(item) = items.last_mut() {
                        item.range.end = at;
                    }
                    items.push(Item {
                        range: at..chunk.text.len(),
                        line: number,
                    });
                }
                Line::Within => {}
                Line::Behind => {
                    if let Some(item) = items.last_mut() {
                        item.range.end = at;
                    }
                    end = Some(at);
                    break;
                }
            }
            at += line.len();
        }
        match end {
            Some(at) => (items, End::List(at)),
            None if chunk.is_whole => (items, End::List(chunk.text.len())),
            None => {
                let last = items.pop();
                (items, End::Open(last.map_or(0, |item| item.range.start)))
            }
        }
    }
}

/// The last item of a text that ends within its list. A truncated dump ends like this, because the
/// kind of a dump follows its items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenEnd {
    /// The number of the item in the text, counted from 0.
    pub(super) item: usize,
    /// The line of the file at which the item begins and the line at which the text ends, counted
    /// from 1.
    pub(super) first_line: u64,
    last_line: u64,
}

/// Returns the last item of a complete document that ends within its list's items and has no kind
/// before them; otherwise `None`.
pub(super) fn open_end(chunk: &Chunk) -> Option<OpenEnd> {
    let list = Items::begin(chunk)?;
    let mut before = chunk.text[..list.line.start].split(|b| *b == b'\n');
    if before.any(|line| line.starts_with(b"kind:")) {
        return None;
    }
    // Cut the items separately, so that the lines before them do not count as lines after them.
    let mut items = Chunk {
        text: chunk.text.clone(),
        ..*chunk
    };
    forget(&mut items, list.line.end);
    let (cut, end) = list.cut(&items);
    OpenEnd::find(&cut, &end, &items)
}

impl OpenEnd {
    /// Returns the last item if nothing follows the items; otherwise `None`.
    fn find(items: &[Item], end: &End, chunk: &Chunk) -> Option<OpenEnd> {
        let last = items.last()?;
        let written = chunk.text.trim_ascii_end();
        let lines = written.iter().filter(|b| **b == b'\n').count() as u64;
        let is_open = matches!(end, End::List(at) if *at == chunk.text.len());
        is_open.then(|| OpenEnd {
            item: items.len() - 1,
            first_line: chunk.first_line + last.line,
            last_line: chunk.first_line + lines,
        })
    }

    /// Returns the words to add to an error in this item.
    pub(super) fn words(&self) -> String {
        format!(
            "; this is the last item, and the list's kind, which follows the items in a dump, is \
             missing: the file was probably {CUT_OFF} at line {}",
            self.last_line
        )
    }
}

/// Where the cutting of a chunk ended.
enum End {
    /// The list ends here.
    List(usize),
    /// An item begins here that may continue after the chunk.
    Open(usize),
}

fn classify(line: &[u8], dash: usize) -> Line {
    let text = line.trim_ascii_end();
    let depth = text.iter().position(|b| *b != b' ');
    match depth {
        // Blank lines and comments belong to the item or list that contains them.
        None => Line::Within,
        Some(depth) if text[depth] == b'#' => Line::Within,
        Some(depth) if depth > dash => Line::Within,
        Some(depth) if depth == dash && text[depth] == b'-' => match text.get(depth + 1) {
            None | Some(b' ' | b'\t') => Line::Dash,
            Some(_) => Line::Behind,
        },
        Some(_) => Line::Behind,
    }
}

/// Drops the first bytes of a chunk.
fn forget(chunk: &mut Chunk, bytes: usize) {
    let lines = chunk.text[..bytes].iter().filter(|b| **b == b'\n').count();
    chunk.first_line += lines as u64;
    chunk.text.drain(..bytes);
}

/// Returns the members in a part of a document.
fn members_of(
    chunk: &Chunk,
    is_last: bool,
    collector: &Collector,
) -> Result<Map<String, Value>, Box<ManifestError>> {
    let text = chunk_text(chunk, collector)?;
    match read_document(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(placed(error, chunk, is_last, collector)),
    }
}

/// Decodes an item, given with its dash, of a list that has these members.
pub(super) fn decode_item(
    bytes: &[u8],
    list: &Map<String, Value>,
    checked: &CheckedSpecs,
) -> Decoded {
    let wrong = |position: Option<Place>, problem: String| {
        Decoded::Wrong(Wrong {
            position,
            problem,
            ..Wrong::default()
        })
    };
    // With a space in place of the dash, the item is a document, with every character in its place.
    let mut text = bytes.to_vec();
    if let Some(dash) = text.iter_mut().find(|b| **b != b' ') {
        *dash = b' ';
    }
    let text = match std::str::from_utf8(&text) {
        Ok(text) => text,
        Err(error) => {
            let place = place_of(bytes, error.valid_up_to());
            return wrong(Some(place), "not UTF-8 text".to_owned());
        }
    };
    if let Some(tape) = Tape::from_block_yaml(text) {
        return decode::item(tape.root(), list, checked);
    }
    match read_value(text) {
        Ok(value) => decode::item(Tape::new(&value).root(), list, checked),
        Err(error) => wrong(error.place, error.problem),
    }
}

#[cfg(test)]
mod tests {
    use super::super::yaml::read_in_pieces;
    use super::*;
    use crate::input::InputObject;

    fn list(indent: &str, count: usize) -> String {
        let mut text = String::from("apiVersion: v1\n# all of it\nitems:\n");
        for number in 0..count {
            for line in [
                "- apiVersion: v1",
                "  kind: Pod",
                "  metadata:",
                &format!("    name: p{number}"),
                "    annotations:",
                "      note: |",
                "        # no comment",
                "",
                "        - no item",
                "  # a comment",
                "  spec:",
                "    containers:",
                "    - name: c",
                "      image: registry.example/i",
            ] {
                text.push_str(&format!("{indent}{line}\n"));
            }
        }
        text.push_str("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
        text
    }

    fn load(text: &str, piece: usize) -> Result<Vec<InputObject>, String> {
        let mut collector = Collector::new(super::super::Kinds::Simulated);
        collector.begin_file("dump.yaml");
        collector.is_yaml(true);
        read_in_pieces(text.as_bytes(), piece, &mut collector).map_err(|e| e.to_string())?;
        Ok(collector.into_parts().0)
    }

    #[test]
    fn pieces_give_the_same_objects_as_the_whole_document() {
        for indent in ["", "  "] {
            let text = format!(
                "{}---\n{}",
                list(indent, 9),
                "kind: Secret\napiVersion: v1\n"
            );
            let whole = format!("{:?}", load(&text, usize::MAX).unwrap());
            for piece in [1, 100, 300, 1_000] {
                let pieces = format!("{:?}", load(&text, piece).unwrap());
                assert_eq!(pieces, whole, "{piece}");
            }
        }
    }

    #[test]
    fn errors_in_a_piece_have_their_place_in_the_file() {
        let good = list("", 9);
        let number = "items[7].metadata.name: expected a string";
        let twice = "Pod default/p6): items[7]: is a duplicate of";
        for (from, to, words) in [
            ("name: p7\n", "name: [p7\n", "line 1"),
            ("name: p7\n", "name: 7\n", number),
            ("name: p7\n", "name: p6\n", twice),
            ("kind: List\n", "items: []\n", "\"items\" is given twice"),
            ("kind: List\n", "", "was cut off"),
        ] {
            assert!(good.contains(from));
            let bad = good.replacen(from, to, 1);
            for piece in [1, 500, usize::MAX] {
                let problem = load(&bad, piece).expect_err(to);
                assert!(problem.contains(words), "{piece}: {words}: {problem}");
            }
        }
    }

    #[test]
    fn a_list_that_ends_within_its_last_item_was_cut_off() {
        let whole = list("", 3);
        let last = whole.find("name: p2").unwrap();
        for (end, problem) in [
            ("    annotations:\n", "items[2]"),
            ("    - name: c\n", "items[2]"),
            ("    - name: c\n      image: regis", "items[2]"),
            ("name: p", "items[2]"),
            ("na", "items[2]"),
        ] {
            let end = whole[last - 1..].find(end).unwrap() + end.len() + last - 1;
            let cut = &whole[..end];
            let lines = cut.trim_end().matches('\n').count() + 1;
            for piece in [1, 100, usize::MAX] {
                let Err(told) = load(cut, piece) else {
                    panic!("{piece}: {cut}");
                };
                assert!(told.contains(CUT_OFF), "{piece}: {told}");
                if told.contains(problem) {
                    let end = format!("at line {lines}");
                    assert!(told.ends_with(&end), "{piece}: {told}");
                }
            }
        }
    }

    #[test]
    fn other_errors_are_not_blamed_on_truncation() {
        let whole = list("", 3);
        let wrong_first = whole.replacen("name: p0\n", "name: 7\n", 1);
        let wrong_last = whole.replacen("name: p2\n", "name: 7\n", 1);
        let behind = wrong_last.find("kind: List").unwrap();
        let kind_before = format!("kind: List\n{}", &wrong_last[..behind]);
        let more = format!(
            "{}---\nkind: Secret\napiVersion: v1\n",
            &wrong_last[..behind]
        );
        for text in [
            &wrong_first,
            &wrong_last,
            &wrong_first[..behind],
            &kind_before,
            &more,
        ] {
            for piece in [1, 100, usize::MAX] {
                let told = load(text, piece).expect_err("a name is a number");
                assert!(!told.contains(CUT_OFF), "{piece}: {told}");
                assert!(told.contains("metadata.name: expected a string"), "{told}");
            }
        }
    }
}
