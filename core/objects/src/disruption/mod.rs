//! Disruption budgets, and the condition of pods that are about to be disrupted, as the disruption
//! controller and the eviction of pods read and write them.

mod budget;
mod target;

pub use budget::{Amount, Budget, BudgetStatus, Condition, SYNC_FAILED};
pub use target::{DELETION_TIMEOUT_NS, evicted, preempted, spared, stale_from_ns};
