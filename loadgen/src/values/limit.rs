//! The limit of a rolling update.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use podstorm_objects::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Percent, written};

/// A limit of a rolling update in pods, like `maxSurge` and `maxUnavailable` of a Deployment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// `25%`: this share of the pods.
    Share(Percent),
    /// `1`: this number.
    Pods(i32),
}

impl Limit {
    /// The default of Deployments.
    pub(crate) const QUARTER: Limit = Limit::Share(Percent(0.25));

    /// Returns the limit for `pods`, rounded up, as Kubernetes does for `maxSurge`.
    pub(crate) fn rounded_up(self, pods: i32) -> i32 {
        self.resolve(pods, Percent::some_of)
    }

    /// Returns the limit for `pods`, rounded down, as Kubernetes does for `maxUnavailable`.
    pub(crate) fn rounded_down(self, pods: i32) -> i32 {
        self.resolve(pods, Percent::share)
    }

    fn resolve(self, pods: i32, part: fn(Percent, u64) -> u64) -> i32 {
        match self {
            Limit::Share(share) => {
                let part = part(share, u64::try_from(pods).unwrap_or(0));
                i32::try_from(part).unwrap_or(i32::MAX)
            }
            Limit::Pods(count) => count,
        }
    }

    /// Reports whether the limit is zero for any number of pods.
    pub(crate) fn is_zero(self) -> bool {
        self == Limit::Share(Percent(0.0)) || self == Limit::Pods(0)
    }

    /// Converts the limit for a Deployment, which accepts only integer percentages.
    pub(crate) fn int_or_string(self) -> IntOrString {
        match self {
            Limit::Share(share) => {
                let percent = format!("{}%", (share.0 * 100.0).round());
                IntOrString::Text(percent.as_str().into())
            }
            Limit::Pods(count) => IntOrString::Int(count),
        }
    }

    /// Converts the limit to JSON.
    pub(crate) fn to_json(self) -> Value {
        match self.int_or_string() {
            IntOrString::Int(count) => count.into(),
            IntOrString::Text(text) => (*text).into(),
        }
    }
}

impl Default for Limit {
    fn default() -> Limit {
        Limit::QUARTER
    }
}

impl FromStr for Limit {
    type Err = String;
    fn from_str(text: &str) -> Result<Limit, String> {
        let text = text.trim();
        if text.ends_with('%') {
            return text.parse().map(Limit::Share);
        }
        match text.parse::<i32>() {
            Ok(count) if count >= 0 => Ok(Limit::Pods(count)),
            Ok(_) => Err("a number of pods can't be negative".to_owned()),
            Err(_) => {
                Err("expected a percentage such as 25%, or a number of pods such as 1".to_owned())
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Share(share) => write!(f, "{share}"),
            Limit::Pods(count) => write!(f, "{count}"),
        }
    }
}
written!(
    Limit,
    "Limit",
    "pods of a rolling update: 25% (of its pods) or 1 (this number)",
    number: true
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_share_or_a_number_of_pods() {
        let of = |text: &str| text.parse::<Limit>().unwrap();
        for (text, up, down) in [("25%", 3, 2), ("1", 1, 1), ("0%", 0, 0), ("200%", 20, 20)] {
            let limit = of(text);
            assert_eq!(limit.to_string(), text);
            assert_eq!((limit.rounded_up(10), limit.rounded_down(10)), (up, down));
        }
        assert_eq!(of("1").int_or_string(), IntOrString::Int(1));
        assert_eq!(of("25%").int_or_string().to_string(), "25%");
        assert!(of("0").is_zero() && of("0%").is_zero() && !of("1").is_zero());
        for text in ["0.25", "-1", "a few", ""] {
            let problem = text.parse::<Limit>().unwrap_err();
            assert!(problem.contains("pods"), "{text}: {problem}");
        }
    }
}
