//! Tests beyond the recorded cases: several syncs of a key, the queue after them, the metric, and
//! the surprising behaviour of upstream's controller that is kept.

use std::sync::Arc;

use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind, Now, Time};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{Driver, SyncState as _, Workload, sync_all};
use podstorm_runtime::informer::{AnyInformer, Informers};
use podstorm_runtime::row::Pods;
use serde_json::{Value, json};

use super::{Controller, TtlAfterFinished};
use crate::cache::Delta;
use crate::controller::ControllerType as _;

const SECOND_NS: i64 = 1_000_000_000;
/// The end time of the Job, in s since the Unix epoch. The monotonic clock starts then.
const FINISHED: i64 = 1_800_000_000;

fn at(mono_ns: i64) -> Now {
    Now {
        mono_ns,
        wall_ns: FINISHED * SECOND_NS + mono_ns,
    }
}

/// Builds a complete Job with a TTL of 30 s; `spec` and `status` are merged over it.
fn job(spec: &Value, status: &Value) -> AnyObject {
    let since = Time::from_unix_seconds(FINISHED).to_string();
    let mut job = json!({
        "metadata": {"namespace": "ns", "name": "j", "uid": "first", "resourceVersion": "7"},
        "spec": {"ttlSecondsAfterFinished": 30},
        "status": {"conditions": [
            {"type": "Complete", "status": "True", "lastTransitionTime": since},
        ]},
    });
    for (part, over) in [("spec", spec), ("status", status)] {
        for (name, value) in over.as_object().expect("members") {
            job[part][name] = value.clone();
        }
    }
    Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a readable Job"))
}

fn finished(spec: &Value) -> AnyObject {
    job(spec, &json!({}))
}

/// A controller, and a server with at most one Job.
struct World {
    controller: Controller,
    jobs: Arc<dyn AnyInformer>,
    driver: Driver<<Controller as Workload>::Sync>,
    live: Option<AnyObject>,
    delete_error: Option<ApiError>,
    requests: Vec<&'static str>,
    outcomes: Vec<&'static str>,
}

impl World {
    /// Creates a harness whose cache has the server's Job.
    fn new(job: &AnyObject) -> World {
        let mut informers = Informers::new(Arc::default());
        let world = World {
            controller: Controller::new(&mut informers),
            jobs: informers.take(Kind::JOB),
            driver: Driver::default(),
            live: Some(job.clone()),
            delete_error: None,
            requests: Vec::new(),
            outcomes: Vec::new(),
        };
        world.comes(job, 0);
        world
    }

    fn comes(&self, job: &AnyObject, now_ns: i64) {
        self.jobs.apply(Delta::Applied(job.clone()), at(now_ns));
    }

    /// Syncs the keys that are due. Returns the requests.
    fn sync(&mut self, now_ns: i64) -> Vec<&'static str> {
        let World {
            driver,
            live,
            delete_error,
            requests,
            outcomes,
            ..
        } = self;
        let mut server = |request: &Request, _: Now| match request {
            Request::Get { .. } => {
                requests.push("get");
                match live {
                    Some(live) => Answer::Object(live.clone()),
                    None => Answer::Failed(gone()),
                }
            }
            Request::Delete { options, .. } => {
                requests.push("delete");
                let uid = options.as_ref().and_then(|it| it.precondition_uid.as_ref());
                assert_eq!(uid, live.as_ref().map(|live| &live.metadata().uid));
                match delete_error {
                    Some(error) => Answer::Failed(error.clone()),
                    None => {
                        *live = None;
                        Answer::Deleted(None)
                    }
                }
            }
            other => panic!("unexpected request: {other:?}"),
        };
        let ended = |sync: &mut <Controller as Workload>::Sync| outcomes.push(sync.outcome_label());
        sync_all(&self.controller, driver, &mut server, at(now_ns), ended);
        std::mem::take(&mut self.requests)
    }

    fn next_due(&self) -> Option<i64> {
        self.controller.queue().next_due()
    }
}

fn gone() -> ApiError {
    ApiError::status(404, Reason::NotFound, "jobs.batch \"j\" not found")
}

