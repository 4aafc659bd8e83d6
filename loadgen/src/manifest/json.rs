//! JSON: one document after another. The items of a list are cut out of the stream, decoded some
//! megabytes at a time on all cores, and stored in their order; a document's other members are read
//! one by one.

use std::io::Read;
use std::ops::Range;

use podstorm_objects::json::Tape;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use super::check::JudgedSpecs;
use super::collect::Collector;
use super::decode::{self, Decoded, Wrong};
use super::document::{Document, DocumentSeed, ValueSeed, is_list_kind};
use super::error::ManifestError;
use super::text::{Text, Trouble};

/// So much text of items is decoded at once, and held in memory besides the objects.
const BATCH_BYTES: u64 = 4 << 20;

/// Reads every document of a stream.
pub(super) fn read(reader: impl Read, collector: &mut Collector) -> Result<(), Box<ManifestError>> {
    let mut stream = Stream {
        text: Text::new(reader),
        items: Vec::new(),
        kindless: Vec::new(),
    };
    loop {
        match stream.text.peek() {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => collector.begin_document(),
            Err(trouble) => return Err(stream.error(trouble, collector)),
        }
        let document = stream.document(collector)?;
        let kindless = std::mem::take(&mut stream.kindless);
        collector.end_document(document, kindless)?;
        stream.text.release();
    }
}

struct Stream<R> {
    text: Text<R>,
    /// Items of the list being read that are not decoded yet.
    items: Vec<Item>,
    /// Items that leave their kind to a list that has not said its own yet.
    kindless: Vec<(usize, Map<String, Value>)>,
}

#[derive(Debug)]
struct Item {
    index: usize,
    range: Range<u64>,
}

impl<R: Read> Stream<R> {
    fn document(&mut self, collector: &mut Collector) -> Result<Document, Box<ManifestError>> {
        match self.text.peek() {
            Ok(Some(b'{')) => self.text.pass(),
            Err(trouble) => return Err(self.error(trouble, collector)),
            // Nothing but an object will do: what is there is refused, whatever follows.
            Ok(_) => {
                let range = self.text.value();
                let range = range.map_err(|trouble| self.error(trouble, collector))?;
                return self.parse(&range, collector, |bytes| {
                    let seed = DocumentSeed {
                        take_item: &mut |_, _, _| Ok(()),
                    };
                    read_all(seed, bytes)
                });
            }
        }
        let mut members = Map::new();
        let mut is_list = false;
        let mut is_first = true;
        loop {
            let closed = match (is_first, self.text.require()) {
                (true, Ok(b'}')) => self.text.expect(b"}"),
                (true, Ok(_)) => Ok(b','),
                (false, _) => self.text.expect(b",}"),
                (_, Err(trouble)) => Err(trouble),
            };
            is_first = false;
            if closed.map_err(|trouble| self.error(trouble, collector))? == b'}' {
                return Ok(match is_list {
                    true => Document::List(members),
                    false => Document::Object(members),
                });
            }
            let (key, at) = self.key(collector)?;
            if members.contains_key(&key) || (is_list && key == "items") {
                return Err(self.wrong_at(at, given_twice(&key), collector));
            }
            // `kubectl -o json` sorts members: `items` comes before `kind`. Nothing but lists has
            // items at the first level, so an unknown kind is taken for one.
            if key == "items" && members.get("kind").is_none_or(is_list_kind) {
                is_list = true;
                self.list(&members, collector)?;
            } else {
                let range = self.text.value();
                let range = range.map_err(|trouble| self.error(trouble, collector))?;
                let value = self.parse(&range, collector, |bytes| read_all(ValueSeed, bytes))?;
                members.insert(key, value);
            }
        }
    }

    /// Reads the name of a member and the colon behind it.
    fn key(&mut self, collector: &Collector) -> Result<(String, u64), Box<ManifestError>> {
        let range = match self.text.require() {
            Ok(b'"') => self.text.value(),
            Ok(_) => Err(self.text.wrong("expected the name of a member in quotes")),
            Err(trouble) => Err(trouble),
        };
        let range = range.map_err(|trouble| self.error(trouble, collector))?;
        let key = self.parse(&range, collector, |bytes| {
            serde_json::from_slice::<String>(bytes)
        })?;
        match self.text.expect(b":") {
            Ok(_) => Ok((key, range.start)),
            Err(trouble) => Err(self.error(trouble, collector)),
        }
    }

