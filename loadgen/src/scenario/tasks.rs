//! The tasks of a phase, one write at a time: what the driver does to the cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm::object::{Now, Pod, ReplicaSet, ReplicaSetStatus};

use super::driver::{Driver, WRITES_PER_RUN};
use super::plan::{Amount, Task};
use super::stall::wait;
use crate::cluster::{DeleteOptions, ScaleUpdate};
use crate::settings::ScenarioName;

/// What a step of a task did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Wrote,
    Skipped,
    /// Nothing is due before that moment, ns of the monotonic line.
    Wait(i64),
    Done,
}

impl Driver {
    /// Does one write of a task.
    pub(super) fn step(&mut self, task: Task, begun_ns: i64, now: Now) -> Step {
        let size = &self.settings.size;
        let number = self.at.cursor;
        match task {
            Task::Namespaces => self.count_up(size.namespaces, |driver| {
                driver.create_namespace(number, now)
            }),
            Task::Nodes => self.count_up(size.nodes, |driver| driver.create_node(number, now)),
            Task::Input => {
                if self.settings.scenario == ScenarioName::Manifests
                    && !self.loader.has_nodes
                    && number < size.nodes
                {
                    return self.count_up(size.nodes, |driver| driver.create_node(number, now));
                }
                let more = self.loader.step(&self.cluster, &mut self.tracker, now);
                if more { Step::Wrote } else { Step::Done }
            }
            Task::ReplicaSets(amount) => self.count_up(size.replicasets, |driver| {
                driver.create_replica_set(number, amount, now)
            }),
            Task::Scale(amount) => {
                self.count_up(size.replicasets, |driver| driver.scale(number, amount, now))
            }
            Task::OwnedPods => self.create_pods(true, now),
            Task::BarePods => self.create_pods(false, now),
            Task::Statuses => {
                self.count_up(size.replicasets, |driver| driver.write_status(number, now))
            }
            Task::StartControllers => {
                self.tracker.controller_runs = true;
                // Release: whoever sees the flag sees everything written before.
                self.controllers.started.store(true, Ordering::Release);
                self.controllers.wake.iter().for_each(|wake| wake());
                Step::Done
            }
            Task::Churn => self.churn(begun_ns, now),
            Task::StallPodWatch => self.stall_pod_watch(),
            Task::ReleasePodWatch => self.release_pod_watch(),
            Task::Wait(seconds) => wait(begun_ns, seconds, now),
            Task::Touch => self.count_up(size.replicasets, |driver| driver.touch(number, now)),
            Task::LoseAnswers => self.lose_answers(),
        }
    }

    /// One more of `count`, or the end.
    fn count_up(&mut self, count: u64, one: impl FnOnce(&mut Driver) -> Step) -> Step {
        if self.at.cursor >= count {
            return Step::Done;
        }
        self.at.cursor += 1;
        one(self)
    }

    pub(super) fn note<T, E: std::fmt::Display>(
        &mut self,
        what: &str,
        outcome: Result<T, E>,
    ) -> Option<T> {
        outcome
            .map_err(|error| {
                // The first few say enough.
                if self.failures.len() < 10 {
                    self.failures.push(format!("{what}: {error}"));
                }
            })
            .ok()
    }

    fn create_namespace(&mut self, number: u64, now: Now) -> Step {
        let created = self.cluster.create(self.objects.namespace(number), now);
        self.note("creating a namespace", created);
        Step::Wrote
    }

    fn create_node(&mut self, number: u64, now: Now) -> Step {
        let created = self.cluster.create(self.objects.node(number), now);
        self.note("creating a node", created);
        Step::Wrote
    }

    fn amount(&self, amount: Amount, number: u64) -> i32 {
        let (count, burst) = (self.settings.size.replicasets, self.settings.burst_pods);
        amount.of(number, count, self.objects.share(number), burst)
    }

