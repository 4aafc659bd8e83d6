//! Cases of `deletion_cost`: reading the annotation.

use podstorm::object::Labels;
use podstorm::ranking::{DELETION_COST_ANNOTATION, deletion_cost};

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let annotations =
        Labels::from_json(case.value("annotations")).map_err(|error| error.to_string())?;
    let value = case.int("value")?;
    let error = case.flag("error")?;
    let cost = deletion_cost(
        annotations
            .get(DELETION_COST_ANNOTATION)
            .map(|text| &**text),
    );
    expect_eq("error", &cost.is_err(), &error)?;
    expect_eq("value", &i64::from(cost.unwrap_or(0)), &value)
}
