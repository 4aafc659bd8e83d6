//! Tests of keys that are reused after their owners were deleted.

use std::sync::Arc;

use super::{Controller, ControllerOptions, ReplicaSetSync, Step};
use crate::cache::{Delta, PodCache};
use crate::policy::Behaviour;
use podstorm_objects::{AnyObject, Kind, Now, ReplicaSet, Uid};
use podstorm_runtime::driver::SyncState as _;
use podstorm_runtime::informer::AnyInformer;
use podstorm_runtime::store::KEY_COOLDOWN_NS;
use podstorm_runtime::workqueue::Take;

fn controller(behaviour: Behaviour) -> (Arc<Controller>, Arc<dyn AnyInformer>) {
    let options = ControllerOptions {
        policy: behaviour.policy(),
        ..ControllerOptions::new(Kind::REPLICA_SET)
    };
    Controller::alone(options, Arc::new(PodCache::new()))
}

fn owner(name: &str, uid: u128) -> Arc<ReplicaSet> {
    let mut owner = ReplicaSet::default();
    owner.metadata.name = name.into();
    owner.metadata.namespace = "ns".into();
    owner.metadata.uid = Uid::from_u128(uid);
    owner.spec.replicas = Some(0);
    owner.status.terminating_replicas = Some(0);
    Arc::new(owner)
}

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * 1_000_000_000,
        wall_ns: 0,
    }
}

/// Takes and syncs every waiting key.
fn work(controller: &Controller, now: Now) {
    controller.queue().fire_due(now.mono_ns);
    let mut sync = ReplicaSetSync::default();
    while let Take::Key(key) = controller.queue().try_take(now.mono_ns) {
        assert_eq!(controller.begin(key, &mut sync, now), Step::Finished);
        controller.queue().finish(key, sync.end(), now.mono_ns);
    }
}

#[test]
fn keys_scale_with_the_owners_alive_within_the_cooldown() {
    let (controller, owners) = controller(Behaviour::Upstream);
    for second in 0..20_000 {
        let now = at(second);
        let name = format!("web-{second}");
        let set = owner(&name, second as u128 + 1);
        owners.apply(Delta::Applied(set.clone()), now);
        let key = controller.owners().intern("ns", &name);
        assert_eq!(&*controller.owners().name(key).name, name);
        let known = controller.owners().get(key).expect("the owner was applied");
        assert_eq!(known.object.metadata.uid, set.metadata.uid);
        work(&controller, now);
        owners.apply(Delta::Deleted(set), now);
        work(&controller, now);
    }
    let rest_seconds = usize::try_from(KEY_COOLDOWN_NS / 1_000_000_000).expect("positive");
    let keys = controller.owners().intern("ns", "one more").0 as usize;
    assert!(keys <= rest_seconds + 1, "{keys}");
    assert!(controller.owners().find("ns", "web-0").is_none());
}

#[test]
fn a_successor_in_a_key_inherits_nothing() {
    let (controller, owners) = controller(Behaviour::Hardened);
    let (old, new) = (owner("old", 1), owner("new", 2));
    owners.apply(Delta::Applied(old.clone()), at(0));
    let key = controller.owners().intern("ns", "old");
    while controller.queue().try_take(0) != Take::Empty {
        controller.queue().done(key, 0);
    }
    owners.apply(Delta::Deleted(old.clone()), at(1));
    while controller.queue().try_take(0) != Take::Empty {
        controller.queue().done(key, 0);
    }
    // Set up the state that an interrupted sync leaves behind.
    let uid = &old.metadata.uid;
    controller.expectations.expect_creations(key, 3, 0);
    controller.remember_something(key, uid);
    let records = controller.consistency();
    records.wrote_at(key, uid, Kind::POD, &7.into());
    controller.queue.add_rate_limited(key, 0);
    owners.apply(Delta::Applied(new), at(301));
    assert_eq!(controller.owners().find("ns", "new"), Some(key));
    assert_eq!(controller.expectations.counts(key), None);
    assert!(controller.remembers_nothing(key, uid));
    assert_eq!(controller.consistency().record(&key), None);
    assert_eq!(controller.queue.num_requeues(key), 0);
}

#[test]
fn the_key_of_a_recreated_owner_is_not_reused() {
    let (controller, owners) = controller(Behaviour::Upstream);
    let (web, other) = (owner("web", 1), owner("other", 2));
    owners.apply(Delta::Applied(web.clone()), at(0));
    owners.apply(Delta::Deleted(web.clone()), at(1));
    owners.apply(Delta::Applied(web), at(2));
    work(&controller, at(2));
    let list: Vec<AnyObject> = vec![owner("web", 1), other];
    owners.replace(list, &9.into(), at(900));
    let key = |name| controller.owners().find("ns", name);
    assert!(key("web").is_some() && key("other").is_some());
    assert_ne!(key("web"), key("other"));
}