#[test]
fn a_job_is_deleted_at_its_exact_expiry_and_counted() {
    let mut world = World::new(&finished(&json!({})));
    assert!(world.sync(SECOND_NS + 1).is_empty());
    assert_eq!(world.next_due(), Some(30 * SECOND_NS));
    assert!(world.sync(30 * SECOND_NS - 1).is_empty());
    assert_eq!(world.sync(30 * SECOND_NS), ["get", "delete"]);
    assert_eq!(world.next_due(), None);
    let mut text = String::new();
    let families = world.controller.families();
    families
        .iter()
        .for_each(|family| family.write_text(&mut text));
    let name = "ttl_after_finished_controller_job_deletion_duration_seconds";
    for line in [
        format!("# TYPE {name} histogram"),
        format!("{name}_bucket{{le=\"0.1\"}} 1"),
        format!("{name}_bucket{{le=\"819.2\"}} 1"),
        format!("{name}_sum 0"),
        format!("{name}_count 1"),
    ] {
        assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    }
    assert_eq!(text.matches("_bucket").count(), 15);
}

#[test]
fn a_postponed_key_forgets_its_failures() {
    let mut world = World::new(&finished(&json!({})));
    let key = world.controller.key("ns", "j");
    world.controller.queue().add_rate_limited(key, 0);
    assert_eq!(world.controller.queue().num_requeues(key), 1);
    world.sync(SECOND_NS);
    assert_eq!(world.controller.queue().num_requeues(key), 0);
    assert_eq!(world.next_due(), Some(30 * SECOND_NS));
}

#[test]
fn a_deletion_that_finds_no_job_is_retried_until_uncached() {
    let mut world = World::new(&finished(&json!({"ttlSecondsAfterFinished": 0})));
    world.delete_error = Some(gone());
    assert_eq!(world.sync(0), ["get", "delete"]);
    assert_eq!(world.outcomes, ["delete failed"]);
    // The retry is due after 5 ms. By then the server no longer has the Job.
    assert_eq!(world.next_due(), Some(5_000_000));
    world.live = None;
    assert_eq!(world.sync(5_000_000), ["get"]);
    assert_eq!(world.next_due(), None);
    let job = finished(&json!({}));
    world.jobs.apply(Delta::Deleted(job), at(SECOND_NS));
    assert!(
        world.sync(SECOND_NS).is_empty(),
        "a deletion must not wake the key"
    );
    let families = world.controller.families();
    let mut text = String::new();
    families[0].write_text(&mut text);
    assert!(
        text.contains("_count 0"),
        "only accepted deletions count: {text}"
    );
}

/// The TTL of the cached Job has ended, but the TTL of the Job on the server has not.
#[test]
fn a_longer_ttl_counts_before_the_cache_has_it() {
    let mut world = World::new(&finished(&json!({})));
    let longer = finished(&json!({"ttlSecondsAfterFinished": 45}));
    world.live = Some(longer.clone());
    assert_eq!(world.sync(31 * SECOND_NS), ["get"]);
    assert_eq!(world.next_due(), Some(45 * SECOND_NS));
    world.comes(&longer, 32 * SECOND_NS);
    assert!(world.sync(32 * SECOND_NS).is_empty());
    assert_eq!(world.sync(45 * SECOND_NS), ["get", "delete"]);
}

/// If the TTL is removed, the key stays in the queue, and the sync does nothing.
#[test]
fn a_removed_ttl_keeps_the_job() {
    let mut world = World::new(&finished(&json!({})));
    world.sync(0);
    world.comes(
        &finished(&json!({"ttlSecondsAfterFinished": null})),
        SECOND_NS,
    );
    assert_eq!(world.next_due(), Some(30 * SECOND_NS));
    assert!(world.sync(30 * SECOND_NS).is_empty());
    assert_eq!(world.outcomes, ["ok", "ok"]);
    assert_eq!(world.next_due(), None);
}

#[test]
fn hazard_a_clock_that_is_ahead_deletes_early() {
    let condition = |seconds: i64| {
        let since = Time::from_unix_seconds(FINISHED + seconds).to_string();
        json!({"conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": since},
        ]})
    };
    // The condition was written at 0 s by clocks that are behind or ahead.
    for (skew_s, goes_s) in [(-20, 10), (20, 50), (-40, 0)] {
        let mut world = World::new(&job(&json!({}), &condition(skew_s)));
        let requests = world.sync(0);
        assert_eq!(requests.is_empty(), goes_s > 0, "{skew_s}");
        let due = world.next_due().map(|due_ns| due_ns / SECOND_NS);
        assert_eq!(due.unwrap_or(0), goes_s, "{skew_s}");
    }
}

