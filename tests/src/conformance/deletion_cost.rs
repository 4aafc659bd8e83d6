//! Cases of `deletion_cost`: parsing the annotation.

use podstorm::object::Labels;
use podstorm::ranking::{DELETION_COST_ANNOTATION, deletion_cost};
use serde_json::json;

use super::Fields;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let annotations =
        Labels::from_json(case.value("annotations")).map_err(|error| error.to_string())?;
    let text = annotations.get(DELETION_COST_ANNOTATION);
    let cost = deletion_cost(text.map(|text| &**text));
    case.is(json!({"error": cost.is_err(), "value": cost.unwrap_or(0)}))
}
