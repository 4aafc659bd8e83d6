//! Tests of lists that are loaded in bulk.

use super::*;
use podstorm_objects::{OwnerReference, Time, Uid};

fn pod(name: &str, owner: Option<u128>, deleting: bool) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = name.into();
    pod.metadata.namespace = "ns".into();
    if let Some(uid) = owner {
        pod.metadata.owner_references.push(Arc::new(OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: Uid::from_u128(uid),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }));
    }
    if deleting {
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
    }
    Arc::new(pod)
}

/// Returns pods of alternating owners, enough for several chunks and threads. Some are orphans,
/// and some are being deleted.
fn many() -> Vec<Arc<Pod>> {
    let pod = |n: usize| {
        let owner = (n / 7 % 50) as u128;
        pod(
            &format!("p-{n:06}"),
            (owner > 0).then_some(owner),
            n.is_multiple_of(11),
        )
    };
    (0..PARALLEL_LIST_MIN + CHUNK_LEN + 5).map(pod).collect()
}

#[test]
fn a_bulk_load_equals_applying_the_pods_one_by_one() {
    let items = many();
    let (bulk, single) = (PodCache::new(), PodCache::new());
    let listed = bulk.replace(items.clone(), &9.into());
    assert!(listed.changes.is_empty());
    let told = listed
        .runs
        .iter()
        .map(|run| run.not_deleting as usize + run.others.len());
    assert_eq!(told.sum::<usize>(), items.len());
    for pod in &items {
        single.apply(crate::cache::Delta::Applied(pod.clone()));
    }
    assert_eq!((bulk.len(), single.len()), (items.len(), items.len()));
    for pod in &items {
        let found = bulk.get("ns", &pod.metadata.name).expect("it was listed");
        assert!(Arc::ptr_eq(&found, pod));
        let all_owned = [&bulk, &single].map(|cache| cache.by_controller.owned_pods(&pod.metadata));
        assert_eq!(all_owned[0].pod_count(), all_owned[1].pod_count());
    }
    for pod in &items[..350] {
        let all_owned = [&bulk, &single].map(|cache| cache.by_controller.owned_pods(&pod.metadata));
        let members = all_owned[0].lock();
        assert!(members.totals_are_exact());
        let pods = |(pod, _): (&Arc<Pod>, _)| Arc::as_ptr(pod);
        let others = all_owned[1].lock();
        assert!(members.iter().map(pods).eq(others.iter().map(pods)));
    }
    // The added pods can be removed again.
    for pod in items {
        assert!(bulk.apply(crate::cache::Delta::Deleted(pod)).old.is_some());
    }
    assert!(bulk.is_empty());
}

#[test]
fn runs_separate_live_pods_from_pods_to_handle_one_by_one() {
    let cache = PodCache::new();
    let items = vec![
        pod("a", None, false),
        pod("b", Some(1), false),
        pod("c", Some(1), true),
        pod("d", Some(1), false),
        pod("e", Some(2), false),
        pod("f", Some(1), false),
    ];
    let runs = cache.replace(items, &9.into()).runs;
    let told: Vec<_> = runs
        .iter()
        .map(|run| (run.not_deleting, run.others.len()))
        .collect();
    assert_eq!(told, [(0, 1), (2, 1), (1, 0), (1, 0)]);
    assert!(Arc::ptr_eq(&runs[1].owned_pods, &runs[3].owned_pods));
    assert_eq!(cache.version().get(), ResourceVersion::Number(9));
}

#[test]
fn an_unsorted_list_or_a_repeated_pod_is_applied_one_by_one() {
    for names in [["b", "a"], ["a", "a"]] {
        let cache = PodCache::new();
        let listed = cache.replace(names.map(|name| pod(name, None, false)).to_vec(), &9.into());
        assert_eq!((listed.changes.len(), listed.runs.len()), (2, 0));
        assert_eq!(cache.len(), if names[0] == names[1] { 1 } else { 2 });
    }
}

#[test]
fn a_relist_deletes_what_is_missing_before_it_adds() {
    let cache = PodCache::new();
    for name in ["c", "a", "b"] {
        cache.apply(crate::cache::Delta::Applied(pod(name, None, false)));
    }
    let list = vec![pod("d", None, false), pod("b", None, false)];
    let changes = cache.replace(list, &9.into()).changes;
    let told = changes.iter().map(|change| {
        let name = change.new.metadata.name.as_str();
        (name, change.deleted, change.old.is_some())
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("a", true, true),
            ("c", true, true),
            ("d", false, false),
            ("b", false, true)
        ]
    );
    assert_eq!(cache.version().get(), ResourceVersion::Number(9));
}
