//! Parameters of the steps about nodes, and about the budgets that delay a drain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Which;
use crate::values::Limit;

/// A selection of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeNodes {
    /// Which nodes are selected.
    pub nodes: Which,
    /// The number of the zone whose nodes are selected, starting at 1 for nodes with the label
    /// `topology.kubernetes.io/zone: zone-1`. If absent, nodes of all zones are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u64>,
}

/// Budgets, one for each workload that owns pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateBudgets {
    /// The maximum number of pods of each workload that may be unavailable.
    pub max_unavailable: Limit,
}
