//! A fault as data: the requests that it strikes, and its effect.

use std::time::Duration;

use http::Method;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Reason};

use crate::query::Query;
use crate::route::{Route, Target};
use crate::time::ADVANCE_MAX_SECONDS;

/// Declares an enum whose variants have names in JSON.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// All values, in declaration order.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// Returns the name in JSON.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

named! {
    /// A request verb, as in Kubernetes' authorization. Server-side apply is a `patch`.
    pub enum Verb {
        /// `GET` of one object.
        Get "get",
        /// `GET` of a collection.
        List "list",
        /// `GET` with `watch`.
        Watch "watch",
        /// `POST`, also to a subresource.
        Create "create",
        /// `PUT`.
        Update "update",
        /// `PATCH`.
        Patch "patch",
        /// `DELETE` of one object.
        Delete "delete",
        /// `DELETE` of a collection.
        DeleteCollection "deletecollection",
    }
}

/// The effect of a fault on the requests or watches that it strikes.
///
/// Durations are measured on the cluster's clock. If the clock is virtual, they elapse only when it
/// is advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request is not executed and gets this answer.
    Refuse(Refusal),
    /// The request is not executed and gets no answer: the connection closes.
    LoseRequest,
    /// The request is executed, but gets this answer instead of its own or, if `None`, no answer:
    /// the connection closes. The client cannot know whether the request was executed.
    LoseAnswer(Option<Refusal>),
    /// The request is executed, and its answer is delayed.
    DelayAnswer(Duration),
    /// The watch gets no events and no bookmarks for this time or, if `None`, until the fault is
    /// disarmed. After that, the watch gets all of them. Until then, the client's view is stale.
    HoldEvents(Option<Duration>),
    /// The watch ends as if it had timed out.
    EndWatch,
    /// The connection closes in the middle of the watch.
    CutWatch,
    /// The watch ends with an `ERROR` event of 410 `Expired`, so its client must list again.
    ExpireWatch,
}

impl Effect {
    /// The names of all effects, in the order of [`number`](Effect::number).
    pub(crate) const NAMES: [&'static str; 8] = [
        "refuse",
        "lose-request",
        "lose-answer",
        "delay-answer",
        "hold-events",
        "end-watch",
        "cut-watch",
        "expire-watch",
    ];

