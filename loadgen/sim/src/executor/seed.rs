//! Seeds for independent random sources. Each user of randomness has its own seed, so its draws
//! never depend on the draws of another user.

/// Derives the seed of one user of randomness from the run's seed and the user's name and number.
pub fn seed_for(seed: u64, user: &str, number: u64) -> u64 {
    let start = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = user.bytes().fold(start, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The last steps of a 64-bit mixer: similar inputs give unrelated seeds.
    let folded = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    folded ^ (folded >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_by_user_and_number() {
        let seeds = [
            seed_for(1, "kubelet", 0),
            seed_for(1, "kubelet", 1),
            seed_for(1, "worker", 0),
        ];
        assert!(seeds[0] != seeds[1] && seeds[0] != seeds[2] && seeds[1] != seeds[2]);
        assert_eq!(seed_for(1, "kubelet", 0), seeds[0]);
        assert_ne!(seed_for(2, "kubelet", 0), seeds[0]);
    }
}
