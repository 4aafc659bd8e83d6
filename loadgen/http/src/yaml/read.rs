//! YAML decoding as in Kubernetes: the first document of a text as the JSON that go-yaml 2 and
//! `sigs.k8s.io/yaml` produce from it.
//!
//! Source: `decode.go` of go-yaml 2, `yaml.go` of `sigs.k8s.io/yaml`.

use std::collections::{BTreeSet, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle, Tag};
use podstorm_apiserver::limits::{BYTES_MAX, READ_DEPTH_MAX};
use serde_json::{Map, Value};

use super::problem::{self, LineColumn, Problem};
use super::resolve::{Scalar, resolve};

/// The number of bytes that each value adds to its text, towards the limit on expanded aliases.
const VALUE_BYTES: usize = 16;

/// A decoded document.
#[derive(Clone, Debug, Default)]
pub struct Yaml {
    /// The value.
    pub value: Value,
    /// Repeated members. The last value counts.
    pub doubled: Vec<Doubled>,
}

/// A repeated member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// The name.
    pub name: String,
    /// The position of the later value.
    pub place: LineColumn,
    /// Whether one of the two values came from a merge key.
    pub is_merged: bool,
}

/// Decodes the first document of a text; null if there is none. O(bytes), with aliases expanded.
///
/// # Errors
/// Fails if the text is not valid YAML, is nested too deeply or too large, or cannot be represented
/// in JSON.
pub fn read(text: &str) -> Result<Yaml, Problem> {
    if let Some(wrong) = text.chars().find(|it| !is_readable(*it)) {
        return Err(problem::of_character(wrong));
    }
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: READ_DEPTH_MAX + 1,
        block_nesting_limit: READ_DEPTH_MAX + 1,
        simple_key_max_lookahead: text.len().max(1024),
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut composer = Composer {
        text,
        left: text.len().max(BYTES_MAX),
        ..Composer::default()
    };
    while let Some((event, span)) = next(&mut parser, text)? {
        if composer.take(event, span)? {
            break;
        }
    }
    if let Some(why) = composer.no_json {
        return Err(Problem::new(None, why));
    }
    Ok(Yaml {
        value: composer.value,
        doubled: composer.doubled,
    })
}

fn next<'t>(
    parser: &mut Parser<'t, StrInput<'t>>,
    text: &str,
) -> Result<Option<(Event<'t>, Span)>, Problem> {
    let event = parser.next_event().transpose();
    event.map_err(|error| problem::of_scan(&error, text))
}

/// Reports whether go-yaml's reader accepts a character.
fn is_readable(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Reports whether there is a tab in the whitespace before the first token of a line. Such a tab is
/// valid only within brackets.
fn is_indented_by_tab(text: &str, span: Span) -> bool {
    let before = &text.as_bytes()[..span.start.byte_offset().unwrap_or(0)];
    let blanks = before.iter().rev();
    let blanks = blanks.take_while(|byte| matches!(**byte, b' ' | b'\t'));
    let (count, tabs) = blanks.fold((0, 0), |(count, tabs), byte| {
        (count + 1, tabs + usize::from(*byte == b'\t'))
    });
    tabs > 0
        && matches!(
            before[..before.len() - count].last(),
            None | Some(b'\n' | b'\r')
        )
}

/// Builds a value from the events of a document.
#[derive(Default)]
struct Composer<'t> {
    text: &'t str,
    /// The open lists and maps.
    open: Vec<Open>,
    /// The number of innermost open collections that are written in brackets.
    flows: usize,
    value: Value,
    doubled: Vec<Doubled>,
    /// The values with anchors, keyed by the anchor.
    anchors: HashMap<usize, Anchored>,
    /// The number of bytes that aliases may still expand to.
    left: usize,
    /// The reason why JSON cannot represent the value; `None` if it can.
    no_json: Option<String>,
}

struct Open {
    value: Container,
    anchor: usize,
    /// The nesting depth of the values in the collection.
    depth: usize,
    bytes: usize,
    place: LineColumn,
}

enum Container {
    List(Vec<Value>),
    Map {
        members: Map<String, Value>,
        /// The name of the member whose value comes next.
        name: Option<Name>,
        /// The names that came from a merge key.
        merged: BTreeSet<String>,
    },
}

