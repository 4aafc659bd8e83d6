//! Schedules: the initial state of a run, and the timed actions.

use std::collections::BTreeSet;

use podstorm_located::{Located, Mistake};
use podstorm_objects::Kind;
use podstorm_sim::faults::FaultClass;
use podstorm_sim::rows::Rows;
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::action::{Action, OwnerKind, SubjectAction};
use crate::plan::{PlannedCluster, TimedAction};

/// The version of the schedule format and of the drawing. It increases when either changes, so that
/// an old seed is rejected instead of being replayed as a different schedule.
pub const SCHEDULE_VERSION: u32 = 4;

/// A run of a workload, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, bound = "")]
pub struct Schedule<S: Subject> {
    /// The version of the format, which must be [`SCHEDULE_VERSION`].
    pub version: u32,
    /// The name of the workload.
    pub workload: String,
    /// The seed of the cluster's randomness: UIDs, latencies.
    pub seed: u64,
    /// The initial objects of the workload.
    pub objects: Vec<S::Planned>,
    /// The initial cluster.
    pub cluster: PlannedCluster,
    /// The end of the disturbed phase, ms.
    pub disturb_ms: u32,
    /// The classes of faults that the seed enables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FaultClass>,
    /// The timed actions, in the order of their times.
    pub steps: Vec<TimedAction<S::Action>>,
}

/// The error for a schedule that can't be played. The message states the place and the correction.
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

    /// Rejects a schedule whose version is not [`SCHEDULE_VERSION`].
    fn of_version(version: u32) -> Result<(), ScheduleError> {
        if version == SCHEDULE_VERSION {
            return Ok(());
        }
        Err(ScheduleError(format!(
            "version: this schedule is of version {version}, this program plays version \
             {SCHEDULE_VERSION}; replay it with the program that wrote it"
        )))
    }
}

impl<S: Subject> Schedule<S> {
    /// Reads a schedule from YAML or JSON and checks it.
    ///
    /// # Errors
    /// Fails with the first problem, with its line or step.
    pub fn read(text: &str) -> Result<Schedule<S>, ScheduleError> {
        header(text)?;
        let schedule: Schedule<S> = Located::from_yaml(text)?.read()?;
        schedule.check()?;
        Ok(schedule)
    }

    /// Checks that the schedule can be played.
    ///
    /// # Errors
    /// Fails with the first invalid step or setting, with the valid values.
    pub fn check(&self) -> Result<(), ScheduleError> {
        ScheduleError::of_version(self.version)?;
        self.checked().map_err(ScheduleError)
    }

    fn checked(&self) -> Result<(), String> {
        let (cluster, name) = (&self.cluster, S::ROW.alias);
        if self.workload != name {
            return Err(format!("workload: {:?} is not {name}", self.workload));
        }
        check_within("cluster.nodes", cluster.nodes, 1, 1_000)?;
        check_within("cluster.workers", cluster.workers, 1, 64)?;
        check_within("cluster.burst-replicas", cluster.burst_replicas, 1, 500)?;
        let gates = cluster
            .feature_gates
            .iter()
            .map(|gate| (gate.clone(), true));
        let known = Rows::installed().check_gates(&gates.collect());
        known.map_err(|error| format!("cluster.feature-gates: {error}"))?;
        check_within("disturb-ms", self.disturb_ms, 0, 24 * 3_600_000)?;
        if self.objects.is_empty() {
            return Err("objects: expected at least one".to_owned());
        }
        let mut names = BTreeSet::new();
        for object in &self.objects {
            let name = S::name(object);
            if !names.insert(name) {
                return Err(format!("objects: duplicate name {name:?}"));
            }
            S::check_object(object).map_err(|text| format!("objects: {text}"))?;
        }
        for step in &self.steps {
            if let Some(Action::CreateOverlapping { name, .. }) = step.action.on_cluster() {
                names.insert(name);
            }
        }
        let mut last = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let (at_ms, end) = (step.at_ms, self.disturb_ms);
            if at_ms < last {
                return Err(format!(
                    "steps[{number}].at-ms: {at_ms} is before that of the previous step ({last})"
                ));
            }
            if at_ms > end {
                return Err(format!(
                    "steps[{number}].at-ms: {at_ms} is after disturb-ms ({end})"
                ));
            }
            last = at_ms;
            check_step::<S>(&step.action, &names)
                .map_err(|text| format!("steps[{number}]: {text}"))?;
        }
        Ok(())
    }

    /// Returns the schedule as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("every schedule can be written as YAML")
    }
}

/// Returns the name of the workload of a schedule. Checks only the version.
pub(crate) fn header(text: &str) -> Result<String, ScheduleError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    #[derive(Deserialize)]
    struct Header {
        workload: String,
    }
    let file = Located::from_yaml(text)?;
    // The version is checked before the other members, which depend on it.
    let Versioned { version } = file.read()?;
    ScheduleError::of_version(version)?;
    let Header { workload } = file.read()?;
    Ok(workload)
}

fn check_step<S: Subject>(action: &S::Action, names: &BTreeSet<&str>) -> Result<(), String> {
    if let Some(target) = action.target() {
        let (name, nth) = target.split_once('/').unwrap_or((target, "0"));
        if !names.contains(name) {
            let known: Vec<&str> = names.iter().copied().collect();
            let kind = S::ROW.kind.map_or("object", |kind| kind.name());
            let known = known.join(", ");
            return Err(format!("no {kind} {name:?}; expected one of {known}"));
        }
        nth.parse::<u32>()
            .map_err(|_| format!("{target:?}: expected a number after the /, as in {name}/0"))?;
    }
    match action.on_cluster() {
        Some(action) => {
            check_kind(action, S::OWNERS.kinds())?;
            check_on_cluster(action)
        }
        None => S::check_action(action),
    }
}

