//! The tape: all values of a text in one list, in the order of the text, except that the members of
//! objects are sorted by name. A tape takes one allocation per text, and does not copy strings
//! without escapes.
//!
//! Source of the format: the tape of Langdale and Lemire, "Parsing Gigabytes of JSON per Second",
//! 2019.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{JsonValue, block_yaml, quick};

/// One value, or the name of a member, which precedes the member's value. The content of a list or
/// an object follows its slot.
#[derive(Clone, Debug)]
pub(super) enum Slot<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number outside the range of `Int`.
    Uint(u64),
    Float(f64),
    Text(Cow<'t, str>),
    /// A string without characters that JSON escapes.
    Plain(&'t str),
    /// A list, with the number of slots of its content.
    List(u32),
    /// An object, with the number of slots of its content: the name and the value of each member.
    Object(u32),
}

const _: () = assert!(size_of::<Slot<'_>>() <= 24);

impl Slot<'_> {
    /// Returns the name of a member.
    pub(super) fn name(&self) -> &str {
        match self {
            Slot::Plain(text) => text,
            Slot::Text(text) => text,
            _ => "",
        }
    }
}

/// A parsed JSON or YAML text. Members of objects are sorted by name, and each occurs once.
#[derive(Clone, Debug)]
pub struct Tape<'t>(Vec<Slot<'t>>);

/// The approximate number of bytes of text per value, in JSON as API servers write it.
const BYTES_PER_SLOT: usize = 12;

