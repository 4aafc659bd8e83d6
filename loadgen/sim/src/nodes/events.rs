//! Events about pods from kubelets and the scheduler. They are written to the cluster immediately,
//! if the [client rules](super::ClientRules) enable them.
//!
//! A kubelet's Events are in `core/v1`: the recorder of its node counts repetitions and limits
//! their rate. The scheduler's Events are in `events.k8s.io/v1`: repetitions for an unchanged pod
//! become a series.
//!
//! Source: `tools/record` and `tools/events` of client-go, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::{
    EventIntent, EventMessage, EventRecorder, EventStamps, EventType, EventWrite,
};
use podstorm_apiserver::{Cluster, Patch};
use podstorm_objects::{
    Event, EventTopic, Kind, Map, Now, ObjectMeta, ObjectReference, Pod, PodPhase, Regarding,
    ResourceVersion, Rest, Str, Uid,
};
use serde_json::{Value, json};

use super::control::NodeControl;
use super::pod_life::{PULLED, PodEvent};
use crate::executor::Next;

const MINUTE_NS: i64 = 60 * 1_000_000_000;

/// The time from the last repetition to the end of a series; also the interval between checks for
/// ended series.
const SERIES_NS: i64 = 6 * MINUTE_NS;

/// The time after which a waiting pod is retried even if no change makes it fit.
const FLUSH_NS: i64 = 5 * MINUTE_NS;

/// The interval at which the count of a continuing series is written.
const REFRESH_NS: i64 = 30 * MINUTE_NS;

/// The maximum length of a message in `events.k8s.io/v1`, bytes.
const NOTE_BYTES_MAX: usize = 1024;

/// Records the Events of the kubelets of many nodes.
#[derive(Debug)]
pub(super) struct KubeletEvents {
    cluster: Arc<Cluster>,
    nodes: BTreeMap<Str, NodeEvents>,
}

#[derive(Debug, Default)]
struct NodeEvents {
    /// The recorder of the node's kubelet; `None` until its first Event.
    recorder: Option<EventRecorder>,
    /// The images that were pulled on the node.
    images: BTreeSet<Str>,
}

impl NodeEvents {
    fn entry<'a>(nodes: &'a mut BTreeMap<Str, NodeEvents>, node: &Str) -> &'a mut NodeEvents {
        nodes.entry(node.clone()).or_default()
    }
}

impl KubeletEvents {
    pub(super) fn new(cluster: Arc<Cluster>) -> KubeletEvents {
        KubeletEvents {
            cluster,
            nodes: BTreeMap::new(),
        }
    }

    /// Initializes the images of the nodes in a resumed cluster: each node has the images of the
    /// pods that have run on it.
    pub(super) fn begin(&mut self) {
        let nodes = &mut self.nodes;
        self.cluster.for_each::<Pod>(|pod| {
            let has_run = !matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset);
            if let Some(node) = pod.node_name.as_ref().filter(|_| has_run) {
                let all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
                let images = all.map(|container| container.image.clone());
                NodeEvents::entry(nodes, node).images.extend(images);
            }
        });
    }

    /// Reports whether an image was pulled on a node.
    pub(super) fn has_image(&self, node: &str, image: &str) -> bool {
        let node = self.nodes.get(node);
        node.is_some_and(|node| node.images.contains(image))
    }

    /// Records an Event about a pod on its node.
    pub(super) fn record(
        &mut self,
        pod: &Pod,
        events: Vec<PodEvent>,
        stamps: &EventStamps,
        now: Now,
    ) {
        let Some(name) = &pod.node_name else {
            return;
        };
        let cluster = &self.cluster;
        let node = NodeEvents::entry(&mut self.nodes, name);
        let recorder = node.recorder.get_or_insert_with(|| {
            let recorder = EventRecorder::new("kubelet").on_node(name);
            recorder.with_stamps(stamps.clone())
        });
        let regarding = Arc::new(ObjectReference::new(Kind::POD, &pod.metadata));
        for event in events {
            if event.reason == PULLED {
                node.images.extend(event.image(pod).cloned());
            }
            let path = event.field_path();
            let intent = EventIntent {
                regarding: Arc::clone(&regarding),
                kind: event.kind,
                reason: event.reason,
                message: EventMessage::Text(event.message),
            };
            let Some(write) = recorder.correlate_part(intent, &path, now, now) else {
                continue;
            };
            let create = |event: Event| cluster.create(about(event, &path), now);
            let written = match write {
                EventWrite::Create(event) => create(event),
                EventWrite::Patch(patch) => match cluster.repeat_event(&patch, now) {
                    Err(error) if error.is_not_found() => create(patch.to_event()),
                    repeated => repeated,
                },
            };
            // A terminating namespace rejects the Event, which is then lost, as in upstream.
            if written.is_ok() {
                recorder.written();
            }
        }
    }
}

