//! Cases of `log_rank`: the logarithmic age bucket alone.

use podstorm::ranking::age_bucket;
use serde_json::Value;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: Value) -> Result<(), String> {
    let mut case = Fields::new(case, "case")?;
    let age_ns = case.int("ageNanos")?;
    let bucket = case.int("rank")?;
    case.finish()?;
    expect_eq("rank", &i64::from(age_bucket(age_ns)), &bucket)
}