#[test]
fn hazard_a_condition_without_a_time_is_retried_forever() {
    let status = json!({
        "conditions": [{"type": "Complete", "status": "True"}],
        "completionTime": "2026-01-01T00:00:00Z",
    });
    let mut world = World::new(&job(&json!({}), &status));
    let (mut now_ns, mut longest_ns) = (0, 0);
    for _ in 0..30 {
        assert!(world.sync(now_ns).is_empty(), "the sync sends no request");
        let due_ns = world.next_due().expect("another retry");
        longest_ns = longest_ns.max(due_ns - now_ns);
        now_ns = due_ns;
    }
    assert_eq!(longest_ns, 1_000 * SECOND_NS);
    assert!(world.outcomes.iter().all(|it| *it == "no finish time"));
    let failure = world.driver.sync.failure().expect("it failed");
    assert_eq!(
        failure.message,
        "unable to find the time when the Job ns/j finished"
    );
}

#[test]
fn hazard_a_job_of_another_controller_is_deleted_too() {
    let spec = json!({"managedBy": "example.com/queue"});
    let mut world = World::new(&finished(&spec));
    assert_eq!(world.sync(30 * SECOND_NS), ["get", "delete"]);
}

#[test]
fn hazard_the_longest_ttl_does_not_overflow() {
    let longest = finished(&json!({"ttlSecondsAfterFinished": i32::MAX}));
    let mut world = World::new(&longest);
    assert!(world.sync(1).is_empty());
    assert_eq!(world.next_due(), Some(i64::from(i32::MAX) * SECOND_NS));
    // Years beyond the range of 64 bits of ns.
    for (year, goes) in [("1066", true), ("9999", false)] {
        let since = format!("{year}-10-14T09:00:00Z");
        let status = json!({"conditions": [
            {"type": "Complete", "status": "True", "lastTransitionTime": since},
        ]});
        let mut world = World::new(&job(&json!({}), &status));
        assert_eq!(!world.sync(0).is_empty(), goes, "{year}");
        assert!(world.outcomes == ["ok"], "{year}");
    }
}

/// The UID protects a Job between the read and the deletion. Before the read, another Job of the
/// same name is checked like any other.
#[test]
fn hazard_a_job_recreated_before_the_read_is_checked_itself() {
    for (status, asked) in [
        (json!({}), &["get", "delete"][..]),
        (json!({"conditions": null}), &["get"]),
    ] {
        let mut world = World::new(&finished(&json!({})));
        let second = job(&json!({}), &status);
        let mut second = second
            .downcast_ref::<DynamicObject>()
            .cloned()
            .expect("a Job");
        second.metadata.uid = "second".into();
        world.live = Some(Arc::new(second));
        assert_eq!(world.sync(30 * SECOND_NS), asked);
    }
}

#[test]
fn hazard_every_expired_key_is_read_even_with_a_current_cache() {
    let mut world = World::new(&finished(&json!({})));
    let forbidden = ApiError::status(403, Reason::Forbidden, "no");
    world.delete_error = Some(forbidden);
    let mut reads = 0;
    let mut now_ns = 30 * SECOND_NS;
    for _ in 0..10 {
        let asked = world.sync(now_ns);
        reads += asked.iter().filter(|asked| **asked == "get").count();
        now_ns = world.next_due().expect("a retry");
    }
    assert_eq!(reads, 10);
}

#[test]
fn a_job_without_a_ttl_or_an_end_is_ignored() {
    let condition = |kind: &str, status: &str| {
        json!({"conditions": [{"type": kind, "status": status,
            "lastTransitionTime": "2020-01-01T00:00:00Z"}]})
    };
    for status in [
        condition("Suspended", "True"),
        condition("SuccessCriteriaMet", "True"),
        condition("FailureTarget", "True"),
        condition("Complete", "False"),
        condition("Failed", "Unknown"),
        json!({"conditions": null}),
    ] {
        let world = World::new(&job(&json!({}), &status));
        assert!(world.controller.queue().is_empty(), "{status}");
    }
    let without = finished(&json!({"ttlSecondsAfterFinished": null}));
    assert!(World::new(&without).controller.queue().is_empty());
}

#[test]
fn the_row_names_every_request_of_a_sync() {
    let row = TtlAfterFinished::ROW;
    for verb in ["get", "delete", "list"] {
        assert!(row.may_send(verb, Kind::JOB, ""), "{verb}");
    }
    assert!(!row.may_send("update", Kind::JOB, "status"));
    assert_eq!(row.pods, Pods::None, "the controller gets no pod events");
    assert_eq!(row.queues[0].name, "ttl_jobs_to_delete");
}
