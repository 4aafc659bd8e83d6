//! Sizes of a rolling update: how many pods there may be beyond those wanted, how many may be
//! missing, and how large the new ReplicaSet becomes.
//!
//! Sums wrap around in 32 bits as upstream's do; validation keeps real sizes far from that.

use podstorm_objects::{Deployment, IntOrString, RollingUpdate, Str};

use super::find_new::problem;

/// The strategy that replaces old pods by new ones step by step.
pub const ROLLING_UPDATE: &str = "RollingUpdate";

/// The strategy that removes all old pods before it creates new ones.
pub const RECREATE: &str = "Recreate";

/// How far the number of pods may be off during a rolling update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fenceposts {
    /// How many pods there may be beyond `replicas`.
    pub surge: i32,
    /// How many of `replicas` may be unavailable.
    pub unavailable: i32,
}

/// A count or percentage that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    /// There is none where one is needed.
    #[error("nil value for IntOrString")]
    Absent,
    /// A text that does not end in `%`.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NoPercentage,
    /// What stands before the `%` is not a number of 64 bits.
    #[error(
        "invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {:?}: {problem}",
        text.strip_suffix('%').unwrap_or(text)
    )]
    NoNumber {
        /// The whole text.
        text: Str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Why the size of the new ReplicaSet is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// `maxSurge` can't be used.
    #[error(transparent)]
    MaxSurge(#[from] IntOrStringError),
    /// A strategy that does not exist.
    #[error("deployment type {0} isn't supported")]
    Strategy(Str),
}

/// Resolves `maxSurge` and `maxUnavailable` together; absent is 0. Of a percentage of `replicas`
/// the surge is rounded up and the unavailable pods are rounded down. If both are 0 then, one pod
/// may be unavailable, or nothing could move.
///
/// # Errors
/// The first text that is not a percentage.
///
/// Source: `ResolveFenceposts` of the controller's utilities.
pub fn fenceposts(
    max_surge: Option<&IntOrString>,
    max_unavailable: Option<&IntOrString>,
    replicas: i32,
) -> Result<Fenceposts, IntOrStringError> {
    let scaled = |value: Option<&IntOrString>, round| match value {
        Some(value) => scaled(value, replicas, round),
        None => Ok(0),
    };
    let surge = scaled(max_surge, f64::ceil)?;
    let unavailable = match scaled(max_unavailable, f64::floor)? {
        0 if surge == 0 => 1,
        unavailable => unavailable,
    };
    Ok(Fenceposts { surge, unavailable })
}

/// The surge of a Deployment's rolling update. 0 for another strategy, or if either limit can't be
/// read.
pub fn max_surge(deployment: &Deployment) -> i32 {
    limits(deployment).surge
}

/// How many pods of a Deployment may be unavailable, at most all. 0 for another strategy than a
/// rolling update, without pods, or if either limit can't be read.
pub fn max_unavailable(deployment: &Deployment) -> i32 {
    match deployment.replicas() {
        0 => 0,
        replicas => limits(deployment).unavailable.min(replicas),
    }
}

fn limits(deployment: &Deployment) -> Fenceposts {
    let strategy = &deployment.spec.strategy;
    if &*strategy.kind != ROLLING_UPDATE {
        return Fenceposts::default();
    }
    let (surge, unavailable) = match &strategy.rolling_update {
        Some(limits) => (limits.max_surge.as_ref(), limits.max_unavailable.as_ref()),
        None => (None, None),
    };
    fenceposts(surge, unavailable, deployment.replicas()).unwrap_or_default()
}

/// The size that the new ReplicaSet gets. `sizes_sum` is the size of all ReplicaSets together and
/// `new_size` that of the new one. A rolling update fills what the surge leaves free, and never
/// makes the ReplicaSet smaller unless `replicas` is.
///
/// # Errors
/// `maxSurge` is absent or can't be read; an unknown strategy.
///
/// Source: `NewRSNewReplicas` of the controller's utilities.
pub fn new_replica_set_size(
    deployment: &Deployment,
    sizes_sum: i32,
    new_size: i32,
) -> Result<i32, SizeError> {
    let (strategy, replicas) = (&deployment.spec.strategy, deployment.replicas());
    match &*strategy.kind {
        RECREATE => Ok(replicas),
        ROLLING_UPDATE => {
            let surge = strategy
                .rolling_update
                .as_ref()
                .and_then(|it: &RollingUpdate| it.max_surge.as_ref());
            let surge = scaled(surge.ok_or(IntOrStringError::Absent)?, replicas, f64::ceil)?;
            let most = replicas.wrapping_add(surge);
            if sizes_sum >= most {
                return Ok(new_size);
            }
            let missing = most
                .wrapping_sub(sizes_sum)
                .min(replicas.wrapping_sub(new_size));
            Ok(new_size.wrapping_add(missing))
        }
        _ => Err(SizeError::Strategy(strategy.kind.clone())),
    }
}

/// A count, or a percentage of `of` that `round` makes whole.
pub(crate) fn scaled(
    value: &IntOrString,
    of: i32,
    round: fn(f64) -> f64,
) -> Result<i32, IntOrStringError> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::Text(text) => text,
    };
    let number = text
        .strip_suffix('%')
        .ok_or(IntOrStringError::NoPercentage)?;
    let percent: i64 = number.parse().map_err(|error| IntOrStringError::NoNumber {
        text: text.clone(),
        problem: problem(&error),
    })?;
    Ok(truncated(round(percent as f64 * f64::from(of) / 100.0)))
}

/// A whole number in 32 bits, as Go converts it on amd64: a number beyond 64 bits becomes the
/// smallest of these, and then the lower half is taken.
fn truncated(number: f64) -> i32 {
    let is_in_range = number >= i64::MIN as f64 && number < i64::MAX as f64;
    (if is_in_range { number as i64 } else { i64::MIN }) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_are_refused_and_others_wrap_as_in_go() {
        let surge = |value: &str, replicas| {
            let value = IntOrString::Text(value.into());
            fenceposts(Some(&value), None, replicas).map(|it| it.surge)
        };
        let refused = surge("9223372036854775808%", 4).expect_err("it is out of range");
        assert_eq!(
            refused.to_string(),
            "invalid value for IntOrString: invalid value \"9223372036854775808%\": \
             strconv.Atoi: parsing \"9223372036854775808\": value out of range"
        );
        assert_eq!(surge("214748364800%", 1), Ok(i32::MIN));
        assert_eq!(surge("9223372036854775807%", 1000), Ok(0));
    }
}
