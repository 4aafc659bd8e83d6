//! User actions on Deployments, their ReplicaSets and pods.

use std::sync::Arc;

use podstorm::deployment::annotations::ROLLBACK_TO;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Deployment, DynamicObject, Kind, ReplicaSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{PlannedDeployment, ending};
use crate::action::{Action, Dependents, SubjectAction};
use crate::objects::{NAMESPACE, touched};
use crate::simulation::{Simulation, Users};

/// The lowest number of a template that can't run. Such templates request a scheduler that does not
/// exist.
pub const BAD_TEMPLATES: u32 = 10;

/// The `spec.strategy` of a Deployment. Amounts are numbers or percentages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// All old pods end before new ones are created.
    Recreate,
    /// A rolling update: pods are replaced step by step.
    Rolling {
        /// The value of `maxSurge`.
        surge: String,
        /// The value of `maxUnavailable`.
        unavailable: String,
    },
}

/// An action of a schedule. The first string is the name of the object. A ReplicaSet is named by
/// its index among those of its Deployment, the oldest first: `web/2` is the third ReplicaSet of
/// `web`; the index wraps around.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum UserAction {
    /// An action on the cluster, on ReplicaSets or on their pods.
    Cluster(Action),
    /// Sets the number of replicas of a Deployment.
    Scale(String, i32),
    /// Sets the template of a Deployment, by number.
    Template(String, u32),
    /// Pauses or resumes a Deployment.
    Pause(String, bool),
    /// Sets the strategy of a Deployment.
    Strategy(String, Strategy),
    /// Sets `minReadySeconds` of a Deployment.
    MinReady(String, i32),
    /// Sets `revisionHistoryLimit` of a Deployment.
    History(String, i32),
    /// Changes an annotation of a Deployment.
    Touch(String),
    /// Requests a rollback to the template of a revision, by annotation; 0 is the previous
    /// revision.
    RollBack(String, u32),
    /// Deletes a Deployment.
    Delete(String, Dependents),
    /// Creates a Deployment, if it doesn't exist.
    Create(String),
    /// Gives a ReplicaSet the containers of another template, by number.
    EditSet(String, u32),
    /// Removes from a ReplicaSet the label by which its Deployment selects it.
    LoseSet(String),
    /// Restores the label on all ReplicaSets of a Deployment that have lost theirs.
    FindSets(String),
}

impl From<Action> for UserAction {
    fn from(action: Action) -> UserAction {
        UserAction::Cluster(action)
    }
}

impl SubjectAction for UserAction {
    fn on_cluster(&self) -> Option<&Action> {
        match self {
            UserAction::Cluster(action) => Some(action),
            _ => None,
        }
    }

    fn target(&self) -> Option<&str> {
        use UserAction::*;
        match self {
            Cluster(action) => action.owner(),
            Scale(name, _) | Template(name, _) | Pause(name, _) | Strategy(name, _) => Some(name),
            MinReady(name, _) | History(name, _) | Touch(name) | RollBack(name, _) => Some(name),
            Delete(name, _) | Create(name) => Some(name),
            EditSet(name, _) | LoseSet(name) | FindSets(name) => Some(name),
        }
    }
}

fn amount(text: &str) -> Value {
    text.parse::<i32>()
        .map_or_else(|_| json!(text), Value::from)
}

impl Strategy {
    /// Returns the strategy as JSON, in the form that users write.
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

/// Returns `spec.template` for a template number.
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

/// Returns a template for a merge into another one. It also names the members that the merge must
/// remove, such as an earlier scheduler.
fn other_template(app: &str, number: u32) -> Value {
    let mut template = template(app, number);
    if number < BAD_TEMPLATES {
        template["spec"]["schedulerName"] = Value::Null;
    }
    template
}

/// Returns every Deployment of the namespace, in name order.
pub(super) fn deployments(cluster: &Cluster) -> Vec<Arc<Deployment>> {
    let page = cluster.api(Kind::DEPLOYMENT).list(&Default::default());
    let items = page.expect("every cluster serves Deployments").items;
    items.iter().filter_map(Deployment::from_object).collect()
}

/// Returns the ReplicaSets that a Deployment controls, oldest first.
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

/// The users of Deployments, with the Deployments that they know.
#[derive(Debug)]
pub struct DeploymentUsers {
    planned: Arc<[PlannedDeployment]>,
    touches: u64,
}

impl Users for DeploymentUsers {
    type Planned = PlannedDeployment;
    type Action = UserAction;

