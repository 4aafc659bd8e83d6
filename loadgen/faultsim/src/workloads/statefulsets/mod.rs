//! StatefulSets under faults. A seed draws one to three sets. Users change, scale, delete and
//! recreate the sets, break rollouts, and delete, relabel and create pods and claims. The
//! controller that protects claims runs, too.
//!
//! # Invariants
//!
//! N1 to N8 are about one commit of the StatefulSet controller. *Seen* means in the controller's
//! caches when the sync began. A pod is *ready* here if it is running, ready and available, and not
//! terminating. A template is identified by its image and its scheduler, and a revision by its
//! template.
//!
//! * **N1** A new pod has the name of an ordinal that the set was seen to want and for which no pod
//!   was seen, the labels for that name, and the set as its controller. An adopted pod was seen
//!   without an owner, was selected, and had a name of the set. A released pod was not selected or
//!   did not have a name of the set. A written pod has its own name as a label.
//! * **N2** An ordered set creates a pod only if all pods with lower ordinals were seen ready. It
//!   creates or deletes at most one pod per sync.
//! * **N3** A pod is deleted for one of three reasons: it is beyond the ordinals, it has ended, or
//!   it is outdated. In an ordered set, a pod beyond the ordinals is deleted only if all wanted
//!   pods were seen ready and no pod with a higher ordinal was seen. A pod that is not ready is
//!   deleted only if all pods with lower ordinals are ready.
//! * **N4** A pod is deleted for an update only if its revision has another template than the set,
//!   the strategy is not `OnDelete`, and every pod with a higher ordinal was seen updated and
//!   available. Pods are thus updated one after the other, from the highest ordinal down. In an
//!   ordered set, all pods were seen ready. With the feature gate for `maxUnavailable`, at most
//!   that number of pods becomes unavailable. The hardened controller immediately replaces an
//!   outdated pod that is not ready.
//! * **N5** No pod below the partition is deleted for an update, and a new pod below the partition
//!   has the current revision, if that was seen. Every other new pod has the revision of the set's
//!   template.
//! * **N6** A claim is created without owners, for an ordinal that was seen as wanted. The
//!   controller never deletes a claim. A write of a claim changes only its owners, to those of the
//!   retention policy: the set, or a pod beyond the ordinals. A foreign claim, and a claim of an
//!   earlier pod or set, stays unchanged.
//! * **N7** A revision gets a number above all seen numbers, and has the set's template. A revision
//!   is deleted only if no pod and no status uses it, and as many newer revisions as the history
//!   must keep were seen. A status has the seen generation, counts the seen pods, and names the
//!   revision of the template. The current revision changes only if the rollout is complete or the
//!   revision no longer exists.
//! * **N8** For a set that was seen terminating, nothing is created, deleted or written except its
//!   status and revisions.
//! * **L1** Within a limit after the end of faults, each set has exactly its pods, all ready. They
//!   have the revision of its template, except for those that a partition or `OnDelete` keeps. This
//!   revision has the highest number, the history is within its limit, the status equals a recount,
//!   and claims have the owners of the policy. Users delete the pods for which upstream's
//!   controller waits: a broken pod of a replaced template, a foreign pod with the name of a wanted
//!   pod, or several pods beyond the ordinals that are not ready.
//! * **L2** After that, nothing is written for ten minutes.
//! * **L6** No livelock, as for all workloads.

mod at_rest;
mod bugs;
mod checker;
mod circumstances;
mod draw;
#[cfg(test)]
mod planted_tests;
mod read;
#[cfg(test)]
mod tests;
pub mod users;

use std::sync::Arc;

use podstorm::controller::ControllerType as _;
use podstorm::driver::Workload as _;
use podstorm::policy::Behaviour;
use podstorm::row::ControllerRow;
use podstorm::statefulset::{Controller, StatefulSets};
use podstorm::volumes::PersistentVolumeClaimProtection;
use podstorm_objects::{AnyObject, DynamicObject, Kind};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};
use serde::{Deserialize, Serialize};

use crate::bug::Bug;
use crate::dice::{Dice, Odds};
use crate::invariants::Checker;
use crate::plan::How;
use crate::simulation::{Beside, Ending, OwnerPlan, PodOwners};
use crate::subject::{Schedule, Subject, check_within};
use checker::SetJudge;
use circumstances::Circumstances;
use users::{Retention, SetAction, SetUsers, Strategy};

const SECOND: i64 = 1_000_000_000;

/// A planned StatefulSet. Its name is the value of the label `app` of its pods and its selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedStatefulSet {
    /// The name of the set.
    pub name: String,
    /// The number of replicas.
    pub replicas: u32,
    /// The set's `ordinals.start`.
    #[serde(default)]
    pub start: u32,
    /// Whether the set's `podManagementPolicy` is `Parallel`.
    #[serde(default)]
    pub parallel: bool,
    /// The number of the set's template. With a broken template, a cluster never converges at the
    /// start.
    #[serde(default)]
    pub template: u32,
    /// The set's `updateStrategy`.
    #[serde(default)]
    pub strategy: Strategy,
    /// The set's `rollingUpdate.maxUnavailable`, which requires its feature gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// The set's `minReadySeconds`.
    #[serde(default)]
    pub min_ready_seconds: u32,
    /// The names of the set's claim templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// The set's `persistentVolumeClaimRetentionPolicy`.
    #[serde(default)]
    pub retention: Retention,
    /// The set's `revisionHistoryLimit`.
    #[serde(default)]
    pub revision_history_limit: u32,
}

