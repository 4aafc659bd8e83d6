//! The controller's connection to the API server: carries requests out, keeps to the QPS limit,
//! takes the time an API call takes, and counts the calls.
//!
//! All workers of a controller and its event sink share one limiter, as they share one client in
//! the controller-manager. With no limit and no latency a request is carried out where it is made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;
use podstorm::client::{Answer, ApiError, QpsLimiter, Reason, Request};
use podstorm::metrics::{Histogram, HistogramSnapshot};
use podstorm_apiserver::latency::LatencySampler;
use podstorm_apiserver::{Cluster, DeleteOptions, Deletion};
use podstorm_objects::{Kind, Now, Pod};

/// How often one call is sent again when the server asks for it.
pub const RETRIES_MAX: u32 = 10;

/// The connection of one controller.
#[derive(Debug)]
pub struct Client {
    /// The server.
    pub cluster: Arc<Cluster>,
    limiter: Option<Limiter>,
}

/// The limit of a client, and how long its requests waited for their turns, by HTTP method.
#[derive(Debug)]
struct Limiter {
    qps: Mutex<QpsLimiter>,
    waits: [Histogram; METHODS.len()],
}

/// The methods of HTTP that requests have.
const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];

/// Upper bounds of `rest_client_rate_limiter_duration_seconds`, s: those of Kubernetes' component-base.
const WAIT_BOUNDS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// The HTTP method of a verb of the API.
pub fn method_of(verb: &str) -> &'static str {
    match verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => "GET",
    }
}

impl Client {
    /// A connection with that limit, or none.
    pub fn new(cluster: Arc<Cluster>, limiter: Option<QpsLimiter>) -> Client {
        Client {
            cluster,
            limiter: limiter.map(|limiter| Limiter {
                qps: Mutex::new(limiter),
                waits: METHODS.map(|_| Histogram::new(WAIT_BOUNDS)),
            }),
        }
    }

    /// Whether requests need not wait for the limiter.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.limiter.is_none()
    }

    /// Takes a turn at the limiter for a request of that verb: how long to wait before sending, ns.
    pub(crate) fn reserve_ns(&self, verb: &str, now: Now) -> i64 {
        self.limiter.as_ref().map_or(0, |limiter| {
            let mut qps = limiter
                .qps
                .lock()
                .expect("no thread panics while it holds this lock");
            let wait_ns = qps.reserve(now.mono_ns).max(0);
            drop(qps);
            let method = method_of(verb);
            if let Some(at) = METHODS.iter().position(|known| *known == method) {
                limiter.waits[at].observe(wait_ns as f64 / 1e9);
            }
            wait_ns
        })
    }

    /// How long the requests of each HTTP method waited for their turns, s; nothing without a limit.
    pub fn waits(&self) -> impl Iterator<Item = (&'static str, HistogramSnapshot)> {
        let waits = self.limiter.iter().flat_map(|limiter| &limiter.waits);
        let all = METHODS.into_iter().zip(waits);
        all.map(|(method, waits)| (method, waits.snapshot()))
    }

    /// Carries a request out at this moment.
    pub fn carry_out(&self, request: &Request, calls: &mut ApiCalls, now: Now) -> Answer {
        let cluster = &self.cluster;
        let info = RequestInfo::of(request);
        match request {
            Request::CreatePod {
                namespace,
                body,
                name,
            } => {
                let created = cluster.create_pod(namespace, body, name.as_ref(), now);
                calls.count(info, 201, &created);
                created.map_or_else(Answer::Failed, Answer::Pod)
            }
            Request::DeletePod {
                namespace,
                name,
                uid,
            } => {
                let options = DeleteOptions {
                    precondition_uid: uid.clone(),
                    ..DeleteOptions::default()
                };
                let deleted = cluster.delete::<Pod>(namespace, name, &options, now);
                calls.count(info, 200, &deleted);
                let version =
                    |deleted: Deletion<Pod>| deleted.object.metadata.resource_version.clone();
                deleted.map_or_else(Answer::Failed, |deleted| {
                    Answer::Deleted(Some(version(deleted)))
                })
            }
            Request::PatchPod {
                namespace,
                name,
                patch,
            } => {
                let patched = cluster.patch_pod_owner(namespace, name, patch, now);
                calls.count(info, 200, &patched);
                patched.map_or_else(Answer::Failed, Answer::Pod)
            }
            Request::Get {
                kind,
                namespace,
                name,
            } => {
                let found = cluster.api(*kind).get(namespace, name);
                calls.count(info, 200, &found);
                found.map_or_else(Answer::Failed, Answer::Object)
            }
            Request::PutStatus { object } => {
                let api = cluster.api(object.kind());
                let written = api.update_status(object.clone(), now);
                calls.count(info, 200, &written);
                written.map_or_else(Answer::Failed, Answer::Object)
            }
            Request::ReadVersion { kind } => {
                let version = cluster.api(*kind).last_version();
                calls.count(info, 200, &version);
                version.map_or_else(Answer::Failed, |version| Answer::Version(version.into()))
            }
        }
    }

    /// Counts a call that never reached the server.
    pub(crate) fn count_failed(&self, request: &Request, error: &ApiError, calls: &mut ApiCalls) {
        calls.count::<()>(RequestInfo::of(request), error.code, &Err(error.clone()));
    }
}

