//! The ReplicationController workload, whose objects come only from files.

use std::sync::Arc;

use podstorm::client::{ApiError, Cause};
use podstorm_apiserver::Cluster;
use podstorm_apiserver::defaulting::default_replication_controller;
use podstorm_apiserver::validation::validate_replication_controller;
use podstorm_objects::{
    AnyObject, Kind, Labels, Now, Object, ObjectMeta, Pod, PodSpec, PodTemplate, ReplicaSetStatus,
    ReplicationController, Resource as _, Rest,
};

use super::super::explain::{Asked, Explanation};
use super::super::objects::{Objects, recreated};
use super::super::{Demand, Gates, LaboratoryWorkload, NameFlag, OwnsPods, Part};
use super::{explain, scale_to, settled_status};
use crate::input::{InputObject, ReadTyped, TypedOwner};

/// The ReplicationController workload.
#[derive(Debug)]
pub(in crate::workloads) struct ReplicationControllers;

impl LaboratoryWorkload for ReplicationControllers {
    fn kind(&self) -> Kind {
        Kind::REPLICATION_CONTROLLER
    }

    fn typed(&self) -> Option<ReadTyped> {
        Some(|value| {
            Ok(InputObject::Owner(Box::new(ReplicationController::read(
                value,
            )?)))
        })
    }

    fn is_generated(&self) -> bool {
        false
    }

    fn make(&self, _part: Part, _objects: &Objects) -> Option<AnyObject> {
        None
    }

    fn scale(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        replicas: i32,
        now: Now,
    ) -> Result<ObjectMeta, ApiError> {
        let update = scale_to(replicas);
        let scaled =
            cluster.update_scale::<ReplicationController>(namespace, name, &update, now)?;
        Ok(scaled.metadata.clone())
    }

    fn name_flag(&self) -> NameFlag {
        NameFlag {
            name: "replicationcontroller",
            help: "A ReplicationController instead of a ReplicaSet",
        }
    }

    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>> {
        explain::of_owner(self.kind(), name, asked)
    }

    fn pods(&self) -> Option<&dyn OwnsPods> {
        Some(self)
    }
}

/// Defaulting and validation have no shortcut for a pod spec that is already known.
impl TypedOwner for ReplicationController {
    fn copied(&self) -> Box<dyn TypedOwner> {
        Box::new(self.clone())
    }

    fn template(&self) -> Option<&Arc<PodTemplate>> {
        self.template.as_ref()
    }

    fn spec_rest(&self) -> &Rest {
        &self.spec_rest
    }

    fn set_defaults(&mut self, _filled: Option<&Arc<PodSpec>>) {
        default_replication_controller(self);
    }

    fn broken_rules(&self, _spec_is_checked: bool) -> Vec<Cause> {
        validate_replication_controller(self)
    }
}

impl OwnsPods for ReplicationControllers {
    fn demand(&self, object: &dyn Object) -> Option<Demand> {
        let rc = object.downcast_ref::<ReplicationController>()?;
        Some(Demand {
            replicas: rc.replicas.unwrap_or(1),
            status: (&rc.status).into(),
        })
    }

    fn selected_labels(&self, object: &dyn Object) -> Option<Labels> {
        let rc = object.downcast_ref::<ReplicationController>()?;
        Some(rc.selector.clone())
    }

    fn pod(&self, _number: u64, _owner: Option<&ObjectMeta>, _objects: &Objects) -> Option<Pod> {
        None
    }

    fn recreated(&self, object: &dyn Object) -> Option<AnyObject> {
        let old = object.downcast_ref::<ReplicationController>()?;
        Some(Arc::new(ReplicationController {
            metadata: recreated(&old.metadata),
            status: ReplicaSetStatus::default(),
            ..old.clone()
        }))
    }

    fn settled(&self, object: &dyn Object, _gates: &Gates) -> Option<AnyObject> {
        let mut rc = object.downcast_ref::<ReplicationController>()?.clone();
        rc.status = settled_status(rc.replicas.unwrap_or(1), rc.metadata.generation);
        Some(Arc::new(rc))
    }
}
