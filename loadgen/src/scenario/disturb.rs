//! What goes wrong in a scenario that disturbs its controller: the pod watch stalls, answers are lost.

use std::sync::Arc;

use podstorm::object::{Map, Now, ReplicaSet};
use serde_json::Value;

use super::driver::Driver;
use super::tasks::Step;
use crate::cluster::Patch;
use crate::faults::{ApiFault, Armed, Call, Effect, FaultClass, Line, StreamKind};

/// The phase in which expectations run out behind a stalled watch.
pub const EXPIRED: &str = "five minutes later: one event each";

/// The phase in which answers to creates are lost.
pub const LOST: &str = "scale up; each first answer is lost";

/// No pod may be created for so long before a phase counts as quiet, ns.
const QUIET_NS: i64 = 30_000_000_000;

/// How often that is looked at, ns.
const LOOK_NS: i64 = 1_000_000_000;

const SECOND: i64 = 1_000_000_000;

/// Lets time pass.
pub(super) fn wait(begun_ns: i64, seconds: u32, now: Now) -> Step {
    let end_ns = begun_ns.saturating_add(i64::from(seconds) * SECOND);
    if now.mono_ns < end_ns {
        Step::Wait(end_ns)
    } else {
        Step::Done
    }
}

impl Driver {
    fn line(&self) -> Arc<Line> {
        let line = self.controllers.line.as_ref();
        Arc::clone(line.expect("a disturbed scenario has a line"))
    }

    pub(super) fn stall_pod_watch(&self) -> Step {
        self.line().hold(StreamKind::Pods, i64::MAX);
        Step::Done
    }

    pub(super) fn release_pod_watch(&self) -> Step {
        self.line().hold(StreamKind::Pods, i64::MIN);
        self.controllers.wake.iter().for_each(|wake| wake());
        Step::Done
    }

    /// The first create of a sync is carried out, and its client hears nothing of it; as many times
    /// as there are ReplicaSets.
    pub(super) fn lose_answers(&self) -> Step {
        let times = u32::try_from(self.settings.size.replicasets).unwrap_or(u32::MAX);
        self.line().network().arm(Armed {
            class: FaultClass::AmbiguousWrite,
            calls: vec![Call::CreatePod],
            parent: None,
            batch: Some(0),
            index: Some(0),
            effect: Effect::LoseAnswer(ApiFault::Timeout),
            times,
            until_ns: i64::MAX,
        });
        Step::Done
    }

    /// An event of a ReplicaSet that says nothing.
    pub(super) fn touch(&mut self, number: u64, now: Now) -> Step {
        let Some(&at) = self.generated.get(number as usize) else {
            return Step::Skipped;
        };
        let parent = &self.tracker.parents[at];
        let touched = Value::from(format!("{}", now.mono_ns));
        let annotations = Map::from_iter([("podstorm.example/touched".to_owned(), touched)]);
        let metadata = Map::from_iter([("annotations".to_owned(), Value::Object(annotations))]);
        let patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        let patched = self.cluster.patch::<ReplicaSet>(
            &parent.namespace,
            &parent.name,
            &Patch::Merge(patch),
            now,
        );
        self.note("touching a ReplicaSet", patched);
        Step::Wrote
    }

    /// When to look again whether pods are still being created; nothing when none was for long
    /// enough.
    pub(super) fn quiet_from(&mut self, now: Now) -> Option<i64> {
        let created = self.cluster.write_counts().pods.created;
        match self.at.last_create {
            Some((before, at_ns)) if before == created => {
                (now.mono_ns - at_ns < QUIET_NS).then(|| now.mono_ns + LOOK_NS)
            }
            _ => {
                self.at.last_create = Some((created, now.mono_ns));
                Some(now.mono_ns + LOOK_NS)
            }
        }
    }
}
