//! Counts of requests, watches and objects, and their text for Prometheus, with the same names as
//! in Kubernetes' API server.
//!
//! A request costs three relaxed additions and no lock. The counters of a resource are allocated at
//! its first request.
//!
//! Source: `endpoints/metrics/metrics.go` of Kubernetes' apiserver.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use http::Method;
use podstorm_apiserver::Cluster;
use podstorm_objects::Kind;

use crate::catalog::{Catalog, GroupVersion};
use crate::media::BodyType;
use crate::query::Query;
use crate::route::Route;

/// The request verbs, each with its scope.
const VERBS: [[&str; 2]; 15] = [
    ["GET", "resource"],
    ["LIST", "namespace"],
    ["LIST", "cluster"],
    ["WATCH", "resource"],
    ["WATCH", "namespace"],
    ["WATCH", "cluster"],
    ["POST", "resource"],
    ["PUT", "resource"],
    ["PATCH", "resource"],
    ["APPLY", "resource"],
    ["DELETE", "resource"],
    ["DELETECOLLECTION", "namespace"],
    ["DELETECOLLECTION", "cluster"],
    ["OTHER", ""],
    // Paths that are not resources.
    ["GET", ""],
];
const OTHER: usize = 13;
const GET_PATH: usize = 14;

/// The status codes with counters of their own. Any other code is counted as the last one.
const CODES: [u16; 22] = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 501, 503,
    504, 301, 500,
];

/// The upper bounds of the duration buckets in µs: upstream's, and three smaller ones, because this
/// server is faster.
const BOUNDS_US: [u64; 26] = [
    50, 200, 1_000, 5_000, 25_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000,
    1_250_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000, 8_000_000,
    10_000_000, 15_000_000, 20_000_000, 30_000_000, 45_000_000, 60_000_000,
];

/// The subresources with a label of their own. Any other subresource is counted as the last one.
const SUBRESOURCES: [&str; 15] = [
    "",
    "status",
    "scale",
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "token",
];

/// The attributes of a request that limits and metrics need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    kind: Option<Kind>,
    subresource: usize,
    verb: usize,
    /// Whether the request may write.
    pub(crate) is_mutating: bool,
    /// Whether the request lasts as long as the client stays connected, unless the server ends it.
    pub(crate) is_long_running: bool,
}

impl Attributes {
    pub(crate) fn from_request(
        head: &http::request::Parts,
        route: &Route,
        query: &Query<'_>,
    ) -> Attributes {
        let method = &head.method;
        let is_read = [Method::GET, Method::HEAD].contains(method);
        let mut found = Attributes {
            kind: None,
            subresource: 0,
            verb: if is_read { GET_PATH } else { OTHER },
            is_mutating: !is_read,
            is_long_running: false,
        };
        let (namespace, name) = match route {
            Route::Review(kind, _) => {
                found.kind = Some(*kind);
                ("", "")
            }
            Route::Objects(target) => {
                found.kind = Some(target.kind);
                let part = target.subresource.as_str();
                let known = SUBRESOURCES.iter().position(|known| *known == part);
                found.subresource = known.unwrap_or(0);
                found.is_long_running = *method == Method::GET && target.is_watch(query);
                (target.namespace.as_str(), target.name.as_str())
            }
            Route::Live => {
                found.is_long_running = *method == Method::GET;
                return found;
            }
            _ => return found,
        };
        let (is_named, is_everywhere) = (!name.is_empty(), namespace.is_empty());
        found.verb = match *method {
            Method::GET if found.is_long_running && is_named => 3,
            Method::GET if found.is_long_running => 4 + usize::from(is_everywhere),
            Method::GET | Method::HEAD if is_named => 0,
            Method::GET | Method::HEAD => 1 + usize::from(is_everywhere),
            Method::POST => 6,
            Method::PUT => 7,
            Method::PATCH => match BodyType::from_headers(&head.headers) {
                Some(BodyType::ApplyPatch) => 9,
                _ => 8,
            },
            Method::DELETE if is_named => 10,
            Method::DELETE => 11 + usize::from(is_everywhere),
            _ => OTHER,
        };
        found
    }
}

