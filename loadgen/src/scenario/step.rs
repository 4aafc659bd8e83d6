//! Syntax of the steps of a scenario: a map with a single member, named after the action, or only
//! the action's name. A step that creates objects has their kind in its name: `createReplicaSets`.

use std::cell::Cell;
use std::fmt::{self, Formatter};

use podstorm_objects::Kind;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::value::{EnumAccessDeserializer, Error};
use serde::de::{
    DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, VariantAccess, Visitor,
};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};

use super::definition::{Create, ScenarioStep};
use crate::workloads;

/// Returns the name and the kind of each step that creates workload objects.
fn creations() -> impl Iterator<Item = (String, Kind)> {
    let generated = workloads::ALL.into_iter().filter(|it| it.is_generated());
    generated.map(|workload| (name_of(workload.kind()), workload.kind()))
}

fn name_of(kind: Kind) -> String {
    format!("create{}s", kind.name())
}

impl Serialize for ScenarioStep {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ScenarioStep::Create(kind, create) = self else {
            return ScenarioStep::serialize(self, to);
        };
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry(&name_of(*kind), create)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ScenarioStep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ScenarioStep, D::Error> {
        from.deserialize_enum("ScenarioStep", other_names(), Steps)
    }
}

struct Steps;

impl<'de> Visitor<'de> for Steps {
    type Value = ScenarioStep;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a step")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, step: A) -> Result<ScenarioStep, A::Error> {
        let (name, content) = step.variant_seed(Name)?;
        match creations().find(|(known, _)| *known == name) {
            Some((_, kind)) => Ok(ScenarioStep::Create(kind, content.newtype_variant()?)),
            None => ScenarioStep::deserialize(EnumAccessDeserializer::new(Named { name, content })),
        }
    }
}

/// Deserializes the name of a step; unknown names are errors.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        let name = String::deserialize(from)?;
        let mut names: Vec<String> = other_names().iter().map(|it| (*it).to_owned()).collect();
        names.extend(creations().map(|(name, _)| name));
        match names.contains(&name) {
            true => Ok(name),
            false => Err(D::Error::custom(format!(
                "unknown step `{name}`, expected one of `{}`",
                names.join("`, `")
            ))),
        }
    }
}

/// Deserializes a step whose name is already known.
struct Named<V> {
    name: String,
    content: V,
}

impl<'de, V: VariantAccess<'de>> EnumAccess<'de> for Named<V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<K: DeserializeSeed<'de>>(self, seed: K) -> Result<(K::Value, V), V::Error> {
        let name = self.name.into_deserializer();
        seed.deserialize(name).map(|name| (name, self.content))
    }
}

/// Returns the names of the steps that create no workload objects.
fn other_names() -> &'static [&'static str] {
    /// A deserializer that captures the variant names that a type passes to it.
    struct Names<'a>(&'a Cell<&'static [&'static str]>);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("holds no value"))
        }

        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            names: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Error> {
            self.0.set(names);
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
        }
    }

    let names = Cell::new(&[] as &[&str]);
    // The error is expected: only the names matter.
    let _ = ScenarioStep::deserialize(Names(&names));
    names.get()
}

/// Returns the schema for a list of steps.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let mut steps = vec![generator.subschema_for::<ScenarioStep>()];
    for (name, _) in creations() {
        let create = generator.subschema_for::<Create>();
        steps.push(json_schema!({
            "type": "object",
            "properties": {name.clone(): create},
            "required": [name],
            "additionalProperties": false,
        }));
    }
    json_schema!({"type": "array", "items": {"anyOf": steps}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<ScenarioStep, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_generated_workload_has_a_step_that_creates_it() {
        for (name, kind) in creations() {
            let read = step(&format!("{name}: {{replicas: 100%}}")).unwrap();
            assert!(
                matches!(read, ScenarioStep::Create(of, _) if of == kind),
                "{name}"
            );
            let written = serde_json::to_value(&read).unwrap();
            assert_eq!(written[&name]["replicas"], "100%");
        }
        let problem = step("createNodes2").unwrap_err();
        assert!(problem.contains("unknown step `createNodes2`"), "{problem}");
        for (name, _) in creations() {
            assert!(problem.contains(&format!("`{name}`")), "{problem}");
        }
    }

    #[test]
    fn former_names_are_accepted() {
        assert_eq!(step("recreateReplicaSets: {}"), step("recreate: {}"));
        assert!(step("recreate: {}").is_ok());
    }
}
