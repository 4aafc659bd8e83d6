//! What users do to Deployments, their ReplicaSets and pods.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::deployment::annotations::ROLLBACK_TO;
use podstorm_apiserver::{Cluster, DeleteOptions, Patch};
use podstorm_objects::{Deployment, DynamicObject, Kind, Now, ReplicaSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::action::{Action, Death, Dependents};
use super::super::objects::NAMESPACE;
use super::super::schedule as sets;
use super::super::simulation::Simulation;
use super::super::workloads::members;
use super::schedule::{PlannedDeployment, Step};

/// Templates of this number and above can't run: they ask for a scheduler that is not there.
pub const BAD_TEMPLATES: u32 = 10;

/// `spec.strategy`. Amounts are numbers or percentages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// All old pods end before new ones begin.
    Recreate,
    /// Step by step.
    Rolling {
        /// `maxSurge`.
        surge: String,
        /// `maxUnavailable`.
        unavailable: String,
    },
}

/// One action. `nth` counts the ReplicaSets of the Deployment, oldest first, and begins again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum UserAction {
    /// Sets the number of replicas.
    Scale(String, i32),
    /// Sets the template, by its number.
    Template(String, u32),
    /// Pauses, or resumes.
    Pause(String, bool),
    /// Sets the strategy.
    Strategy(String, Strategy),
    /// Sets `minReadySeconds`.
    MinReady(String, i32),
    /// Sets `revisionHistoryLimit`.
    History(String, i32),
    /// Changes an annotation.
    Touch(String),
    /// Asks by annotation for the template of a revision; 0 is the one before.
    RollBack(String, u32),
    /// Deletes it.
    Delete(String, Dependents),
    /// Creates it, if it isn't there.
    Create(String),
    /// Sets the size of a ReplicaSet.
    SizeSet {
        /// Whose.
        deployment: String,
        /// Which.
        nth: u32,
        /// To how many.
        replicas: i32,
    },
    /// Gives a ReplicaSet the containers of another template, by its number.
    EditSet {
        /// Whose.
        deployment: String,
        /// Which.
        nth: u32,
        /// To which.
        template: u32,
    },
    /// Takes a ReplicaSet's label away, by which its Deployment selects it, or gives it back to all that
    /// have lost theirs.
    RelabelSet {
        /// Whose.
        deployment: String,
        /// Which; absent: all that have lost theirs get it back.
        nth: Option<u32>,
    },
    /// Deletes a ReplicaSet.
    DeleteSet {
        /// Whose.
        deployment: String,
        /// Which.
        nth: u32,
        /// What becomes of its pods.
        propagation: Dependents,
    },
    /// Pods of a ReplicaSet go.
    Kill {
        /// Whose.
        deployment: String,
        /// Of which ReplicaSet.
        nth: u32,
        /// How many, 1 to 100.
        percent: u32,
        /// How.
        how: Death,
    },
    /// Pods of a ReplicaSet are not ready for a moment.
    Flap {
        /// Whose.
        deployment: String,
        /// Of which ReplicaSet.
        nth: u32,
        /// How many, 1 to 100.
        percent: u32,
    },
}

impl UserAction {
    /// The name of the Deployment that it is about.
    pub(super) fn deployment(&self) -> &str {
        use UserAction::*;
        match self {
            Scale(name, _) | Template(name, _) | Pause(name, _) | Strategy(name, _) => name,
            MinReady(name, _) | History(name, _) | Touch(name) | RollBack(name, _) => name,
            Delete(name, _) | Create(name) => name,
            SizeSet { deployment, .. } | EditSet { deployment, .. } => deployment,
            RelabelSet { deployment, .. } | DeleteSet { deployment, .. } => deployment,
            Kill { deployment, .. } | Flap { deployment, .. } => deployment,
        }
    }
}

fn amount(text: &str) -> Value {
    text.parse::<i32>()
        .map_or_else(|_| json!(text), Value::from)
}

impl Strategy {
    /// As a user writes it.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Strategy::Recreate => json!({"type": "Recreate", "rollingUpdate": null}),
            Strategy::Rolling { surge, unavailable } => json!({"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": amount(surge), "maxUnavailable": amount(unavailable)}}),
        }
    }
}

fn containers(number: u32) -> Value {
    json!([{"name": "app", "image": format!("app:{number}")}])
}

