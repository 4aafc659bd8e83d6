//! Limits on the depth and size of documents, regardless of what makes them grow: patches,
//! defaults, conversions, server-side apply. A document within the limits can be read back from its
//! JSON, by itself or in a List.

use std::fmt::Display;

use podstorm_objects::{ApiError, Map, Reason};
use serde_json::Value;

/// The maximum nesting of lists and objects in a text that is read, as in `serde_json`.
pub const READ_DEPTH_MAX: usize = 127;
/// The maximum nesting of lists and objects in an object, except in its `managedFields`: that of a
/// readable text, less 2 for the List around the object, and less 5 because `managedFields` nest by
/// so much deeper than the fields that they name.
pub const DEPTH_MAX: usize = READ_DEPTH_MAX - 2 - OWNERS_DEPTH;
/// `metadata`, `managedFields`, the entry, `fieldsV1`, and the empty object of the innermost field.
const OWNERS_DEPTH: usize = 5;
/// The maximum size of an object as JSON in bytes, without its `managedFields`, which may have as
/// much again. Also the maximum growth by one request. As upstream's limits on a body and on the
/// copies of a JSON patch.
pub const BYTES_MAX: usize = 3 << 20;
/// The maximum number of bytes that one JSON patch moves without growth of the document.
const MOVED_MAX: usize = 64 << 20;

/// The limit that a document exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Lists and objects are nested too deep.
    #[error(
        "the object is nested too deep: at most {DEPTH_MAX} lists and objects may be inside each other"
    )]
    Depth,
    /// The document is too large.
    #[error(
        "Request entity too large: limit is {BYTES_MAX}: the object would have more bytes as JSON"
    )]
    Bytes,
    /// The copies of a patch have this many bytes in total, which is too many.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {BYTES_MAX}"
    )]
    Copies(usize),
    /// The operations of a patch move too many bytes.
    #[error(
        "the operations of the patch move values of more than {MOVED_MAX} bytes in total: send fewer operations, \
         or the whole object"
    )]
    Moves,
    /// The request has taken too long.
    #[error("Timeout: request did not complete within the allotted timeout")]
    Time,
}

impl From<Exceeded> for ApiError {
    /// Returns 400 for the depth, 413 for the size, 422 for a patch, 504 for the time.
    fn from(exceeded: Exceeded) -> ApiError {
        let (code, reason) = match exceeded {
            Exceeded::Depth => (400, Reason::BadRequest),
            Exceeded::Bytes => (413, Reason::Other("RequestEntityTooLarge".into())),
            Exceeded::Copies(_) | Exceeded::Moves => (422, Reason::Invalid),
            Exceeded::Time => (504, Reason::Timeout),
        };
        ApiError::status(code, reason, exceeded.to_string())
    }
}

/// The budget for everything that makes the document of one request grow. Growth must be charged
/// before it happens.
#[derive(Debug, Default)]
pub struct Growth {
    grown: usize,
    moved: usize,
}

impl Growth {
    /// Charges a copy of a value that will be nested in `parents` others. O(size of the value).
    ///
    /// # Errors
    /// The document would become too deep, or the copies too large.
    pub fn copy(&mut self, value: &Value, parents: usize) -> Result<(), Exceeded> {
        let mut left = usize::MAX;
        measure(value, room_below(parents)?, &mut left)?;
        self.grown = self.grown.saturating_add(usize::MAX - left);
        match self.grown > BYTES_MAX {
            true => Err(Exceeded::Copies(self.grown)),
            false => Ok(()),
        }
    }

    /// Charges a value in memory that will be nested in `parents` others. O(size of the value).
    ///
    /// # Errors
    /// The document would become too deep, or too many bytes were moved.
    pub fn place(&mut self, value: &Value, parents: usize) -> Result<(), Exceeded> {
        let mut left = MOVED_MAX.saturating_sub(self.moved);
        let before = left;
        measure(value, room_below(parents)?, &mut left).map_err(|exceeded| match exceeded {
            Exceeded::Bytes => Exceeded::Moves,
            other => other,
        })?;
        self.shift(before - left)
    }

