//! The members of a Job that the controller reads to decide whether and when to delete the Job.

use podstorm_objects::{DynamicObject, Object, Time};

/// The TTL of a finished Job, and when the Job finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedJob {
    /// `spec.ttlSecondsAfterFinished`.
    ttl_seconds: i64,
    /// The time of the first condition that marks the Job as finished.
    finished: Time,
}

impl FinishedJob {
    /// Returns the Job's TTL and end time; `None` if the Job has no TTL, is being deleted or has
    /// not finished. Cheap for a Job without a TTL. Ignores `spec.managedBy`.
    ///
    /// Source: `needsCleanup` in Kubernetes' `pkg/controller/ttlafterfinished`, `IsJobFinished` in
    /// its `pkg/controller/job/util`.
    pub(super) fn from_object(job: &dyn Object) -> Option<FinishedJob> {
        let members = &job.downcast_ref::<DynamicObject>()?.fields;
        let ttl_seconds = members.get("spec")?["ttlSecondsAfterFinished"].as_i64()?;
        if job.metadata().is_deleting() {
            return None;
        }
        let mut conditions = members.get("status")?["conditions"].as_array()?.iter();
        let end = conditions.find(|condition| {
            let is_end = condition["type"] == "Complete" || condition["type"] == "Failed";
            is_end && condition["status"] == "True"
        })?;
        let finished = end["lastTransitionTime"].as_str();
        Some(FinishedJob {
            ttl_seconds,
            finished: finished
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
        })
    }

    /// Returns when the TTL ends, in ns since the Unix epoch; `None` if the condition has no time.
    /// Ignores `status.completionTime`. Years up to 9999 need more than 64 bits.
    ///
    /// Source: `getFinishAndExpireTime`.
    pub(super) fn expiry_ns(self) -> Option<i128> {
        let seconds = i128::from(self.finished.unix_seconds()?) + i128::from(self.ttl_seconds);
        Some(seconds * 1_000_000_000)
    }
}
