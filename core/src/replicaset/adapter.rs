//! Converts between ReplicationControllers, as the API server stores them, and ReplicaSets.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, ReplicaSet, ReplicationController};

/// Returns a ReplicaSet as is and a ReplicationController converted to one; `None` for other kinds.
pub fn as_replica_set(object: &AnyObject) -> Option<Arc<ReplicaSet>> {
    if let Some(controller) = object.downcast_ref::<ReplicationController>() {
        return Some(Arc::new(controller.to_replica_set()));
    }
    Arc::clone(object).downcast()
}

/// Converts a ReplicaSet to the object to send in a status write: a ReplicaSet or, for that kind,
/// a ReplicationController.
pub(super) fn of_kind(kind: Kind, set: ReplicaSet) -> AnyObject {
    if kind != Kind::REPLICATION_CONTROLLER {
        return Arc::new(set);
    }
    let controller = ReplicationController::from_replica_set(&set);
    Arc::new(controller.expect("its selector was built from label pairs"))
}
