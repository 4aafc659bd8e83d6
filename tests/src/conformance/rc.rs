//! Cases of `rc`: whole syncs of ReplicationControllers; the same form as those of `sync`.

use serde_json::Value;

/// Runs one case.
pub(super) fn run(case: Value) -> Result<(), String> {
    super::sync::run(case)
}
