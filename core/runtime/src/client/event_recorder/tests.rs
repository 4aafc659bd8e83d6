//! Tests of the event correlation.

use serde_json::json;

use super::super::EventMessage;
use super::*;
use podstorm_objects::{Kind, Object};

fn now(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * 1_000_000_000,
        wall_ns: (1_800_000_000 + seconds) * 1_000_000_000,
    }
}

fn web(version: u64) -> Arc<ObjectReference> {
    Arc::new(ObjectReference {
        kind: Kind::REPLICA_SET,
        namespace: "shop".into(),
        name: "web".into(),
        uid: Uid::new("7f420cbd-206a-47ea-a64a-f37288a6840d"),
        resource_version: version.into(),
    })
}

fn created(version: u64, pod: usize) -> EventIntent {
    EventIntent::created_pod(&web(version), &format!("web-{pod}").into())
}

fn recorder() -> EventRecorder {
    EventRecorder::new("replicaset-controller")
}

/// Returns the numbers of creates and patches that result from recording these intents.
fn totals(
    recorder: &mut EventRecorder,
    intents: impl Iterator<Item = EventIntent>,
    at: Now,
) -> (usize, usize) {
    let mut totals = (0, 0);
    for intent in intents {
        match recorder.record(intent, at) {
            Some(EventWrite::Create(_)) => totals.0 += 1,
            Some(EventWrite::Patch(_)) => totals.1 += 1,
            None => continue,
        }
        recorder.written();
    }
    totals
}

#[test]
fn a_burst_of_500_creations_writes_25_events_16_combined() {
    let mut recorder = recorder();
    let mut writes = Vec::new();
    for pod in 0..500 {
        writes.extend(recorder.record(created(1, pod), now(0)));
        recorder.written();
    }
    assert_eq!(writes.len(), 25);
    let names: Vec<String> = writes
        .iter()
        .map(|write| match write {
            EventWrite::Create(event) => event.metadata.name.to_string(),
            EventWrite::Patch(patch) => patch.name.clone(),
        })
        .collect();
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), 10);
    for (write, name) in writes.iter().zip(&names).skip(10) {
        let EventWrite::Patch(patch) = write else {
            panic!("{write:?}")
        };
        assert_eq!(*name, names[9]);
        let combined = "(combined from similar events): Created pod: ";
        assert!(patch.message.starts_with(combined));
    }
    let EventWrite::Patch(last) = &writes[24] else {
        panic!()
    };
    assert_eq!(last.count, 16);
    assert_eq!(
        last.message,
        "(combined from similar events): Created pod: web-24"
    );
}

#[test]
fn the_count_grows_while_writes_are_dropped() {
    let mut recorder = recorder();
    totals(&mut recorder, (0..500).map(|pod| created(1, pod)), now(0));
    let write = recorder.record(created(2, 500), now(301));
    let Some(EventWrite::Patch(patch)) = write else {
        panic!("{write:?}")
    };
    assert_eq!(patch.count, 492);
}

#[test]
fn a_token_comes_back_every_300_seconds() {
    let mut recorder = recorder();
    for (pods, seconds, written) in [
        (0..40, 0, (10, 15)),
        (40..50, 299, (0, 0)),
        (50..60, 300, (0, 1)),
        (60..70, 900, (0, 2)),
    ] {
        let intents = pods.map(|pod| created(1, pod));
        assert_eq!(totals(&mut recorder, intents, now(seconds)), written);
    }
}

#[test]
fn warnings_have_their_own_bucket() {
    let mut recorder = recorder();
    totals(&mut recorder, (0..40).map(|pod| created(1, pod)), now(0));
    let failed = EventIntent::failed_create(&web(1), &"quota exceeded");
    assert!(matches!(
        recorder.record(failed, now(0)),
        Some(EventWrite::Create(_))
    ));
}

#[test]
fn repeated_messages_are_counted_and_never_combined() {
    let mut recorder = recorder();
    let failed = || EventIntent::failed_create(&web(1), &"quota exceeded");
    let written = totals(&mut recorder, (0..40).map(|_| failed()), now(0));
    assert_eq!(written, (1, 24));
    let EventWrite::Patch(patch) = recorder.record(failed(), now(300)).unwrap() else {
        panic!()
    };
    assert_eq!(patch.count, 41);
    assert_eq!(patch.message, "Error creating: quota exceeded");
    assert_eq!(
        patch.body(),
        json!({"count": 41, "lastTimestamp": "2027-01-15T08:05:00Z", "message": patch.message})
    );
}

#[test]
fn an_aggregate_starts_over_after_more_than_600_quiet_seconds() {
    for (silence, combined) in [(600, true), (601, false)] {
        let mut recorder = recorder();
        totals(&mut recorder, (0..9).map(|pod| created(1, pod)), now(0));
        let write = recorder.record(created(1, 99), now(silence)).unwrap();
        let EventWrite::Create(event) = write else {
            panic!("{write:?}")
        };
        let message = &*event.message;
        let is_combined = message.starts_with(COMBINED);
        assert_eq!(is_combined, combined, "{silence} s: {message}");
    }
}

