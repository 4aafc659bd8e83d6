//! The names that the hardened behaviour gives to pods: one for each slot of an owner, the same
//! whoever computes it, so that a create that is sent again finds its name taken.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Now, Pod, Selector, Uid};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::intern::KeyId;

use super::super::owners::Owner;
use super::super::sync::{State, Sync};
use super::super::{Controller, Step};
use super::pending_creates::Holder;

/// The characters that the API server puts at the end of generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// So many of them.
const SUFFIX_LEN: usize = 5;

/// Slots of an owner, 27^5: each has a suffix of its own.
const SLOTS: u64 = 14_348_907;

/// Longest prefix, in bytes; the server cuts there too.
const PREFIX_LEN_MAX: usize = 63 - SUFFIX_LEN;

/// The names of one owner's pods by slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotNames<'a> {
    prefix: &'a str,
    /// Slot `s` has suffix number `factor * s + first` modulo [`SLOTS`]: no two the same, because
    /// the factor is no multiple of 3.
    factor: u64,
    first: u64,
}

impl<'a> SlotNames<'a> {
    /// Those of the owner with that UID, whose pods have that prefix (`generateName`).
    pub(super) fn new(prefix: &'a str, owner: &Uid) -> SlotNames<'a> {
        let mut end = prefix.len().min(PREFIX_LEN_MAX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        // Owners with the same first 58 bytes shall not all try the same names.
        let hash = hash_of(owner);
        let factor = 1 + hash % (SLOTS - 1);
        SlotNames {
            prefix: &prefix[..end],
            factor: if factor.is_multiple_of(3) {
                factor + 1
            } else {
                factor
            },
            first: (hash >> 32) % SLOTS,
        }
    }

    pub(super) fn name(&self, slot: u64) -> CompactString {
        let mut number = (self.factor * (slot % SLOTS) + self.first) % SLOTS;
        let mut suffix = [0u8; SUFFIX_LEN];
        for byte in &mut suffix {
            *byte = ALPHABET[(number % 27) as usize];
            number /= 27;
        }
        let mut name = CompactString::with_capacity(self.prefix.len() + SUFFIX_LEN);
        name.push_str(self.prefix);
        name.push_str(std::str::from_utf8(&suffix).expect("the alphabet is ASCII"));
        name
    }
}

/// The same in every process: it must outlive this one.
fn hash_of(uid: &Uid) -> u64 {
    // FNV-1a, then a mixing step, because the last bytes move few of its high bits.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let start = 0xcbf2_9ce4_8422_2325;
    let hash = match uid.as_u128() {
        Some(bits) => bits.to_be_bytes().iter().fold(start, fold),
        None => uid.to_string().as_bytes().iter().fold(start, fold),
    };
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// What a pod is to an owner, as a sync counts.
fn holder_of(owner: &Owner, pod: &Pod) -> Holder {
    let controller = pod.metadata.controller();
    let selects = |selector: &Selector| selector.matches(&pod.metadata.labels);
    if controller.is_none_or(|controller| controller.uid != owner.controller_ref.uid) {
        Holder::Foreign
    } else if pod.is_active() && owner.selector.as_deref().is_ok_and(selects) {
        Holder::Counted
    } else {
        Holder::Uncounted
    }
}

impl Controller {
    /// What is known now of a create under a chosen name.
    pub(in super::super) fn note_outcome(
        &self,
        owner: &Owner,
        key: KeyId,
        request: &Request,
        answer: &Answer,
        now: Now,
    ) {
        let Request::CreatePod {
            name: Some(name), ..
        } = request
        else {
            return;
        };
        // A name that is taken, although the cache did not show it, was perhaps asked for before by a
        // layer below, and that one may come again.
        if let Answer::Failed(error) = answer {
            let is_taken = error.reason == Reason::AlreadyExists;
            if is_taken || error.outcome_is_unknown() {
                let uid = &owner.controller_ref.uid;
                self.hardened
                    .pending_creates
                    .note(key, uid, name, is_taken, now.mono_ns);
            }
        }
    }

    /// Loads the names of which it is not known what became of them into the sync. To be called
    /// before the pods are counted: a pod that comes to one of these names after that is not among
    /// the counted ones, and asking for it again finds its name taken.
    pub(super) fn load_pending_creates(&self, owner: &Owner, sync: &mut Sync, now: Now) {
        let holder = |name: &CompactString| match self.pods().get(&owner.namespace, name) {
            None => Holder::Nobody,
            Some(pod) => holder_of(owner, &pod),
        };
        let uid = &owner.controller_ref.uid;
        sync.pending = self
            .hardened
            .pending_creates
            .of(sync.key, uid, now.mono_ns, holder);
    }

    /// How many of the missing pods must not be made yet, because the name of such a create is with
    /// a pod that does not count, and a late create may come in its place. The key comes back when
    /// that is settled.
    pub(super) fn held_back(&self, sync: &Sync, now: Now) -> usize {
        if sync.pending.uncounted > 0 {
            self.queue
                .add_after(sync.key, sync.pending.until_ns - now.mono_ns, now.mono_ns);
        }
        sync.pending.uncounted
    }

    /// Asks for so many pods, each under a name of which it is not known what became of it, or else
    /// of the next slot that the cache does not hold. O(own pods) look-ups in a sync, because a slot
    /// is looked at once.
    pub(in super::super) fn request_named_pods(
        &self,
        owner: &Arc<Owner>,
        sync: &mut Sync,
        size: usize,
    ) -> Step {
        let pod = owner.pod_from_template();
        let prefix = pod.metadata.generate_name.as_deref().unwrap_or_default();
        let names = SlotNames::new(prefix, &owner.controller_ref.uid);
        let held = |name: &CompactString| self.pods().contains(&owner.namespace, name);
        let mut slot = sync.next_slot;
        sync.requests.clear();
        for _ in 0..size {
            let again = sync.pending.free.get(sync.pending_asked).cloned();
            sync.pending_asked += usize::from(again.is_some());
            let name = again.or_else(|| {
                let free = |slot: &u64| {
                    let name = names.name(*slot);
                    !sync.pending.free.contains(&name) && !held(&name)
                };
                // With every name taken the server may find one.
                let found = (slot..SLOTS).find(free);
                slot = found.map_or(SLOTS, |found| found + 1);
                found.map(|found| names.name(found))
            });
            sync.requests.push(Request::CreatePod {
                namespace: owner.namespace.clone(),
                pod: pod.clone(),
                name,
            });
        }
        sync.next_slot = slot;
        sync.await_answers(State::Creating)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::harness::{Fault, Harness, LOST};
    use super::super::super::{Outcome, SyncErrorClass};
    use super::*;
    use crate::policy::Behaviour::{Hardened, Upstream};
    use podstorm_objects::{OwnerReference, PodPhase, Uid};
    use podstorm_runtime::client::{ApiError, Reason};
    use podstorm_runtime::driver::Progress;
    use podstorm_runtime::limits::REQUEST_DEADLINE_NS;

    #[test]
    fn slots_have_names_of_their_own_that_look_like_the_servers() {
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
    fn long_prefixes_are_cut_and_owners_differ() {
        let prefix = "a".repeat(70);
        let one = SlotNames::new(&prefix, &Uid::from_u128(1)).name(0);
        let other = SlotNames::new(&prefix, &Uid::from_u128(2)).name(0);
        assert_eq!(one.len(), 63);
        assert_ne!(one, other);
        // Whoever computes it: names must not change between releases.
        assert_eq!(
            SlotNames::new("web-", &Uid::from_u128(1)).name(0),
            SlotNames::new("web-", &Uid::from_u128(1)).name(SLOTS)
        );
    }

    #[test]
    fn the_lowest_slots_whose_names_are_free_are_taken() {
        let mut harness = Harness::new(Hardened, 3);
        harness.sync();
        harness.deliver();
        let first: BTreeSet<String> = harness.server.pods.keys().cloned().collect();
        harness.sync();
        let gone = first.iter().next().unwrap().clone();
        harness.server.remove_pod(&gone);
        harness.deliver();
        harness.sync();
        assert_eq!(
            harness.server.pods.keys().cloned().collect::<BTreeSet<_>>(),
            first
        );
        // A pod on its way out still has its name.
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
    fn a_create_of_another_incarnation_is_not_made_again() {
        for behaviour in [Upstream, Hardened] {
            let mut harness = Harness::new(behaviour, 2);
            // Committed after this one's caches were filled and its fences read.
            let pod = harness
                .controller
                .owners()
                .get(harness.key)
                .unwrap()
                .pod_from_template()
                .clone();
            let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
            let mut pod = Pod::clone(&pod);
            pod.metadata.name = names.name(0);
            harness.server.put_pod(pod);
            let failed = harness.sync() != Outcome::Ok;
            assert_eq!(failed, behaviour == Hardened);
            assert_eq!(
                harness.driver.sync.take_events().count(),
                if failed { 0 } else { 2 }
            );
            assert!(harness.server.owner.status.conditions.is_empty());
            harness.deliver();
            harness.sync();
            // Upstream made one too many and takes it back.
            assert_eq!(harness.server.pods.len(), 2);
            assert_eq!(
                harness.server.calls("delete"),
                usize::from(behaviour == Upstream)
            );
        }
    }

    #[test]
    fn a_name_that_another_holds_is_left_to_it() {
        let mut harness = Harness::new(Hardened, 1);
        let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
        let mut pod = Pod::default();
        pod.metadata.name = names.name(0);
        harness.server.put_pod(pod);
        let outcome = harness.sync();
        assert!(
            matches!(&outcome, Outcome::Failed(error) if error.class == SyncErrorClass::Create)
        );
        // The fence makes sure that the cache shows whose it is.
        assert_eq!(harness.server.log.last().unwrap(), "read pods");
        harness.deliver();
        assert_eq!(harness.sync(), Outcome::Ok);
        assert!(harness.server.pods.contains_key(&*names.name(1)));
    }

    #[test]
    fn batches_of_one_sync_share_no_name() {
        let mut harness = Harness::new(Hardened, 40);
        assert_eq!(harness.sync(), Outcome::Ok);
        assert_eq!(
            (harness.server.pods.len(), harness.server.calls("create")),
            (40, 40)
        );
    }

    #[test]
    fn a_refused_create_is_told_of_and_one_that_is_lost_keeps_its_slot() {
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
        assert!(
            expected
                .iter()
                .all(|name| harness.server.pods.contains_key(name))
        );
    }

    #[test]
    fn a_create_that_may_come_yet_is_asked_for_again_under_its_name() {
        let mut harness = Harness::new(Hardened, 3);
        harness.sync();
        harness.deliver();
        harness.sync();
        let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
        harness.server.set_replicas(4);
        harness.deliver_owners();
        // Not committed so far, for all that is known.
        let cut = Fault::Refuse(ApiError::transport("connection reset by peer"));
        harness
            .server
            .fault("create", harness.server.calls("create"), cut);
        assert!(matches!(harness.sync(), Outcome::Failed(_)));
        // A lower slot becomes free, and must not be taken instead.
        harness.server.remove_pod(&names.name(0));
        harness.deliver();
        harness.server.set_replicas(3);
        harness.deliver_owners();
        harness.sync();
        assert!(harness.server.pods.contains_key(&*names.name(3)));
        assert!(!harness.server.pods.contains_key(&*names.name(0)));
    }

    #[test]
    fn a_late_create_that_lands_while_pods_are_adopted_is_not_made_beside() {
        let mut harness = Harness::new(Hardened, 2);
        // Not committed so far, for all that is known.
        let cut = Fault::Refuse(ApiError::transport("connection reset by peer"));
        harness.server.fault("create", 0, cut);
        assert!(matches!(harness.sync(), Outcome::Failed(_)));
        let names = SlotNames::new("web-", &harness.server.owner.metadata.uid);
        let late = harness.own_pod(&names.name(0));
        let mut orphan = harness.own_pod("orphan");
        orphan.metadata.owner_references = Default::default();
        harness.server.put_pod(orphan);
        harness.deliver();
        // The sync has counted its pods, and asks whether it may adopt.
        assert_eq!(harness.begin(), Progress::Waiting);
        assert!(matches!(
            harness.driver.sync.requests(),
            [Request::Get { .. }]
        ));
        harness.server.put_pod(late);
        harness.deliver();
        harness.answer();
        harness.resume_to_end();
        assert_eq!(harness.server.calls("patch"), 1, "the orphan is adopted");
        assert_eq!(
            harness.server.pods.len(),
            2,
            "{:?}",
            harness.server.pods.keys()
        );
    }

    #[test]
    fn nothing_takes_the_place_of_a_pod_that_leaves_while_its_first_create_may_come() {
        // The answer is lost, or says that a layer below has asked before.
        let lost = ApiError::transport("connection reset by peer");
        let taken = ApiError::status(409, Reason::AlreadyExists, "refused");
        let leaves = |pod: &mut Pod, now: Now| pod.metadata.deletion_timestamp = now.wall();
        let is_anothers = |pod: &mut Pod, _| {
            let owner = pod.metadata.controller().expect("it is ours");
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
        nothing_takes_the_place_after(lost, is_anothers);
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
        assert_eq!(
            harness.server.calls("create"),
            made,
            "the first one may come when this is gone"
        );
        harness.server.remove_pod(&name);
        harness.deliver();
        assert_eq!(harness.sync(), Outcome::Ok);
        assert!(
            harness.server.pods.contains_key(&*name),
            "under the same name"
        );
        // Long after, another may be made at once.
        let mut leaving = Pod::clone(&harness.server.pods[&*name]);
        leaving.metadata.deletion_timestamp = harness.now.wall();
        harness.server.put_pod(leaving);
        harness.deliver();
        harness.advance(REQUEST_DEADLINE_NS);
        harness.sync();
        assert!(harness.server.pods.contains_key(&*names.name(1)));
    }
}
