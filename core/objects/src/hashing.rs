//! The hashers of maps whose keys others choose: names, UIDs, labels, texts of requests.
//!
//! Their seeds are fixed, so that runs are repeatable, until a process that serves others draws one: whoever knows the
//! seeds can send keys that collide, and have every look-up compare them all. A map keeps the hasher that it was made
//! with. No order of such a map is ever seen.

use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;

/// 0 until it is drawn.
static SEED: AtomicU64 = AtomicU64::new(0);

/// A hasher for a new map.
pub fn hash_state() -> RandomState {
    // Ordering: a number that stands for itself; a map made meanwhile may have either.
    let seed = SEED.load(Ordering::Relaxed);
    RandomState::with_seeds(
        0x243f_6a88_85a3_08d3 ^ seed,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0 ^ seed.rotate_left(32),
        0x082e_fa98_ec4e_6c89,
    )
}

/// Seeds the maps that are made from now on, in this process. The first seed but 0 stays: calls after it change
/// nothing.
pub fn seed_hashes(seed: u64) {
    // Ordering: as in `hash_state`.
    let _stays = SEED.compare_exchange(0, seed, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use hashbrown::HashMap;

    use super::*;

    #[test]
    fn a_seed_is_of_the_maps_after_it_and_stays() {
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
