//! The API client of a controller: carries requests out on the cluster, limits their rate, draws
//! their latency and counts them.
//!
//! All workers of a controller and its event writer share one rate limiter, as they share one
//! client in kube-controller-manager. Without rate limit and latency, requests are carried out
//! immediately.

mod carry_out;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crossbeam_utils::CachePadded;
use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::metrics::{Family, Histogram, Kind as MetricKind, Series, Value};
use podstorm::workqueue::TokenBucket;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::latency::LatencySampler;
use podstorm_http::ApiServer;
use podstorm_objects::{Kind, Now, Str};

use crate::lock;

/// The maximum number of retries of one call when the server asks for a retry.
pub const RETRIES_MAX: u32 = 10;

/// The name of the embedded server in the metrics of its clients.
pub const HOST: &str = "embedded";

/// The API client of one controller.
#[derive(Debug)]
pub struct Client {
    /// The API server.
    pub cluster: Arc<Cluster>,
    limiter: Option<Limiter>,
    /// The HTTP server for requests that the cluster itself does not handle; created on first use.
    http: OnceLock<ApiServer>,
}

/// The rate limiter of a client, and how long the client's requests waited for it, by HTTP method.
#[derive(Debug)]
struct Limiter {
    qps: Mutex<TokenBucket>,
    waits: [Histogram; METHODS.len()],
}

/// The HTTP methods of requests.
const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];

/// Upper bounds of `rest_client_rate_limiter_duration_seconds`, s. Source: Kubernetes'
/// component-base.
const WAIT_BOUNDS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Returns the HTTP method for a verb of the API; `GET` for every verb that does not write.
pub fn method_of(verb: &str) -> &'static str {
    match verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => "GET",
    }
}

impl Client {
    /// Returns a client with the given rate limiter, if any.
    pub fn new(cluster: Arc<Cluster>, limiter: Option<TokenBucket>) -> Client {
        Client {
            cluster,
            limiter: limiter.map(|limiter| Limiter {
                qps: Mutex::new(limiter),
                waits: METHODS.map(|_| Histogram::new(WAIT_BOUNDS)),
            }),
            http: OnceLock::new(),
        }
    }

    /// Reports whether the client has no rate limiter.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.limiter.is_none()
    }

    /// Reserves a slot at the rate limiter for a request with this verb. Returns how long the
    /// request must wait before it is sent, ns.
    pub(crate) fn reserve_ns(&self, verb: &str, now: Now) -> i64 {
        self.limiter.as_ref().map_or(0, |limiter| {
            let wait_ns = lock(&limiter.qps).reserve(now.mono_ns).max(0);
            let method = method_of(verb);
            if let Some(at) = METHODS.iter().position(|known| *known == method) {
                limiter.waits[at].observe(wait_ns as f64 / 1e9);
            }
            wait_ns
        })
    }

    /// Returns `rest_client_rate_limiter_duration_seconds` for the methods used so far; `None`
    /// if there are none or the client has no rate limiter.
    pub(crate) fn limiter_waits(&self) -> Option<Family> {
        let waits = METHODS.iter().zip(&self.limiter.as_ref()?.waits);
        let series = waits.filter_map(|(method, waits)| {
            let waits = waits.snapshot();
            (waits.count() > 0).then(|| Series {
                labels: vec![("host", Str::from(HOST)), ("verb", Str::from(*method))],
                value: Value::Histogram(waits),
            })
        });
        let series: Vec<Series> = series.collect();
        (!series.is_empty()).then_some(Family {
            name: "rest_client_rate_limiter_duration_seconds",
            help: "Time that requests waited for the client-side rate limit, by verb and host.",
            kind: MetricKind::Histogram,
            series,
        })
    }
}

/// The verb and the resource of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb of the API, for example `create`.
    pub verb: &'static str,
    /// The kind of the resource; `None` for a non-resource path, and for the scale of an owner
    /// whose kind is known only from a reference.
    pub kind: Option<Kind>,
    /// The subresource, for example `status`; empty for whole objects.
    pub subresource: &'static str,
}

