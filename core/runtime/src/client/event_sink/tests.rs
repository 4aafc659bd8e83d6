//! Tests of the event sink.

use std::sync::Arc;

use super::*;
use crate::client::{ObjectReference, Reason};
use podstorm_objects::Kind;

const RANDOM: f64 = 0.25;

fn now(seconds: i64) -> Now {
    Now::default().plus_ns(seconds * 1_000_000_000)
}

fn intent(pod: &str) -> EventIntent {
    let regarding = ObjectReference {
        kind: Kind::REPLICA_SET,
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
        resource_version: 1.into(),
    };
    EventIntent::deleted_pod(&Arc::new(regarding), &pod.into())
}

fn sink(pods: &[&str]) -> EventSink {
    let mut sink = EventSink::new("replicaset-controller");
    for pod in pods {
        assert!(sink.push(intent(pod), now(0)));
    }
    sink
}

#[test]
fn one_write_is_in_progress_at_a_time() {
    let mut sink = sink(&["a", "b"]);
    assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
    assert_eq!(sink.next(now(0)), SinkStep::InFlight);
    sink.answered(Ok(()), now(1), RANDOM);
    assert!(matches!(sink.next(now(1)), SinkStep::Create(_)));
    sink.answered(Ok(()), now(1), RANDOM);
    assert_eq!(sink.next(now(1)), SinkStep::Idle);
}

#[test]
fn the_queue_drops_intents_beyond_1000() {
    let mut sink = sink(&[]);
    for n in 0..1003 {
        assert_eq!(sink.push(intent("a"), now(0)), n < 1000);
    }
    assert_eq!(sink.dropped(), 3);
}

#[test]
fn a_failed_transport_is_tried_12_times_10_seconds_apart() {
    let mut sink = sink(&["a", "b"]);
    let error = ApiError::transport("connection refused");
    let mut at = now(0);
    for tries in 1..=12 {
        assert!(matches!(sink.next(at), SinkStep::Create(_)), "try {tries}");
        sink.answered(Err(&error), at, RANDOM);
        if tries < 12 {
            let wait_ns = if tries == 1 {
                2_500_000_000
            } else {
                10_000_000_000
            };
            let until_ns = at.mono_ns + wait_ns;
            assert_eq!(sink.next(at), SinkStep::Wait { until_ns });
            at = at.plus_ns(wait_ns);
        }
    }
    // The first event is dropped, and the second is next.
    assert!(matches!(sink.next(at), SinkStep::Create(_)));
}

#[test]
fn a_status_other_than_success_drops_the_event() {
    let mut sink = sink(&["a"]);
    let error = ApiError::status(403, Reason::Forbidden, "being terminated");
    assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
    sink.answered(Err(&error), now(0), RANDOM);
    assert_eq!(sink.next(now(0)), SinkStep::Idle);
}

#[test]
fn a_patch_that_finds_no_event_becomes_a_create() {
    let mut sink = sink(&["a", "a"]);
    let gone = ApiError::status(404, Reason::NotFound, "gone");
    assert!(matches!(sink.next(now(0)), SinkStep::Create(_)));
    sink.answered(Ok(()), now(0), RANDOM);
    assert!(matches!(sink.next(now(0)), SinkStep::Patch(_)));
    sink.answered(Err(&gone), now(0), RANDOM);
    let SinkStep::Create(event) = sink.next(now(0)) else {
        panic!()
    };
    assert_eq!(event.count, 2);
    // A 404 for the create, e.g. because the namespace is missing, drops the event.
    sink.answered(Err(&gone), now(0), RANDOM);
    assert_eq!(sink.next(now(0)), SinkStep::Idle);
}

#[test]
fn intents_dropped_by_the_recorder_never_reach_the_driver() {
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let mut sink = sink(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut writes = 0;
    while sink.next(now(0)) != SinkStep::Idle {
        writes += 1;
        sink.answered(Ok(()), now(0), RANDOM);
    }
    assert_eq!(writes, 25);
}