/// Sets the field path of the part of the object that the Event is about.
fn about(mut event: Event, field_path: &str) -> Event {
    if let (Some(Regarding::Object(object)), false) = (&event.regarding, field_path.is_empty()) {
        let Value::Object(mut members) = object.to_json() else {
            return event;
        };
        members.insert("fieldPath".into(), field_path.into());
        event.regarding = Some(Regarding::Other(Rest::from(members)));
    }
    event
}

/// The parts that the Events about one kind of occurrence share.
#[derive(Clone, Copy)]
struct EventClass {
    kind: EventType,
    reason: &'static str,
    action: &'static str,
}

const SCHEDULED: EventClass = EventClass {
    kind: EventType::Normal,
    reason: "Scheduled",
    action: "Binding",
};

const PREEMPTED: EventClass = EventClass {
    kind: EventType::Normal,
    reason: "Preempted",
    action: "Preempting",
};

const FAILED: EventClass = EventClass {
    kind: EventType::Warning,
    reason: "FailedScheduling",
    action: "Scheduling",
};

/// The pod and reason of a series.
type SeriesKey = (Uid, &'static str);

/// Records the scheduler's Events, and schedules the retries of pods that produce more Events.
#[derive(Debug)]
pub(super) struct SchedulerEvents {
    cluster: Arc<Cluster>,
    control: Arc<NodeControl>,
    /// The monotonic time at which all waiting pods are retried, ns; `None` if it is not set.
    flush_ns: Option<i64>,
    /// The Events that may be repeated.
    series: BTreeMap<SeriesKey, Series>,
    /// The monotonic time of the next check of `series`, ns; `None` if it is empty.
    sweep_ns: Option<i64>,
    topics: BTreeMap<&'static str, Arc<EventTopic>>,
}

/// A recorded Event, and the number of its repetitions while the pod does not change.
#[derive(Debug)]
struct Series {
    version: ResourceVersion,
    namespace: Str,
    event: String,
    count: i64,
    /// The time of the last repetition.
    last: Now,
    /// The monotonic time at which the count was last written, ns.
    written_ns: i64,
}

impl SchedulerEvents {
    pub(super) fn new(cluster: Arc<Cluster>, control: &Arc<NodeControl>) -> SchedulerEvents {
        SchedulerEvents {
            cluster,
            control: Arc::clone(control),
            flush_ns: None,
            series: BTreeMap::new(),
            sweep_ns: None,
            topics: BTreeMap::new(),
        }
    }

    /// Records that the pod was bound to a node.
    pub(super) fn scheduled(&mut self, pod: &Pod, node: &str, now: Now) {
        let meta = &pod.metadata;
        self.series.remove(&(meta.uid.clone(), FAILED.reason));
        let (namespace, name) = (&meta.namespace, &meta.name);
        let note = format!("Successfully assigned {namespace}/{name} to {node}");
        self.create(pod, None, SCHEDULED, &note, now);
    }

    /// Records that a pod was preempted on a node by another pod.
    pub(super) fn preempted(&mut self, pod: &Pod, for_pod: &Pod, node: &str, now: Now) {
        let preemptor = &for_pod.metadata;
        let note = format!("Preempted by pod {} on node {node}", preemptor.uid);
        self.create(pod, Some(preemptor), PREEMPTED, &note, now);
    }

    /// Records that no node can take the pod, with `note` as the message.
    pub(super) fn failed(&mut self, pod: &Pod, note: &str, now: Now) {
        let meta = &pod.metadata;
        let key = (meta.uid.clone(), FAILED.reason);
        if let Some(series) = self.series.get_mut(&key)
            && series.version == meta.resource_version
            && now.mono_ns - series.last.mono_ns < SERIES_NS
        {
            series.count += 1;
            series.last = now;
            // The counts of later repetitions are written periodically.
            if series.count == 2 {
                series.write(&self.cluster, now);
            }
            return;
        }
        if let Some(event) = self.create(pod, None, FAILED, note, now) {
            let series = Series {
                version: meta.resource_version.clone(),
                namespace: meta.namespace.clone(),
                event,
                count: 1,
                last: now,
                written_ns: now.mono_ns,
            };
            if let Some(ended) = self.series.insert(key, series) {
                ended.finish(&self.cluster, now);
            }
            let due_ns = now.mono_ns.saturating_add(SERIES_NS);
            self.sweep_ns.get_or_insert(due_ns);
        }
    }

    /// Reports whether it is time to retry all waiting pods.
    pub(super) fn is_flush_due(&mut self, now: Now) -> bool {
        self.flush_ns
            .take_if(|due_ns| *due_ns <= now.mono_ns)
            .is_some()
    }

    /// Ends series that are no longer repeated. Returns the time of the next check or retry.
    pub(super) fn next(&mut self, pods_wait: bool, now: Now) -> Next {
        if pods_wait {
            self.flush_ns
                .get_or_insert(now.mono_ns.saturating_add(FLUSH_NS));
        } else {
            self.flush_ns = None;
        }
        let due = self.sweep(now).into_iter().chain(self.flush_ns).min();
        due.map_or(Next::Idle, Next::At)
    }

    /// Ends series that are no longer repeated. Returns the monotonic time of the next check, ns.
    fn sweep(&mut self, now: Now) -> Option<i64> {
        if self.sweep_ns.is_some_and(|due_ns| due_ns <= now.mono_ns) {
            let cluster = &self.cluster;
            self.series.retain(|_, series| {
                let goes_on = now.mono_ns - series.last.mono_ns < SERIES_NS;
                let is_due = now.mono_ns - series.written_ns >= REFRESH_NS;
                match goes_on {
                    false => series.finish(cluster, now),
                    true if is_due && series.count > 2 => series.write(cluster, now),
                    true => {}
                }
                goes_on
            });
            let next_ns = now.mono_ns.saturating_add(SERIES_NS);
            self.sweep_ns = (!self.series.is_empty()).then_some(next_ns);
        }
        self.sweep_ns
    }

    /// Writes an Event, and returns its name if the server accepts it.
    fn create(
        &mut self,
        pod: &Pod,
        related: Option<&ObjectMeta>,
        class: EventClass,
        note: &str,
        now: Now,
    ) -> Option<String> {
        let made = Now {
            wall_ns: self.control.stamps.next(now.wall_ns),
            ..now
        };
        let meta = &pod.metadata;
        let name = format!("{}.{:x}", meta.name, made.wall_ns);
        let mut rest = Map::new();
        rest.insert("action".into(), class.action.into());
        rest.insert("eventTime".into(), micro_time(made).into());
        if let Some(related) = related {
            let related = ObjectReference::new(Kind::POD, related);
            rest.insert("related".into(), related.to_json());
        }
        let event = Event {
            metadata: ObjectMeta {
                name: name.as_str().into(),
                namespace: meta.namespace.clone(),
                ..ObjectMeta::default()
            },
            regarding: Some(Regarding::Object(Arc::new(ObjectReference::new(
                Kind::POD,
                meta,
            )))),
            topic: self.topic(class.kind, class.reason),
            message: shortened(note).into(),
            rest: rest.into(),
            ..Event::default()
        };
        self.cluster.create(event, now).ok().map(|_| name)
    }

    fn topic(&mut self, kind: EventType, reason: &'static str) -> Arc<EventTopic> {
        let new = || EventTopic {
            kind: kind.as_str().into(),
            reason: reason.into(),
            reporting_component: "default-scheduler".into(),
            reporting_instance: "default-scheduler-podstorm".into(),
            ..EventTopic::default()
        };
        let topic = self.topics.entry(reason).or_insert_with(|| new().into());
        Arc::clone(topic)
    }
}

impl Series {
    /// Writes the final count of the series.
    fn finish(&self, cluster: &Cluster, now: Now) {
        if self.count > 2 {
            self.patch(cluster, now);
        }
    }

    fn write(&mut self, cluster: &Cluster, now: Now) {
        self.written_ns = now.mono_ns;
        self.patch(cluster, now);
    }

    fn patch(&self, cluster: &Cluster, now: Now) {
        let series = json!({"count": self.count, "lastObservedTime": micro_time(self.last)});
        let patch = Patch::Merge(Map::from_iter([("series".into(), series)]));
        // The Event may have been deleted.
        let _gone = cluster.patch::<Event>(&self.namespace, &self.event, &patch, now);
    }
}

/// Formats a time as a `MicroTime`.
fn micro_time(now: Now) -> String {
    let seconds = now.wall().to_string();
    let micros = now.wall_ns.rem_euclid(1_000_000_000) / 1000;
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

/// Truncates a message to the maximum length.
fn shortened(note: &str) -> String {
    const CUT: &str = " ...";
    match note.len() {
        0..=NOTE_BYTES_MAX => note.to_owned(),
        _ => {
            let end = note.floor_char_boundary(NOTE_BYTES_MAX - CUT.len());
            format!("{}{CUT}", &note[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_truncated() {
        let long = "é".repeat(600);
        let cut = shortened(&long);
        assert!(cut.len() <= NOTE_BYTES_MAX && cut.ends_with("é ..."));
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn times_are_written_with_six_digits() {
        let now = Now {
            mono_ns: 0,
            wall_ns: 1_800_000_000_000_012_345,
        };
        assert_eq!(micro_time(now), "2027-01-15T08:00:00.000012Z");
    }
}
