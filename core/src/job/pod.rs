//! The properties of a pod that a sync reads.

use std::sync::Arc;

use podstorm_objects::json::raw_member;
use podstorm_objects::{ContainerStatus, Labels, Pod, PodPhase, Time, Uid};

use podstorm_runtime::cache::PodFields;

use super::backoff::finish_ns;
use super::policies::FailureAction;

/// The finalizer that keeps a pod until its Job has counted the pod.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The annotation and label with a pod's completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The annotation with the number of counted failures of a pod's index.
pub const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";

/// The annotation with the number of failures of a pod's index that a policy ignores.
pub const IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The fields that the cache stores for each pod of a Job. For most pods a sync reads nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    /// The pod's completion index; -1 if unknown.
    pub(super) index: i64,
    /// The mark of a selector that matches the pod's labels; 0 until a sync has evaluated one.
    pub(super) matches: u32,
    pub(super) phase: PodPhase,
    pub(super) is_deleting: bool,
    pub(super) is_ready: bool,
    /// Whether the pod has the tracking finalizer.
    pub(super) is_tracked: bool,
}

impl PodFields for PodFacts {
    fn from_pod(pod: &Pod, _: u32) -> PodFacts {
        PodFacts {
            index: completion_index(&pod.metadata.annotations),
            matches: 0,
            phase: pod.status.phase,
            is_deleting: pod.metadata.is_deleting(),
            is_ready: pod.is_ready(),
            is_tracked: pod.metadata.has_finalizer(TRACKING_FINALIZER),
        }
    }

    fn next(&self, old: &Pod, new: &Pod, _: u32) -> PodFacts {
        let (was, is) = (&old.metadata, &new.metadata);
        PodFacts {
            // Most changes are of the status only, and parsing the annotations takes the most time.
            index: match was.annotations.is_same(&is.annotations) {
                true => self.index,
                false => completion_index(&is.annotations),
            },
            matches: match was.labels == is.labels {
                true => self.matches,
                false => 0,
            },
            phase: new.status.phase,
            is_deleting: is.is_deleting(),
            is_ready: new.is_ready(),
            is_tracked: is.has_finalizer(TRACKING_FINALIZER),
        }
    }
}

impl PodFacts {
    /// Reports whether the pod has ended and has no finalizer. Only a failure policy reads such a
    /// pod.
    pub(super) fn is_done(&self) -> bool {
        self.phase.is_terminal() && !self.is_tracked
    }
}

/// A pod of the Job, as a sync sees it.
#[derive(Clone, Debug)]
pub(super) struct JobPod {
    pub(super) pod: Arc<Pod>,
    /// The pod's completion index; -1 if unknown.
    pub(super) index: i64,
    pub(super) phase: PodPhase,
    pub(super) is_deleting: bool,
    pub(super) is_ready: bool,
    /// Whether the pod has the tracking finalizer. If the sync adopts the pod, it adds the
    /// finalizer.
    pub(super) is_tracked: bool,
    /// Whether this controller has removed the pod's finalizer. Such a pod is counted.
    pub(super) is_released: bool,
    /// Whether the pod's UID is among the uncounted successes of the status.
    pub(super) in_succeeded: bool,
    /// Whether the pod's UID is among the uncounted failures of the status.
    pub(super) in_failed: bool,
    /// The action that the failure policy prescribes for the pod; `None` before the pod has failed,
    /// or if no rule matches.
    pub(super) met: Option<FailureAction>,
}

impl JobPod {
    pub(super) fn new(pod: Arc<Pod>, facts: &PodFacts) -> JobPod {
        debug_assert_eq!(
            *facts,
            PodFacts {
                matches: facts.matches,
                ..PodFacts::from_pod(&pod, 0)
            }
        );
        JobPod {
            index: facts.index,
            phase: facts.phase,
            is_deleting: facts.is_deleting,
            is_ready: facts.is_ready,
            is_tracked: facts.is_tracked,
            is_released: false,
            in_succeeded: false,
            in_failed: false,
            met: None,
            pod,
        }
    }

