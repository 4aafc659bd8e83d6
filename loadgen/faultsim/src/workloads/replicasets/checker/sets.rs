//! What the checker keeps of a ReplicaSet or a ReplicationController: what was wanted when, and what came and went.

use std::collections::BTreeSet;

use podstorm_objects::{Kind, Labels, ReplicaSet, Str};
use podstorm_sim::engine::observer::SyncId;

/// A ReplicaSet or a ReplicationController, by UID.
#[derive(Debug)]
pub(super) struct SetState {
    pub(super) kind: Kind,
    pub(super) namespace: Str,
    pub(super) name: String,
    pub(super) labels: Labels,
    /// Versions at which the number of replicas was set, with that number.
    pub(super) demands: Vec<(u64, i32)>,
    /// Pods that are active, its own and selected, on the server.
    pub(super) active: i64,
    pub(super) gone: bool,
    /// Creates beyond the demand that the disturbances so far explain.
    pub(super) allowed: i64,
    /// Pods that controllers have created beyond the demand.
    pub(super) excess: i64,
    /// Deletes below the demand that the disturbances so far explain.
    pub(super) allowed_deletes: i64,
    /// Versions at which an active pod was lost, and the sync that did it, if one did.
    pub(super) losses: Vec<(u64, Option<SyncId>)>,
    /// Versions at which an active pod came that no controller made, and the sync that adopted it, if one did.
    pub(super) gains: Vec<(u64, Option<SyncId>)>,
    /// Names of its active pods that were adopted.
    pub(super) adopted: BTreeSet<String>,
}

impl SetState {
    /// One that was seen for the first time.
    pub(super) fn of(set: &ReplicaSet, kind: Kind) -> SetState {
        let selector = set.spec.selector.as_ref();
        SetState {
            kind,
            namespace: set.metadata.namespace.clone(),
            name: set.metadata.name.to_string(),
            labels: selector
                .map(|selector| selector.match_labels.clone())
                .unwrap_or_default(),
            demands: Vec::new(),
            active: 0,
            gone: false,
            allowed: 0,
            excess: 0,
            allowed_deletes: 0,
            losses: Vec::new(),
            gains: Vec::new(),
            adopted: BTreeSet::new(),
        }
    }

    /// The demands that a controller may act on which has seen the object as of `version`.
    fn demands_since(&self, version: u64) -> impl Iterator<Item = i64> {
        let first = self
            .demands
            .iter()
            .rposition(|(at, _)| *at <= version)
            .unwrap_or(0);
        self.demands[first..]
            .iter()
            .map(|(_, demand)| i64::from(*demand))
    }

    pub(super) fn most_since(&self, version: u64) -> i64 {
        self.demands_since(version).max().unwrap_or(0)
    }

    pub(super) fn least_since(&self, version: u64) -> i64 {
        self.demands_since(version).min().unwrap_or(0)
    }

    pub(super) fn demand(&self) -> i64 {
        self.demands
            .last()
            .map_or(0, |(_, demand)| i64::from(*demand))
    }

    /// Pods that came since that version and were made by no controller.
    pub(super) fn gained_since(&self, version: u64) -> i64 {
        let later = self.gains.iter().rev().take_while(|(at, _)| *at > version);
        later.count() as i64
    }

    /// Pods that other controllers have adopted since that version.
    pub(super) fn adopted_beside(&self, version: u64, incarnation: u32) -> i64 {
        let later = self.gains.iter().rev().take_while(|(at, _)| *at > version);
        let beside = |who: &SyncId| who.incarnation != incarnation;
        later
            .filter(|(_, who)| who.as_ref().is_some_and(beside))
            .count() as i64
    }

    /// Pods lost since that version by others than that sync.
    pub(super) fn lost_since(&self, version: u64, sync: SyncId) -> i64 {
        let later = self.losses.iter().rev().take_while(|(at, _)| *at > version);
        later.filter(|(_, who)| *who != Some(sync)).count() as i64
    }
}