/// The counters of one verb.
#[derive(Debug, Default)]
struct VerbCounts {
    codes: [AtomicU64; CODES.len()],
    /// Counts by bucket; the last bucket has no bound.
    durations: [AtomicU64; BOUNDS_US.len() + 1],
    duration_ns: AtomicU64,
}

/// The counters of one resource.
#[derive(Debug)]
struct Resource {
    /// The kind; `None` for paths that are not resources.
    kind: Option<Kind>,
    verbs: [OnceLock<Box<[VerbCounts; VERBS.len()]>>; SUBRESOURCES.len()],
    watches: AtomicU64,
    watch_events: AtomicU64,
}

/// The metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Sorted by the address of the kind's row. The entry for paths that are not resources is last.
    resources: Vec<Resource>,
    /// The counters of custom kinds, by `apiVersion` and resource. These remain the same if a
    /// definition is deleted and recreated.
    custom: RwLock<Custom>,
}

type Custom = BTreeMap<(&'static str, &'static str), Arc<Resource>>;

/// Returns the address of a kind's row, which differs between versions of a resource.
fn address(kind: Kind) -> usize {
    std::ptr::from_ref(kind.row()).addr()
}

fn read(counter: &AtomicU64) -> u64 {
    // Relaxed, as for all counters here: they order nothing.
    counter.load(Ordering::Relaxed)
}

