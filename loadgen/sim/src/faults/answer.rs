//! Kinds of API calls, and the faulty answers that fault injection gives to them.

use podstorm::client::{ApiError, Cause, Reason, Request};
use podstorm_objects::Kind;
use serde::{Deserialize, Serialize};

listed! {
    /// A kind of API call that controllers make.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Call {
        /// A `create` of a pod.
        CreatePod,
        /// A `delete` of a pod or a collection of pods.
        DeletePod,
        /// A `patch` of a pod or another owned object, for example for adoption and release.
        PatchPod,
        /// A `get` of an object, such as the owner before an adoption or after a rejected status
        /// write.
        GetOwner,
        /// An `update` or `patch` of a status.
        PutStatus,
        /// Any other write: of an object other than a pod, of a scale, or of a namespace's
        /// finalizers.
        WriteObject,
        /// Any other read: of a collection, a scale or a path.
        ReadOther,
        /// A consistent read of the server's current version.
        ReadVersion,
        /// A write of an Event.
        WriteEvent,
    }
}

impl Call {
    /// Returns the kind of a request.
    pub fn from_request(request: &Request) -> Call {
        match request {
            Request::CreatePod { .. } => Call::CreatePod,
            Request::Create { object } if object.kind() == Kind::POD => Call::CreatePod,
            Request::DeletePod { .. } => Call::DeletePod,
            Request::Delete { kind, .. } | Request::DeleteCollection { kind, .. }
                if *kind == Kind::POD =>
            {
                Call::DeletePod
            }
            Request::PatchOwners { .. } => Call::PatchPod,
            Request::PutStatus { .. }
            | Request::Patch {
                of_status: true, ..
            } => Call::PutStatus,
            Request::Patch { kind, .. } if *kind == Kind::POD => Call::PatchPod,
            Request::Create { .. }
            | Request::Put { .. }
            | Request::Patch { .. }
            | Request::PutScale { .. }
            | Request::Finalize { .. }
            | Request::Delete { .. }
            | Request::DeleteCollection { .. } => Call::WriteObject,
            Request::Get { .. } => Call::GetOwner,
            Request::List { .. }
            | Request::GetScale { .. }
            | Request::Discover
            | Request::GetOwnerScale { .. }
            | Request::Raw { .. } => Call::ReadOther,
            Request::ReadVersion { .. } => Call::ReadVersion,
        }
    }

    /// Reports whether the call changes an object or a status.
    pub fn is_write(self) -> bool {
        !matches!(
            self,
            Call::GetOwner | Call::ReadOther | Call::ReadVersion | Call::WriteEvent
        )
    }
}

listed! {
    /// A faulty answer to a call, or no answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ApiFault {
        /// 400 Bad Request.
        BadRequest,
        /// 401 Unauthorized.
        Unauthorized,
        /// 403 Forbidden, without a known cause.
        Forbidden,
        /// 403 Forbidden, with the cause `NamespaceTerminating`.
        NamespaceTerminating,
        /// 404 Not Found.
        NotFound,
        /// 409 Conflict: the name is taken.
        AlreadyExists,
        /// 409 Conflict: the object has changed.
        Conflict,
        /// 410 Gone.
        Gone,
        /// 413 Content Too Large.
        TooLarge,
        /// 415 Unsupported Media Type.
        UnsupportedMediaType,
        /// 422 Unprocessable Entity.
        Invalid,
        /// 429 Too Many Requests, without a retry time.
        TooManyRequests,
        /// 429 Too Many Requests, with a retry after one second.
        TooManyRequestsRetry,
        /// 500 Internal Server Error.
        InternalError,
        /// 503 Service Unavailable, without a retry time.
        Unavailable,
        /// 503 Service Unavailable, with a retry after one second.
        UnavailableRetry,
        /// 504 Gateway Timeout, without a retry time.
        GatewayTimeout,
        /// 504 Gateway Timeout, with a retry after one second.
        GatewayTimeoutRetry,
        /// No answer: the client timed out.
        Timeout,
        /// No answer: the connection was cut.
        ConnectionCut,
        /// An answer that is not valid JSON.
        MalformedBody,
        /// An answer that ends early.
        TruncatedBody,
    }
}

impl ApiFault {
    /// Reports whether a write that gets this answer may have been committed.
    pub fn is_ambiguous(self) -> bool {
        use ApiFault::*;
        matches!(
            self,
            InternalError
                | Unavailable
                | UnavailableRetry
                | GatewayTimeout
                | GatewayTimeoutRetry
                | Timeout
                | ConnectionCut
                | MalformedBody
                | TruncatedBody
        )
    }

    /// Returns the error that the client sees.
    pub fn error(self) -> ApiError {
        use ApiFault::*;
        let other = |text: &str| Reason::Other(text.to_owned());
        let status = |code, reason, message: &str| ApiError::status(code, reason, message);
        let mut error = match self {
            BadRequest => status(400, Reason::BadRequest, "the request is malformed"),
            Unauthorized => status(401, other("Unauthorized"), "Unauthorized"),
            Forbidden => status(403, Reason::Forbidden, "forbidden: not allowed"),
            NamespaceTerminating => status(
                403,
                Reason::Forbidden,
                "forbidden: unable to create new content because the namespace is being terminated",
            ),
            NotFound => status(404, Reason::NotFound, "not found"),
            AlreadyExists => status(409, Reason::AlreadyExists, "already exists"),
            Conflict => status(
                409,
                Reason::Conflict,
                "the object has been modified; apply the changes to the latest version",
            ),
            Gone => status(410, Reason::Expired, "too old resource version"),
            TooLarge => status(413, other("RequestEntityTooLarge"), "limit is 3145728"),
            UnsupportedMediaType => status(
                415,
                other("UnsupportedMediaType"),
                "the body of the request was in an unknown format",
            ),
            Invalid => status(422, Reason::Invalid, "invalid: refused by a policy"),
            TooManyRequests | TooManyRequestsRetry => {
                status(429, Reason::TooManyRequests, "too many requests")
            }
            InternalError => status(500, Reason::InternalError, "Internal error occurred"),
            Unavailable | UnavailableRetry => status(
                503,
                other("ServiceUnavailable"),
                "the server is currently unable to handle the request",
            ),
            GatewayTimeout | GatewayTimeoutRetry => {
                status(504, Reason::Timeout, "the request timed out")
            }
            Timeout => ApiError::transport("context deadline exceeded"),
            ConnectionCut => ApiError::transport("connection reset by peer"),
            MalformedBody => ApiError::transport("the answer can't be read: invalid character"),
            TruncatedBody => ApiError::transport("the answer can't be read: unexpected EOF"),
        };
        if matches!(
            self,
            TooManyRequestsRetry | UnavailableRetry | GatewayTimeoutRetry
        ) {
            error = error.with_retry_after(1);
        }
        if self == NamespaceTerminating {
            error = error.with_cause(Cause {
                reason: "NamespaceTerminating".to_owned(),
                ..Cause::default()
            });
        }
        error
    }
}