enum Name {
    Text(String),
    Merge,
    /// A null, which is not a valid name.
    Null,
}

struct Anchored {
    value: Value,
    depth: usize,
    bytes: usize,
}

/// A value with its size and depth.
struct Node {
    value: Value,
    depth: usize,
    bytes: usize,
    place: LineColumn,
}

impl Composer<'_> {
    /// Processes an event. Returns whether it ends the document.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<bool, Problem> {
        let place = LineColumn::of(span.start);
        if self.flows == 0 && event.is_node() && is_indented_by_tab(self.text, span) {
            return Err(problem::tab(place));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), place)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                self.flows += usize::from(style == StructureStyle::Flow);
                self.begin(Container::List(Vec::new()), anchor, place)?;
            }
            Event::MappingStart(style, anchor, _) => {
                self.flows += usize::from(style == StructureStyle::Flow);
                let map = Container::Map {
                    members: Map::new(),
                    name: None,
                    merged: BTreeSet::new(),
                };
                self.begin(map, anchor, place)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => self.alias(anchor, span, place)?,
            Event::UnresolvedAlias(name) => {
                let told = format!("unknown anchor '{name}' referenced");
                return Err(Problem::new(Some(place), told));
            }
            Event::DocumentEnd | Event::StreamEnd => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn begin(&mut self, value: Container, anchor: usize, place: LineColumn) -> Result<(), Problem> {
        if self.open.len() == READ_DEPTH_MAX {
            return Err(problem::too_deep(place));
        }
        self.open.push(Open {
            value,
            anchor,
            depth: 0,
            bytes: VALUE_BYTES,
            place,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        self.flows = self.flows.saturating_sub(1);
        let value = match open.value {
            Container::List(items) => items.into(),
            Container::Map { members, .. } => members.into(),
        };
        let node = Node {
            value,
            depth: open.depth + 1,
            bytes: open.bytes,
            place: open.place,
        };
        self.anchor(open.anchor, &node)?;
        self.put(node)
    }

    /// Stores an anchored value for aliases.
    fn anchor(&mut self, anchor: usize, node: &Node) -> Result<(), Problem> {
        if anchor == 0 {
            return Ok(());
        }
        self.charge(node.bytes, node.place)?;
        let anchored = Anchored {
            value: node.value.clone(),
            depth: node.depth,
            bytes: node.bytes,
        };
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn charge(&mut self, bytes: usize, place: LineColumn) -> Result<(), Problem> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| problem::aliases(place))?;
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Span, place: LineColumn) -> Result<(), Problem> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let name = span.slice(self.text).unwrap_or("").trim_start_matches('*');
            let told = format!("anchor '{name}' value contains itself");
            return Err(Problem::new(Some(place), told));
        };
        let (depth, bytes) = (anchored.depth, anchored.bytes);
        if self.open.len() + depth > READ_DEPTH_MAX {
            return Err(problem::too_deep(place));
        }
        self.charge(bytes, place)?;
        let value = self.anchors[&anchor].value.clone();
        self.put(Node {
            value,
            depth,
            bytes,
            place,
        })
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        place: LineColumn,
    ) -> Result<(), Problem> {
        let is_plain = style == ScalarStyle::Plain;
        let is_value = |open: &Open| matches!(&open.value, Container::Map { name: None, .. });
        let is_name = self.open.last().is_some_and(is_value);
        let scalar = resolve(text, is_plain, tag).map_err(|why| Problem::new(Some(place), why))?;
        if is_name && anchor == 0 {
            return self.name(scalar, place);
        }
        let value = match scalar.value() {
            Ok(value) => value,
            Err(why) => {
                self.no_json.get_or_insert(why);
                Value::Null
            }
        };
        let bytes = VALUE_BYTES + text.len();
        let node = Node {
            value,
            depth: 0,
            bytes,
            place,
        };
        self.anchor(anchor, &node)?;
        match is_name {
            true => self.name(scalar, place),
            false => self.put(node),
        }
    }

    /// Processes a scalar in the position of a member's name.
    fn name(&mut self, scalar: Scalar<'_>, place: LineColumn) -> Result<(), Problem> {
        let next = match (&scalar, scalar.name()) {
            (Scalar::Merge, _) => Name::Merge,
            (_, Some(text)) => Name::Text(text.into_owned()),
            (_, None) => Name::Null,
        };
        if let Some(Open {
            value: Container::Map { name, .. },
            bytes,
            ..
        }) = self.open.last_mut()
        {
            if let Name::Text(text) = &next {
                *bytes += VALUE_BYTES + text.len();
            }
            *name = Some(next);
            return Ok(());
        }
        Err(Problem::new(
            Some(place),
            "did not find expected key".into(),
        ))
    }

    /// Adds a value to the innermost open collection.
    fn put(&mut self, node: Node) -> Result<(), Problem> {
        let Node {
            value,
            depth,
            bytes,
            place,
        } = node;
        let Some(open) = self.open.last_mut() else {
            self.value = value;
            return Ok(());
        };
        open.depth = open.depth.max(depth);
        open.bytes += bytes;
        match &mut open.value {
            Container::List(items) => items.push(value),
            Container::Map {
                members,
                name,
                merged,
            } => match name.take() {
                // Only aliases, lists and maps get here without a name: the value is itself a name.
                None => match Scalar::from_value(&value) {
                    Some(scalar) => return self.name(scalar, place),
                    None => {
                        let told = format!("invalid map key: {}", go_syntax(&value));
                        return Err(Problem::new(Some(place), told));
                    }
                },
                Some(Name::Text(name)) => {
                    let is_merged = !merged.is_empty() && merged.contains(&name);
                    let before = members.insert(name.clone(), value);
                    if before.is_some() {
                        self.doubled.push(Doubled {
                            name,
                            place,
                            is_merged,
                        });
                    }
                }
                Some(Name::Null) => {
                    let value = go_syntax(&value);
                    self.no_json.get_or_insert_with(|| {
                        let nil = "%!s(<nil>), key: <nil>";
                        format!("unsupported map key of type: {nil}, value: {value}")
                    });
                }
                Some(Name::Merge) => {
                    for (name, value) in to_merge(value, place)? {
                        if members.insert(name.clone(), value).is_some() {
                            self.doubled.push(Doubled {
                                name: name.clone(),
                                place,
                                is_merged: true,
                            });
                        }
                        merged.insert(name);
                    }
                }
            },
        }
        Ok(())
    }
}

