//! How deep and how large a document may become, whatever makes it grow: patches, defaults, conversions,
//! server-side apply. What is within the limits can be read back from its JSON, alone or in a List.

use std::fmt::Display;

use podstorm_objects::{ApiError, Map, Reason};
use serde_json::Value;

/// Most lists and objects within each other in a text that is read, as `serde_json`.
pub const READ_DEPTH_MAX: usize = 127;
/// Most lists and objects within each other in an object, its `managedFields` apart: those that are read, less 2
/// of the List around it and 5 that `managedFields` lie deeper than the fields that they name.
pub const DEPTH_MAX: usize = READ_DEPTH_MAX - 2 - OWNERS_DEPTH;
/// `metadata`, `managedFields`, the entry, `fieldsV1`, and the empty object of the innermost field.
const OWNERS_DEPTH: usize = 5;
/// Most bytes of an object as JSON, its `managedFields` apart, which may have as many; and most bytes by which one
/// request makes it grow. As upstream: a body may have as many, and the copies of a JSON patch.
pub const BYTES_MAX: usize = 3 << 20;
/// Most bytes that one JSON patch moves about without making the document grow.
const MOVED_MAX: usize = 64 << 20;

/// Why a document is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too many lists and objects lie within each other.
    #[error(
        "the object is nested too deep: at most {DEPTH_MAX} lists and objects may lie in each other"
    )]
    Depth,
    /// The document is too large.
    #[error(
        "Request entity too large: limit is {BYTES_MAX}: the object would have more bytes as JSON"
    )]
    Bytes,
    /// The copies of a patch have so many bytes.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {BYTES_MAX}"
    )]
    Copies(usize),
    /// The operations of a patch move too much.
    #[error(
        "the operations of the patch move values of more than {MOVED_MAX} bytes in all: send fewer of them, \
         or the whole object"
    )]
    Moves,
    /// The request has taken too long.
    #[error("Timeout: request did not complete within the allotted timeout")]
    Time,
}

impl From<Exceeded> for ApiError {
    /// 400 for the depth, 413 for the size, 422 for what a patch asks for, 504 for the time.
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

/// The budget of everything that makes the document of one request grow. It is charged before the growth.
#[derive(Debug, Default)]
pub struct Growth {
    grown: usize,
    moved: usize,
}

impl Growth {
    /// Charges a copy of a value that will stand below `parents` others. O(size of the value).
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

    /// Charges a value that will stand below `parents` others and is in memory already. O(size of the value).
    ///
    /// # Errors
    /// The document would become too deep, or too much has been moved.
    pub fn place(&mut self, value: &Value, parents: usize) -> Result<(), Exceeded> {
        let mut left = MOVED_MAX.saturating_sub(self.moved);
        let before = left;
        measure(value, room_below(parents)?, &mut left).map_err(|exceeded| match exceeded {
            Exceeded::Bytes => Exceeded::Moves,
            other => other,
        })?;
        self.shift(before - left)
    }

    /// Charges list entries that make room or close a gap.
    ///
    /// # Errors
    /// Too much has been moved.
    pub fn shift(&mut self, entries: usize) -> Result<(), Exceeded> {
        self.moved = self.moved.saturating_add(entries);
        match self.moved > MOVED_MAX {
            true => Err(Exceeded::Moves),
            false => Ok(()),
        }
    }

    /// Whether there is room for more once the value has been added. O(size of the value).
    pub(crate) fn has_room_after(&mut self, added: &Value) -> bool {
        self.copy(added, 0).is_ok()
    }
}

/// What an answer lists, such as paths of members: as many as have [`BYTES_MAX`] bytes in all. A name of megabytes is part
/// of the path of everything below it, so the paths of a small document can be a million times as large.
#[derive(Debug, Default)]
pub struct Listed {
    all: Vec<String>,
    bytes: usize,
}

impl Listed {
    /// Adds a text while there is room. A text that is not added is not rendered.
    pub fn push(&mut self, text: impl Display) {
        if !self.is_full() {
            let text = text.to_string();
            self.bytes += text.len();
            self.all.push(text);
        }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.bytes > BYTES_MAX
    }

    /// The texts, in the order in which they were added.
    pub fn into_vec(self) -> Vec<String> {
        self.all
    }
}

/// The levels that are left below so many.
fn room_below(parents: usize) -> Result<usize, Exceeded> {
    // `managedFields` may lie deeper; [`check`] knows where they are.
    (DEPTH_MAX + OWNERS_DEPTH)
        .checked_sub(parents)
        .ok_or(Exceeded::Depth)
}

/// Checks the document of an object that a request has made. O(size), on as much stack as the limit has levels.
///
/// # Errors
/// It is too deep or too large.
pub fn check(document: &Value) -> Result<(), Exceeded> {
    let mut left = BYTES_MAX;
    match document {
        Value::Object(members) => check_members(members, &mut left),
        other => measure(other, DEPTH_MAX, &mut left),
    }
}

/// As [`check`], of the members of an object.
///
/// # Errors
/// As there.
pub fn check_object(members: &Map) -> Result<(), Exceeded> {
    check_members(members, &mut BYTES_MAX.clone())
}

fn check_members(members: &Map, left: &mut usize) -> Result<(), Exceeded> {
    // Owners have a budget of their own: whatever could be created can be patched.
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
        // The quotes, the colon and a comma or the brace.
        take(left, name.len() + 4)?;
        each(name, value, left)?;
    }
    Ok(())
}

/// Takes the bytes that a value has as JSON, escapes apart, from those that are left. It goes as deep as it is
/// allowed, no deeper.
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

    /// Lists within each other.
    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!([]), |inner, _| json!([inner]))
    }

    #[test]
    fn a_document_is_as_deep_and_as_large_as_can_be_read_back() {
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
    fn a_list_of_long_texts_ends_where_it_is_full() {
        let mut listed = Listed::default();
        let long = "x".repeat(BYTES_MAX / 2);
        for number in 0..1_000_000 {
            listed.push(format_args!("{long}{number}"));
        }
        assert!(listed.is_full());
        assert_eq!(listed.into_vec().len(), 2);
    }

    #[test]
    fn what_one_request_adds_is_counted_together() {
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
