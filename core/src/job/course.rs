//! How far a Job is, by its own words: what clients read who wait for it.

use podstorm_objects::{DynamicObject, Kind, Object, Time};

use super::cache::JobSpec;
use super::indexes::Indexes;
use super::status::JobStatus;

/// How far a Job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// `spec.completions`.
    pub completions: Option<i64>,
    /// `spec.parallelism`, or its default.
    pub parallelism: i64,
    /// Whether it is suspended.
    pub is_suspended: bool,
    /// Whether each pod has an index.
    pub is_indexed: bool,
    /// Whether the Job has ended, and how.
    pub end: Option<Ended>,
    /// When it started.
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
    /// How many indexes are in `status.failedIndexes`: they get no further pods.
    pub failed_indexes: i64,
    /// Pods that have ended and are not counted yet.
    pub uncounted: usize,
}

/// How a Job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its condition `Complete` is true.
    Complete,
    /// Its condition `Failed` is true.
    Failed,
}

impl Course {
    /// How far an object is; `None` where it is not a Job. O(bytes of the Job).
    pub fn of(object: &dyn Object) -> Option<Course> {
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

    /// Whether the Job has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// How many pods are to run at first.
    pub fn wanted(&self) -> i64 {
        let most = self.completions.unwrap_or(self.parallelism);
        most.min(self.parallelism).max(0)
    }

    /// How many pods are to run now. A Job without completions starts none once one has succeeded.
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
    fn a_job_wants_no_more_pods_than_are_left_to_succeed() {
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
            let course = Course::of(&job).unwrap();
            assert_eq!(course.wanted_now(), wanted, "{course:?}");
            assert_eq!(course.ready, 1);
        }
    }
}
