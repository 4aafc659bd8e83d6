//! Columns of tables. Upstream's descriptions are in `columns.json`, by kind and column name.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use podstorm_objects::cells::text;
use podstorm_objects::{Cell, Column, Kind};
use serde_json::Value;

static DESCRIPTIONS: LazyLock<BTreeMap<&str, BTreeMap<&str, String>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json")).expect("a test parses the file")
});

/// Returns a column that is always printed.
pub(super) const fn column(name: &'static str, cell: Cell) -> Column {
    Column::new(name, "", cell)
}

/// Returns a column that only `-o wide` prints.
pub(super) const fn wide_column(name: &'static str, cell: Cell) -> Column {
    Column::wide(name, "", cell)
}

/// Returns the description of a kind's column; empty if there is none.
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

/// Returns the string at a JSON pointer; `<unset>` if there is none.
pub(super) fn or_unset(object: &Value, pointer: &str) -> Value {
    match text(object, pointer) {
        "" => "<unset>".into(),
        text => text.into(),
    }
}

/// Joins strings with commas; returns `none` if there are no strings.
pub(super) fn joined(texts: &[impl Borrow<str>], none: &str) -> Value {
    first_of(texts, usize::MAX, ",", none)
}

/// Joins the first `shown` strings with a separator and adds the number of the others.
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
