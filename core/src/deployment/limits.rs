//! Limits of the controller of Deployments.

/// How often in a row the key of a Deployment is tried again.
///
/// Source: `maxRetries` in Kubernetes' `pkg/controller/deployment`.
pub(super) const RETRIES_MAX: u32 = 15;

/// The most bytes of the annotation with the former revisions of a ReplicaSet.
///
/// Source: `maxRevHistoryLengthInChars` in Kubernetes' `pkg/controller/deployment`.
pub(super) const REVISION_HISTORY_BYTES_MAX: usize = 2000;