impl Resource {
    fn new(kind: Option<Kind>) -> Resource {
        Resource {
            kind,
            verbs: Default::default(),
            watches: AtomicU64::new(0),
            watch_events: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    pub(crate) fn new(catalog: &Catalog) -> Metrics {
        let kinds = catalog.group_versions();
        let kinds = kinds.flat_map(|of| catalog.kinds(of).unwrap_or_default());
        let mut kinds: Vec<Option<Kind>> = kinds.copied().map(Some).collect();
        kinds.sort_by_key(|kind| kind.map(address));
        kinds.push(None);
        Metrics {
            resources: kinds.into_iter().map(Resource::new).collect(),
            custom: RwLock::default(),
        }
    }

    /// Returns the number of answered requests by verb, over all resources and paths.
    pub(crate) fn requests_by_verb(&self) -> BTreeMap<&'static str, u64> {
        let mut by_verb = BTreeMap::new();
        let custom = self.custom_resources();
        for resource in self.all(&custom) {
            for verbs in resource.verbs.iter().filter_map(OnceLock::get) {
                for (counts, [verb, _]) in verbs.iter().zip(VERBS) {
                    let answered: u64 = counts.codes.iter().map(read).sum();
                    *by_verb.entry(verb).or_default() += answered;
                }
            }
        }
        by_verb.retain(|_, answered| *answered > 0);
        by_verb
    }

    /// Returns the kinds that are or were watched, each with the number of open watches and of
    /// events sent.
    pub(crate) fn watches(&self) -> Vec<(Kind, u64, u64)> {
        let custom = self.custom_resources();
        let counts = self
            .all(&custom)
            .filter_map(|of| Some((of.kind?, read(&of.watches), read(&of.watch_events))));
        counts
            .filter(|(_, open, events)| open + events > 0)
            .collect()
    }

    fn custom_resources(&self) -> Custom {
        let custom = self.custom.read();
        custom.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn all<'a>(&'a self, custom: &'a Custom) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().chain(custom.values().map(|of| &**of))
    }

    /// Calls `count` with the counters of a kind or, if `None`, of the paths that are not
    /// resources.
    fn with(&self, kind: Option<Kind>, count: impl FnOnce(&Resource)) {
        let (last, resources) = self
            .resources
            .split_last()
            .expect("the entry for paths always exists");
        let Some(kind) = kind else { return count(last) };
        if kind.row().custom.is_some() {
            return count(&self.of_custom(kind));
        }
        let of_kind = |resource: &Resource| resource.kind.map_or(0, address);
        let found = resources.binary_search_by_key(&address(kind), of_kind);
        count(found.map_or(last, |at| &resources[at]));
    }

    fn of_custom(&self, kind: Kind) -> Arc<Resource> {
        let key = (kind.api_version(), kind.resource());
        let known = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return Arc::clone(known);
        }
        drop(known);
        let mut known = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Resource::new(Some(kind)));
        Arc::clone(known.entry(key).or_insert_with(new))
    }

    /// Counts an answer. O(log kinds).
    pub(crate) fn count(&self, what: &Attributes, code: u16, took: Duration) {
        self.with(what.kind, |resource| {
            let verbs = resource.verbs[what.subresource].get_or_init(Box::default);
            count_answer(&verbs[what.verb], code, took);
        });
    }

    /// Counts a watch that opens.
    pub(crate) fn watch_opens(&self, kind: Kind) {
        self.with(Some(kind), |of| {
            of.watches.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Counts a watch that ends.
    pub(crate) fn watch_ends(&self, kind: Kind) {
        self.with(Some(kind), |of| {
            of.watches.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Counts events that a watch sends.
    pub(crate) fn watch_sends(&self, kind: Kind, events: u64) {
        self.with(Some(kind), |of| {
            of.watch_events.fetch_add(events, Ordering::Relaxed);
        });
    }
}

fn count_answer(counts: &VerbCounts, code: u16, took: Duration) {
    let code = CODES.iter().position(|known| *known == code);
    let code = code.unwrap_or(CODES.len() - 1);
    counts.codes[code].fetch_add(1, Ordering::Relaxed);
    let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let bound = BOUNDS_US.iter().position(|bound| ns <= bound * 1000);
    let bound = bound.unwrap_or(BOUNDS_US.len());
    counts.durations[bound].fetch_add(1, Ordering::Relaxed);
    counts.duration_ns.fetch_add(ns, Ordering::Relaxed);
}

/// Metrics in Prometheus' text format.
struct Text(String);

impl Text {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _written = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _written = writeln!(self.0, "{name}{{{labels}}} {value}");
    }
}

/// Returns the labels `group`, `resource` and `version`.
fn resource_labels(kind: Option<Kind>) -> String {
    let (of, resource) = match kind {
        Some(kind) => (GroupVersion::parse(kind.api_version()), kind.resource()),
        None => (GroupVersion::parse(""), ""),
    };
    format!(
        "group=\"{}\",resource=\"{resource}\",version=\"{}\"",
        of.group, of.version
    )
}

/// The sources of the metrics that are not in [`Metrics`].
pub(crate) struct Beside<'a> {
    /// Reading requests in flight, then mutating ones.
    pub(crate) in_flight: [u64; 2],
    /// The name and the number of strikes of each fault effect.
    pub(crate) struck: Vec<(&'static str, u64)>,
    /// The number of requests that the request log has dropped; `None` without a log.
    pub(crate) dropped: Option<u64>,
    pub(crate) cluster: &'a Cluster,
}

/// Returns all metrics in Prometheus' text format.
pub(crate) fn text(metrics: &Metrics, beside: &Beside<'_>) -> String {
    let mut out = Text(String::new());
    let custom = metrics.custom_resources();
    let resources = || metrics.all(&custom);
    let counted = || {
        resources().flat_map(|resource| {
            let of = resource_labels(resource.kind);
            let parts = resource.verbs.iter().zip(SUBRESOURCES);
            let parts = parts.filter_map(|(verbs, part)| Some((verbs.get()?, part)));
            parts.flat_map(move |(verbs, part)| {
                let of = of.clone();
                verbs.iter().zip(VERBS).map(move |(counts, [verb, scope])| {
                    let labels = format!(
                        "component=\"apiserver\",dry_run=\"\",{of},scope=\"{scope}\",\
                         subresource=\"{part}\",verb=\"{verb}\""
                    );
                    (counts, labels)
                })
            })
        })
    };
    let name = "apiserver_request_total";
    out.begin(name, "counter", "Answered requests.");
    for (counts, labels) in counted() {
        for (code, counter) in CODES.iter().zip(&counts.codes) {
            if let number @ 1.. = read(counter) {
                out.line(name, &format!("code=\"{code}\",{labels}"), number);
            }
        }
    }
    let name = "apiserver_request_duration_seconds";
    out.begin(
        name,
        "histogram",
        "Time from a request's head to the head of its answer.",
    );
    for (counts, labels) in counted() {
        let all: u64 = counts.durations.iter().map(read).sum();
        if all == 0 {
            continue;
        }
        let mut below = 0;
        for (at, counter) in counts.durations.iter().enumerate() {
            below += read(counter);
            let bound = BOUNDS_US.get(at).map(|bound| *bound as f64 / 1e6);
            let bound = bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
            let labels = format!("{labels},le=\"{bound}\"");
            out.line(&format!("{name}_bucket"), &labels, below);
        }
        let seconds = read(&counts.duration_ns) as f64 / 1e9;
        out.line(&format!("{name}_sum"), &labels, seconds);
        out.line(&format!("{name}_count"), &labels, below);
    }
    let name = "apiserver_current_inflight_requests";
    out.begin(name, "gauge", "Requests in flight.");
    for (kind, is_mutating) in [("mutating", true), ("readOnly", false)] {
        let now = beside.in_flight[usize::from(is_mutating)];
        out.line(name, &format!("request_kind=\"{kind}\""), now);
    }
    let name = "apiserver_longrunning_requests";
    out.begin(name, "gauge", "Open watches.");
    for resource in resources() {
        if let (Some(_), number @ 1..) = (resource.kind, read(&resource.watches)) {
            let of = resource_labels(resource.kind);
            let labels = format!("component=\"apiserver\",{of},subresource=\"\",verb=\"WATCH\"");
            out.line(name, &labels, number);
        }
    }
    let name = "apiserver_watch_events_total";
    out.begin(name, "counter", "Events sent by watches.");
    for resource in resources() {
        if let number @ 1.. = read(&resource.watch_events) {
            out.line(name, &resource_labels(resource.kind), number);
        }
    }
    let name = "podstorm_faults_struck_total";
    out.begin(
        name,
        "counter",
        "Requests and watches struck by armed faults.",
    );
    for (effect, number) in beside.struck.iter().filter(|(_, number)| *number > 0) {
        out.line(name, &format!("effect=\"{effect}\""), number);
    }
    if let Some(dropped) = beside.dropped {
        let name = "podstorm_request_log_dropped_total";
        out.begin(name, "counter", "Requests dropped by the request log.");
        out.line(name, "", dropped);
    }
    // The metric with the deprecated name has one label, which contains both resource and group.
    let name = "apiserver_resource_objects";
    let older = "apiserver_storage_objects";
    let objects = beside.cluster.kinds().into_iter();
    let objects: Vec<(Kind, u64)> = objects
        .filter_map(|kind| Some((kind, beside.cluster.api(kind).count().ok()?)))
        .collect();
    out.begin(name, "gauge", "Stored objects.");
    for (kind, number) in &objects {
        let (group, resource) = (kind.group(), kind.resource());
        let labels = format!("group=\"{group}\",resource=\"{resource}\"");
        out.line(name, &labels, number);
    }
    out.begin(older, "gauge", "Stored objects.");
    for (kind, number) in &objects {
        let labels = format!("resource=\"{}\"", kind.group_resource());
        out.line(older, &labels, number);
    }
    out.0
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::{Cluster, ClusterOptions};

    use super::SUBRESOURCES;

    #[test]
    fn every_subresource_has_a_counter() {
        for kind in Cluster::new(ClusterOptions::default()).kinds() {
            for part in kind.row().subresources {
                assert!(SUBRESOURCES.contains(&part.name), "{kind:?}: {}", part.name);
            }
        }
    }
}