    pub(crate) fn number(self) -> usize {
        match self {
            Effect::Refuse(_) => 0,
            Effect::LoseRequest => 1,
            Effect::LoseAnswer(_) => 2,
            Effect::DelayAnswer(_) => 3,
            Effect::HoldEvents(_) => 4,
            Effect::EndWatch => 5,
            Effect::CutWatch => 6,
            Effect::ExpireWatch => 7,
        }
    }

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        Effect::NAMES[self.number()]
    }

    /// Reports whether the effect strikes only watches, both those already open and those opened
    /// later.
    pub fn is_of_watches(self) -> bool {
        matches!(
            self,
            Effect::HoldEvents(_) | Effect::EndWatch | Effect::CutWatch | Effect::ExpireWatch
        )
    }

    pub(crate) fn duration(self) -> Option<Duration> {
        match self {
            Effect::DelayAnswer(time) | Effect::HoldEvents(Some(time)) => Some(time),
            _ => None,
        }
    }

    pub(crate) fn refusal(self) -> Option<Refusal> {
        match self {
            Effect::Refuse(refusal) | Effect::LoseAnswer(Some(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// An answer in place of the real one: a `Status` in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code, one of [`CODES`](Refusal::CODES).
    pub code: u16,
    /// The header `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// The valid codes: those of the wrong answers that the fault simulator injects.
    pub const CODES: [u16; 13] = [
        400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 503, 504,
    ];

    /// Returns a refusal with this code and without `Retry-After`.
    pub fn code(code: u16) -> Refusal {
        Refusal {
            code,
            retry_after_seconds: None,
        }
    }

    /// Returns the answer to a request as an error. 409 is `AlreadyExists` if the request creates
    /// an object, otherwise `Conflict`.
    pub(crate) fn error(self, asked: &Asked) -> ApiError {
        let (kind, name) = (asked.kind, asked.name.as_str());
        let other = |reason: &str, message: &str| {
            ApiError::status(self.code, Reason::Other(reason.to_owned()), message)
        };
        let status = |reason, message: &str| ApiError::status(self.code, reason, message);
        let error = match self.code {
            401 => other("Unauthorized", "Unauthorized"),
            403 => errors::forbidden(kind, name, "not allowed"),
            404 => errors::not_found(kind, name),
            409 if asked.verb == Verb::Create && asked.subresource.is_empty() => {
                errors::already_exists(kind, name, false)
            }
            409 => errors::stale(kind, name),
            410 => status(Reason::Expired, "too old resource version"),
            413 => other("RequestEntityTooLarge", "limit is 3145728"),
            415 => other(
                "UnsupportedMediaType",
                "the body of the request was in an unknown format",
            ),
            422 => {
                let message = format!("{} \"{name}\" is invalid", kind.group_resource());
                status(Reason::Invalid, &message)
            }
            429 => status(
                Reason::TooManyRequests,
                "Too many requests, please try again later.",
            ),
            500 => status(Reason::InternalError, "Internal error occurred"),
            503 => other(
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => status(Reason::Timeout, "the request timed out"),
            // The only other valid code is 400.
            _ => status(Reason::BadRequest, "the request is malformed"),
        };
        match self.retry_after_seconds {
            Some(seconds) => error.with_retry_after(seconds),
            None => error,
        }
    }
}

/// A fault to arm: the requests and watches that it strikes, and its effect on them.
///
/// A fault strikes the requests for resources of any client of the server, but not discovery,
/// OpenAPI, health checks, metrics or `/podstorm`. The simulated controllers and nodes are not such
/// clients: they call the cluster in process.
///
/// ```
/// use podstorm_http::faults::{Effect, Fault, Refusal, Verb};
///
/// // The second and third update of a Site's status fail with a conflict.
/// let conflicts = Fault {
///     verbs: vec![Verb::Update, Verb::Patch],
///     resource: "sites.example.com/status".to_owned(),
///     after: 1,
///     times: 2,
///     ..Fault::new(Effect::Refuse(Refusal::code(409)))
/// };
/// assert_eq!(conflicts.check(), Ok(()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The verbs of the requests; empty for all.
    pub verbs: Vec<Verb>,
    /// The resource of the requests in kubectl's form, optionally with its group and its
    /// subresource: `pods`, `pods/status`, `replicasets.apps`. Without a group, any group matches.
    /// Without a subresource, only the resource itself matches; `pods/*` matches the resource and
    /// all its subresources. Empty for all resources and subresources.
    pub resource: String,
    /// The namespace of the requests; empty for all.
    pub namespace: String,
    /// The object's name in the path, or in the field selector `metadata.name=NAME` of a list or a
    /// watch. The creation of an object has no name; a `POST` to a subresource has one. Empty for
    /// all.
    pub name: String,
    /// A prefix of the client's `User-Agent`; empty for any client.
    pub user_agent: String,
    /// The number of matching requests that pass before the first is struck.
    pub after: u64,
    /// The number of requests to strike, at least 1; [`ALWAYS`](Fault::ALWAYS) strikes all requests
    /// until the fault is disarmed.
    pub times: u64,
    /// The effect on the requests.
    pub effect: Effect,
}

/// The reason why a fault cannot be armed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {why}")]
pub struct InvalidFault {
    /// The invalid member, by its name in JSON.
    pub member: String,
    /// The problem, and the valid values.
    pub why: String,
}

pub(crate) fn invalid(member: &str, why: impl Into<String>) -> InvalidFault {
    InvalidFault {
        member: member.to_owned(),
        why: why.into(),
    }
}

/// Returns the error about a code that is not in [`Refusal::CODES`].
pub(super) fn invalid_code(code: u64) -> InvalidFault {
    invalid("code", format!("{code} is not {}", one_of_codes()))
}

/// Lists the valid codes for messages.
pub(super) fn one_of_codes() -> String {
    format!(
        "one of {}",
        Refusal::CODES.map(|code| code.to_string()).join(", ")
    )
}

impl Fault {
    /// The value of [`times`](Fault::times) for no limit.
    pub const ALWAYS: u64 = u64::MAX;

    /// Returns a fault that strikes the next request for any resource, once.
    pub fn new(effect: Effect) -> Fault {
        Fault {
            verbs: Vec::new(),
            resource: String::new(),
            namespace: String::new(),
            name: String::new(),
            user_agent: String::new(),
            after: 0,
            times: 1,
            effect,
        }
    }

    /// Checks that the fault can be armed.
    ///
    /// # Errors
    /// Fails for a code that is not in [`Refusal::CODES`], for zero `times`, for a duration of more
    /// than one year, and for a verb other than [`Verb::Watch`] with an effect on watches.
    pub fn check(&self) -> Result<(), InvalidFault> {
        if self.times == 0 {
            return Err(invalid("times", "must be 1 or more, or \"always\""));
        }
        if let Some(refusal) = self.effect.refusal()
            && !Refusal::CODES.contains(&refusal.code)
        {
            return Err(invalid_code(refusal.code.into()));
        }
        if let Some(time) = self.effect.duration()
            && time.as_secs_f64() > ADVANCE_MAX_SECONDS
        {
            let why = format!("must be a number from 0 to {ADVANCE_MAX_SECONDS}");
            return Err(invalid("seconds", why));
        }
        if self.effect.is_of_watches() && self.verbs.iter().any(|verb| *verb != Verb::Watch) {
            let why = format!(
                "{} strikes only watches: omit verbs, or name only watch",
                self.effect.name()
            );
            return Err(invalid("verbs", why));
        }
        Ok(())
    }

    /// Reports whether the fault matches a request.
    pub(crate) fn is_about(&self, asked: &Asked) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.verbs.is_empty() || self.verbs.contains(&asked.verb))
            && is(&self.namespace, &asked.namespace)
            && is(&self.name, &asked.name)
            && asked.user_agent.starts_with(&self.user_agent)
            && (self.resource.is_empty() || self.is_of_resource(asked))
    }

    /// Returns the resource and the subresource.
    fn resource_and_part(&self) -> (&str, &str) {
        let parts = self.resource.split_once('/');
        parts.unwrap_or((&self.resource, ""))
    }

    fn is_of_resource(&self, asked: &Asked) -> bool {
        let (resource, part) = self.resource_and_part();
        (part == "*" || part == asked.subresource) && names(resource, asked.kind)
    }

    /// Reports whether the fault names the resource of one of these kinds. Always true if the fault
    /// names no resource.
    pub(crate) fn names_one_of(&self, mut kinds: impl Iterator<Item = Kind>) -> bool {
        let (resource, _) = self.resource_and_part();
        self.resource.is_empty() || kinds.any(|kind| names(resource, kind))
    }
}

/// Reports whether `resource` is a kind's resource, with or without its group.
fn names(resource: &str, kind: Kind) -> bool {
    match resource.split_once('.') {
        Some((resource, group)) => resource == kind.resource() && group == kind.group(),
        None => resource == kind.resource(),
    }
}

/// The properties of a request that faults match.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user_agent: String,
}

