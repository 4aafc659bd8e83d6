//! Tests that compare the pod cache with a naive model: one map of pods that is searched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{
    ConditionStatus, ConditionType, Kind, Labels, ObjectMeta, OwnerReference, Pod, PodPhase,
    ResourceVersion, Selector, Time, Uid,
};
use proptest::prelude::*;

use super::{Delta, NamespacedSelector, PodCache, PodFields};
use crate::intern::KeyId;

/// The state of a pod: its owner, its labels, whether it has ended, and whether it is being
/// deleted. `None` means that the pod does not exist.
type Shape = Option<(u8, u8, bool, bool)>;

fn owner(number: u8) -> Arc<OwnerReference> {
    Arc::new(Kind::REPLICA_SET.controller_reference(&ObjectMeta {
        name: format!("rs-{number}").into(),
        uid: Uid::from_u128(u128::from(number)),
        ..ObjectMeta::default()
    }))
}

fn pod(name: u8, version: u64, (controller, labels, ended, deleting): (u8, u8, bool, bool)) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = format!("pod-{name}").into();
    pod.metadata.namespace = if name.is_multiple_of(2) { "a" } else { "b" }.into();
    pod.metadata.resource_version = version.into();
    pod.metadata.labels = Labels::from_pairs([("set", labels.to_string().as_str())]);
    if controller > 0 {
        pod.metadata.owner_references.push(owner(controller));
    }
    if deleting {
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
    }
    // Some pods have no ready time, and some have one in the future.
    let ready_since = match version % 5 {
        0 => Time::UNSET,
        more => Time::from_unix_seconds((version + more).cast_signed()),
    };
    let ready = if version.is_multiple_of(7) {
        ConditionStatus::False
    } else {
        ConditionStatus::True
    };
    let conditions = &mut pod.status.conditions;
    conditions.set(ConditionType::Ready, ready, ready_since);
    pod.status.phase = if ended {
        PodPhase::Failed
    } else {
        PodPhase::Running
    };
    pod
}

/// The fields that a test stores for each pod of a ReplicaSet: the pod's first version, and the
/// number of updates since then.
#[derive(Debug)]
struct Kept {
    version: ResourceVersion,
    updates: usize,
}

impl PodFields for Kept {
    fn from_pod(pod: &Pod, _: u32) -> Kept {
        Kept {
            version: pod.metadata.resource_version.clone(),
            updates: 0,
        }
    }

    fn next(&self, old: &Pod, new: &Pod, node: u32) -> Kept {
        assert_eq!(self.version, old.metadata.resource_version);
        Kept {
            updates: self.updates + 1,
            ..Kept::from_pod(new, node)
        }
    }
}

/// The number of active pods by namespace, owner and labels.
type Counts = BTreeMap<(String, Option<String>, String), u32>;

/// Returns the selector in each of the two namespaces.
fn in_both(selector: Arc<Selector>) -> [NamespacedSelector; 2] {
    ["a", "b"].map(|namespace| NamespacedSelector::new(&namespace.into(), &selector))
}

/// Returns the counts by a selector that matches everything, or by selectors of single label sets.
/// Also checks the pods that have been ready since the cutoff.
fn counts_of(cache: &PodCache, selectors: &[&str], cutoff: Time) -> Counts {
    let compiled = selectors
        .iter()
        .map(|text| Selector::parse(text).expect("the selector is valid"));
    let selectors: Vec<NamespacedSelector> = compiled.map(Arc::new).flat_map(in_both).collect();
    let mut counts = Counts::new();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    cache.matching_label_sets(&selectors, &mut found);
    for (labels, owned_pods) in found {
        let mut members = owned_pods.lock();
        assert!(members.totals_are_exact());
        assert_eq!(owned_pods.pod_count(), members.len());
        if !owned_pods.is_orphans() {
            let kept = members.fields::<Kept>().iter().map(|kept| &kept.version);
            let versions = members
                .iter()
                .map(|(pod, _)| &pod.metadata.resource_version);
            assert!(kept.eq(versions));
        }
        let index = members
            .label_set_of(&labels)
            .expect("the index refers to existing label sets");
        let totals = members.label_sets()[index as usize].totals;
        let ready: Vec<Time> = members
            .iter()
            .filter(|(pod, member)| pod.metadata.labels == labels && member.is_active())
            .filter(|(_, member)| member.is_ready())
            .map(|(pod, _)| pod.ready_time())
            .collect();
        let settled = ready
            .iter()
            .filter(|time| !time.is_unset() && **time <= cutoff)
            .count();
        let first = ready.into_iter().filter(|time| *time > cutoff).min();
        let mut later = Vec::new();
        let told = members.ready_by(index, cutoff, &mut later);
        assert_eq!(told as usize, settled);
        assert_eq!(later.first().map(|(time, _)| *time), first);
        let value = labels
            .get("set")
            .expect("every pod has the label")
            .to_string();
        let namespace = owned_pods.namespace().to_string();
        let name = owned_pods.owner_id().map(|owner| owner.name.to_string());
        assert!(
            seen.insert((namespace.clone(), name.clone(), value.clone())),
            "named twice"
        );
        if totals.active > 0 {
            counts.insert((namespace, name, value), totals.active);
        }
    }
    counts
}

