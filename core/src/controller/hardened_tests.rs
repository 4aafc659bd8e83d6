//! The smaller rows of the hardened behaviour, each beside what upstream does.

use super::rig::Rig;
use super::{Outcome, Step};
use crate::client::Request;
use crate::object::Pod;
use crate::policy::Behaviour::{Hardened, Upstream};

/// A rig whose parent has so many pods, all known to the caches.
fn settled(behaviour: crate::policy::Behaviour, pods: i32) -> Rig {
    let mut rig = Rig::new(behaviour, pods);
    for _ in 0..3 {
        assert_eq!(rig.sync(), Outcome::Ok);
        rig.deliver();
    }
    assert_eq!(rig.pods.len(), usize::try_from(pods).unwrap());
    rig
}

#[test]
fn a_delete_spares_another_pod_of_the_same_name() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        rig.set_replicas(0);
        rig.deliver();
        let name = rig.pods.keys().next().unwrap().clone();
        rig.remove_pod(&name);
        let mut bare = Pod::default();
        bare.metadata.name = name.as_str().into();
        rig.put_pod(bare);
        let spared = rig.sync() != Outcome::Ok;
        assert_eq!(spared, behaviour == Hardened);
        assert_eq!(rig.pods.len(), usize::from(spared), "{behaviour:?}");
        assert_eq!(rig.sync.take_events().count(), usize::from(!spared));
        rig.deliver();
        assert_eq!(rig.sync(), Outcome::Ok);
        assert!(rig.parent.status.conditions.is_empty());
        assert_eq!(rig.pods.len(), usize::from(spared));
    }
}

#[test]
fn deletes_carry_the_uid_of_the_pod_that_was_chosen() {
    // All of them, some by rank, and some after a claim.
    for (left, orphans) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
        let mut rig = settled(Hardened, 4);
        for number in 0..orphans {
            let mut orphan = Pod::default();
            orphan.metadata.name = format!("orphan-{number}").into();
            orphan.metadata.labels = rig.parent.spec.template.metadata.labels.clone();
            rig.put_pod(orphan);
        }
        rig.set_replicas(left);
        rig.deliver();
        let mut step = rig.begin();
        let mut deletes = 0;
        while step == Step::Requests {
            for request in rig.sync.requests() {
                if let Request::DeletePod { name, uid, .. } = request {
                    assert_eq!(*uid, Some(rig.pods[name.as_str()].metadata.uid.clone()));
                    deletes += 1;
                }
            }
            step = rig.go_on();
        }
        assert_eq!(deletes, 4 + orphans - left);
    }
}