    /// Charges the entries that an insertion into a list, or a removal, shifts.
    ///
    /// # Errors
    /// Too many bytes were moved.
    pub fn shift(&mut self, entries: usize) -> Result<(), Exceeded> {
        self.moved = self.moved.saturating_add(entries);
        match self.moved > MOVED_MAX {
            true => Err(Exceeded::Moves),
            false => Ok(()),
        }
    }

    /// Reports whether there is room for more once the value has been added. O(size of the value).
    pub(crate) fn has_room_after(&mut self, added: &Value) -> bool {
        self.copy(added, 0).is_ok()
    }
}

/// Items that a response lists, such as paths of fields, up to [`BYTES_MAX`] bytes in total. The
/// limit matters because a name of megabytes is part of the path of everything below it, so the
/// paths of a small document can be a million times as large.
#[derive(Debug, Default)]
pub struct Listed {
    all: Vec<String>,
    bytes: usize,
}

impl Listed {
    /// Adds an item if there is room. Otherwise the item is not even formatted.
    pub fn push(&mut self, text: impl Display) {
        if !self.is_full() {
            let text = text.to_string();
            self.bytes += text.len();
            self.all.push(text);
        }
    }

    /// Returns the number of items.
    #[expect(clippy::len_without_is_empty, reason = "no caller needs it")]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Reports whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.bytes > BYTES_MAX
    }

    /// Returns the items in insertion order.
    pub fn into_vec(self) -> Vec<String> {
        self.all
    }
}

/// Returns how many levels may be nested below `parents` levels.
fn room_below(parents: usize) -> Result<usize, Exceeded> {
    // `managedFields` may be nested deeper, and only [`check`] knows where they are.
    (DEPTH_MAX + OWNERS_DEPTH)
        .checked_sub(parents)
        .ok_or(Exceeded::Depth)
}

/// Checks the document of an object that a request has produced. O(size); recurses at most as deep
/// as the limit allows.
///
/// # Errors
/// The document is too deep or too large.
pub fn check(document: &Value) -> Result<(), Exceeded> {
    let mut left = BYTES_MAX;
    match document {
        Value::Object(members) => check_members(members, &mut left),
        other => measure(other, DEPTH_MAX, &mut left),
    }
}

/// Like [`check`], for the members of an object.
///
/// # Errors
/// The same as [`check`].
pub fn check_object(members: &Map) -> Result<(), Exceeded> {
    check_members(members, &mut BYTES_MAX.clone())
}

fn check_members(members: &Map, left: &mut usize) -> Result<(), Exceeded> {
    // `managedFields` have a separate budget, so whatever could be created can be patched.
    let mut of_owners = BYTES_MAX;
    each_member(members, left, |name, value, left| match (name, value) {
        ("metadata", Value::Object(metadata)) => {
            each_member(metadata, left, |name, value, left| match name {
                "managedFields" => measure(value, DEPTH_MAX - 2 + OWNERS_DEPTH, &mut of_owners),
                _ => measure(value, DEPTH_MAX - 2, left),
            })
        }
        _ => measure(value, DEPTH_MAX - 1, left),
    })
}

fn each_member(
    members: &Map,
    left: &mut usize,
    mut each: impl FnMut(&str, &Value, &mut usize) -> Result<(), Exceeded>,
) -> Result<(), Exceeded> {
    for (name, value) in members {
        // Two quotes, a colon, and a comma or the closing brace.
        take(left, name.len() + 4)?;
        each(name, value, left)?;
    }
    Ok(())
}

