//! Zones: the health of each zone, and the rate at which its nodes get `NoExecute` taints.
//!
//! Source: `handleDisruption`, `ComputeZoneState` and `scheduler/rate_limited_queue.go` of Kubernetes'
//! `pkg/controller/nodelifecycle`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use compact_str::CompactString;
use podstorm_objects::{Labels, Node};

use super::Options;

/// The region and zone of a node; both may be empty.
pub(super) type ZoneName = (CompactString, CompactString);

/// Returns the zone of a node from its labels. Prefers current labels to deprecated ones.
pub(super) fn zone_of(node: &Node) -> ZoneName {
    let labels: &Labels = &node.metadata.labels;
    let first = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| labels.get(key));
        found.map_or_else(CompactString::default, |text| (&**text).into())
    };
    let region = [
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region",
    ];
    let zone = [
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
    ];
    (first(region), first(zone))
}

/// The health of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The zone has not been evaluated yet.
    Initial,
    Normal,
    /// Many nodes of the zone are not ready.
    Partial,
    /// No node of the zone is ready.
    Full,
}

/// The numbers of ready and other nodes that count in a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyCounts {
    pub(super) ready: i64,
    pub(super) not_ready: i64,
}

impl ReadyCounts {
    fn mode(self, options: &Options) -> Mode {
        let ReadyCounts { ready, not_ready } = self;
        let many = || {
            let wanted = options.unhealthy_share.saturating_mul(ready + not_ready);
            not_ready.saturating_mul(1_000_000) >= wanted
        };
        match not_ready {
            1.. if ready == 0 => Mode::Full,
            3.. if many() => Mode::Partial,
            _ => Mode::Normal,
        }
    }

    fn rate(self, mode: Mode, options: &Options) -> i64 {
        let is_large = self.ready + self.not_ready > options.large_zone;
        match mode {
            Mode::Partial if is_large => options.secondary_rate,
            Mode::Partial => 0,
            Mode::Initial | Mode::Normal | Mode::Full => options.rate,
        }
    }
}

/// A token bucket with room for one token, full at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limiter {
    /// The rate in millionths of a token per second. If it is not positive, there are no tokens.
    rate: i64,
    /// The monotonic time in ns at which the next token arrives.
    token_ns: i64,
}

impl Limiter {
    fn new(rate: i64) -> Limiter {
        Limiter {
            rate,
            token_ns: i64::MIN,
        }
    }

    fn try_accept(&mut self, now_ns: i64) -> bool {
        if self.rate <= 0 || now_ns < self.token_ns {
            return false;
        }
        // At a rate of one millionth of a token per second, a token takes 10^6 s (10^15 ns) to
        // arrive.
        self.token_ns = now_ns.saturating_add(1_000_000_000_000_000 / self.rate);
        true
    }

    /// Changes the rate. If the limiter has no token, it has none after the change either.
    fn swap(&mut self, rate: i64, now_ns: i64) {
        if rate == self.rate {
            return;
        }
        let mut new = Limiter::new(rate);
        if !self.try_accept(now_ns) {
            new.try_accept(now_ns);
        }
        *self = new;
    }
}

/// A zone, with its nodes that wait for `NoExecute` taints.
#[derive(Debug)]
pub(super) struct Zone {
    mode: Mode,
    limiter: Limiter,
    waiting: VecDeque<CompactString>,
    /// The nodes that wait, and those that have waited and may have been tainted since.
    listed: BTreeSet<CompactString>,
}

impl Zone {
    pub(super) fn new(options: &Options) -> Zone {
        Zone {
            mode: Mode::Initial,
            limiter: Limiter::new(options.rate),
            waiting: VecDeque::new(),
            listed: BTreeSet::new(),
        }
    }

    /// Makes a node wait, unless it already waits or has waited.
    pub(super) fn add(&mut self, node: &CompactString) {
        if self.listed.insert(node.clone()) {
            self.waiting.push_back(node.clone());
        }
    }

    /// Reports whether a node waits for its `NoExecute` taint.
    pub(super) fn waits(&self, node: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting == node)
    }

    /// Forgets a node, so that it can wait again.
    pub(super) fn remove(&mut self, node: &str) {
        if self.listed.remove(node) {
            self.waiting.retain(|waiting| waiting != node);
        }
    }

    /// Returns the next node to taint; `None` if no node waits or the rate does not allow it now.
    /// If the taint can't be set, the caller must [put the node back](Zone::put_back).
    pub(super) fn take(&mut self, now_ns: i64) -> Option<CompactString> {
        if self.waiting.is_empty() || !self.limiter.try_accept(now_ns) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Puts a node in front of the waiting ones, unless it was removed in the meantime.
    pub(super) fn put_back(&mut self, node: CompactString) {
        if self.listed.contains(&node) {
            self.waiting.push_front(node);
        }
    }

    /// Returns the monotonic time in ns at which the next node may be tainted; `None` if no node
    /// waits or the rate is not positive.
    pub(super) fn next_ns(&self) -> Option<i64> {
        let is_open = !self.waiting.is_empty() && self.limiter.rate > 0;
        is_open.then_some(self.limiter.token_ns)
    }
}

/// What the evaluation of all zones changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// No node is ready any longer: all `NoExecute` taints must be removed.
    AllDown,
    /// A node is ready again: all nodes count as having reported now.
    Over,
}

