//! The sizes in a rolling update: the maximum surge, the maximum number of unavailable pods, and
//! the size of the new ReplicaSet.
//!
//! Sums wrap around at 32 bits, as upstream's do. Validation keeps real sizes far below this limit.

use podstorm_objects::{Deployment, IntOrString, RollingUpdate, Str};

use super::find_new::problem;

/// The type of the strategy that replaces old pods with new ones in steps.
pub const ROLLING_UPDATE: &str = "RollingUpdate";

/// The type of the strategy that removes all old pods before it creates new ones.
pub const RECREATE: &str = "Recreate";

/// The limits on the number of pods during a rolling update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fenceposts {
    /// The maximum number of pods beyond `replicas`.
    pub surge: i32,
    /// The maximum number of the wanted pods that may be unavailable.
    pub unavailable: i32,
}

/// The error for a count or percentage that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    /// A required value is absent.
    #[error("nil value for IntOrString")]
    Absent,
    /// The string does not end in `%`.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NoPercentage,
    /// The part of the string before the `%` is not a 64-bit number.
    #[error(
        "invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {:?}: {problem}",
        text.strip_suffix('%').unwrap_or(text)
    )]
    NoNumber {
        /// The whole string.
        text: Str,
        /// Why the part before the `%` is not a number, in Go's words.
        problem: &'static str,
    },
}

/// The error of computing the size of the new ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// `maxSurge` can't be used.
    #[error(transparent)]
    MaxSurge(#[from] IntOrStringError),
    /// The strategy is not known. Holds its type.
    #[error("deployment type {0} isn't supported")]
    Strategy(Str),
}

/// Resolves `maxSurge` and `maxUnavailable` together; an absent value counts as 0. A percentage of
/// `replicas` is rounded up for the surge and down for the unavailable pods. If both results are 0,
/// one pod may be unavailable, because otherwise the rollout could not start.
///
/// # Errors
/// Returns the error of the first string that is not a percentage.
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

/// Returns the surge of a Deployment's rolling update; 0 with another strategy, or if either limit
/// can't be parsed.
pub fn max_surge(deployment: &Deployment) -> i32 {
    limits(deployment).surge
}

/// Returns how many pods of a Deployment may be unavailable, at most all. Returns 0 with another
/// strategy than a rolling update, if the Deployment wants no pods, or if either limit can't be
/// parsed.
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

/// Returns the size of the new ReplicaSet. `sizes_sum` is the total size of all ReplicaSets, and
/// `new_size` is the current size of the new one. A rolling update uses the free part of the surge.
/// It shrinks the new ReplicaSet only if that is larger than `replicas`.
///
/// # Errors
/// Fails if `maxSurge` is absent or can't be parsed, or if the strategy is unknown.
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

/// Returns a count as is, or a percentage of `of` that is rounded with `round`.
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

/// Converts a whole number to 32 bits as Go does on amd64: converts it to 64 bits, where a number
/// out of range becomes the smallest 64-bit number, and then takes the lower half.
fn truncated(number: f64) -> i32 {
    let is_in_range = number >= i64::MIN as f64 && number < i64::MAX as f64;
    (if is_in_range { number as i64 } else { i64::MIN }) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_fail_and_others_wrap_as_in_go() {
        let surge = |value: &str, replicas| {
            let value = IntOrString::Text(value.into());
            fenceposts(Some(&value), None, replicas).map(|it| it.surge)
        };
        let refused = surge("9223372036854775808%", 4).expect_err("the number is out of range");
        assert_eq!(
            refused.to_string(),
            "invalid value for IntOrString: invalid value \"9223372036854775808%\": \
             strconv.Atoi: parsing \"9223372036854775808\": value out of range"
        );
        assert_eq!(surge("214748364800%", 1), Ok(i32::MIN));
        assert_eq!(surge("9223372036854775807%", 1000), Ok(0));
    }
}
