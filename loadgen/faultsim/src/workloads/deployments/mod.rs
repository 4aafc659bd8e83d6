//! Deployments under faults.
//!
//! A seed draws one to three Deployments, user actions on them ([`users`]), and faults. The checker
//! of ReplicaSets checks all work of the ReplicaSet controller. On top of that, [`checker`] checks
//! every commit of the Deployment controller.
//!
//! When the faults have ended, users resume paused Deployments, and replace templates that can't
//! run. Then all objects must converge to the wanted state, and stay there without any write.
//!
//! # Invariants
//!
//! Each invariant is about one commit of the Deployment controller, and refers to the server's
//! state at that time. *Seen* means in the controller's caches when the sync began, or written by
//! the sync itself. A sync *scales* if the Deployment is paused, or if the desired size that is
//! recorded on an active ReplicaSet differs from the Deployment's size. An unseen change by a user
//! or by another sync excuses exactly the pods that it explains, because upstream's controller does
//! not wait for its own writes.
//!
//! * **D1** No write makes a ReplicaSet larger if all of them together then exceed `replicas` plus
//!   `maxSurge`. Of every other ReplicaSet, at most the seen size counts. A sync that scales is
//!   checked only at its end, because some ReplicaSets grow before others shrink. If there are
//!   already too many pods, each ReplicaSet has at most its previous size, or its share according
//!   to its `max-replicas` annotation, which is wrong after a user has resized it. A rollback that
//!   an annotation requests first creates the ReplicaSet of the current template, at full size with
//!   `Recreate`.
//! * **D2** No write of a rolling update that removes a pod seen as available leaves fewer than
//!   `replicas` minus `maxUnavailable` pods available. No write of an old ReplicaSet makes the sum
//!   of the old sizes and the available pods of the new ReplicaSet smaller than that. Pods count
//!   that were seen as available but are not, because they have died since or their ReplicaSet has
//!   just shrunk. A sync that scales has no such limit, because upstream then considers only sizes.
//! * **D3** The revision of a ReplicaSet never decreases. The revision of a new ReplicaSet is above
//!   all seen revisions. The revision of a Deployment changes only to at least the highest seen
//!   revision.
//! * **D4** A ReplicaSet grows only if it is the oldest seen ReplicaSet with the seen template, or
//!   in a sync that scales.
//! * **D5** No ReplicaSet is created for a Deployment that was seen paused, or for a template that
//!   a seen ReplicaSet has.
//! * **D6** With `Recreate`, no ReplicaSet grows while another seen ReplicaSet has or wants pods,
//!   except in a rollback as in D1.
//! * **D7** Only ReplicaSets whose names were seen as old, without pods and beyond the history
//!   limit are deleted. This refers to the state when the sync began: for a paused Deployment,
//!   upstream may enlarge a ReplicaSet and then delete it.
//! * **L1** Within a limit after the end of faults, every Deployment is complete: the ReplicaSet of
//!   its template has all pods, no other ReplicaSet has any, the status and its conditions show
//!   that, and the history is within its limit. Hazards H3 and H4 of the controller's specification
//!   are exceptions, which users end by scaling or by requesting a rolling update. A touch ends H2
//!   and H10.
//! * **L2** After that, nothing is written for ten minutes.
//! * **L6** No livelock: after the last fault, no Deployment repeats a request with the same answer
//!   more than 24 times once nothing has been written for a second. Hazard H1 is an exception: a
//!   Deployment that was complete but no longer is complete is synced every few milliseconds. If H2
//!   hides a failure, the write is repeated as often.

pub mod checker;
mod draw;
mod ending;
mod limits;
#[cfg(test)]
mod planted_tests;
#[cfg(test)]
mod tests;
pub mod users;

use std::sync::Arc;

use podstorm::deployment::Deployments;
use podstorm::policy::Behaviour;
use podstorm_objects::Kind;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};
use serde::{Deserialize, Serialize};

use crate::dice::{Dice, Odds};
use crate::plan::How;
use crate::simulation::{Ending, PodOwners};
use crate::subject::{Schedule, Subject, check_within};
use crate::workloads::replicasets::{SetChecker, SetOwners};
use checker::RolloutChecker;
use users::{DeploymentUsers, Strategy, UserAction};

const SECOND: i64 = 1_000_000_000;

/// A planned Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedDeployment {
    /// The name of the Deployment.
    pub name: String,
    /// The value of the label `app` in the Deployment's selector.
    pub app: String,
    /// The number of replicas.
    pub replicas: i32,
    /// The strategy for replacing pods.
    pub strategy: Strategy,
    /// The Deployment's `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// The Deployment's `progressDeadlineSeconds`.
    pub progress_deadline_seconds: i32,
    /// The Deployment's `revisionHistoryLimit`.
    pub revision_history_limit: i32,
}

/// The time after the end of faults at which users touch Deployments that are not at rest, ns. By
/// then, a dropped key, or a scale-down whose error upstream swallows, waits only for an event.
const TOUCH_AFTER: i64 = 90 * SECOND;

