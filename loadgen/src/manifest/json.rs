//! JSON files: one document after another. The items of a list are cut out of the stream, decoded a
//! few megabytes at a time on all cores, and stored in order. The other members of a document are
//! read one by one.

use std::io::Read;
use std::ops::Range;

use podstorm_located::Place;
use podstorm_objects::json::Tape;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use super::check::CheckedSpecs;
use super::collect::{Collector, Kindless};
use super::decode::{self, Decoded, Wrong};
use super::document::{Document, DocumentSeed, NO_ITEMS, is_list_kind};
use super::error::ManifestError;
use super::text::{Text, Trouble};

/// How many bytes of items are decoded at a time and held in memory in addition to the objects.
const BATCH_BYTES: u64 = 4 << 20;

/// Reads every document in a stream.
pub(super) fn read(reader: impl Read, collector: &mut Collector) -> Result<(), Box<ManifestError>> {
    let mut stream = Stream {
        text: Text::new(reader),
        items: Vec::new(),
        first_index: 0,
        kindless: Vec::new(),
    };
    let read = stream.documents(collector);
    read.map_err(|trouble| stream.error(trouble, collector))
}

struct Stream<R> {
    text: Text<R>,
    /// The items of the current list that are not decoded yet. The next field is the index of the
    /// first one.
    items: Vec<Range<u64>>,
    first_index: usize,
    /// Items without a kind, in a list whose kind is not known yet.
    kindless: Kindless,
}

impl<R: Read> Stream<R> {
    fn documents(&mut self, collector: &mut Collector) -> Result<(), Trouble> {
        while self.text.peek()?.is_some() {
            collector.begin_document();
            let document = self.document(collector)?;
            collector.end_document(document, std::mem::take(&mut self.kindless))?;
            self.text.release();
        }
        Ok(())
    }

    fn document(&mut self, collector: &mut Collector) -> Result<Document, Trouble> {
        if self.text.require()? != b'{' {
            // Only an object is valid: refuse any other value, regardless of what follows it.
            let range = self.text.value()?;
            self.parse(&range, collector, |bytes| read_all(DocumentSeed, bytes))?;
            return Ok(Document::Empty);
        }
        self.text.pass();
        let mut members = Map::new();
        let mut is_list = false;
        let mut is_first = true;
        while self.goes_on(b'}', is_first)? {
            is_first = false;
            let (key, at) = self.key(collector)?;
            if members.contains_key(&key) || (is_list && key == "items") {
                return Err(Trouble::Wrong(at, given_twice(&key)));
            }
            // `kubectl -o json` sorts members, so `items` precedes `kind`. Only lists have `items`
            // at the top level, so a document without a kind so far is treated as a list.
            if key == "items" && members.get("kind").is_none_or(is_list_kind) {
                is_list = true;
                self.list(&members, collector)?;
            } else {
                let range = self.text.value()?;
                let value = self.parse(&range, collector, |bytes| {
                    Ok(Tape::from_slice(bytes)?.root().to_value())
                })?;
                members.insert(key, value);
            }
        }
        Ok(match is_list {
            true => Document::List(members),
            false => Document::Object(members),
        })
    }

    /// Skips the comma before another member or item, or the closing bracket. Returns whether there
    /// is another member or item.
    fn goes_on(&mut self, closing: u8, is_first: bool) -> Result<bool, Trouble> {
        match (is_first, self.text.require()?) {
            (true, byte) if byte != closing => Ok(true),
            (true, _) => self.text.expect(&[closing]).map(|_| false),
            (false, _) => Ok(self.text.expect(&[b',', closing])? == b','),
        }
    }

    /// Reads the name of a member and the colon after it. Also returns the offset of the name.
    fn key(&mut self, collector: &Collector) -> Result<(String, u64), Trouble> {
        if self.text.require()? != b'"' {
            return Err(self.text.wrong("expected the name of a member in quotes"));
        }
        let range = self.text.value()?;
        let key = self.parse(&range, collector, |bytes| serde_json::from_slice(bytes))?;
        self.text.expect(b":")?;
        Ok((key, range.start))
    }

