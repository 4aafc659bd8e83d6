//! The metrics of a run under their names in Kubernetes, readable during the run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use podstorm::metrics::{Family, Kind as MetricKind, Series, Value, merged};
use podstorm_objects::Str;
use podstorm_sim::engine::Caches;
use podstorm_sim::engine::client::{ApiCalls, HOST, method_of};
use podstorm_sim::engine::event_sink::EventWriter;
use podstorm_sim::engine::runner;
use podstorm_sim::engine::worker::AnyWorker;

use super::sampler::Sources;

/// Access to the metrics of a run, from any thread. Reading them does not affect the run.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) sources: Sources,
    /// The caches of the controllers.
    pub(super) caches: Option<Caches>,
    pub(super) workers: Vec<Arc<Mutex<dyn AnyWorker>>>,
    pub(super) writers: Vec<Arc<Mutex<EventWriter>>>,
    /// The engine time of the last update, ns.
    pub(super) now_ns: Arc<AtomicI64>,
}

impl Metrics {
    /// Returns the current values of all metrics, sorted by name. O(keys of the queues); locks each
    /// worker briefly.
    pub fn families(&self) -> Vec<Family> {
        // Relaxed: no other data depends on the number.
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        let of_run = [self.requests(), self.store_versions()];
        let of_run = of_run.into_iter().chain(self.own(now_ns));
        merged(runner::families(&self.sources.runners, now_ns).chain(of_run))
    }

    /// Returns the metric `rest_client_requests_total`.
    fn requests(&self) -> Family {
        let mut counts: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        let mut count = |calls: &ApiCalls| {
            calls.for_each(|verb, code, number| {
                let method = method_of(verb);
                let code = match code {
                    // The client got no answer.
                    0 => "<error>".to_owned(),
                    code => code.to_string(),
                };
                *counts.entry((code, method)).or_default() += number;
            });
        };
        // A panic in a task ends the run, but must not prevent reading the metrics.
        for worker in &self.workers {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            count(worker.calls());
        }
        for writer in &self.writers {
            count(&writer.lock().unwrap_or_else(PoisonError::into_inner).calls);
        }
        let series = counts.iter().map(|((code, method), number)| Series {
            labels: vec![
                ("code", Str::from(code.as_str())),
                ("host", Str::from(HOST)),
                ("method", Str::from(*method)),
            ],
            value: Value::Number(*number as f64),
        });
        Family {
            name: "rest_client_requests_total",
            help: "Requests to the API server by status code, method and host.",
            kind: MetricKind::Counter,
            series: series.collect(),
        }
    }

    /// Returns the metric `store_resource_version`.
    fn store_versions(&self) -> Family {
        let mut series = Vec::new();
        let mut push = |group: &str, resource: &str, version: Option<u64>| {
            let labels = [("group", group), ("resource", resource), ("version", "v1")];
            series.push(Series {
                labels: labels.map(|(name, value)| (name, Str::from(value))).into(),
                value: Value::Number(version.unwrap_or(0) as f64),
            });
        };
        if let Some(caches) = &self.caches {
            for informer in &caches.informers {
                let kind = informer.kind();
                push(kind.group(), kind.resource(), informer.version().number());
            }
            push("", "pods", caches.pods.version().get().number());
        }
        Family {
            name: "store_resource_version",
            help: "The resource version of a cache of the controllers.",
            kind: MetricKind::Gauge,
            series,
        }
    }

    /// Returns the metrics that have no name in upstream.
    fn own(&self, now_ns: i64) -> Vec<Family> {
        let (position, pods) = (&self.sources.position, self.sources.cluster.pod_totals());
        let read = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed) as f64;
        let states = [
            ("desired", read(&position.desired)),
            ("existing", pods.existing as f64),
            ("ready", read(&position.ready)),
        ];
        let state = |(state, number): (&str, f64)| Series {
            labels: vec![("state", Str::from(state))],
            value: Value::Number(number),
        };
        let pods_by_state = Family {
            name: "loadgen_pods",
            help: "Pods that are desired, that exist, and that are ready.",
            kind: MetricKind::Gauge,
            series: states.map(state).into(),
        };
        let seconds = "Engine time since the start: simulated on the virtual engine.";
        let created = "Pods created by any client.";
        let (counter, gauge) = (MetricKind::Counter, MetricKind::Gauge);
        let single = [
            (
                "loadgen_pods_created_total",
                created,
                counter,
                pods.created as f64,
            ),
            (
                "loadgen_pods_deleted_total",
                "Pods finally removed.",
                counter,
                pods.deleted as f64,
            ),
            (
                "loadgen_engine_seconds",
                seconds,
                gauge,
                now_ns as f64 / 1e9,
            ),
        ];
        let single = single.into_iter().map(|(name, help, kind, number)| {
            Family::single(name, help, kind, Vec::new(), Value::Number(number))
        });
        std::iter::once(pods_by_state).chain(single).collect()
    }
}
