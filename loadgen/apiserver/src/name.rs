//! Generation of UIDs, and of names for `generateName`.
//!
//! Both are computed from the seed and a counter with a mixing function. Therefore, equal sequences
//! of calls give equal objects, and threads share no generator state except the counter.

use std::sync::atomic::{AtomicU64, Ordering};

use compact_str::CompactString;
use podstorm_objects::Uid;

/// The alphabet of generated suffixes, the same as upstream's: no vowels and no characters that are
/// easily misread.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The number of random characters after the prefix.
const SUFFIX_LEN: usize = 5;

/// The maximum length of the prefix, because a generated name is a DNS label of at most 63 bytes.
const PREFIX_LEN_MAX: usize = 63 - SUFFIX_LEN;

/// The number of attempts at a generated name before the create is refused.
pub(super) const NAME_ATTEMPTS: u32 = 8;

/// A generator of UIDs and names.
#[derive(Debug)]
pub(super) struct IdentityGenerator {
    seed: u64,
    /// The number of draws. Relaxed: the numbers must differ, but their order does not matter.
    drawn: AtomicU64,
    /// The number of calls of [`number`](Self::number). Relaxed for the same reason.
    numbered: AtomicU64,
}

impl IdentityGenerator {
    pub(super) fn new(seed: u64) -> IdentityGenerator {
        IdentityGenerator {
            seed: mix(seed ^ 0x6e61_6d65_7300_0001),
            drawn: AtomicU64::new(0),
            numbered: AtomicU64::new(0),
        }
    }

    /// Returns a generator in the same state, which will generate the same values.
    pub(super) fn fork(&self) -> IdentityGenerator {
        IdentityGenerator {
            seed: self.seed,
            drawn: AtomicU64::new(self.drawn.load(Ordering::Relaxed)),
            numbered: AtomicU64::new(self.numbered.load(Ordering::Relaxed)),
        }
    }

    /// Returns a number that was not returned before: 0, 1, 2 and so on.
    pub(super) fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed)
    }

    /// Draws the identity of a new object, which determines its UID and every attempt at its name.
    pub(super) fn draw(&self) -> Draw {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        Draw {
            base: mix(self.seed.wrapping_add(number.wrapping_mul(GOLDEN))),
        }
    }
}

/// The random number of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    base: u64,
}

impl Draw {
    /// Returns a random-looking version 4 UUID.
    pub(super) fn uid(self) -> Uid {
        let high = mix(self.base ^ 0x7569_6468_6967_6800);
        let low = mix(self.base.wrapping_add(GOLDEN) ^ 0x7569_646c_6f77_0000);
        let bits = (u128::from(high) << 64) | u128::from(low);
        let version = 0x4u128 << 76;
        let variant = 0x2u128 << 62;
        Uid::from_u128(bits & !(0xfu128 << 76) & !(0x3u128 << 62) | version | variant)
    }

    /// Returns the name of an attempt: the first 58 bytes of the prefix, and five characters.
    pub(super) fn name(self, prefix: &str, attempt: u32) -> CompactString {
        let mut end = prefix.len().min(PREFIX_LEN_MAX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let mut bits = mix(self.base.wrapping_add(u64::from(attempt) + 1));
        let mut suffix = [0u8; SUFFIX_LEN];
        for byte in &mut suffix {
            // 27 does not divide 2^64, but the bias is below 10^-11 even for the fifth character.
            *byte = ALPHABET[(bits % 27) as usize];
            bits /= 27;
        }
        let mut name = CompactString::with_capacity(end + SUFFIX_LEN);
        name.push_str(&prefix[..end]);
        name.push_str(std::str::from_utf8(&suffix).expect("the alphabet is ASCII"));
        name
    }
}

/// 2^64 divided by the golden ratio. The multiples of this number are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The final step of a 64-bit mixing generator: every input bit changes half of the output bits.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(GOLDEN);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_58_bytes_of_the_prefix_and_five_characters() {
        let draw = IdentityGenerator::new(1).draw();
        for (prefix_len, len) in [(0, 5), (4, 9), (58, 63), (59, 63), (200, 63)] {
            let name = draw.name(&"a".repeat(prefix_len), 0);
            assert_eq!(name.len(), len);
            assert!(
                name.as_bytes()[len - 5..]
                    .iter()
                    .all(|b| ALPHABET.contains(b))
            );
        }
        assert_ne!(draw.name("web-", 0), draw.name("web-", 1));
    }

    #[test]
    fn equal_seeds_give_equal_uids_and_names() {
        let (a, b, c) = (
            IdentityGenerator::new(7),
            IdentityGenerator::new(7),
            IdentityGenerator::new(8),
        );
        for _ in 0..100 {
            let (a, b, c) = (a.draw(), b.draw(), c.draw());
            assert_eq!(a.uid(), b.uid());
            assert_eq!(a.name("x-", 0), b.name("x-", 0));
            assert_ne!(a.uid(), c.uid());
        }
    }

    #[test]
    fn uids_are_version_4_uuids() {
        let names = IdentityGenerator::new(3);
        for _ in 0..1000 {
            let text = names.draw().uid().to_string();
            assert_eq!(text.as_bytes()[14], b'4');
            assert!(
                matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
                "{text}"
            );
        }
    }
}
