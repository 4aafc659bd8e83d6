//! One walk over a template's JSON, in the order of the schema. The values go to a [`Sink`].
//!
//! Members that the schema doesn't know are ignored, because upstream's types don't have them. Null
//! counts as absent, and so does a value of the wrong type.

use std::borrow::Cow;

use podstorm_objects::Time;
use podstorm_objects::json::JsonValue;

use super::quantity::Quantity;
use super::schema::{SCHEMA, Type};

/// A receiver for a template's values. It receives every member of every struct; an absent member
/// has its zero value.
pub(super) trait Sink {
    /// Receives a string that follows from the types, or the brackets and spaces between values.
    fn fixed(&mut self, text: &str);
    /// Receives the number of values that follow: the entries of a list or a map, or 0 or 1 for a
    /// pointer.
    fn count(&mut self, count: usize);
    /// Receives a string, which may be empty.
    fn text(&mut self, text: &str);
    /// Receives a number.
    fn int(&mut self, number: i64);
    /// Receives a boolean.
    fn flag(&mut self, flag: bool);
    /// Receives a quantity.
    fn quantity(&mut self, quantity: &Quantity<'_>);
    /// Receives a timestamp, which may be unset.
    fn time(&mut self, time: Time);
}

/// Passes the values in a template's JSON to a sink.
pub(super) fn walk(template: JsonValue<'_>, out: &mut impl Sink) {
    out.fixed("(v1.PodTemplateSpec)");
    value(&SCHEMA.root, Some(template), out);
}

fn value(of: &Type, json: Option<JsonValue<'_>>, out: &mut impl Sink) {
    let text = || json.and_then(|json| json.as_str());
    let int = || json.and_then(|json| json.as_i64()).unwrap_or(0);
    match of {
        Type::Text => out.text(text().unwrap_or("")),
        Type::Flag => out.flag(json.and_then(|json| json.as_bool()).unwrap_or(false)),
        Type::Int => out.int(int()),
        Type::IntOrString => {
            out.fixed("{Type:(intstr.Type)");
            out.int(text().is_some().into());
            out.fixed(" IntVal:(int32)");
            out.int(int());
            out.fixed(" StrVal:(string)");
            out.text(text().unwrap_or(""));
            out.fixed("}");
        }
        Type::Quantity => quantity(json, out),
        Type::Time => out.time(
            text()
                .and_then(|text| text.parse().ok())
                .unwrap_or(Time::UNSET),
        ),
        Type::Raw => out.text(&json.map(|json| json.to_string()).unwrap_or_default()),
        Type::Pointer(inner) => {
            out.count(json.is_some().into());
            match json {
                Some(_) => value(inner, json, out),
                None => out.fixed("<nil>"),
            }
        }
        Type::List(inner) => {
            let items = json.into_iter().flat_map(|json| json.items());
            let items = items.map(|item| (None, item));
            entries("[", items, inner, out);
        }
        Type::Map(inner) => {
            // Sorted by the bytes of the keys, as in upstream's dump.
            let pairs = json.into_iter().flat_map(|json| json.pairs());
            let pairs = pairs.map(|(key, item)| (Some(key), item));
            entries("map[", pairs, inner, out);
        }
        Type::Struct(at) => {
            out.fixed("{");
            for member in SCHEMA.members(*at) {
                out.fixed(&member.label);
                let found = match member.json_name {
                    Some(name) => json.and_then(|json| json.get(name)).filter(is_present),
                    None => json,
                };
                value(&member.of, found, out);
            }
            out.fixed("}");
        }
    }
}

/// Passes on the entries of a list, or the keys and entries of a map. An empty list or map counts
/// as absent.
fn entries<'t>(
    open: &str,
    entries: impl Iterator<Item = (Option<&'t str>, JsonValue<'t>)> + Clone,
    of: &Type,
    out: &mut impl Sink,
) {
    let count = entries.clone().count();
    out.count(count);
    if count == 0 {
        return out.fixed("<nil>");
    }
    out.fixed(open);
    for (place, (key, item)) in entries.enumerate() {
        if place > 0 {
            out.fixed(" ");
        }
        if let Some(key) = key {
            out.text(key);
            out.fixed(":");
        }
        value(of, Some(item).filter(is_present), out);
    }
    out.fixed("]");
}

fn is_present(json: &JsonValue<'_>) -> bool {
    !json.is_null()
}

/// Passes on a quantity. A string that is not a quantity is passed on as text; the server refuses
/// such texts.
fn quantity(json: Option<JsonValue<'_>>, out: &mut impl Sink) {
    let Some(json) = json else {
        return out.quantity(&Quantity::absent());
    };
    let text = match json.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(json.to_string()),
    };
    match Quantity::parse(&text) {
        Some(quantity) => out.quantity(&quantity),
        None => out.text(&text),
    }
}
