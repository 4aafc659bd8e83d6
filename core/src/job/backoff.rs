//! The delay before a Job replaces failed pods.
//!
//! Source: `backoff_utils.go` of Kubernetes' `pkg/controller/job`.

use podstorm_objects::{ConditionStatus, ConditionType, Pod, Time};

use super::pod::terminations;

/// The delay after the first failure, in ns.
const BASE_NS: i64 = 10_000_000_000;

/// The maximum delay, in ns.
const MAX_NS: i64 = 600_000_000_000;

/// The controller's record of a Job's failures. It is lost when the controller restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The number of failures since the last success.
    pub count: u32,
    /// When the last of these failures ended, in ns since the Unix epoch.
    pub last_ns: Option<i64>,
}

impl Failures {
    /// Returns the record with newly finished pods added. They are given as end times in ns since
    /// the Unix epoch, in any order. Reads successes only up to the first that is no earlier than
    /// the last failure.
    #[must_use]
    pub fn with(self, failed: &[i64], succeeded: impl IntoIterator<Item = i64>) -> Failures {
        let last_failure = failed.iter().max();
        let mut last_success = None;
        for success in succeeded {
            if last_failure.is_none_or(|failure| *failure <= success) {
                return Failures::default();
            }
            last_success = last_success.max(Some(success));
        }
        let before = match last_success {
            None if failed.is_empty() => return self,
            None => self.count,
            Some(_) => 0,
        };
        let newer = failed.iter().filter(|at| Some(**at) > last_success);
        let count = u32::try_from(newer.clone().count()).unwrap_or(u32::MAX);
        Failures {
            count: before.saturating_add(count),
            last_ns: newer.max().copied(),
        }
    }

    /// Returns the remaining delay before pods may be created, in ns; 0 if they may be created now.
    pub fn remaining_ns(self, now_ns: i64) -> i64 {
        let (Some(doublings), Some(last_ns)) = (self.count.checked_sub(1), self.last_ns) else {
            return 0;
        };
        // Six doublings already exceed the maximum.
        let delay_ns = (BASE_NS << doublings.min(6)).min(MAX_NS);
        let elapsed_ns = now_ns.saturating_sub(last_ns);
        delay_ns.saturating_sub(elapsed_ns).max(0)
    }
}

/// Returns when a pod ended: the end of its last container or, if that is unknown, the time when
/// the pod ceased to be ready, its deletion began, or it was created.
///
/// Source: `getFinishedTime`. Like upstream, counts sidecars even if a regular container has not
/// ended.
pub fn finish_time(pod: &Pod) -> Time {
    let status = &pod.status;
    let mut last: Option<Time> = None;
    let mut fold = |ended: Option<Time>| {
        last = ended.map(|at| last.map_or(at, |last| if after(at, last) { at } else { last }));
        ended.is_some()
    };
    for container in &status.container_statuses {
        if !fold(terminations(container).finished) {
            break;
        }
    }
    for container in pod.sidecar_statuses() {
        if !fold(terminations(container).finished) {
            break;
        }
    }
    if let Some(last) = last {
        return last;
    }
    let ready = status.conditions.first(ConditionType::Ready);
    if let Some((ConditionStatus::False, since)) = ready
        && !since.get().is_unset()
    {
        return since.get();
    }
    let meta = &pod.metadata;
    if let Some(deleted) = meta.deletion_timestamp.unix_seconds() {
        let grace = meta.deletion_grace_period_seconds.get().unwrap_or(0);
        return Time::from_unix_seconds(deleted.saturating_sub(grace));
    }
    meta.creation_timestamp
}

fn after(a: Time, b: Time) -> bool {
    a.unix_seconds() > b.unix_seconds()
}

/// Returns [`finish_time`] in ns since the Unix epoch.
pub(super) fn finish_ns(pod: &Pod) -> i64 {
    let seconds = finish_time(pod).unix_seconds().unwrap_or(0);
    seconds.saturating_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_ten_minutes() {
        let waits = [0, 10, 20, 40, 80, 160, 320, 600, 600, 600];
        for (count, seconds) in (0..).zip(waits) {
            let failures = Failures {
                count,
                last_ns: Some(0),
            };
            assert_eq!(failures.remaining_ns(0), seconds * 1_000_000_000);
            assert_eq!(failures.remaining_ns(i64::MAX), 0);
        }
    }

    #[test]
    fn a_success_clears_earlier_failures() {
        let three = Failures::default().with(&[1, 3, 2], []);
        assert_eq!((three.count, three.last_ns), (3, Some(3)));
        assert_eq!(three.with(&[], [4]), Failures::default());
        assert_eq!(three.with(&[], []), three);
        for successes in [vec![4], vec![2, 4, 3]] {
            let newer = three.with(&[4, 6, 5], successes);
            assert_eq!((newer.count, newer.last_ns), (2, Some(6)));
        }
    }

    #[test]
    fn no_success_is_read_after_one_past_the_last_failure() {
        let mut looked_at = 0;
        let successes = [1, 5, 9].into_iter().inspect(|_| looked_at += 1);
        let none = Failures::default().with(&[4, 5], successes);
        assert_eq!((none, looked_at), (Failures::default(), 2));
    }
}
