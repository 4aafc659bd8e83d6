//! Flags for the objects of workloads that a cluster is generated with. Each is a flag of `loadgen run`, a member
//! of scenario files under the same name, a property of their schema, and a member of results.

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

/// A flag for the objects of a workload.
#[derive(Debug, PartialEq)]
pub(crate) struct Flag {
    /// The name without hyphens in front: `max-surge`.
    pub name: &'static str,
    /// What its values are, and the default.
    pub form: Form,
    /// The effect, as help and schema show it.
    pub help: &'static str,
}

/// What the values of a flag are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// On where the flag is given; it takes no value.
    Switch,
    /// A number of objects or pods. The size of the cluster follows from it.
    Size,
    /// Another whole number that an object can hold, with its default.
    Number(i32),
    /// A limit of a rolling update, with its default.
    Limit(Limit),
    /// Whole seconds, with their default.
    Seconds(i32),
}

/// The value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FlagValue {
    /// Of a [switch](Form::Switch).
    Switch(bool),
    /// Of a [size](Form::Size).
    Size(Size),
    /// Of a [number](Form::Number).
    Number(i32),
    /// Of a [limit](Form::Limit).
    Limit(Limit),
    /// Of [seconds](Form::Seconds).
    Time(Time),
}

impl Form {
    /// The argument of the command line, without its help.
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

    /// The value that the command line gives.
    pub(crate) fn given(self, name: &str, matches: &ArgMatches) -> Option<FlagValue> {
        match self {
            Form::Switch => matches.get_flag(name).then_some(FlagValue::Switch(true)),
            Form::Size => matches.get_one(name).copied().map(FlagValue::Size),
            Form::Number(_) => matches.get_one(name).copied().map(FlagValue::Number),
            Form::Limit(_) => matches.get_one(name).copied().map(FlagValue::Limit),
            Form::Seconds(_) => matches.get_one(name).copied().map(FlagValue::Time),
        }
    }

    /// Reads the value of a member of a file.
    ///
    /// # Errors
    /// A value of another form.
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

    /// The schema of a member of a file.
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
    /// The member of results; none for sizes, which are in the size of the cluster.
    fn member(&self) -> Option<String> {
        let name = self.name.replace('-', "_");
        match self.form {
            Form::Size => None,
            Form::Switch | Form::Number(_) | Form::Limit(_) => Some(name),
            Form::Seconds(_) => Some(format!("{name}_seconds")),
        }
    }

    /// Whether the switch is on.
    pub(crate) fn is_on(&self, values: &FlagValues) -> bool {
        values.get(self.name) == Some(FlagValue::Switch(true))
    }

    /// The number that is set, or the default.
    ///
    /// # Panics
    /// The flag is not of a number.
    pub(crate) fn number(&self, values: &FlagValues) -> i32 {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Number(number)), _) | (None, Form::Number(number)) => number,
            _ => panic!("--{} is not of a number", self.name),
        }
    }

    /// The limit that is set, or the default.
    ///
    /// # Panics
    /// The flag is not of a limit.
    pub(crate) fn limit(&self, values: &FlagValues) -> Limit {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Limit(limit)), _) | (None, Form::Limit(limit)) => limit,
            _ => panic!("--{} is not of a limit", self.name),
        }
    }

    /// The seconds that are set, or the default.
    ///
    /// # Panics
    /// The flag is not of seconds.
    pub(crate) fn seconds(&self, values: &FlagValues) -> i32 {
        match (values.get(self.name), self.form) {
            (Some(FlagValue::Time(time)), _) => {
                i32::try_from(time.0 / NS_PER_SECOND).unwrap_or(i32::MAX)
            }
            (None, Form::Seconds(seconds)) => seconds,
            _ => panic!("--{} is not of seconds", self.name),
        }
    }

    /// The value that is set, or the default.
    fn value(&self, values: &FlagValues) -> FlagValue {
        let default = || match self.form {
            Form::Switch | Form::Size => FlagValue::Switch(false),
            Form::Number(number) => FlagValue::Number(number),
            Form::Limit(limit) => FlagValue::Limit(limit),
            Form::Seconds(seconds) => FlagValue::Time(Time(i64::from(seconds) * NS_PER_SECOND)),
        };
        values.get(self.name).unwrap_or_else(default)
    }

    /// Checks that a time is of whole seconds that an object can hold.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, values: &FlagValues) -> Result<(), String> {
        let Some(FlagValue::Time(Time(ns))) = values.get(self.name) else {
            return Ok(());
        };
        match ns % NS_PER_SECOND == 0 && i32::try_from(ns / NS_PER_SECOND).is_ok() {
            true => Ok(()),
            false => Err(format!(
                "--{}: give whole seconds, 68 years at most",
                self.name
            )),
        }
    }
}

/// Reads a number that an object can hold.
fn number(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("expected a whole number from 0 to {}", i32::MAX))
}

/// The flags of all workloads.
pub(crate) fn all() -> impl Iterator<Item = &'static Flag> {
    ALL.into_iter().flat_map(|workload| workload.flags())
}

/// The flag behind a member of results, and whether it is of a time.
pub(crate) fn of_member(member: &str) -> Option<(&'static str, bool)> {
    let is_of = |flag: &&Flag| match flag.member() {
        Some(name) => name == member,
        None => flag.name.replace('-', "_") == member,
    };
    let flag = all().find(is_of)?;
    Some((flag.name, matches!(flag.form, Form::Seconds(_))))
}

/// Values of flags by the flags' names. Those that are not set are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagValues(BTreeMap<&'static str, FlagValue>);

impl FlagValues {
    /// The value of a flag, if it is set.
    pub(crate) fn get(&self, name: &str) -> Option<FlagValue> {
        self.0.get(name).copied()
    }

    /// The values with defaults filled in, of the flags that `is_shown` takes; sizes are left out.
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

/// As results have them: every flag but the sizes, with its default where it is not set.
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
    fn results_hold_every_flag_but_sizes_with_its_default() {
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
    fn times_are_whole_seconds_that_an_object_can_hold() {
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