/// Subtracts the size of a value as JSON, ignoring escapes, from the bytes left. Recurses at most
/// as deep as the limit allows.
fn measure(value: &Value, depth: usize, left: &mut usize) -> Result<(), Exceeded> {
    let below = || depth.checked_sub(1).ok_or(Exceeded::Depth);
    match value {
        Value::Null | Value::Bool(_) => take(left, 4),
        Value::Number(_) => take(left, 1),
        Value::String(text) => take(left, text.len() + 2),
        Value::Array(items) => {
            let below = below()?;
            take(left, items.len() + 1)?;
            items.iter().try_for_each(|item| measure(item, below, left))
        }
        Value::Object(members) => {
            let below = below()?;
            take(left, 1)?;
            each_member(members, left, |_, value, left| measure(value, below, left))
        }
    }
}

fn take(left: &mut usize, bytes: usize) -> Result<(), Exceeded> {
    *left = left.checked_sub(bytes).ok_or(Exceeded::Bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns nested lists.
    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!([]), |inner, _| json!([inner]))
    }

    #[test]
    fn a_document_within_the_limits_can_be_read_back() {
        let spec =
            |levels: usize| check(&json!({"metadata": {"name": "a"}, "spec": nested(levels)}));
        assert_eq!(spec(DEPTH_MAX - 1), Ok(()));
        assert_eq!(spec(DEPTH_MAX), Err(Exceeded::Depth));
        let owners = |levels: usize| check(&json!({"metadata": {"managedFields": nested(levels)}}));
        assert_eq!(owners(DEPTH_MAX + OWNERS_DEPTH - 2), Ok(()));
        assert_eq!(owners(DEPTH_MAX + OWNERS_DEPTH - 1), Err(Exceeded::Depth));
        let deepest = json!({"items": [{"metadata": {"managedFields": nested(DEPTH_MAX + OWNERS_DEPTH - 2)}}]});
        assert!(serde_json::from_str::<Value>(&deepest.to_string()).is_ok());

        for (large, bytes) in [
            (json!({"a": "x".repeat(1000)}), 1000),
            (json!({"a": vec![1; 500]}), 1000),
            (json!({"a": {"b": [null, true]}}), 10),
        ] {
            let text = large.to_string().len();
            let mut left = text;
            assert_eq!(measure(&large, 9, &mut left), Ok(()), "{text}");
            assert!(text - left >= bytes, "{text}: {left} are left");
        }
        let large = "x".repeat(BYTES_MAX - 100);
        let both = |spec: &str, owner: &str| {
            check(&json!({"metadata": {"managedFields": [owner]}, "spec": spec}))
        };
        assert_eq!(both(&large, &large), Ok(()));
        let larger = format!("{large}{}", "x".repeat(100));
        assert_eq!(both(&larger, ""), Err(Exceeded::Bytes));
        assert_eq!(both("", &larger), Err(Exceeded::Bytes));
    }

    #[test]
    fn a_list_of_long_texts_stops_at_its_limit() {
        let mut listed = Listed::default();
        let long = "x".repeat(BYTES_MAX / 2);
        for number in 0..1_000_000 {
            listed.push(format_args!("{long}{number}"));
        }
        assert!(listed.is_full());
        assert_eq!(listed.into_vec().len(), 2);
    }

    #[test]
    fn the_growth_of_one_request_is_summed() {
        let mut growth = Growth::default();
        let third = json!("x".repeat(BYTES_MAX / 3));
        assert_eq!(growth.copy(&third, 2), Ok(()));
        assert_eq!(growth.copy(&third, 2), Ok(()));
        assert!(
            matches!(growth.copy(&third, 2), Err(Exceeded::Copies(found)) if found > BYTES_MAX)
        );
        let mut growth = Growth::default();
        assert_eq!(growth.place(&nested(5), DEPTH_MAX), Ok(()));
        assert_eq!(growth.place(&nested(6), DEPTH_MAX), Err(Exceeded::Depth));
        assert_eq!(growth.place(&json!(1), usize::MAX), Err(Exceeded::Depth));
        let moves = (0..1000).map(|_| growth.place(&third, 1));
        let refused = moves.filter(|moved| *moved == Err(Exceeded::Moves)).count();
        assert!(refused > 900, "{refused}");
        assert_eq!(growth.shift(MOVED_MAX), Err(Exceeded::Moves));
    }
}
