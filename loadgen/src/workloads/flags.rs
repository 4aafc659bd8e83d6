//! Flags for the generated objects of workloads. Each is a flag of `loadgen run`, a member of
//! scenario files with the same name, a property of their schema, and a member of results.

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, value_parser};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::ALL;
use crate::units::NS_PER_SECOND;
use crate::values::{Limit, Size, Time};

/// A flag for the generated objects of a workload.
#[derive(Debug, PartialEq)]
pub(crate) struct Flag {
    /// The name without leading hyphens: `max-surge`.
    pub name: &'static str,
    /// The type of the flag's values, and the default.
    pub form: Form,
    /// The effect of the flag, for help and schema.
    pub help: &'static str,
}

/// The type of a flag's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// A switch without a value.
    Switch,
    /// A number of objects or pods that determines the size of the cluster.
    Size,
    /// Another integer of an object, with the default.
    Number(i32),
    /// A limit of a rolling update, with the default.
    Limit(Limit),
    /// A number of seconds, with the default.
    Seconds(i32),
}

/// The value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FlagValue {
    /// The value of a [switch](Form::Switch).
    Switch(bool),
    /// The value of a [size](Form::Size).
    Size(Size),
    /// The value of a [number](Form::Number).
    Number(i32),
    /// The value of a [limit](Form::Limit).
    Limit(Limit),
    /// The value of [seconds](Form::Seconds).
    Time(Time),
}

impl Form {
    /// Returns the command-line argument, without its help.
    pub(crate) fn arg(self, name: &'static str) -> Arg {
        let arg = Arg::new(name).long(name);
        let with_value = |value: &'static str| {
            let arg = Arg::new(name).long(name);
            arg.value_name(value).allow_hyphen_values(true)
        };
        match self {
            Form::Switch => arg.action(ArgAction::SetTrue),
            Form::Size => with_value("SIZE").value_parser(value_parser!(Size)),
            Form::Number(_) => with_value("NUMBER").value_parser(number),
            Form::Limit(_) => with_value("LIMIT").value_parser(value_parser!(Limit)),
            Form::Seconds(_) => with_value("TIME").value_parser(value_parser!(Time)),
        }
    }

    /// Returns the value on the command line; `None` if the flag is not given.
    pub(crate) fn given(self, name: &str, matches: &ArgMatches) -> Option<FlagValue> {
        match self {
            Form::Switch => matches.get_flag(name).then_some(FlagValue::Switch(true)),
            Form::Size => matches.get_one(name).copied().map(FlagValue::Size),
            Form::Number(_) => matches.get_one(name).copied().map(FlagValue::Number),
            Form::Limit(_) => matches.get_one(name).copied().map(FlagValue::Limit),
            Form::Seconds(_) => matches.get_one(name).copied().map(FlagValue::Time),
        }
    }

    /// Deserializes the value of a member in a file.
    ///
    /// # Errors
    /// The value has a different type.
    pub(crate) fn next_value<'de, A: MapAccess<'de>>(
        self,
        map: &mut A,
    ) -> Result<FlagValue, A::Error> {
        Ok(match self {
            Form::Switch => FlagValue::Switch(map.next_value()?),
            Form::Size => FlagValue::Size(map.next_value()?),
            Form::Number(_) => {
                let given: i64 = map.next_value()?;
                FlagValue::Number(number(&given.to_string()).map_err(A::Error::custom)?)
            }
            Form::Limit(_) => FlagValue::Limit(map.next_value()?),
            Form::Seconds(_) => FlagValue::Time(map.next_value()?),
        })
    }

    /// Returns the schema of the member in a file.
    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Form::Switch => generator.subschema_for::<bool>(),
            Form::Size => generator.subschema_for::<Option<Size>>(),
            Form::Number(_) => {
                json_schema!({"type": ["integer", "null"], "minimum": 0, "maximum": i32::MAX})
            }
            Form::Limit(_) => generator.subschema_for::<Option<Limit>>(),
            Form::Seconds(_) => generator.subschema_for::<Option<Time>>(),
        }
    }
}

impl Flag {
    /// Returns the name of the flag's member in results; `None` for sizes, which are in the size of
    /// the cluster.
    fn member(&self) -> Option<String> {
        let name = self.name.replace('-', "_");
        match self.form {
            Form::Size => None,
            Form::Switch | Form::Number(_) | Form::Limit(_) => Some(name),
            Form::Seconds(_) => Some(format!("{name}_seconds")),
        }
    }

    /// Reports whether the switch is on.
    pub(crate) fn is_on(&self, values: &FlagValues) -> bool {
        values.get(self.name) == Some(FlagValue::Switch(true))
    }

