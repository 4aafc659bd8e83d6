//! Pod names in the hardened behaviour. Each slot of an owner has one name, and every incarnation
//! of the controller computes the same one, so a create that is sent again finds its name taken.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Now, Pod, Selector, Uid};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::intern::KeyId;

use super::super::owners::Owner;
use super::super::sync::{ReplicaSetSync, SyncStage};
use super::super::{Controller, Step};
use super::pending_creates::Holder;

/// The alphabet of the suffixes that the API server generates.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of the suffix.
const SUFFIX_LEN: usize = 5;

/// The number of slots of an owner: 27^5, one for each suffix.
const SLOTS: u64 = 14_348_907;

/// The maximum length of the prefix in bytes, as on the server.
const PREFIX_LEN_MAX: usize = 63 - SUFFIX_LEN;

/// The names for the pods of one owner, one per slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotNames<'a> {
    prefix: &'a str,
    /// Slot `s` has suffix number `factor * s + first` modulo [`SLOTS`]. The suffixes differ
    /// because the factor is not a multiple of 3.
    factor: u64,
    first: u64,
}

impl<'a> SlotNames<'a> {
    /// Creates the names for the owner with this UID, whose pods have this `generateName`.
    pub(super) fn new(prefix: &'a str, owner: &Uid) -> SlotNames<'a> {
        let mut end = prefix.len().min(PREFIX_LEN_MAX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        // The hash gives different names to owners with the same first 58 bytes.
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

/// Hashes a UID. The result is the same in every process, because names must survive a restart.
fn hash_of(uid: &Uid) -> u64 {
    // FNV-1a, then a mixing step, because the last bytes change few of its high bits.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let start = 0xcbf2_9ce4_8422_2325;
    let hash = match uid.as_u128() {
        Some(bits) => bits.to_be_bytes().iter().fold(start, fold),
        None => uid.to_string().as_bytes().iter().fold(start, fold),
    };
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// Returns how a sync of the owner counts `pod`, which has the name of a pending create.
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
    /// Records the answer to a create with a chosen name.
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
        // The cache did not show that the name was taken. A layer below may have sent the create
        // earlier, and may send it again.
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

    /// Loads the names of creates with an unknown outcome into the sync. Must run before the pods
    /// are counted: a pod that gets one of these names later is not counted, and creating it again
    /// finds its name taken.
    pub(super) fn load_pending_creates(&self, owner: &Owner, sync: &mut ReplicaSetSync, now: Now) {
        let holder = |name: &CompactString| match self.pods().get(&owner.namespace, name) {
            None => Holder::None,
            Some(pod) => holder_of(owner, &pod),
        };
        let uid = &owner.controller_ref.uid;
        sync.pending = self
            .hardened
            .pending_creates
            .names_of(sync.key, uid, now.mono_ns, holder);
    }

    /// Returns how many of the missing pods must not be created yet. For each of them, a pod that
    /// does not count has the name of a pending create, and the late create may still replace that
    /// pod. Adds the key for the time at which the first of these creates expires.
    pub(super) fn held_back(&self, sync: &ReplicaSetSync, now: Now) -> usize {
        if sync.pending.uncounted > 0 {
            self.queue
                .add_after(sync.key, sync.pending.until_ns - now.mono_ns, now.mono_ns);
        }
        sync.pending.uncounted
    }

    /// Requests `size` pods. Each gets the name of a pending create or, when none is left, the name
    /// of the next slot that is not in the cache. O(own pods) look-ups per sync, because each slot
    /// is looked up once.
    pub(in super::super) fn request_named_pods(
        &self,
        owner: &Arc<Owner>,
        sync: &mut ReplicaSetSync,
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
                // If every name is taken, the server chooses one.
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
        sync.await_answers(SyncStage::Creating)
    }
}

#[cfg(test)]
mod tests;