/// `spec.template` of that number.
fn template(app: &str, number: u32) -> Value {
    let scheduler = (number >= BAD_TEMPLATES).then_some("nobody");
    let mut template = json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": containers(number)},
    });
    if let Some(scheduler) = scheduler {
        template["spec"]["schedulerName"] = json!(scheduler);
    }
    template
}

/// The same, to be merged into another one: a merge leaves what it does not name, a scheduler from before.
fn other_template(app: &str, number: u32) -> Value {
    let mut template = template(app, number);
    if number < BAD_TEMPLATES {
        template["spec"]["schedulerName"] = Value::Null;
    }
    template
}

/// Every Deployment of the namespace, by name.
pub(super) fn deployments(cluster: &Cluster) -> Vec<Arc<Deployment>> {
    let page = cluster.api(Kind::DEPLOYMENT).list(&Default::default());
    let items = page.expect("every cluster serves Deployments").items;
    items.iter().filter_map(Deployment::of).collect()
}

/// The ReplicaSets that a Deployment controls, oldest first.
pub(super) fn sets_of(cluster: &Cluster, deployment: &Deployment) -> Vec<Arc<ReplicaSet>> {
    let (sets, _) = cluster.list::<ReplicaSet>(Some(NAMESPACE));
    let uid = &deployment.metadata.uid;
    let is_own = |set: &Arc<ReplicaSet>| {
        let owner = set.metadata.controller();
        owner.is_some_and(|owner| owner.uid == *uid)
    };
    let mut own: Vec<Arc<ReplicaSet>> = sets.into_iter().filter(is_own).collect();
    own.sort_by(|a, b| podstorm::deployment::find_new::by_creation(a, b));
    own
}

/// Users, and the Deployments that they know.
#[derive(Debug)]
pub(super) struct Users<'a> {
    pub(super) planned: &'a [PlannedDeployment],
    touches: u64,
}

