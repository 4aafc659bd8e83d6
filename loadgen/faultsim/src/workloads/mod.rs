//! The workloads of this project that campaigns test: a folder and a line each.

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

/// Returns their rows, in list order. The first one is the default.
pub(crate) fn rows() -> [SubjectRow; 5] {
    [
        SubjectRow::new::<ReplicaSets>(),
        SubjectRow::new::<Deployments>(),
        SubjectRow::new::<TtlAfterFinished>(),
        SubjectRow::new::<Jobs>(),
        SubjectRow::new::<StatefulSets>(),
    ]
}
