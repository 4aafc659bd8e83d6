//! Planted faults: deliberately broken controllers, each of which the checker must detect with some
//! seed.
//!
//! A planted fault does not change the source code. It disables a row of the hardened behaviour,
//! gives the controller other settings than the checkers assume, corrupts the controller's state
//! after every sync, or replaces the controller's requests. A fault is planted for one thread,
//! because a schedule is played on one thread.

use std::cell::Cell;
use std::sync::Arc;

use podstorm::client::{OwnerPatch, Request};
use podstorm::intern::KeyId;
use podstorm::policy::{Behaviour, Policy};
use podstorm::replicaset::{Controller, ReplicaSets};
use podstorm_objects::{Kind, Now, ReplicaSet, Uid};
use podstorm_sim::faults::FaultClass;
use podstorm_sim::options::SimOptions;

use crate::draw::draw;
use crate::play::caught;
use crate::simulation::SPOIL;

const SECOND_NS: i64 = 1_000_000_000;

/// A planted fault.
#[derive(Clone, Copy)]
enum Fault {
    /// A change of the options.
    Options(fn(&mut SimOptions)),
    /// An action after each sync of a key.
    Memory(fn(&Controller, KeyId, Now)),
    /// The requests that replace a request.
    Requests(fn(&Request) -> Option<Vec<Request>>),
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

pub(super) fn sync_ended(controller: &Controller, key: KeyId, now: Now) {
    if let Some(Fault::Memory(spoil)) = PLANTED.get() {
        spoil(controller, key, now);
    }
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    match PLANTED.get() {
        Some(Fault::Requests(replace)) => replace(request),
        _ => None,
    }
}

/// The maximum number of seeds to play for a fault.
const SEEDS: usize = 200;

/// The selection of seeds.
#[derive(Clone, Copy)]
enum Seeds {
    /// Play all seeds.
    All,
    /// Play only seeds without faults, which the reference model follows.
    Calm,
    /// Play all seeds, limited to faults of this class.
    Of(FaultClass),
}

/// Plays seeds with one behaviour until one violates an invariant, and returns that invariant.
#[track_caller]
fn noticed(fault: Fault, behaviour: Behaviour, seeds: Seeds) -> &'static str {
    let classes = match seeds {
        Seeds::Of(class) => vec![class],
        Seeds::All | Seeds::Calm => Vec::new(),
    };
    let schedules = (1..).map(|seed| draw::<ReplicaSets>(seed, &classes));
    let mut schedules = schedules
        .filter(|schedule| !matches!(seeds, Seeds::Calm) || schedule.classes.is_empty())
        .take(SEEDS);
    PLANTED.set(Some(fault));
    if let Fault::Options(change) = fault {
        SPOIL.set(Some(change));
    }
    let found = schedules.find_map(|schedule| {
        let violation = caught(&schedule, behaviour).violation?;
        Some((schedule, violation))
    });
    PLANTED.set(None);
    SPOIL.set(None);
    let (schedule, violation) = found.unwrap_or_else(|| panic!("not detected in {SEEDS} seeds"));
    let healthy = caught(&schedule, behaviour).violation;
    assert_eq!(
        healthy, None,
        "seed {} fails without the fault",
        schedule.seed
    );
    println!("{behaviour:?}, seed {}: {violation}", schedule.seed);
    violation.invariant
}

/// Tests the hardened controller without one row of its policy; the checker must report one of the
/// expected invariants.
#[track_caller]
fn without(row: fn(&mut SimOptions), seeds: Seeds, expected: &[&str]) {
    let found = noticed(Fault::Options(row), Behaviour::Hardened, seeds);
    assert!(expected.contains(&found), "{found}");
}

macro_rules! rows {
    ($($test:ident: $row:ident = $off:expr, $seeds:expr, $expected:expr;)*) => {
        $(
            #[test]
            fn $test() {
                without(|options| options.policy.$row = $off, $seeds, $expected);
            }
        )*
    };
}

