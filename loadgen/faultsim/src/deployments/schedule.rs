//! Schedules of Deployments, as YAML that can be stored and replayed.

use podstorm_sim::faults::FaultClass;
use serde::{Deserialize, Serialize};

use super::users::{Strategy, UserAction};
use crate::action::Action;
use crate::schedule::{PlannedCluster, ScheduleError, check_action, check_within, parsed};

/// A run, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schedule {
    /// [`SCHEDULE_VERSION`](crate::schedule::SCHEDULE_VERSION).
    pub version: u32,
    /// The seed of everything that the cluster draws.
    pub seed: u64,
    /// The Deployments at first.
    pub deployments: Vec<PlannedDeployment>,
    /// Their cluster.
    pub cluster: PlannedCluster,
    /// The end of the phase in which things go wrong, ms.
    pub disturb_ms: u32,
    /// The classes that the seed has switched on.
    pub classes: Vec<FaultClass>,
    /// What is done, in order of time.
    pub steps: Vec<Step>,
}

/// A planned Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedDeployment {
    /// Its name.
    pub name: String,
    /// The value of the label `app`, by which it selects.
    pub app: String,
    /// How many replicas.
    pub replicas: i32,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `progressDeadlineSeconds`.
    pub progress_deadline_seconds: i32,
    /// `revisionHistoryLimit`.
    pub revision_history_limit: i32,
}

/// What is done at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// When, ms from the beginning of the disturbed phase.
    pub at_ms: u32,
    /// What.
    pub what: What,
}

/// A user's doing, or a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Users do it.
    User(UserAction),
    /// It goes wrong; the class it is counted under.
    Fault(FaultClass, Action),
}

impl What {
    /// The class of a fault.
    pub(crate) fn class(&self) -> Option<FaultClass> {
        match self {
            What::User(_) => None,
            What::Fault(class, _) => Some(*class),
        }
    }
}

impl Schedule {
    /// Whether a text is meant as such a schedule, and not as one of ReplicaSets.
    pub fn is_meant(text: &str) -> bool {
        text.lines().any(|line| line.starts_with("deployments:"))
    }

    /// Reads a schedule from YAML and checks it.
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
    /// The first setting or step that can't be, and what would do.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let fail = |text: String| Err(ScheduleError::new(text));
        ScheduleError::of_version(self.version)?;
        self.cluster.check(self.disturb_ms)?;
        if self.deployments.is_empty() {
            return fail("deployments: at least one is needed".to_owned());
        }
        for (number, it) in self.deployments.iter().enumerate() {
            if self.deployments[..number]
                .iter()
                .any(|other| other.name == it.name)
            {
                return fail(format!("deployments: {:?} is there twice", it.name));
            }
            if !(0..=1_000).contains(&it.replicas) {
                let (name, replicas) = (&it.name, it.replicas);
                return fail(format!(
                    "deployments: {name:?} wants {replicas} replicas, 0 to 1000 will do"
                ));
            }
            if it.progress_deadline_seconds <= it.min_ready_seconds {
                return fail(format!(
                    "deployments: progress-deadline-seconds of {:?} is not above min-ready-seconds",
                    it.name
                ));
            }
        }
        let mut last = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let at_ms = step.at_ms;
            if at_ms < last || at_ms > self.disturb_ms {
                let end = self.disturb_ms;
                return fail(format!(
                    "steps[{number}].at-ms: {at_ms} is not within {last} to {end}"
                ));
            }
            let checked = match &step.what {
                What::User(action) => self.check_user(action),
                What::Fault(_, action) => check_action(action),
            };
            checked.or_else(|text| fail(format!("steps[{number}]: {text}")))?;
            last = at_ms;
        }
        Ok(())
    }

    fn check_user(&self, action: &UserAction) -> Result<(), String> {
        let name = action.deployment();
        if !self.deployments.iter().any(|it| it.name == name) {
            let known: Vec<&str> = self.deployments.iter().map(|it| &*it.name).collect();
            let known = known.join(", ");
            return Err(format!(
                "there is no Deployment {name:?}; there are {known}"
            ));
        }
        match action {
            UserAction::Scale(_, replicas) | UserAction::SizeSet { replicas, .. } => {
                let count = u32::try_from(*replicas).unwrap_or(u32::MAX);
                check_within("replicas", count, 0, 1_000)
            }
            UserAction::Kill { percent, .. } | UserAction::Flap { percent, .. } => {
                check_within("percent", *percent, 1, 100)
            }
            _ => Ok(()),
        }
    }

    /// As YAML, for a person.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a schedule has no part that YAML can't hold")
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::draw;
    use super::*;

    #[test]
    fn a_drawn_schedule_can_be_played_and_survives_being_written_and_read() {
        for seed in 0..300 {
            let schedule = draw(seed, &[]);
            let text = schedule.to_yaml();
            assert!(Schedule::is_meant(&text));
            assert_eq!(Schedule::read(&text), Ok(schedule), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_played_is_named_with_its_place() {
        let scaled = |name: &str, replicas: i32| {
            let mut schedule = draw(1, &[]);
            let what = What::User(UserAction::Scale(name.to_owned(), replicas));
            schedule.steps = vec![Step { at_ms: 1, what }];
            schedule
        };
        let no_wob = "steps[0]: there is no Deployment \"wob\"; there are web";
        let mut old = scaled("web", 1);
        old.version = 0;
        let mut empty = scaled("web", 1);
        empty.deployments.clear();
        let mut late = scaled("web", 1);
        late.steps[0].at_ms = late.disturb_ms + 1;
        let mut twice = scaled("web", 1);
        let first = twice.deployments[0].clone();
        twice.deployments.push(first);
        for (schedule, words) in [
            (old, "version 0"),
            (empty, "at least one is needed"),
            (late, "steps[0].at-ms"),
            (twice, "\"web\" is there twice"),
            (scaled("wob", 1), no_wob),
            (scaled("web", -1), "steps[0]: replicas"),
        ] {
            let error = schedule.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(scaled("web", 3).check(), Ok(()));
    }
}