    fn create_replica_set(&mut self, number: u64, amount: Amount, now: Now) -> Step {
        let replicas = self.amount(amount, number);
        let created = self
            .cluster
            .create(self.objects.replica_set(number, replicas), now);
        if let Some(created) = self.note("creating a ReplicaSet", created) {
            let at = self.tracker.asked(&created.metadata, replicas, now);
            self.generated.push(at);
        }
        Step::Wrote
    }

    fn scale(&mut self, number: u64, amount: Amount, now: Now) -> Step {
        let replicas = self.amount(amount, number);
        let Some(parent) = self
            .generated
            .get(number as usize)
            .map(|&at| &self.tracker.parents[at])
        else {
            return Step::Skipped;
        };
        if parent.desired == replicas {
            return Step::Skipped;
        }
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        let scaled =
            self.cluster
                .update_scale::<ReplicaSet>(&parent.namespace, &parent.name, &update, now);
        if let Some(scaled) = self.note("scaling a ReplicaSet", scaled) {
            self.tracker.asked(&scaled.metadata, replicas, now);
        }
        Step::Wrote
    }

    /// One of the pods that exist before their ReplicaSets, or their controller, do.
    fn create_pods(&mut self, owned: bool, now: Now) -> Step {
        let number = self.at.cursor;
        if number >= self.settings.size.replicasets {
            return Step::Done;
        }
        let share = self.objects.share(number);
        if self.at.inner >= share {
            self.at.inner = 0;
            self.at.cursor += 1;
            return Step::Skipped;
        }
        let namespace = self.objects.namespace_of(number).clone();
        let owner = owned
            .then(|| {
                self.generated
                    .get(number as usize)
                    .map(|&at| &self.tracker.parents[at])
            })
            .flatten()
            .map(|parent| {
                self.cluster
                    .get::<ReplicaSet>(&parent.namespace, &parent.name)
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
        Step::Wrote
    }

    /// The status that a controller leaves behind when all is well.
    fn write_status(&mut self, number: u64, now: Now) -> Step {
        let Some(parent) = self
            .generated
            .get(number as usize)
            .map(|&at| &self.tracker.parents[at])
        else {
            return Step::Skipped;
        };
        let found = self
            .cluster
            .get::<ReplicaSet>(&parent.namespace, &parent.name);
        let Some(found) = self.note("reading a ReplicaSet", found) else {
            return Step::Wrote;
        };
        let gates = &self.settings.controller.feature_gates;
        let terminating = gates
            .get("DeploymentReplicaSetTerminatingReplicas")
            .copied();
        let replicas = found.replicas();
        let mut written = ReplicaSet::clone(&found);
        written.status = ReplicaSetStatus {
            replicas,
            fully_labeled_replicas: replicas,
            ready_replicas: replicas,
            available_replicas: replicas,
            terminating_replicas: terminating.unwrap_or(true).then_some(0),
            observed_generation: found.metadata.generation,
            ..ReplicaSetStatus::default()
        };
        let outcome = self.cluster.update_status(written, now);
        self.note("writing a status", outcome);
        Step::Wrote
    }

    /// Deletes a ready pod when one is due: the n-th at n times the interval from the start, late
    /// or not, so that a slow run is not a gentle one.
    fn churn(&mut self, begun_ns: i64, now: Now) -> Step {
        let (rate, length_ns) = (
            self.settings.churn_pods_per_second,
            self.settings.duration_ns,
        );
        let offset_ns = self.at.cursor as f64 * 1e9 / rate;
        if rate <= 0.0 || offset_ns >= length_ns as f64 {
            return Step::Done;
        }
        let due_ns = begun_ns.saturating_add(offset_ns as i64);
        if due_ns > now.mono_ns {
            return Step::Wait(due_ns);
        }
        self.at.cursor += 1;
        if let Some(pod) = self.tracker.pick(&mut self.random) {
            let meta = &pod.metadata;
            // Refused only when somebody else has deleted the pod since: churn all the same.
            let _deleted = self.cluster.delete::<Pod>(
                &meta.namespace,
                &meta.name,
                &DeleteOptions::default(),
                now,
            );
        }
        Step::Wrote
    }
}