rows! {
    a_sync_that_ignores_its_own_writes_is_detected:
        record_every_write = false, Seeds::All, &["S1", "S2", "S3", "L3"];
    expectations_that_are_never_cleared_are_detected:
        clear_stale_expectations = false, Seeds::All, &["L1", "S5"];
    pod_names_chosen_by_the_server_are_detected:
        choose_pod_names = false, Seeds::All, &["S1", "S7"];
    deletes_without_a_uid_are_detected:
        delete_by_uid = false, Seeds::All, &["S3"];
    retries_without_a_limit_are_detected:
        retry_max_ns = None, Seeds::Of(FaultClass::Quota), &["L1"];
    a_status_for_a_successor_is_detected:
        verify_uid_on_status_write = false, Seeds::All, &["S7"];
    availability_by_a_wrong_clock_is_detected:
        bound_availability_checks = false, Seeds::Of(FaultClass::Clock), &["L1"];
    pods_ranked_without_their_nodes_are_detected:
        rank_without_owner = false, Seeds::Calm, &["model"];
    creates_counted_in_a_terminating_namespace_are_detected:
        terminating_namespace_is_a_failure = false,
        Seeds::Of(FaultClass::NamespaceTermination), &["L1", "S6"];
}

/// Tests a controller that is broken with both behaviours. With each, the checker must report one
/// of the expected invariants.
#[track_caller]
fn wrong(fault: Fault, expected: &[&str]) {
    for behaviour in Behaviour::ALL {
        let found = noticed(fault, behaviour, Seeds::All);
        assert!(expected.contains(&found), "{behaviour:?}: {found}");
    }
}

/// Disables a feature gate.
fn close(options: &mut SimOptions, gate: &str) {
    let gates = &mut options.controller.feature_gates;
    gates.insert(gate.to_owned(), false);
}

#[test]
fn a_burst_that_is_too_large_is_detected() {
    let fault = Fault::Options(|options| options.controller.burst_replicas = 500);
    wrong(fault, &["I2", "S6"]);
}

#[test]
fn a_missing_count_in_the_status_is_detected() {
    let gate = |options: &mut SimOptions| close(options, "DeploymentReplicaSetTerminatingReplicas");
    let fault = Fault::Options(gate);
    wrong(fault, &["S7", "L1", "model"]);
}

#[test]
fn a_disabled_gate_is_detected() {
    let gate = |options: &mut SimOptions| close(options, "StaleControllerConsistencyReplicaSet");
    let seeds = Seeds::Of(FaultClass::ExpectationTimeout);
    let found = noticed(Fault::Options(gate), Behaviour::Upstream, seeds);
    assert_eq!(found, "S1");
}

#[test]
fn forgotten_expectations_are_detected() {
    let fault = Fault::Memory(|controller, key, _| controller.expectations().delete(key));
    let found = noticed(fault, Behaviour::Upstream, Seeds::All);
    assert!(["S1", "S2", "I6"].contains(&found), "{found}");
}

#[test]
fn expectations_of_missing_events_are_detected() {
    wrong(
        Fault::Memory(|controller, key, now| {
            let expectations = controller.expectations();
            if expectations.satisfied(key, now.mono_ns) {
                expectations.expect_creations(key, 1, now.mono_ns);
            }
        }),
        &["L1", "L3", "S5", "model"],
    );
}

#[test]
fn forgotten_records_of_own_writes_are_detected() {
    let fault = Fault::Memory(|controller, key, _| controller.consistency().clear(&key, None));
    let found = noticed(fault, Behaviour::Hardened, Seeds::All);
    assert!(["S1", "S2", "S3"].contains(&found), "{found}");
}

#[test]
fn lost_keys_are_detected() {
    let fault = Fault::Memory(|controller, _, now| {
        use podstorm::workqueue::Take;
        if let Take::Key(lost) = controller.queue().try_take(now.mono_ns) {
            controller.queue().done(lost, now.mono_ns);
        }
    });
    wrong(fault, &["L1", "model"]);
}

#[test]
fn keys_that_are_requeued_forever_are_detected() {
    let fault = Fault::Memory(|controller, key, now| {
        controller.queue().add_after(key, SECOND_NS, now.mono_ns);
    });
    wrong(fault, &["L2"]);
}