impl RequestInfo {
    /// Returns the verb and the resource of a call on whole objects.
    pub const fn new(verb: &'static str, kind: Kind) -> RequestInfo {
        RequestInfo::on("", verb, kind)
    }

    const fn on(subresource: &'static str, verb: &'static str, kind: Kind) -> RequestInfo {
        RequestInfo {
            verb,
            kind: Some(kind),
            subresource,
        }
    }

    /// Returns the verb and the resource of a controller's request.
    pub fn from_request(request: &Request) -> RequestInfo {
        match request {
            Request::CreatePod { .. } => RequestInfo::new("create", Kind::POD),
            Request::DeletePod { .. } => RequestInfo::new("delete", Kind::POD),
            Request::PatchOwners { kind, .. } => RequestInfo::new("patch", *kind),
            Request::Get { kind, .. } => RequestInfo::new("get", *kind),
            Request::List { kind, .. } | Request::ReadVersion { kind } => {
                RequestInfo::new("list", *kind)
            }
            Request::Create { object } => RequestInfo::new("create", object.kind()),
            Request::Put { object } => RequestInfo::new("update", object.kind()),
            Request::PutStatus { object } => RequestInfo::on("status", "update", object.kind()),
            Request::Patch {
                kind, of_status, ..
            } => {
                let subresource = if *of_status { "status" } else { "" };
                RequestInfo::on(subresource, "patch", *kind)
            }
            Request::GetScale { kind, .. } => RequestInfo::on("scale", "get", *kind),
            Request::GetOwnerScale { .. } => RequestInfo {
                verb: "get",
                kind: None,
                subresource: "scale",
            },
            Request::PutScale { kind, .. } => RequestInfo::on("scale", "update", *kind),
            Request::Finalize { .. } => RequestInfo::on("finalize", "update", Kind::NAMESPACE),
            Request::Delete { kind, .. } => RequestInfo::new("delete", *kind),
            Request::DeleteCollection { kind, .. } => RequestInfo::new("deletecollection", *kind),
            Request::Discover | Request::Raw { .. } => RequestInfo {
                verb: "get",
                kind: None,
                subresource: "",
            },
        }
    }
}

/// Formatted as `update replicasets/status`, or as `get /` for a non-resource path.
impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.kind.map_or("", |kind| kind.resource());
        write!(f, "{} {resource}", self.verb)?;
        match (self.kind, self.subresource) {
            (Some(_), "") => Ok(()),
            (_, subresource) => write!(f, "/{subresource}"),
        }
    }
}

/// Returns the delay after which the client retries a call that has failed `attempts` times before,
/// ns. `None` unless the server asks for a retry with a 429 or a 5xx, and after [`RETRIES_MAX`]
/// retries.
pub fn retry_after_ns(answer: &Answer, attempts: u32) -> Option<i64> {
    let Answer::Failed(error) = answer else {
        return None;
    };
    let seconds = error.retry_after_seconds()?;
    let retried = error.code == 429 || error.code >= 500;
    (retried && attempts < RETRIES_MAX).then(|| i64::from(seconds) * 1_000_000_000)
}

/// The latency of API calls, and the fraction of calls that fail at random.
#[derive(Debug)]
pub struct CallLatency {
    latency: LatencySampler,
    /// The fraction of calls that fail, and the generator that selects them.
    errors: Option<(f64, fastrand::Rng)>,
}

impl CallLatency {
    /// Returns the given latency for calls of which the fraction `errors` fails. A generator with
    /// `seed` selects them.
    pub(crate) fn new(latency: LatencySampler, errors: f64, seed: u64) -> CallLatency {
        let random = || fastrand::Rng::with_seed(seed);
        let errors = (errors > 0.0).then(|| (errors, random()));
        CallLatency { latency, errors }
    }

    /// Reports whether calls take no time and never fail.
    pub(crate) fn is_zero(&self) -> bool {
        self.latency.is_zero() && self.errors.is_none()
    }

