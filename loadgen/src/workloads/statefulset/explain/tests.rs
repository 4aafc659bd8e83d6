//! Tests of the explanations of a StatefulSet with three pods, one for each wait and each note.

use std::path::PathBuf;

use podstorm::policy::Behaviour;
use podstorm::statefulset::identity::REVISION_LABEL;
use podstorm_objects::Now;
use serde_json::json;

use super::*;
use crate::manifest;
use crate::workloads::Gates;
use crate::workloads::statefulset::tests::{dump, pulls_nothing, ready};

fn explained(objects: &[Value], replicas: Option<i32>, image: Option<&str>) -> Answer {
    explained_by(Behaviour::Upstream, objects, replicas, image)
}

fn explained_by(
    behaviour: Behaviour,
    objects: &[Value],
    replicas: Option<i32>,
    image: Option<&str>,
) -> Answer {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let loaded = manifest::load(&[PathBuf::from("-")], text.as_bytes()).unwrap();
    let found = find(loaded.objects, "shop/web").unwrap();
    let options = StatefulSets::options(&Gates::new(), &behaviour.policy());
    let server = Server::new(&found, replicas, image, options, Now::default()).unwrap();
    explain(server)
}

/// Returns the requests for pods: `1 create pods web-3`.
fn pods_of(answer: &Answer) -> Vec<String> {
    let syncs = answer.syncs.iter().enumerate();
    let all = syncs.flat_map(|(at, asked)| asked.iter().map(move |asked| (at + 1, asked)));
    let of_pods = all.filter(|(_, asked)| asked.request.ends_with(" pods"));
    let words = of_pods.map(|(at, asked)| format!("{at} {} {}", asked.request, asked.name));
    words.collect()
}

fn wait_of(answer: &Answer) -> (&str, &str) {
    let wait = answer.waits.first();
    wait.map_or(("", ""), |wait| (wait.rule, &*wait.pod))
}

/// Returns a dump in which the last pod comes from a broken template that was then reverted.
fn reverted() -> Vec<Value> {
    let mut objects = dump("web:1", pulls_nothing);
    objects[5]["metadata"]["labels"][REVISION_LABEL] = "web-bad".into();
    for count in [
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
    ] {
        objects[0]["status"][count] = 2.into();
    }
    objects
}

#[test]
fn the_hardened_controller_deletes_the_broken_pod_itself() {
    let upstream = explained(&reverted(), None, None);
    assert_eq!(upstream.delete, ["web-2"]);
    assert_eq!(pods_of(&upstream), [""; 0]);
    let hardened = explained_by(Behaviour::Hardened, &reverted(), None, None);
    assert_eq!(pods_of(&hardened)[0], "1 delete pods web-2");
    assert_eq!(hardened.delete, [""; 0]);
}

#[test]
fn a_healthy_set_makes_no_request_and_waits_for_nothing() {
    let answer = explained(&dump("web:1", ready), None, None);
    assert_eq!(answer.state, "settled");
    assert_eq!(answer.syncs, [[]; 0]);
    assert_eq!((answer.waits.len(), answer.notes.len()), (0, 0));
    assert!(answer.rollout.starts_with("partitioned roll out complete"));
    assert_eq!((answer.pods, answer.ready), (3, 3));
}

#[test]
fn a_reverted_set_is_stuck_at_the_pod_that_must_be_deleted() {
    let answer = explained(&reverted(), None, None);
    assert_eq!(answer.state, "stuck");
    assert_eq!(answer.syncs, [[]; 0]);
    assert_eq!(wait_of(&answer), ("not-ready", "web-2"));
    assert_eq!(answer.waits[0].revision, "web-bad");
    assert_eq!(answer.delete, ["web-2"]);
    let note = &answer.notes[0];
    assert!(
        note.starts_with("Reverted but stuck: web-2 is of revision web-bad"),
        "{note}"
    );
    assert!(note.ends_with("kubectl delete pod -n shop web-2"), "{note}");
    // With Parallel pod management, the controller deletes the pod.
    let mut objects = reverted();
    objects[0]["spec"]["podManagementPolicy"] = "Parallel".into();
    let answer = explained(&objects, None, None);
    assert_eq!(pods_of(&answer), ["1 delete pods web-2"]);
    assert_eq!((answer.state, answer.delete.len()), ("waiting", 0));
}

#[test]
fn a_stuck_pod_must_be_deleted_after_a_template_change() {
    let mut objects = dump("web:1", pulls_nothing);
    for count in ["readyReplicas", "availableReplicas"] {
        objects[0]["status"][count] = 2.into();
    }
    let answer = explained(&objects, None, None);
    assert_eq!(
        (answer.state, answer.delete),
        ("stuck", vec!["web-2".to_owned()])
    );
    assert!(
        answer.notes[0].contains("ImagePullBackOff"),
        "{:?}",
        answer.notes
    );
}

#[test]
fn a_change_of_size_is_one_pod_at_a_time() {
    let objects = dump("web:1", ready);
    let grown = explained(&objects, Some(5), None);
    assert_eq!(pods_of(&grown), ["1 create pods web-3"]);
    assert_eq!(wait_of(&grown), ("not-ready", "web-3"));
    assert_eq!(grown.state, "waiting");
    let shrunk = explained(&objects, Some(1), None);
    assert_eq!(pods_of(&shrunk), ["1 delete pods web-2"]);
    assert_eq!(wait_of(&shrunk), ("terminating", "web-2"));
    let mut parallel = objects;
    parallel[0]["spec"]["podManagementPolicy"] = "Parallel".into();
    let grown = explained(&parallel, Some(5), None);
    assert_eq!(
        pods_of(&grown),
        ["1 create pods web-3", "1 create pods web-4"]
    );
}

#[test]
fn an_image_is_rolled_out_down_to_the_partition() {
    let mut objects = dump("web:1", ready);
    let answer = explained(&objects, None, Some("web:2"));
    assert_eq!(pods_of(&answer), ["1 delete pods web-2"]);
    assert_eq!(wait_of(&answer), ("terminating", "web-2"));
    let first = &answer.syncs[0][0];
    assert_eq!(first.request, "create controllerrevisions");
    assert_ne!(answer.current_revision, answer.update_revision);
    objects[0]["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 2.into();
    let answer = explained(&objects, None, Some("web:2"));
    assert_eq!(pods_of(&answer), ["1 delete pods web-2"]);
    let note = answer.notes.last().unwrap();
    assert!(
        note.starts_with("The partition 2 keeps web-0, web-1 as they are"),
        "{note}"
    );
    objects[0]["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let answer = explained(&objects, None, Some("web:2"));
    assert_eq!((answer.state, pods_of(&answer).len()), ("settled", 0));
    assert!(
        answer.notes[0].starts_with("OnDelete: web-0, web-1, web-2 stay"),
        "{:?}",
        answer.notes
    );
}

#[test]
fn a_missing_pod_is_created_first() {
    let mut objects = reverted();
    objects.remove(3);
    let answer = explained(&objects, None, None);
    assert_eq!(pods_of(&answer), ["1 create pods web-0"]);
    assert_eq!(wait_of(&answer), ("not-ready", "web-0"));
}
