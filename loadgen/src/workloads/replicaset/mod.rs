//! The workloads ReplicaSet and ReplicationController, which share the code of their controller.

pub(super) mod explain;
mod replication_controller;
mod successor;

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::client::{ApiError, Cause};
use podstorm::replicaset::TERMINATING_REPLICAS;
use podstorm_apiserver::defaulting::{default_replica_set, default_replicas};
use podstorm_apiserver::validation::{validate_replica_set, validate_replica_set_except_pod_spec};
use podstorm_apiserver::{Cluster, ScaleUpdate};
use podstorm_objects::{
    AnyObject, Kind, LabelSelector, Labels, Now, Object, ObjectMeta, OwnerReference, Pod, PodSpec,
    PodTemplate, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Resource as _, Rest, Sharer, Str,
};

pub(super) use replication_controller::ReplicationControllers;

use super::explain::{Asked, Explanation};
use super::flags::{Flag, Form};
use super::objects::{Objects, recreated};
use super::{Demand, Gates, LaboratoryWorkload, NameFlag, OwnsPods, Part};
use crate::input::{InputObject, ReadTyped, TypedOwner};
use crate::units::counted;

/// The ReplicaSet workload. Every run has ReplicaSets, because other workloads create them.
#[derive(Debug)]
pub(super) struct ReplicaSets;

/// The flags for the number and the size of generated ReplicaSets.
static FLAGS: [Flag; 2] = [
    Flag {
        name: "replicasets",
        form: Form::Size,
        help: "ReplicaSets; the pods are divided over them evenly [default: pods/50]",
    },
    Flag {
        name: "pods-per-replicaset",
        form: Form::Size,
        help: "Pods of each ReplicaSet; any two of this, --pods and --replicasets determine the third",
    },
];

/// Returns the name of ReplicaSet `number`, which is also the value of its pods' label.
fn app(number: u64) -> compact_str::CompactString {
    format_compact!("rs-{number:05}")
}

impl LaboratoryWorkload for ReplicaSets {
    fn kind(&self) -> Kind {
        Kind::REPLICA_SET
    }

    fn typed(&self) -> Option<ReadTyped> {
        Some(|value| Ok(InputObject::Owner(Box::new(ReplicaSet::read(value)?))))
    }

    fn is_in_every_run(&self) -> bool {
        true
    }

    fn flags(&self) -> &'static [Flag] {
        &FLAGS
    }

    /// Returns a generated ReplicaSet. One that belongs to a Deployment selects only the pods of
    /// its own revision.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject> {
        let app = app(part.number);
        let hash = format_compact!("r{}", part.revision);
        let name = match part.revision {
            0 => app.clone(),
            _ => format_compact!("{app}-{hash}"),
        };
        let labels = match part.is_owned {
            false => Labels::from_pairs([("app", app.as_str())]),
            true => {
                let pairs = [("app", app.as_str()), (successor::HASH_LABEL, &*hash)];
                Labels::from_pairs(pairs)
            }
        };
        let owner = part.is_owned.then(|| {
            let (number, name) = (part.number, format_compact!("deploy-{:05}", part.number));
            Arc::new(OwnerReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                uid: format_compact!("00000000-0000-4000-8000-{number:012x}")
                    .as_str()
                    .into(),
                name: name.as_str().into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        Some(Arc::new(ReplicaSet {
            metadata: ObjectMeta {
                name,
                namespace: Str::clone(objects.namespace_of(part.number)),
                labels: labels.clone(),
                owner_references: owner.into_iter().collect(),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                replicas: Some(part.replicas),
                min_ready_seconds: objects.min_ready_seconds,
                selector: Some(Arc::new(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Arc::default(),
                })),
                template: objects.template(&labels),
                rest: Rest::NONE,
            },
            ..ReplicaSet::default()
        }))
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
        let scaled = cluster.update_scale::<ReplicaSet>(namespace, name, &update, now)?;
        Ok(scaled.metadata.clone())
    }

    fn older(&self, objects: &[InputObject], gates: &Gates) -> Option<String> {
        let is_older = |object: &&InputObject| {
            let set = object.as_object().downcast_ref::<ReplicaSet>();
            set.is_some_and(|set| set.status.terminating_replicas.is_none())
        };
        let count = objects.iter().filter(is_older).count() as u64;
        (count > 0 && TERMINATING_REPLICAS.is_on(gates)).then(|| {
            format!(
                "{} without status.terminatingReplicas, as before Kubernetes 1.36: the controller will \
                 write each status once",
                counted(count, self.kind().name())
            )
        })
    }

    fn name_flag(&self) -> NameFlag {
        NameFlag {
            name: "replicaset",
            help: "The ReplicaSet, as NAMESPACE/NAME, or NAME if it is unique",
        }
    }

    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>> {
        explain::of_owner(self.kind(), name, asked)
    }

    fn pods(&self) -> Option<&dyn OwnsPods> {
        Some(self)
    }
}