    pub(super) fn uid(&self) -> &Uid {
        &self.pod.metadata.uid
    }

    pub(super) fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.is_deleting
    }

    /// Reports whether the pod is being deleted and has not ended.
    pub(super) fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.is_deleting
    }

    /// Reports whether the pod counts as failed. A terminating pod does, unless
    /// `only_replace_failed` is set.
    pub(super) fn is_failed(&self, only_replace_failed: bool) -> bool {
        match self.phase {
            PodPhase::Failed => true,
            PodPhase::Succeeded => false,
            _ => !only_replace_failed && self.is_deleting,
        }
    }

    /// Returns the numbers of failures of the pod's index before the pod was created: counted ones
    /// and ignored ones.
    pub(super) fn failures(&self) -> (i64, i64) {
        let annotations = &self.pod.metadata.annotations;
        let count = |name| count_of(annotations.get(name).map(|text| &**text));
        (count(FAILURE_COUNT), count(IGNORED_FAILURE_COUNT))
    }

    /// Reports whether this failed pod supersedes `other`, a failed pod of the same index: it has
    /// at least as many failures and did not end earlier.
    pub(super) fn is_later_than(&self, other: &JobPod) -> bool {
        let all = |pod: &JobPod| pod.failures().0 + pod.failures().1;
        all(self) >= all(other) && finish_ns(&self.pod) >= finish_ns(&other.pod)
    }
}

/// Returns the completion index in the annotations; -1 if it is absent or can't be parsed.
pub fn completion_index(annotations: &Labels) -> i64 {
    let text = annotations.get(COMPLETION_INDEX);
    let index = text.and_then(|text| text.parse().ok());
    index.filter(|index| *index >= 0).unwrap_or(-1)
}

/// Parses the number of failures in an annotation; 0 if it is absent, negative or can't be parsed.
pub fn count_of(text: Option<&str>) -> i64 {
    let count = text.and_then(|text| text.parse::<i32>().ok());
    count.map_or(0, |count| i64::from(count.max(0)))
}

/// How and when a container ended, as its status reports it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Termination {
    /// The exit code; `None` if the container has not ended.
    pub(super) exit_code: Option<i64>,
    /// The end time; `None` if the container has not ended or the status has no time.
    pub(super) finished: Option<Time>,
}

/// Returns how the current instance of a container ended. O(bytes of the status).
pub(super) fn terminations(container: &ContainerStatus) -> Termination {
    let details = container.details.as_ref();
    let state = details.and_then(|details| details.rest.raw("state"));
    let ended = state.and_then(|state| raw_member(state, "terminated"));
    let Some(ended) = ended.filter(|ended| ended.starts_with('{')) else {
        return Termination::default();
    };
    let finished = raw_member(ended, "finishedAt").and_then(|text| {
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        text.parse::<Time>().ok()
    });
    let code = raw_member(ended, "exitCode").and_then(|code| code.parse().ok());
    Termination {
        exit_code: Some(code.unwrap_or(0)),
        finished: finished.filter(|time| !time.is_unset()),
    }
}

/// Limits the memory of a Job with 100,000 pods.
const _: () = assert!(size_of::<JobPod>() <= 24 && size_of::<PodFacts>() <= 16);

/// The rank of an active pod in the order of deletion. The pod with the lowest rank goes first.
///
/// Source: `ActivePods` of Kubernetes' `pkg/controller`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank([i64; RANK_RULES.len()]);

/// The rules of [`Rank`], in order.
const RANK_RULES: [&str; 7] = [
    "no node before a node",
    "Pending, Unknown, Running",
    "not ready before ready",
    "ready for a shorter time",
    "more restarts of a container",
    "more restarts of a sidecar",
    "created later",
];

