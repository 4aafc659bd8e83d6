//! The Deployment workload.

mod explain;
mod input;

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::deployment::rollout::rollout_status;
use podstorm_objects::{
    AnyObject, Deployment, DeploymentSpec, DeploymentStrategy, Kind, LabelSelector, Labels, Object,
    ObjectMeta, RollingUpdate, Str,
};
use serde_json::{Value, json};

use super::explain::{Asked, Explanation};
use super::flags::{Flag, FlagValues, Form};
use super::objects::Objects;
use super::{Findings, LaboratoryWorkload, Limits, Makes, NameFlag, Part, Progress, RollsOut};
use crate::input::InputObject;
use crate::owned_pods::PodsByOwner;
use crate::values::Limit;

static FLAGS: [Flag; 4] = [
    Flag {
        name: "deployments",
        form: Form::Switch,
        help: "Create real Deployments instead of ReplicaSets that belong to Deployments (scenario rollout-storm)",
    },
    Flag {
        name: "max-surge",
        form: Form::Limit(Limit::QUARTER),
        help: "maxSurge of the generated Deployments: 25%, or 1 for a number of pods [default: 25%, unless \
            the scenario sets another]",
    },
    Flag {
        name: "max-unavailable",
        form: Form::Limit(Limit::QUARTER),
        help: "maxUnavailable of the generated Deployments, in the same syntax [default: 25%, unless the scenario \
            sets another]",
    },
    Flag {
        name: "progress-deadline",
        form: Form::Seconds(600),
        help: "progressDeadlineSeconds of the generated Deployments, with a unit [default: 10m]",
    },
];

static REAL: &Flag = &FLAGS[0];
static MAX_SURGE: &Flag = &FLAGS[1];
static MAX_UNAVAILABLE: &Flag = &FLAGS[2];
static PROGRESS_DEADLINE: &Flag = &FLAGS[3];

/// The Deployment workload. The pods belong to the ReplicaSets that Deployments create.
#[derive(Debug)]
pub(super) struct Deployments;

impl LaboratoryWorkload for Deployments {
    fn kind(&self) -> Kind {
        Kind::DEPLOYMENT
    }

    fn flags(&self) -> &'static [Flag] {
        &FLAGS
    }

    fn makes(&self) -> Option<Makes> {
        Some(Makes {
            kind: Kind::REPLICA_SET,
            switch: REAL,
        })
    }

    fn check_flags(&self, values: &FlagValues, min_ready_seconds: i32) -> Result<(), String> {
        let (surge, unavailable) = (MAX_SURGE.limit(values), MAX_UNAVAILABLE.limit(values));
        if surge.is_zero() && unavailable.is_zero() {
            return Err(
                "--max-surge and --max-unavailable can't both be 0: no pod could be replaced"
                    .to_owned(),
            );
        }
        if matches!(unavailable, Limit::Share(share) if share.0 > 1.0) {
            return Err(
                "--max-unavailable is at most 100%: no more pods than exist can be missing"
                    .to_owned(),
            );
        }
        if PROGRESS_DEADLINE.seconds(values) <= min_ready_seconds {
            return Err("--progress-deadline must be more than --min-ready-seconds".to_owned());
        }
        Ok(())
    }

    /// Returns the Deployment as a user would write it.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject> {
        let values = &objects.values;
        let name = format_compact!("deploy-{:05}", part.number);
        let labels = Labels::from_pairs([("app", name.as_str())]);
        let deployment = Deployment {
            metadata: ObjectMeta {
                name,
                namespace: Str::clone(objects.namespace_of(part.number)),
                labels: labels.clone(),
                ..ObjectMeta::default()
            },
            spec: DeploymentSpec {
                replicas: Some(part.replicas),
                selector: Some(Arc::new(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Arc::default(),
                })),
                template: objects.template(&labels),
                strategy: DeploymentStrategy {
                    kind: "RollingUpdate".into(),
                    rolling_update: Some(RollingUpdate {
                        max_surge: Some(MAX_SURGE.limit(values).int_or_string()),
                        max_unavailable: Some(MAX_UNAVAILABLE.limit(values).int_or_string()),
                        ..RollingUpdate::default()
                    }),
                    ..DeploymentStrategy::default()
                },
                min_ready_seconds: objects.min_ready_seconds,
                progress_deadline_seconds: Some(PROGRESS_DEADLINE.seconds(values)),
                ..DeploymentSpec::default()
            },
            ..Deployment::default()
        };
        Some(Arc::new(deployment.to_untyped()))
    }

    fn name_flag(&self) -> NameFlag {
        NameFlag {
            name: "deployment",
            help: "A Deployment: its next syncs, if the input contains it and --replicas is not set; otherwise \
                the pods of its newest ReplicaSet that are deleted",
        }
    }

    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>> {
        explain::answer(name, asked)
    }

    fn rollouts(&self) -> Option<&dyn RollsOut> {
        Some(self)
    }
}

impl RollsOut for Deployments {
    fn progress(&self, object: &dyn Object) -> Option<Progress> {
        let deployment = Deployment::of_untyped(object)?;
        let (spec, status) = (&deployment.spec, &deployment.status);
        let (is_complete, is_over) = match rollout_status(&deployment, 0) {
            Ok(rollout) => {
                let is_exact = status.updated_replicas == deployment.replicas();
                (rollout.done && is_exact, rollout.done && is_exact)
            }
            Err(_) => (false, true),
        };
        Some(Progress {
            replicas: deployment.replicas(),
            is_complete,
            is_over,
            is_observed: status.observed_generation == deployment.metadata.generation,
            is_paused: spec.paused,
        })
    }

    fn set_limits(&self, spec: &mut Value, limits: Limits) {
        spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": limits.max_surge.to_json(),
            "maxUnavailable": limits.max_unavailable.to_json(),
        }});
    }

    fn examine(&self, objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings) {
        input::examine(objects, owned, found);
    }
}
