//! The version of a cache and its content: a thread that reads a version finds everything applied
//! up to it.

use podstorm::cache::{Delta, PodCache, StoreVersion};
use podstorm::object::{Pod, ResourceVersion};

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicUsize, Ordering};
use crate::checker::thread;
use crate::{beside, check};

fn pod(name: &str, version: u64) -> std::sync::Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.namespace = "ns".into();
    pod.metadata.name = name.into();
    pod.metadata.resource_version = version.into();
    std::sync::Arc::new(pod)
}

/// A version that is read was set before. Text and number always belong together, and no earlier
/// version comes back.
#[test]
fn versions_are_read_in_the_order_they_were_set() {
    check(3, || {
        let version = Arc::new(StoreVersion::default());
        let steps = ["x", "5", "y", "7"];
        version.set(&ResourceVersion::new(steps[0]));
        let writer = beside(&version, move |version| {
            let later = steps[1..].iter().copied().map(ResourceVersion::new);
            later.for_each(|later| version.set(&later));
        });
        let position = |seen: ResourceVersion| {
            let seen = seen.to_string();
            let known = steps.iter().position(|&step| step == seen);
            known.unwrap_or_else(|| panic!("no thread has set {seen:?}"))
        };
        let (first, second) = (position(version.get()), position(version.get()));
        assert!(first <= second, "{} came back", steps[second]);
        writer.join().unwrap();
        assert_eq!(version.get(), ResourceVersion::Number(7));
    });
}

/// A thread that reads the store's version finds the pods added up to it, and none removed before
/// it.
#[test]
fn a_reader_of_a_version_finds_everything_applied_up_to_it() {
    check(2, || {
        let cache = Arc::new(PodCache::new());
        let informer = beside(&cache, |cache| {
            cache.apply(Delta::Applied(pod("a", 1)));
            cache.apply(Delta::Deleted(pod("a", 2)));
        });
        let reached = cache.version().get().number().unwrap_or(0);
        let seen = cache.get("ns", "a").is_some();
        assert!(reached < 2 || !seen, "at version 2, which has no pod");
        if reached == 1 && !seen {
            // This is possible only if the deletion came meanwhile; then no thread finds the pod
            // any more.
            assert!(
                cache.get("ns", "a").is_none(),
                "the pod arrived after its version"
            );
        }
        informer.join().unwrap();
        assert_eq!(cache.version().get(), ResourceVersion::Number(2));
        assert!(cache.is_empty());
    });
}

/// A thread that finds no older list since it read the version has seen what the version promises.
#[test]
fn reads_without_a_rewind_are_as_new_as_the_version() {
    check(3, || {
        let cache = Arc::new(PodCache::new());
        cache.apply(Delta::Applied(pod("a", 5)));
        // A lagging server has no pod yet.
        let informer = beside(&cache, |cache| drop(cache.replace(Vec::new(), &3.into())));
        let rewinds = cache.version().rewinds();
        let reached = cache.version().get().number().unwrap_or(0);
        let seen = cache.contains("ns", "a");
        if cache.version().rewinds() == rewinds {
            assert!(seen || reached < 5, "at version {reached}, without the pod");
        }
        informer.join().unwrap();
        assert_eq!(cache.version().get(), ResourceVersion::Number(3));
    });
}

/// Two threads apply one pod each, and the last one sets the store's version.
#[test]
fn a_bookmark_after_several_appliers_covers_them_all() {
    check(2, || {
        let (cache, left) = (Arc::new(PodCache::new()), Arc::new(AtomicUsize::new(2)));
        let appliers: Vec<_> = [("a", 1), ("b", 2)]
            .into_iter()
            .map(|(name, number)| {
                let (cache, left) = (cache.clone(), left.clone());
                thread::spawn(move || {
                    cache.apply_out_of_order(Delta::Applied(pod(name, number)));
                    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        cache.bookmark(&2.into());
                    }
                })
            })
            .collect();
        if cache.version().get().number() == Some(2) {
            assert!(cache.contains("ns", "a") && cache.contains("ns", "b"));
        }
        for applier in appliers {
            applier.join().unwrap();
        }
        assert_eq!(cache.len(), 2);
    });
}
