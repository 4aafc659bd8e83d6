//! Flocks under faults: the actions of users, and the invariants.
//!
//! * **F1** The controller creates pods and rosters, deletes only pods that a Flock owned, and updates only rosters and
//!   status of Flocks. It writes nothing else.
//! * **F2** Without injected faults, no pod is created beyond the largest size that the Flock has had.
//! * **L1** A fixed time after the end of faults, every Flock has its pods, and the roster lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::object::{AnyObject, DynamicObject, Kind, Object, Pod, Uid};
use podstorm::policy::Behaviour;
use podstorm_apiserver::{Change, Cluster, Commit, kind_named};
use podstorm_faultsim::action::{Dependents, SubjectAction};
use podstorm_faultsim::dice::{Dice, Odds};
use podstorm_faultsim::invariants::Checker;
use podstorm_faultsim::objects::NAMESPACE;
use podstorm_faultsim::simulation::{Beside, Checked, Ending, Judge, Simulation, Users};
use podstorm_faultsim::{Action, How, Schedule, Subject};
use podstorm_sim::engine::observer::SyncId;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::controller::{CONFIG_MAP, Controller, FLOCK, Flocks};

const SECOND: i64 = 1_000_000_000;

/// A planned Flock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedFlock {
    name: String,
    size: u32,
    max_age: Option<u32>,
}

/// A user's action at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlockAction {
    /// An action on the cluster.
    Cluster(Action),
    /// Sets the size.
    Size(String, u32),
    /// Sets the maximum age of pods in seconds, or removes it.
    MaxAge(String, Option<u32>),
    /// Deletes the roster.
    LoseRoster(String),
    /// Deletes a pod.
    LosePod(String),
    /// Deletes the Flock.
    Delete(String, Dependents),
    /// Creates the Flock if it doesn't exist.
    Create(String),
    /// Changes an annotation.
    Touch(String),
}

impl From<Action> for FlockAction {
    fn from(action: Action) -> FlockAction {
        FlockAction::Cluster(action)
    }
}

impl SubjectAction for FlockAction {
    fn on_cluster(&self) -> Option<&Action> {
        match self {
            FlockAction::Cluster(action) => Some(action),
            _ => None,
        }
    }

    fn target(&self) -> Option<&str> {
        use FlockAction::*;
        match self {
            Cluster(action) => action.owner(),
            Size(name, _) | MaxAge(name, _) | Delete(name, _) => Some(name),
            LoseRoster(name) | LosePod(name) | Create(name) | Touch(name) => Some(name),
        }
    }
}

impl Subject for Flocks {
    type Planned = PlannedFlock;
    type Action = FlockAction;
    type Drawing = ();
    type Users = FlockUsers;
    type Watcher = Beside<FlockJudge>;

    const ODDS: Odds = Odds {
        stream: "flocks",
        without_faults: 20,
        of_one_class: 15,
        classes: 6,
        steps_max: 30,
        calls: &[
            Call::CreatePod,
            Call::DeletePod,
            Call::WriteObject,
            Call::PutStatus,
        ],
        writes: &[
            Call::CreatePod,
            Call::DeletePod,
            Call::WriteObject,
            Call::PutStatus,
        ],
        resent: &[Call::DeletePod, Call::WriteObject],
    };

    fn name(planned: &PlannedFlock) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedFlock> {
        let count = 1 + dice.below(3) as usize;
        let flock = |name: &&str| PlannedFlock {
            name: (*name).to_owned(),
            size: dice.below(8),
            max_age: dice.one(&[None, None, Some(5), Some(120)]),
        };
        ["geese", "owls", "terns"][..count]
            .iter()
            .map(flock)
            .collect()
    }

    fn drawing(_: &[PlannedFlock]) {}

    fn draw_user(dice: &mut Dice, flocks: &[PlannedFlock], (): &mut ()) -> Vec<(u32, FlockAction)> {
        let name = dice.one(flocks).name;
        let action = match dice.below(10) {
            0..4 => FlockAction::Size(name, dice.below(12)),
            4 => FlockAction::MaxAge(name, dice.one(&[None, Some(3), Some(60)])),
            5 => FlockAction::LoseRoster(name),
            6 | 7 => FlockAction::LosePod(name),
            8 => FlockAction::Touch(name),
            _ => return recreated(dice, name),
        };
        vec![(0, action)]
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        flocks: &[PlannedFlock],
        (): &mut (),
    ) -> Option<Vec<(u32, FlockAction)>> {
        let name = dice.one(flocks).name;
        match class {
            FaultClass::PodKill => Some(vec![(0, FlockAction::LosePod(name))]),
            FaultClass::SpecChange => Some(vec![(0, FlockAction::Size(name, dice.below(12)))]),
            FaultClass::Recreate => Some(recreated(dice, name)),
            _ => None,
        }
    }

