//! Draws ReplicaSets and ReplicationControllers, and user actions on them.

use podstorm_sim::faults::FaultClass;

use super::kinds::{PlannedReplicaSet, WorkloadKind};
use crate::action::{Action, Death, Dependents};
use crate::dice::Dice;
use crate::plan::TimedAction;

/// One in this many seeds has ReplicationControllers. Half of these seeds have only
/// ReplicationControllers, and half have both kinds.
const REPLICATION_CONTROLLERS_IN: u32 = 4;

/// The maximum number of ReplicaSets that users permanently delete in one schedule.
pub(super) const DELETED_MAX: usize = 2;

/// The maximum number of ReplicaSets with the selector of another one in one schedule.
const OVERLAPPING_MAX: u32 = 2;

/// The names of the pods that users create and remove.
const BY_HAND: [&str; 3] = ["by-hand-1", "by-hand-2", "by-hand-3"];

/// The state of a drawing.
#[derive(Debug, Default)]
pub struct Drawn {
    /// The kinds of the objects, without duplicates.
    pub(super) kinds: Vec<WorkloadKind>,
    overlapping: u32,
    /// The names of the ReplicaSets that are permanently deleted.
    deleted: Vec<String>,
}

impl Drawn {
    pub(super) fn from_objects(objects: &[PlannedReplicaSet]) -> Drawn {
        let is_there = |kind: &WorkloadKind| objects.iter().any(|it| it.kind == *kind);
        let kinds = WorkloadKind::ALL.into_iter().filter(is_there);
        Drawn {
            kinds: kinds.collect(),
            ..Drawn::default()
        }
    }

    pub(super) fn has_both_kinds(&self) -> bool {
        self.kinds.len() == WorkloadKind::ALL.len()
    }
}

impl Dice {
    pub(super) fn replica_sets(&mut self) -> Vec<PlannedReplicaSet> {
        let sets = self.random.usize(1..=4);
        let names = ["web", "api", "db", "queue"];
        let kinds = self.kinds(sets);
        let of_kind = |(name, kind): (&&str, WorkloadKind)| PlannedReplicaSet {
            kind,
            name: (*name).to_owned(),
            replicas: self.one(&[0, 1, 2, 3, 5, 8, 13, 30]),
            min_ready_seconds: self.one(&[0, 0, 0, 1, 10]),
        };
        names[..sets].iter().zip(kinds).map(of_kind).collect()
    }

    /// Draws the kinds of the objects.
    fn kinds(&mut self, count: usize) -> Vec<WorkloadKind> {
        use WorkloadKind::{ReplicaSet, ReplicationController};
        if self.below(REPLICATION_CONTROLLERS_IN) > 0 {
            return vec![ReplicaSet; count];
        }
        if count == 1 || self.random.bool() {
            return vec![ReplicationController; count];
        }
        let mut kinds = vec![ReplicaSet, ReplicationController];
        kinds.extend((2..count).map(|_| self.one(&WorkloadKind::ALL)));
        self.random.shuffle(&mut kinds);
        kinds
    }

    /// Draws the creation of an object of the other kind with the labels of the first object, at
    /// the beginning. This happens in every second schedule with both kinds.
    pub(super) fn beside(
        &mut self,
        objects: &[PlannedReplicaSet],
        drawn: &Drawn,
    ) -> Vec<TimedAction<Action>> {
        if !drawn.has_both_kinds() || self.random.bool() {
            return Vec::new();
        }
        let first = &objects[0];
        let others = WorkloadKind::ALL.into_iter().filter(|it| *it != first.kind);
        let beside = |kind: WorkloadKind| {
            let action = Action::CreateOverlapping {
                kind: kind.in_action(),
                name: "beside".to_owned(),
                like: first.name.clone(),
                replicas: self.random.i32(0..=6),
            };
            TimedAction::of_user(0, action)
        };
        others.map(beside).collect()
    }

    /// Draws the user actions at one time.
    pub(super) fn user_actions(
        &mut self,
        objects: &[PlannedReplicaSet],
        drawn: &mut Drawn,
    ) -> Vec<Action> {
        let owner = self.target(objects);
        match self.below(30) {
            0..16 => vec![Action::Scale {
                owner,
                replicas: self.one(&[0, 1, 2, 3, 4, 6, 8, 12, 20, 40]),
            }],
            16..19 => vec![Action::Touch { owner }],
            19..21 => vec![Action::CreateOrphans {
                owner,
                pods: self.random.u32(1..=4),
            }],
            21..25 => self.by_hand(owner),
            25 if drawn.deleted.len() < DELETED_MAX && !drawn.deleted.contains(&owner) => {
                drawn.deleted.push(owner.clone());
                vec![Action::DeleteOwner {
                    owner,
                    propagation: self.one(&Dependents::DRAWN),
                }]
            }
            _ => vec![Action::Kill {
                owner,
                percent: self.one(&[1, 30, 100]),
                how: self.one(&[Death::Deleted, Death::Removed]),
            }],
        }
    }

    /// Draws the creation of a pod by name, its removal, or both, so that another pod immediately
    /// has its name.
    fn by_hand(&mut self, owner: String) -> Vec<Action> {
        let name = self.one(&BY_HAND).to_owned();
        let remove = Action::RemovePod { name: name.clone() };
        let create = Action::CreatePod {
            name,
            // One pod in four does not match any ReplicaSet.
            owner: (self.below(4) > 0).then_some(owner),
            deletion_cost: self.one(&[None, Some(-1), Some(9)]),
        };
        match self.below(4) {
            0 => vec![remove],
            1 => vec![remove, create],
            _ => vec![create],
        }
    }

    /// Draws the name of one of the objects.
    pub(super) fn target(&mut self, objects: &[PlannedReplicaSet]) -> String {
        let at = self.random.usize(..objects.len());
        objects[at].name.clone()
    }

    /// Draws a change of a spec, and the later recreation of a ReplicaSet.
    pub(super) fn own_fault(
        &mut self,
        class: FaultClass,
        objects: &[PlannedReplicaSet],
        drawn: &mut Drawn,
    ) -> Option<Action> {
        Some(match class {
            FaultClass::SpecChange => match self.below(3) {
                0 if drawn.overlapping < OVERLAPPING_MAX => {
                    drawn.overlapping += 1;
                    Action::CreateOverlapping {
                        kind: self.one(&drawn.kinds).in_action(),
                        name: format!("more-{}", drawn.overlapping),
                        like: self.target(objects),
                        replicas: self.random.i32(0..=6),
                    }
                }
                _ => Action::ChangeTemplate {
                    owner: self.target(objects),
                },
            },
            FaultClass::Recreate => Action::Recreate {
                owner: self.target(objects),
                propagation: self.one(&Dependents::DRAWN),
                gap_ms: self.one(&[0, 1, 10, 1_000, 30_000]),
            },
            _ => return None,
        })
    }
}
