//! The steps of a schedule that the code under test noticed, because they changed what a controller
//! saw or did. A fault that hits nothing, or occurs while no controller is watching, is not
//! noticed.

use std::collections::{BTreeMap, BTreeSet};

use podstorm::client::{Answer, ApiError};
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{Kind, Now, Pod};
use podstorm_sim::engine::observer::Origin;
use podstorm_sim::faults::{FaultClass, FaultId};

use super::super::action::Action;
use super::super::objects::{STUCK, node_name};
use super::super::verdict::Struck;

const MS: i64 = 1_000_000;

/// Evidence, after a step, that the step was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    /// A controller writes while two controllers run.
    Overlap,
    /// A sync begins while the clock is wrong.
    Clock,
    /// The quota rejects a create.
    Quota,
    /// A pod on the node fails, becomes unready or is deleted.
    Node(String),
    /// A deleted pod stays because of the finalizer.
    Stuck,
}

/// A step that still waits for evidence.
#[derive(Clone, Debug)]
struct Open {
    mark: FaultId,
    sign: Sign,
    until_ns: i64,
}

/// The steps that were noticed.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// The fault class of each step so far, indexed by the step's mark; `None` for a step of users.
    steps: Vec<Option<FaultClass>>,
    noticed: BTreeSet<FaultId>,
    /// The step in progress, if its own writes are the evidence that it was noticed.
    acting: Option<FaultId>,
    open: Vec<Open>,
}

impl Reach {
    /// Called before a step. Returns the mark of the step. `is_busy` tells whether a sync is in
    /// progress.
    pub(super) fn acts(
        &mut self,
        class: Option<FaultClass>,
        on_cluster: Option<&Action>,
        is_busy: bool,
        nodes: u32,
        now: Now,
    ) -> FaultId {
        let mark =
            FaultId::try_from(self.steps.len()).expect("the number of steps fits in 32 bits");
        self.steps.push(class);
        let (sign, for_ms) = match on_cluster {
            Some(Action::Overlap { for_ms }) => (Sign::Overlap, *for_ms),
            Some(Action::WallClock { for_ms, .. }) => (Sign::Clock, *for_ms),
            Some(Action::Quota { for_ms, .. }) => (Sign::Quota, *for_ms),
            Some(Action::LoseNode { node, for_ms } | Action::RejectPods { node, for_ms }) => {
                (Sign::Node(node_name(node % nodes)), *for_ms)
            }
            Some(Action::Stick { for_ms, .. }) => (Sign::Stuck, *for_ms),
            // A pause delays all work in progress.
            Some(Action::Pause { .. }) if is_busy => {
                self.noticed.insert(mark);
                return mark;
            }
            _ => {
                self.acting = Some(mark);
                return mark;
            }
        };
        self.open.push(Open {
            mark,
            sign,
            until_ns: now.mono_ns.saturating_add(i64::from(for_ms) * MS),
        });
        mark
    }

    /// Called after a step.
    pub(super) fn acted(&mut self) {
        self.acting = None;
    }

    /// Marks these steps as noticed.
    pub(super) fn notice(&mut self, marks: impl IntoIterator<Item = FaultId>) {
        self.noticed.extend(marks);
    }

    fn sees(&mut self, now: Now, is_sign: impl Fn(&Sign) -> bool) {
        let noticed = &mut self.noticed;
        self.open.retain(|open| {
            let is_seen = is_sign(&open.sign);
            if is_seen && open.until_ns >= now.mono_ns {
                noticed.insert(open.mark);
            }
            !is_seen && open.until_ns >= now.mono_ns
        });
    }

    pub(super) fn sync_begins(&mut self, now: Now) {
        if !self.open.is_empty() {
            self.sees(now, |sign| *sign == Sign::Clock);
        }
    }

    pub(super) fn answered(&mut self, answer: &Answer, now: Now) {
        let is_quota = |error: &ApiError| error.code == 403 && error.message.contains("quota");
        if let Answer::Failed(error) = answer
            && is_quota(error)
        {
            self.sees(now, |sign| *sign == Sign::Quota);
        }
    }

    pub(super) fn committed(&mut self, commit: &Commit, origin: Option<Origin>) {
        if let (Some(mark), None) = (self.acting, origin) {
            let is_theirs = ![Kind::NODE, Kind::EVENT].contains(&commit.new.kind());
            self.noticed.extend(is_theirs.then_some(mark));
        }
        if self.open.is_empty() {
            return;
        }
        if origin.is_some() {
            self.sees(commit.now, |sign| *sign == Sign::Overlap);
        }
        let Some((old, new)) = commit.downcast::<Pod>() else {
            return;
        };
        if commit.change == Change::Modified && new.metadata.is_deleting() {
            let finalizers = new.metadata.finalizers();
            if finalizers.iter().any(|name| **name == *STUCK) {
                self.sees(commit.now, |sign| *sign == Sign::Stuck);
            }
        }
        if let (Some(old), None) = (old, origin)
            && is_lost(old, new)
            && let Some(node) = &new.node_name
        {
            self.sees(
                commit.now,
                |sign| matches!(sign, Sign::Node(lost) if **lost == **node),
            );
        }
    }

