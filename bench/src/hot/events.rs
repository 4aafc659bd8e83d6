//! Events: from the occurrence to the object that a cluster stores.

use std::collections::VecDeque;
use std::sync::Arc;

use podstorm::client::{EventIntent, EventMessage, EventRecorder, EventType, EventWrite};
use podstorm::object::{Event, Kind, Namespace, Now, ObjectMeta, ObjectReference, Resource as _};
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions};
use serde_json::json;

use crate::clusters::NOW;

fn cluster() -> Cluster {
    let cluster = Cluster::new(ClusterOptions::default());
    let namespace = Namespace::from_json(json!({"metadata": {"name": "shop"}}));
    let namespace = namespace.expect("a readable namespace");
    cluster.create(namespace, NOW).expect("a new namespace");
    cluster
}

fn pod(number: u64) -> Arc<ObjectReference> {
    let meta = ObjectMeta {
        name: format!("web-{number}").as_str().into(),
        namespace: "shop".into(),
        uid: format!("p{number}").as_str().into(),
        ..ObjectMeta::default()
    };
    Arc::new(ObjectReference::new(Kind::POD, &meta))
}

fn started(pod: &Arc<ObjectReference>) -> EventIntent {
    EventIntent {
        regarding: Arc::clone(pod),
        kind: EventType::Normal,
        reason: "Started",
        message: EventMessage::Text("Container started".into()),
    }
}

fn after_s(seconds: u64) -> Now {
    let ns = seconds as i64 * 1_000_000_000;
    Now {
        mono_ns: NOW.mono_ns + ns,
        wall_ns: NOW.wall_ns + ns,
    }
}

/// Writes the first Event of a pod, and removes the oldest of `stored` Events, as at the end of its
/// time to live.
pub fn create(stored: usize) -> impl FnMut() -> u64 {
    let (cluster, mut number) = (cluster(), 0);
    let mut recorder = EventRecorder::new("kubelet").on_node("node-1");
    let mut names = VecDeque::new();
    move || {
        number += 1;
        let now = after_s(number);
        let write = recorder.correlate(started(&pod(number)), now, now);
        let Some(EventWrite::Create(event)) = write else {
            panic!("the first Event of a pod is created: {write:?}");
        };
        names.push_back(event.metadata.name.clone());
        cluster.create(event, now).expect("a new Event");
        recorder.written();
        if names.len() > stored {
            let name = names.pop_front().expect("there are stored Events");
            let options = DeleteOptions::default();
            let gone = cluster.delete::<Event>("shop", &name, &options, now);
            gone.expect("the Event was written");
        }
        number
    }
}

/// Counts the repeated occurrence of an Event, for each of `pods` pods in turn.
pub fn repeat(pods: usize) -> impl FnMut() -> u64 {
    let (cluster, mut number) = (cluster(), 0);
    let mut recorder = EventRecorder::new("kubelet").on_node("node-1");
    let first = pods;
    let pods: Vec<_> = (0..pods as u64).map(pod).collect();
    let mut repeat = move || {
        number += 1;
        let now = after_s(number);
        let pod = &pods[number as usize % pods.len()];
        match recorder.correlate(started(pod), now, now) {
            Some(EventWrite::Create(event)) => cluster.create(event, now),
            Some(EventWrite::Patch(patch)) => cluster.repeat_event(&patch, now),
            None => panic!("a pod may write another Event after five minutes"),
        }
        .expect("the Event is stored");
        recorder.written();
        number
    };
    for _ in 0..first {
        repeat();
    }
    repeat
}

/// Drops an Event of a pod that has already reached its limit of Events.
pub fn dropped() -> impl FnMut() -> u64 {
    let mut recorder = EventRecorder::new("replicaset-controller");
    let (pod, name) = (pod(0), "web-x1y2z".into());
    move || {
        let write = recorder.correlate(EventIntent::created_pod(&pod, &name), NOW, NOW);
        let is_written = write.is_some();
        if is_written {
            recorder.written();
        }
        is_written.into()
    }
}