/// What a call asks of which resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb of the API, e.g. `create`.
    pub verb: &'static str,
    /// The kind of the resource.
    pub kind: Kind,
    /// Whether the resource is the object's status.
    pub of_status: bool,
}

impl RequestInfo {
    /// That of whole objects.
    pub const fn new(verb: &'static str, kind: Kind) -> RequestInfo {
        RequestInfo {
            verb,
            kind,
            of_status: false,
        }
    }

    /// That of a controller's request.
    pub fn of(request: &Request) -> RequestInfo {
        match request {
            Request::CreatePod { .. } => RequestInfo::new("create", Kind::POD),
            Request::DeletePod { .. } => RequestInfo::new("delete", Kind::POD),
            Request::PatchPod { .. } => RequestInfo::new("patch", Kind::POD),
            Request::Get { kind, .. } => RequestInfo::new("get", *kind),
            Request::PutStatus { object } => RequestInfo {
                of_status: true,
                ..RequestInfo::new("update", object.kind())
            },
            Request::ReadVersion { kind } => RequestInfo::new("list", *kind),
        }
    }
}

/// `update replicasets/status`.
impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subresource = if self.of_status { "/status" } else { "" };
        write!(f, "{} {}{subresource}", self.verb, self.kind.resource())
    }
}

/// After how many seconds a failed call is to be sent again by the client itself: when the server
/// said so on an overload or a failure of its own.
pub fn retry_after_ns(answer: &Answer, attempts: u32) -> Option<i64> {
    let Answer::Failed(error) = answer else {
        return None;
    };
    let seconds = error.retry_after_seconds?;
    let retried = error.code == 429 || error.code >= 500;
    (retried && attempts < RETRIES_MAX).then(|| i64::from(seconds) * 1_000_000_000)
}

/// What one call meets on its way: the time it takes to the server and back, and errors by lot.
#[derive(Debug)]
pub struct CallLatency {
    latency: LatencySampler,
    /// The share of calls that are refused, and the generator that says which.
    errors: Option<(f64, fastrand::Rng)>,
}

impl CallLatency {
    pub(crate) fn new(latency: LatencySampler) -> CallLatency {
        let errors = None;
        CallLatency { latency, errors }
    }

    /// With so large a share of the calls refused.
    pub(crate) fn with_errors(self, share: f64, seed: u64) -> CallLatency {
        let random = || fastrand::Rng::with_seed(seed);
        let errors = (share > 0.0).then(|| (share, random()));
        CallLatency { errors, ..self }
    }

    /// Whether a call takes no time and meets nothing.
    pub(crate) fn is_zero(&self) -> bool {
        self.latency.is_zero() && self.errors.is_none()
    }

    /// The error that a server in trouble answers this call with, having done nothing, if it does.
    pub(crate) fn refused(&mut self) -> Option<ApiError> {
        let (share, random) = self.errors.as_mut()?;
        (random.f64() < *share).then(|| {
            let message = "Internal error occurred: the server refuses calls by lot (--api-errors)";
            ApiError::status(500, Reason::InternalError, message)
        })
    }

