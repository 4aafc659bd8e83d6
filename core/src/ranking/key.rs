//! The rules that form a true order, packed into one number for each pod.
//!
//! From the highest bit: scheduled (1 bit), phase (2), ready (1), cost (32). The fine form
//! continues with the rank (21 bits, inverted: a higher rank goes first) and seven bits of the next
//! rule: the code of the ready time for ready pods, the container restarts (inverted, up to 127)
//! for others. All restart counts above 127 give the same key; such pairs are compared later.
//!
//! A node with more than two million related pods does not fit the fine form. A ranking with such a
//! node uses the coarse form, without the seven bits.

use super::age::time_code;
use super::fields::{COST_MASK, COST_SHIFT, RankFields};
use super::relation::RankOptions;

/// The number of bits of the fine form below the rank.
const DETAIL_BITS: u32 = 7;
/// The maximum rank that fits into the fine form.
pub(super) const FINE_RANK_MAX: u32 = (1 << (COST_SHIFT - DETAIL_BITS)) - 1;
/// The maximum rank that fits into the coarse form. Larger ranks count as this one. (No cluster has
/// a node with 268 million pods.)
const COARSE_RANK_MAX: u32 = (1 << COST_SHIFT) - 1;
/// The maximum value of the seven bits below the rank.
const DETAIL_MAX: u32 = (1 << DETAIL_BITS) - 1;

// Codes of times are at most 65.
const _: () = assert!(DETAIL_MAX > 65);

/// How the keys of one ranking are packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// A mask of the bits in the prefix that count.
    prefix_mask: u64,
    /// The current time if ages are compared on the logarithmic scale; otherwise `None`.
    log_now: Option<i64>,
}

impl Packing {
    pub(super) fn new(options: &RankOptions) -> Packing {
        let prefix_mask = if options.pod_deletion_cost {
            u64::MAX
        } else {
            !COST_MASK
        };
        Packing {
            prefix_mask,
            log_now: options.log_now(),
        }
    }

    /// Returns the rank that counts for a pod: 0 if the pod has no node.
    #[inline]
    pub(super) fn rank(fields: &RankFields, rank_of_node: &impl Fn(u32) -> u32) -> u32 {
        let rank = rank_of_node(fields.node());
        if fields.is_scheduled() { rank } else { 0 }
    }

    /// Returns the fine key of a pod. The rank must be at most [`FINE_RANK_MAX`].
    #[inline]
    pub(super) fn fine(&self, fields: &RankFields, rank: u32) -> u64 {
        let inverted = FINE_RANK_MAX.wrapping_sub(rank) & FINE_RANK_MAX;
        let detail = if fields.is_ready() {
            u32::from(self.ready_code(fields))
        } else {
            DETAIL_MAX - fields.container_restarts().min(DETAIL_MAX)
        };
        fields.prefix & self.prefix_mask | u64::from(inverted << DETAIL_BITS | detail)
    }

    /// Returns the coarse key of a pod.
    #[inline]
    pub(super) fn coarse(&self, fields: &RankFields, rank: u32) -> u64 {
        let inverted = COARSE_RANK_MAX - rank.min(COARSE_RANK_MAX);
        fields.prefix & self.prefix_mask | u64::from(inverted)
    }

    #[inline]
    fn ready_code(&self, fields: &RankFields) -> u8 {
        match self.log_now {
            Some(now_ns) => time_code(now_ns, fields.ready_time),
            None => u8::from(!fields.ready_time.is_unset()),
        }
    }
}
