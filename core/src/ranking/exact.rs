//! Telling apart the pods that share a key: rules 6 to 8 on exact values.

use std::cmp::Ordering;

use crate::object::{Time, Uid};

use super::age::time_code;
use super::fields::RankFields;
use super::relation::RankOptions;

/// What rules 6 to 8 compare of one pod. Made only for the pods at the cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exact {
    /// The bits of a canonical UID, which order as its text does.
    uid: u128,
    ready_time: i64,
    creation_time: i64,
    restarts: u64,
    /// Index of the pod among those that were made exact together.
    pub(super) slot: u32,
    ready_code: u8,
    creation_code: u8,
}

/// What is the same for all pods that are compared with each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    /// The UIDs by slot, where any of them is not canonical; else empty.
    uids: &'a [Uid],
    /// Whether the later time goes first within a code, instead of the smaller UID.
    plain_times: bool,
}

impl Exact {
    #[inline]
    pub(super) fn new(slot: u32, fields: &RankFields, options: &RankOptions) -> Exact {
        let code = |time: Time| match options.log_now() {
            Some(now_ns) => time_code(now_ns, time),
            None => u8::from(!time.is_unset()),
        };
        Exact {
            uid: fields.uid.as_u128().unwrap_or(0),
            ready_time: fields.ready_time.unix_seconds().unwrap_or(i64::MIN),
            creation_time: fields.creation_time.unix_seconds().unwrap_or(i64::MIN),
            restarts: fields.restarts,
            slot,
            ready_code: code(fields.ready_time),
            creation_code: code(fields.creation_time),
        }
    }
}

impl<'a> Comparison<'a> {
    /// `uids` are all the UIDs by slot where any is not canonical, else it may be empty.
    pub(super) fn new(uids: &'a [Uid], options: &RankOptions) -> Comparison<'a> {
        Comparison {
            uids,
            plain_times: options.log_now().is_none(),
        }
    }

    /// Which of two pods with equal keys goes first; equal when nothing tells them apart. Pods
    /// that are not ready have no ready time, so rule 6 passes them over.
    #[inline]
    pub(super) fn compare(&self, a: &Exact, b: &Exact) -> Ordering {
        if a.ready_time != b.ready_time {
            let codes = a.ready_code.cmp(&b.ready_code);
            return codes.then_with(|| self.within_code(a, b, a.ready_time, b.ready_time));
        }
        if a.restarts != b.restarts {
            return b.restarts.cmp(&a.restarts);
        }
        if a.creation_time != b.creation_time {
            let codes = a.creation_code.cmp(&b.creation_code);
            return codes.then_with(|| self.within_code(a, b, a.creation_time, b.creation_time));
        }
        Ordering::Equal
    }

    #[inline]
    fn within_code(&self, a: &Exact, b: &Exact, a_time: i64, b_time: i64) -> Ordering {
        if self.plain_times {
            b_time.cmp(&a_time)
        } else if self.uids.is_empty() {
            a.uid.cmp(&b.uid)
        } else {
            self.uids[a.slot as usize].cmp(&self.uids[b.slot as usize])
        }
    }
}
