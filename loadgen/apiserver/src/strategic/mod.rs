//! Strategic merge patches that follow the schemas of their fields.

use podstorm_objects::{Map, MergeField, MergeRules, PatchProblem};
use serde_json::Value;

use crate::schemas::{referred, struct_name};

/// The merge rules in a schema, which is that of a struct or of a field's value.
#[derive(Clone, Copy, Debug)]
struct Schema<'a>(&'a Value);

impl MergeRules for Schema<'_> {
    fn struct_name(&self) -> Option<&str> {
        self.0.get("properties").map(|_| struct_name(self.0))
    }

    fn member(&self, name: &str) -> Option<MergeField<'_, Self>> {
        let declared = self.0.get("properties").and_then(|all| all.get(name));
        let property = declared.or_else(|| self.0.get("additionalProperties"))?;
        let extension = |name: &str| property.get(name).and_then(Value::as_str).unwrap_or("");
        let inside = property.get("items").unwrap_or(property);
        Some(MergeField {
            strategies: extension("x-kubernetes-patch-strategy"),
            merge_key: extension("x-kubernetes-patch-merge-key"),
            inside: Schema(referred(inside).map_or(inside, |(_, schema)| schema)),
        })
    }
}

/// Applies a strategic merge patch to an object with the given schema, like
/// [`podstorm_objects::strategic_merge`]. O(object + patch).
///
/// # Errors
/// Fails for an unknown directive, or one in a wrong form or place, and for list entries without
/// their key. The object is then partly patched.
pub fn strategic_merge(
    schema: Option<&Value>,
    target: &mut Map,
    patch: &Map,
) -> Result<(), PatchProblem> {
    podstorm_objects::strategic_merge(schema.map(Schema), target, patch)
}

#[cfg(test)]
mod tests;
