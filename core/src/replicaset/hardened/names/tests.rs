//! Tests of chosen pod names. Some compare the behaviour with upstream's.

use std::collections::BTreeSet;

use super::super::super::harness::{Fault, Harness, LOST};
use super::super::super::{Outcome, SyncErrorClass};
use super::super::tests::settled;
use super::*;
use crate::policy::Behaviour::{Hardened, Upstream};
use podstorm_objects::{OwnerReference, PodPhase, Uid};
use podstorm_runtime::client::{ApiError, Reason};
use podstorm_runtime::driver::Progress;
use podstorm_runtime::limits::REQUEST_DEADLINE_NS;

#[test]
fn each_slot_has_a_unique_name_like_the_servers() {
    for uid in ["7f420cbd-206a-47ea-a64a-f37288a6840d", "x", ""] {
        let names = SlotNames::new("web-", &Uid::new(uid));
        let all: BTreeSet<_> = (0..20_000).map(|slot| names.name(slot)).collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.iter().all(|name| {
            let suffix = name.strip_prefix("web-").unwrap_or_default();
            suffix.len() == SUFFIX_LEN && suffix.bytes().all(|b| ALPHABET.contains(&b))
        }));
    }
}

#[test]
fn every_factor_reaches_every_suffix() {
    for number in 0..1_000 {
        let names = SlotNames::new("", &Uid::from_u128(number));
        assert!(!names.factor.is_multiple_of(3), "{number}");
        assert!(names.factor.checked_mul(SLOTS).is_some());
    }
    assert_eq!(SLOTS, 27u64.pow(5));
}

#[test]
fn long_prefixes_are_cut_and_owners_get_different_names() {
    let prefix = "a".repeat(70);
    let one = SlotNames::new(&prefix, &Uid::from_u128(1)).name(0);
    let other = SlotNames::new(&prefix, &Uid::from_u128(2)).name(0);
    assert_eq!(one.len(), 63);
    assert_ne!(one, other);
    // Names must not change between releases.
    let names = SlotNames::new("web-", &Uid::from_u128(1));
    assert_eq!(names.name(0), names.name(SLOTS));
}

#[test]
fn the_lowest_slots_with_free_names_are_taken() {
    let mut harness = settled(Hardened, 3);
    let first: BTreeSet<String> = harness.server.pods.keys().cloned().collect();
    let gone = first.iter().next().unwrap().clone();
    harness.server.remove_pod(&gone);
    harness.deliver();
    harness.sync();
    let again: BTreeSet<String> = harness.server.pods.keys().cloned().collect();
    assert_eq!(again, first);
    // A terminating pod still has its name.
    harness.deliver();
    harness.sync();
    let mut leaving = Pod::clone(&harness.server.pods[&gone]);
    leaving.metadata.deletion_timestamp = harness.now.wall();
    harness.server.put_pod(leaving);
    harness.deliver();
    assert_eq!(harness.sync(), Outcome::Ok);
    assert_eq!(harness.server.pods.len(), 4);
}

#[test]
fn a_create_of_another_incarnation_is_not_repeated() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 2);
        // Committed after the caches of this incarnation were filled and its fences were read.
        let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
        harness.server.put_pod(harness.own_pod(&names.name(0)));
        let failed = harness.sync() != Outcome::Ok;
        assert_eq!(failed, behaviour == Hardened);
        let events = harness.driver.sync.take_events().count();
        assert_eq!(events, if failed { 0 } else { 2 });
        assert!(harness.server.owner.status.conditions.is_empty());
        harness.deliver();
        harness.sync();
        // Upstream has created one pod too many and deletes it.
        assert_eq!(harness.server.pods.len(), 2);
        let deleted = harness.server.calls("delete");
        assert_eq!(deleted, usize::from(behaviour == Upstream));
    }
}

#[test]
fn a_name_held_by_another_pod_is_skipped() {
    let mut harness = Harness::new(Hardened, 1);
    let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
    let mut pod = Pod::default();
    pod.metadata.name = names.name(0);
    harness.server.put_pod(pod);
    let outcome = harness.sync();
    assert!(matches!(&outcome, Outcome::Failed(error) if error.class == SyncErrorClass::Create));
    // The fence ensures that the cache shows the pod's owner.
    assert_eq!(harness.server.log.last().unwrap(), "read pods");
    harness.deliver();
    assert_eq!(harness.sync(), Outcome::Ok);
    assert!(harness.server.pods.contains_key(&*names.name(1)));
}

#[test]
fn batches_of_one_sync_use_different_names() {
    let mut harness = Harness::new(Hardened, 40);
    assert_eq!(harness.sync(), Outcome::Ok);
    assert_eq!(harness.server.pods.len(), 40);
    assert_eq!(harness.server.calls("create"), 40);
}