/// Returns the members that a merge key adds. Later members take precedence.
fn to_merge(value: Value, place: LineColumn) -> Result<Vec<(String, Value)>, Problem> {
    let no_map = || {
        let told = "map merge requires map or sequence of maps as the value";
        Problem::new(Some(place), told.into())
    };
    match value {
        Value::Object(members) => Ok(members.into_iter().collect()),
        // In a list, the first map takes precedence.
        Value::Array(maps) => {
            let maps = maps.into_iter().rev().map(|map| match map {
                Value::Object(members) => Ok(members),
                _ => Err(no_map()),
            });
            let maps: Result<Vec<_>, Problem> = maps.collect();
            Ok(maps?.into_iter().flatten().collect())
        }
        _ => Err(no_map()),
    }
}

/// Formats go-yaml's representation of a value in Go's syntax (`%#v`).
fn go_syntax(value: &Value) -> String {
    let listed = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", listed(items))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("{name:?}:{}", go_syntax(value)));
            let members = listed(members.collect());
            format!("map[interface {{}}]interface {{}}{{{members}}}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::problem::Cause;
    use super::*;

    fn value(text: &str) -> Value {
        read(text)
            .unwrap_or_else(|why| panic!("{text}: {why:?}"))
            .value
    }

    #[test]
    fn a_document_becomes_upstreams_json() {
        for (text, wanted) in [
            ("", json!(null)),
            ("# nothing\n", json!(null)),
            ("a: b\n---\nc: d\n", json!({"a": "b"})),
            ("--- {a: 1}\n...\n]", json!({"a": 1})),
            (
                "- a\n- [b, {c: d}]\n-\n",
                json!(["a", ["b", {"c": "d"}], null]),
            ),
            (
                "a: &x {k: 1}\nb: *x\n",
                json!({"a": {"k": 1}, "b": {"k": 1}}),
            ),
            ("x: &a {}\ny: *a\n", json!({"x": {}, "true": {}})),
            (
                "1: a\n0x10: b\nno: c\n1.5: d\n~x: e\n",
                json!({"1": "a", "16": "b", "false": "c", "1.5": "d", "~x": "e"}),
            ),
            ("&k a: 1\n*k : 2\n", json!({"a": 2})),
            (
                "a: |\n  x\n  y\nb: >-\n  x\n  y\n",
                json!({"a": "x\ny\n", "b": "x y"}),
            ),
            ("\u{feff}a: 1", json!({"a": 1})),
        ] {
            assert_eq!(value(text), wanted, "{text}");
        }
    }

    #[test]
    fn merge_keys_add_members_with_upstreams_precedence() {
        let maps = "x: &x {k: 1, l: 1}\ny: &y {k: 2, m: 2}\n";
        for (text, wanted) in [
            ("z: {<<: *x, o: 3}", json!({"k": 1, "l": 1, "o": 3})),
            ("z: {<<: *x, k: 3}", json!({"k": 3, "l": 1})),
            ("z: {<<: [*x, *y]}", json!({"k": 1, "l": 1, "m": 2})),
            ("z: {<<: {a: 1}}", json!({"a": 1})),
            ("z: {\"<<\": 1}", json!({"<<": 1})),
        ] {
            assert_eq!(value(&format!("{maps}{text}\n"))["z"], wanted, "{text}");
        }
        let wrong = read("z: {<<: 3}").unwrap_err();
        assert_eq!(
            wrong.told,
            "map merge requires map or sequence of maps as the value"
        );
    }

    #[test]
    fn repeated_members_are_reported_at_the_later_value() {
        let doubled = |text: &str| {
            let doubled = read(text).expect(text).doubled.into_iter();
            doubled
                .map(|one| (one.name, one.place.line, one.is_merged))
                .collect::<Vec<_>>()
        };
        let text = "a: 1\nb: {c: 1,\n  c: 2}\na:\n  3\na: 4\n";
        let told = [("c", 3, false), ("a", 5, false), ("a", 6, false)];
        assert_eq!(
            doubled(text),
            told.map(|(name, line, by)| (name.to_owned(), line, by))
        );
        assert_eq!(value(text), json!({"a": 4, "b": {"c": 2}}));
        assert_eq!(
            doubled("a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\n"),
            [("k".to_owned(), 4, true)]
        );
        assert_eq!(
            doubled("yes: 1\ntrue: 2\n"),
            [("true".to_owned(), 2, false)]
        );
    }

    #[test]
    fn values_that_json_cannot_represent_are_refused() {
        for (text, told) in [
            ("a: .inf", "json: unsupported value: +Inf"),
            ("a: [-.inf]", "json: unsupported value: -Inf"),
            ("a: .nan", "json: unsupported value: NaN"),
            (
                "~: a",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"a\"",
            ),
            (
                "{{ .Values.x }}: a",
                "invalid map key: map[interface {}]interface {}{\".Values.x\":interface {}(nil)}",
            ),
            ("a: *b", "unknown anchor 'b' referenced"),
            ("a: &b [*b]", "anchor 'b' value contains itself"),
            ("a: \u{1}", "control characters are not allowed"),
        ] {
            assert_eq!(read(text).unwrap_err().told, told, "{text}");
        }
    }

    #[test]
    fn aliases_and_nesting_are_limited() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..9 {
            let of = format!("*a{}, ", at - 1).repeat(10);
            bomb.push_str(&format!("a{at}: &a{at} [{of}]\n"));
        }
        let told = read(&bomb).unwrap_err().told;
        assert_eq!(told, "document contains excessive aliasing");
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(read(&nested(READ_DEPTH_MAX)).is_ok());
        assert!(read(&nested(READ_DEPTH_MAX + 1)).unwrap_err().cause == Cause::Depth);
        let half = READ_DEPTH_MAX / 2;
        let aliased = |levels| {
            format!(
                "a: &a {}\nb: {}",
                nested(half),
                nested(levels).replace("[]", "[*a]")
            )
        };
        assert!(read(&aliased(half)).is_ok());
        assert!(read(&aliased(half + 2)).unwrap_err().cause == Cause::Depth);
        let block: String = (0..READ_DEPTH_MAX + 1)
            .map(|at| " ".repeat(at) + "a:\n")
            .collect();
        assert!(read(&block).unwrap_err().cause == Cause::Depth);
    }
}
