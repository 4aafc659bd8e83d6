//! The settings that rows declare: the number of workers of a controller, and how the objects of a
//! workload are generated. Like the settings of the macro `settings!`, they are flags of
//! `loadgen run`, members of a scenario file and properties of its schema.

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

use super::settings::{CONTROLLER, Member, SIZE, ScenarioSettings};
use crate::units::NS_PER_SECOND;
use crate::values::Size;
use crate::workloads::flags::{self, FlagValue, FlagValues, Form};

/// Values by flag name. Flags that are not set are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RowFlags(BTreeMap<&'static str, FlagValue>);

/// A flag that a row declares.
struct RowFlag {
    name: &'static str,
    form: Form,
    help: String,
    heading: &'static str,
}

/// Returns all flags: first those for generated objects, then those for the workers and times of
/// controllers.
/// controllers.
fn all() -> impl Iterator<Item = RowFlag> {
    let generated = flags::all().map(|flag| RowFlag {
        name: flag.name,
        form: flag.form,
        help: flag.help.to_owned(),
        heading: SIZE,
    });
    let workers = Rows::installed().worker_flags();
    generated
        .chain(workers.map(|(row, workers)| RowFlag {
            name: workers.flag,
            form: Form::Size,
            help: format!("Workers for {} [default: {}]", row.purpose, workers.default),
            heading: CONTROLLER,
        }))
        .chain(Rows::installed().run_times().map(|number| {
            let default_s = i32::try_from(number.default / NS_PER_SECOND).unwrap_or(i32::MAX);
            RowFlag {
                name: number.flag,
                form: Form::Seconds(default_s),
                help: format!("{} [default: {default_s}s]", number.help),
                heading: CONTROLLER,
            }
        }))
}

/// Returns the names of all flags.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|flag| flag.name)
}

impl RowFlags {
    /// Returns flags with the resolved numbers of workers.
    pub(crate) fn of_workers(counts: &WorkerCounts) -> RowFlags {
        let flags = Rows::installed().worker_flags();
        let count = |flag| FlagValue::Size(Size(counts.by(flag) as u64));
        RowFlags(flags.map(|(_, flag)| (flag.flag, count(flag))).collect())
    }

    /// Returns the number that a flag is set to; `None` if it is not set.
    pub(crate) fn size(&self, flag: &str) -> Option<Size> {
        match self.0.get(flag) {
            Some(FlagValue::Size(size)) => Some(*size),
            _ => None,
        }
    }

    /// Returns the time that a flag is set to, ns; `None` if it is not set.
    pub(crate) fn time_ns(&self, flag: &str) -> Option<i64> {
        match self.0.get(flag) {
            Some(FlagValue::Time(time)) => Some(time.0),
            _ => None,
        }
    }

    /// Reports whether a flag is set.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// Sets a flag; unsets it if `value` is `None`.
    pub(crate) fn set(&mut self, flag: &'static str, value: Option<FlagValue>) {
        match value {
            Some(value) => self.0.insert(flag, value),
            None => self.0.remove(flag),
        };
    }

    /// Returns the values of the flags for generated objects.
    pub(crate) fn generated(&self) -> FlagValues {
        let given = flags::all().filter_map(|flag| Some((flag.name, *self.0.get(flag.name)?)));
        given.collect()
    }

    /// Unsets the flags for generated objects.
    pub(crate) fn forget_generated(&mut self) {
        flags::all().for_each(|flag| self.set(flag.name, None));
    }
}

impl Member for RowFlags {
    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    fn or(&self, fallback: &Self) -> Self {
        let mut both = fallback.clone();
        both.0.extend(&self.0);
        both
    }
}

impl Args for RowFlags {
    fn augment_args(mut command: Command) -> Command {
        for flag in all() {
            let arg: Arg = flag.form.arg(flag.name).help(flag.help);
            command = command.arg(arg.help_heading(flag.heading));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        RowFlags::augment_args(command)
    }
}

impl FromArgMatches for RowFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given =
            all().filter_map(|flag| Some((flag.name, flag.form.given(flag.name, matches)?)));
        Ok(RowFlags(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = RowFlags::from_arg_matches(matches)?.or(self);
        Ok(())
    }
}

impl JsonSchema for RowFlags {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RowFlags".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for flag in all() {
            let mut schema = flag.form.schema(generator);
            schema.insert("description".to_owned(), flag.help.into());
            properties.insert(flag.name.to_owned(), schema.into());
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
        let mut rows = RowFlags::default();
        let others = Others {
            map,
            rows: &mut rows,
        };
        let others = ScenarioSettings::deserialize(MapAccessDeserializer::new(others))?;
        Ok(ScenarioSettings { rows, ..others })
    }
}

/// Passes on the members of a map, except those that rows declare, which it stores.
struct Others<'a, A> {
    map: A,
    rows: &'a mut RowFlags,
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
                Some(Name::Row(flag)) => {
                    let value = flag.form.next_value(&mut self.map)?;
                    let is_set = value != FlagValue::Switch(false);
                    self.rows.set(flag.name, is_set.then_some(value));
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

/// Deserializes a name: one that a row declares, or any other with the seed `K`.
struct Key<'a, K>(&'a mut Option<K>);

enum Name<T> {
    Row(RowFlag),
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
        if let Some(flag) = all().find(|flag| flag.name == name) {
            return Ok(Name::Row(flag));
        }
        let names = ScenarioSettings::names();
        if !names.iter().any(|known| known == name) {
            let names = names.join("`, `");
            return Err(E::custom(format!(
                "unknown field `{name}`, expected one of `{names}`"
            )));
        }
        let seed = self.0.take().expect("a name is deserialized once");
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        seed.deserialize(name).map(Name::Other)
    }
}