    /// Returns the number, or its default.
    ///
    /// # Panics
    /// Panics if the type of the flag is not a number.
    pub(crate) fn number(&self, values: &FlagValues) -> i32 {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Number(number)), _) | (None, Form::Number(number)) => number,
            _ => panic!("--{} is not a number", self.name),
        }
    }

    /// Returns the limit, or its default.
    ///
    /// # Panics
    /// Panics if the type of the flag is not a limit.
    pub(crate) fn limit(&self, values: &FlagValues) -> Limit {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Limit(limit)), _) | (None, Form::Limit(limit)) => limit,
            _ => panic!("--{} is not a limit", self.name),
        }
    }

    /// Returns the seconds, or their default.
    ///
    /// # Panics
    /// Panics if the type of the flag is not seconds.
    pub(crate) fn seconds(&self, values: &FlagValues) -> i32 {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Time(time)), _) => {
                i32::try_from(time.0 / NS_PER_SECOND).unwrap_or(i32::MAX)
            }
            (None, Form::Seconds(seconds)) => seconds,
            _ => panic!("--{} is not a number of seconds", self.name),
        }
    }

    /// Returns the value, or its default.
    fn value(&self, values: &FlagValues) -> FlagValue {
        let default = || match self.form {
            Form::Switch | Form::Size => FlagValue::Switch(false),
            Form::Number(number) => FlagValue::Number(number),
            Form::Limit(limit) => FlagValue::Limit(limit),
            Form::Seconds(seconds) => FlagValue::Time(Time(i64::from(seconds) * NS_PER_SECOND)),
        };
        values.get(self.name).unwrap_or_else(default)
    }

    /// Checks that a time is an integer number of seconds that an object can hold.
    ///
    /// # Errors
    /// The description of the problem.
    pub(crate) fn check(&self, values: &FlagValues) -> Result<(), String> {
        let Some(FlagValue::Time(Time(ns))) = values.get(self.name) else {
            return Ok(());
        };
        match ns % NS_PER_SECOND == 0 && i32::try_from(ns / NS_PER_SECOND).is_ok() {
            true => Ok(()),
            false => Err(format!(
                "--{}: expected whole seconds, at most 68 years",
                self.name
            )),
        }
    }
}

/// Parses an integer that a field of an object can hold.
fn number(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("expected a whole number from 0 to {}", i32::MAX))
}

/// Returns the flags of all workloads.
pub(crate) fn all() -> impl Iterator<Item = &'static Flag> {
    ALL.into_iter().flat_map(|workload| workload.flags())
}

/// Returns the flag for a member of results, and whether it is a time; `None` if no flag has this
/// member.
pub(crate) fn of_member(member: &str) -> Option<(&'static str, bool)> {
    let is_of = |flag: &&Flag| match flag.member() {
        Some(name) => name == member,
        None => flag.name.replace('-', "_") == member,
    };
    let flag = all().find(is_of)?;
    Some((flag.name, matches!(flag.form, Form::Seconds(_))))
}

/// The values of flags, by name. Flags that are not set are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagValues(BTreeMap<&'static str, FlagValue>);

impl FlagValues {
    /// Returns the value of a flag; `None` if it is not set.
    pub(crate) fn get(&self, name: &str) -> Option<FlagValue> {
        self.0.get(name).copied()
    }

    /// Returns the values of the flags that `is_shown` selects, including defaults, but without
    /// sizes.
    pub(crate) fn filled(
        &self,
        is_shown: impl Fn(&Flag) -> bool,
    ) -> impl Iterator<Item = (&'static str, FlagValue)> {
        let flags = all().filter(move |flag| flag.member().is_some() && is_shown(flag));
        flags.map(|flag| (flag.name, flag.value(self)))
    }
}

impl FromIterator<(&'static str, FlagValue)> for FlagValues {
    fn from_iter<T: IntoIterator<Item = (&'static str, FlagValue)>>(values: T) -> FlagValues {
        FlagValues(values.into_iter().collect())
    }
}

/// Serializes the flags as in results: every flag except sizes, with its default if it is not set.
impl Serialize for FlagValues {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for flag in all() {
            match (flag.member(), flag.form) {
                (None, _) => {}
                (Some(member), Form::Seconds(_)) => {
                    map.serialize_entry(&member, &flag.seconds(self))?;
                }
                (Some(member), _) => map.serialize_entry(&member, &flag.value(self))?,
            }
        }
        map.end()
    }
}

impl JsonSchema for FlagValues {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FlagValues".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for flag in all() {
            let Some(member) = flag.member() else {
                continue;
            };
            let mut schema = match flag.form {
                Form::Switch | Form::Size => generator.subschema_for::<bool>(),
                Form::Number(_) => generator.subschema_for::<i32>(),
                Form::Limit(_) => generator.subschema_for::<Limit>(),
                Form::Seconds(_) => generator.subschema_for::<i32>(),
            };
            schema.insert("description".to_owned(), flag.help.into());
            properties.insert(member, schema.into());
        }
        let required: Vec<&String> = properties.keys().collect();
        let required = serde_json::json!(required);
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn results_have_every_flag_except_sizes_with_its_default() {
        let held = serde_json::to_value(FlagValues::default()).unwrap();
        let held = held.as_object().unwrap();
        let schema = schemars::schema_for!(FlagValues).to_value();
        let members: BTreeSet<&String> = held.keys().collect();
        let described: BTreeSet<&String> =
            schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(members, described);
        for flag in all().filter(|flag| flag.form != Form::Size) {
            let member = flag.member().unwrap();
            assert!(held.contains_key(&member), "{member}");
            let is_time = matches!(flag.form, Form::Seconds(_));
            assert_eq!(of_member(&member), Some((flag.name, is_time)));
        }
        assert_eq!(held["max_surge"], "25%");
        assert_eq!(held["progress_deadline_seconds"], 600);
        assert_eq!(held["deployments"], false);
    }

    #[test]
    fn no_two_workloads_declare_the_same_flag() {
        let names: Vec<&str> = all().map(|flag| flag.name).collect();
        let different: BTreeSet<&&str> = names.iter().collect();
        assert_eq!(names.len(), different.len());
    }

    #[test]
    fn times_are_whole_seconds_in_range() {
        let flag = all()
            .find(|flag| matches!(flag.form, Form::Seconds(_)))
            .unwrap();
        let check = |ns| {
            let values = FlagValues::from_iter([(flag.name, FlagValue::Time(Time(ns)))]);
            flag.check(&values)
        };
        assert_eq!(check(5 * NS_PER_SECOND), Ok(()));
        for ns in [NS_PER_SECOND / 2, (1 << 31) * NS_PER_SECOND] {
            assert!(check(ns).unwrap_err().contains("whole seconds"));
        }
    }
}
