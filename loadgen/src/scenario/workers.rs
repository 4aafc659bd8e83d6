//! The settings that follow from the rows of controllers: how many workers each has. Flags of `loadgen
//! run`, members of a scenario file and properties of its schema, as those that `settings!` declares.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use podstorm_sim::options::WorkerCounts;
use podstorm_sim::rows::Rows;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::settings::{CONTROLLER, Member, ScenarioSettings};
use crate::values::Size;

/// Numbers of workers by the names of their flags; those that are not set are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct WorkersSettings(BTreeMap<&'static str, Size>);

/// The flags there are.
pub(crate) fn flags() -> impl Iterator<Item = &'static str> {
    let flags = Rows::installed().worker_flags();
    flags.map(|(_, workers)| workers.flag)
}

impl WorkersSettings {
    /// Those that a run comes to.
    pub(crate) fn of(counts: &WorkerCounts) -> WorkersSettings {
        let flags = Rows::installed().worker_flags();
        let counts = flags.map(|(_, flag)| (flag.flag, Size(counts.by(flag) as u64)));
        WorkersSettings(counts.collect())
    }

    /// The number that a flag sets.
    pub(crate) fn get(&self, flag: &str) -> Option<Size> {
        self.0.get(flag).copied()
    }
}

impl Member for WorkersSettings {
    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    fn or(&self, fallback: &Self) -> Self {
        let mut both = fallback.clone();
        both.0.extend(&self.0);
        both
    }
}

impl Args for WorkersSettings {
    fn augment_args(mut command: Command) -> Command {
        for (row, workers) in Rows::installed().worker_flags() {
            let (purpose, default) = (row.purpose, workers.default);
            let arg = Arg::new(workers.flag)
                .long(workers.flag)
                .value_name("NUMBER")
                .value_parser(clap::value_parser!(Size))
                .allow_hyphen_values(true)
                .help_heading(CONTROLLER)
                .help(format!("Workers for {purpose} [default: {default}]"));
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        WorkersSettings::augment_args(command)
    }
}

impl FromArgMatches for WorkersSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = flags().filter_map(|flag| Some((flag, *matches.get_one::<Size>(flag)?)));
        Ok(WorkersSettings(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = WorkersSettings::from_arg_matches(matches)?.or(self);
        Ok(())
    }
}

impl JsonSchema for WorkersSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkersSettings".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for (row, workers) in Rows::installed().worker_flags() {
            let (purpose, default) = (row.purpose, workers.default);
            let mut schema = generator.subschema_for::<Option<Size>>();
            let text = format!("Workers for {purpose} [default: {default}]");
            schema.insert("description".to_owned(), text.into());
            properties.insert(workers.flag.to_owned(), schema.into());
        }
        json_schema!({"type": "object", "properties": properties})
    }
}

impl<'de> Deserialize<'de> for ScenarioSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Settings)
    }
}

struct Settings;

impl<'de> Visitor<'de> for Settings {
    type Value = ScenarioSettings;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("settings by the long names of their flags")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScenarioSettings, A::Error> {
        let mut workers = WorkersSettings::default();
        let others = Others {
            map,
            workers: &mut workers,
        };
        let others = ScenarioSettings::deserialize(MapAccessDeserializer::new(others))?;
        Ok(ScenarioSettings { workers, ..others })
    }
}

/// The members of a map but the numbers of workers, which it keeps.
struct Others<'a, A> {
    map: A,
    workers: &'a mut WorkersSettings,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            match self.map.next_key_seed(Key(&mut seed))? {
                Some(Name::Workers(flag)) => {
                    self.workers.0.insert(flag, self.map.next_value()?);
                }
                Some(Name::Other(value)) => return Ok(Some(value)),
                None => return Ok(None),
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads a name: that of a number of workers, or by the seed.
struct Key<'a, K>(&'a mut Option<K>);

enum Name<T> {
    Workers(&'static str),
    Other(T),
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = Name<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Key<'_, K> {
    type Value = Name<K::Value>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        if let Some(flag) = flags().find(|flag| *flag == name) {
            return Ok(Name::Workers(flag));
        }
        let names = ScenarioSettings::names();
        if !names.iter().any(|known| known == name) {
            let names = names.join("`, `");
            return Err(E::custom(format!(
                "unknown field `{name}`, expected one of `{names}`"
            )));
        }
        let seed = self.0.take().expect("a name is read once");
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        seed.deserialize(name).map(Name::Other)
    }
}