impl Rank {
    /// Returns the rank of a pod. O(containers).
    pub fn from_pod(pod: &Pod) -> Rank {
        let status = &pod.status;
        let phase = match status.phase {
            PodPhase::Unknown => 1,
            PodPhase::Running => 2,
            _ => 0,
        };
        let is_ready = pod.is_ready();
        // An unset time counts as the newest.
        let age = |time: Time| -time.unix_seconds().unwrap_or(i64::MAX);
        let most = |counts: &mut dyn Iterator<Item = i32>| -i64::from(counts.max().unwrap_or(0));
        let regular = most(&mut status.container_statuses.iter().map(|it| it.restart_count));
        let mut sidecars = pod.sidecar_statuses().map(|it| it.restart_count);
        Rank([
            i64::from(pod.node_name.is_some()),
            phase,
            i64::from(is_ready),
            if is_ready { age(pod.ready_time()) } else { 0 },
            regular,
            most(&mut sidecars),
            age(pod.metadata.creation_timestamp),
        ])
    }

    /// Returns the first rule that distinguishes two ranks; `None` if they are equal.
    pub fn rule(self, other: Rank) -> Option<&'static str> {
        let differs = self.0.iter().zip(other.0).position(|(a, b)| *a != b);
        differs.map(|at| RANK_RULES[at])
    }
}

/// Returns the total number of restarts of a pod's containers.
pub(super) fn restarts(pod: &Pod) -> i64 {
    let all = pod.status.all_statuses();
    all.map(|container| i64::from(container.restart_count))
        .sum()
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_differing_rule_ranks_two_pods() {
        let pod = |node: bool, phase, created: i64| {
            let mut pod = Pod {
                node_name: node.then(|| "n".into()),
                ..Pod::default()
            };
            pod.status.phase = phase;
            pod.metadata.creation_timestamp = Time::from_unix_seconds(created);
            Rank::from_pod(&pod)
        };
        let (pending, running) = (PodPhase::Pending, PodPhase::Running);
        for (first, then, rule) in [
            (
                pod(false, running, 1),
                pod(true, pending, 9),
                Some("no node before a node"),
            ),
            (
                pod(true, pending, 1),
                pod(true, running, 9),
                Some("Pending, Unknown, Running"),
            ),
            (
                pod(true, running, 9),
                pod(true, running, 1),
                Some("created later"),
            ),
            (pod(true, running, 1), pod(true, running, 1), None),
        ] {
            assert!(first <= then);
            assert_eq!(first.rule(then), rule);
            assert_eq!(then.rule(first), rule);
        }
    }

    #[test]
    fn a_label_change_invalidates_the_selector_match() {
        let pod = |app: &str, phase: &str| {
            let pod = json!({"metadata": {"labels": {"app": app}, "finalizers": [TRACKING_FINALIZER],
                "annotations": {COMPLETION_INDEX: "007"}}, "status": {"phase": phase}});
            Pod::from_json(pod).expect("a readable pod")
        };
        let (running, ended, moved) = (
            pod("a", "Running"),
            pod("a", "Succeeded"),
            pod("b", "Running"),
        );
        let facts = PodFacts {
            matches: 3,
            ..PodFacts::from_pod(&running, 0)
        };
        assert_eq!((facts.index, facts.is_tracked), (7, true));
        let next = facts.next(&running, &ended, 0);
        assert_eq!((next.matches, next.phase), (3, PodPhase::Succeeded));
        assert_eq!(facts.next(&running, &moved, 0).matches, 0);
        let mut other = ended.clone();
        other.metadata.annotations = other.metadata.annotations.with(COMPLETION_INDEX, "8");
        assert_eq!(next.next(&ended, &other, 0).index, 8);
        let same = PodFacts { index: 5, ..next };
        assert_eq!(
            same.next(&other, &other, 0).index,
            5,
            "the annotation is not parsed again"
        );
    }
}
