//! Expectations by dense key: a creation, from the expectation until it is satisfied, and a burst
//! of deletions.

use std::hint::black_box;

use podstorm::expectations::Expectations;

/// The number of pods deleted in one burst.
const BURST: u64 = 500;

/// In each call, expects one creation for the next of `keys` keys, observes it, and checks whether
/// the key is satisfied.
pub fn create(keys: u32) -> impl FnMut() -> u64 {
    let (store, mut next) = (
        Expectations::<u32, u64>::new(),
        super::workqueue::rounds(keys),
    );
    // Creates the entries of all keys before the first call: a key's entry is created only once.
    (0..keys).for_each(|key| store.expect_creations(key, 0, 0));
    move || {
        let key = black_box(next());
        store.expect_creations(key, 1, 0);
        store.creation_observed(key);
        store.satisfied(key, 1).into()
    }
}

/// Expects the deletions of 500 pods, observes all of them, and checks whether the key is
/// satisfied.
pub fn delete() -> impl FnMut() -> u64 {
    let store = Expectations::<u32, u64>::new();
    move || {
        store.expect_deletions(0, black_box(0)..BURST, 0);
        for pod in 0..BURST {
            store.deletion_observed(0, &pod);
        }
        store.satisfied(0, 1).into()
    }
}
