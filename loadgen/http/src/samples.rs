//! Samples: the state of the cluster and of its server at one moment, as JSON. The server takes one
//! sample per second while a client listens.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use podstorm_apiserver::{Cluster, ListOptions, kind_named};
use podstorm_objects::{AnyObject, Node, Now, ReplicaSet, ReplicationController, Uid};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// The maximum number of lagging workloads in a sample.
const BEHIND_MAX: usize = 10;
/// After this many seconds without a sample, the times since which workloads lag are discarded.
const FORGOTTEN_AFTER: u64 = 5;

/// The kinds without a Rust type whose controllers create pods, with the JSON pointers to the
/// numbers of desired pods and of existing and ready pods in the status. Deployments create
/// ReplicaSets and CronJobs create Jobs, so both are absent.
const OTHER_OWNERS: [(&str, [&str; 3]); 3] = [
    (
        "StatefulSet",
        [
            "/spec/replicas",
            "/status/replicas",
            "/status/readyReplicas",
        ],
    ),
    (
        "DaemonSet",
        [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
        ],
    ),
    // The desired number depends on finished pods, so use the number that the controller keeps
    // running.
    ("Job", ["/status/active", "/status/active", "/status/ready"]),
];

/// The samples of a server.
#[derive(Debug)]
pub(crate) struct Samples {
    /// The beginning of second 0, on the computer's clock.
    began: Instant,
    latest: Mutex<Latest>,
}

/// The latest sample.
#[derive(Debug, Default)]
struct Latest {
    /// The second of the sample; `None` before the first sample.
    second: Option<u64>,
    event: Bytes,
    sampler: Sampler,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        Samples {
            began: Instant::now(),
            latest: Mutex::default(),
        }
    }

    /// Returns the event with this second's sample, and the beginning of the next second. O(objects
    /// that own pods + nodes + kinds) for the first caller in a second.
    pub(crate) fn event<'a>(&self, moment: impl FnOnce() -> Moment<'a>) -> (Bytes, Instant) {
        let elapsed = self.began.elapsed();
        let second = elapsed.as_secs();
        let next = self.began + Duration::from_secs(second + 1);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // The sample may already be newer than `second` if this call waited for the lock.
        if latest.second.is_none_or(|known| known < second) {
            let idle_seconds = second - latest.second.unwrap_or(second);
            let sample = latest.sampler.sample(&moment(), elapsed, idle_seconds);
            // `retry` is the browser's reconnection delay in ms.
            latest.event = format!("retry: 1000\ndata: {sample}\n\n").into();
            latest.second = Some(second);
        }
        (latest.event.clone(), next)
    }
}

/// The inputs of a sample.
pub(crate) struct Moment<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) metrics: &'a Metrics,
    pub(crate) now: Now,
    pub(crate) is_virtual: bool,
}

/// Takes samples, and keeps the state between them.
#[derive(Debug, Default)]
struct Sampler {
    /// The lagging workloads, each with the time of the first sample in which it lagged, in ns on
    /// the cluster's monotonic clock.
    behind_since: BTreeMap<Uid, i64>,
}

impl Sampler {
    /// Takes a sample. `elapsed` is the server's age on the computer's clock, `idle_seconds` the
    /// time since the last sample. O(objects that own pods + nodes + kinds).
    fn sample(&mut self, moment: &Moment<'_>, elapsed: Duration, idle_seconds: u64) -> String {
        let (cluster, now) = (moment.cluster, moment.now);
        if idle_seconds > FORGOTTEN_AFTER {
            self.behind_since.clear();
        }
        let workloads = Workloads::count(cluster);
        let pods = cluster.pod_totals();
        let objects = cluster.kinds().into_iter().filter_map(|kind| {
            let count = cluster.api(kind).count().ok()?;
            (count > 0).then(|| (kind.group_resource().into_owned(), count))
        });
        let watches: Vec<Value> = moment
            .metrics
            .watches()
            .into_iter()
            .map(|(kind, open, events)| {
                json!({"resource": kind.group_resource(), "open": open, "events": events})
            })
            .collect();
        let sample = json!({
            "now": now.wall().to_string(),
            "seconds": now.mono_ns as f64 / 1e9,
            "virtual": moment.is_virtual,
            "uptimeSeconds": elapsed.as_secs_f64(),
            "resourceVersion": cluster.resource_version(),
            "pods": {
                "desired": workloads.desired,
                "existing": pods.existing,
                "ready": pods.existing_ready,
            },
            "nodes": {"existing": cluster.count::<Node>(), "ready": ready_nodes(cluster)},
            "objects": objects.collect::<BTreeMap<_, _>>(),
            "requests": moment.metrics.requests_by_verb(),
            "writes": cluster.write_counts().writes,
            "watches": watches,
            "behindTotal": workloads.behind.len(),
            "behind": self.longest_behind(workloads.behind, now.mono_ns),
        });
        sample.to_string()
    }