#[test]
fn objects_are_separate_but_versions_of_one_object_are_not() {
    let mut recorder = recorder();
    assert_eq!(
        totals(&mut recorder, (0..40).map(|n| created(n as u64, n)), now(0)),
        (10, 15)
    );
    let mut other = (*web(1)).clone();
    other.uid = Uid::new("8df9bcb8-481d-4037-8798-84343b02ebd7");
    let intent = EventIntent::deleted_pod(&Arc::new(other), &"web-x".into());
    assert!(recorder.record(intent, now(0)).is_some());
}

#[test]
fn an_event_has_the_fields_of_core_v1() {
    let mut recorder = recorder();
    let Some(EventWrite::Create(event)) = recorder.record(created(12, 3), now(0)) else {
        panic!()
    };
    assert_eq!(event.metadata.name, "web.18fae27693b40000");
    assert_eq!(&*event.metadata.namespace, "shop");
    assert_eq!(
        event.to_json(),
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": "web.18fae27693b40000", "namespace": "shop"},
            "involvedObject": {
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "namespace": "shop", "resourceVersion": "12",
                "uid": "7f420cbd-206a-47ea-a64a-f37288a6840d",
            },
            "reason": "SuccessfulCreate", "message": "Created pod: web-3", "type": "Normal",
            "count": 1, "eventTime": null,
            "firstTimestamp": "2027-01-15T08:00:00Z", "lastTimestamp": "2027-01-15T08:00:00Z",
            "source": {"component": "replicaset-controller"},
            "reportingComponent": "replicaset-controller", "reportingInstance": "",
        })
    );
}

#[test]
fn a_deleted_event_is_created_again_with_its_count() {
    let mut recorder = recorder();
    let deleted = || EventIntent::deleted_pod(&web(1), &"web-1".into());
    let Some(EventWrite::Create(first)) = recorder.record(deleted(), now(0)) else {
        panic!()
    };
    let Some(EventWrite::Patch(patch)) = recorder.record(deleted(), now(60)) else {
        panic!()
    };
    let again = patch.to_event();
    assert_eq!(again.metadata, first.metadata);
    assert_eq!(again.count, 2);
    assert_eq!(again.first_timestamp, first.first_timestamp);
    assert_eq!(again.last_timestamp, now(60).wall());
    assert!(Arc::ptr_eq(&again.topic, &first.topic));
}

#[test]
fn event_names_differ_even_when_the_clock_stands_still() {
    let mut recorder = recorder();
    let mut names = std::collections::BTreeSet::new();
    for pod in 0..9 {
        let Some(EventWrite::Create(event)) = recorder.record(created(1, pod), now(0)) else {
            panic!()
        };
        assert!(names.insert(event.metadata.name));
    }
    assert_eq!(recorder.event_name(&"n".repeat(253), 1).len(), 36);
}

#[test]
fn a_message_about_two_parts_makes_two_events() {
    let mut recorder = EventRecorder::new("kubelet").on_node("node-1");
    let started = || EventIntent {
        regarding: web(1),
        kind: EventType::Normal,
        reason: "Started",
        message: EventMessage::Text("Container started".into()),
    };
    let mut counts = Vec::new();
    for part in [
        "spec.containers{a}",
        "spec.containers{b}",
        "spec.containers{a}",
        "",
    ] {
        let write = recorder.correlate_part(started(), part, now(0), now(0));
        recorder.written();
        let topic = match write.expect("few events pass") {
            EventWrite::Create(event) => {
                counts.push(1);
                event.topic
            }
            EventWrite::Patch(patch) => {
                counts.push(patch.count);
                patch.source.topic
            }
        };
        assert_eq!((&*topic.host, &*topic.component), ("node-1", "kubelet"));
        let reporter = (&*topic.reporting_component, &*topic.reporting_instance);
        assert_eq!(reporter, ("kubelet", "node-1"));
    }
    assert_eq!(counts, [1, 1, 2, 1]);
}

#[test]
fn recorders_that_share_numbers_never_repeat_a_name() {
    let stamps = EventStamps::default();
    let moments = [100, 100, 50, 102, 200].map(|wall_ns| stamps.next(wall_ns));
    assert_eq!(moments, [100, 101, 102, 103, 200]);
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let mut recorder = recorder().with_stamps(stamps.clone());
        for pod in [1, 2] {
            let Some(EventWrite::Create(event)) = recorder.record(created(1, pod), now(0)) else {
                panic!("the name is new");
            };
            names.insert(event.metadata.name.to_string());
        }
    }
    assert_eq!(names.len(), 4);
}
