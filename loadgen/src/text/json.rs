//! JSON formatting: each member is on its own line, but a list of numbers is on one line, so that a
//! time series with a thousand samples takes a dozen lines instead of ten thousand.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value as indented JSON, followed by a line feed.
///
/// # Errors
/// Writing to `writer` fails.
pub(crate) fn write(writer: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(&mut *writer, Layout::default());
    value.serialize(&mut serializer)?;
    writer.write_all(b"\n")
}

/// Puts each member of an object on its own line and each list on one line, except for objects in
/// it.
#[derive(Debug, Default)]
struct Layout {
    depth: usize,
    /// Whether the innermost open object has a member.
    has_members: bool,
}

impl Layout {
    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_members = false;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.has_members {
            self.line(writer)?;
        }
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b"," })?;
        self.line(writer)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.has_members = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_share_a_line_but_members_do_not() {
        let value = json!({"a": [1, 2.5, null], "b": {"c": {}, "d": [{"e": "x"}, []]}});
        let mut bytes = Vec::new();
        write(&mut bytes, &value).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let expected = "{\n  \"a\": [1, 2.5, null],\n  \"b\": {\n    \"c\": {},\n    \"d\": [{\n      \
                        \"e\": \"x\"\n    }, []]\n  }\n}\n";
        assert_eq!(text, expected);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, value);
    }
}
