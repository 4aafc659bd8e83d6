//! ReplicationControllers as ReplicaSets, on their way from the API server and back.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, ReplicaSet, ReplicationController};

/// A ReplicaSet, or a ReplicationController as one; nothing for objects of other kinds.
pub fn as_replica_set(object: &AnyObject) -> Option<Arc<ReplicaSet>> {
    if let Some(controller) = object.downcast_ref::<ReplicationController>() {
        return Some(Arc::new(controller.to_replica_set()));
    }
    Arc::clone(object).downcast()
}

/// The object that a status write sends, of that kind.
pub(super) fn of_kind(kind: Kind, set: ReplicaSet) -> AnyObject {
    if kind != Kind::REPLICATION_CONTROLLER {
        return Arc::new(set);
    }
    let controller = ReplicationController::from_replica_set(&set);
    Arc::new(controller.expect("its selector was made of label pairs"))
}
