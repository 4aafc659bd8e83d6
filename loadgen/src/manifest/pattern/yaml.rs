//! Finds the values of a pod's own in an item of a YAML list, block style. Lines of any other form
//! belong to the text that all of its like have; what reads it in full says what they mean.

use std::ops::Range;

use super::is_value;
use super::place::{Ended, Place, Slot, prefix_bytes};

/// The values and their places in the text of an item, its dash included, in order.
pub(super) fn values(text: &[u8]) -> Vec<(Range<usize>, Slot)> {
    let mut found = Vec::new();
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive(|b| *b == b'\n') {
        let begin = at;
        at += line.len();
        let line = line.trim_ascii_end();
        let Some(mut column) = line.iter().position(|b| *b != b' ') else {
            continue;
        };
        // Each dash opens an item, and what follows it stands in that item.
        while let [b'-', b' ', ..] | [b'-'] = line[column..] {
            levels.retain(|level| level.column <= column);
            let place = match levels.last_mut() {
                Some(list) => {
                    list.items += 1;
                    list.open.item(list.items - 1)
                }
                None => Place::Root,
            };
            let Some(content) = line[column + 1..].iter().position(|b| *b != b' ') else {
                // The item begins on the next line.
                levels.push(Level::new(column + 1, place));
                column = line.len();
                break;
            };
            column += 1 + content;
            levels.push(Level::new(column, place));
        }
        if column == line.len() || line[column] == b'#' {
            continue;
        }
        levels.retain(|level| level.column <= column);
        let Some(above) = levels.last() else {
            continue;
        };
        if above.column < column {
            levels.push(Level::new(column, above.open));
        }
        let level = levels.last_mut().expect("there is one above");
        let (member, value) = match member(line, column) {
            Some((key, value)) => (level.place.member(&line[key]), value),
            None => (Place::Other, line.len()..line.len()),
        };
        level.items = 0;
        // A value that stands here leaves nothing open below.
        level.open = if value.is_empty() {
            member
        } else {
            Place::Other
        };
        if let Place::Value(slot) = member
            && let Some(range) = own_value(line, value, slot)
        {
            found.push((begin + range.start..begin + range.end, slot));
        }
    }
    found
}

/// An object whose members stand at a column.
struct Level {
    column: usize,
    place: Place,
    /// The place of the member that was named last and whose value is on the lines below.
    open: Place,
    /// Items of that member seen so far.
    items: usize,
}

impl Level {
    fn new(column: usize, place: Place) -> Level {
        Level {
            column,
            place,
            open: Place::Other,
            items: 0,
        }
    }
}

/// The key and the value of a line `key: value` that begins at a column.
fn member(line: &[u8], column: usize) -> Option<(Range<usize>, Range<usize>)> {
    let length = line[column..].iter().position(|b| *b == b':')?;
    // A key with a colon in it has none of the places' names.
    let colon = column + length;
    match line.get(colon + 1) {
        None => Some((column..colon, line.len()..line.len())),
        Some(b' ') => {
            let blanks = line[colon + 1..].iter().position(|b| *b != b' ')?;
            Some((column..colon, colon + 1 + blanks..line.len()))
        }
        Some(_) => None,
    }
}

/// The place of a value of its own: in quotes, or plain where it can't be taken for anything but a
/// text.
fn own_value(line: &[u8], value: Range<usize>, slot: Slot) -> Option<Range<usize>> {
    let text = &line[value.clone()];
    let (inner, is_quoted) = match text {
        [quote @ (b'"' | b'\''), inner @ .., last] if quote == last => (inner, true),
        _ => (text, false),
    };
    inner.iter().all(|b| is_value(*b)).then_some(())?;
    let fits = match (slot.is_number(), is_quoted) {
        (true, _) => !is_quoted && inner.iter().all(u8::is_ascii_digit),
        (false, true) => true,
        (false, false) => is_plain_text(slot),
    };
    fits.then_some(())?;
    let prefix = prefix_bytes(slot, inner)?;
    let start = value.start + usize::from(is_quoted);
    Some(start + prefix..start + inner.len())
}

/// Whether values of that sort may be texts without quotes too. What YAML would take for anything
/// else all the same, such as the name `1e5`, is sorted out when it is put in.
fn is_plain_text(slot: Slot) -> bool {
    match slot {
        Slot::Created
        | Slot::Transition(_)
        | Slot::Started
        | Slot::RunningSince(_)
        | Slot::Ended(_, _, Ended::StartedAt | Ended::FinishedAt)
        | Slot::ResourceVersion
        | Slot::RestartCount(_)
        | Slot::Annotation(_) => false,
        Slot::Name
        | Slot::Uid
        | Slot::NodeName
        | Slot::TokenVolume
        | Slot::HostIp
        | Slot::PodIp
        | Slot::ContainerId(_)
        | Slot::Ended(_, _, Ended::ContainerId) => true,
    }
}
