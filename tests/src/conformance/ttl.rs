//! Cases of the TTL-after-finished controller: `ttl_handlers` and `ttl_sync`.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::informer::{AnyInformer, Informers};
use podstorm::metrics::Value as MetricValue;
use podstorm::object::{AnyObject, DeleteOptions, DynamicObject, Kind, Now};
use podstorm::replicaset::parse_key;
use podstorm::ttl_after_finished::Controller;
use podstorm::workqueue::Take;
use podstorm_apiserver::json_merge;
use podstorm_sim::engine::client::RequestInfo;
use serde_json::{Value, json};

use super::scripted_api::api_error;
use super::{Fields, expect_eq};

/// The monotonic time of a sync.
const MONO_NS: i64 = 1_000_000_000_000_000;

/// The controller over a cache of Jobs.
struct Harness {
    controller: Controller,
    jobs: Arc<dyn AnyInformer>,
}

impl Harness {
    fn new() -> Harness {
        let mut informers = Informers::new(Arc::default());
        Harness {
            controller: Controller::new(&mut informers),
            jobs: informers.take(Kind::JOB),
        }
    }

    fn put(&self, job: Value, now: Now) -> Result<(), String> {
        self.jobs.apply(Delta::Applied(self::job(job)?), now);
        Ok(())
    }

    /// Drains the available keys, in order.
    fn drain(&self, now_ns: i64) -> Vec<String> {
        let mut keys = Vec::new();
        while let Take::Key(key) = self.controller.queue().try_take(now_ns) {
            self.controller.queue().done(key, now_ns);
            keys.push(self.controller.name(0, key).to_string());
        }
        keys
    }

    /// Drains the keys that are due later. Returns them with their delays.
    fn drain_delayed(&self, now_ns: i64) -> Vec<Value> {
        let mut delayed = Vec::new();
        while let Some(due_ns) = self.controller.queue().next_due() {
            self.controller.queue().fire_due(due_ns);
            let keys = self.drain(due_ns).into_iter();
            delayed.extend(keys.map(|key| json!({"key": key, "nanos": due_ns - now_ns})));
        }
        delayed
    }

    /// Returns the number of deletions in the metric.
    fn observed(&self) -> Result<u64, String> {
        let families = self.controller.families();
        let values = families.iter().flat_map(|family| &family.series);
        let counts = values.map(|series| match &series.value {
            MetricValue::Histogram(histogram) => Ok(histogram.count()),
            MetricValue::Number(number) => Err(format!("expected a histogram: {number}")),
        });
        counts.sum()
    }
}

/// Decodes a Job as a server does that has no Rust type for Jobs.
fn job(value: Value) -> Result<AnyObject, String> {
    let job = DynamicObject::from_json(Kind::JOB, value);
    let job = job.map_err(|error| format!("job: {error}"))?;
    Ok(Arc::new(job))
}

/// Runs one case of `ttl_handlers`.
pub(super) fn handlers(case: &mut Fields) -> Result<(), String> {
    let harness = Harness::new();
    let now = Now::default();
    let object = case.value("object");
    match case.text("op")?.as_str() {
        "jobAdd" => {}
        "jobUpdate" => {
            // The previous state is irrelevant.
            let mut old = object.clone();
            old["status"] = Value::Null;
            harness.put(old, now)?;
            expect_eq("queue before", &harness.drain(0), &Vec::new())?;
        }
        other => return Err(format!("unknown op {other:?}")),
    }
    let mut out = case.object("out")?;
    let queue = out.texts("queue")?;
    out.finish()?;
    harness.put(object.clone(), now)?;
    expect_eq("queue", &harness.drain(0), &queue)?;
    // A resync updates each object to itself, and so does a list of the same objects.
    harness.jobs.resync(now);
    expect_eq("queue after a resync", &harness.drain(0), &queue)?;
    harness.jobs.replace(vec![job(object)?], &1.into(), now);
    expect_eq("queue after a list", &harness.drain(0), &queue)
}

/// Runs one case of `ttl_sync`: one whole sync with a scripted API.
pub(super) fn sync(case: &mut Fields) -> Result<(), String> {
    // Ignore the origin of the case, and another form of `nowUnixNano`.
    case.text("category")?;
    case.text("now")?;
    let now = Now {
        mono_ns: MONO_NS,
        wall_ns: case.int("nowUnixNano")?,
    };
    let cached = case.value("job");
    let mut fresh = cached.clone();
    if let (Value::Object(fresh), Some(Value::Object(merge))) =
        (&mut fresh, &case.take("freshMerge"))
    {
        json_merge(fresh, merge);
    }
    let mut api = Api {
        fresh,
        get_error: case.take("getError"),
        delete_error: case.take("deleteError"),
        requests: Vec::new(),
    };
    let key = case.text("key")?;
    let mut out = case.object("out")?;
    let (namespace, name) = match parse_key(&key) {
        Ok(names) => names,
        Err(error) => {
            // Keys consist of names here, so an invalid key never reaches a sync.
            return out.is(json!({"error": error.to_string()}));
        }
    };
    let harness = Harness::new();
    harness.put(cached, now)?;
    harness.drain(now.mono_ns);
    let run = run(
        &harness,
        harness.controller.key(namespace, name),
        now,
        &mut api,
    )?;
    out.is(json!({
        "error": run, "requests": api.requests, "durationObserved": harness.observed()? == 1,
        "addAfter": harness.drain_delayed(now.mono_ns),
    }))
}