/// Checks that a number is within these bounds, inclusive.
pub(crate) fn check_within(name: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if value < low || value > high {
        return Err(format!("{name}: {value} is not within {low} to {high}"));
    }
    Ok(())
}

/// Checks that the kind of a new owner, if the action names one, is one of these.
fn check_kind(action: &Action, kinds: &[Kind]) -> Result<(), String> {
    match action {
        Action::CreateOverlapping {
            kind: Some(OwnerKind(kind)),
            ..
        } if !kinds.contains(kind) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let kinds = kinds.join(", ");
            Err(format!("kind: {} is not one of {kinds}", kind.name()))
        }
        _ => Ok(()),
    }
}

/// Checks an action on the cluster.
fn check_on_cluster(action: &Action) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::replicasets::{PlannedReplicaSet, WorkloadKind};
    use podstorm::replicaset::ReplicaSets;
    use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, StreamKind};

    fn schedule(steps: Vec<TimedAction<Action>>) -> Schedule<ReplicaSets> {
        Schedule {
            version: SCHEDULE_VERSION,
            workload: "replicaset".to_owned(),
            seed: 7,
            objects: vec![PlannedReplicaSet {
                kind: WorkloadKind::ReplicaSet,
                name: "web".into(),
                replicas: 3,
                min_ready_seconds: 0,
            }],
            cluster: PlannedCluster {
                nodes: 3,
                workers: 2,
                burst_replicas: 500,
                stale_controller_consistency: true,
                watch_list_client: true,
                feature_gates: Vec::new(),
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
    fn a_schedule_survives_a_write_and_a_read() {
        let requests = Action::Requests {
            calls: vec![Call::CreatePod],
            owner: Some("web".into()),
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
            stream: StreamKind::from_kind(Kind::POD),
            for_ms: 9,
        };
        let steps = vec![
            TimedAction::of_user(1, requests),
            TimedAction::of_user(2, crash),
            TimedAction::of_user(2, hold),
        ];
        let schedule = schedule(steps);
        let text = schedule.to_yaml();
        assert_eq!(Schedule::read(&text), Ok(schedule), "{text}");
    }

    #[test]
    fn an_object_is_a_replica_set_by_default() {
        let mut known = schedule(Vec::new());
        let text = known.to_yaml();
        assert!(!text.contains("kind"), "{text}");
        assert!(ReplicaSets::kinds(&known).len() == 1);
        known.objects[0].kind = WorkloadKind::ReplicationController;
        let text = known.to_yaml();
        assert!(text.contains("kind: replication-controller"), "{text}");
        assert_eq!(Schedule::read(&text), Ok(known));
        let beside = |kind: WorkloadKind| Action::CreateOverlapping {
            kind: kind.in_action(),
            name: "more".into(),
            like: "web".into(),
            replicas: 1,
        };
        for kind in WorkloadKind::ALL {
            let schedule = schedule(vec![TimedAction::of_user(1, beside(kind))]);
            assert_eq!(Schedule::read(&schedule.to_yaml()), Ok(schedule.clone()));
            assert_eq!(ReplicaSets::kinds(&schedule).len() == 2, !kind.is_usual());
        }
    }

    #[test]
    fn an_invalid_schedule_is_rejected_with_the_place() {
        let touched = |moments: &[(u32, &str)]| {
            let step = |(at_ms, name): &(u32, &str)| {
                let owner = (*name).into();
                TimedAction::of_user(*at_ms, Action::Touch { owner })
            };
            schedule(moments.iter().map(step).collect())
        };
        let percent = "percent: 200 is not within 1 to 100";
        let no_wob = "steps[0]: no ReplicaSet \"wob\"; expected one of web";
        let kill = Action::Kill {
            owner: "web".into(),
            percent: 200,
            how: crate::action::Death::Deleted,
        };
        let beside = Action::CreateOverlapping {
            kind: Some(OwnerKind(Kind::DEPLOYMENT)),
            name: "more".into(),
            like: "web".into(),
            replicas: 1,
        };
        let of_kinds = "kind: Deployment is not one of ReplicaSet, ReplicationController";
        let unknown = schedule(vec![TimedAction::of_user(1, beside.clone())]).to_yaml();
        let unknown = unknown.replace("kind: deployment", "kind: web-shop");
        let error = crate::rows::read(&unknown).unwrap_err().to_string();
        let words = "\"web-shop\" is not a kind with a controller";
        assert!(error.contains(words), "{error}");
        let mut old = schedule(Vec::new());
        old.version = 0;
        for (schedule, words) in [
            (old, "version 0"),
            (touched(&[(1, "wob")]), no_wob),
            (touched(&[(2, "web"), (1, "web")]), "steps[1].at-ms"),
            (touched(&[(2_000, "web")]), "after disturb-ms"),
            (schedule(vec![TimedAction::of_user(1, kill)]), percent),
            (schedule(vec![TimedAction::of_user(1, beside)]), of_kinds),
        ] {
            let error = schedule.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        // For a file of another version, the version is reported as the problem, not the members.
        let error = crate::rows::read("version: 2\nworld: {}").unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        let text = touched(&[(1, "web")]).to_yaml();
        for (from, to, words) in [
            ("touch", "tuch", "tuch"),
            ("workload: replicaset", "workload: pod", "no such workload"),
            (
                "workload: replicaset",
                "workload: deployment",
                "missing field `app`",
            ),
            (
                "replica-set: web",
                "replica-set: web/x",
                "expected a number after the /",
            ),
        ] {
            let error = crate::rows::read(&text.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(words), "{to}: {error}");
        }
    }
}