/// StatefulSets as the owners of pods.
#[derive(Clone, Copy, Debug)]
struct StatefulSetOwners;

impl PodOwners for StatefulSetOwners {
    fn kinds(&self) -> &'static [Kind] {
        &[Kind::STATEFUL_SET]
    }

    fn object(&self, name: &str, plan: &OwnerPlan) -> AnyObject {
        let planned = PlannedStatefulSet {
            name: name.to_owned(),
            replicas: u32::try_from(plan.replicas).unwrap_or(0),
            ..PlannedStatefulSet::default()
        };
        let set = DynamicObject::from_json(Kind::STATEFUL_SET, users::object(&planned));
        Arc::new(set.expect("the StatefulSet is valid"))
    }

    fn missing(&self, harness: &FaultHarness) -> Option<String> {
        at_rest::behind(harness)
    }

    /// Returns false: no sync waits for events. The checker waits for the caches instead.
    fn expect(&self, _: &FaultHarness) -> bool {
        false
    }

    fn have_delayed(&self, harness: &FaultHarness) -> bool {
        let mut controllers = harness.controllers::<Controller>();
        controllers.any(|controller| controller.queues().iter().any(|it| it.delayed() > 0))
    }
}

impl Subject for StatefulSets {
    type Planned = PlannedStatefulSet;
    type Action = SetAction;
    type Drawing = ();
    type Users = SetUsers;
    type Watcher = Beside<SetJudge>;

    const OWNERS: &'static dyn PodOwners = &StatefulSetOwners;

    const BUGS: &'static [Bug] = &bugs::BUGS;

    const BESIDE: &'static [&'static ControllerRow] = &[PersistentVolumeClaimProtection::ROW];

    const ODDS: Odds = Odds {
        stream: "statefulsets",
        without_faults: 15,
        of_one_class: 20,
        classes: 6,
        steps_max: 40,
        calls: &[
            Call::WriteObject,
            Call::WriteObject,
            Call::PutStatus,
            Call::PutStatus,
            Call::PatchPod,
            Call::CreatePod,
            Call::CreatePod,
            Call::DeletePod,
            Call::DeletePod,
            Call::GetOwner,
        ],
        writes: &[
            Call::WriteObject,
            Call::WriteObject,
            Call::PutStatus,
            Call::PatchPod,
            Call::CreatePod,
            Call::DeletePod,
        ],
        resent: &[
            Call::WriteObject,
            Call::CreatePod,
            Call::DeletePod,
            Call::PatchPod,
        ],
    };

    fn name(planned: &PlannedStatefulSet) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedStatefulSet> {
        dice.stateful_sets()
    }

    fn drawing(_: &[PlannedStatefulSet]) {}

    fn draw_user(
        dice: &mut Dice,
        objects: &[PlannedStatefulSet],
        (): &mut (),
    ) -> Vec<(u32, SetAction)> {
        let set = dice.one(objects);
        dice.set_action(&set)
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[PlannedStatefulSet],
        (): &mut (),
    ) -> Option<Vec<(u32, SetAction)>> {
        let set = dice.one(objects);
        dice.own_fault_of_set(class, &set)
    }

    fn draw_target(dice: &mut Dice, objects: &[PlannedStatefulSet]) -> String {
        dice.one(objects).name
    }

    fn draw_stream(dice: &mut Dice, (): &()) -> StreamKind {
        StreamKind::from_kind(dice.one(&[
            Kind::STATEFUL_SET,
            Kind::STATEFUL_SET,
            Kind::POD,
            Kind::POD,
            Kind::PERSISTENT_VOLUME_CLAIM,
            Kind::CONTROLLER_REVISION,
        ]))
    }

    fn check_object(planned: &PlannedStatefulSet) -> Result<(), String> {
        check_within("replicas", planned.replicas, 0, 1_000)
    }

    fn check_action(action: &SetAction) -> Result<(), String> {
        match action {
            SetAction::Scale(_, replicas) => check_within("replicas", *replicas, 0, 1_000),
            SetAction::Start(_, start) => check_within("start", *start, 0, 1_000_000),
            _ => Ok(()),
        }
    }

    fn kinds(_: &Schedule<StatefulSets>) -> Vec<Kind> {
        vec![Kind::STATEFUL_SET]
    }

    fn watcher(schedule: &Schedule<StatefulSets>, how: How) -> Arc<Beside<SetJudge>> {
        let circumstances = Circumstances::from_schedule(schedule, how.behaviour);
        let checker = Checker::new(&schedule.cluster, how);
        Beside::new(checker, SetJudge::new(circumstances))
    }

    fn ending(_: Behaviour) -> Ending {
        Ending {
            // The longest wait after failures: for the claim of a pod, and then for the pod.
            converges_within_ns: 3_000 * SECOND,
            touches_ns: &[90 * SECOND, 400 * SECOND, 1_200 * SECOND, 2_400 * SECOND],
            touches_always: false,
            helped_within_ns: 1_500 * SECOND,
            settles_ns: 120 * SECOND,
            ..Ending::DEFAULT
        }
    }
}
