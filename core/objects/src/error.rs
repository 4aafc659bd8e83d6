//! API errors, with the messages of Kubernetes' API server.

use std::fmt;

/// An unsuccessful answer: a `Status`, or no answer at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code; 0 if the transport failed and no `Status` arrived.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The human-readable message.
    pub message: String,
    /// The object that the error is about, and the causes. Boxed, because answers are moved on hot
    /// paths and few have details.
    pub details: Option<Box<Details>>,
    /// Whether the client sent the request more than once. The error then belongs to the last
    /// attempt, and an earlier one may have taken effect.
    pub resent: bool,
}

/// `details` of a `Status`, which some errors lack. Empty and zero members are omitted from the
/// JSON form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The resource, e.g. `replicasets`; the kind if the object is invalid.
    pub kind: String,
    /// The UID of the object.
    pub uid: String,
    /// The causes, one for each invalid field.
    pub causes: Vec<Cause>,
    /// `Retry-After`, in seconds; 0 if it is absent.
    pub retry_after_seconds: u32,
    /// `metadata.continue` of the `Status`: the token with which an expired list can continue.
    pub continue_token: String,
}

/// An entry of `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// One machine-readable word, e.g. `FieldValueInvalid`, `NamespaceTerminating`.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
    /// The field, e.g. `spec.replicas`.
    pub field: String,
}

/// `reason` of a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// 400.
    BadRequest,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: a precondition failed.
    Conflict,
    /// 410.
    Expired,
    /// 422.
    Invalid,
    /// 429.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 504.
    Timeout,
    /// Any other text, including the empty one.
    Other(String),
}

impl Reason {
    /// Returns the reason as a `Status` contains it.
    pub fn as_str(&self) -> &str {
        match self {
            Reason::BadRequest => "BadRequest",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::Invalid => "Invalid",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::InternalError => "InternalError",
            Reason::Timeout => "Timeout",
            Reason::Other(text) => text,
        }
    }

    /// Creates the reason with this text.
    pub fn new(text: &str) -> Reason {
        match text {
            "BadRequest" => Reason::BadRequest,
            "Forbidden" => Reason::Forbidden,
            "NotFound" => Reason::NotFound,
            "AlreadyExists" => Reason::AlreadyExists,
            "Conflict" => Reason::Conflict,
            "Expired" => Reason::Expired,
            "Invalid" => Reason::Invalid,
            "TooManyRequests" => Reason::TooManyRequests,
            "InternalError" => Reason::InternalError,
            "Timeout" => Reason::Timeout,
            other => Reason::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ApiError {
    /// Creates a `Status` without details.
    pub fn status(code: u16, reason: Reason, message: impl Into<String>) -> ApiError {
        ApiError {
            code,
            reason,
            message: message.into(),
            details: None,
            resent: false,
        }
    }

    /// Creates a transport failure: it is unknown whether the request took effect.
    pub fn transport(message: impl Into<String>) -> ApiError {
        ApiError::status(0, Reason::Other(String::new()), message)
    }

    /// Sets the details.
    pub fn with_details(mut self, details: Details) -> ApiError {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds a cause.
    pub fn with_cause(mut self, cause: Cause) -> ApiError {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Sets the number of seconds after which to retry.
    pub fn with_retry_after(mut self, seconds: u32) -> ApiError {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Returns `details.causes`.
    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |details| &details.causes)
    }

    /// Returns `Retry-After`, in seconds; `None` if it is absent.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds != 0).then_some(seconds)
    }

    /// Reports whether the request may have taken effect although it failed: no answer arrived, the
    /// server timed out or failed, or an earlier attempt may have succeeded.
    pub fn outcome_is_unknown(&self) -> bool {
        self.resent || self.code == 0 || self.code == 408 || self.code >= 500
    }

    /// Reports whether the object was not found.
    pub fn is_not_found(&self) -> bool {
        self.reason == Reason::NotFound
    }

    /// Reports whether the object was refused as invalid.
    pub fn is_invalid(&self) -> bool {
        self.reason == Reason::Invalid
    }

    /// Reports whether the details have a cause with this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes().iter().any(|cause| cause.reason == reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_a_single_attempt_is_certain() {
        for (code, unknown) in [
            (0, true),
            (400, false),
            (403, false),
            (404, false),
            (408, true),
            (409, false),
            (422, false),
            (429, false),
            (500, true),
            (503, true),
            (504, true),
        ] {
            let mut error = ApiError::status(code, Reason::Other(String::new()), "");
            assert_eq!(error.outcome_is_unknown(), unknown, "{code}");
            error.resent = true;
            assert!(
                error.outcome_is_unknown(),
                "{code} after an earlier attempt"
            );
        }
    }
}