#[test]
fn a_refused_create_is_reported_and_a_lost_one_keeps_its_slot() {
    let mut harness = Harness::new(Hardened, 2);
    let error = ApiError::status(403, Reason::Forbidden, "exceeded quota");
    harness.server.fault("create", 0, LOST);
    harness.server.fault("create", 1, Fault::Refuse(error));
    harness.sync();
    assert_eq!(harness.driver.sync.take_events().count(), 1);
    harness.deliver();
    assert!(matches!(harness.sync(), Outcome::Failed(_)));
    harness.deliver();
    assert_eq!(harness.sync(), Outcome::Ok);
    let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
    let expected = [names.name(0), names.name(1)].map(String::from);
    let pods = &harness.server.pods;
    assert!(expected.iter().all(|name| pods.contains_key(name)));
}

#[test]
fn a_create_that_may_still_commit_is_retried_with_its_name() {
    let mut harness = settled(Hardened, 3);
    let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
    harness.server.set_replicas(4);
    harness.deliver_owners();
    // To the controller's knowledge, the create is not committed yet.
    let cut = Fault::Refuse(ApiError::transport("connection reset by peer"));
    harness
        .server
        .fault("create", harness.server.calls("create"), cut);
    assert!(matches!(harness.sync(), Outcome::Failed(_)));
    // A lower slot becomes free. It must not be used instead.
    harness.server.remove_pod(&names.name(0));
    harness.deliver();
    harness.server.set_replicas(3);
    harness.deliver_owners();
    harness.sync();
    assert!(harness.server.pods.contains_key(&*names.name(3)));
    assert!(!harness.server.pods.contains_key(&*names.name(0)));
}

#[test]
fn a_late_create_during_an_adoption_is_not_duplicated() {
    let mut harness = Harness::new(Hardened, 2);
    // To the controller's knowledge, the create is not committed yet.
    let cut = Fault::Refuse(ApiError::transport("connection reset by peer"));
    harness.server.fault("create", 0, cut);
    assert!(matches!(harness.sync(), Outcome::Failed(_)));
    let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
    let late = harness.own_pod(&names.name(0));
    let mut orphan = harness.own_pod("orphan");
    orphan.metadata.owner_references = Default::default();
    harness.server.put_pod(orphan);
    harness.deliver();
    // The sync has counted its pods and reads the owner before it adopts.
    assert_eq!(harness.begin(), Progress::Waiting);
    assert!(matches!(
        harness.driver.sync.requests(),
        [Request::Get { .. }]
    ));
    harness.server.put_pod(late);
    harness.deliver();
    harness.answer();
    harness.resume_to_end();
    assert_eq!(
        harness.server.calls("patch"),
        1,
        "the sync adopts the orphan"
    );
    let pods = &harness.server.pods;
    assert_eq!(pods.len(), 2, "{:?}", pods.keys());
}

#[test]
fn a_leaving_pod_is_not_replaced_while_its_create_may_commit() {
    // The answer is lost, or it shows that a layer below sent the create before.
    let lost = ApiError::transport("connection reset by peer");
    let taken = ApiError::status(409, Reason::AlreadyExists, "refused");
    let leaves = |pod: &mut Pod, now: Now| pod.metadata.deletion_timestamp = now.wall();
    let belongs_to_another = |pod: &mut Pod, _| {
        let owner = pod
            .metadata
            .controller()
            .expect("the owner controls the pod");
        let mut other = OwnerReference::clone(owner);
        other.uid = Uid::from_u128(0xb);
        pod.metadata.owner_references = Default::default();
        pod.metadata.owner_references.push(Arc::new(other));
    };
    let has_ended = |pod: &mut Pod, _| pod.status.phase = PodPhase::Failed;
    for loss in [leaves, has_ended] {
        nothing_takes_the_place_after(lost.clone(), loss);
        nothing_takes_the_place_after(taken.clone(), loss);
    }
    nothing_takes_the_place_after(lost, belongs_to_another);
}

fn nothing_takes_the_place_after(error: ApiError, loss: fn(&mut Pod, Now)) {
    let mut harness = Harness::new(Hardened, 1);
    harness.server.fault("create", 0, Fault::Refuse(error));
    harness.sync();
    harness.deliver();
    assert_eq!(harness.sync(), Outcome::Ok);
    harness.deliver();
    harness.sync();
    let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
    let name = names.name(0);
    let mut lost = Pod::clone(&harness.server.pods[&*name]);
    loss(&mut lost, harness.now);
    harness.server.put_pod(lost);
    harness.deliver();
    let made = harness.server.calls("create");
    assert_eq!(harness.sync(), Outcome::Ok);
    let now = harness.server.calls("create");
    assert_eq!(
        now, made,
        "the first create may succeed once this pod is gone"
    );
    harness.server.remove_pod(&name);
    harness.deliver();
    assert_eq!(harness.sync(), Outcome::Ok);
    assert!(
        harness.server.pods.contains_key(&*name),
        "the retry uses the same name"
    );
    // After the deadline another pod may be created immediately.
    let mut leaving = Pod::clone(&harness.server.pods[&*name]);
    leaving.metadata.deletion_timestamp = harness.now.wall();
    harness.server.put_pod(leaving);
    harness.deliver();
    harness.advance(REQUEST_DEADLINE_NS);
    harness.sync();
    assert!(harness.server.pods.contains_key(&*names.name(1)));
}
