//! The logarithmic scale on which ages are compared. Pods of about the same age are tied, so a
//! scale-down right after a scale-up doesn't delete exactly the newest pods.

use podstorm_objects::Time;

/// Returns the bucket of an age in nanoseconds: -1 for ages of zero or less, otherwise the binary
/// logarithm of the age, rounded down, from 0 to 63. O(1).
///
/// Upstream computes the logarithm of the age as a double. From `k = 49` (6.5 days) on, that
/// logarithm rounds up to `k` just below `2^k` nanoseconds. This function therefore uses a table of
/// the starts of the buckets. Counting leading zeros would give other results for ages that were
/// recorded in the wild.
pub const fn age_bucket(age_ns: i64) -> i32 {
    if age_ns <= 0 {
        return -1;
    }
    // At most 62, so a next bucket exists.
    let floor = age_ns.ilog2();
    if age_ns >= STARTS[floor as usize + 1] {
        floor as i32 + 1
    } else {
        floor as i32
    }
}

/// The numbers of nanoseconds by which the buckets from 49 on start before their power of two. The
/// double nearest to `log2(2^k - c)` is `k` while `c / (2^k ln 2)` is below half a unit in the last
/// place of `k`. From 54 on the value doubles with every `k`; below 54, rounding to whole numbers
/// changes it.
const EARLY_NS: [i64; 15] = [
    1, 2, 5, 11, 22, 45, 90, 180, 360, 720, 1_440, 2_880, 5_760, 11_520, 23_040,
];

/// The first bucket that starts early.
const EARLY_FIRST: usize = 49;

/// The smallest age of every bucket, in nanoseconds.
const STARTS: [i64; 64] = {
    let mut starts = [0; 64];
    let mut bucket = 0;
    while bucket < 64 {
        let early = if bucket < EARLY_FIRST {
            0
        } else {
            EARLY_NS[bucket - EARLY_FIRST]
        };
        // Computed in 128 bits, because 2^63 does not fit into an `i64`.
        starts[bucket] = ((1i128 << bucket) - early as i128) as i64;
        bucket += 1;
    }
    starts
};

/// Returns the age of `time` at `now_ns` (nanoseconds since the Unix epoch), clamped to 64 bits;
/// `None` if the time is unset.
pub(super) fn age_ns(now_ns: i64, time: Time) -> Option<i64> {
    let seconds = time.unix_seconds()?;
    let age = i128::from(now_ns) - i128::from(seconds) * 1_000_000_000;
    Some(age.clamp(-i128::from(i64::MAX), i128::from(i64::MAX)) as i64)
}

/// Returns the bucket of a time as a small unsigned number. An unset time has the smallest one.
#[inline]
pub(super) fn time_code(now_ns: i64, time: Time) -> u8 {
    // With the current time and `time` less than 146 years from 1970, nothing below overflows.
    const NEAR_NS: u64 = 1 << 62;
    const NEAR_SECONDS: u64 = NEAR_NS / 1_000_000_000;
    let seconds = time.unix_seconds().unwrap_or(i64::MIN);
    if now_ns.unsigned_abs() < NEAR_NS && seconds.unsigned_abs() < NEAR_SECONDS {
        bucket_code(now_ns - seconds * 1_000_000_000)
    } else {
        code_of_far_time(now_ns, time)
    }
}

#[cold]
fn code_of_far_time(now_ns: i64, time: Time) -> u8 {
    age_ns(now_ns, time).map_or(0, bucket_code)
}

#[inline]
fn bucket_code(age_ns: i64) -> u8 {
    // Buckets range from -1 to 63.
    (age_bucket(age_ns) + 2) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_match_the_logarithm_of_doubles() {
        for start in STARTS {
            for off in -3..=3 {
                let age = i128::from(start) + off;
                if age < 1 || age > i128::from(i64::MAX) {
                    continue;
                }
                let age = age as i64;
                assert_eq!(age_bucket(age), (age as f64).log2() as i32, "age {age}");
            }
        }
        for age in [0, -1, i64::MIN] {
            assert_eq!(age_bucket(age), -1);
        }
        assert_eq!(age_bucket(i64::MAX), 63);
    }

    #[test]
    fn ages_saturate_instead_of_wrapping() {
        let year_one = Time::from_unix_seconds(-62_135_596_800 + 1);
        assert_eq!(age_ns(1_700_000_000_000_000_000, year_one), Some(i64::MAX));
        let year_9999 = Time::from_unix_seconds(253_402_300_799);
        assert_eq!(
            age_ns(1_700_000_000_000_000_000, year_9999),
            Some(-i64::MAX)
        );
        assert_eq!(age_ns(5, Time::from_unix_seconds(0)), Some(5));
        assert_eq!(age_ns(5, Time::UNSET), None);
    }

    #[test]
    fn near_and_far_times_get_the_codes_of_their_ages() {
        let seconds = [
            0,
            1,
            1_772_921_233,
            4_611_686_017,
            4_611_686_018,
            9_223_372_037,
        ];
        let times = seconds.into_iter().flat_map(|seconds| [seconds, -seconds]);
        let times = times.map(Time::from_unix_seconds).chain([Time::UNSET]);
        for time in times {
            for now_ns in [0, 5, -5, 1_772_921_233_958_781_165, i64::MAX, i64::MIN] {
                let code = age_ns(now_ns, time).map_or(0, bucket_code);
                assert_eq!(time_code(now_ns, time), code, "{now_ns} {time:?}");
            }
        }
    }
}