    /// When a request sent now takes effect, and when its answer is here, ns of the monotonic
    /// line: half the drawn time each way.
    pub(crate) fn times_ns(&mut self, sent_ns: i64) -> (i64, i64) {
        let total_ns = self.latency.draw_ns();
        (
            sent_ns.saturating_add(total_ns / 2),
            sent_ns.saturating_add(total_ns),
        )
    }
}

/// API calls by what they asked and by HTTP code.
#[derive(Debug, Default)]
pub struct ApiCalls {
    /// A dozen entries at most: searched from the front.
    counts: Vec<((RequestInfo, u16), u64)>,
    total: Arc<CallTotal>,
}

/// All calls of one caller, for others to read while it goes on.
#[derive(Debug, Default)]
pub struct CallTotal(CachePadded<AtomicU64>);

impl CallTotal {
    /// The calls so far.
    pub fn value(&self) -> u64 {
        // Relaxed: a figure to look at, which orders nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// By the caller alone.
    fn increment(&self) {
        // Relaxed, both: as above, and nobody else writes.
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value + 1, Ordering::Relaxed);
    }
}

impl ApiCalls {
    /// Counts one call with its outcome.
    pub fn count<T>(&mut self, info: RequestInfo, success: u16, outcome: &Result<T, ApiError>) {
        let code = outcome
            .as_ref()
            .map_or_else(|error| error.code, |_| success);
        let call = (info, code);
        self.total.increment();
        match self.counts.iter_mut().find(|(known, _)| *known == call) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((call, 1)),
        }
    }

    /// Where to read how many there are.
    pub fn total(&self) -> Arc<CallTotal> {
        Arc::clone(&self.total)
    }

    /// Gives each kind of call: verb, HTTP code and how many.
    pub fn for_each(&self, mut each: impl FnMut(&'static str, u16, u64)) {
        for ((info, code), count) in &self.counts {
            each(info.verb, *code, *count);
        }
    }

    /// Adds these calls to a table with keys like `create pods 201`.
    pub fn add_to(&self, table: &mut BTreeMap<String, u64>) {
        for ((info, code), count) in &self.counts {
            *table.entry(format!("{info} {code}")).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::ReplicaSet;

    use super::*;

    #[test]
    fn calls_are_counted_by_what_came_back() {
        let mut calls = ApiCalls::default();
        let failed: Result<(), _> = Err(ApiError::status(409, Reason::Conflict, "changed"));
        for outcome in [Ok(()), failed, Ok(())] {
            let object = Arc::new(ReplicaSet::default());
            let info = RequestInfo::of(&Request::PutStatus { object });
            calls.count(info, 200, &outcome);
        }
        let mut table = BTreeMap::new();
        calls.add_to(&mut table);
        assert_eq!(table["update replicasets/status 200"], 2);
        assert_eq!(table["update replicasets/status 409"], 1);
    }

    #[test]
    fn only_overload_with_a_time_to_wait_is_sent_again() {
        let mut error = ApiError::status(429, Reason::TooManyRequests, "busy");
        assert_eq!(retry_after_ns(&Answer::Failed(error.clone()), 0), None);
        error.retry_after_seconds = Some(2);
        assert_eq!(
            retry_after_ns(&Answer::Failed(error.clone()), 0),
            Some(2_000_000_000)
        );
        assert_eq!(
            retry_after_ns(&Answer::Failed(error.clone()), RETRIES_MAX),
            None
        );
        error.code = 409;
        assert_eq!(retry_after_ns(&Answer::Failed(error), 0), None);
        assert_eq!(retry_after_ns(&Answer::Deleted(None), 0), None);
    }

    #[test]
    fn as_large_a_share_of_calls_is_refused_as_was_asked_for() {
        let call_latency = || {
            CallLatency::new(LatencySampler::new(
                podstorm_apiserver::latency::Latency::ZERO,
                1,
            ))
        };
        assert!(call_latency().with_errors(0.0, 1).is_zero());
        let mut call_latency = call_latency().with_errors(0.05, 1);
        assert!(!call_latency.is_zero());
        let refused = (0..100_000)
            .filter(|_| call_latency.refused().is_some())
            .count();
        assert!((4_700..5_300).contains(&refused), "{refused}");
    }
}
