//! The objects that want pods: ReplicaSets and ReplicationControllers, the latter as their
//! controller sees them.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::replicaset::as_replica_set;
use podstorm_apiserver::Cluster;
use podstorm_objects::{
    AnyObject, Kind, Map, Now, Pod, ReplicaSet, ReplicationController, Resource,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::objects::{NAMESPACE, replica_set, with};

/// What an object of a schedule is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// A ReplicaSet.
    #[default]
    ReplicaSet,
    /// A ReplicationController.
    ReplicationController,
}

impl WorkloadKind {
    /// Both.
    pub const ALL: [WorkloadKind; 2] = [
        WorkloadKind::ReplicaSet,
        WorkloadKind::ReplicationController,
    ];

    /// Whether it is what a schedule does not have to say.
    pub(super) fn is_usual(&self) -> bool {
        *self == WorkloadKind::default()
    }

    /// Its kind as the API has it.
    pub fn kind(self) -> Kind {
        match self {
            WorkloadKind::ReplicaSet => Kind::REPLICA_SET,
            WorkloadKind::ReplicationController => Kind::REPLICATION_CONTROLLER,
        }
    }

    /// Creates one whose pods have the label `app` of that value.
    pub(super) fn create(
        self,
        cluster: &Cluster,
        name: &str,
        like: &str,
        (replicas, min_ready_seconds): (i32, i32),
        now: Now,
    ) -> Result<(), ApiError> {
        let spec = json!({"spec": {"minReadySeconds": min_ready_seconds}});
        let mut object = with(replica_set(name, like, replicas), spec);
        if self == WorkloadKind::ReplicationController {
            object["spec"]["selector"] = json!({"app": like});
        }
        let own = "an object of our own making";
        let object: AnyObject = match self {
            WorkloadKind::ReplicaSet => Arc::new(ReplicaSet::from_json(object).expect(own)),
            WorkloadKind::ReplicationController => {
                Arc::new(ReplicationController::from_json(object).expect(own))
            }
        };
        cluster.api(self.kind()).create(object, now).map(drop)
    }

    /// The one of that name, as its controller sees it.
    pub(super) fn get(self, cluster: &Cluster, name: &str) -> Result<Arc<ReplicaSet>, ApiError> {
        let found = cluster.api(self.kind()).get(NAMESPACE, name)?;
        Ok(as_replica_set(&found).expect("both are seen as ReplicaSets"))
    }

    /// Every one that there is, as its controller sees it.
    pub(super) fn list(self, cluster: &Cluster) -> Vec<Arc<ReplicaSet>> {
        match self {
            WorkloadKind::ReplicaSet => cluster.list::<ReplicaSet>(None).0,
            WorkloadKind::ReplicationController => {
                let (controllers, _) = cluster.list::<ReplicationController>(None);
                let seen = controllers.iter().map(|it| Arc::new(it.to_replica_set()));
                seen.collect()
            }
        }
    }
}

/// A planned ReplicaSet, or a ReplicationController.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedReplicaSet {
    /// What it is; absent for a ReplicaSet.
    #[serde(default, skip_serializing_if = "WorkloadKind::is_usual")]
    pub kind: WorkloadKind,
    /// Its name.
    pub name: String,
    /// How many replicas.
    pub replicas: i32,
    /// `minReadySeconds`.
    #[serde(default)]
    pub min_ready_seconds: i32,
}

/// Every ReplicaSet and ReplicationController that there is.
pub(super) fn all(cluster: &Cluster) -> Vec<Arc<ReplicaSet>> {
    let kinds = WorkloadKind::ALL.into_iter();
    kinds.flat_map(|kind| kind.list(cluster)).collect()
}

/// The members of a patch.
pub(super) fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        other => panic!("a patch is an object, not {other}"),
    }
}

/// The pods of a ReplicaSet as the server has them: owned, and matched by its selector.
pub(super) fn owned_by<'a>(
    set: &'a ReplicaSet,
    pods: &'a [Arc<Pod>],
) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(|pod| {
        pod.metadata.namespace == set.metadata.namespace
            && pod
                .metadata
                .controller()
                .is_some_and(|owner| owner.uid == set.metadata.uid)
    })
}
