//! Steps with disturbances: the controllers' watches stall or lose events, answers get lost, nodes
//! stop, are deleted or reject pods, and quotas and deleted namespaces refuse pods.

use std::sync::Arc;

use podstorm_apiserver::{DeleteOptions, Patch, Propagation};
use podstorm_objects::{Kind, Namespace, Node, Now, Str};
use podstorm_sim::faults::{
    ApiFault, Armed, Call, Connection, Effect, FaultClass, StreamEnd, StreamKind,
};
use podstorm_sim::nodes::NodeControl;
use serde_json::json;

use super::driver::Driver;
use super::tasks::Action;
use crate::scenario::{LoseAnswers, SomeNodes, Stream, Which};
use crate::values::Percent;
use crate::workloads::objects::members;

/// The time without a new pod after which a phase counts as quiet, ns.
const QUIET_NS: i64 = 30_000_000_000;

/// The label whose value is a node's zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Time between two checks for new pods, ns.
const LOOK_NS: i64 = 1_000_000_000;

impl Driver {
    fn connection(&self) -> Arc<Connection> {
        let connection = self.controllers.connection.as_ref();
        Arc::clone(connection.expect("a disturbed scenario has a connection"))
    }

    fn node_control(&self) -> Arc<NodeControl> {
        let nodes = self.controllers.nodes.as_ref();
        Arc::clone(nodes.expect("a scenario with node faults controls its nodes"))
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
            .drop_events(StreamKind::from_kind(Kind::POD), events);
        Action::Done
    }

    /// Arms the loss of answers: the server executes the first create of a sync, but its client
    /// gets no answer.
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

    pub(super) fn stop_nodes(&mut self, some: SomeNodes) -> Action {
        for node in self.some_nodes(some) {
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

    /// Returns the next name for a step, or `None` after the last one. `all` returns the names when
    /// the step begins, the first one last.
    fn next_name(&mut self, all: impl FnOnce(&Driver) -> Vec<Str>) -> Option<Str> {
        let names = self.at.names.take().unwrap_or_else(|| all(self));
        self.at.names = (!names.is_empty()).then_some(names);
        self.at.names.as_mut()?.pop()
    }

    /// Deletes nodes one by one, beginning with the last, so that another step can let the first
    /// ones fail.
    pub(super) fn delete_nodes(&mut self, some: SomeNodes, now: Now) -> Action {
        let node = self.next_name(|driver| {
            let mut all = driver.nodes_of(some.zone);
            all.split_off(all.len() - some.nodes.resolve(all.len() as u64) as usize)
        });
        let Some(node) = node else {
            return Action::Done;
        };
        self.nodes.retain(|name| *name != node);
        // A deleted machine no longer responds.
        self.node_control().lose(&node);
        let options = DeleteOptions::default();
        let deleted = self.cluster.delete::<Node>("", &node, &options, now);
        self.note("deleting", Kind::NODE, deleted);
        Action::Wrote
    }

    pub(super) fn reject_pods(&mut self, some: SomeNodes) -> Action {
        for node in self.some_nodes(some) {
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

    /// Returns the first nodes, of all or of one zone, as selected by `some`.
    pub(super) fn some_nodes(&self, some: SomeNodes) -> Vec<Str> {
        let mut nodes = self.nodes_of(some.zone);
        nodes.truncate(some.nodes.resolve(nodes.len() as u64) as usize);
        nodes
    }

    /// Returns the nodes of a zone; all nodes without a zone.
    fn nodes_of(&self, zone: Option<u64>) -> Vec<Str> {
        let Some(zone) = zone else {
            return self.nodes.clone();
        };
        let zone = format!("zone-{zone}");
        let is_in_zone = |name: &&Str| {
            let node = self.cluster.get::<Node>("", name);
            node.is_ok_and(|node| {
                let label = node.metadata.labels.get(ZONE_LABEL);
                label.is_some_and(|label| **label == *zone)
            })
        };
        self.nodes.iter().filter(is_in_zone).cloned().collect()
    }

    /// Limits the pods of each namespace to a share of its pods at 100 %, or removes these limits.
    pub(super) fn set_pod_quota(&mut self, share: Option<Percent>, now: Now) -> Action {
        for (namespace, pods) in self.pods_by_namespace() {
            let found = self.cluster.get::<Namespace>("", &namespace);
            if !found.is_ok_and(|found| !found.terminating) {
                // The namespace is missing or terminating, and accepts no new objects.
                continue;
            }
            let limit = share.map(|share| share.share(pods));
            let set = self.cluster.set_pod_quota(&namespace, limit, now);
            self.note("setting the pod quota of", Kind::NAMESPACE, set);
        }
        Action::Done
    }

    /// Deletes the first namespaces, one per call.
    pub(super) fn delete_namespaces(&mut self, which: Which, now: Now) -> Action {
        let name = self.next_name(|driver| {
            let mut all = driver.pods_by_namespace();
            all.truncate(which.resolve(all.len() as u64) as usize);
            all.into_iter().map(|(name, _)| name).rev().collect()
        });
        let Some(name) = name else {
            return Action::Done;
        };
        let options = DeleteOptions::default();
        let deleted = self.cluster.delete::<Namespace>("", &name, &options, now);
        self.note("deleting", Kind::NAMESPACE, deleted);
        Action::Wrote
    }

    /// Deletes a workload and recreates it under the same name, before its pods are removed.
    pub(super) fn recreate(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        if let Some(at) = self.replace(at, now) {
            self.generated[number as usize] = at;
        }
        Action::Wrote
    }

    /// Deletes an owner and creates another one in its place. Returns the number of the new one;
    /// `None` if a request failed.
    fn replace(&mut self, at: usize, now: Now) -> Option<usize> {
        let owner = &self.tracker.owners[at];
        let (workload, pods, replicas) = (owner.workload, owner.pods(), owner.desired);
        let (namespace, name) = (owner.namespace.clone(), owner.name.clone());
        let kind = workload.kind();
        let found = self.cluster.api(kind).get(&namespace, &name);
        let found = self.note("reading", kind, found)?;
        // Set the propagation explicitly, like kubectl: the default of some kinds orphans the pods.
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let api = self.cluster.api(kind);
        let deleted = api.delete(&namespace, &name, &options, now);
        self.note("deleting", kind, deleted);
        let created = self.cluster.api(kind).create(pods.recreated(&*found)?, now);
        let created = self.note("recreating", kind, created)?;
        Some(
            self.tracker
                .asked(workload, created.metadata(), replicas, now),
        )
    }

    /// Causes an event of a workload that requires no action from its controller.
    pub(super) fn touch(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        let owner = &self.tracker.owners[at];
        let kind = owner.workload.kind();
        let touched = json!({"podstorm.example/touched": now.mono_ns.to_string()});
        let patch = Patch::Merge(members(json!({"metadata": {"annotations": touched}})));
        let api = self.cluster.api(kind);
        let patched = api.patch(&owner.namespace, &owner.name, &patch, now);
        self.note("touching", kind, patched);
        Action::Wrote
    }

    /// Returns when to check again whether pods are still being created; `None` if none was created
    /// for [`QUIET_NS`].
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