#[test]
fn changes_concern_the_owners_kind_and_orphans_every_kind() {
    let cache = PodCache::new();
    let kinds = [Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER];
    cache.attach_owner(&"a".into(), &owner(1), KeyId::default());
    let of = |version, controller| Arc::new(pod(0, version, (controller, 0, false, false)));
    let changes = [
        (Delta::Applied(of(1, 0)), [true, true]),
        (Delta::Applied(of(2, 1)), [true, true]),
        (Delta::Applied(of(3, 1)), [true, false]),
        (Delta::Applied(of(4, 0)), [true, true]),
        (Delta::Applied(of(5, 1)), [true, true]),
        (Delta::Deleted(of(6, 1)), [true, false]),
    ];
    for (delta, concerned) in changes {
        let change = cache.apply(delta);
        assert_eq!(kinds.map(|kind| change.concerns(kind)), concerned);
    }
}

/// Tests owners with one, few and many label sets, and orphans. The selectors overlap.
#[test]
fn matching_pods_are_found_once_for_any_number_of_label_sets() {
    let cache = PodCache::new();
    let mut expected = BTreeSet::new();
    for name in 0..200 {
        let (controller, labels) = match name % 4 {
            0 => (1, 1),
            1 => (2, name % 3),
            2 => (3, name),
            _ => (0, name),
        };
        let pod = pod(name, 1, (controller, labels, false, false));
        if labels < 100 || labels == 150 {
            expected.insert(pod.metadata.name.to_string());
        }
        cache.apply(Delta::Applied(Arc::new(pod)));
    }
    let texts = (0..100).map(|set| format!("set={set}"));
    let texts = texts.chain(["set in (7, 8, 150)".to_owned()]);
    let selectors =
        texts.map(|text| Arc::new(Selector::parse(&text).expect("the selector is valid")));
    let selectors: Vec<NamespacedSelector> = selectors.flat_map(in_both).collect();
    let mut found = Vec::new();
    cache.for_each_matching(&selectors, &mut Vec::new(), |pod, member| {
        assert!(member.is_active());
        found.push(pod.metadata.name.to_string());
    });
    assert_eq!(found.len(), expected.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn fields_are_kept_only_for_pods_of_one_kind_of_owner() {
    let cache = PodCache::new();
    let put = |version, kind: Kind| {
        let mut pod = pod(1, version, (0, 0, false, false));
        let meta = ObjectMeta {
            uid: Uid::from_u128(version.into()),
            ..ObjectMeta::default()
        };
        pod.metadata.name = format!("of-{}", kind.name()).into();
        pod.metadata
            .owner_references
            .push(Arc::new(kind.controller_reference(&meta)));
        let change = cache.apply(Delta::Applied(Arc::new(pod)));
        change.new_owned_pods.expect("the pod has an owner")
    };
    let before = put(1, Kind::REPLICA_SET);
    let other = put(2, Kind::REPLICATION_CONTROLLER);
    cache.keep::<Kept>(Kind::REPLICA_SET);
    assert_eq!(
        before.lock().fields::<Kept>().len(),
        1,
        "as if kept from the start"
    );
    assert_eq!(put(3, Kind::REPLICA_SET).lock().fields::<Kept>().len(), 1);
    let kept = std::panic::catch_unwind(|| other.lock().fields::<Kept>().len());
    assert!(kept.is_err(), "nothing is kept for owners of another kind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_cache_counts_like_a_plain_map(
        steps in prop::collection::vec(
            (0u8..10, prop::option::of((0u8..4, 0u8..3, any::<bool>(), any::<bool>()))),
            1..80,
        )
    ) {
        let cache = PodCache::new();
        let mut plain: BTreeMap<u8, Pod> = BTreeMap::new();
        cache.keep::<Kept>(Kind::REPLICA_SET);
        for (version, (name, shape)) in (1u64..).zip(steps) {
            let shape: Shape = shape;
            let known = plain.contains_key(&name);
            let change = match shape {
                Some(shape) => {
                    let pod = pod(name, version, shape);
                    plain.insert(name, pod.clone());
                    cache.apply(Delta::Applied(Arc::new(pod)))
                }
                None => {
                    let last = plain.remove(&name).unwrap_or_else(|| pod(name, version, (0, 0, false, false)));
                    cache.apply(Delta::Deleted(Arc::new(last)))
                }
            };
            prop_assert_eq!(change.old.is_some(), known);
            let meta = &change.new.metadata;
            prop_assert_eq!(cache.get(&meta.namespace, &meta.name).is_some(), shape.is_some());
            prop_assert_eq!(cache.version().get(), meta.resource_version.clone());
            prop_assert_eq!(cache.len(), plain.len());
            let mut expected = Counts::new();
            for pod in plain.values().filter(|pod| pod.is_active()) {
                let owner = pod.metadata.controller().map(|owner| owner.name.to_string());
                let set = pod.metadata.labels.get("set").expect("every pod has the label").to_string();
                *expected.entry((pod.metadata.namespace.to_string(), owner, set)).or_default() += 1;
            }
            // The cutoff goes forward with the versions, and sometimes back.
            let cutoff = Time::from_unix_seconds((version / 2 + version % 3).cast_signed());
            prop_assert_eq!(counts_of(&cache, &[""], cutoff), expected.clone());
            let single = ["set=0", "set=1", "set in (0,2)", "set=2", "set=9"];
            prop_assert_eq!(counts_of(&cache, &single, cutoff), expected);
        }
    }
}

/// Returns the versions of one pod, generated from a seed.
fn life(name: u8, seed: u64) -> Vec<Delta<Pod>> {
    let mut state = seed ^ u64::from(name).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut next = |version: u64| {
        let shape = (draw(4) as u8, draw(12) as u8, draw(4) == 0, draw(5) == 0);
        let pod = Arc::new(pod(name, version, shape));
        match draw(6) {
            0 => Delta::Deleted(pod),
            _ => Delta::Applied(pod),
        }
    };
    (1..200).map(&mut next).collect()
}

#[test]
fn several_threads_leave_the_same_state_as_one() {
    const THREADS: u8 = 4;
    for seed in 0..8 {
        let lives: Vec<Vec<Delta<Pod>>> = (0..40).map(|name| life(name, seed)).collect();
        let (single, shared) = (PodCache::new(), PodCache::new());
        for cache in [&single, &shared] {
            cache.keep::<Kept>(Kind::REPLICA_SET);
        }
        for version in 0..lives[0].len() {
            for life in &lives {
                single.apply(life[version].clone());
            }
        }
        let start = std::sync::Barrier::new(usize::from(THREADS));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, start) = (&shared, &start);
                let own: Vec<_> = lives
                    .iter()
                    .skip(thread.into())
                    .step_by(THREADS.into())
                    .collect();
                scope.spawn(move || {
                    start.wait();
                    for version in 0..own[0].len() {
                        for life in &own {
                            let change = shared.apply_out_of_order(life[version].clone());
                            // Owned pods are created and dropped while threads apply events.
                            if let Some(owned_pods) = change.new_owned_pods {
                                assert!(owned_pods.lock().totals_are_exact());
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(shared.len(), single.len());
        let counts = |cache: &PodCache| counts_of(cache, &[""], Time::UNSET);
        assert_eq!(counts(&shared), counts(&single));
        for change in single.resync() {
            let meta = &change.new.metadata;
            let held = shared
                .get(&meta.namespace, &meta.name)
                .expect("both caches have the pod");
            assert!(
                Arc::ptr_eq(&held, &change.new),
                "the cache has the last version"
            );
            let owned_pods = shared
                .by_controller
                .find(meta)
                .expect("the owner has a pod");
            let members = owned_pods.lock();
            assert!(members.iter().any(|(pod, _)| Arc::ptr_eq(pod, &held)));
        }
        // Lists without pods are dropped.
        for change in single.resync() {
            shared.apply(Delta::Deleted(change.new));
        }
        assert!(shared.is_empty());
        for number in 1..4 {
            for namespace in [0, 1] {
                let pod = pod(namespace, 1, (number, 0, false, false));
                assert!(shared.by_controller.find(&pod.metadata).is_none());
            }
        }
    }
}
