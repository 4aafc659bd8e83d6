//! What stands for a pod in a set that is read without a lock.

use compact_str::CompactString;

use crate::intern::FIXED_STATE;

/// 128 bits that stand for a pod: two pods of one key have different marks.
///
/// A number is its own mark, exactly. A name's mark is a 64-bit hash of the whole and, as they are,
/// its last eight bytes. Pods that a controller made differ in their last five characters, so their
/// marks differ for certain; pods that were named by hand to end alike are told apart by the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Spread evenly in its upper bits.
    pub(super) spread: u64,
    /// Never zero, which is left to places without a pod.
    pub(super) rest: u64,
}

/// Names of pods that expectations can wait for.
///
/// What a value borrows as has the same mark as the value.
pub trait PodKey {
    /// The mark of this pod. O(length of the name); allocates nothing.
    fn fingerprint(&self) -> Fingerprint;
}

impl PodKey for u64 {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        // An odd factor (2^64 over the golden ratio) loses nothing, and fills the upper bits.
        Fingerprint {
            spread: self.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            rest: 1,
        }
    }
}

impl PodKey for u32 {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        u64::from(*self).fingerprint()
    }
}

impl PodKey for str {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        let bytes = self.as_bytes();
        let rest = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => bytes
                .iter()
                .fold(0, |rest, &byte| rest << 8 | u64::from(byte)),
        };
        Fingerprint {
            spread: FIXED_STATE.hash_one(bytes),
            // Zero only for a text of nothing but NUL, which is no name.
            rest: rest.max(1),
        }
    }
}

impl PodKey for String {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        self.as_str().fingerprint()
    }
}

impl PodKey for CompactString {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        self.as_str().fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_their_end_have_different_rests() {
        let rest = |name: &str| name.fingerprint().rest;
        assert_ne!(rest("web-7d4b9c6f5d-x7k2p"), rest("web-7d4b9c6f5d-x7k2q"));
        assert_eq!(rest("web-7d4b9c6f5d-x7k2p"), rest("api-7d4b9c6f5d-x7k2p"));
        assert_ne!(
            "web-7d4b9c6f5d-x7k2p".fingerprint(),
            "api-7d4b9c6f5d-x7k2p".fingerprint()
        );
        assert_ne!(rest("a"), rest("b"));
        assert_ne!(rest(""), 0);
    }

    #[test]
    fn what_a_name_borrows_as_has_its_mark() {
        let name = "web-7d4b9c6f5d-x7k2p";
        assert_eq!(name.fingerprint(), String::from(name).fingerprint());
        assert_eq!(name.fingerprint(), CompactString::from(name).fingerprint());
    }
}
