//! Availability of ready pods: `minReadySeconds` after their `Ready` condition became true.

use podstorm_objects::{Pod, Time};

const NS_PER_SECOND: i64 = 1_000_000_000;

/// Reports whether a pod that is ready since `ready_time` is available at `now_wall_ns`
/// (nanoseconds since the Unix epoch). The boundary counts as available. If `min_ready_seconds` is
/// 0, every ready pod is available; otherwise a pod with an unset ready time never is.
pub fn is_available(ready_time: Time, min_ready_seconds: i32, now_wall_ns: i64) -> bool {
    if min_ready_seconds == 0 {
        return true;
    }
    ready_time.unix_nanos().is_some_and(|ready| {
        ready.saturating_add(i64::from(min_ready_seconds) * NS_PER_SECOND) <= now_wall_ns
    })
}

/// Returns the latest ready time, in seconds, with which a pod is available at `now_wall_ns`.
pub(crate) fn availability_cutoff(min_ready_seconds: i32, now_wall_ns: i64) -> Time {
    let now = now_wall_ns.div_euclid(NS_PER_SECOND);
    Time::from_unix_seconds(now - i64::from(min_ready_seconds))
}

/// Returns the nanoseconds from `now_wall_ns` until the first of the ready pods becomes available;
/// `None` if no pod is waiting or `min_ready_seconds` is 0.
pub fn next_availability_check<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now_wall_ns: i64,
) -> Option<i64> {
    let ready = pods
        .into_iter()
        .filter(|pod| pod.is_ready())
        .map(Pod::ready_time);
    next_check_of_times(ready, min_ready_seconds, now_wall_ns)
}

/// Like [`next_availability_check`], for the ready times of ready pods.
pub(crate) fn next_check_of_times(
    ready_times: impl IntoIterator<Item = Time>,
    min_ready_seconds: i32,
    now_wall_ns: i64,
) -> Option<i64> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let wait = i64::from(min_ready_seconds) * NS_PER_SECOND;
    ready_times
        .into_iter()
        .filter_map(Time::unix_nanos)
        .map(|ready| ready.saturating_add(wait).saturating_sub(now_wall_ns))
        .filter(|remaining| *remaining > 0)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: i64 = 1_700_000_000;

    #[test]
    fn the_cutoff_is_the_last_available_second() {
        for now in [
            T * NS_PER_SECOND - 1,
            T * NS_PER_SECOND,
            T * NS_PER_SECOND + 1,
            -1,
            0,
        ] {
            let cutoff = availability_cutoff(10, now);
            let after = cutoff
                .unix_seconds()
                .map(|at| Time::from_unix_seconds(at + 1));
            assert!(is_available(cutoff, 10, now));
            assert!(!is_available(after.unwrap(), 10, now));
        }
    }
}
