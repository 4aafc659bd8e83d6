//! Cases of `log_rank`: the logarithmic age bucket alone.

use podstorm::ranking::age_bucket;
use serde_json::json;

use super::Fields;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let age_ns = case.int("ageNanos")?;
    case.is(json!({"rank": age_bucket(age_ns)}))
}