    /// Adds the number of steps of each class, and the number of those that were noticed.
    pub(super) fn add_to(&self, faults: &mut BTreeMap<FaultClass, Struck>) {
        for (mark, class) in (0..).zip(&self.steps) {
            let Some(class) = class else { continue };
            let struck = faults.entry(*class).or_default();
            struck.injected += 1;
            struck.noticed += u64::from(self.noticed.contains(&mark));
        }
    }
}

/// Reports whether a commit shows that a pod was lost: it ended, became unready or is being
/// deleted.
fn is_lost(old: &Pod, new: &Pod) -> bool {
    old.is_active() && !new.is_active() || old.is_ready() && !new.is_ready()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm::client::Reason;
    use podstorm_objects::AnyObject;
    use podstorm_objects::Kind;

    use super::super::super::action::Death;
    use super::*;
    use podstorm_sim::engine::observer::SyncId;

    const NOW: Now = Now {
        mono_ns: 1_000_000_000,
        wall_ns: 0,
    };

    fn later(seconds: i64) -> Now {
        NOW.plus_ns(seconds * 1_000 * MS)
    }

    fn acts(reach: &mut Reach, class: FaultClass, action: &Action, nodes: u32) {
        reach.acts(Some(class), Some(action), false, nodes, NOW);
    }

    fn noticed(reach: &Reach, class: FaultClass) -> (u64, u64) {
        let mut faults = BTreeMap::new();
        reach.add_to(&mut faults);
        let struck = faults.get(&class).copied().unwrap_or_default();
        (struck.injected, struck.noticed)
    }

    fn commits(reach: &mut Reach, old: Option<&Pod>, new: &Pod, by: Option<Origin>, now: Now) {
        let (old, new) = (old.cloned().map(Arc::new), Arc::new(new.clone()));
        let commit = Commit {
            version: 1,
            change: Change::Modified,
            old: old.clone().map(|old| -> AnyObject { old }),
            new: new.clone(),
            now,
        };
        reach.committed(&commit, by);
    }

    #[test]
    fn only_immediate_writes_of_a_step_are_noticed() {
        let mut reach = Reach::default();
        let kill = Action::Kill {
            owner: "web".to_owned(),
            percent: 100,
            how: Death::Deleted,
        };
        let pod = Pod::default();
        acts(&mut reach, FaultClass::PodKill, &kill, 1);
        commits(&mut reach, Some(&pod), &pod, None, NOW);
        reach.acted();
        assert_eq!(noticed(&reach, FaultClass::PodKill), (1, 1));
        // There are no pods, so the step causes no commit.
        acts(&mut reach, FaultClass::PodKill, &kill, 1);
        reach.acted();
        commits(&mut reach, Some(&pod), &pod, None, NOW);
        assert_eq!(noticed(&reach, FaultClass::PodKill), (2, 1));
    }

    #[test]
    fn a_lost_node_is_noticed_when_it_loses_a_pod_in_time() {
        let on = |node: &str| Pod {
            node_name: Some(node.into()),
            ..Pod::default()
        };
        let ended = |node: &str| {
            let mut pod = on(node);
            pod.status.phase = podstorm_objects::PodPhase::Failed;
            pod
        };
        for (node, after_s, expected) in [("node-1", 5, 1), ("node-0", 5, 0), ("node-1", 11, 0)] {
            let mut reach = Reach::default();
            let lose = Action::LoseNode {
                node: 3,
                for_ms: 10_000,
            };
            acts(&mut reach, FaultClass::NodeFailure, &lose, 2);
            reach.acted();
            let (old, new, now) = (on(node), ended(node), later(after_s));
            commits(&mut reach, Some(&old), &old, None, now);
            commits(&mut reach, Some(&old), &new, None, now);
            let class = FaultClass::NodeFailure;
            assert_eq!(noticed(&reach, class), (1, expected), "{node} {after_s}");
        }
    }

    #[test]
    fn clocks_quotas_and_overlaps_are_noticed_by_later_evidence() {
        let for_ms = 10_000;
        let offset_s = 60;
        for (after_s, expected) in [(5, 1), (11, 0)] {
            let mut reach = Reach::default();
            for (class, action) in [
                (FaultClass::Clock, Action::WallClock { offset_s, for_ms }),
                (FaultClass::Quota, Action::Quota { pods: 1, for_ms }),
                (FaultClass::SecondController, Action::Overlap { for_ms }),
            ] {
                acts(&mut reach, class, &action, 1);
                reach.acted();
                assert_eq!(noticed(&reach, class), (1, 0));
            }
            let now = later(after_s);
            reach.sync_begins(now);
            assert_eq!(noticed(&reach, FaultClass::Clock), (1, expected));
            for message in ["forbidden: not allowed", "exceeded quota: pods"] {
                assert_eq!(noticed(&reach, FaultClass::Quota), (1, 0));
                let error = ApiError::status(403, Reason::Forbidden, message);
                reach.answered(&Answer::Failed(error), now);
            }
            assert_eq!(noticed(&reach, FaultClass::Quota), (1, expected));
            let by = Origin {
                sync: SyncId {
                    incarnation: 0,
                    kind: Kind::REPLICA_SET,
                    number: 1,
                },
                orphaned: false,
            };
            commits(&mut reach, None, &Pod::default(), None, now);
            assert_eq!(noticed(&reach, FaultClass::SecondController), (1, 0));
            commits(&mut reach, None, &Pod::default(), Some(by), now);
            assert_eq!(noticed(&reach, FaultClass::SecondController), (1, expected));
        }
    }
}
