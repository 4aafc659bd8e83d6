//! Schedules: what exists at the beginning of a run, and what is done when.

use std::collections::BTreeSet;

use podstorm::policy::Behaviour;
use podstorm_located::{Located, Mistake};
use podstorm_sim::faults::FaultClass;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::workloads::WorkloadKind;

/// The version of the schedule format and of the way seeds are drawn; raised when either changes,
/// so that an old seed is refused and not replayed as something else.
pub const SCHEDULE_VERSION: u32 = 3;

/// A run, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schedule {
    /// [`SCHEDULE_VERSION`].
    pub version: u32,
    /// The seed of everything that the cluster draws: UIDs, latencies.
    pub seed: u64,
    /// What exists at first.
    pub cluster: PlannedCluster,
    /// The end of the phase in which things go wrong, ms.
    pub disturb_ms: u32,
    /// The classes that the seed has switched on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FaultClass>,
    /// What is done, in order of time.
    pub steps: Vec<Step>,
}

/// The cluster and its controller at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedCluster {
    /// The ReplicaSets and ReplicationControllers.
    pub replica_sets: Vec<PlannedReplicaSet>,
    /// How many nodes.
    pub nodes: u32,
    /// How many workers each controller has.
    pub workers: u32,
    /// Most creates or deletes in one sync.
    pub burst_replicas: u32,
    /// The read-your-writes gate of 1.36.
    #[serde(default = "yes")]
    pub stale_controller_consistency: bool,
    /// Whether initial lists come through the watch.
    #[serde(default = "yes")]
    pub watch_list_client: bool,
    /// The longest time of an API call there and back, ms.
    pub api_ms: u32,
    /// The longest time of a watch event, ms.
    pub watch_ms: u32,
    /// The longest time of a pod to become ready, ms.
    pub startup_ms: u32,
    /// The longest time of a pod to end, ms.
    pub termination_ms: u32,
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

/// An action with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// When, ms from the beginning of the disturbed phase.
    pub at_ms: u32,
    /// The class of faults it belongs to; absent for what users do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FaultClass>,
    /// What is done.
    pub action: Action,
}

impl Step {
    /// What users do at that time.
    pub fn of_user(at_ms: u32, action: Action) -> Step {
        let class = None;
        Step {
            at_ms,
            class,
            action,
        }
    }
}

const fn yes() -> bool {
    true
}

/// A schedule that can't be played, with the place and the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

impl From<Mistake> for ScheduleError {
    fn from(mistake: Mistake) -> ScheduleError {
        ScheduleError(mistake.to_string())
    }
}

impl ScheduleError {
    pub(crate) fn new(text: String) -> ScheduleError {
        ScheduleError(text)
    }

    /// Refuses a schedule of another version than [`SCHEDULE_VERSION`].
    pub(crate) fn of_version(version: u32) -> Result<(), ScheduleError> {
        if version == SCHEDULE_VERSION {
            return Ok(());
        }
        Err(ScheduleError(format!(
            "version: this schedule is of version {version}, this program plays version \
             {SCHEDULE_VERSION}; replay it with the program that wrote it"
        )))
    }
}

impl PlannedCluster {
    /// Whether its cluster can be played for so long, ms.
    pub(crate) fn check(&self, disturb_ms: u32) -> Result<(), ScheduleError> {
        for (name, value, low, high) in [
            ("cluster.nodes", self.nodes, 1, 1_000),
            ("cluster.workers", self.workers, 1, 64),
            ("cluster.burst-replicas", self.burst_replicas, 1, 500),
            ("disturb-ms", disturb_ms, 0, 24 * 3_600_000),
        ] {
            check_within(name, value, low, high).map_err(ScheduleError)?;
        }
        Ok(())
    }
}

impl Schedule {
    /// Whether ReplicationControllers are there at any time of the run.
    pub fn has_replication_controllers(&self) -> bool {
        let is_one = |kind: WorkloadKind| kind == WorkloadKind::ReplicationController;
        let mut sets = self.cluster.replica_sets.iter();
        sets.any(|set| is_one(set.kind))
            || self.steps.iter().any(|step| match &step.action {
                Action::CreateOverlapping { kind, .. } => is_one(*kind),
                _ => false,
            })
    }

