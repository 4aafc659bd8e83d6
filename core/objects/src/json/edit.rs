//! Changes to members that are carried unread, without a tree.

use smallvec::SmallVec;

use super::writer::Scalar;
use super::{Rest, Writer};

/// Up to this many members need no allocation.
const FEW: usize = 12;

/// The members of a [`Rest`] while they are changed: texts, sorted by name. Each lookup and change
/// is O(members).
#[derive(Debug)]
pub struct Members<'a> {
    of: &'a Rest,
    /// Names without their quotes.
    all: SmallVec<[(&'a str, Text<'a>); FEW]>,
    /// The texts of new values.
    new: Writer,
}

#[derive(Clone, Copy, Debug)]
enum Text<'a> {
    Old(&'a str),
    /// Start and end in the text of new values.
    New(usize, usize),
}

impl Rest {
    /// Opens the members for changes. O(bytes).
    pub fn edit(&self) -> Members<'_> {
        let parts = self.parts();
        Members {
            of: self,
            all: parts
                .map(|(name, value)| (&name[1..name.len() - 1], Text::Old(value)))
                .collect(),
            new: Writer::new(),
        }
    }
}

impl<'a> Members<'a> {
    /// Reports whether there is a member with this name, which must not need escaping.
    pub fn has(&self, name: &str) -> bool {
        self.all.iter().any(|(found, _)| *found == name)
    }

    /// Removes a member if it exists.
    pub fn remove(&mut self, name: &str) {
        self.all.retain(|(found, _)| *found != name);
    }

    /// Sets a member whose name does not need escaping.
    pub fn set(&mut self, name: &'static str, value: impl Scalar) {
        self.set_with(name, |out| value.write(out));
    }

    /// Sets a member to the value that `write` writes. Objects in the value must have their members
    /// sorted by name.
    pub fn set_with(&mut self, name: &'static str, write: impl FnOnce(&mut Writer)) {
        let begin = self.new.len();
        write(&mut self.new);
        let text = Text::New(begin, self.new.len());
        match self.all.iter().position(|(found, _)| *found >= name) {
            Some(at) if self.all[at].0 == name => self.all[at].1 = text,
            Some(at) => self.all.insert(at, (name, text)),
            None => self.all.push((name, text)),
        }
    }

    /// Returns the members after the changes. Shares the original memory if the members are equal.
    pub fn done(&self) -> Rest {
        self.of.or_new(|out| {
            for (name, text) in &self.all {
                out.comma();
                out.raw("\"");
                out.raw(name);
                out.raw("\":");
                out.raw(match *text {
                    Text::Old(text) => text,
                    Text::New(begin, end) => &self.new.as_str()[begin..end],
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_change_like_those_of_a_tree() {
        let rest = Rest::from(crate::Map::from_iter([
            ("b".to_owned(), json!({"x": [1, "},\""], "y": null})),
            ("d".to_owned(), json!("old")),
            ("f\"".to_owned(), json!(1)),
        ]));
        let mut members = rest.edit();
        assert!(members.has("b") && !members.has("x"));
        assert!(members.done().is_same(&rest));
        members.set("d", "old");
        assert!(members.done().is_same(&rest));
        members.set("d", 7_i64);
        members.set("a", true);
        members.set("z", "\"");
        members.set_with("c", |out| {
            out.object(|out| {
                out.put("m", "n");
                out.put_object("o", |_| {});
            });
        });
        members.remove("b");
        members.remove("none");
        let tree = json!({"a": true, "c": {"m": "n"}, "d": 7, "f\"": 1, "z": "\""});
        let tree = tree.as_object().expect("an object").clone();
        assert_eq!(members.done(), Rest::from(tree));
        let mut members = rest.edit();
        members.remove("b");
        members.remove("d");
        assert_eq!(members.done().as_str(), r#""f\"":1"#);
        assert_eq!(Rest::NONE.edit().done(), Rest::NONE);
    }
}
