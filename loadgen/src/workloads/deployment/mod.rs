//! Deployments.

mod explain;
mod input;

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::client::ApiError;
use podstorm::deployment::rollout::rollout_status;
use podstorm_apiserver::Cluster;
use podstorm_objects::{
    AnyObject, Deployment, DeploymentSpec, DeploymentStrategy, IntOrString, Kind, LabelSelector,
    Labels, Now, Object, ObjectMeta, RollingUpdate, Str,
};
use serde_json::{Value, json};

use super::explain::{Asked, Explanation};
use super::objects::{Objects, change_spec};
use super::{Findings, LaboratoryWorkload, Part, Progress, RollsOut};
use crate::input::InputObject;
use crate::owned_pods::PodsByOwner;
use crate::scenario::{RollOut, Scenario};
use crate::settings::Settings;
use crate::size::InputSize;
use crate::values::Limit;

/// Deployments. Their pods belong to the ReplicaSets that they make.
#[derive(Debug)]
pub(super) struct Deployments;

impl LaboratoryWorkload for Deployments {
    fn kind(&self) -> Kind {
        Kind::DEPLOYMENT
    }

    fn is_generated(&self, settings: &Settings) -> bool {
        settings.creates_deployments()
    }

    /// As a user writes it.
    fn make(&self, part: Part, objects: &Objects, settings: &Settings) -> Option<AnyObject> {
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
                        max_surge: Some(settings.max_surge.int_or_string()),
                        max_unavailable: Some(settings.max_unavailable.int_or_string()),
                        ..RollingUpdate::default()
                    }),
                    ..DeploymentStrategy::default()
                },
                min_ready_seconds: settings.min_ready_seconds,
                progress_deadline_seconds: Some(settings.progress_deadline_seconds),
                ..DeploymentSpec::default()
            },
            ..Deployment::default()
        };
        Some(Arc::new(deployment.to_untyped()))
    }

    fn scale(
        &self,
        cluster: &Cluster,
        at: (&str, &str),
        replicas: i32,
        now: Now,
    ) -> Result<ObjectMeta, ApiError> {
        let set = |spec: &mut Value| spec["replicas"] = replicas.into();
        change_spec(&cluster.api(self.kind()), at, set, now)
    }

    fn count(&self, size: &mut InputSize) {
        size.deployments += 1;
    }

    fn check_input(&self, scenario: &Scenario, input: &InputSize) -> Result<(), String> {
        // Nothing is known before the files are read.
        let is_known = input.owners + input.pods + input.nodes > 0;
        if scenario.sets_images() && is_known && input.deployments == 0 {
            return Err(format!(
                "the scenario {} gives Deployments new images, and the files have none: dump them too, \
                 with kubectl get deploy,rs,rc,pods,nodes -A -o json, or roll ReplicaSets out by hand with \
                 --scenario rollout-storm",
                scenario.name
            ));
        }
        Ok(())
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

    fn set_limits(&self, spec: &mut Value, limits: &RollOut) {
        let limit = |limit: Limit| match limit.int_or_string() {
            IntOrString::Int(count) => json!(count),
            IntOrString::Text(text) => json!(&*text),
        };
        spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": limit(limits.max_surge),
            "maxUnavailable": limit(limits.max_unavailable),
        }});
    }

    fn examine(&self, objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings) {
        input::examine(objects, owned, found);
    }
}
