//! Adds fields that Go writes even if they are empty, because they are structs and not pointers.
//!
//! Source: `encoding/json`, and the tags of the types in Kubernetes' `k8s.io/api`, as far as the
//! published defaults show them ([`rules::written`]).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use podstorm_objects::Kind;
use serde_json::{Map, Value};

use super::{SCHEMAS, properties, referred_by_name, rules, schema_name};

/// A struct: the fields that Go always writes, and the fields that contain further structs with
/// such fields.
#[derive(Default)]
struct Struct {
    written: Vec<(&'static str, Value)>,
    inner: Vec<(&'static str, Holds, usize)>,
}

/// How a field contains structs.
#[derive(Clone, Copy)]
enum Holds {
    One,
    List,
    Map,
}

struct Structs {
    all: Vec<Struct>,
    numbers: BTreeMap<&'static str, usize>,
}

static STRUCTS: LazyLock<Structs> = LazyLock::new(|| {
    let numbers: BTreeMap<&str, usize> = SCHEMAS
        .keys()
        .enumerate()
        .map(|(number, name)| (name.as_str(), number))
        .collect();
    let held = |property: &'static Value| {
        let by = |part: &str, holds| Some((referred_by_name(property.get(part)?)?, holds));
        let one = referred_by_name(property).map(|name| (name, Holds::One));
        let list = || by("items", Holds::List);
        one.or_else(list)
            .or_else(|| by("additionalProperties", Holds::Map))
    };
    let mut all: Vec<Struct> = Vec::with_capacity(SCHEMAS.len());
    for (name, schema) in SCHEMAS.iter() {
        let inner = properties(schema).filter_map(|(member, property)| {
            let (name, holds) = held(property)?;
            Some((member.as_str(), holds, *numbers.get(name)?))
        });
        all.push(Struct {
            written: rules::written(name, schema),
            inner: inner.collect(),
        });
    }
    leave_out_what_is_complete(&mut all);
    Structs { all, numbers }
});

/// Removes the fields whose structs have no always-written fields at any depth, because they need
/// no visit.
fn leave_out_what_is_complete(all: &mut [Struct]) {
    let mut matters: Vec<bool> = all.iter().map(|of| !of.written.is_empty()).collect();
    loop {
        let before = matters.clone();
        for (number, of) in all.iter().enumerate() {
            matters[number] |= of.inner.iter().any(|(_, _, inner)| matters[*inner]);
        }
        if before == matters {
            break;
        }
    }
    for of in all {
        of.inner.retain(|(_, _, inner)| matters[*inner]);
    }
}

/// Adds the empty fields that Go writes to an object of a kind: `spec` and `status` of a Node,
/// `resources` of each container. Skips metadata and custom kinds. O(fields of the structs with
/// such fields).
pub fn fill(kind: Kind, object: &mut Map<String, Value>) {
    fill_members(kind, object, |member| member != "metadata");
}

/// Like [`fill`], for one field.
pub fn fill_member(kind: Kind, member: &str, object: &mut Map<String, Value>) {
    fill_members(kind, object, |name| name == member);
}

fn fill_members(kind: Kind, object: &mut Map<String, Value>, is_wanted: impl Fn(&str) -> bool) {
    if kind.row().custom.is_some() {
        return;
    }
    let structs = &*STRUCTS;
    let of = structs.numbers.get(schema_name(kind).as_str());
    let Some(of) = of.map(|number| &structs.all[*number]) else {
        return;
    };
    for written in of.written.iter().filter(|(name, _)| is_wanted(name)) {
        write(written, object);
    }
    for inner in of.inner.iter().filter(|(name, ..)| is_wanted(name)) {
        structs.fill_inner(*inner, object);
    }
}

/// Writes a missing field. Replaces an empty list with null, as Go stores it.
fn write((name, empty): &(&str, Value), object: &mut Map<String, Value>) {
    match object.get_mut(*name) {
        None => drop(object.insert((*name).to_owned(), empty.clone())),
        Some(value) => empty_list(value, empty),
    }
}

fn empty_list(value: &mut Value, empty: &Value) {
    if value.as_array().is_some_and(Vec::is_empty) {
        value.clone_from(empty);
    }
}

impl Structs {
    /// Fills in an object that is a struct. Fields and tables are in the same order, so one pass
    /// finds the missing fields, of which there are usually none.
    fn fill(&self, number: usize, object: &mut Map<String, Value>) {
        let of = &self.all[number];
        let mut missing: Vec<&(&str, Value)> = Vec::new();
        let mut written = of.written.iter().peekable();
        let mut inner = of.inner.iter().peekable();
        for (name, value) in object.iter_mut() {
            let name = name.as_str();
            while let Some(absent) = written.next_if(|(other, _)| *other < name) {
                missing.push(absent);
            }
            if let Some((_, empty)) = written.next_if(|(other, _)| *other == name) {
                empty_list(value, empty);
            }
            while inner.next_if(|(other, ..)| *other < name).is_some() {}
            if let Some((_, holds, number)) = inner.next_if(|(other, ..)| *other == name) {
                self.fill_value(*holds, *number, value);
            }
        }
        missing.extend(written);
        for (name, empty) in missing {
            object.insert((*name).to_owned(), empty.clone());
            if let Some(inner) = of.inner.iter().find(|(other, ..)| other == name) {
                self.fill_inner(*inner, object);
            }
        }
    }

    fn fill_inner(
        &self,
        (name, holds, number): (&str, Holds, usize),
        object: &mut Map<String, Value>,
    ) {
        if let Some(value) = object.get_mut(name) {
            self.fill_value(holds, number, value);
        }
    }

    fn fill_value(&self, holds: Holds, number: usize, value: &mut Value) {
        let structs = |value: &mut Value| {
            if let Value::Object(object) = value {
                self.fill(number, object);
            }
        };
        match (value, holds) {
            (value, Holds::One) => structs(value),
            (Value::Array(items), Holds::List) => items.iter_mut().for_each(structs),
            (Value::Object(entries), Holds::Map) => entries.values_mut().for_each(structs),
            _ => {}
        }
    }
}
