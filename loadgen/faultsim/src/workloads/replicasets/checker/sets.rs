//! The checker's state of a ReplicaSet or ReplicationController: the demand over time, and the pods
//! gained and lost.

use std::collections::BTreeSet;

use podstorm_objects::{Kind, Labels, ReplicaSet, Str};
use podstorm_sim::engine::observer::SyncId;

/// The state of one ReplicaSet or ReplicationController, which its UID identifies.
#[derive(Debug)]
pub(super) struct SetState {
    pub(super) kind: Kind,
    pub(super) namespace: Str,
    pub(super) name: String,
    pub(super) labels: Labels,
    /// The demand over time: the server's version at each change of the number of replicas, and the
    /// new number.
    pub(super) demands: Vec<(u64, i32)>,
    /// The number of active, owned and selected pods on the server.
    pub(super) active: i64,
    pub(super) gone: bool,
    /// The number of creates beyond the demand that the faults so far explain.
    pub(super) allowed: i64,
    /// The number of pods that controllers have created beyond the demand.
    pub(super) excess: i64,
    /// The number of deletes below the demand that the faults so far explain.
    pub(super) allowed_deletes: i64,
    /// The versions at which an active pod was lost, and the sync that caused it, if any.
    pub(super) losses: Vec<(u64, Option<SyncId>)>,
    /// The versions at which an active pod appeared that no controller created, and the sync that
    /// adopted it, if any.
    pub(super) gains: Vec<(u64, Option<SyncId>)>,
    /// The names of the active pods that the object has adopted.
    pub(super) adopted: BTreeSet<String>,
}

impl SetState {
    /// Returns the state of an object that is seen for the first time.
    pub(super) fn from_set(set: &ReplicaSet, kind: Kind) -> SetState {
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

    /// Returns the demands on which a controller may act that has seen the object at `version`: the
    /// demand at that version and all later ones.
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

    /// Returns the number of active pods that have appeared since this version and that no
    /// controller created.
    pub(super) fn gained_since(&self, version: u64) -> i64 {
        let later = self.gains.iter().rev().take_while(|(at, _)| *at > version);
        later.count() as i64
    }

    /// Returns the number of pods that controllers of other managers have adopted since this
    /// version.
    pub(super) fn adopted_beside(&self, version: u64, incarnation: u32) -> i64 {
        let later = self.gains.iter().rev().take_while(|(at, _)| *at > version);
        let beside = |who: &SyncId| who.incarnation != incarnation;
        later
            .filter(|(_, who)| who.as_ref().is_some_and(beside))
            .count() as i64
    }

    /// Returns the number of active pods that were lost since this version, except those that this
    /// sync removed.
    pub(super) fn lost_since(&self, version: u64, sync: SyncId) -> i64 {
        let later = self.losses.iter().rev().take_while(|(at, _)| *at > version);
        later.filter(|(_, who)| *who != Some(sync)).count() as i64
    }
}
