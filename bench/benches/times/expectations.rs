//! Expectations: by dense key, by string, and the plain way, which is one lock around a map.

use std::collections::BTreeSet;
use std::hint::black_box;

use podstorm::expectations::NamedExpectations;
use podstorm_bench::hot::workqueue::rounds;
use podstorm_bench::plain::PlainExpectations;

use super::Timed;

/// The number of pods deleted in one burst.
const BURST: u64 = 500;

fn names(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("default/web-{n}")).collect()
}

/// Returns the rivals that expect one creation, observe it, and check whether the key is satisfied,
/// and the rivals that expect the deletions of 500 pods and observe all of them.
pub(crate) fn timed() -> Vec<Timed> {
    let mut all = vec![
        Timed::new("expectations/delete-named/500", delete_named),
        Timed::new("expectations/delete-plain/500", delete_plain),
    ];
    for keys in [1, 5_000] {
        let id = |rival| format!("expectations/create-{rival}/{keys}");
        all.push(Timed::new(id("named"), move || create_named(keys)));
        all.push(Timed::new(id("plain"), move || create_plain(keys)));
    }
    all
}

fn create_named(keys: u32) -> impl FnMut() -> u64 {
    let (names, mut next) = (names(keys), rounds(keys));
    let store = NamedExpectations::<u64>::new();
    move || {
        let key = &*names[next() as usize];
        store.expect_creations(key, 1, 0);
        store.creation_observed(key);
        store.satisfied(key, 1).into()
    }
}

fn create_plain(keys: u32) -> impl FnMut() -> u64 {
    let (names, mut next) = (names(keys), rounds(keys));
    let store = PlainExpectations::<u64>::default();
    move || {
        let key = &*names[next() as usize];
        store.expect(key, 1, BTreeSet::new());
        store.creation_observed(key);
        store.satisfied(key).into()
    }
}

fn delete_named() -> impl FnMut() -> u64 {
    let store = NamedExpectations::<u64>::new();
    move || {
        store.expect_deletions("default/web", black_box(0)..BURST, 0);
        for pod in 0..BURST {
            store.deletion_observed("default/web", &pod);
        }
        store.satisfied("default/web", 1).into()
    }
}

fn delete_plain() -> impl FnMut() -> u64 {
    let store = PlainExpectations::<u64>::default();
    move || {
        let pods = (black_box(0)..BURST).collect();
        store.expect("default/web", 0, pods);
        for pod in 0..BURST {
            store.deletion_observed("default/web", &pod);
        }
        store.satisfied("default/web").into()
    }
}
