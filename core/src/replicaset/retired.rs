//! Keys of parents that are gone. After a rest a key is given to the next parent whose name is new, so
//! that what is kept by key (queue, expectations, caches) grows with the parents that are alive within
//! a few minutes, and not with all that ever were.
//!
//! The rest is for whoever took the key before its parent went and has yet to use it: an event handler
//! between finding a pod's owner and telling the owner's expectations, some instructions later. After
//! as long as expectations hold anything back, what such a one does wrong is no worse than what their
//! running out does. A key that is queued or worked on is passed over.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_objects::{Now, ObjectMeta};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::EXPECTATIONS_TIMEOUT_NS;
use podstorm_runtime::primitives::{Mutex, lock};

use super::Controller;

/// So long a key rests, ns: five minutes.
pub(super) const KEY_REST_NS: i64 = EXPECTATIONS_TIMEOUT_NS;

/// Keys that are looked at for one new name: more are in use only after an outage.
const KEYS_TRIED: usize = 4;

/// The keys that rest, oldest first.
#[derive(Debug, Default)]
pub(super) struct Retired {
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    since_ns: BTreeMap<KeyId, i64>,
    in_order: BTreeSet<(i64, KeyId)>,
}

impl Retired {
    /// The parent of the key is gone.
    pub(super) fn insert(&self, key: KeyId, now_ns: i64) {
        let mut keys = lock(&self.keys);
        keys.remove(key);
        keys.since_ns.insert(key, now_ns);
        keys.in_order.insert((now_ns, key));
    }

    /// The key has a parent again.
    pub(super) fn remove(&self, key: KeyId) {
        lock(&self.keys).remove(key);
    }

    /// Takes the oldest key that has rested and may be had; those that may not rest anew.
    fn take(&self, now_ns: i64, may_be_had: impl Fn(KeyId) -> bool) -> Option<KeyId> {
        let mut keys = lock(&self.keys);
        for _ in 0..KEYS_TRIED {
            let &(since_ns, key) = keys.in_order.first()?;
            if now_ns.saturating_sub(since_ns) < KEY_REST_NS {
                return None;
            }
            keys.remove(key);
            if may_be_had(key) {
                return Some(key);
            }
            keys.since_ns.insert(key, now_ns);
            keys.in_order.insert((now_ns, key));
        }
        None
    }
}

impl Keys {
    fn remove(&mut self, key: KeyId) {
        if let Some(since_ns) = self.since_ns.remove(&key) {
            self.in_order.remove(&(since_ns, key));
        }
    }
}

