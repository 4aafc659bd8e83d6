//! The objects that own pods: ReplicaSets and ReplicationControllers. The latter are converted to
//! ReplicaSets, as for their controller.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{AnyObject, Kind, ReplicaSet, ReplicationController, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::action::OwnerKind;
use crate::objects::{NAMESPACE, pod, with};
use crate::simulation::OwnerPlan;

/// The kind of an object in a schedule.
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
    /// Both kinds.
    pub const ALL: [WorkloadKind; 2] = [
        WorkloadKind::ReplicaSet,
        WorkloadKind::ReplicationController,
    ];

    /// Reports whether this is the default kind, which schedules omit.
    pub(crate) fn is_usual(&self) -> bool {
        *self == WorkloadKind::default()
    }

    /// Returns the variant for a kind of the API; `None` for any other kind.
    pub(super) fn from_kind(kind: Kind) -> Option<WorkloadKind> {
        WorkloadKind::ALL.into_iter().find(|it| it.kind() == kind)
    }

    /// Returns the kind in the form of an action; `None` for the default.
    pub(crate) fn in_action(self) -> Option<OwnerKind> {
        (!self.is_usual()).then_some(OwnerKind(self.kind()))
    }

    /// Returns the kind of the API.
    pub fn kind(self) -> Kind {
        match self {
            WorkloadKind::ReplicaSet => Kind::REPLICA_SET,
            WorkloadKind::ReplicationController => Kind::REPLICATION_CONTROLLER,
        }
    }

    /// Returns an object whose pods have the label `app: <app>`.
    pub(super) fn object(
        self,
        name: &str,
        like: &str,
        replicas: i32,
        min_ready_seconds: i32,
    ) -> AnyObject {
        let spec = json!({"spec": {"minReadySeconds": min_ready_seconds}});
        let mut object = with(replica_set(name, like, replicas), spec);
        if self == WorkloadKind::ReplicationController {
            object["spec"]["selector"] = json!({"app": like});
        }
        let own = "the object is valid";
        match self {
            WorkloadKind::ReplicaSet => Arc::new(ReplicaSet::from_json(object).expect(own)),
            WorkloadKind::ReplicationController => {
                Arc::new(ReplicationController::from_json(object).expect(own))
            }
        }
    }

    /// Returns every object of the kind; ReplicationControllers are converted to ReplicaSets, as
    /// for their controller.
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

/// A planned ReplicaSet or ReplicationController.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedReplicaSet {
    /// The kind of the object; a ReplicaSet if absent.
    #[serde(default, skip_serializing_if = "WorkloadKind::is_usual")]
    pub kind: WorkloadKind,
    /// The name of the object.
    pub name: String,
    /// The number of replicas.
    pub replicas: i32,
    /// The object's `minReadySeconds`.
    #[serde(default)]
    pub min_ready_seconds: i32,
}

impl PlannedReplicaSet {
    /// Returns the plan of the object as an owner of pods.
    pub(super) fn plan(&self) -> OwnerPlan {
        let mut plan = OwnerPlan::new(self.kind.kind(), &self.name, self.replicas);
        plan.min_ready_seconds = self.min_ready_seconds;
        plan
    }
}

/// Returns every ReplicaSet and ReplicationController.
pub(super) fn all(cluster: &Cluster) -> Vec<Arc<ReplicaSet>> {
    let kinds = WorkloadKind::ALL.into_iter();
    kinds.flat_map(|kind| kind.list(cluster)).collect()
}

/// Returns a ReplicaSet whose selector and template have the label `app: <app>`.
pub fn replica_set(name: &str, app: &str, replicas: i32) -> Value {
    let labels = json!({"app": app});
    let mut template = pod("", app);
    template["metadata"] = json!({"labels": labels});
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    })
}
