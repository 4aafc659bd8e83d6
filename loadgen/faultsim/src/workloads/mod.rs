//! The workloads of this project that campaigns can test. Each has a folder and a line here.

pub mod deployments;
pub mod jobs;
pub mod replicasets;
pub mod statefulsets;
pub mod ttl_after_finished;

use podstorm::deployment::Deployments;
use podstorm::job::Jobs;
use podstorm::replicaset::ReplicaSets;
use podstorm::statefulset::StatefulSets;
use podstorm::ttl_after_finished::TtlAfterFinished;

use crate::row::SubjectRow;

/// Returns the rows of the workloads, in the order in which they are listed. The first workload is
/// the default.
pub(crate) fn rows() -> [SubjectRow; 5] {
    [
        SubjectRow::new::<ReplicaSets>(),
        SubjectRow::new::<Deployments>(),
        SubjectRow::new::<TtlAfterFinished>(),
        SubjectRow::new::<Jobs>(),
        SubjectRow::new::<StatefulSets>(),
    ]
}
