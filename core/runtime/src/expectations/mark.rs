//! What stands for a pod in a set that is read without a lock.

use compact_str::CompactString;

use crate::intern::FIXED_STATE;

/// 128 bits that stand for a pod: two pods of one key have different marks.
///
/// A number is its own mark, exactly. A name's mark is a 64-bit hash of the whole and, as they are,
/// its last eight bytes. Pods that a controller made differ in their last five characters, so their
/// marks differ for certain; pods that were named by hand to end alike are told apart by the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
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
    fn mark(&self) -> Mark;
}

impl PodKey for u64 {
    #[inline]
    fn mark(&self) -> Mark {
        // An odd factor (2^64 over the golden ratio) loses nothing, and fills the upper bits.
        Mark {
            spread: self.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            rest: 1,
        }
    }
}

impl PodKey for u32 {
    #[inline]
    fn mark(&self) -> Mark {
        u64::from(*self).mark()
    }
}

impl PodKey for str {
    #[inline]
    fn mark(&self) -> Mark {
        let bytes = self.as_bytes();
        let rest = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => bytes
                .iter()
                .fold(0, |rest, &byte| rest << 8 | u64::from(byte)),
        };
        Mark {
            spread: FIXED_STATE.hash_one(bytes),
            // Zero only for a text of nothing but NUL, which is no name.
            rest: rest.max(1),
        }
    }
}

impl PodKey for String {
    #[inline]
    fn mark(&self) -> Mark {
        self.as_str().mark()
    }
}

impl PodKey for CompactString {
    #[inline]
    fn mark(&self) -> Mark {
        self.as_str().mark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_their_end_have_different_rests() {
        let rest = |name: &str| name.mark().rest;
        assert_ne!(rest("web-7d4b9c6f5d-x7k2p"), rest("web-7d4b9c6f5d-x7k2q"));
        assert_eq!(rest("web-7d4b9c6f5d-x7k2p"), rest("api-7d4b9c6f5d-x7k2p"));
        assert_ne!("web-7d4b9c6f5d-x7k2p".mark(), "api-7d4b9c6f5d-x7k2p".mark());
        assert_ne!(rest("a"), rest("b"));
        assert_ne!(rest(""), 0);
    }

    #[test]
    fn what_a_name_borrows_as_has_its_mark() {
        let name = "web-7d4b9c6f5d-x7k2p";
        assert_eq!(name.mark(), String::from(name).mark());
        assert_eq!(name.mark(), CompactString::from(name).mark());
    }
}
