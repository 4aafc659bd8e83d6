//! A fault as data: which requests it strikes, and what it does to them.

use std::time::Duration;

use http::Method;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Reason};

use crate::Call;
use crate::query::Query;
use crate::route::{Route, Target};
use crate::time::ADVANCE_MAX_SECONDS;

/// Declares an enum whose values have names in JSON.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// The name in JSON.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

named! {
    /// A verb of requests, as Kubernetes' authorization names them. Server-side apply is a `patch`.
    pub enum Verb {
        /// `GET` of one object.
        Get "get",
        /// `GET` of a collection.
        List "list",
        /// `GET` with `watch`.
        Watch "watch",
        /// `POST`, of a subresource too.
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

/// What a fault does to the requests and watches that it strikes.
///
/// Times are those of the cluster's clock: where it is virtual they pass when it is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request is not carried out, and gets this answer.
    Refuse(Refusal),
    /// The request is not carried out, and gets no answer: the connection closes.
    LoseRequest,
    /// The request is carried out, and gets this answer or, where there is none, no answer: the
    /// connection closes. The client can't know whether it was carried out.
    LoseAnswer(Option<Refusal>),
    /// The request is carried out, and its answer comes later.
    DelayAnswer(Duration),
    /// The watch gets no events and no bookmarks for a time, or until the fault is disarmed; then all of
    /// them. What a client has learnt by it is stale meanwhile.
    HoldEvents(Option<Duration>),
    /// The watch ends as one whose time is over.
    EndWatch,
    /// The connection closes in the middle of the watch.
    CutWatch,
    /// The watch ends with an event `ERROR` of 410 `Expired`, so its client has to list again.
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

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        Effect::NAMES[self.number()]
    }

    /// Whether it strikes watches, open ones and those that are opened later, and no other request.
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

/// An answer in place of the real one: a `Status` as Kubernetes words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of [`CODES`](Refusal::CODES).
    pub code: u16,
    /// The header `Retry-After`, s.
    pub retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// The codes that there are: those of wrong answers in the fault simulator.
    pub const CODES: [u16; 13] = [
        400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500, 503, 504,
    ];

    /// A refusal with this code and without `Retry-After`.
    pub fn code(code: u16) -> Refusal {
        Refusal {
            code,
            retry_after_seconds: None,
        }
    }

    /// The answer to a request. 409 is `AlreadyExists` for a create of an object, else `Conflict`.
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
            // An armed fault has one of the codes.
            _ => status(Reason::BadRequest, "the request is malformed"),
        };
        match self.retry_after_seconds {
            Some(seconds) => error.with_retry_after(seconds),
            None => error,
        }
    }
}

/// A fault to be armed: the requests and watches that it strikes, and what it does to them.
///
/// It strikes requests for resources, of any client of this server; not discovery, OpenAPI, health, metrics and
/// `/podstorm`. The simulated controllers and nodes are no clients of it: they call the cluster in process.
///
/// ```
/// use podstorm_http::faults::{Effect, Fault, Refusal, Verb};
///
/// // The second and third update of the status of a Site meet a conflict.
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
    /// The verbs of these requests; empty: all.
    pub verbs: Vec<Verb>,
    /// The resource of these requests as kubectl writes it, with its group where there is one, and with its
    /// subresource: `pods`, `pods/status`, `replicasets.apps`. Without a group it is of any group. Without a
    /// subresource it is the resource itself; `pods/*` is both. Empty: all resources and subresources.
    pub resource: String,
    /// Their namespace; empty: all.
    pub namespace: String,
    /// Their object, as the path names it, or the field selector `metadata.name=NAME` of a list or a watch. A
    /// create has no name, unless it is of a subresource. Empty: all.
    pub name: String,
    /// What the header `User-Agent` of the client begins with; empty: any client.
    pub user_agent: String,
    /// The first of these requests that the fault lets pass.
    pub after: u64,
    /// The number of requests that it then strikes, 1 or more; [`ALWAYS`](Fault::ALWAYS): all, until it is disarmed.
    pub times: u64,
    /// What it does to them.
    pub effect: Effect,
}

/// Why a fault can't be armed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {why}")]
pub struct InvalidFault {
    /// The member that is wrong, as JSON names it.
    pub member: String,
    /// What is wrong with it, and what it may be.
    pub why: String,
}

pub(crate) fn invalid(member: &str, why: impl Into<String>) -> InvalidFault {
    InvalidFault {
        member: member.to_owned(),
        why: why.into(),
    }
}

impl Fault {
    /// [`times`](Fault::times) without an end.
    pub const ALWAYS: u64 = u64::MAX;

    /// A fault that strikes the next request of whatever kind, once.
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

    /// Whether it can be armed.
    ///
    /// # Errors
    /// A code outside [`Refusal::CODES`]; no `times`; a time of more than a year; a verb other than
    /// [`Verb::Watch`] for an effect of watches.
    pub fn check(&self) -> Result<(), InvalidFault> {
        if self.times == 0 {
            return Err(invalid("times", "must be 1 or more, or \"always\""));
        }
        if let Some(refusal) = self.effect.refusal()
            && !Refusal::CODES.contains(&refusal.code)
        {
            let codes = Refusal::CODES.map(|code| code.to_string()).join(", ");
            let why = format!("{} is none of {codes}", refusal.code);
            return Err(invalid("code", why));
        }
        if let Some(time) = self.effect.duration()
            && time.as_secs_f64() > ADVANCE_MAX_SECONDS
        {
            let why = format!("must be a number from 0 to {ADVANCE_MAX_SECONDS}");
            return Err(invalid("seconds", why));
        }
        if self.effect.is_of_watches() && self.verbs.iter().any(|verb| *verb != Verb::Watch) {
            let why = format!(
                "{} strikes watches alone: leave the verbs out, or name watch",
                self.effect.name()
            );
            return Err(invalid("verbs", why));
        }
        Ok(())
    }

    /// Whether it is about a request.
    pub(crate) fn is_about(&self, asked: &Asked) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (self.verbs.is_empty() || self.verbs.contains(&asked.verb))
            && is(&self.namespace, &asked.namespace)
            && is(&self.name, &asked.name)
            && asked.user_agent.starts_with(&self.user_agent)
            && (self.resource.is_empty() || self.is_of_resource(asked))
    }

    fn is_of_resource(&self, asked: &Asked) -> bool {
        let (resource, part) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        (part == "*" || part == asked.subresource) && names(resource, asked.kind)
    }

    /// Whether it names a resource that is among these; true where it names none.
    pub(crate) fn names_one_of(&self, mut kinds: impl Iterator<Item = Kind>) -> bool {
        let (resource, _) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        self.resource.is_empty() || kinds.any(|kind| names(resource, kind))
    }
}

/// Whether this is the resource of a kind, with its group or without one.
fn names(resource: &str, kind: Kind) -> bool {
    match resource.split_once('.') {
        Some((resource, group)) => resource == kind.resource() && group == kind.group(),
        None => resource == kind.resource(),
    }
}

/// What faults look at of a request.
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
    /// `None` for a request that is for no resource.
    pub(crate) fn of(
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

    /// That of a request for a watch.
    pub(crate) fn of_watch(call: &Call<'_>, target: &Target) -> Option<Asked> {
        Asked::of_target(call.method, call.headers, target, &call.query)
    }

    fn of_target(
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
        // As upstream: `RequestInfo` has the name that the field selector of a list or a watch asks for.
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
