//! Upstream's rules for which of two pods is deleted first.

use std::cmp::Ordering;
use std::fmt;

use podstorm_objects::Time;

use super::RankFields;
use super::age::{age_bucket, age_ns};

/// The options of one ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOptions {
    /// The current time in nanoseconds since the Unix epoch, read once per ranking. `None` is Go's
    /// zero time: times are then compared as if `logarithmic_scale_down` were off.
    pub now_wall_ns: Option<i64>,
    /// The feature gate `PodDeletionCost`; on since Kubernetes 1.22.
    pub pod_deletion_cost: bool,
    /// The feature gate `LogarithmicScaleDown`; on since Kubernetes 1.22, locked since 1.31. If it
    /// is off, the pod with the later time goes first.
    pub logarithmic_scale_down: bool,
}

impl RankOptions {
    /// Returns the options of Kubernetes 1.36, with both gates on.
    pub const fn at(now_wall_ns: i64) -> RankOptions {
        RankOptions {
            now_wall_ns: Some(now_wall_ns),
            pod_deletion_cost: true,
            logarithmic_scale_down: true,
        }
    }

    /// Returns the current time if ages are compared on the logarithmic scale; otherwise `None`.
    #[inline]
    pub(super) fn log_now(&self) -> Option<i64> {
        self.now_wall_ns.filter(|_| self.logarithmic_scale_down)
    }
}

/// The properties of a pod that the rules compare.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The ranking fields of the pod.
    pub fields: &'a RankFields,
    /// The number of active pods of the related ReplicaSets on the pod's node, the pod included; 0
    /// for ReplicaSets without an owner.
    pub rank: u32,
}

/// The rule that decides between two pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A pod without a node goes before a pod with one.
    Unscheduled,
    /// Pending goes before unknown, unknown before running.
    Phase,
    /// A pod that is not ready goes before a ready pod.
    NotReady,
    /// The pod with the smaller deletion cost goes first.
    DeletionCost,
    /// The pod on the node with more related pods goes first.
    Colocation,
    /// The pod that has been ready for a shorter time goes first, on the logarithmic scale.
    ReadyTime,
    /// Both became ready in the same bucket, but not at the same time: the smaller UID goes first.
    ReadyTimeUid,
    /// The pod with more restarts goes first.
    Restarts,
    /// The pod created later goes first, on the logarithmic scale.
    CreationTime,
    /// Both were created in the same bucket, but not at the same time: the smaller UID goes first.
    CreationTimeUid,
}

impl Rule {
    /// Returns the number of the rule in upstream's list of eight.
    pub const fn number(self) -> u8 {
        match self {
            Rule::Unscheduled => 1,
            Rule::Phase => 2,
            Rule::NotReady => 3,
            Rule::DeletionCost => 4,
            Rule::Colocation => 5,
            Rule::ReadyTime | Rule::ReadyTimeUid => 6,
            Rule::Restarts => 7,
            Rule::CreationTime | Rule::CreationTimeUid => 8,
        }
    }

    /// Returns a short phrase that compares the first pod with the other, e.g. `not ready`.
    pub const fn words(self) -> &'static str {
        match self {
            Rule::Unscheduled => "not scheduled",
            Rule::Phase => "in an earlier phase",
            Rule::NotReady => "not ready",
            Rule::DeletionCost => "cheaper to delete",
            Rule::Colocation => "on a node with more related pods",
            Rule::ReadyTime => "ready for a shorter time",
            Rule::ReadyTimeUid => "ready for about as long, smaller UID",
            Rule::Restarts => "restarted more often",
            Rule::CreationTime => "created later",
            Rule::CreationTimeUid => "created at about the same time, smaller UID",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Reports whether `a` must go before `b`, by the first rule that distinguishes them. O(1).
///
/// This relation is not an order that can be sorted by. Rule 6 compares the UIDs of pods that
/// became ready at different times in the same age bucket, but leaves pods with the same ready time
/// to rule 7, so three pods can form a cycle. Also, if no rule distinguishes two pods, one of them
/// may go before a third pod and the other after it.
pub fn before(a: Candidate<'_>, b: Candidate<'_>, options: &RankOptions) -> bool {
    matches!(decide(a, b, options), Some((_, Ordering::Less)))
}

/// Returns the rule that distinguishes two pods, whichever of them goes first; `None` if no rule
/// does. O(1).
pub fn deciding_rule(a: Candidate<'_>, b: Candidate<'_>, options: &RankOptions) -> Option<Rule> {
    match decide(a, b, options) {
        Some((_, Ordering::Equal)) | None => None,
        Some((rule, _)) => Some(rule),
    }
}

/// Returns the first rule that applies and the result: `Less` if `a` goes first. The result is
/// `Equal` if times differ within a bucket and the UIDs are the same; later rules don't apply then.
fn decide(a: Candidate<'_>, b: Candidate<'_>, options: &RankOptions) -> Option<(Rule, Ordering)> {
    let (a, a_rank, b, b_rank) = (a.fields, a.rank, b.fields, b.rank);
    let told_apart = |rule: Rule, order: Ordering| order.is_ne().then_some((rule, order));
    told_apart(Rule::Unscheduled, a.is_scheduled().cmp(&b.is_scheduled()))
        .or_else(|| told_apart(Rule::Phase, a.phase_ordinal().cmp(&b.phase_ordinal())))
        .or_else(|| told_apart(Rule::NotReady, a.is_ready().cmp(&b.is_ready())))
        .or_else(|| {
            let order = a.deletion_cost().cmp(&b.deletion_cost());
            told_apart(Rule::DeletionCost, order).filter(|_| options.pod_deletion_cost)
        })
        .or_else(|| told_apart(Rule::Colocation, b_rank.cmp(&a_rank)))
        .or_else(|| {
            let rules = [Rule::ReadyTime, Rule::ReadyTimeUid];
            decide_by_time(a, b, |pod| pod.ready_time, options, rules)
                .filter(|_| a.is_ready() && b.is_ready())
        })
        .or_else(|| told_apart(Rule::Restarts, b.restarts.cmp(&a.restarts)))
        .or_else(|| {
            let rules = [Rule::CreationTime, Rule::CreationTimeUid];
            decide_by_time(a, b, |pod| pod.creation_time, options, rules)
        })
}

/// Applies rule 6 or 8; `None` if the times are equal.
fn decide_by_time(
    a: &RankFields,
    b: &RankFields,
    time: impl Fn(&RankFields) -> Time,
    options: &RankOptions,
    [by_time, by_uid]: [Rule; 2],
) -> Option<(Rule, Ordering)> {
    let (a_time, b_time) = (time(a), time(b));
    if a_time == b_time {
        return None;
    }
    // An unset time counts as the newest.
    if a_time.is_unset() || b_time.is_unset() {
        return Some((by_time, b_time.is_unset().cmp(&a_time.is_unset())));
    }
    let Some(now_ns) = options.log_now() else {
        return Some((by_time, b_time.cmp(&a_time)));
    };
    let bucket = |time| age_ns(now_ns, time).map(age_bucket);
    match bucket(a_time).cmp(&bucket(b_time)) {
        Ordering::Equal => Some((by_uid, a.uid.cmp(&b.uid))),
        order => Some((by_time, order)),
    }
}
