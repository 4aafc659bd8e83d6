//! The workloads of this project that the campaign puts under faults: a folder and a line each.

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

/// Their rows, in the order in which they are listed. The first one stands in where none is named.
pub(crate) fn rows() -> [SubjectRow; 5] {
    [
        SubjectRow::of::<ReplicaSets>(),
        SubjectRow::of::<Deployments>(),
        SubjectRow::of::<TtlAfterFinished>(),
        SubjectRow::of::<Jobs>(),
        SubjectRow::of::<StatefulSets>(),
    ]
}
