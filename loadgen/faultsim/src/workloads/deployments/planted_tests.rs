//! Planted faults: a Deployment controller whose requests are replaced, which the checker must
//! detect. A fault is planted for one thread, because a schedule is played on one thread.

use std::cell::Cell;
use std::sync::Arc;

use podstorm::client::Request;
use podstorm::deployment::Controller;
use podstorm::deployment::Deployments;
use podstorm::deployment::annotations::REVISION;
use podstorm::policy::Behaviour;
use podstorm_objects::{Deployment, Kind, Now, ReplicaSet};

use crate::draw::draw;
use crate::play::caught;

type Replace = fn(&Request) -> Option<Vec<Request>>;

/// A planted fault.
#[derive(Clone, Copy)]
enum Fault {
    /// The requests that replace a request.
    Requests(Replace),
    /// A change to the ReplicaSets that the controller writes.
    Writes(fn(&mut ReplicaSet)),
    /// An action after each sync of a Deployment.
    Memory(fn(&Controller, &Deployment, Now)),
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    match PLANTED.get()? {
        Fault::Requests(replace) => replace(request),
        Fault::Writes(change) => changed(request, change),
        Fault::Memory(_) => None,
    }
}

pub(super) fn sync_ended(controller: &Controller, deployment: &Deployment, now: Now) {
    if let Some(Fault::Memory(spoil)) = PLANTED.get() {
        spoil(controller, deployment, now);
    }
}

/// The maximum number of seeds to play for a fault.
const SEEDS: u64 = 200;

/// Plays seeds with the fault until the first violation in one is that of the expected invariant.
/// Without the fault, this seed must pass.
#[track_caller]
fn noticed(fault: Fault, expected: &str) {
    PLANTED.set(Some(fault));
    let found = (1..=SEEDS)
        .map(|seed| draw::<Deployments>(seed, &[]))
        .find(|schedule| {
            let violation = caught(schedule, Behaviour::Hardened).violation;
            violation.is_some_and(|it| it.invariant == expected)
        });
    PLANTED.set(None);
    let schedule = found.unwrap_or_else(|| panic!("no violation of {expected} in {SEEDS} seeds"));
    let healthy = caught(&schedule, Behaviour::Hardened).violation;
    let seed = schedule.seed;
    assert_eq!(healthy, None, "seed {seed} fails without the fault");
}

/// Returns the write of a ReplicaSet, changed by `change`; `None` for any other request.
fn changed(request: &Request, change: fn(&mut ReplicaSet)) -> Option<Vec<Request>> {
    let Request::Put { object } = request else {
        return None;
    };
    let mut set = ReplicaSet::clone(&*object.clone().downcast::<ReplicaSet>()?);
    change(&mut set);
    let object = Arc::new(set);
    Some(vec![Request::Put { object }])
}

#[test]
fn a_new_replica_set_that_grows_too_far_is_detected() {
    noticed(
        Fault::Writes(|set| set.spec.replicas = Some(set.replicas() + 30)),
        "D1",
    );
}

#[test]
fn pods_removed_too_early_are_detected() {
    noticed(
        Fault::Writes(|set| set.spec.replicas = Some(set.replicas() / 2)),
        "D2",
    );
}

#[test]
fn retries_without_a_back_off_are_detected() {
    noticed(
        Fault::Memory(|controller, deployment, _| {
            let meta = &deployment.metadata;
            let key = controller.key(&meta.namespace, &meta.name);
            controller.queue().forget(key);
        }),
        "L6",
    );
}

#[test]
fn a_decreasing_revision_is_detected() {
    noticed(
        Fault::Writes(|set| {
            set.metadata.annotations = set.metadata.annotations.with(REVISION, "0");
        }),
        "D3",
    );
}

#[test]
fn an_old_replica_set_that_grows_is_detected() {
    noticed(
        Fault::Writes(|set| {
            // The write should make the ReplicaSet smaller.
            if set.status.replicas > set.replicas() {
                set.spec.replicas = Some(set.status.replicas + 1);
            }
        }),
        "D4",
    );
}

/// Returns the request that creates a ReplicaSet with the Deployment's template and the given size.
fn creates(deployment: &Deployment, replicas: i32) -> Request {
    let mut set = ReplicaSet::default();
    set.metadata.name = format!("{}-x", deployment.metadata.name).as_str().into();
    set.metadata.namespace = deployment.metadata.namespace.clone();
    set.metadata.labels = deployment.metadata.labels.clone();
    set.metadata.annotations = set.metadata.annotations.with(REVISION, "1000");
    let owner = Kind::DEPLOYMENT.controller_reference(&deployment.metadata);
    set.metadata.owner_references.push(Arc::new(owner));
    set.spec.replicas = Some(replicas);
    set.spec.selector = deployment.spec.selector.clone();
    set.spec.template = deployment.spec.template.clone();
    let object = Arc::new(set);
    Request::Create { object }
}

/// Returns the ReplicaSets that the controller would create without checking whether it may: a
/// second one for a template, and one while the Deployment is paused.
#[test]
fn a_template_started_twice_or_while_paused_is_detected() {
    noticed(
        Fault::Requests(|request| {
            let Request::PutStatus { object } = request else {
                return None;
            };
            let deployment = Deployment::from_object(object)?;
            let wrong = creates(&deployment, 0);
            deployment.spec.paused.then(|| vec![wrong, request.clone()])
        }),
        "D5",
    );
}

#[test]
fn recreation_without_waiting_for_old_pods_is_detected() {
    noticed(
        Fault::Requests(|request| {
            let Request::PutStatus { object } = request else {
                return None;
            };
            let deployment = Deployment::from_object(object)?;
            let (spec, status) = (&deployment.spec, &deployment.status);
            let recreates = *spec.strategy.kind == *"Recreate" && !spec.paused;
            let waits = status.replicas > 0 && status.updated_replicas == 0;
            let wrong = creates(&deployment, 1);
            (recreates && waits).then(|| vec![wrong, request.clone()])
        }),
        "D6",
    );
}

#[test]
fn a_history_that_is_too_short_is_detected() {
    noticed(
        Fault::Requests(|request| {
            let Request::Put { object } = request else {
                return None;
            };
            let set = object.clone().downcast::<ReplicaSet>()?;
            let delete = Request::Delete {
                kind: Kind::REPLICA_SET,
                namespace: set.metadata.namespace.clone(),
                name: set.metadata.name.clone(),
                options: None,
            };
            (set.replicas() == 0).then(|| vec![delete, request.clone()])
        }),
        "D7",
    );
}

#[test]
fn a_rollout_that_stops_is_detected() {
    noticed(
        Fault::Requests(|request| {
            let Request::PutStatus { object } = request else {
                return None;
            };
            let meta = object.metadata();
            let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
            let kind = Kind::DEPLOYMENT;
            Some(vec![Request::Get {
                kind,
                namespace,
                name,
            }])
        }),
        "L1",
    );
}

#[test]
fn a_deployment_that_is_synced_forever_is_detected() {
    noticed(
        Fault::Memory(|controller, deployment, now| {
            let meta = &deployment.metadata;
            let key = controller.key(&meta.namespace, &meta.name);
            controller
                .queue()
                .add_after(key, 1_000_000_000, now.mono_ns);
        }),
        "L2",
    );
}