#[test]
fn retries_without_a_back_off_are_detected() {
    let fault = Fault::Memory(|controller, key, _| controller.queue().forget(key));
    let found = noticed(fault, Behaviour::Upstream, Seeds::All);
    assert_eq!(found, "L6");
}

#[test]
fn an_excess_pod_is_detected() {
    wrong(
        Fault::Requests(|request| match request {
            Request::CreatePod {
                namespace,
                pod: body,
                ..
            } if body.metadata.owner_references.len() == 1 => {
                let more = Request::CreatePod {
                    namespace: namespace.clone(),
                    pod: Arc::clone(body),
                    name: None,
                };
                Some(vec![more, request.clone()])
            }
            _ => None,
        }),
        &["S1", "S7", "model", "L1"],
    );
}

#[test]
fn a_pod_for_another_owner_is_detected() {
    wrong(
        Fault::Requests(|request| {
            let mut wrong = request.clone();
            if let Request::CreatePod { pod: body, .. } = &mut wrong {
                let owners = &mut Arc::make_mut(body).metadata.owner_references;
                Arc::make_mut(owners.first_mut()?).uid = Uid::new("another");
                return Some(vec![wrong]);
            }
            None
        }),
        &["S4"],
    );
}

#[test]
fn orphans_that_are_never_adopted_are_detected() {
    wrong(
        Fault::Requests(|request| {
            let mut wrong = request.clone();
            if let Request::PatchOwners { patch, .. } = &mut wrong
                && let OwnerPatch::Adopt { owner, uid } = patch
            {
                *patch = OwnerPatch::Release {
                    owner_uid: owner.uid.clone(),
                    uid: uid.clone(),
                };
                return Some(vec![wrong]);
            }
            None
        }),
        &["L1", "L2", "S4", "S9", "model"],
    );
}

#[test]
fn a_status_with_missing_parts_is_detected() {
    wrong(
        Fault::Requests(|request| {
            let Request::PutStatus { object } = request else {
                return None;
            };
            let set = podstorm::replicaset::as_replica_set(object)?;
            if object.kind() != Kind::REPLICA_SET {
                return None;
            }
            let mut set = ReplicaSet::clone(&set);
            set.status.ready_replicas = 0;
            let object = Arc::new(set);
            Some(vec![Request::PutStatus { object }])
        }),
        &["S7", "L1", "L2", "model"],
    );
}

/// Without one of the other rows, thousands of seeds violate no invariant, because related rows
/// compensate for it. Each of these rows has its own test. The test does not compile until a new
/// row of the policy is added to this list.
#[test]
fn every_row_is_planted_or_has_its_own_test() {
    let Policy {
        record_every_write: _,
        clear_stale_expectations: _,
        choose_pod_names: _,
        delete_by_uid: _,
        retry_max_ns: _,
        verify_uid_on_status_write: _,
        bound_availability_checks: _,
        rank_without_owner: _,
        terminating_namespace_is_a_failure: _,
        // `a_create_with_a_lost_answer_creates_one_pod`.
        fence_unknown_outcomes: _,
        // `nothing_is_counted_before_the_caches_reach_the_start`.
        fence_at_start: _,
        // `a_burst_ends_with_its_object`.
        recheck_owner_between_batches: _,
        // `an_owner_that_loses_a_pod_as_its_deletion_begins_is_woken`.
        wake_previous_owners: _,
        // `a_pod_gone_before_its_finalizer_is_counted_once`, in the tests of Jobs.
        count_gone_pods_once: _,
        // `an_orphan_with_its_finalizer_left_is_retried`, in the tests of Jobs.
        retry_orphans: _,
        // `an_index_keeps_its_first_written_outcome`, in the tests of Jobs.
        keep_first_outcome: _,
        // The known bug m13.
        tell_active_in_backoff: _,
        // The known bugs m17 and m18.
        replace_broken_pods: _,
        // The known bug m19.
        complete_when_available: _,
        // The tests of the reflector's maximum delay.
        watch_retry_max_ns: _,
    } = Behaviour::Hardened.policy();
}