    /// Reads a schedule from YAML or JSON and checks it.
    ///
    /// # Errors
    /// What is wrong, by line or by step.
    pub fn read(text: &str) -> Result<Schedule, ScheduleError> {
        let schedule: Schedule = parsed(text)?;
        schedule.check()?;
        Ok(schedule)
    }

    /// Whether it can be played.
    ///
    /// # Errors
    /// The first step or setting that can't be, and what would do.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let fail = |text: String| Err(ScheduleError(text));
        ScheduleError::of_version(self.version)?;
        let cluster = &self.cluster;
        cluster.check(self.disturb_ms)?;
        if cluster.replica_sets.is_empty() {
            return fail("cluster.replica-sets: at least one is needed".to_owned());
        }
        let mut names = BTreeSet::new();
        for set in &cluster.replica_sets {
            if !names.insert(set.name.as_str()) {
                return fail(format!(
                    "cluster.replica-sets: {:?} is there twice",
                    set.name
                ));
            }
            if set.replicas < 0 || set.replicas > 5_000 {
                return fail(format!(
                    "cluster.replica-sets: {:?} wants {} replicas, 0 to 5000 will do",
                    set.name, set.replicas
                ));
            }
        }
        for step in &self.steps {
            if let Action::CreateOverlapping { name, .. } = &step.action {
                names.insert(name);
            }
        }
        let mut last = 0;
        for (number, step) in self.steps.iter().enumerate() {
            if let Some(name) = step.action.replica_set()
                && !names.contains(name)
            {
                let known: Vec<&str> = names.iter().copied().collect();
                return fail(format!(
                    "steps[{number}]: there is no ReplicaSet {name:?}; there are {}",
                    known.join(", ")
                ));
            }
            if step.at_ms < last {
                return fail(format!(
                    "steps[{number}].at-ms: {} is before the step before it ({last})",
                    step.at_ms
                ));
            }
            if step.at_ms > self.disturb_ms {
                return fail(format!(
                    "steps[{number}].at-ms: {} is after disturb-ms ({})",
                    step.at_ms, self.disturb_ms
                ));
            }
            check_action(&step.action).or_else(|text| fail(format!("steps[{number}]: {text}")))?;
            last = step.at_ms;
        }
        Ok(())
    }

    /// The schedule as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a schedule has no part that YAML can't hold")
    }
}

/// Reads a schedule of this version; what else it says is not checked.
pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, ScheduleError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let file = Located::from_yaml(text)?;
    // Before the whole, whose members are those of this version.
    let Versioned { version } = file.read()?;
    ScheduleError::of_version(version)?;
    Ok(file.read()?)
}

/// Whether a number is within these, both included.
pub(crate) fn check_within(name: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if value < low || value > high {
        return Err(format!("{name}: {value} is not within {low} to {high}"));
    }
    Ok(())
}

/// Whether an action can be carried out.
pub(crate) fn check_action(action: &Action) -> Result<(), String> {
    let within = check_within;
    match action {
        Action::Kill { percent, .. }
        | Action::Flap { percent, .. }
        | Action::Stick { percent, .. } => within("percent", *percent, 1, 100),
        Action::Requests { times, .. } => within("times", *times, 1, 1_000_000),
        Action::Drop { events, .. } | Action::Duplicate { events, .. } => {
            within("events", *events, 1, 1_000_000)
        }
        Action::Replay { events, .. } => within("events", *events, 1, 8),
        Action::RefuseWatch { times, .. } => within("times", *times, 1, 1_000),
        Action::Scale { replicas, .. } | Action::CreateOverlapping { replicas, .. } => {
            if (0..=5_000).contains(replicas) {
                Ok(())
            } else {
                Err(format!("replicas: {replicas} is not within 0 to 5000"))
            }
        }
        _ => Ok(()),
    }
}

/// How a schedule is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whose behaviour.
    pub behaviour: Behaviour,
    /// Whether to write down every commit and every sync, for a person.
    pub told: bool,
}

