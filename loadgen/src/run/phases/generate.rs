//! Steps that make a cluster: namespaces, nodes and ReplicaSets, what files brought, pods and statuses
//! that were there before the controller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm::replicaset::TERMINATING_REPLICAS;
use podstorm_apiserver::ClusterResource;
use podstorm_objects::{Now, ReplicaSet, ReplicaSetStatus, ReplicationController, Str};

use super::driver::Driver;
use super::tasks::{Action, WRITES_PER_RUN};
use crate::scenario::{CreateDeployments, CreateReplicaSets};

impl Driver {
    pub(super) fn create_namespace(&mut self, number: u64, now: Now) -> Action {
        let created = self.cluster.create(self.objects.namespace(number), now);
        self.note("creating a namespace", created);
        Action::Wrote
    }

    pub(super) fn create_node(&mut self, number: u64, now: Now) -> Action {
        let created = self.cluster.create(self.objects.node(number), now);
        if let Some(node) = self.note("creating a node", created) {
            self.nodes.push(node.metadata.name.as_str().into());
        }
        Action::Wrote
    }

    pub(super) fn load_input(&mut self, now: Now) -> Action {
        let number = self.at.cursor;
        let scenario = &self.settings.scenario;
        if !scenario.generates_cluster()
            && !scenario.creates_nodes()
            && !self.loader.has_nodes
            && number < self.settings.size.nodes
        {
            self.at.cursor += 1;
            return self.create_node(number, now);
        }
        self.at.loads = self.shares.is_some();
        if self.loader.step(&self.cluster, &mut self.tracker, now) {
            return Action::Wrote;
        }
        // What was written last is heard in the next run.
        if self.at.loads && !(self.at.all_written && self.has_heard_all()) {
            self.at.all_written = true;
            return Action::Wait(now.mono_ns);
        }
        self.nodes.append(&mut self.loader.nodes);
        for (at, replicas) in std::mem::take(&mut self.loader.owners) {
            self.generated.push(at);
            self.revisions.push(0);
            if let Some(shares) = &mut self.shares {
                shares.push(replicas);
            }
        }
        if self.at.loads && !self.settings.scenario.starts_controllers() {
            self.start_controllers(now);
        }
        if self.at.loads {
            // What files held was there before.
            self.note_beginning(now);
        }
        Action::Done
    }

    pub(super) fn create_replica_set(
        &mut self,
        number: u64,
        count: u64,
        create: &CreateReplicaSets,
        now: Now,
    ) -> Action {
        if create.under_deployments && self.settings.deployments {
            let CreateReplicaSets {
                replicas, of, load, ..
            } = *create;
            let create = CreateDeployments { replicas, of, load };
            return self.create_deployment(number, count, &create, now);
        }
        let replicas = self.amount(create.replicas, (number, count));
        let deployment = create.under_deployments;
        let object = self.objects.replica_set(number, replicas, 0, deployment);
        let created = self.cluster.create(object, now);
        if let Some(created) = self.note("creating a ReplicaSet", created) {
            let at = self.tracker.asked(&created.metadata, replicas, now);
            self.generated.push(at);
            self.revisions.push(0);
        }
        Action::Wrote
    }

    /// How many pods ReplicaSet `number` has at 100 %.
    pub(super) fn share(&self, number: u64) -> i32 {
        match &self.shares {
            Some(shares) => shares.get(number as usize).copied().unwrap_or(0),
            None => self.objects.share(number),
        }
    }

    /// Namespaces of the scenario's ReplicaSets in their order, and the pods each has at 100 %.
    pub(super) fn pods_by_namespace(&self) -> Vec<(Str, u64)> {
        let mut pods: Vec<(Str, u64)> = Vec::new();
        let mut places: HashMap<Str, usize, RandomState> = HashMap::with_hasher(FIXED_STATE);
        let owners = self
            .generated
            .iter()
            .map(|at| &self.tracker.owners[*at].namespace);
        // Where Deployments were generated, nothing else was.
        let generated = self
            .deployments
            .generated
            .then(|| self.deployments.namespaces());
        let all = owners.chain(generated.into_iter().flatten());
        for (number, namespace) in all.enumerate() {
            let namespace = namespace.clone();
            let place = *places.entry(namespace).or_insert_with_key(|namespace| {
                pods.push((namespace.clone(), 0));
                pods.len() - 1
            });
            pods[place].1 += u64::try_from(self.share(number as u64)).unwrap_or(0);
        }
        pods
    }

    /// One of the pods that exist before their ReplicaSets, or their controller, do.
    pub(super) fn create_pods(&mut self, owned: bool, now: Now) -> Action {
        let number = self.at.cursor;
        if number >= self.settings.size.replicasets {
            return Action::Done;
        }
        let share = self.objects.share(number);
        if self.at.inner >= share {
            self.at.inner = 0;
            self.at.cursor += 1;
            return Action::Skipped;
        }
        let namespace = self.objects.namespace_of(number).clone();
        let owner = owned
            .then(|| {
                self.generated
                    .get(number as usize)
                    .map(|&at| &self.tracker.owners[at])
            })
            .flatten()
            .map(|owner| {
                self.cluster
                    .get::<ReplicaSet>(&owner.namespace, &owner.name)
            });
        let owner = owner.and_then(Result::ok);
        // One body for all pods of a ReplicaSet, as its controller would send them.
        let body = Arc::new(self.objects.pod(number, owner.as_deref()));
        for _ in 0..WRITES_PER_RUN {
            if self.at.inner >= share {
                break;
            }
            self.at.inner += 1;
            let created = self.cluster.create_pod(&namespace, &body, None, now);
            self.note("creating a pod", created);
        }
        Action::Wrote
    }

    /// The status that a controller leaves behind when all is well.
    pub(super) fn write_status(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        if self.tracker.owners[at].is_rc {
            self.write_status_of(at, now, |rc: &mut ReplicationController| {
                rc.status = status_of(rc.replicas.unwrap_or(1), rc.metadata.generation);
            });
            return Action::Wrote;
        }
        let gates = &self.settings.controller.feature_gates;
        let terminating = TERMINATING_REPLICAS.is_on(gates).then_some(0);
        self.write_status_of(at, now, |set: &mut ReplicaSet| {
            set.status = ReplicaSetStatus {
                terminating_replicas: terminating,
                ..status_of(set.replicas(), set.metadata.generation)
            };
        });
        Action::Wrote
    }

    fn write_status_of<R: ClusterResource>(
        &mut self,
        at: usize,
        now: Now,
        set: impl FnOnce(&mut R),
    ) {
        let owner = &self.tracker.owners[at];
        let found = self.cluster.get::<R>(&owner.namespace, &owner.name);
        if let Some(found) = self.note(&format!("reading a {}", R::KIND.name()), found) {
            let mut written = R::clone(&found);
            set(&mut written);
            let outcome = self.cluster.update_status(written, now);
            self.note("writing a status", outcome);
        }
    }

    pub(super) fn start_controllers(&mut self, now: Now) -> Action {
        self.tracker.controller_starts(now);
        if self.shares.is_some() {
            self.tracker.begin(now);
        }
        // Release: a thread that sees the flag sees everything written before.
        self.controllers.started.store(true, Ordering::Release);
        self.controllers.wake.iter().for_each(|wake| wake());
        Action::Done
    }
}

/// The status of a owner whose pods are all there and available.
fn status_of(replicas: i32, generation: i64) -> ReplicaSetStatus {
    ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        observed_generation: generation,
        ..ReplicaSetStatus::default()
    }
}