impl Users<'_> {
    pub(super) fn new(planned: &[PlannedDeployment]) -> Users<'_> {
        Users {
            planned,
            touches: 0,
        }
    }

    /// Carries a user's step out; what the server refuses does not happen.
    pub(super) fn act(&mut self, simulation: &mut Simulation, action: &UserAction) {
        use UserAction::*;
        let spec = |spec: Value| json!({"spec": spec});
        let (name, patch) = match action {
            Scale(name, replicas) => (name, spec(json!({"replicas": replicas}))),
            Template(name, number) => {
                let template = other_template(self.app(name), *number);
                (name, spec(json!({"template": template})))
            }
            Pause(name, paused) => (name, spec(json!({"paused": paused}))),
            Strategy(name, strategy) => (name, spec(json!({"strategy": strategy.to_json()}))),
            MinReady(name, seconds) => (name, spec(json!({"minReadySeconds": seconds}))),
            History(name, limit) => (name, spec(json!({"revisionHistoryLimit": limit}))),
            Touch(name) => {
                self.touches += 1;
                let touched = json!({"podstorm.example/touched": self.touches.to_string()});
                (name, json!({"metadata": {"annotations": touched}}))
            }
            RollBack(name, to) => {
                let wish = json!({ROLLBACK_TO: to.to_string()});
                (name, json!({"metadata": {"annotations": wish}}))
            }
            other => return self.act_on_objects(simulation, other),
        };
        let (cluster, now) = (simulation.harness.cluster(), simulation.harness.now());
        let patch = Patch::Merge(members(patch));
        let patched = cluster
            .api(Kind::DEPLOYMENT)
            .patch(NAMESPACE, name, &patch, now);
        simulation.written(patched);
    }

    fn act_on_objects(&mut self, simulation: &mut Simulation, action: &UserAction) {
        use UserAction::*;
        match action {
            Delete(name, propagation) => {
                let options = DeleteOptions {
                    propagation: Some(propagation.policy()),
                    ..DeleteOptions::default()
                };
                let (cluster, now) = (simulation.harness.cluster(), simulation.harness.now());
                let deleted = cluster
                    .api(Kind::DEPLOYMENT)
                    .delete(NAMESPACE, name, &options, now);
                simulation.written(deleted);
            }
            Create(name) => {
                let (cluster, now) = (simulation.harness.cluster(), simulation.harness.now());
                let created = self.create(cluster, name, now);
                simulation.written(created);
            }
            RelabelSet {
                deployment,
                nth: None,
            } => {
                let app = self.app(deployment);
                let (sets, _) = simulation
                    .harness
                    .cluster()
                    .list::<ReplicaSet>(Some(NAMESPACE));
                let is_lost = |set: &&Arc<ReplicaSet>| {
                    let lost = set.metadata.labels.get(LOST);
                    lost.is_some_and(|lost| **lost == *app)
                };
                for set in sets.iter().filter(is_lost) {
                    simulation.patch_set(&set.metadata.name, labels(json!(app), json!(null)));
                }
            }
            SizeSet { nth, .. }
            | EditSet { nth, .. }
            | RelabelSet { nth: Some(nth), .. }
            | DeleteSet { nth, .. }
            | Kill { nth, .. }
            | Flap { nth, .. } => {
                if let Some(set) = nth_set(simulation, action.deployment(), *nth) {
                    self.act_on_set(simulation, &set.metadata.name, action);
                }
            }
            other => unreachable!("{other:?} is a patch of the Deployment"),
        }
    }

    fn act_on_set(&self, simulation: &mut Simulation, name: &str, action: &UserAction) {
        use UserAction::*;
        let replica_set = name.to_owned();
        match *action {
            SizeSet { replicas, .. } => {
                simulation.patch_set(name, json!({"spec": {"replicas": replicas}}));
            }
            EditSet { template, .. } => {
                let template = json!({"spec": {"containers": containers(template)}});
                simulation.patch_set(name, json!({"spec": {"template": template}}));
            }
            DeleteSet { propagation, .. } => simulation.delete_set(name, propagation.policy()),
            Kill { percent, how, .. } => {
                let kill = Action::Kill {
                    replica_set,
                    percent,
                    how,
                };
                simulation.act(&sets::Step::of_user(0, kill));
            }
            Flap { percent, .. } => {
                let flap = Action::Flap {
                    replica_set,
                    percent,
                };
                simulation.act(&sets::Step::of_user(0, flap));
            }
            _ => {
                let app = self.app(action.deployment());
                simulation.patch_set(name, labels(json!(null), json!(app)));
            }
        }
    }

    /// The value of the label by which a Deployment selects.
    fn app<'b>(&'b self, name: &'b str) -> &'b str {
        let of_name = self.planned.iter().find(|it| it.name == name);
        of_name.map_or(name, |it| &it.app)
    }

    /// Creates a planned Deployment.
    pub(super) fn create(&self, cluster: &Cluster, name: &str, now: Now) -> Result<(), ApiError> {
        let of_name = self.planned.iter().find(|it| it.name == name);
        let Some(it) = of_name else { return Ok(()) };
        let object = json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": it.app}},
            "spec": {
                "replicas": it.replicas,
                "selector": {"matchLabels": {"app": it.app}},
                "template": template(&it.app, 0),
                "strategy": it.strategy.to_json(),
                "minReadySeconds": it.min_ready_seconds,
                "progressDeadlineSeconds": it.progress_deadline_seconds,
                "revisionHistoryLimit": it.revision_history_limit,
            },
        });
        let object = DynamicObject::from_json(Kind::DEPLOYMENT, object);
        let object = Arc::new(object.expect("a Deployment of our own making"));
        cluster.api(Kind::DEPLOYMENT).create(object, now).map(drop)
    }
}

fn of_name(cluster: &Cluster, name: &str) -> Option<Arc<Deployment>> {
    let found = cluster.api(Kind::DEPLOYMENT).get(NAMESPACE, name).ok()?;
    Deployment::of(&found)
}

fn nth_set(simulation: &Simulation, name: &str, nth: u32) -> Option<Arc<ReplicaSet>> {
    let cluster = simulation.harness.cluster();
    let mut sets = sets_of(cluster, &*of_name(cluster, name)?);
    let at = nth as usize % sets.len().max(1);
    (at < sets.len()).then(|| sets.swap_remove(at))
}

/// The label of a ReplicaSet that was relabelled.
const LOST: &str = "lost-app";

fn labels(app: Value, lost: Value) -> Value {
    json!({"metadata": {"labels": {"app": app, LOST: lost}}})
}

/// What a step says, for a person.
pub(super) fn describe(step: &Step) -> String {
    format!("{:?}", step.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_can_run_takes_the_scheduler_of_one_that_can_not_away() {
        let whole = other_template("web", 1);
        assert_eq!(whole["spec"].get("schedulerName"), Some(&Value::Null));
        assert_eq!(whole["spec"]["containers"][0]["image"], "app:1");
        let bad = other_template("web", BAD_TEMPLATES);
        assert_eq!(bad["spec"]["schedulerName"], "nobody");
    }
}
