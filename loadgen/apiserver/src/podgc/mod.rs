//! Pod garbage collection: deletes pods that nobody else will. These are ended pods beyond a
//! threshold, pods of nodes that no longer exist or are out of service, and pods whose deletion
//! began before they were bound.
//!
//! A [`Round`] says what is to be done; [`PodCollector`] carries it out.

mod decide;

use std::collections::BTreeMap;

use podstorm_objects::{ApiError, Kind, Node, Now, Pod, Str};

use crate::{Cluster, DeleteOptions, Patch};

pub use decide::{Removal, RemovalReason, Round};

/// From one round to the next, ns.
pub const ROUND_EVERY_NS: i64 = 20_000_000_000;

/// From a node's name first missing to the read that decides, ns.
const QUARANTINE_NS: i64 = 40_000_000_000;

/// The pod garbage collector of a cluster.
#[derive(Debug)]
pub struct PodCollector {
    threshold: i64,
    /// When the quarantine of a missing node ends, on the monotonic clock.
    quarantine: BTreeMap<Str, i64>,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundCounts {
    /// Pods that were deleted.
    pub deleted: u64,
    /// Pods that were not, because a request failed.
    pub failed: u64,
}

impl PodCollector {
    /// A collector that deletes ended pods beyond this number, the option
    /// `--terminated-pod-gc-threshold` of upstream; none when it is not positive.
    pub fn new(threshold: i64) -> PodCollector {
        PodCollector {
            threshold,
            quarantine: BTreeMap::new(),
        }
    }

    /// One round, due every [`ROUND_EVERY_NS`]. O(pods + nodes).
    pub fn round(&mut self, cluster: &Cluster, now: Now) -> RoundCounts {
        let (nodes, _) = cluster.list::<Node>(None);
        let mut round = Round::new(self.threshold, &nodes);
        cluster.for_each::<Pod>(|pod| round.note(pod));
        let over = self.take_over(now);
        let until = now.mono_ns.saturating_add(QUARANTINE_NS);
        for name in round.missing_nodes() {
            self.quarantine.entry(name.clone()).or_insert(until);
        }
        let is_gone = |name: &Str| {
            let read = || cluster.get::<Node>("", name);
            round.is_missing(name) && read().is_err_and(|error| error.is_not_found())
        };
        let gone: Vec<Str> = over.into_iter().filter(is_gone).collect();
        let mut counts = RoundCounts::default();
        for removal in round.removals(&gone) {
            // The next round tries again.
            match remove(cluster, &removal, now) {
                Ok(()) => counts.deleted += 1,
                Err(_) => counts.failed += 1,
            }
        }
        counts
    }

    /// The nodes whose quarantine is over, which ends with this.
    fn take_over(&mut self, now: Now) -> Vec<Str> {
        let is_over = |due_ns: i64| due_ns <= now.mono_ns;
        let mut over = Vec::new();
        self.quarantine.retain(|name, due_ns| {
            if is_over(*due_ns) {
                over.push(name.clone());
            }
            !is_over(*due_ns)
        });
        over
    }
}

fn remove(cluster: &Cluster, removal: &Removal, now: Now) -> Result<(), ApiError> {
    let (api, metadata) = (cluster.api(Kind::POD), &removal.pod.metadata);
    let (namespace, name) = (&*metadata.namespace, metadata.name.as_str());
    if let Some(patch) = removal.status_patch(now.wall()) {
        api.patch_status(namespace, name, &Patch::Strategic(patch), now)?;
    }
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    api.delete(namespace, name, &options, now).map(drop)
}

#[cfg(test)]
mod tests;
