//! The pod cache against the plain way: one map of pods, searched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::{Delta, PodCache, RelatedSelector};
use crate::object::{Labels, OwnerReference, Pod, PodPhase, Selector, SharedText, Time, Uid};

/// What a step does to one pod: its owner, labels, whether it has ended, whether it is on its way
/// out; or nothing, for its removal.
type Shape = Option<(u8, u8, bool, bool)>;

fn owner(number: u8) -> Arc<OwnerReference> {
    Arc::new(OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: format!("rs-{number}").as_str().into(),
        uid: Uid::from_u128(u128::from(number)),
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
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
    pod.status.phase = if ended {
        PodPhase::Failed
    } else {
        PodPhase::Running
    };
    pod
}

/// Active pods by namespace, owner and labels.
type Tally = BTreeMap<(String, Option<String>, String), u32>;

/// By a selector that matches everything, or by those of single label sets and their neighbours.
fn tally_of(cache: &PodCache, selectors: &[&str]) -> Tally {
    let compiled = selectors
        .iter()
        .map(|text| Selector::parse(text).expect("it is valid"));
    let selectors: Vec<RelatedSelector> = compiled
        .map(Arc::new)
        .flat_map(|selector| ["a", "b"].map(|name| (SharedText::from(name), selector.clone())))
        .collect();
    let mut tally = Tally::new();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    cache.matching_label_sets(&selectors, &mut found);
    for (labels, group) in found {
        let members = group.lock();
        assert!(members.totals_are_exact());
        assert_eq!(group.pod_count(), members.len());
        let index = members
            .label_set_of(&labels)
            .expect("the index names sets that exist");
        let totals = members.label_sets()[index as usize].totals;
        let value = labels.get("set").expect("every pod has it").to_string();
        let namespace = group.namespace().to_string();
        let name = group.owner().map(|owner| owner.name.to_string());
        assert!(
            seen.insert((namespace.clone(), name.clone(), value.clone())),
            "named twice"
        );
        if totals.active > 0 {
            tally.insert((namespace, name, value), totals.active);
        }
    }
    tally
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_cache_counts_as_a_plain_map_does(
        steps in prop::collection::vec(
            (0u8..10, prop::option::of((0u8..4, 0u8..3, any::<bool>(), any::<bool>()))),
            1..80,
        )
    ) {
        let cache = PodCache::new();
        let mut plain: BTreeMap<u8, Pod> = BTreeMap::new();
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
            prop_assert_eq!(cache.len(), plain.len());
            let mut expected = Tally::new();
            for pod in plain.values().filter(|pod| pod.is_active()) {
                let owner = pod.metadata.controller().map(|owner| owner.name.to_string());
                let set = pod.metadata.labels.get("set").expect("every pod has it").to_string();
                *expected.entry((pod.metadata.namespace.to_string(), owner, set)).or_default() += 1;
            }
            prop_assert_eq!(tally_of(&cache, &[""]), expected.clone());
            let single = ["set=0", "set=1", "set in (0,2)", "set=2", "set=9"];
            prop_assert_eq!(tally_of(&cache, &single), expected);
        }
    }
}
