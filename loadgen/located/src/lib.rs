//! Parses hand-written YAML and TOML files to a tree whose values know their line and column, so
//! that errors of a type that is deserialized from the tree name the place.
//!
//! YAML and TOML produce the same tree, so each type needs only one deserializer.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{
    self, Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_saphyr::{Spanned, UserMessageFormatter};

/// A line and a column of a file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters or bytes as the reader of the text counts them.
    pub column: u64,
}

impl Place {
    /// Creates a place.
    pub const fn new(line: u64, column: u64) -> Place {
        Place { line, column }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Located {
    /// The place at which the value starts.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// A YAML or TOML value.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are clear")]
pub enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Located>),
    /// Names and values, in the order of the file. A number used as a name becomes a string.
    Map(Vec<(Located, Located)>),
}

/// An error in the text of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place.map(|at| format!("line {}, column {}: ", at.line, at.column)).unwrap_or_default())]
pub struct Mistake {
    /// The place of the error; `None` if it is unknown.
    pub place: Option<Place>,
    /// The description of the problem.
    pub problem: String,
}

impl Mistake {
    /// Converts an error of the YAML reader, without its snippet of the text.
    pub fn of_yaml(error: serde_saphyr::Error) -> Mistake {
        let error = error.without_snippet();
        let place = error
            .location()
            .map(|at| Place::new(at.line(), at.column()));
        let text = error.render_with_formatter(&UserMessageFormatter);
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        // The message ends with the position, which `place` already contains.
        let problem = match text.rfind(" at line ") {
            Some(end) if place.is_some() => text[..end].trim_end_matches(':'),
            _ => text,
        };
        Mistake {
            place,
            problem: problem.trim().to_owned(),
        }
    }

    fn or_at(mut self, place: Place) -> Mistake {
        self.place.get_or_insert(place);
        self
    }
}

impl Located {
    /// Parses YAML or JSON.
    ///
    /// # Errors
    /// The text is invalid or empty.
    pub fn from_yaml(text: &str) -> Result<Located, Mistake> {
        let read: Located = serde_saphyr::from_str(text).map_err(Mistake::of_yaml)?;
        match read.value {
            Value::Null => Err(Mistake {
                place: Some(Place::new(1, 1)),
                problem: "unexpected end: the text is empty".to_owned(),
            }),
            _ => Ok(read),
        }
    }

    /// Deserializes the tree to a value of type `T`. Null counts as an empty map or list if the
    /// type needs one.
    ///
    /// # Errors
    /// The error of the first value that does not fit the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        T::deserialize(self)
    }

    /// Returns the place of the member at `path`, such as `phases[1].name`. If the member is
    /// missing, returns the place of the longest existing part of the path.
    pub fn place_of(&self, path: &str) -> Place {
        let (mut place, mut at, mut rest) = (self.place, self, path);
        while let Some((next, member, after)) = at.member(rest) {
            (place, at, rest) = (next, member, after.trim_start_matches('.'));
        }
        place
    }

    /// Returns the member that the path starts with, the place of the member or of its name, and
    /// the rest of the path; `None` if there is no such member. A name may contain dots: the
    /// longest matching name wins.
    fn member<'a>(&'a self, path: &'a str) -> Option<(Place, &'a Located, &'a str)> {
        match &self.value {
            Value::List(items) => {
                let (number, after) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(number.parse::<usize>().ok()?)?;
                Some((item.place, item, after))
            }
            Value::Map(members) => {
                let fits = members.iter().filter_map(|(name, member)| {
                    let Value::Text(text) = &name.value else {
                        return None;
                    };
                    let after = path.strip_prefix(text.as_str())?;
                    let ends = after.is_empty() || after.starts_with(['.', '[']);
                    (ends && !text.is_empty()).then_some((name.place, member, after))
                });
                fits.min_by_key(|(_, _, after)| after.len())
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Located, D::Error> {
        let Spanned {
            value, referenced, ..
        } = Spanned::deserialize(from)?;
        Ok(Located {
            place: Place::new(referenced.line(), referenced.column()),
            value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Unsigned(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Signed(value))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Float(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Value::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, member)) = map.next_entry::<Spanned<String>, Located>()? {
                    let at = name.referenced;
                    let name = Located {
                        place: Place::new(at.line(), at.column()),
                        value: Value::Text(name.value),
                    };
                    members.push((name, member));
                }
                Ok(Value::Map(members))
            }
        }

        from.deserialize_any(Any)
    }
}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(problem: T) -> Mistake {
        Mistake {
            place: None,
            problem: problem.to_string(),
        }
    }
}

impl<'de> IntoDeserializer<'de, Mistake> for &'de Located {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// The members of a map in the form that serde requires: pairs instead of references to pairs.
type Members<'de> = MapDeserializer<
    'de,
    std::iter::Map<
        std::slice::Iter<'de, (Located, Located)>,
        fn(&'de (Located, Located)) -> (&'de Located, &'de Located),
    >,
    Mistake,
>;

fn members(map: &[(Located, Located)]) -> Members<'_> {
    MapDeserializer::new(map.iter().map(|(name, value)| (name, value)))
}

