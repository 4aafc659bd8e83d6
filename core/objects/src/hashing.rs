//! Hashers for maps with client-controlled keys: names, UIDs, labels, request texts.
//!
//! The seeds are fixed in simulations, which makes runs repeatable. A process that serves a network
//! draws a random seed: a client that knows the seed can send colliding keys and make every lookup
//! linear. A map keeps the hasher that it was created with. No output depends on the iteration
//! order of such a map.

use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;

/// The seed of all hashers; 0 until one is set.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Returns the hasher for a new map.
pub fn hash_state() -> RandomState {
    // Relaxed: the seed guards no other data; a map created concurrently may get either seed.
    let seed = SEED.load(Ordering::Relaxed);
    RandomState::with_seeds(
        0x243f_6a88_85a3_08d3 ^ seed,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0 ^ seed.rotate_left(32),
        0x082e_fa98_ec4e_6c89,
    )
}

/// Sets the seed of all maps that this process creates from now on. The first non-zero seed stays;
/// later calls have no effect.
pub fn seed_hashes(seed: u64) {
    // Relaxed: as in `hash_state`.
    let _stays = SEED.compare_exchange(0, seed, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use hashbrown::HashMap;

    use super::*;

    #[test]
    fn the_first_seed_stays_and_applies_to_later_maps() {
        let mut before = HashMap::with_hasher(hash_state());
        before.insert("a", 1);
        let fixed = hash_state().hash_one("a");
        seed_hashes(7);
        let seeded = hash_state().hash_one("a");
        assert_ne!(seeded, fixed);
        seed_hashes(8);
        assert_eq!(hash_state().hash_one("a"), seeded);
        before.insert("b", 2);
        assert_eq!((before.get("a"), before.get("b")), (Some(&1), Some(&2)));
    }
}