    fn new(planned: &[PlannedDeployment]) -> DeploymentUsers {
        DeploymentUsers {
            planned: planned.into(),
            touches: 0,
        }
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let planned = Arc::clone(&self.planned);
        simulation.create_with(move |simulation| {
            for deployment in &*planned {
                create(simulation, deployment);
            }
        });
    }

    fn act(&mut self, simulation: &mut Simulation, action: &UserAction) {
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
                (name, touched(self.touches))
            }
            RollBack(name, to) => {
                let wish = json!({ROLLBACK_TO: to.to_string()});
                (name, json!({"metadata": {"annotations": wish}}))
            }
            other => return self.act_on_objects(simulation, other),
        };
        simulation.patch_object(Kind::DEPLOYMENT, name, patch);
    }

    fn put_right(&mut self, simulation: &mut Simulation) {
        ending::put_right(simulation, self);
    }

    fn touch(&mut self, simulation: &mut Simulation) {
        ending::touch(simulation, self);
    }

    fn help(&mut self, simulation: &mut Simulation) -> bool {
        ending::help(simulation, self)
    }
}

impl DeploymentUsers {
    /// Returns the Deployments that the users know.
    pub(super) fn planned(&self) -> Arc<[PlannedDeployment]> {
        Arc::clone(&self.planned)
    }

    fn act_on_objects(&self, simulation: &mut Simulation, action: &UserAction) {
        use UserAction::*;
        match action {
            Delete(name, dependents) => {
                simulation.delete_object(Kind::DEPLOYMENT, name, *dependents);
            }
            Create(name) => {
                if let Some(deployment) = self.planned.iter().find(|it| it.name == *name) {
                    create(simulation, deployment);
                }
            }
            FindSets(name) => {
                let app = self.app(name);
                let (sets, _) = simulation
                    .harness
                    .cluster()
                    .list::<ReplicaSet>(Some(NAMESPACE));
                let is_lost = |set: &&Arc<ReplicaSet>| {
                    let lost = set.metadata.labels.get(LOST);
                    lost.is_some_and(|lost| **lost == *app)
                };
                for set in sets.iter().filter(is_lost) {
                    simulation.patch_owner(&set.metadata.name, labels(json!(app), json!(null)));
                }
            }
            EditSet(target, template) => {
                let template = json!({"spec": {"containers": containers(*template)}});
                if let Some(set) = simulation.counted(target) {
                    simulation.patch_owner(&set, json!({"spec": {"template": template}}));
                }
            }
            LoseSet(target) => {
                let (name, _) = target.split_once('/').unwrap_or((target, ""));
                if let Some(set) = simulation.counted(target) {
                    simulation.patch_owner(&set, labels(json!(null), json!(self.app(name))));
                }
            }
            other => unreachable!("{other:?} is handled by the caller"),
        }
    }

    /// Returns the value of the label by which a Deployment selects.
    fn app<'a>(&'a self, name: &'a str) -> &'a str {
        let of_name = self.planned.iter().find(|it| it.name == name);
        of_name.map_or(name, |it| &it.app)
    }
}

/// Creates a planned Deployment.
fn create(simulation: &Simulation, it: &PlannedDeployment) {
    let object = json!({
        "metadata": {"name": it.name, "namespace": NAMESPACE, "labels": {"app": it.app}},
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
    let object = Arc::new(object.expect("the Deployment is valid"));
    let (cluster, now) = (simulation.harness.cluster(), simulation.harness.now());
    simulation.written(cluster.api(Kind::DEPLOYMENT).create(object, now));
}

/// The label with the former value of the selector label of a ReplicaSet that has lost it.
const LOST: &str = "lost-app";

fn labels(app: Value, lost: Value) -> Value {
    json!({"metadata": {"labels": {"app": app, LOST: lost}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_template_removes_the_scheduler_of_a_broken_one() {
        let whole = other_template("web", 1);
        assert_eq!(whole["spec"].get("schedulerName"), Some(&Value::Null));
        assert_eq!(whole["spec"]["containers"][0]["image"], "app:1");
        let bad = other_template("web", BAD_TEMPLATES);
        assert_eq!(bad["spec"]["schedulerName"], "nobody");
    }
}
