//! Parses TOML into a tree of values with their positions.

use std::ops::Range;

use podstorm_located::{Located, Mistake, Place, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses TOML text.
///
/// # Errors
/// The text is not TOML, or contains a number beyond 64 bits.
pub(super) fn read(text: &str) -> Result<Located, Mistake> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| Mistake {
        place: error.span().map(|span| lines.place(span)),
        problem: error.message().trim().to_owned(),
    })?;
    Ok(Located {
        place: lines.place(table.span()),
        value: lines.table(table.get_ref())?,
    })
}

/// Finds positions in a text; long lines take no longer than short ones.
struct Lines {
    /// The offsets at which lines start, in bytes.
    starts: Vec<usize>,
    /// The offsets of the bytes that do not start a character.
    within: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Lines {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines {
            starts: std::iter::once(0).chain(starts).collect(),
            within: (0..text.len())
                .filter(|at| !text.is_char_boundary(*at))
                .collect(),
        }
    }

    fn place(&self, span: Range<usize>) -> Place {
        let line = self.starts.partition_point(|start| *start <= span.start);
        let start = self.starts[line - 1];
        let below = |at: usize| self.within.partition_point(|within| *within < at);
        let characters = span.start - start - (below(span.start) - below(start));
        Place::new(line as u64, characters as u64 + 1)
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Value, Mistake> {
        let member = |(name, member): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name = Located {
                place: self.place(name.span()),
                value: Value::Text(String::from(AsRef::<str>::as_ref(name.get_ref()))),
            };
            Ok((name, self.value(member)?))
        };
        table
            .iter()
            .map(member)
            .collect::<Result<_, _>>()
            .map(Value::Map)
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Result<Located, Mistake> {
        let place = self.place(value.span());
        let unreadable = |problem: &str| Mistake {
            place: Some(place),
            problem: problem.to_owned(),
        };
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.as_ref().to_owned()),
            DeValue::Integer(number) => {
                let read = i64::from_str_radix(number.as_str(), number.radix());
                Value::Signed(read.map_err(|_| unreadable("a whole number beyond 64 bits"))?)
            }
            DeValue::Float(number) => {
                let read = number.as_str().parse();
                Value::Float(read.map_err(|_| unreadable("no number"))?)
            }
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.value(item));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table)?,
        };
        Ok(Located { place, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_position() {
        let text = "name = \"é\" # a name\nlist = [1, 0x1f, 2.5, true]\n[table]\nat = 1979-05-27\n";
        let file = read(text).unwrap();
        assert_eq!(file.place_of("list[1]"), Place::new(2, 12));
        assert_eq!(file.place_of("table.at"), Place::new(4, 1));
        let read: serde_json::Value = file.read().unwrap();
        let whole = serde_json::json!({
            "name": "é", "list": [1, 31, 2.5, true], "table": {"at": "1979-05-27"}
        });
        assert_eq!(read, whole);
    }

    #[test]
    fn invalid_toml_is_reported_with_line_and_column() {
        for (text, (line, column)) in [
            ("a = 1\nb = \n", (2, 5)),
            ("a = 1\nb = [1, 99999999999999999999]\n", (2, 9)),
            ("a = 1\nb = [\"éß\", 99999999999999999999]\n", (2, 12)),
        ] {
            let place = Some(Place::new(line, column));
            assert_eq!(read(text).unwrap_err().place, place, "{text}");
        }
    }

    #[test]
    fn a_line_with_a_million_values_is_read() {
        let text = format!("a = [{}]\n", "1,".repeat(1_000_000));
        let file = read(&text).unwrap();
        assert_eq!(file.place_of("a[999999]"), Place::new(1, 2_000_004));
    }
}