impl TypedOwner for ReplicaSet {
    fn copied(&self) -> Box<dyn TypedOwner> {
        Box::new(self.clone())
    }

    fn template(&self) -> Option<&Arc<PodTemplate>> {
        Some(&self.spec.template)
    }

    fn spec_rest(&self) -> &Rest {
        &self.spec.rest
    }

    fn set_defaults(&mut self, filled: Option<&Arc<PodSpec>>) {
        match filled {
            Some(filled) => {
                default_replicas(self);
                Arc::make_mut(&mut self.spec.template).spec = Arc::clone(filled);
            }
            None => default_replica_set(self),
        }
    }

    fn broken_rules(&self, spec_is_checked: bool) -> Vec<Cause> {
        match spec_is_checked {
            true => validate_replica_set_except_pod_spec(self),
            false => validate_replica_set(self),
        }
    }

    fn share(&mut self, sharer: &mut Sharer) {
        sharer.share_replica_set(self);
    }
}

impl OwnsPods for ReplicaSets {
    fn demand(&self, object: &dyn Object) -> Option<Demand> {
        let set = object.downcast_ref::<ReplicaSet>()?;
        Some(Demand {
            replicas: set.replicas(),
            status: (&set.status).into(),
        })
    }

    fn selected_labels(&self, object: &dyn Object) -> Option<Labels> {
        let set = object.downcast_ref::<ReplicaSet>()?;
        let selector = set.spec.selector.as_ref();
        Some(selector.map_or_else(Labels::default, |selector| selector.match_labels.clone()))
    }

    fn pod(&self, number: u64, owner: Option<&ObjectMeta>, objects: &Objects) -> Option<Pod> {
        let app = app(number);
        let labels = Labels::from_pairs([("app", app.as_str())]);
        let template = objects.template(&labels);
        let owner = owner.map(|owner| {
            Arc::new(OwnerReference {
                api_version: self.kind().api_version().into(),
                kind: self.kind().name().into(),
                name: owner.name.as_str().into(),
                uid: owner.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        Some(Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{app}-").into()),
                owner_references: owner.into_iter().collect(),
                ..template.metadata.clone()
            },
            spec: Arc::clone(&template.spec),
            ..Pod::default()
        })
    }

    fn recreated(&self, object: &dyn Object) -> Option<AnyObject> {
        let old = object.downcast_ref::<ReplicaSet>()?;
        Some(Arc::new(ReplicaSet {
            metadata: recreated(&old.metadata),
            spec: old.spec.clone(),
            ..ReplicaSet::default()
        }))
    }

    fn settled(&self, object: &dyn Object, gates: &Gates) -> Option<AnyObject> {
        let mut set = object.downcast_ref::<ReplicaSet>()?.clone();
        set.status = ReplicaSetStatus {
            terminating_replicas: TERMINATING_REPLICAS.is_on(gates).then_some(0),
            ..settled_status(set.replicas(), set.metadata.generation)
        };
        Some(Arc::new(set))
    }

    fn has_successors(&self) -> bool {
        true
    }

    fn successor(&self, object: &dyn Object, revision: u32) -> Option<AnyObject> {
        let old = object.downcast_ref::<ReplicaSet>()?;
        Some(Arc::new(successor::successor(old, revision)))
    }
}

/// Returns an unconditional change of the number of pods.
fn scale_to(replicas: i32) -> ScaleUpdate {
    ScaleUpdate {
        replicas,
        ..ScaleUpdate::default()
    }
}

/// Returns the status of an owner all of whose pods exist and are available.
fn settled_status(replicas: i32, generation: i64) -> ReplicaSetStatus {
    ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        observed_generation: generation,
        ..ReplicaSetStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn replica_sets_match_their_pods_and_share_one_spec() {
        let settings = Settings::of_flags("--pods 4 --replicasets 2 --namespaces 2", 1).unwrap();
        let objects = settings.objects();
        let [a, b] = [0, 1].map(|number| {
            let part = Part {
                number,
                replicas: 2,
                revision: 0,
                is_owned: false,
            };
            let made = ReplicaSets.make(part, &objects).unwrap();
            made.downcast::<ReplicaSet>().unwrap()
        });
        assert_eq!(a.metadata.name, "rs-00000");
        assert_eq!(&*b.metadata.namespace, "load-001");
        let pod = ReplicaSets.pod(0, Some(&a.metadata), &objects).unwrap();
        let selector = a.spec.selector.as_ref().expect("a selector is set");
        assert!(pod.metadata.labels.contains_all(&selector.match_labels));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &b.spec.template.spec));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &pod.spec));
        let owner = pod.metadata.controller().map(|owner| &*owner.name);
        assert_eq!(owner, Some("rs-00000"));
    }
}
