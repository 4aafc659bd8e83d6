//! The comparison of pods with equal keys: rules 6 to 8 on exact values.
//!
//! In a burst nearly all pods share a key, and for nearly all pairs the UIDs decide, because the
//! times differ but their buckets do not. If this holds for a whole set of pods, the sort moves and
//! compares only 16 bytes for each pod: a [`Probe`]. It reads the exact values only for the few
//! pairs that the probes leave undecided.

use std::cmp::Ordering;

use podstorm_objects::{Time, Uid};

use super::age::time_code;
use super::fields::RankFields;
use super::relation::RankOptions;

/// The values of one pod that rules 6 to 8 compare. Built only for pods with the key at the cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    /// The bits of the UID, if it is canonical. They sort like its string.
    uid: u128,
    ready_time: Time,
    creation_time: Time,
    restarts: u64,
}

impl Exact {
    #[inline]
    pub(super) fn new(fields: &RankFields) -> Exact {
        Exact {
            uid: fields.uid.as_u128().unwrap_or(0),
            ready_time: fields.ready_time,
            creation_time: fields.creation_time,
            restarts: fields.restarts,
        }
    }
}

/// The small record that the sort moves for each pod with the key at the cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The upper half of the UID if UIDs decide among these pods; otherwise zero for all of them.
    uid_high: u64,
    /// The lower half, in seconds, of the time that must differ for the UIDs to decide.
    time_low: u32,
    /// The index of the pod's exact values.
    pub(super) slot: u32,
}

/// The pods with the key at the cut, as a view for comparisons.
#[derive(Clone, Copy, Debug)]
pub(super) struct TiedPods<'a> {
    /// The exact values by slot.
    exact: &'a [Exact],
    /// The UIDs by slot if any UID is not canonical; otherwise empty.
    uids: &'a [Uid],
    /// The current time if ages are compared on the logarithmic scale. `None` if the pod with the
    /// later time goes first.
    log_now: Option<i64>,
}

impl<'a> TiedPods<'a> {
    /// Creates the view. `uids` has all UIDs by slot if any UID is not canonical; otherwise it is
    /// empty.
    pub(super) fn new(exact: &'a [Exact], uids: &'a [Uid], options: &RankOptions) -> TiedPods<'a> {
        TiedPods {
            exact,
            uids,
            log_now: options.log_now(),
        }
    }

    /// Fills `probes` with a probe for every pod.
    pub(super) fn probe(&self, probes: &mut Vec<Probe>) {
        probes.clear();
        let records = (0u32..).zip(self.exact);
        match self.time_where_uids_decide() {
            Some(time) => probes.extend(records.map(|(slot, exact)| Probe {
                uid_high: (exact.uid >> 64) as u64,
                time_low: time(exact).unix_seconds().unwrap_or(0) as u32,
                slot,
            })),
            None => probes.extend(records.map(|(slot, _)| Probe {
                uid_high: 0,
                time_low: 0,
                slot,
            })),
        }
    }

    /// Returns the time that has this property among all these pods: if two pods differ in it,
    /// their UIDs decide which pod goes first. `None` if there is no such time.
    fn time_where_uids_decide(&self) -> Option<fn(&Exact) -> Time> {
        let log_now = self.log_now.filter(|_| self.uids.is_empty())?;
        // The earliest and the latest time. Codes are monotonic in the time, so all codes lie
        // between those of these two.
        let range = |time: fn(&Exact) -> Time| {
            let times = self.exact.iter().map(time);
            times.fold(
                (Time::from_unix_seconds(i64::MAX), Time::UNSET),
                |(low, high), time| (low.min(time), high.max(time)),
            )
        };
        let one_code = |(low, high): (Time, Time)| {
            !low.is_unset() && time_code(log_now, low) == time_code(log_now, high)
        };
        let ready: fn(&Exact) -> Time = |exact| exact.ready_time;
        let ready_range = range(ready);
        if ready_range.0 != ready_range.1 {
            return one_code(ready_range).then_some(ready);
        }
        let first = self.exact.first()?;
        if self
            .exact
            .iter()
            .any(|exact| exact.restarts != first.restarts)
        {
            return None;
        }
        let creation: fn(&Exact) -> Time = |exact| exact.creation_time;
        one_code(range(creation)).then_some(creation)
    }

    /// Compares two pods with equal keys. Returns `Equal` if no rule distinguishes them.
    #[inline]
    pub(super) fn compare(&self, a: &Probe, b: &Probe) -> Ordering {
        if a.time_low != b.time_low && a.uid_high != b.uid_high {
            return a.uid_high.cmp(&b.uid_high);
        }
        self.compare_slots(a.slot, b.slot)
    }

    /// Like [`compare`](Self::compare), but compares only the exact values. Pods that are not ready
    /// have no ready time, so rule 6 skips them.
    pub(super) fn compare_slots(&self, a_slot: u32, b_slot: u32) -> Ordering {
        let (a, b) = (&self.exact[a_slot as usize], &self.exact[b_slot as usize]);
        let by_uid = || match self.uids {
            [] => a.uid.cmp(&b.uid),
            uids => uids[a_slot as usize].cmp(&uids[b_slot as usize]),
        };
        let by_time = |a: Time, b: Time| match self.log_now {
            _ if a.is_unset() || b.is_unset() => b.is_unset().cmp(&a.is_unset()),
            None => b.cmp(&a),
            Some(now_ns) => time_code(now_ns, a)
                .cmp(&time_code(now_ns, b))
                .then_with(by_uid),
        };
        if a.ready_time != b.ready_time {
            return by_time(a.ready_time, b.ready_time);
        }
        if a.restarts != b.restarts {
            return b.restarts.cmp(&a.restarts);
        }
        if a.creation_time != b.creation_time {
            return by_time(a.creation_time, b.creation_time);
        }
        Ordering::Equal
    }
}