/// Evaluates all zones by their counts and sets their rates. Forgets zones without any nodes that
/// count.
pub(super) fn judge(
    zones: &mut BTreeMap<ZoneName, Zone>,
    counts: &BTreeMap<ZoneName, ReadyCounts>,
    options: &Options,
    now_ns: i64,
) -> Change {
    zones.retain(|name, _| counts.contains_key(name));
    let modes: BTreeMap<&ZoneName, Mode> = counts
        .iter()
        .map(|(name, counts)| (name, counts.mode(options)))
        .collect();
    let are_down = modes.values().all(|mode| *mode == Mode::Full);
    let were_down = zones.values().all(|zone| zone.mode == Mode::Full);
    if are_down && were_down {
        return Change::Nothing;
    }
    for (name, zone) in zones {
        let (counts, mode) = (counts[name], modes[name]);
        if are_down {
            zone.limiter.swap(0, now_ns);
        } else if were_down || zone.mode != mode {
            zone.limiter.swap(counts.rate(mode, options), now_ns);
        }
        zone.mode = mode;
    }
    match (are_down, were_down) {
        (true, _) => Change::AllDown,
        (false, true) => Change::Over,
        (false, false) => Change::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn name(zone: &str) -> ZoneName {
        (CompactString::default(), zone.into())
    }

    #[test]
    fn the_nodes_of_a_zone_decide_its_mode() {
        let options = Options::default();
        for (ready, not_ready, mode, rate) in [
            (0, 0, Mode::Normal, 100_000),
            (1, 0, Mode::Normal, 100_000),
            (0, 1, Mode::Full, 100_000),
            (0, 60, Mode::Full, 100_000),
            (1, 2, Mode::Normal, 100_000),
            (2, 3, Mode::Partial, 0),
            (3, 3, Mode::Normal, 100_000),
            (9, 11, Mode::Partial, 0),
            (22, 28, Mode::Partial, 0),
            (22, 29, Mode::Partial, 10_000),
            (46, 55, Mode::Normal, 100_000),
            (45, 55, Mode::Partial, 10_000),
        ] {
            let counts = ReadyCounts { ready, not_ready };
            assert_eq!(counts.mode(&options), mode, "{counts:?}");
            assert_eq!(counts.rate(mode, &options), rate, "{counts:?}");
        }
    }

    #[test]
    fn nodes_are_taken_at_the_rate_of_their_zone() {
        let options = Options::default();
        let mut zone = Zone::new(&options);
        for node in ["a", "b", "c"] {
            zone.add(&node.into());
        }
        zone.add(&"a".into());
        assert_eq!(zone.take(0).as_deref(), Some("a"));
        assert_eq!(zone.take(10 * SECOND_NS - 1), None);
        assert_eq!(zone.next_ns(), Some(10 * SECOND_NS));
        assert_eq!(zone.take(10 * SECOND_NS).as_deref(), Some("b"));
        zone.put_back("b".into());
        zone.add(&"a".into());
        assert_eq!(
            zone.take(20 * SECOND_NS).as_deref(),
            Some("b"),
            "the node is retried"
        );
        zone.remove("c");
        assert_eq!(zone.next_ns(), None);
        zone.add(&"a".into());
        assert_eq!(zone.next_ns(), None, "the node has had its turn");
        zone.remove("a");
        zone.add(&"a".into());
        assert_eq!(zone.take(30 * SECOND_NS).as_deref(), Some("a"));
        zone.put_back("b".into());
        zone.remove("b");
        zone.put_back("b".into());
        assert_eq!(zone.next_ns(), None, "the node is forgotten");
    }

    #[test]
    fn a_new_rate_keeps_whether_a_token_was_left() {
        let mut limiter = Limiter::new(100_000);
        limiter.swap(10_000, 0);
        assert!(limiter.try_accept(0), "the old limiter had a token");
        limiter.swap(1_000_000, SECOND_NS);
        assert!(
            !limiter.try_accept(SECOND_NS),
            "the old limiter had no token"
        );
        assert!(limiter.try_accept(2 * SECOND_NS));
        limiter.swap(0, 9 * SECOND_NS);
        assert!(!limiter.try_accept(i64::MAX));
    }

    #[test]
    fn the_modes_of_zones_follow_their_nodes() {
        let options = Options::default();
        let mut zones: BTreeMap<ZoneName, Zone> = BTreeMap::new();
        // Numbers of ready and not ready nodes of two zones, and the results.
        for (first, second, change, rates) in [
            ((3, 0), (3, 0), Change::Nothing, [100_000, 100_000]),
            ((0, 3), (3, 0), Change::Nothing, [100_000, 100_000]),
            ((0, 3), (1, 3), Change::Nothing, [100_000, 0]),
            ((0, 3), (0, 4), Change::AllDown, [0, 0]),
            ((0, 3), (0, 4), Change::Nothing, [0, 0]),
            ((1, 2), (0, 4), Change::Over, [100_000, 100_000]),
            ((2, 1), (1, 3), Change::Nothing, [100_000, 0]),
            ((2, 1), (2, 2), Change::Nothing, [100_000, 100_000]),
        ] {
            let counts = [("a", first), ("b", second)].map(|(zone, (ready, not_ready))| {
                zones
                    .entry(name(zone))
                    .or_insert_with(|| Zone::new(&options));
                (name(zone), ReadyCounts { ready, not_ready })
            });
            let found = judge(&mut zones, &BTreeMap::from(counts), &options, 0);
            assert_eq!(found, change, "{first:?} {second:?}");
            let found: Vec<i64> = zones.values().map(|zone| zone.limiter.rate).collect();
            assert_eq!(found, rates, "{first:?} {second:?}");
        }
        let only = BTreeMap::from([(name("b"), ReadyCounts::default())]);
        assert_eq!(judge(&mut zones, &only, &options, 0), Change::Nothing);
        assert_eq!(zones.len(), 1, "a zone without nodes is forgotten");
    }
}