    /// Returns the error of the next call; `None` if it does not fail. A call that fails does not
    /// reach the server.
    pub(crate) fn refused(&mut self) -> Option<ApiError> {
        let (share, random) = self.errors.as_mut()?;
        (random.f64() < *share).then(|| {
            let message = "Internal error occurred: this call fails at random (--api-errors)";
            ApiError::status(500, Reason::InternalError, message)
        })
    }

    /// Returns the times at which a request sent at `sent_ns` reaches the server and at which its
    /// answer arrives, in ns of monotonic time. Each way takes half of the drawn latency.
    pub(crate) fn times_ns(&mut self, sent_ns: i64) -> (i64, i64) {
        let total_ns = self.latency.draw_ns();
        (
            sent_ns.saturating_add(total_ns / 2),
            sent_ns.saturating_add(total_ns),
        )
    }
}

/// Counts API calls by verb, resource and HTTP code.
#[derive(Debug, Default)]
pub struct ApiCalls {
    /// At most about a dozen entries, so linear search is sufficient.
    counts: Vec<((RequestInfo, u16), u64)>,
    total: Arc<CallTotal>,
}

/// The number of calls by one caller, readable from other threads.
#[derive(Debug, Default)]
pub struct CallTotal(CachePadded<AtomicU64>);

impl CallTotal {
    /// Returns the number of calls so far.
    pub fn value(&self) -> u64 {
        // Relaxed: a statistic that orders nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a call. Called only by the thread that makes the calls.
    fn increment(&self) {
        // Both are Relaxed: a statistic that orders nothing, and no other thread writes it.
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value + 1, Ordering::Relaxed);
    }
}

impl ApiCalls {
    /// Counts one call with the HTTP code of its answer.
    pub fn count(&mut self, info: RequestInfo, code: u16) {
        let call = (info, code);
        self.total.increment();
        match self.counts.iter_mut().find(|(known, _)| *known == call) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((call, 1)),
        }
    }

    /// Returns the shared number of calls.
    pub fn total(&self) -> Arc<CallTotal> {
        Arc::clone(&self.total)
    }

    /// Calls `each` with the verb, HTTP code and count for every combination of verb, resource and
    /// code.
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
    fn calls_are_counted_by_verb_resource_and_code() {
        let mut calls = ApiCalls::default();
        for code in [200, 409, 200] {
            let object = Arc::new(ReplicaSet::default());
            calls.count(
                RequestInfo::from_request(&Request::PutStatus { object }),
                code,
            );
        }
        let mut table = BTreeMap::new();
        calls.add_to(&mut table);
        assert_eq!(table["update replicasets/status 200"], 2);
        assert_eq!(table["update replicasets/status 409"], 1);
    }

    #[test]
    fn only_a_429_or_5xx_with_a_retry_time_is_retried() {
        let after = |error: &ApiError, attempts| {
            let answer = Answer::Failed(error.clone());
            retry_after_ns(&answer, attempts)
        };
        let mut error = ApiError::status(429, Reason::TooManyRequests, "busy");
        assert_eq!(after(&error, 0), None);
        error = error.with_retry_after(2);
        assert_eq!(after(&error, 0), Some(2_000_000_000));
        assert_eq!(after(&error, RETRIES_MAX), None);
        error.code = 409;
        assert_eq!(after(&error, 0), None);
        assert_eq!(retry_after_ns(&Answer::Deleted(None), 0), None);
    }

    #[test]
    fn the_requested_fraction_of_calls_fails() {
        let call_latency = |errors| {
            let latency = podstorm_apiserver::latency::Latency::ZERO;
            CallLatency::new(LatencySampler::new(latency, 1), errors, 1)
        };
        assert!(call_latency(0.0).is_zero());
        let mut call_latency = call_latency(0.05);
        assert!(!call_latency.is_zero());
        let refused = (0..100_000)
            .filter(|_| call_latency.refused().is_some())
            .count();
        assert!((4_700..5_300).contains(&refused), "{refused}");
    }
}
