//! Values of a scenario file as people write them, the same as on the command line: sizes (`100k`),
//! durations (`500ms`), rates (`20/s`), latencies, percentages. A mistake is told where it stands.

use std::borrow::Cow;
use std::fmt;

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

/// A value that is written as one word; a number without a unit counts as its digits.
pub(crate) trait Written: Sized {
    /// The name of its schema.
    const NAME: &'static str;
    /// What is written, for the schema and for messages, e.g. `a duration such as 500ms`.
    const FORM: &'static str;
    /// Whether a number without quotes is meant to be written.
    const NUMBER: bool;

    /// Reads it.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes it as [`Written::read`] reads it.
    fn write(&self) -> String;
}

/// Reads a [`Written`] value from a text or a number.
pub(crate) fn deserialize<'de, T: Written, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    struct Reader<T>(std::marker::PhantomData<T>);
    impl<T: Written> Visitor<'_> for Reader<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::FORM)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            T::read(text).map_err(|problem| E::custom(format!("{text:?}: {problem}")))
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
    from.deserialize_any(Reader(std::marker::PhantomData))
}

/// Gives a [`Written`] type its serde and schema implementations.
macro_rules! written {
    ($type:ty) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::scenario::text::deserialize(from)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&$crate::scenario::text::Written::write(self))
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                <$type as $crate::scenario::text::Written>::NAME.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $crate::scenario::text::schema::<$type>()
            }
        }
    };
}
pub(crate) use written;

/// The schema of a [`Written`] value.
pub(crate) fn schema<T: Written>() -> Schema {
    if T::NUMBER {
        json_schema!({ "type": ["string", "number"], "description": T::FORM })
    } else {
        json_schema!({ "type": "string", "description": T::FORM })
    }
}

/// A whole number of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Written for Size {
    const NAME: &'static str = "Size";
    const FORM: &'static str =
        "a whole number of at least 1, k for thousands, m for millions: 500, 100k, 1m";
    const NUMBER: bool = true;
    fn read(text: &str) -> Result<Size, String> {
        parse_size(text)
            .map(Size)
            .map_err(|error| error.to_string())
    }
    fn write(&self) -> String {
        self.0.to_string()
    }
}
written!(Size);

/// A duration, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub i64);

impl Written for Time {
    const NAME: &'static str = "Time";
    const FORM: &'static str = "a duration with its unit ns, us, ms, s, m or h: 500ms, 3s, 1h30m";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<Time, String> {
        parse_duration_ns(text)
            .map(Time)
            .map_err(|error| error.to_string())
    }
    fn write(&self) -> String {
        duration_text(self.0)
    }
}
written!(Time);

/// So many per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

impl Written for Rate {
    const NAME: &'static str = "Rate";
    const FORM: &'static str = "a number per unit of time: 20/s, 1200/m, 5/h";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<Rate, String> {
        parse_rate_per_second(text)
            .map(Rate)
            .map_err(|error| error.to_string())
    }
    fn write(&self) -> String {
        format!("{}/s", self.0)
    }
}
written!(Rate);

/// A [`Latency`] in a scenario file, written as on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyText(pub Latency);

impl Written for LatencyText {
    const NAME: &'static str = "Latency";
    const FORM: &'static str =
        "a duration, or a distribution: 5ms, constant:5ms, uniform:1ms,5ms, p50=3ms,p99=40ms";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<LatencyText, String> {
        parse_latency(text)
            .map(LatencyText)
            .map_err(|error| error.to_string())
    }
    fn write(&self) -> String {
        latency_text(self.0)
    }
}
written!(LatencyText);

/// A share of something, as a fraction of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl Percent {
    /// So much of `whole`, rounded down; what is a whole number but for the last digits of a
    /// fraction counts as one.
    pub fn of(self, whole: u64) -> u64 {
        self.exactly(whole).floor() as u64
    }

    /// So much of `whole`, rounded up: something, where it is more than nothing.
    pub fn some_of(self, whole: u64) -> u64 {
        self.exactly(whole).ceil() as u64
    }

    fn exactly(self, whole: u64) -> f64 {
        (self.0 * whole as f64 * 1e6).round() / 1e6
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write())
    }
}

impl Written for Percent {
    const NAME: &'static str = "Percent";
    const FORM: &'static str = "a percentage: 30%, 0.5%";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<Percent, String> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return Err("expected a percentage such as 30%".to_owned());
        };
        match number.trim().parse::<f64>() {
            Ok(value) if (0.0..=1_000_000.0).contains(&value) => Ok(Percent(value / 100.0)),
            Ok(_) => Err("a percentage is 0% or more".to_owned()),
            Err(_) => Err("expected a percentage such as 30%".to_owned()),
        }
    }
    fn write(&self) -> String {
        // The shortest text that is read as the same share: 0.07 is 7%, not 7.000000000000001%.
        let percent = self.0 * 100.0;
        let mut texts = (0..18).map(|digits| format!("{percent:.digits$}"));
        let is_exact = |text: &String| text.parse().is_ok_and(|read: f64| read / 100.0 == self.0);
        match texts.find(is_exact) {
            Some(text) => format!("{text}%"),
            None => format!("{percent}%"),
        }
    }
}
written!(Percent);

/// `upstream` or `hardened`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehaviourName(pub Behaviour);

impl Written for BehaviourName {
    const NAME: &'static str = "Behaviour";
    const FORM: &'static str = "upstream or hardened";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<BehaviourName, String> {
        Behaviour::from_name(text)
            .map(BehaviourName)
            .ok_or_else(|| "no such behaviour; there are upstream and hardened".to_owned())
    }
    fn write(&self) -> String {
        self.0.as_str().to_owned()
    }
}
written!(BehaviourName);

/// `threads` or `virtual`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineName(pub EngineKind);

impl Written for EngineName {
    const NAME: &'static str = "Engine";
    const FORM: &'static str = "threads or virtual";
    const NUMBER: bool = false;
    fn read(text: &str) -> Result<EngineName, String> {
        match text {
            "threads" => Ok(EngineName(EngineKind::Threads)),
            "virtual" => Ok(EngineName(EngineKind::Virtual)),
            _ => Err("no such engine; there are threads and virtual".to_owned()),
        }
    }
    fn write(&self) -> String {
        self.0.name().to_owned()
    }
}
written!(EngineName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_read() {
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
            assert_eq!(Percent::read(text).unwrap().write(), text);
        }
        assert_eq!(Percent::read("30%").unwrap().of(1_000), 300);
        assert_eq!(Percent::read("0.7%").unwrap().of(1_000), 7);
        assert_eq!(Percent::read("29%").unwrap().of(100), 29);
        assert_eq!(Percent::read("50%").unwrap().of(3), 1);
        assert_eq!(Percent::read("50%").unwrap().some_of(3), 2);
        assert_eq!(Percent::read("0%").unwrap().some_of(3), 0);
        for text in ["30", "-1%", "x%", "NaN%", "1e99%"] {
            assert!(Percent::read(text).is_err(), "{text}");
        }
        assert_eq!(Time::read("1m30s").unwrap().write(), "1m30s");
        assert!(Time::read("5").unwrap_err().contains("unit"));
        assert_eq!(
            LatencyText::read("p50=3ms,p99=40ms").unwrap().write(),
            "p50=3ms,p99=40ms"
        );
        assert!(
            BehaviourName::read("strict")
                .unwrap_err()
                .contains("hardened")
        );
        assert!(EngineName::read("fast").unwrap_err().contains("virtual"));
    }
}
