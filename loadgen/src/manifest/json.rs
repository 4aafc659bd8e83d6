//! JSON: one document after another, streamed from the reader.

use std::io::BufRead;

use serde::de::DeserializeSeed;
use serde_json::de::IoRead;

use super::document::{Document, DocumentSeed, ItemTaker};

/// Reads JSON documents from a stream.
pub(super) struct JsonDocuments<R: BufRead> {
    deserializer: serde_json::Deserializer<IoRead<R>>,
}

/// Something wrong in the text.
#[derive(Debug)]
pub(super) struct JsonError {
    /// Line and column in the file, counted from 1.
    pub(super) position: Option<(u64, u64)>,
    pub(super) problem: String,
}

impl<R: BufRead> JsonDocuments<R> {
    pub(super) fn new(reader: R) -> JsonDocuments<R> {
        JsonDocuments {
            deserializer: serde_json::Deserializer::from_reader(reader),
        }
    }

    /// Whether only blanks are left.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.deserializer.end().is_ok()
    }

    /// Reads the next document, its list items handed on.
    pub(super) fn read(&mut self, take_item: ItemTaker<'_>) -> Result<Document, JsonError> {
        DocumentSeed { take_item }
            .deserialize(&mut self.deserializer)
            .map_err(|error| {
                let position =
                    (error.line() > 0).then(|| (error.line() as u64, error.column() as u64));
                let text = error.to_string();
                let problem = match text.rfind(" at line ") {
                    Some(at) if position.is_some() => text[..at].to_owned(),
                    _ => text,
                };
                JsonError { position, problem }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_follow_each_other() {
        let mut documents = JsonDocuments::new("{\"a\":1}\n {\"b\":2}{\"c\":3}\n".as_bytes());
        let mut count = 0;
        while !documents.is_at_end() {
            assert!(matches!(
                documents.read(&mut |_, _, _| Ok(())),
                Ok(Document::Object(_))
            ));
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn what_is_broken_is_placed() {
        let mut documents = JsonDocuments::new("{\"a\":1}\n{\"b\":\n2 x".as_bytes());
        assert!(documents.read(&mut |_, _, _| Ok(())).is_ok());
        let error = documents.read(&mut |_, _, _| Ok(())).unwrap_err();
        assert_eq!(error.position.map(|at| at.0), Some(3));
        assert!(!error.problem.contains("line"), "{}", error.problem);
    }
}
