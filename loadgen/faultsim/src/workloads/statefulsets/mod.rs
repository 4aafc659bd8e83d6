//! StatefulSets under faults. A seed draws one to three sets; users change, scale, delete and recreate them, let
//! rollouts fail, and delete, relabel and create their pods and claims. The controller that protects claims runs
//! beside.
//!
//! # Invariants
//!
//! N1 to N8 look at one commit of the controller of StatefulSets. *Seen* is what the controller's caches had when the
//! sync began. A pod is *ready* here if it runs, is ready and available, and is not on its way out. A template is known
//! by its image and its scheduler, and a revision by the template that it keeps.
//!
//! * **N1** A pod that is created has the name of an ordinal that the set was seen to want and of which no pod was seen,
//!   the labels of that name, and the set as its controller. A pod that is adopted was seen free, selected and with a
//!   name of the set's; one that is released is not so; one that is written has its own name as a label.
//! * **N2** A set with an order creates a pod only if all pods below were seen ready, and creates or deletes one pod in
//!   one sync.
//! * **N3** A pod is deleted for one of three reasons: it is beyond the ordinals, it has ended, or it is outdated. With an
//!   order a pod beyond the ordinals goes only if all wanted ones were seen ready and none above was seen; one that is
//!   not ready only if none below is so, too.
//! * **N4** A pod goes for an update only if its revision has another template than the set's, the strategy is not
//!   `OnDelete`, and every pod above was seen updated and available: one after the other, from the highest ordinal
//!   down. With an order all pods were seen ready. With the gate of `maxUnavailable` no more go than may be
//!   unavailable. The hardened controller replaces an outdated pod that is not ready at once.
//! * **N5** No pod below the partition goes for an update, and a new pod there is from the current revision, if that was
//!   seen. Every other new pod is from the revision of the set's template.
//! * **N6** A claim is created for an ordinal that was seen wanted, without owners, and is never deleted. A write of a
//!   claim changes its owners alone, to those of the retention policy: a set goes with its claims, or a pod beyond the
//!   ordinals does; somebody else's claim, and one of an earlier pod or set, stays as it is.
//! * **N7** A revision gets a number above all that were seen, and has the set's template. One is deleted only if no pod
//!   and no status needs it, and as many newer ones as are to be kept were seen. A status is of the generation that
//!   was seen, counts the pods that were seen, and names the revision of the template; the current revision changes
//!   only where the rollout is complete, or where the revision is gone.
//! * **N8** Nothing is created, deleted or written for a set that was seen on its way out, but its status and revisions.
//! * **L1** So long after the end of faults each set has exactly its pods, all ready, and at the revision of its template
//!   but for those that a partition or `OnDelete` keeps. That revision has the highest number, the history is within
//!   its limit, the status is what a recount gives, and claims have the owners of the policy. Users delete what
//!   upstream's controller waits for: a broken pod of a template that was given up, a pod that has the name of a
//!   wanted one, several pods beyond the ordinals that are not ready.
//! * **L2** Then nothing is written for ten minutes.
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

/// A planned StatefulSet. Its pods have its name as their label `app`, by which it selects them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedStatefulSet {
    /// Its name.
    pub name: String,
    /// How many replicas.
    pub replicas: u32,
    /// `ordinals.start`.
    #[serde(default)]
    pub start: u32,
    /// Whether `podManagementPolicy` is `Parallel`.
    #[serde(default)]
    pub parallel: bool,
    /// The number of its template. A cluster with one that can't run is never built.
    #[serde(default)]
    pub template: u32,
    /// `updateStrategy`.
    #[serde(default)]
    pub strategy: Strategy,
    /// `rollingUpdate.maxUnavailable`, which needs its feature gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// `minReadySeconds`.
    #[serde(default)]
    pub min_ready_seconds: u32,
    /// The names of its claim templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// `persistentVolumeClaimRetentionPolicy`.
    #[serde(default)]
    pub retention: Retention,
    /// `revisionHistoryLimit`.
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
        Arc::new(set.expect("a StatefulSet of our own making"))
    }

    fn missing(&self, harness: &FaultHarness) -> Option<String> {
        at_rest::behind(harness)
    }

    /// No sync waits for events: the caches are waited for instead.
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
        StreamKind::of(dice.one(&[
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
        let circumstances = Circumstances::of(schedule, how.behaviour);
        Beside::new(
            Checker::new(&schedule.cluster, how),
            SetJudge::new(circumstances),
        )
    }

    fn ending(_: Behaviour) -> Ending {
        Ending {
            // The longest wait after failures, for the claim that a pod waits for, and then for the pod.
            converges_within_ns: 3_000 * SECOND,
            touches_ns: &[90 * SECOND, 400 * SECOND, 1_200 * SECOND, 2_400 * SECOND],
            touches_always: false,
            helped_within_ns: 1_500 * SECOND,
            settles_ns: 120 * SECOND,
            ..Ending::DEFAULT
        }
    }
}
