//! Steps that build a cluster: namespaces, nodes and workloads; the objects of files; and pods and
//! statuses that exist before the controllers start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Kind, Now, Str};

use super::driver::Driver;
use super::tasks::{Action, WRITES_PER_RUN};
use crate::scenario::Create;
use crate::workloads::{self, Part};

impl Driver {
    pub(super) fn create_namespace(&mut self, number: u64, now: Now) -> Action {
        let created = self.cluster.create(self.objects.namespace(number), now);
        self.note("creating", Kind::NAMESPACE, created);
        Action::Wrote
    }

    pub(super) fn create_node(&mut self, number: u64, now: Now) -> Action {
        let created = self.cluster.create(self.objects.node(number), now);
        if let Some(node) = self.note("creating", Kind::NODE, created) {
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
        // The last writes are observed only in the next run.
        if self.at.loads && !(self.at.all_written && self.watches_drained()) {
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
            // The objects of files count as existing before the phase.
            self.note_beginning(now);
        }
        Action::Done
    }

    /// Creates workload `number` with this many pods. If the workload is part of another one and
    /// the run has that kind, creates an object of that kind instead.
    pub(super) fn create(
        &mut self,
        number: u64,
        replicas: i32,
        kind: Kind,
        create: &Create,
        now: Now,
    ) -> Action {
        let maker = create.as_parts.then(|| workloads::maker_of(kind)).flatten();
        let maker = maker.filter(|maker| self.settings.creates(*maker));
        let Some(workload) = maker.or_else(|| workloads::for_kind(kind)) else {
            return Action::Skipped;
        };
        let part = Part {
            number,
            replicas,
            revision: 0,
            is_owned: maker.is_none() && create.as_parts,
        };
        let Some(object) = workload.make(part, &self.objects) else {
            return Action::Skipped;
        };
        let created = self.cluster.api(workload.kind()).create(object, now);
        let created = self.note("creating", workload.kind(), created);
        let meta = created.as_ref().map(|created| created.metadata());
        if workload.rollouts().is_some() {
            self.rollouts.generated = true;
            if let Some(meta) = meta {
                let share = self.objects.share(number);
                self.rollouts.asked(workload, meta, share, now);
            }
        }
        if workload.pods().is_some()
            && let Some(meta) = meta
        {
            let at = self.tracker.asked(workload, meta, part.replicas, now);
            self.generated.push(at);
            self.revisions.push(0);
        }
        Action::Wrote
    }

    /// Returns the number of pods of workload `number` at 100 %.
    pub(super) fn share(&self, number: u64) -> i32 {
        match &self.shares {
            Some(shares) => shares.get(number as usize).copied().unwrap_or(0),
            None => self.objects.share(number),
        }
    }

    /// Returns the namespaces of the scenario's workloads in order, each with the number of its
    /// pods at 100 %.
    pub(super) fn pods_by_namespace(&self) -> Vec<(Str, u64)> {
        let mut pods: Vec<(Str, u64)> = Vec::new();
        let mut places: HashMap<Str, usize, RandomState> = HashMap::with_hasher(FIXED_STATE);
        let owners = self
            .generated
            .iter()
            .map(|at| &self.tracker.owners[*at].namespace);
        // If workloads with rollouts were generated, they are the scenario's workloads.
        let rollouts = &self.rollouts;
        let all: Vec<&Str> = match rollouts.generated {
            true => rollouts.namespaces().collect(),
            false => owners.collect(),
        };
        for (number, namespace) in all.into_iter().enumerate() {
            let namespace = namespace.clone();
            let place = *places.entry(namespace).or_insert_with_key(|namespace| {
                pods.push((namespace.clone(), 0));
                pods.len() - 1
            });
            pods[place].1 += u64::try_from(self.share(number as u64)).unwrap_or(0);
        }
        pods
    }

    /// Creates one of the pods that exist before their owners or their controller does.
    pub(super) fn create_pods(&mut self, owned: bool, now: Now) -> Action {
        let number = self.at.cursor;
        if number >= self.settings.size.workloads() {
            return Action::Done;
        }
        let share = self.objects.share(number);
        if self.at.inner >= share {
            self.at.inner = 0;
            self.at.cursor += 1;
            return Action::Skipped;
        }
        let namespace = self.objects.namespace_of(number).clone();
        let owner = match owned {
            true => self.generated.get(number as usize),
            false => None,
        };
        let owner = owner.map(|&at| &self.tracker.owners[at]);
        let found = owner.and_then(|owner| {
            let api = self.cluster.api(owner.workload.kind());
            api.get(&owner.namespace, &owner.name).ok()
        });
        let owner_meta = found.as_ref().map(|found| found.metadata());
        let pods = owner.map_or(workloads::OWNER, |owner| owner.pods());
        let Some(pod) = pods.pod(number, owner_meta, &self.objects) else {
            return Action::Done;
        };
        // All pods of an owner share one body, as their controller would send it.
        let body = Arc::new(pod);
        for _ in 0..WRITES_PER_RUN {
            if self.at.inner >= share {
                break;
            }
            self.at.inner += 1;
            let created = self.cluster.create_pod(&namespace, &body, None, now);
            self.note("creating", Kind::POD, created);
        }
        Action::Wrote
    }

    /// Writes the status that a controller leaves behind in a converged workload.
    pub(super) fn write_status(&mut self, number: u64, now: Now) -> Action {
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        let owner = &self.tracker.owners[at];
        let (kind, pods) = (owner.workload.kind(), owner.pods());
        let found = self.cluster.api(kind).get(&owner.namespace, &owner.name);
        if let Some(found) = self.note("reading", kind, found)
            && let Some(settled) = pods.settled(&*found, &self.settings.controller.feature_gates)
        {
            let outcome = self.cluster.api(kind).update_status(settled, now);
            self.note("writing the status of", kind, outcome);
        }
        Action::Wrote
    }

    pub(super) fn start_controllers(&mut self, now: Now) -> Action {
        self.tracker.controller_starts(now);
        if self.shares.is_some() {
            self.tracker.begin(now);
            self.finishing.begin(now);
        }
        // Release: a thread that sees the flag also sees everything that was written before.
        self.controllers.started.store(true, Ordering::Release);
        self.controllers.wake.iter().for_each(|wake| wake());
        Action::Done
    }
}
