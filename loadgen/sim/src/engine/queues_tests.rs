//! Tests of a workload with two queues on virtual time: each queue has its own delays, workers and
//! timer.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use podstorm::client::Request;
use podstorm::controller::Setup;
use podstorm::driver::{AsyncSync, Step, SyncFailure, Workload};
use podstorm::informer::{Handler, Informers};
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::row::ControllerRow;
use podstorm::store::{Change, Store};
use podstorm::workqueue::{End, QueueRow, RateLimitingQueue, RetryDelay, Workers};
use podstorm_apiserver::latency::Latency;
use podstorm_objects::{AnyObject, DynamicObject, Kind, Namespace, Now, Resource};
use serde_json::json;

use super::Harness;
use super::registry::Registry;
use super::runner::{AnyRunner, ControllerRunner};
use crate::lock;
use crate::options::{EngineKind, SimOptions};
use crate::services::Controllers;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

/// A queue with two workers, and retries one, two and three seconds after consecutive failures, for
/// any number of keys.
const OWN: QueueRow = QueueRow {
    delay: RetryDelay::Exponential {
        base_ns: SECOND,
        max_ns: 3 * SECOND,
        bucket: false,
    },
    workers: Workers::Number(2),
    ..QueueRow::new("own")
};

/// A queue with one worker, and retries fifteen seconds after each failure.
const OTHER: QueueRow = QueueRow {
    delay: RetryDelay::Fixed(15 * SECOND),
    workers: Workers::Number(1),
    ..QueueRow::new("other")
};

/// A workload whose objects have keys in both queues. A sync makes one request, and the script
/// decides how the sync ends.
#[derive(Debug)]
struct TwoQueues {
    kind: Kind,
    queues: [RateLimitingQueue<KeyId>; 2],
    objects: Arc<Store<AnyObject>>,
    /// The ends of the syncs by queue and name, in order; all others end with `Forget`.
    script: BTreeMap<(usize, &'static str), Vec<End>>,
    /// The syncs so far: for each, its start, ms, its queue, and the object's name.
    syncs: Mutex<Vec<(i64, usize, String)>>,
}

impl TwoQueues {
    fn begins(&self, queue: usize, key: KeyId, now: Now) -> End {
        let name = self.objects.name(key).name.to_string();
        let mut syncs = lock(&self.syncs);
        let is_same = |sync: &&(i64, usize, String)| (sync.1, &sync.2) == (queue, &name);
        let number = syncs.iter().filter(is_same).count();
        let ends = self.script.get(&(queue, &*name));
        let end = ends.and_then(|ends| ends.get(number)).copied();
        syncs.push((now.mono_ns / MS, queue, name));
        end.unwrap_or_default()
    }
}

impl Handler<AnyObject> for TwoQueues {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        for queue in &self.queues {
            queue.add(change.key, now.mono_ns);
        }
    }
}

impl Workload for TwoQueues {
    type Sync = AsyncSync;

    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.objects.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.queues
    }

    fn begin(&self, queue: usize, key: KeyId, sync: &mut AsyncSync, now: Now) -> Step {
        let end = self.begins(queue, key, now);
        sync.begin(key, now, |calls| async move {
            calls
                .request(Request::ReadVersion { kind: Kind::POD })
                .await;
            match end {
                End::Retry => Err(SyncFailure {
                    label: "failed",
                    message: "as planned".to_owned(),
                    is_final: false,
                }),
                end => Ok(end),
            }
        })
    }

    fn resume(&self, sync: &mut AsyncSync, now: Now) -> Step {
        sync.resume(now)
    }
}

