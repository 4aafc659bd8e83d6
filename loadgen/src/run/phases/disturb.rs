//! Steps in which something goes wrong: the controller's watches stall or lose events, answers are
//! lost, nodes fall silent, go away or reject pods, quotas and deleted namespaces refuse them.

use std::sync::Arc;

use podstorm_apiserver::{ClusterResource, DeleteOptions, Patch, Propagation};
use podstorm_objects::{
    Kind, Namespace, Node, Now, ObjectMeta, ReplicaSet, ReplicaSetStatus, ReplicationController,
};
use podstorm_sim::faults::{
    ApiFault, Armed, Call, Connection, Effect, FaultClass, StreamEnd, StreamKind,
};
use podstorm_sim::nodes::NodeControl;
use serde_json::json;

use super::driver::Driver;
use super::objects::{anew, members};
use super::tasks::Action;
use crate::scenario::{LoseAnswers, Percent, Stream, Which};

/// No pod may be created for so long before a phase counts as quiet, ns.
const QUIET_NS: i64 = 30_000_000_000;

/// How often that is looked at, ns.
const LOOK_NS: i64 = 1_000_000_000;

impl Stream {
    fn kinds(self) -> Vec<StreamKind> {
        match self {
            Stream::Pods => vec![StreamKind::of(Kind::POD)],
            Stream::ReplicaSets => vec![StreamKind::of(Kind::REPLICA_SET)],
            Stream::All => StreamKind::all(),
        }
    }
}

impl Driver {
    fn connection(&self) -> Arc<Connection> {
        let connection = self.controllers.connection.as_ref();
        Arc::clone(connection.expect("a disturbed scenario has a connection"))
    }

    fn node_control(&self) -> Arc<NodeControl> {
        let nodes = self.controllers.nodes.as_ref();
        Arc::clone(nodes.expect("a scenario with node faults has a hold on its nodes"))
    }

    fn wake_informers(&self) {
        self.controllers.wake.iter().for_each(|wake| wake());
    }

    pub(super) fn stall_watch(&self, stream: Stream) -> Action {
        for kind in stream.kinds() {
            self.connection().hold(kind, i64::MAX);
        }
        Action::Done
    }

    pub(super) fn release_watch(&self, stream: Stream) -> Action {
        for kind in stream.kinds() {
            self.connection().hold(kind, i64::MIN);
        }
        self.wake_informers();
        Action::Done
    }

    pub(super) fn relist_watch(&self, stream: Stream) -> Action {
        for kind in stream.kinds() {
            self.connection().end(kind, StreamEnd::ClosedAndExpired);
        }
        self.wake_informers();
        Action::Done
    }

    pub(super) fn lose_pod_events(&self, events: u64) -> Action {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.connection()
            .drop_events(StreamKind::of(Kind::POD), events);
        Action::Done
    }

    /// The first create of a sync is carried out, and its client hears nothing of it.
    pub(super) fn lose_answers(&self, lose: LoseAnswers) -> Action {
        let times = lose
            .times
            .map_or(self.generated.len() as u64, |size| size.0);
        self.connection().network().arm(Armed {
            class: FaultClass::AmbiguousWrite,
            batch: Some(0),
            index: Some(0),
            ..Armed::new(
                &[Call::CreatePod],
                Effect::LoseAnswer(ApiFault::Timeout),
                u32::try_from(times).unwrap_or(u32::MAX),
            )
        });
        Action::Done
    }

    pub(super) fn stop_nodes(&mut self, nodes: Which) -> Action {
        for node in self.first_nodes(nodes) {
            self.node_control().lose(&node);
            self.silent.push(node);
        }
        Action::Done
    }

    pub(super) fn restore_nodes(&mut self) -> Action {
        for node in std::mem::take(&mut self.silent) {
            self.node_control().restore(&node);
        }
        Action::Done
    }

    /// Deletes nodes one after the other: the last ones, so that others can fail besides.
    pub(super) fn delete_nodes(&mut self, nodes: Which, now: Now) -> Action {
        let count = *self
            .at
            .count
            .get_or_insert(nodes.of(self.nodes.len() as u64));
        if self.at.cursor >= count {
            return Action::Done;
        }
        self.at.cursor += 1;
        let Some(node) = self.nodes.pop() else {
            return Action::Done;
        };
        // A machine that is gone no longer answers.
        self.node_control().lose(&node);
        let options = DeleteOptions::default();
        let deleted = self.cluster.delete::<Node>("", &node, &options, now);
        self.note("deleting a node", deleted);
        Action::Wrote
    }

    pub(super) fn reject_pods(&mut self, nodes: Which) -> Action {
        for node in self.first_nodes(nodes) {
            self.node_control().set_rejecting(&node, true);
            self.rejecting.push(node);
        }
        Action::Done
    }