    /// Takes the items of a list.
    fn list(
        &mut self,
        members: &Map<String, Value>,
        collector: &mut Collector,
    ) -> Result<(), Box<ManifestError>> {
        match self.text.require() {
            Ok(b'[') => self.text.pass(),
            Ok(_) => {
                // Null stands for no items; nothing else may.
                let range = self.text.value();
                let range = range.map_err(|trouble| self.error(trouble, collector))?;
                if self.text.between(&range) == b"null" {
                    return Ok(());
                }
                let problem = "expected the list of objects in items".to_owned();
                return Err(self.wrong_at(range.start, problem, collector));
            }
            Err(trouble) => return Err(self.error(trouble, collector)),
        }
        let mut index = 0;
        loop {
            let next = match (index, self.text.require()) {
                (0, Ok(b']')) => self.text.expect(b"]"),
                (0, Ok(_)) => Ok(b','),
                (_, Ok(_)) => self.text.expect(b",]"),
                (_, Err(trouble)) => Err(trouble),
            };
            let item = match next {
                Ok(b']') => return self.decode(members, collector),
                Ok(_) => self.text.value(),
                Err(trouble) => Err(trouble),
            };
            match item {
                Ok(range) => self.items.push(Item { index, range }),
                Err(trouble) => {
                    // What is wrong before this is told first.
                    let error = self.error(trouble, collector);
                    self.decode(members, collector)?;
                    return Err(error);
                }
            }
            index += 1;
            let held = self.text.offset() - self.items[0].range.start;
            if held >= BATCH_BYTES {
                self.decode(members, collector)?;
            }
        }
    }

    /// Decodes the items that have come together, on all cores, and stores them in their order.
    fn decode(
        &mut self,
        members: &Map<String, Value>,
        collector: &mut Collector,
    ) -> Result<(), Box<ManifestError>> {
        let items = self.items.iter();
        let texts: Vec<&[u8]> = items.map(|item| self.text.between(&item.range)).collect();
        let decoded = decode::all(&texts, |text| decode_item(text, members, &collector.judged));
        for (item, mut decoded) in self.items.drain(..).zip(decoded) {
            if let Decoded::Wrong(Wrong {
                position: Some(within),
                ..
            }) = &mut decoded
            {
                *within = absolute(self.text.position(item.range.start), *within);
            }
            if let Some(kindless) = collector.take(decoded, Some(item.index))? {
                self.kindless.push((item.index, kindless));
            }
        }
        self.text.release();
        Ok(())
    }

    /// Reads a piece that has been cut out.
    fn parse<T>(
        &self,
        range: &Range<u64>,
        collector: &Collector,
        read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<T, Box<ManifestError>> {
        read(self.text.between(range)).map_err(|error| {
            let start = self.text.position(range.start);
            let (within, problem) = parts(&error);
            let position = within.map_or(start, |within| absolute(start, within));
            collector.at(Some(position), problem)
        })
    }

    fn wrong_at(&self, offset: u64, problem: String, collector: &Collector) -> Box<ManifestError> {
        collector.at(Some(self.text.position(offset)), problem)
    }

    fn error(&self, trouble: Trouble, collector: &Collector) -> Box<ManifestError> {
        let offset = self.text.offset();
        match trouble {
            Trouble::Io(error) => collector.unreadable(&error, offset),
            Trouble::Wrong(at, problem) => self.wrong_at(at, problem, collector),
            Trouble::CutOff => {
                let problem = format!(
                    "the text ends here, in the middle of the document, after {offset} bytes: it \
                     was cut off"
                );
                self.wrong_at(offset, problem, collector)
            }
        }
    }
}

fn given_twice(key: &str) -> String {
    format!("the field {key:?} is given twice; remove one of the two")
}

/// Decodes an item of a list with these members.
pub(super) fn decode_item(text: &[u8], list: &Map<String, Value>, judged: &JudgedSpecs) -> Decoded {
    match Tape::from_slice(text) {
        Ok(tape) => decode::item(tape.root(), list, judged),
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

/// Reads a value that fills the text.
fn read_all<'a, S: DeserializeSeed<'a>>(seed: S, text: &'a [u8]) -> serde_json::Result<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Line and column within the text, and the problem without them.
fn parts(error: &serde_json::Error) -> (Option<(u64, u64)>, String) {
    let position = (error.line() > 0).then(|| (error.line() as u64, error.column() as u64));
    let text = error.to_string();
    let problem = match text.rfind(" at line ") {
        Some(at) if position.is_some() => text[..at].to_owned(),
        _ => text,
    };
    (position, problem)
}

/// A position within a piece as one in the file.
fn absolute((line, column): (u64, u64), within: (u64, u64)) -> (u64, u64) {
    match within {
        (1, within) => (line, column + within.max(1) - 1),
        (lines, within) => (line + lines - 1, within),
    }
}