impl<'t> Tape<'t> {
    /// Reads a JSON text. O(bytes), and O(n log n) for an object of n members that are not sorted.
    ///
    /// # Errors
    /// Fails if the text is not JSON, is nested more than 127 levels deep, or has a duplicate
    /// member.
    pub fn from_slice(text: &'t [u8]) -> Result<Tape<'t>, serde_json::Error> {
        let mut slots = Vec::with_capacity(text.len() / BYTES_PER_SLOT + 1);
        if let Ok(text) = str::from_utf8(text)
            && quick::read(text, &mut slots, quick::DEPTH_MAX).is_some()
        {
            return Ok(Tape(slots));
        }
        slots.clear();
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        Fill(&mut slots).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(Tape(slots))
    }

    /// Reads a text that a [`Writer`](super::Writer) wrote, of any depth: the depth was limited
    /// when its source was read.
    ///
    /// # Panics
    /// Panics if the text is not JSON.
    pub(crate) fn of_written(text: &'t str) -> Tape<'t> {
        let mut slots = Vec::with_capacity(text.len() / BYTES_PER_SLOT + 1);
        quick::read(text, &mut slots, usize::MAX).expect("the text was written as JSON");
        Tape(slots)
    }

    /// Reads YAML in the form that `kubectl get -o yaml` writes: block style, each scalar on its
    /// own line. `None` for any other form, which a YAML library must read. O(bytes).
    pub fn from_block_yaml(text: &'t str) -> Option<Tape<'t>> {
        let mut slots = Vec::with_capacity(text.len() / BYTES_PER_SLOT + 1);
        block_yaml::read(text, &mut slots)?;
        Some(Tape(slots))
    }

    /// Creates the tape of a value.
    ///
    /// # Panics
    /// Panics if a list or an object in it has 2³² values or more.
    pub fn new(value: &'t Value) -> Tape<'t> {
        Tape::deserialize(value).expect("a value has no duplicate members")
    }

    /// Returns the value of the whole text.
    pub fn root(&self) -> JsonValue<'_> {
        JsonValue::new(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tape<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tape<'de>, D::Error> {
        let mut slots = Vec::new();
        Fill(&mut slots).deserialize(deserializer)?;
        Ok(Tape(slots))
    }
}

/// Appends the value that it deserializes to a tape.
struct Fill<'a, 't>(&'a mut Vec<Slot<'t>>);

impl<'t> Fill<'_, 't> {
    fn push<E>(self, slot: Slot<'t>) -> Result<(), E> {
        self.0.push(slot);
        Ok(())
    }
}

/// Returns the number of slots after the slot `at` of a list or object.
fn content<E: Error>(slots: &[Slot<'_>], at: usize) -> Result<u32, E> {
    u32::try_from(slots.len() - at - 1).map_err(|_| E::custom("too many values"))
}

impl<'t> DeserializeSeed<'t> for Fill<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Fill<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, a boolean, null, a list or an object")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(Slot::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(Slot::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.push(match i64::try_from(value) {
            Ok(value) => Slot::Int(value),
            Err(_) => Slot::Uint(value),
        })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(
                "a number that JSON cannot represent; quote it to make it a string",
            ));
        }
        self.push(Slot::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'t str) -> Result<(), E> {
        self.push(Slot::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<(), E> {
        self.push(Slot::Text(Cow::Owned(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(Slot::Null)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.push(Slot::Null)
    }

    fn visit_some<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        let slots = self.0;
        let at = slots.len();
        slots.push(Slot::List(0));
        while items.next_element_seed(Fill(slots))?.is_some() {}
        slots[at] = Slot::List(content(slots, at)?);
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<(), A::Error> {
        let slots = self.0;
        let at = slots.len();
        slots.push(Slot::Object(0));
        let (mut last, mut in_order): (Option<usize>, _) = (None, true);
        while members.next_key_seed(Name(slots))?.is_some() {
            let name = slots.len() - 1;
            in_order = in_order && last.is_none_or(|last| slots[last].name() < slots[name].name());
            last = Some(name);
            members.next_value_seed(Fill(slots))?;
        }
        slots[at] = Slot::Object(content(slots, at)?);
        if in_order {
            return Ok(());
        }
        sort(slots, at + 1).map_err(|twice| {
            A::Error::custom(format_args!(
                "the field {twice:?} is given twice; remove one of the two"
            ))
        })
    }
}

/// Appends the name that it deserializes to a tape.
struct Name<'a, 't>(&'a mut Vec<Slot<'t>>);

impl<'t> DeserializeSeed<'t> for Name<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        // Always as a string, because in YAML a name may look like a number or a boolean.
        deserializer.deserialize_str(Fill(self.0))
    }
}

/// Sorts the members from `from` to the end by name. Fails with the name of a duplicate member.
pub(super) fn sort(slots: &mut Vec<Slot<'_>>, from: usize) -> Result<(), String> {
    let mut members = Vec::new();
    let mut at = from;
    while at < slots.len() {
        let end = at + 1 + JsonValue::new(&slots[at + 1..]).slots();
        members.push(at..end);
        at = end;
    }
    members.sort_unstable_by(|a, b| slots[a.start].name().cmp(slots[b.start].name()));
    let same = members
        .windows(2)
        .find(|pair| slots[pair[0].start].name() == slots[pair[1].start].name());
    if let Some(same) = same {
        return Err(slots[same[0].start].name().to_owned());
    }
    let mut sorted = Vec::with_capacity(slots.len() - from);
    for member in members {
        let taken = slots[member].iter_mut();
        sorted.extend(taken.map(|slot| std::mem::replace(slot, Slot::Null)));
    }
    slots.truncate(from);
    slots.append(&mut sorted);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::value::testing::any_value;
    use super::*;

    #[test]
    fn members_are_sorted_together_with_their_content() {
        let text = br#"{"b": [{"y": 1, "x": 2}, 3], "": null, "a": {"z": "\u00e9"}}"#;
        let tape = Tape::from_slice(text).unwrap();
        let names: Vec<&str> = tape.root().pairs().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "a", "b"]);
        let value: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(tape.root().to_value(), value);
    }

    #[test]
    fn a_member_given_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"kind": "A", "kind": "A"}"#,
            r#"{"b": 1, "a": 2, "b": 3}"#,
            r#"{"spec": {"x": [{"y": 1, "y": 1}]}}"#,
        ] {
            let problem = Tape::from_slice(text.as_bytes()).expect_err(text);
            assert!(problem.to_string().contains("given twice"), "{problem}");
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Tape::from_slice(deep(127).as_bytes()).is_ok());
        for text in [
            "",
            "{",
            "[1,]",
            "nul",
            "{} {}",
            "\"\u{1}\"",
            "1e999",
            &deep(128),
        ] {
            assert!(Tape::from_slice(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Tape::from_slice(b"\"\xff\"").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn a_text_is_read_like_the_tree_reads_it(value in any_value()) {
            let text = value.to_string();
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Tape::from_slice(text.as_bytes()).unwrap().root().to_value(), read);
            prop_assert_eq!(Tape::new(&value).root().to_value(), value.clone());
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(Tape::from_slice(&pretty).unwrap().root().to_string(), text);
        }

        #[test]
        fn no_text_causes_a_panic(text in prop::collection::vec(prop::sample::select(
            b"{}[]\":,\\u0a1-e.+ntf \n\xc3\xa9".to_vec()), 0..40))
        {
            let tree = serde_json::from_slice::<Value>(&text);
            match Tape::from_slice(&text) {
                Ok(tape) => prop_assert_eq!(tape.root().to_value(), tree.unwrap()),
                // A duplicate member is the only error that reading a tree ignores.
                Err(error) => prop_assert!(tree.is_err() || error.to_string().contains("twice")),
            }
        }
    }
}