impl Controller {
    /// Gives a parent of a new name a key that has rested, if there is one; to be called before the
    /// store hears of the parent, by whoever applies events to it.
    pub(super) fn reuse_key(&self, parent: &ObjectMeta, now: Now) {
        let (namespace, name) = (&*parent.namespace, &*parent.name);
        if self.parents.find(namespace, name).is_some() {
            return;
        }
        let may_be_had = |key| self.parents.get(key).is_none() && self.queue.is_idle(key);
        if let Some(key) = self.retired.take(now.mono_ns, may_be_had) {
            self.queue.forget(key);
            self.expectations.delete(key);
            self.consistency.clear(&key, None);
            self.hardened.forget(key);
            self.parents.rename(key, namespace, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ControllerOptions, Step, Sync};
    use super::*;
    use crate::cache::{Delta, PodCache};
    use crate::policy::Behaviour;
    use podstorm_objects::{Kind, ReplicaSet, Uid};
    use podstorm_runtime::workqueue::Take;

    const A: KeyId = KeyId(1);
    const B: KeyId = KeyId(2);

    #[test]
    fn keys_are_given_away_oldest_first_after_their_rest() {
        let retired = Retired::default();
        retired.insert(B, 10);
        retired.insert(A, 20);
        assert_eq!(retired.take(9 + KEY_REST_NS, |_| true), None);
        assert_eq!(retired.take(20 + KEY_REST_NS, |_| true), Some(B));
        assert_eq!(retired.take(20 + KEY_REST_NS, |_| true), Some(A));
        assert_eq!(retired.take(20 + KEY_REST_NS, |_| true), None);
    }

    #[test]
    fn a_key_that_is_back_is_not_given_away() {
        let retired = Retired::default();
        retired.insert(A, 10);
        retired.remove(A);
        assert_eq!(retired.take(10 + KEY_REST_NS, |_| true), None);
        retired.insert(A, 10);
        retired.insert(A, 15);
        assert_eq!(retired.take(14 + KEY_REST_NS, |_| true), None);
    }

    fn controller(behaviour: Behaviour) -> Controller {
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(Kind::REPLICA_SET)
        };
        Controller::new(options, Arc::new(PodCache::new()))
    }

    fn parent(name: &str, uid: u128) -> Arc<ReplicaSet> {
        let mut parent = ReplicaSet::default();
        parent.metadata.name = name.into();
        parent.metadata.namespace = "ns".into();
        parent.metadata.uid = Uid::from_u128(uid);
        parent.spec.replicas = Some(0);
        parent.status.terminating_replicas = Some(0);
        Arc::new(parent)
    }

    fn at(seconds: i64) -> Now {
        Now {
            mono_ns: seconds * 1_000_000_000,
            wall_ns: 0,
        }
    }

    /// Takes every key that waits and syncs it.
    fn work(controller: &Controller, now: Now) {
        controller.queue().fire_due(now.mono_ns);
        let mut sync = Sync::new();
        while let Take::Key(key) = controller.queue().try_take(now.mono_ns) {
            assert_eq!(controller.begin(key, &mut sync, now), Step::Finished);
            controller.finish(&mut sync, now);
        }
    }

    #[test]
    fn keys_grow_with_the_parents_alive_within_the_rest_and_not_with_all_that_ever_were() {
        let controller = controller(Behaviour::Upstream);
        for second in 0..20_000 {
            let now = at(second);
            let name = format!("web-{second}");
            let set = parent(&name, second as u128 + 1);
            controller.parent_delta(Delta::Applied(set.clone()), now);
            let key = controller.parents().intern("ns", &name);
            assert_eq!(&*controller.parents().name(key).name, name);
            let known = controller.parents().get(key).expect("it was applied");
            assert_eq!(known.object.metadata.uid, set.metadata.uid);
            work(&controller, now);
            controller.parent_delta(Delta::Deleted(set), now);
            work(&controller, now);
        }
        let rest_seconds = usize::try_from(KEY_REST_NS / 1_000_000_000).expect("positive");
        let keys = controller.parents().intern("ns", "one more").0 as usize;
        assert!(keys <= rest_seconds + 1, "{keys}");
        assert!(controller.parents().find("ns", "web-0").is_none());
    }

    #[test]
    fn a_successor_in_a_key_owes_nothing() {
        let controller = controller(Behaviour::Hardened);
        let (old, new) = (parent("old", 1), parent("new", 2));
        controller.parent_delta(Delta::Applied(old.clone()), at(0));
        let key = controller.parents().intern("ns", "old");
        while controller.queue().try_take(0) != Take::Empty {
            controller.queue().done(key, 0);
        }
        controller.parent_delta(Delta::Deleted(old.clone()), at(1));
        while controller.queue().try_take(0) != Take::Empty {
            controller.queue().done(key, 0);
        }
        // A sync that was under way then leaves all this behind.
        let uid = &old.metadata.uid;
        controller.expectations.expect_creations(key, 3, 0);
        controller.hardened.remember_something(key, uid);
        controller
            .consistency
            .wrote_at(key, uid, Kind::POD, &7.into());
        controller.queue.add_rate_limited(key, 0);
        controller.parent_delta(Delta::Applied(new), at(301));
        assert_eq!(controller.parents().find("ns", "new"), Some(key));
        assert_eq!(controller.expectations.counts(key), None);
        assert!(controller.hardened.remembers_nothing(key, uid));
        assert_eq!(controller.consistency.record(&key), None);
        assert_eq!(controller.queue.num_requeues(key), 0);
    }

    #[test]
    fn a_key_whose_parent_is_back_is_its_own() {
        let controller = controller(Behaviour::Upstream);
        let (web, other) = (parent("web", 1), parent("other", 2));
        controller.parent_delta(Delta::Applied(web.clone()), at(0));
        controller.parent_delta(Delta::Deleted(web.clone()), at(1));
        controller.parent_delta(Delta::Applied(web), at(2));
        work(&controller, at(2));
        let list = vec![parent("web", 1), other];
        controller.parent_replace(list, &9.into(), at(900));
        let key = |name| controller.parents().find("ns", name);
        assert!(key("web").is_some() && key("other").is_some());
        assert_ne!(key("web"), key("other"));
    }

    #[test]
    fn a_key_in_use_rests_anew() {
        let retired = Retired::default();
        retired.insert(A, 0);
        retired.insert(B, 1);
        let now_ns = 1 + KEY_REST_NS;
        assert_eq!(retired.take(now_ns, |key| key != A), Some(B));
        assert_eq!(retired.take(now_ns + KEY_REST_NS - 1, |_| true), None);
        assert_eq!(retired.take(now_ns + KEY_REST_NS, |_| true), Some(A));
    }
}
