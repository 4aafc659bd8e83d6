//! Values as users write them on the command line and in scenario files: sizes (`100k`), durations
//! (`500ms`), rates (`20/s`), latencies, percentages. An error in a file names the line of the
//! value.

mod amount;
mod limit;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use podstorm::policy::Behaviour;
use podstorm_apiserver::latency::Latency;
use podstorm_sim::options::EngineKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::units::{
    duration_text, latency_text, parse_duration_ns, parse_latency, parse_rate_per_second,
    parse_size,
};

pub use amount::{Bytes, Cores};
pub use limit::Limit;

/// Deserializes a value that is a single word in a file. A number without a unit is read as its
/// digits.
pub(crate) struct Word<T> {
    /// The expected form, for error messages: `a duration such as 500ms`.
    pub(crate) form: &'static str,
    /// The type to parse.
    pub(crate) value: PhantomData<T>,
}

impl<T: FromStr<Err = String>> Visitor<'_> for Word<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse()
            .map_err(|problem| E::custom(format!("{text:?}: {problem}")))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Implements the file format and the schema of a type with `FromStr` and `Display`. The arguments
/// are its name in the schema, its form, and whether unquoted numbers are allowed.
macro_rules! written {
    ($type:ty, $name:literal, $form:literal, number: $number:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::values::Word {
                    form: $form,
                    value: std::marker::PhantomData,
                })
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                match $number {
                    true => json_schema!({"type": ["string", "number"], "description": $form}),
                    false => json_schema!({"type": "string", "description": $form}),
                }
            }
        }
    };
}
pub(crate) use written;

/// Declares a type that wraps another one, with the functions that parse and format it.
macro_rules! value {
    (
        $(#[$about:meta])* $type:ident($inner:ty), $name:literal, $form:literal,
        number: $number:literal, $read:expr, $write:expr
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $type(pub $inner);

        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<$type, String> {
                $read(text).map($type).map_err(|problem| problem.to_string())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&$write(self.0))
            }
        }

        written!($type, $name, $form, number: $number);
    };
}

value! {
    /// A whole number of at least one.
    Size(u64), "Size",
    "a whole number of at least 1, with k for thousands or m for millions: 500, 100k, 1m",
    number: true, parse_size, |size: u64| size.to_string()
}

value! {
    /// A duration, ns.
    Time(i64), "Time",
    "a duration with its unit ns, us, ms, s, m, h or d: 500ms, 3s, 1h30m, 2d",
    number: false, parse_duration_ns, duration_text
}

value! {
    /// A rate per second.
    Rate(f64), "Rate",
    "a number per unit of time: 20/s, 1200/m, 5/h",
    number: false, parse_rate_per_second, |rate| format!("{rate}/s")
}

value! {
    /// The time that something takes: a duration, or a distribution of durations.
    LatencyText(Latency), "Latency",
    "a duration, or a distribution: 5ms, constant:5ms, uniform:1ms,5ms, p50=3ms,p99=40ms",
    number: false, parse_latency, latency_text
}

value! {
    /// A share, as a fraction.
    Percent(f64), "Percent",
    "a percentage: 30%, 0.5%",
    number: false, parse_percent, percent_text
}

value! {
    /// `upstream` or `hardened`.
    BehaviourName(Behaviour), "Behaviour",
    "upstream or hardened",
    number: false,
    |text| Behaviour::from_name(text).ok_or("no such behaviour; expected upstream or hardened"),
    |behaviour: Behaviour| behaviour.as_str().to_owned()
}

value! {
    /// `threads` or `virtual`.
    EngineName(EngineKind), "Engine",
    "threads or virtual",
    number: false,
    |text| ENGINES.map(|one| one.0).into_iter().find(|one| one.name() == text)
        .ok_or("no such engine; expected threads or virtual"),
    |engine: EngineKind| engine.name().to_owned()
}

/// All engines.
const ENGINES: [EngineName; 2] = [
    EngineName(EngineKind::Threads),
    EngineName(EngineKind::Virtual),
];

/// Lists the values for the command line.
impl ValueEnum for EngineName {
    fn value_variants<'a>() -> &'a [EngineName] {
        &ENGINES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl Percent {
    /// Returns this share of `whole`, rounded down. A result that differs from an integer only by
    /// rounding errors counts as that integer.
    pub fn share(self, whole: u64) -> u64 {
        self.exactly(whole).floor() as u64
    }

    /// Returns this share of `whole`, rounded up: at least one unless the share or `whole` is zero.
    pub fn some_of(self, whole: u64) -> u64 {
        self.exactly(whole).ceil() as u64
    }

    fn exactly(self, whole: u64) -> f64 {
        (self.0 * whole as f64 * 1e6).round() / 1e6
    }
}

fn parse_percent(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().strip_suffix('%');
    match number.map(|number| number.trim().parse::<f64>()) {
        Some(Ok(value)) if (0.0..=1_000_000.0).contains(&value) => Ok(value / 100.0),
        Some(Ok(_)) => Err("a percentage can't be negative"),
        _ => Err("expected a percentage such as 30%"),
    }
}

/// Returns the shortest string that parses to the same share: `7%` for 0.07, not
/// `7.000000000000001%`.
fn percent_text(share: f64) -> String {
    let percent = share * 100.0;
    let mut texts = (0..18).map(|digits| format!("{percent:.digits$}"));
    let is_exact = |text: &String| text.parse().is_ok_and(|read: f64| read / 100.0 == share);
    match texts.find(is_exact) {
        Some(text) => format!("{text}%"),
        None => format!("{percent}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_values_parse_back() {
        for text in [
            "30%",
            "0.5%",
            "100%",
            "0%",
            "12.25%",
            "7%",
            "33.3%",
            "1000%",
            "33.333333333%",
        ] {
            assert_eq!(text.parse::<Percent>().unwrap().to_string(), text);
        }
        assert_eq!("30%".parse::<Percent>().unwrap().share(1_000), 300);
        assert_eq!("0.7%".parse::<Percent>().unwrap().share(1_000), 7);
        assert_eq!("29%".parse::<Percent>().unwrap().share(100), 29);
        assert_eq!("50%".parse::<Percent>().unwrap().share(3), 1);
        assert_eq!("50%".parse::<Percent>().unwrap().some_of(3), 2);
        assert_eq!("0%".parse::<Percent>().unwrap().some_of(3), 0);
        for text in ["30", "-1%", "x%", "NaN%", "1e99%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        assert_eq!("1m30s".parse::<Time>().unwrap().to_string(), "1m30s");
        assert!("5".parse::<Time>().unwrap_err().contains("unit"));
        let latency: LatencyText = "p50=3ms,p99=40ms".parse().unwrap();
        assert_eq!(latency.to_string(), "p50=3ms,p99=40ms");
        let problem = "strict".parse::<BehaviourName>().unwrap_err();
        assert!(problem.contains("hardened"));
        let problem = "fast".parse::<EngineName>().unwrap_err();
        assert!(problem.contains("virtual"));
    }
}