    pub(super) fn accept_pods(&mut self) -> Action {
        for node in std::mem::take(&mut self.rejecting) {
            self.node_control().set_rejecting(&node, false);
        }
        Action::Done
    }

    fn first_nodes(&self, nodes: Which) -> Vec<podstorm_objects::Str> {
        let count = nodes.of(self.nodes.len() as u64) as usize;
        self.nodes[..count].to_vec()
    }

    /// Limits the pods of each namespace to so much of its share, or lifts the limits.
    pub(super) fn set_pod_quota(&mut self, share: Option<Percent>, now: Now) -> Action {
        for (namespace, pods) in self.pods_by_namespace() {
            let found = self.cluster.get::<Namespace>("", &namespace);
            if !found.is_ok_and(|found| !found.terminating) {
                // It takes nothing new.
                continue;
            }
            let limit = share.map(|share| share.of(pods));
            let set = self.cluster.set_pod_quota(&namespace, limit, now);
            self.note("setting a quota", set);
        }
        Action::Done
    }

    /// Deletes the first namespaces, one after the other.
    pub(super) fn delete_namespaces(&mut self, which: Which, now: Now) -> Action {
        let names = match self.at.names.take() {
            Some(names) => names,
            None => {
                let mut all = self.pods_by_namespace();
                all.truncate(which.of(all.len() as u64) as usize);
                all.into_iter().map(|(name, _)| name).rev().collect()
            }
        };
        let names = self.at.names.insert(names);
        let Some(name) = names.pop() else {
            self.at.names = None;
            return Action::Done;
        };
        let options = DeleteOptions::default();
        let deleted = self.cluster.delete::<Namespace>("", &name, &options, now);
        self.note("deleting a namespace", deleted);
        Action::Wrote
    }

    /// Deletes a ReplicaSet or ReplicationController, and creates it again under its name before its
    /// pods are gone.
    pub(super) fn recreate(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        let owner = &self.tracker.owners[at];
        let (is_rc, replicas) = (owner.is_rc, owner.desired);
        let created = if is_rc {
            let fresh = |old: &ReplicationController| ReplicationController {
                metadata: anew(&old.metadata),
                status: ReplicaSetStatus::default(),
                ..old.clone()
            };
            self.replace(at, fresh, now)
        } else {
            let fresh = |old: &ReplicaSet| ReplicaSet {
                metadata: anew(&old.metadata),
                spec: old.spec.clone(),
                ..ReplicaSet::default()
            };
            self.replace(at, fresh, now)
        };
        if let Some(created) = created {
            let at = self.tracker.asked(&created, replicas, now);
            self.tracker.owners[at].is_rc = is_rc;
            self.generated[number as usize] = at;
        }
        Action::Wrote
    }

    /// Deletes a owner and creates another in its place; the metadata of that one.
    fn replace<R: ClusterResource>(
        &mut self,
        at: usize,
        fresh: impl FnOnce(&R) -> R,
        now: Now,
    ) -> Option<ObjectMeta> {
        let owner = &self.tracker.owners[at];
        let (namespace, name) = (owner.namespace.clone(), owner.name.clone());
        let kind = R::KIND.name();
        let found = self.cluster.get::<R>(&namespace, &name);
        let found = self.note(&format!("reading a {kind}"), found)?;
        // Said, as kubectl does: by default a ReplicationController leaves its pods behind.
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let deleted = self.cluster.delete::<R>(&namespace, &name, &options, now);
        self.note(&format!("deleting a {kind}"), deleted);
        let created = self.cluster.create(fresh(&found), now);
        let created = self.note(&format!("creating a {kind} again"), created)?;
        Some(created.metadata().clone())
    }

    /// An event of a ReplicaSet that says nothing.
    pub(super) fn touch(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        let owner = &self.tracker.owners[at];
        let kind = match owner.is_rc {
            true => Kind::REPLICATION_CONTROLLER,
            false => Kind::REPLICA_SET,
        };
        let touched = json!({"podstorm.example/touched": now.mono_ns.to_string()});
        let patch = Patch::Merge(members(json!({"metadata": {"annotations": touched}})));
        let api = self.cluster.api(kind);
        let patched = api.patch(&owner.namespace, &owner.name, &patch, now);
        self.note("touching a ReplicaSet", patched);
        Action::Wrote
    }

    /// When to look again whether pods are still being created; nothing when none was for long
    /// enough.
    pub(super) fn quiet_from(&mut self, now: Now) -> Option<i64> {
        let created = self.cluster.write_counts().pods.created;
        match self.at.last_create {
            Some((before, at_ns)) if before == created => {
                (now.mono_ns - at_ns < QUIET_NS).then(|| now.mono_ns + LOOK_NS)
            }
            _ => {
                self.at.last_create = Some((created, now.mono_ns));
                Some(now.mono_ns + LOOK_NS)
            }
        }
    }
}