impl Asked {
    /// Returns the properties of a request, or `None` if the request is not for a resource.
    pub(crate) fn from_request(
        head: &http::request::Parts,
        route: &Route,
        query: &Query<'_>,
    ) -> Option<Asked> {
        match route {
            Route::Objects(target) => Asked::of_target(&head.method, &head.headers, target, query),
            Route::Review(kind, namespace) => Some(Asked {
                verb: Verb::Create,
                kind: *kind,
                subresource: String::new(),
                namespace: namespace.clone(),
                name: String::new(),
                user_agent: user_agent(&head.headers),
            }),
            _ => None,
        }
    }

    /// Returns the properties of a request for a target, or `None` if no target has this method.
    pub(crate) fn of_target(
        method: &Method,
        headers: &http::HeaderMap,
        target: &Target,
        query: &Query<'_>,
    ) -> Option<Asked> {
        let is_named = !target.name.is_empty();
        let reads = [Method::GET, Method::HEAD].contains(method);
        let verb = match *method {
            Method::GET if target.is_watch(query) => Verb::Watch,
            _ if reads && is_named => Verb::Get,
            _ if reads => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if is_named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        };
        // As in upstream's `RequestInfo`, a list or a watch takes its name from the field selector.
        let selected = || {
            let name = query.text("fieldSelector").strip_prefix("metadata.name=");
            name.filter(|name| !name.contains(',')).unwrap_or("")
        };
        let name = match verb {
            Verb::List | Verb::Watch if !is_named => selected(),
            _ => target.name.as_str(),
        };
        Some(Asked {
            verb,
            kind: target.kind,
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: name.to_owned(),
            user_agent: user_agent(headers),
        })
    }
}

fn user_agent(headers: &http::HeaderMap) -> String {
    let agent = headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    agent.unwrap_or("").to_owned()
}