impl<'de> Deserializer<'de> for &'de Located {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let read = match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(items) => {
                let mut items = SeqDeserializer::new(items.iter());
                visitor
                    .visit_seq(&mut items)
                    .and_then(|read| items.end().map(|()| read))
            }
            Value::Map(map) => visitor.visit_map(members(map)),
        };
        read.map_err(|mistake| mistake.or_at(self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::Null => {
                visitor.visit_seq(SeqDeserializer::<_, Mistake>::new([(); 0].into_iter()))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::Null => visitor
                .visit_map(members(&[]))
                .map_err(|mistake| mistake.or_at(self.place)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let read = match &self.value {
            Value::Text(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Map(map) if map.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(members(map)))
            }
            _ => Err(de::Error::custom(format!(
                "expected one of {}",
                variants.join(", ")
            ))),
        };
        read.map_err(|mistake| mistake.or_at(self.place))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        name: String,
        #[serde(default)]
        sizes: Vec<u8>,
        #[serde(default)]
        limits: Limits,
        #[serde(default)]
        doing: Option<Doing>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Limits {
        qps: f64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Doing {
        Nothing,
        Scale { to: u8 },
    }

    fn read(text: &str) -> Result<File, Mistake> {
        Located::from_yaml(text)?.read()
    }

    #[test]
    fn a_file_is_read() {
        let text = "name: web\nsizes: [1, 2]\nlimits: {qps: 3}\ndoing:\n  scale: {to: 4}\n";
        let file = File {
            name: "web".to_owned(),
            sizes: vec![1, 2],
            limits: Limits { qps: 3.0 },
            doing: Some(Doing::Scale { to: 4 }),
        };
        assert_eq!(read(text), Ok(file));
        let text = "name: web\nsizes:\nlimits:\ndoing: nothing\n";
        let file = File {
            name: "web".to_owned(),
            sizes: Vec::new(),
            limits: Limits::default(),
            doing: Some(Doing::Nothing),
        };
        assert_eq!(read(text), Ok(file), "empty values are empty collections");
    }

    #[test]
    fn an_error_names_its_line_and_column() {
        let check = |text: &str, (line, column): (u64, u64), problem: &str| {
            let mistake = read(text).unwrap_err();
            let place = Place::new(line, column);
            assert_eq!(mistake.place, Some(place), "{text}: {mistake}");
            assert!(mistake.problem.contains(problem), "{text}: {mistake}");
        };
        let two_names = "doing: {scale: {to: 1}, nothing: }\n";
        for (behind_the_name, place, problem) in [
            ("size: 1\n", (2, 1), "unknown field `size`"),
            ("sizes: [1, two]\n", (2, 12), "invalid type: string \"two\""),
            (
                "sizes:\n- 1\n- 256\n",
                (4, 3),
                "invalid value: integer `256`",
            ),
            ("doing: sleep\n", (2, 8), "unknown variant `sleep`"),
            ("doing:\n  scale: {}\n", (3, 10), "missing field `to`"),
            ("doing: {}\n", (2, 8), "expected one of nothing, scale"),
            (two_names, (2, 8), "expected one of"),
            ("name: web\n", (2, 1), "duplicate"),
        ] {
            check(&format!("name: web\n{behind_the_name}"), place, problem);
        }
        let no_text = "invalid type: integer `5`, expected a string";
        for (text, place, problem) in [
            ("sizes: [1]\n", (1, 1), "missing field `name`"),
            ("name: 5\n", (1, 7), no_text),
            ("name: [\n", (1, 7), "unclosed bracket"),
            ("", (1, 1), "unexpected end"),
            ("# nothing\n", (1, 1), "unexpected end"),
        ] {
            check(text, place, problem);
        }
    }

    #[test]
    fn a_number_can_be_the_name_of_a_member() {
        let file = Located::from_yaml("labels: {1: a}\n").unwrap();
        let read: serde_json::Value = file.read().unwrap();
        assert_eq!(read, serde_json::json!({"labels": {"1": "a"}}));
    }

    #[test]
    fn a_member_is_found_by_its_path() {
        let text = "a:\n- b: 1\n  c: 2\n- d:\n    e: 3\n    e.f: [4]\n";
        let file = Located::from_yaml(text).unwrap();
        for (path, line, column) in [
            ("a[0].c", 3, 3),
            ("a[1].d.e", 5, 5),
            ("a[1].d.e.f[0]", 6, 11),
            // The existing part of the path.
            ("a[1].d.f", 4, 3),
            ("z", 1, 1),
        ] {
            assert_eq!(file.place_of(path), Place::new(line, column), "{path}");
        }
    }
}