    /// Takes the items of a list.
    fn list(
        &mut self,
        members: &Map<String, Value>,
        collector: &mut Collector,
    ) -> Result<(), Trouble> {
        if self.text.require()? != b'[' {
            // Null means that there are no items; any other value is an error.
            let range = self.text.value()?;
            return match self.text.between(&range) {
                b"null" => Ok(()),
                _ => Err(Trouble::Wrong(range.start, NO_ITEMS.to_owned())),
            };
        }
        self.text.pass();
        self.first_index = 0;
        for index in 0.. {
            let item = match self.goes_on(b']', index == 0) {
                Ok(false) => break,
                goes_on => goes_on.and_then(|_| self.text.value()),
            };
            match item {
                Ok(range) => self.items.push(range),
                Err(trouble) => {
                    // Report errors in the preceding items first.
                    let error = self.error(trouble, collector);
                    self.decode(members, collector)?;
                    return Err(error.into());
                }
            }
            let held = self.text.offset() - self.items[0].start;
            if held >= BATCH_BYTES {
                self.decode(members, collector)?;
            }
        }
        Ok(self.decode(members, collector)?)
    }

    /// Decodes the collected items on all cores and stores the objects in order.
    fn decode(
        &mut self,
        members: &Map<String, Value>,
        collector: &mut Collector,
    ) -> Result<(), Box<ManifestError>> {
        let items = self.items.iter();
        let texts: Vec<&[u8]> = items.map(|range| self.text.between(range)).collect();
        let decoded = decode::all(&texts, |text| {
            decode_item(text, members, &collector.checked)
        });
        let in_file =
            |at: usize, within| absolute(self.text.position(self.items[at].start), within);
        let taken = collector.take_items(self.first_index, decoded, in_file);
        self.kindless.extend(taken.map_err(|(_, error)| error)?);
        self.first_index += self.items.len();
        self.items.clear();
        self.text.release();
        Ok(())
    }

    /// Parses a part that was cut out of the stream.
    fn parse<T>(
        &self,
        range: &Range<u64>,
        collector: &Collector,
        read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<T, Trouble> {
        read(self.text.between(range)).map_err(|error| {
            let start = self.text.position(range.start);
            let (within, problem) = parts(&error);
            let position = within.map_or(start, |within| absolute(start, within));
            Trouble::Refused(collector.at(Some(position), problem))
        })
    }

    fn error(&self, trouble: Trouble, collector: &Collector) -> Box<ManifestError> {
        let offset = self.text.offset();
        let wrong_at = |at, problem| collector.at(Some(self.text.position(at)), problem);
        match trouble {
            Trouble::Refused(error) => error,
            Trouble::Io(error) => collector.unreadable(&error, offset),
            Trouble::Wrong(at, problem) => wrong_at(at, problem),
            Trouble::CutOff => {
                let problem = format!(
                    "the text ends here, within a document, after {offset} bytes: it \
                     was cut off"
                );
                wrong_at(offset, problem)
            }
        }
    }
}

/// Formats the error about a duplicate member.
pub(super) fn given_twice(key: &str) -> String {
    format!("the field {key:?} is given twice; remove one of the two")
}

/// Decodes an item of a list that has these members.
pub(super) fn decode_item(
    text: &[u8],
    list: &Map<String, Value>,
    checked: &CheckedSpecs,
) -> Decoded {
    match Tape::from_slice(text) {
        Ok(tape) => decode::item(tape.root(), list, checked),
        Err(error) => {
            let (position, problem) = parts(&error);
            Decoded::Wrong(Wrong {
                position,
                problem,
                ..Wrong::default()
            })
        }
    }
}

/// Deserializes a value that spans the whole text.
fn read_all<'a, S: DeserializeSeed<'a>>(seed: S, text: &'a [u8]) -> serde_json::Result<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Returns the line and column of an error within the text, and the problem without them.
fn parts(error: &serde_json::Error) -> (Option<Place>, String) {
    let place = || Place::new(error.line() as u64, error.column() as u64);
    let position = (error.line() > 0).then(place);
    let text = error.to_string();
    let problem = match text.rfind(" at line ") {
        Some(at) if position.is_some() => text[..at].to_owned(),
        _ => text,
    };
    (position, problem)
}

/// Converts a position within a part of the file to one in the file.
fn absolute(start: Place, within: Place) -> Place {
    match within.line {
        1 => Place::new(start.line, start.column + within.column.max(1) - 1),
        line => Place::new(start.line + line - 1, within.column),
    }
}
