//! Limits of the Deployment controller.

/// The maximum number of consecutive retries of a key.
///
/// Source: `maxRetries` in Kubernetes' `pkg/controller/deployment`.
pub(super) const RETRIES_MAX: u32 = 15;

/// The maximum length in bytes of the annotation with a ReplicaSet's earlier revisions.
///
/// Source: `maxRevHistoryLengthInChars` in Kubernetes' `pkg/controller/deployment`.
pub(super) const REVISION_HISTORY_BYTES_MAX: usize = 2000;