    /// Returns the workloads that have lagged longest, at most [`BEHIND_MAX`]. Ties are sorted by
    /// gap, the largest first, and then by name.
    fn longest_behind(&mut self, behind: Vec<Workload>, now_ns: i64) -> Vec<Value> {
        let known = std::mem::take(&mut self.behind_since);
        let mut behind: Vec<(i64, Workload)> = behind
            .into_iter()
            .map(|workload| {
                let uid = &workload.object.metadata().uid;
                let since = known.get(uid).copied().unwrap_or(now_ns);
                self.behind_since.insert(uid.clone(), since);
                (since, workload)
            })
            .collect();
        behind.sort_by(|(a_since, a), (b_since, b)| {
            let name = |of: &Workload| {
                let metadata = of.object.metadata();
                (metadata.namespace.clone(), metadata.name.clone())
            };
            let order = a_since.cmp(b_since).then(b.gap().cmp(&a.gap()));
            order.then_with(|| name(a).cmp(&name(b)))
        });
        let shown = behind.into_iter().take(BEHIND_MAX);
        let shown = shown.map(|(since, workload)| {
            let metadata = workload.object.metadata();
            let [desired, replicas, ready] = workload.pods;
            json!({
                "kind": workload.object.kind().name(),
                "namespace": &*metadata.namespace,
                "name": metadata.name.as_str(),
                "desired": desired,
                "statusReplicas": replicas,
                "statusReadyReplicas": ready,
                "forSeconds": (now_ns - since) as f64 / 1e9,
            })
        });
        shown.collect()
    }
}

/// An object whose controller creates pods.
struct Workload {
    object: AnyObject,
    /// The numbers of desired pods, and of existing and ready pods in the status. The status lags
    /// if the controller is rate-limited.
    pods: [i64; 3],
}

impl Workload {
    /// Returns the largest difference between the desired pods and those in the status.
    fn gap(&self) -> i64 {
        gap(self.pods)
    }
}

fn gap([desired, replicas, ready]: [i64; 3]) -> i64 {
    (desired - replicas).abs().max((desired - ready).abs())
}

/// Totals of all workloads, from their specs and statuses. Counting each workload's pods would
/// require a scan of all pods with every shard of the store locked.
#[derive(Default)]
struct Workloads {
    desired: i64,
    behind: Vec<Workload>,
}

impl Workloads {
    fn count(cluster: &Cluster) -> Workloads {
        let mut all = Workloads::default();
        cluster.for_each::<ReplicaSet>(|set| {
            let status = &set.status;
            let pods = [set.replicas(), status.replicas, status.ready_replicas];
            all.add(pods.map(i64::from), || set.clone());
        });
        cluster.for_each::<ReplicationController>(|controller| {
            let status = &controller.status;
            let desired = controller.replicas.unwrap_or(1);
            let pods = [desired, status.replicas, status.ready_replicas];
            all.add(pods.map(i64::from), || controller.clone());
        });
        for (name, members) in OTHER_OWNERS {
            for object in list(cluster, name) {
                let json = object.to_json();
                let number = |at| json.pointer(at).and_then(Value::as_i64).unwrap_or(0);
                all.add(members.map(number), || object);
            }
        }
        all
    }

    fn add(&mut self, pods: [i64; 3], object: impl FnOnce() -> AnyObject) {
        self.desired = self.desired.saturating_add(pods[0]);
        if gap(pods) > 0 {
            let object = object();
            self.behind.push(Workload { object, pods });
        }
    }
}

/// Returns all objects of a kind without a Rust type; empty if the kind is not served.
fn list(cluster: &Cluster, name: &str) -> Vec<AnyObject> {
    let Some(kind) = kind_named(name) else {
        return Vec::new();
    };
    let api = cluster.api(kind);
    match api.count() {
        Ok(1..) => api
            .list(&ListOptions::default())
            .map_or_else(|_| Vec::new(), |page| page.items),
        _ => Vec::new(),
    }
}

/// Returns the number of ready nodes. A node without the condition `Ready` counts as ready: in a
/// run, nodes report no conditions.
fn ready_nodes(cluster: &Cluster) -> u64 {
    let mut ready = 0;
    cluster.for_each::<Node>(|node| {
        let conditions = node.status.get("conditions").and_then(Value::as_array);
        let of_type = |condition: &&Value| condition["type"] == "Ready";
        let found = conditions.and_then(|all| all.iter().find(of_type));
        ready += u64::from(found.is_none_or(|found| found["status"] == "True"));
    });
    ready
}