/// Returns an empty cluster with only this workload, whose requests take 100 ms.
fn cluster(script: BTreeMap<(usize, &'static str), Vec<End>>) -> (Harness, Arc<TwoQueues>) {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.latency.api = Latency::Constant(100 * MS);
    let kind = podstorm_apiserver::kind_named("ConfigMap").unwrap();
    let made: Arc<OnceLock<Arc<TwoQueues>>> = Arc::default();
    let slot = Arc::clone(&made);
    let make = move |_: &Setup, informers: &mut Informers| {
        let workload = Arc::new(TwoQueues {
            kind,
            queues: [OWN, OTHER].map(RateLimitingQueue::from_row),
            objects: informers.store(kind, || ()),
            script: script.clone(),
            syncs: Mutex::default(),
        });
        informers.add_handler::<AnyObject>(kind, workload.clone());
        slot.set(workload.clone())
            .expect("the cluster has one manager");
        workload
    };
    let row: &ControllerRow = Box::leak(Box::new(ControllerRow {
        name: "two-queues",
        component: "two-queues",
        kind: Some(kind),
        ..ControllerRow::DEFAULT
    }));
    let registry = Registry::upstream().with_row(row, make);
    options.services.controllers = Controllers::of_kinds(&registry.rows(), &[kind]);
    let mut harness = Harness::with_registry(&options, &registry);
    let workload = made.get().expect("the workload was created").clone();
    let namespace = json!({"metadata": {"name": "shop"}});
    let namespace = Namespace::from_json(namespace).unwrap();
    harness.cluster().create(namespace, harness.now()).unwrap();
    assert!(harness.settle(60 * SECOND));
    (harness, workload)
}

fn put(harness: &Harness, kind: Kind, names: &[&str]) {
    for name in names {
        let body = json!({"metadata": {"name": name, "namespace": "shop"}});
        let object = DynamicObject::from_json(kind, body).unwrap();
        let api = harness.cluster().api(kind);
        api.create(Arc::new(object), harness.now()).unwrap();
    }
}

/// Returns the times at which syncs from this queue of this object began, ms.
fn began(workload: &TwoQueues, queue: usize, name: &str) -> Vec<i64> {
    let syncs = lock(&workload.syncs);
    let of = syncs
        .iter()
        .filter(|sync| sync.1 == queue && sync.2 == name);
    of.map(|sync| sync.0).collect()
}

#[test]
fn each_queue_has_its_own_delays_workers_and_timer() {
    let after = End::After(7 * SECOND);
    let (mut harness, workload) = cluster(BTreeMap::from([
        ((0, "a"), vec![End::Retry; 4]),
        ((0, "b"), vec![End::Retry, after, End::Retry]),
        ((1, "a"), vec![End::Retry, after]),
        ((1, "b"), vec![End::Retry, End::Retry]),
    ]));
    put(&harness, workload.kind, &["a", "b", "c"]);
    assert!(harness.settle(600 * SECOND), "everything ends");
    let syncs = |queue| ["a", "b", "c"].map(|name| began(&workload, queue, name));
    // Two syncs run concurrently, and the third begins once one of them is over. A sync takes 100
    // ms; retries are 1, 2, 3 and 3 s after each end.
    assert_eq!(
        syncs(0),
        [
            vec![0, 1_100, 3_200, 6_300, 9_400],
            // The sync after seven seconds resets the failures, so the next retry is 1 s later.
            vec![0, 1_100, 8_200, 9_300],
            vec![100],
        ]
    );
    // Syncs run one after another, even if the other queue's workers are idle.
    assert_eq!(
        syncs(1),
        [
            vec![0, 15_100, 22_200],
            vec![100, 15_200, 30_300],
            vec![200],
        ]
    );
    let now_ns = harness.now().mono_ns;
    for (queue, name) in workload.queues.iter().zip(["own", "other"]) {
        let mut text = String::new();
        for family in queue.families(now_ns) {
            family.write_text(&mut text);
        }
        let syncs = lock(&workload.syncs).clone();
        let own = syncs
            .iter()
            .filter(|sync| (sync.1 == 1) == (name == "other"));
        let line = format!("workqueue_adds_total{{name=\"{name}\"}} {}", own.count());
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
}

#[test]
fn a_sync_that_leaves_its_key_keeps_its_failures() {
    let (mut harness, workload) = cluster(BTreeMap::from([(
        (0, "a"),
        vec![End::Retry, End::Leave, End::Retry],
    )]));
    put(&harness, workload.kind, &["a"]);
    assert!(harness.settle(600 * SECOND));
    assert_eq!(began(&workload, 0, "a"), [0, 1_100]);
    let [own, _] = &workload.queues;
    let key = workload.objects.intern("shop", "a");
    assert_eq!(own.num_requeues(key), 1);
    // The next event brings the key back, and the next failure is the second one.
    let woken_ms = harness.now().mono_ns / MS;
    own.add(key, harness.now().mono_ns);
    put(&harness, workload.kind, &["b"]);
    assert!(harness.settle(600 * SECOND));
    let expected = [0, 1_100, woken_ms, woken_ms + 2_100];
    assert_eq!(began(&workload, 0, "a"), expected);
    assert_eq!(own.num_requeues(key), 0);
}

#[test]
fn a_controller_does_not_rest_while_a_worker_has_a_key() {
    let (harness, workload) = cluster(BTreeMap::new());
    let of = |runner: &Arc<dyn AnyRunner>| Arc::clone(runner) as Arc<dyn Any + Send + Sync>;
    let mut runners = harness.handlers.iter().map(of);
    let runner = runners.find_map(|it| it.downcast::<ControllerRunner<TwoQueues>>().ok());
    let runner = runner.expect("the worker task is installed");
    let now = harness.now();
    assert!(runner.rests_after(0));
    // Taking from an empty queue is not a sync.
    assert_eq!(runner.take(0, now), None);
    assert!(runner.rests_after(0));
    let key = workload.objects.intern("shop", "a");
    workload.queues[0].add(key, now.mono_ns);
    assert!(!runner.rests_after(0), "the key is queued");
    assert_eq!(runner.take(0, now), Some((key, 0)));
    assert!(
        !runner.rests_after(0),
        "the key is neither queued nor with a worker"
    );
    runner.sync_ended();
    assert!(runner.rests_after(1) && !runner.rests_after(2));
}
