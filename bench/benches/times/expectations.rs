//! Expectations: by dense key, by text, and the plain way, which is one lock around two maps.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Mutex;

use podstorm::expectations::NamedExpectations;
use podstorm_bench::hot::workqueue::rounds;

use super::Timed;

/// Pods deleted in one burst.
const BURST: u64 = 500;

/// Counters (creations, deletions, time) and pods to delete by `namespace/name`, behind one lock.
#[derive(Default)]
struct Plain(Mutex<Maps>);

#[derive(Default)]
struct Maps(
    BTreeMap<String, (i64, i64, i64)>,
    BTreeMap<String, BTreeSet<u64>>,
);

impl Plain {
    fn expect_creations(&self, key: &str, count: i64, now_ns: i64) {
        let mut maps = self.0.lock().expect("not poisoned");
        maps.0.insert(key.to_owned(), (count, 0, now_ns));
    }

    fn creation_observed(&self, key: &str) {
        let mut maps = self.0.lock().expect("not poisoned");
        if let Some(counts) = maps.0.get_mut(key) {
            counts.0 -= 1;
        }
    }

    fn expect_deletions(&self, key: &str, pods: impl Iterator<Item = u64>, now_ns: i64) {
        let pods: BTreeSet<u64> = pods.collect();
        let mut maps = self.0.lock().expect("not poisoned");
        maps.0
            .insert(key.to_owned(), (0, pods.len() as i64, now_ns));
        maps.1.insert(key.to_owned(), pods);
    }

    fn deletion_observed(&self, key: &str, pod: u64) {
        let mut maps = self.0.lock().expect("not poisoned");
        let Maps(counts, pods) = &mut *maps;
        let removed = pods.get_mut(key).is_some_and(|pods| pods.remove(&pod));
        if let Some(counts) = counts.get_mut(key).filter(|_| removed) {
            counts.1 -= 1;
        }
    }

    fn satisfied(&self, key: &str) -> bool {
        let maps = self.0.lock().expect("not poisoned");
        maps.0
            .get(key)
            .is_none_or(|counts| counts.0 <= 0 && counts.1 <= 0)
    }
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("default/web-{n}")).collect()
}

/// Rivals that expect one creation, observe it, and ask whether the key is satisfied; and that expect the deletion of
/// 500 pods and observe all.
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
    let store = Plain::default();
    move || {
        let key = &*names[next() as usize];
        store.expect_creations(key, 1, 0);
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
    let store = Plain::default();
    move || {
        store.expect_deletions("default/web", black_box(0)..BURST, 0);
        for pod in 0..BURST {
            store.deletion_observed("default/web", pod);
        }
        store.satisfied("default/web").into()
    }
}
