//! Counts the pods of one owner among the objects of files.

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{Pod, Uid};
use podstorm_sim::nodes::problem;

use crate::units::counted;

/// The active pods of each owner.
pub(crate) type PodsByOwner<'a> = HashMap<&'a Uid, OwnedPods, RandomState>;

/// The active pods of one owner, or of several owners together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnedPods {
    /// The number of active pods.
    pub(crate) active: i32,
    /// The number of active pods that are ready.
    pub(crate) ready: i32,
    /// The number of active pods that can't become ready.
    pub(crate) stuck: i32,
    /// Why the first of the `stuck` pods can't become ready; empty if there is none.
    reason: String,
}

impl OwnedPods {
    /// Counts an active pod.
    pub(crate) fn count(&mut self, pod: &Pod) {
        let problem = problem(pod);
        self.add(&OwnedPods {
            active: 1,
            ready: i32::from(pod.is_ready()),
            stuck: i32::from(problem.is_some()),
            reason: problem.map_or_else(String::new, Into::into),
        });
    }

    /// Adds the counts of another owner.
    pub(crate) fn add(&mut self, other: &OwnedPods) {
        self.active += other.active;
        self.ready += other.ready;
        self.stuck += other.stuck;
        if self.reason.is_empty() {
            self.reason.clone_from(&other.reason);
        }
    }

    /// Reports whether new pods of the owner can't be expected to become ready: some of its pods
    /// are stuck, and none is ready.
    pub(crate) fn holds_new(&self) -> bool {
        self.stuck > 0 && self.ready == 0
    }

    /// Formats `2 of 3 pods can't become ready: CrashLoopBackOff`, with the name of the owner if it
    /// is given: `2 of 3 pods of web`. Returns `None` if no pod is stuck.
    pub(crate) fn problem(&self, owner: Option<&str>) -> Option<String> {
        let pods = counted(u64::try_from(self.active).ok()?, "pod");
        let of = owner.map_or_else(String::new, |owner| format!(" of {owner}"));
        let Self { stuck, reason, .. } = self;
        (*stuck > 0).then(|| format!("{stuck} of {pods}{of} can't become ready: {reason}"))
    }
}

/// Formats `1 pod`, `3 pods`.
pub(crate) fn pods(number: i32) -> String {
    match u64::try_from(number) {
        Ok(number) => counted(number, "pod"),
        // A status may contain a negative number.
        Err(_) => format!("{number} pods"),
    }
}
