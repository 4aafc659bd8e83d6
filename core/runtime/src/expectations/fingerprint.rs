//! The fingerprint of a pod's name, for sets that are read without a lock.

use compact_str::CompactString;

use crate::intern::FIXED_STATE;

/// 128 bits that identify a pod among the pods of one key.
///
/// The fingerprint of a number is exactly that number. The fingerprint of a name is a 64-bit hash
/// of the whole name, plus its last eight bytes unchanged. Pods created by a controller differ in
/// their last five characters, so their fingerprints always differ. Pods named by hand with equal
/// endings differ by the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// A hash whose upper bits are evenly distributed.
    pub(super) spread: u64,
    /// The other half; never zero, because zero marks an empty bucket.
    pub(super) rest: u64,
}

/// A pod name that expectations can await.
///
/// A borrowed form must have the same fingerprint as the owned value.
pub trait PodKey {
    /// Returns the fingerprint of the name. O(length of the name); allocates nothing.
    fn fingerprint(&self) -> Fingerprint;
}

impl PodKey for u64 {
    #[inline]
    fn fingerprint(&self) -> Fingerprint {
        // An odd factor (2^64 over the golden ratio) loses no information and fills the upper bits.
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
            // The value is 0 only for a string of NULs, which is not a valid name.
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
    fn names_with_different_endings_have_different_rests() {
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
    fn a_borrowed_name_has_the_same_fingerprint() {
        let name = "web-7d4b9c6f5d-x7k2p";
        assert_eq!(name.fingerprint(), String::from(name).fingerprint());
        assert_eq!(name.fingerprint(), CompactString::from(name).fingerprint());
    }
}
