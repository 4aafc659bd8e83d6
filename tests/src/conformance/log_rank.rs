//! Cases of `log_rank`: the logarithmic age bucket alone.

use podstorm::ranking::age_bucket;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let age_ns = case.int("ageNanos")?;
    let bucket = case.int("rank")?;
    expect_eq("rank", &i64::from(age_bucket(age_ns)), &bucket)
}