/// Runs the sync of a key like a worker, and returns the text of the error. Keys that the sync has
/// postponed remain in the queue.
fn run(
    harness: &Harness,
    key: podstorm::intern::KeyId,
    now: Now,
    api: &mut Api,
) -> Result<Option<String>, String> {
    let (controller, queue) = (&harness.controller, harness.controller.queue());
    // The key has failed earlier; a successful sync makes the queue forget the failure.
    queue.add_rate_limited(key, 0);
    harness.drain_delayed(0);
    queue.add(key, now.mono_ns);
    let _taken = queue.try_take(now.mono_ns);
    let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
    let mut unexpected = None;
    let mut transport = |request: &Request, _: Now| {
        api.answer(request).unwrap_or_else(|text| {
            unexpected.get_or_insert(text);
            Answer::Failed(podstorm::client::ApiError::transport("unexpected"))
        })
    };
    let progress = driver.begin(controller, 0, key, &mut transport, now);
    assert_eq!(progress, Progress::Finished, "the API answers immediately");
    if let Some(error) = unexpected {
        return Err(error);
    }
    if !driver.sync.events().is_empty() {
        return Err("the controller must not write an Event".to_owned());
    }
    driver.finish(controller, now);
    let error = driver.sync.failure();
    let error = error.map(|failure| failure.message.clone());
    let failures = queue.num_requeues(key);
    expect_eq(
        "failures",
        &failures,
        &(if error.is_some() { 2 } else { 0 }),
    )?;
    if error.is_some() {
        // Remove the retry after the failure, so that only postponed keys remain.
        let retries = harness.drain_delayed(now.mono_ns);
        expect_eq("retries", &retries.len(), &1)?;
    }
    Ok(error)
}

/// The API, scripted by the case.
struct Api {
    fresh: Value,
    get_error: Option<Value>,
    delete_error: Option<Value>,
    requests: Vec<Value>,
}

impl Api {
    fn answer(&mut self, request: &Request) -> Result<Answer, String> {
        let info = RequestInfo::from_request(request);
        let (kind, namespace, name) = match request {
            Request::Get {
                kind,
                namespace,
                name,
            }
            | Request::Delete {
                kind,
                namespace,
                name,
                ..
            } => (kind, namespace, name),
            other => return Err(format!("upstream never makes this request: {other:?}")),
        };
        let mut note = json!({
            "verb": info.verb, "resource": kind.resource(),
            "namespace": &**namespace, "name": name.as_str(),
        });
        let (error, answer) = match request {
            Request::Delete { options, .. } => {
                note["options"] = shown(options.as_deref());
                (&self.delete_error, Answer::Deleted(None))
            }
            _ => (&self.get_error, Answer::Object(job(self.fresh.clone())?)),
        };
        self.requests.push(note);
        match error {
            Some(error) => Ok(Answer::Failed(api_error(error)?)),
            None => Ok(answer),
        }
    }
}

/// Formats the options of a deletion like the recordings.
fn shown(options: Option<&DeleteOptions>) -> Value {
    let Some(options) = options else {
        return Value::Null;
    };
    let DeleteOptions {
        grace_period_seconds,
        propagation,
        precondition_uid,
        precondition_rv,
        orphan_dependents,
    } = options;
    let mut preconditions = json!({});
    if let Some(uid) = precondition_uid {
        preconditions["uid"] = uid.to_string().into();
    }
    if let Some(version) = precondition_rv {
        preconditions["resourceVersion"] = version.to_string().into();
    }
    let mut shown = json!({"preconditions": preconditions});
    if let Some(propagation) = propagation {
        shown["propagationPolicy"] = propagation.as_str().into();
    }
    if let Some(seconds) = grace_period_seconds {
        shown["gracePeriodSeconds"] = (*seconds).into();
    }
    if let Some(orphan) = orphan_dependents {
        shown["orphanDependents"] = (*orphan).into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::{Cluster, ClusterOptions};

    use super::*;
    use crate::requests::{furnish, samples};

    /// A request that the controller never sends is an error.
    #[test]
    fn a_request_without_a_recording_is_an_error() {
        let cluster = Cluster::new(ClusterOptions::default());
        furnish(&cluster, Now::default());
        for sample in samples(&cluster) {
            let mut api = Api {
                fresh: json!({}),
                get_error: None,
                delete_error: None,
                requests: Vec::new(),
            };
            let answer = api.answer(&sample.request);
            let is_recorded =
                matches!(sample.request, Request::Get { .. } | Request::Delete { .. });
            assert_eq!(answer.is_ok(), is_recorded, "{:?}", sample.request);
            // A request for another resource differs from the recorded ones.
            let resource = RequestInfo::from_request(&sample.request)
                .kind
                .map(|kind| kind.resource());
            let noted = api.requests.first().and_then(|it| it["resource"].as_str());
            assert!(noted.is_none() || noted == resource, "{noted:?}");
        }
    }
}
