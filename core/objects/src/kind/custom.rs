//! Kinds that a CustomResourceDefinition describes.

use serde_json::Value;

use super::columns::JsonPath;

/// One version of a kind that a CustomResourceDefinition describes: what its row says besides.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomType {
    /// The schema of objects, as the definition has it, with `apiVersion`, `kind` and `metadata`.
    pub schema: Value,
    /// The `kind` of lists.
    pub list_kind: String,
    /// The name of one object in lower case.
    pub singular: String,
    /// What clients of the version are warned of; empty for nothing.
    pub deprecation: String,
    /// Whether it is the version that objects are stored in.
    pub is_stored: bool,
    /// Where `/scale` finds its numbers, if it is served.
    pub scale: Option<ScalePaths>,
}

/// Where `/scale` finds the numbers of a custom kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec_replicas: JsonPath,
    /// `statusReplicasPath`.
    pub status_replicas: JsonPath,
    /// `labelSelectorPath`, if it is given.
    pub selector: Option<JsonPath>,
}