    fn draw_target(dice: &mut Dice, flocks: &[PlannedFlock]) -> String {
        dice.one(flocks).name
    }

    fn draw_stream(dice: &mut Dice, (): &()) -> StreamKind {
        StreamKind::from_kind(dice.one(&[Kind::POD, Kind::POD, FLOCK, CONFIG_MAP]))
    }

    fn check_object(planned: &PlannedFlock) -> Result<(), String> {
        (planned.size <= 100)
            .then_some(())
            .ok_or("size: at most 100".to_owned())
    }

    fn check_action(action: &FlockAction) -> Result<(), String> {
        match action {
            FlockAction::Size(_, 101..) => Err("size: at most 100".to_owned()),
            _ => Ok(()),
        }
    }

    fn kinds(_: &Schedule<Flocks>) -> Vec<Kind> {
        vec![FLOCK]
    }

    fn watcher(schedule: &Schedule<Flocks>, how: How) -> Arc<Beside<FlockJudge>> {
        let judge = FlockJudge {
            is_strict: schedule.classes.is_empty(),
            sizes: BTreeMap::new(),
            pods: BTreeMap::new(),
            situations: BTreeSet::new(),
            owned: BTreeSet::new(),
        };
        Beside::new(Checker::new(&schedule.cluster, how), judge)
    }

    fn ending(_: Behaviour) -> Ending {
        Ending {
            converges_within_ns: 400 * SECOND,
            touches_ns: &[90 * SECOND, Ending::EXPECTATIONS_RUN_OUT_NS],
            settles_ns: 60 * SECOND,
            ..Ending::DEFAULT
        }
    }
}

/// Deletes a Flock and creates another under the same name.
fn recreated(dice: &mut Dice, name: String) -> Vec<(u32, FlockAction)> {
    let gone = FlockAction::Delete(name.clone(), dice.one(&Dependents::DRAWN));
    vec![
        (0, gone),
        (dice.one(&[0, 10, 30_000]), FlockAction::Create(name)),
    ]
}

/// Users, and the Flocks that they know.
#[derive(Debug)]
pub struct FlockUsers {
    planned: Arc<[PlannedFlock]>,
    touches: u64,
}

impl Users for FlockUsers {
    type Planned = PlannedFlock;
    type Action = FlockAction;

    fn new(planned: &[PlannedFlock]) -> FlockUsers {
        FlockUsers {
            planned: planned.into(),
            touches: 0,
        }
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let definition =
            kind_named("CustomResourceDefinition").expect("every cluster serves the kind");
        let text = include_str!("../flock.json");
        simulation.create_object(
            definition,
            serde_json::from_str(text).expect("the object is valid JSON"),
        );
        let planned = Arc::clone(&self.planned);
        simulation
            .create_with(move |simulation| planned.iter().for_each(|it| create(simulation, it)));
    }

    fn act(&mut self, simulation: &mut Simulation, action: &FlockAction) {
        use FlockAction::*;
        match action {
            Cluster(_) => unreachable!("cluster actions are executed by the cluster"),
            Size(name, size) => {
                simulation.patch_object(FLOCK, name, json!({"spec": {"size": size}}))
            }
            MaxAge(name, age) => {
                simulation.patch_object(FLOCK, name, json!({"spec": {"maxAgeSeconds": age}}))
            }
            Touch(name) => {
                self.touches += 1;
                let touched = json!({"example.com/touched": self.touches.to_string()});
                simulation.patch_object(FLOCK, name, json!({"metadata": {"annotations": touched}}));
            }
            LoseRoster(name) => {
                simulation.delete_object(CONFIG_MAP, &roster_of(name), Dependents::Background)
            }
            LosePod(name) => {
                if let Some(pod) = pods(simulation.harness.cluster(), name).first() {
                    simulation.delete_pod(&pod.metadata.name, None);
                }
            }
            Delete(name, dependents) => simulation.delete_object(FLOCK, name, *dependents),
            Create(name) => {
                let planned = Arc::clone(&self.planned);
                planned
                    .iter()
                    .filter(|it| it.name == *name)
                    .for_each(|it| create(simulation, it));
            }
        }
    }

    fn put_right(&mut self, simulation: &mut Simulation) {
        self.touch(simulation);
    }

    /// Keeps pods from reaching their maximum age in the quiet period. A Flock may be created again
    /// after [`put_right`](Users::put_right).
    fn touch(&mut self, simulation: &mut Simulation) {
        for planned in &*Arc::clone(&self.planned) {
            self.act(simulation, &FlockAction::MaxAge(planned.name.clone(), None));
            self.act(simulation, &FlockAction::Touch(planned.name.clone()));
        }
    }
}

