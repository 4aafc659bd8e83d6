//! The columns of tables. What upstream says of each is in `columns.json`, by kind and heading.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use podstorm_objects::cells::text;
use podstorm_objects::{Cell, Column, Kind};
use serde_json::Value;

static DESCRIPTIONS: LazyLock<BTreeMap<&str, BTreeMap<&str, String>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json")).expect("a test reads the file")
});

/// A column of every table.
pub(super) const fn column(name: &'static str, cell: Cell) -> Column {
    Column::new(name, "", cell)
}

/// As [`column`], printed by `-o wide` alone.
pub(super) const fn wide_column(name: &'static str, cell: Cell) -> Column {
    Column::wide(name, "", cell)
}

/// What a column of a kind's tables shows, in a sentence.
pub fn column_description(kind: Kind, column: &Column) -> &'static str {
    match column.description {
        "" => {
            let of_kind = DESCRIPTIONS.get(kind.name());
            let description = of_kind.and_then(|all| all.get(column.name));
            description.map_or("", String::as_str)
        }
        description => description,
    }
}

/// The text at a JSON pointer; `<unset>` where there is none.
pub(super) fn or_unset(object: &Value, pointer: &str) -> Value {
    match text(object, pointer) {
        "" => "<unset>".into(),
        text => text.into(),
    }
}

/// The texts with commas, or what is shown where there are none.
pub(super) fn joined(texts: &[impl Borrow<str>], none: &str) -> Value {
    first_of(texts, usize::MAX, ",", none)
}

/// The first texts with separators, and how many more there are.
pub(super) fn first_of(
    texts: &[impl Borrow<str>],
    shown: usize,
    separator: &str,
    none: &str,
) -> Value {
    match texts.len() {
        0 => none.into(),
        count if count > shown => {
            let first = texts[..shown].join(separator);
            format!("{first} + {} more...", count - shown).into()
        }
        _ => texts.join(separator).into(),
    }
}
