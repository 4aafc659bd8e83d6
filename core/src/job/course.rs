//! A Job's progress, as clients see it in the spec and the status.

use podstorm_objects::{DynamicObject, Kind, Object, Time};

use super::cache::JobSpec;
use super::indexes::Indexes;
use super::status::JobStatus;

/// A Job's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// `spec.completions`.
    pub completions: Option<i64>,
    /// `spec.parallelism` or its default.
    pub parallelism: i64,
    /// Whether the Job is suspended.
    pub is_suspended: bool,
    /// Whether each pod has an index.
    pub is_indexed: bool,
    /// How the Job ended; `None` while it has not ended.
    pub end: Option<Ended>,
    /// When the Job started; `None` if it has not started.
    pub start: Option<Time>,
    /// `status.active`.
    pub active: i64,
    /// `status.ready`.
    pub ready: i64,
    /// `status.terminating`.
    pub terminating: i64,
    /// `status.succeeded`.
    pub succeeded: i64,
    /// `status.failed`.
    pub failed: i64,
    /// The number of indexes in `status.failedIndexes`, which get no more pods.
    pub failed_indexes: i64,
    /// The number of ended pods in `status.uncountedTerminatedPods`.
    pub uncounted: usize,
}

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The condition `Complete` is true.
    Complete,
    /// The condition `Failed` is true.
    Failed,
}

impl Course {
    /// Returns the progress of a Job; `None` for other objects. O(bytes of the Job).
    pub fn from_object(object: &dyn Object) -> Option<Course> {
        let job = object.downcast_ref::<DynamicObject>()?;
        if object.kind() != Kind::JOB {
            return None;
        }
        let (spec, status) = (JobSpec::read(job), JobStatus::read(job));
        let uncounted = status.uncounted.succeeded.len() + status.uncounted.failed.len();
        Some(Course {
            completions: spec.completions,
            parallelism: spec.parallelism,
            is_suspended: spec.is_suspended,
            is_indexed: spec.is_indexed(),
            end: status.conditions.end().map(|end| match end {
                "Complete" => Ended::Complete,
                _ => Ended::Failed,
            }),
            start: status.start_time,
            active: status.active,
            ready: status.ready.unwrap_or(0),
            terminating: status.terminating.unwrap_or(0),
            succeeded: status.succeeded,
            failed: status.failed,
            failed_indexes: match (status.failed_indexes.as_deref(), spec.completions) {
                (Some(text), Some(completions)) => Indexes::parse(text, completions).count(),
                _ => 0,
            },
            uncounted,
        })
    }

    /// Reports whether the Job has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the number of pods that a new Job runs.
    pub fn wanted(&self) -> i64 {
        let most = self.completions.unwrap_or(self.parallelism);
        most.min(self.parallelism).max(0)
    }

    /// Returns the number of pods that should run now. A Job without completions starts no more
    /// pods after the first success.
    pub fn wanted_now(&self) -> i64 {
        let left = match self.completions {
            Some(completions) => completions - self.succeeded - self.failed_indexes,
            None if self.succeeded > 0 => self.active,
            None => self.parallelism,
        };
        left.min(self.parallelism).max(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_wants_only_as_many_pods_as_must_still_succeed() {
        for (completions, succeeded, failed_indexes, active, wanted) in [
            (Some(10), 0, "", 4, 4),
            (Some(10), 7, "", 3, 3),
            (Some(10), 7, "0,2-3", 0, 0),
            (None, 0, "", 4, 4),
            (None, 1, "", 2, 2),
        ] {
            let job = json!({"metadata": {"name": "j"},
                "spec": {"completions": completions, "parallelism": 4, "completionMode": "Indexed"},
                "status": {"succeeded": succeeded, "failedIndexes": failed_indexes, "active": active, "ready": 1}});
            let job = DynamicObject::from_json(Kind::JOB, job).unwrap();
            let course = Course::from_object(&job).unwrap();
            assert_eq!(course.wanted_now(), wanted, "{course:?}");
            assert_eq!(course.ready, 1);
        }
    }
}