/// The additional time that a retry of upstream's controller may need, ns. The token bucket has no
/// limit on its debt, and hazard H1 adds a key 200 times per second at a refill rate of 10.
const DEBT: i64 = 14_400 * SECOND;

/// The maximum duration of a rollout of a dozen pods, one after the other, ns.
const ROLLOUT: i64 = 600 * SECOND;

/// The watches of both controllers. Those that the Deployment controller reads have more weight.
const STREAMS: [StreamKind; 6] = [
    StreamKind::from_kind(Kind::POD),
    StreamKind::from_kind(Kind::REPLICA_SET),
    StreamKind::from_kind(Kind::DEPLOYMENT),
    StreamKind::from_kind(Kind::DEPLOYMENT),
    StreamKind::from_kind(Kind::REPLICA_SET),
    StreamKind::from_kind(Kind::REPLICA_SET),
];

impl Subject for Deployments {
    type Planned = PlannedDeployment;
    type Action = UserAction;
    type Drawing = ();
    type Users = DeploymentUsers;
    type Watcher = RolloutChecker;

    const OWNERS: &'static dyn PodOwners = &SetOwners;

    const ODDS: Odds = Odds {
        stream: "deployments",
        without_faults: 15,
        of_one_class: 15,
        classes: 6,
        steps_max: 40,
        calls: &[
            Call::WriteObject,
            Call::WriteObject,
            Call::WriteObject,
            Call::PutStatus,
            Call::PutStatus,
            Call::GetOwner,
            Call::PatchPod,
            Call::CreatePod,
            Call::DeletePod,
        ],
        writes: &[
            Call::WriteObject,
            Call::WriteObject,
            Call::WriteObject,
            Call::PutStatus,
            Call::CreatePod,
            Call::DeletePod,
        ],
        resent: &[Call::WriteObject, Call::CreatePod, Call::DeletePod],
    };

    fn name(planned: &PlannedDeployment) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedDeployment> {
        dice.deployments()
    }

    fn drawing(_: &[PlannedDeployment]) {}

    fn draw_user(
        dice: &mut Dice,
        objects: &[PlannedDeployment],
        (): &mut (),
    ) -> Vec<(u32, UserAction)> {
        let at = dice.random.usize(..objects.len());
        dice.user_action(&objects[at].name)
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[PlannedDeployment],
        (): &mut (),
    ) -> Option<Vec<(u32, UserAction)>> {
        dice.own_change(class, objects)
    }

    fn draw_target(dice: &mut Dice, objects: &[PlannedDeployment]) -> String {
        let at = dice.random.usize(..objects.len());
        format!("{}/{}", objects[at].name, dice.below(8))
    }

    fn draw_stream(dice: &mut Dice, (): &()) -> StreamKind {
        dice.one(&STREAMS)
    }

    fn check_object(planned: &PlannedDeployment) -> Result<(), String> {
        let (name, replicas) = (&planned.name, planned.replicas);
        if !(0..=1_000).contains(&replicas) {
            return Err(format!(
                "{name:?} wants {replicas} replicas; expected 0 to 1000"
            ));
        }
        if planned.progress_deadline_seconds <= planned.min_ready_seconds {
            return Err(format!(
                "progress-deadline-seconds of {name:?} must be above min-ready-seconds"
            ));
        }
        Ok(())
    }

    fn check_action(action: &UserAction) -> Result<(), String> {
        match action {
            UserAction::Scale(_, replicas) => {
                let count = u32::try_from(*replicas).unwrap_or(u32::MAX);
                check_within("replicas", count, 0, 1_000)
            }
            _ => Ok(()),
        }
    }

    fn kinds(_: &Schedule<Deployments>) -> Vec<Kind> {
        vec![Kind::REPLICA_SET, Kind::DEPLOYMENT]
    }

    fn watcher(schedule: &Schedule<Deployments>, how: How) -> Arc<RolloutChecker> {
        let checker = Arc::new(SetChecker::new(&schedule.cluster, how));
        Arc::new(RolloutChecker::new(checker))
    }

    fn ending(behaviour: Behaviour) -> Ending {
        let ending = Ending {
            builds_within_ns: 900 * SECOND,
            touches_always: false,
            helped_within_ns: ROLLOUT,
            settles_ns: 60 * SECOND,
            ..Ending::DEFAULT
        };
        match behaviour {
            Behaviour::Hardened => Ending {
                converges_within_ns: TOUCH_AFTER + ROLLOUT,
                touches_ns: &[TOUCH_AFTER],
                ..ending
            },
            // For the ReplicaSets: the longest delay of a retry, and the expiry of two
            // expectations.
            Behaviour::Upstream => Ending {
                converges_within_ns: Ending::EXPECTATIONS_RUN_OUT_NS + 1_600 * SECOND,
                touches_ns: &[TOUCH_AFTER, Ending::EXPECTATIONS_RUN_OUT_NS],
                debt_ns: DEBT,
                ..ending
            },
        }
    }
}