impl How {
    /// With that behaviour, and nothing written down.
    pub fn untold(behaviour: Behaviour) -> How {
        let told = false;
        How { behaviour, told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_objects::Kind;
    use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, StreamKind};

    fn schedule(steps: Vec<Step>) -> Schedule {
        Schedule {
            version: SCHEDULE_VERSION,
            seed: 7,
            cluster: PlannedCluster {
                replica_sets: vec![PlannedReplicaSet {
                    kind: WorkloadKind::ReplicaSet,
                    name: "web".into(),
                    replicas: 3,
                    min_ready_seconds: 0,
                }],
                nodes: 3,
                workers: 2,
                burst_replicas: 500,
                stale_controller_consistency: true,
                watch_list_client: true,
                api_ms: 5,
                watch_ms: 5,
                startup_ms: 100,
                termination_ms: 100,
            },
            disturb_ms: 1_000,
            classes: Vec::new(),
            steps,
        }
    }

    #[test]
    fn a_schedule_survives_being_written_and_read() {
        let requests = Action::Requests {
            calls: vec![Call::CreatePod],
            replica_set: Some("web".into()),
            batch: Some(1),
            index: None,
            effect: Effect::CommitLate {
                answer: ApiFault::Timeout,
                after_ms: 20,
            },
            times: 2,
            within_ms: 500,
        };
        let crash = Action::Crash {
            point: CrashPoint::AfterCommit,
            passes: 1,
            down_ms: 10,
            stale_versions: 0,
            stale_for_ms: 0,
        };
        let hold = Action::Hold {
            stream: StreamKind::of(Kind::POD),
            for_ms: 9,
        };
        let steps = vec![
            Step::of_user(1, requests),
            Step::of_user(2, crash),
            Step::of_user(2, hold),
        ];
        let schedule = schedule(steps);
        let text = schedule.to_yaml();
        assert_eq!(Schedule::read(&text), Ok(schedule), "{text}");
    }

    #[test]
    fn an_object_is_a_replica_set_unless_it_says_otherwise() {
        let mut known = schedule(Vec::new());
        let text = known.to_yaml();
        assert!(!text.contains("kind"), "{text}");
        assert!(!known.has_replication_controllers());
        known.cluster.replica_sets[0].kind = WorkloadKind::ReplicationController;
        let text = known.to_yaml();
        assert!(text.contains("kind: replication-controller"), "{text}");
        assert_eq!(Schedule::read(&text), Ok(known));
        let beside = |kind| Action::CreateOverlapping {
            kind,
            name: "more".into(),
            like: "web".into(),
            replicas: 1,
        };
        for kind in WorkloadKind::ALL {
            let schedule = schedule(vec![Step::of_user(1, beside(kind))]);
            assert_eq!(Schedule::read(&schedule.to_yaml()), Ok(schedule.clone()));
            assert_eq!(schedule.has_replication_controllers(), !kind.is_usual());
        }
    }

    #[test]
    fn what_cannot_be_played_is_named_with_its_place() {
        let touched = |moments: &[(u32, &str)]| {
            let step = |(at_ms, name): &(u32, &str)| {
                let replica_set = (*name).into();
                Step::of_user(*at_ms, Action::Touch { replica_set })
            };
            schedule(moments.iter().map(step).collect())
        };
        let percent = "percent: 200 is not within 1 to 100";
        let no_wob = "steps[0]: there is no ReplicaSet \"wob\"; there are web";
        let kill = Action::Kill {
            replica_set: "web".into(),
            percent: 200,
            how: super::super::action::Death::Deleted,
        };
        let mut old = schedule(Vec::new());
        old.version = 0;
        for (schedule, words) in [
            (old, "version 0"),
            (touched(&[(1, "wob")]), no_wob),
            (touched(&[(2, "web"), (1, "web")]), "steps[1].at-ms"),
            (touched(&[(2_000, "web")]), "after disturb-ms"),
            (schedule(vec![Step::of_user(1, kill)]), percent),
        ] {
            let error = schedule.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        // Members of another version are not what is wrong with it.
        let error = Schedule::read("version: 2\nworld: {}").unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        let text = touched(&[(1, "web")]).to_yaml();
        let error = Schedule::read(&text.replace("touch", "tuch")).unwrap_err();
        assert!(error.to_string().contains("tuch"), "{error}");
    }
}
