//! The Events a sync records about its parent, before any correlation.

use compact_str::CompactString;

/// One Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncEvent {
    /// What happened.
    pub reason: SyncEventReason,
    /// The pod's name or, for a failure, the error.
    pub detail: CompactString,
}

/// `reason` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncEventReason {
    /// Normal: a pod was created.
    SuccessfulCreate,
    /// Warning: a pod could not be created.
    FailedCreate,
    /// Normal: a pod's deletion was accepted.
    SuccessfulDelete,
    /// Warning: a pod could not be deleted.
    FailedDelete,
}

impl SyncEventReason {
    /// `reason` as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            SyncEventReason::SuccessfulCreate => "SuccessfulCreate",
            SyncEventReason::FailedCreate => "FailedCreate",
            SyncEventReason::SuccessfulDelete => "SuccessfulDelete",
            SyncEventReason::FailedDelete => "FailedDelete",
        }
    }

    /// Whether `type` is `Warning` rather than `Normal`.
    pub const fn is_warning(self) -> bool {
        matches!(self, SyncEventReason::FailedCreate | SyncEventReason::FailedDelete)
    }

    /// What the message says before the detail.
    pub const fn message_prefix(self) -> &'static str {
        match self {
            SyncEventReason::SuccessfulCreate => "Created pod: ",
            SyncEventReason::FailedCreate => "Error creating: ",
            SyncEventReason::SuccessfulDelete => "Deleted pod: ",
            SyncEventReason::FailedDelete => "Error deleting: ",
        }
    }
}

impl SyncEvent {
    /// `message` as text.
    pub fn message(&self) -> String {
        format!("{}{}", self.reason.message_prefix(), self.detail)
    }
}