fn create(simulation: &Simulation, flock: &PlannedFlock) {
    let flock = json!({
        "metadata": {"name": flock.name, "namespace": NAMESPACE},
        "spec": {"size": flock.size, "maxAgeSeconds": flock.max_age},
    });
    simulation.create_object(FLOCK, flock);
}

fn roster_of(flock: &str) -> String {
    format!("{flock}-roster")
}

/// Returns the pods of this Flock that have not ended and are not being deleted, sorted by name.
fn pods(cluster: &Cluster, flock: &str) -> Vec<Arc<Pod>> {
    let (mut pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    pods.retain(|pod| {
        pod.is_active()
            && pod
                .metadata
                .controller()
                .is_some_and(|it| &*it.name == flock)
    });
    pods
}

/// Returns the UID of the Flock that owns an object.
fn flock_of(object: &dyn Object) -> Option<Uid> {
    let owner = object.metadata().controller();
    let owner = owner.filter(|owner| *owner.kind == *FLOCK.name());
    owner.map(|owner| owner.uid.clone())
}

/// Checks the controller's commits.
#[derive(Debug)]
pub struct FlockJudge {
    /// Whether the schedule injects no faults.
    is_strict: bool,
    /// The largest size that each Flock has had.
    sizes: BTreeMap<Uid, i64>,
    /// The number of active pods of each Flock.
    pods: BTreeMap<Uid, i64>,
    situations: BTreeSet<&'static str>,
    /// Every object that a Flock has ever owned. A pod may lose its owner before its deletion arrives.
    owned: BTreeSet<Uid>,
}

impl Judge for FlockJudge {
    type Workload = Controller;

    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let (kind, meta) = (commit.new.kind(), commit.new.metadata());
        if kind == FLOCK {
            let size = |flock: &AnyObject| flock.to_json()["spec"]["size"].as_i64().unwrap_or(0);
            let largest = self.sizes.entry(meta.uid.clone()).or_default();
            *largest = size(&commit.new).max(*largest);
            if commit
                .old
                .as_ref()
                .is_some_and(|old| size(old) != size(&commit.new))
            {
                self.situations.insert("a Flock is resized");
            }
        }
        let owner = flock_of(&*commit.new);
        if owner.is_some() {
            self.owned.insert(meta.uid.clone());
        }
        let was_owned = self.owned.contains(&meta.uid);
        // The server counts the pods of a quota. Admission may remove a new pod's owner.
        let may_write = match commit.change {
            Change::Added => [Kind::POD, CONFIG_MAP].contains(&kind),
            Change::Modified => kind == FLOCK || was_owned || kind.name() == "ResourceQuota",
            Change::Deleted => kind == Kind::POD && was_owned,
        };
        if sync.is_some() && !may_write {
            let text = format!("{} {}: {:?}", kind.name(), meta.name, commit.change);
            return Err(("F1", text));
        }
        let pod = |object: &AnyObject| object.downcast_ref::<Pod>().is_some_and(Pod::is_active);
        let old = commit.old.as_ref().filter(|old| pod(old));
        if let Some(before) = old.and_then(|old| flock_of(&**old)) {
            *self.pods.entry(before).or_default() -= 1;
        }
        let is_there = commit.change != Change::Deleted && pod(&commit.new);
        let Some(owner) = owner.filter(|_| is_there) else {
            return Ok(());
        };
        let count = self.pods.entry(owner.clone()).or_default();
        *count += 1;
        let largest = self.sizes.get(&owner).copied().unwrap_or(0);
        if self.is_strict && sync.is_some() && *count > largest {
            let text = format!("a Flock has {count} pods but never wanted more than {largest}");
            return Err(("F2", text));
        }
        Ok(())
    }

    fn situations(&self) -> Vec<&'static str> {
        self.situations.iter().copied().collect()
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        let cluster = simulation.harness.cluster();
        let list = |kind| {
            cluster
                .api(kind)
                .list(&Default::default())
                .map_or(Vec::new(), |page| page.items)
        };
        list(FLOCK).iter().find_map(|flock| {
            let flock = flock.clone().downcast::<DynamicObject>()?;
            let name = &flock.metadata.name;
            let size = flock.fields["spec"]["size"].as_u64()? as usize;
            let pods: Vec<String> = pods(cluster, name)
                .iter()
                .map(|it| it.metadata.name.to_string())
                .collect();
            if pods.len() != size {
                return Some(format!("{name} has {} of {size} pods", pods.len()));
            }
            let roster = cluster
                .api(CONFIG_MAP)
                .get(NAMESPACE, &roster_of(name))
                .ok();
            let listed =
                roster.and_then(|it| it.to_json()["data"]["pods"].as_str().map(str::to_owned));
            (listed != Some(pods.join("\n")))
                .then(|| format!("the roster of {name} lists {listed:?}"))
        })
    }
}
