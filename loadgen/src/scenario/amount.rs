//! The number of pods of a workload, and the part of a set that a step applies to.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::values::{Percent, written};

/// The number of pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// `50%`: this percentage of its share of the cluster's pods, rounded down.
    Share(Percent),
    /// `12`: exactly this number.
    Count(i32),
    /// `+500`: the workload's share, plus its part of 500 pods that are distributed over the
    /// workloads of the step.
    Extra(u32),
    /// `+burst`: like `+500`, with the value of `--burst`.
    Burst,
    /// `50%..150%`: a uniformly random percentage of the share, between these two.
    Between(Percent, Percent),
}

impl Amount {
    /// Returns the number for the ReplicaSet whose number and count in the step are `place`.
    /// `share` is its share of the cluster's pods; `burst` comes from the settings.
    pub(crate) fn resolve(
        self,
        number: u64,
        count: u64,
        share: i32,
        burst: u32,
        random: &mut fastrand::Rng,
    ) -> i32 {
        let part = |percent: Percent| {
            let whole = u64::try_from(share).unwrap_or(0);
            i32::try_from(percent.share(whole)).unwrap_or(i32::MAX)
        };
        let extra = |pods: u32| {
            let count = count.max(1);
            let (each, left) = (u64::from(pods) / count, u64::from(pods) % count);
            let extra = each + u64::from(number < left);
            share.saturating_add(i32::try_from(extra).unwrap_or(i32::MAX))
        };
        match self {
            Amount::Share(percent) => part(percent),
            Amount::Count(count) => count,
            Amount::Extra(pods) => extra(pods),
            Amount::Burst => extra(burst),
            Amount::Between(low, high) => random.i32(part(low)..=part(high)),
        }
    }
}

impl FromStr for Amount {
    type Err = String;
    fn from_str(text: &str) -> Result<Amount, String> {
        let text = text.trim();
        if text == "+burst" {
            return Ok(Amount::Burst);
        }
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (low.parse::<Percent>()?, high.parse::<Percent>()?);
            if low.0 > high.0 {
                return Err("the first percentage must be the smaller one".to_owned());
            }
            return Ok(Amount::Between(low, high));
        }
        if let Some(more) = text.strip_prefix('+') {
            return match more.parse::<u32>() {
                Ok(more) if i32::try_from(more).is_ok() => Ok(Amount::Extra(more)),
                _ => Err("expected a whole number or burst after +".to_owned()),
            };
        }
        if text.ends_with('%') {
            return text.parse().map(Amount::Share);
        }
        match text.parse::<i32>() {
            Ok(count) if count >= 0 => Ok(Amount::Count(count)),
            Ok(_) => Err("a number of pods can't be negative".to_owned()),
            Err(_) => Err("expected 12, 50%, +500, +burst or 50%..150%".to_owned()),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Share(percent) => write!(f, "{percent}"),
            Amount::Count(count) => write!(f, "{count}"),
            Amount::Extra(pods) => write!(f, "+{pods}"),
            Amount::Burst => f.write_str("+burst"),
            Amount::Between(low, high) => write!(f, "{low}..{high}"),
        }
    }
}
written!(
    Amount,
    "Amount",
    "number of pods of a ReplicaSet: 12 (this number), 50% (of its share), +500 or +burst (its share and its part of \
     this many more), 50%..150% (at random between the two)",
    number: true
);

/// A selection from numbered things. It always contains the first ones, so that another step can
/// select the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// `20%`: this share of all, rounded up.
    Share(Percent),
    /// `3`: this number, from the first on.
    First(u64),
}

impl Which {
    /// The selection of all things.
    pub const ALL: Which = Which::Share(Percent(1.0));

    /// Returns the size of a selection from `all` things; it does not exceed `all`.
    pub fn resolve(self, all: u64) -> u64 {
        match self {
            Which::Share(percent) => percent.some_of(all).min(all),
            Which::First(count) => count.min(all),
        }
    }

    /// Returns the selected share of `all`, or the selected number even if it exceeds `all`.
    pub fn of_any(self, all: u64) -> u64 {
        match self {
            Which::Share(percent) => percent.some_of(all),
            Which::First(count) => count,
        }
    }
}

impl Default for Which {
    fn default() -> Which {
        Which::ALL
    }
}

impl FromStr for Which {
    type Err = String;
    fn from_str(text: &str) -> Result<Which, String> {
        match text.trim().parse::<u64>() {
            Ok(count) => Ok(Which::First(count)),
            Err(_) => text
                .parse()
                .map(Which::Share)
                .map_err(|_| "expected a percentage such as 20%, or a number".to_owned()),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Share(percent) => write!(f, "{percent}"),
            Which::First(count) => write!(f, "{count}"),
        }
    }
}
written!(
    Which,
    "Which",
    "a selection: 20% (the first ones, rounded up) or 3 (the first 3)",
    number: true
);

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str, (number, count): (u64, u64), share: i32) -> i32 {
        let mut random = fastrand::Rng::with_seed(1);
        text.parse::<Amount>()
            .unwrap()
            .resolve(number, count, share, 500, &mut random)
    }

    #[test]
    fn extra_pods_add_up_over_all_workloads() {
        let of = |number| amount("+burst", (number, 7), 10);
        assert_eq!((0..7).map(|number| of(number) - 10).sum::<i32>(), 500);
        assert_eq!(amount("+500", (0, 1), 10), 510);
        assert_eq!(amount("50%", (0, 7), 11), 5);
        assert_eq!(amount("100%", (0, 7), 11), 11);
        assert_eq!(amount("150%", (0, 7), 10), 15);
        assert_eq!(amount("3", (5, 7), 11), 3);
    }

    #[test]
    fn random_amounts_reach_but_never_exceed_their_bounds() {
        let mut random = fastrand::Rng::with_seed(3);
        let between = "50%..150%".parse::<Amount>().unwrap();
        let drawn: Vec<i32> = (0..1_000)
            .map(|_| between.resolve(0, 1, 10, 0, &mut random))
            .collect();
        assert_eq!(drawn.iter().min(), Some(&5));
        assert_eq!(drawn.iter().max(), Some(&15));
    }

    #[test]
    fn texts_round_trip_and_errors_have_a_reason() {
        for text in ["50%", "12", "+500", "+burst", "50%..150%"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        for text in ["-1", "+", "+-3", "half", "150%..50%", "5.5"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert_eq!("20%".parse::<Which>().unwrap().resolve(11), 3);
        assert_eq!("3".parse::<Which>().unwrap().resolve(2), 2);
        assert!("some".parse::<Which>().unwrap_err().contains("20%"));
    }
}
