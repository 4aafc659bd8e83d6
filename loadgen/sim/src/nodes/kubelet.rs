//! The simulated kubelets, one part for many nodes: a bound pod is started after the start-up
//! latency and reported running and ready in one status write; a pod being deleted ends after the
//! termination latency, capped by its grace period, and is then removed with grace 0 and its UID.
//!
//! A kubelet trusts its watch for the cue and the server for the truth: it writes with the version
//! it saw, and on a conflict looks again at the live pod. So an event seen twice, or late, does
//! nothing twice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::latency::LatencySampler;
use podstorm_apiserver::{Cluster, DeleteOptions};
use podstorm_objects::{Now, Pod, PodPhase, Uid};

use super::change::{change_status, ended, recovered, restarted};
use super::control::{NodeControl, NodeEvent, PodCommand};
use super::controller::{NodeController, pods_on};
use super::status::RunningStatus;
use crate::executor::seed::seed_for;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};
use crate::options::LatencySettings;

/// Looks at the live pod before a status write is given up: each needs another writer in between.
const STATUS_ATTEMPTS: usize = 5;

/// What a kubelet does to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodAction {
    Start,
    End,
    /// Report the containers ready that were started once more.
    Recover,
}

/// Something to do later.
#[derive(Debug)]
struct ScheduledAction {
    due_ns: i64,
    number: u64,
    action: PodAction,
    pod: Arc<Pod>,
}

impl PartialEq for ScheduledAction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScheduledAction {}

impl PartialOrd for ScheduledAction {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledAction {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // By time, then in order of arrival.
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

/// The kubelets of every node whose name falls into one of `shards` equal parts.
#[derive(Debug)]
pub struct Kubelets {
    shard: u64,
    shards: u64,
    pods: ObjectStream<Pod>,
    lifecycle: PodLifecycle,
    faults: Option<Faults>,
}

/// What there is where nodes may fail.
#[derive(Debug)]
struct Faults {
    control: Arc<NodeControl>,
    inbox: usize,
    /// NodeEvent told when the inbox was last found empty.
    seen: u64,
    /// One for all nodes, with the first part of the kubelets.
    controller: Option<NodeController>,
}

/// Everything of the kubelets but their ears.
#[derive(Debug)]
struct PodLifecycle {
    cluster: Arc<Cluster>,
    startup: LatencySampler,
    termination: LatencySampler,
    statuses: RunningStatus,
    later: BinaryHeap<Reverse<ScheduledAction>>,
    arrivals: u64,
    /// Where nodes may fail.
    control: Option<Arc<NodeControl>>,
}

impl Kubelets {
    /// The kubelets of part `shard` of `shards`; `waker` wakes the part that holds them.
    pub fn new(
        cluster: Arc<Cluster>,
        latency: &LatencySettings,
        seed: u64,
        (shard, shards): (usize, usize),
        waker: Waker,
    ) -> Kubelets {
        let (shard, shards) = (shard as u64, shards as u64);
        Kubelets {
            shard,
            shards,
            pods: ObjectStream::new(Arc::clone(&cluster), waker),
            lifecycle: PodLifecycle {
                cluster,
                startup: LatencySampler::new(
                    latency.pod_startup,
                    seed_for(seed, "pod startup", shard),
                ),
                termination: LatencySampler::new(
                    latency.pod_termination,
                    seed_for(seed, "pod termination", shard),
                ),
                statuses: RunningStatus::new(),
                later: BinaryHeap::new(),
                arrivals: 0,
                control: None,
            },
            faults: None,
        }
    }

    /// Lets the nodes fail as `control` says; the first part of the kubelets acts as node
    /// controller too. `waker` wakes the part that holds them.
    #[must_use]
    pub fn controlled_by(mut self, control: &Arc<NodeControl>, waker: Waker) -> Kubelets {
        let cluster = Arc::clone(&self.lifecycle.cluster);
        self.lifecycle.control = Some(Arc::clone(control));
        self.faults = Some(Faults {
            control: Arc::clone(control),
            inbox: control.open_inbox(Arc::clone(&waker)),
            seen: 0,
            controller: (self.shard == 0)
                .then(|| NodeController::new(cluster, control.times(), waker)),
        });
        self
    }
}

impl Task for Kubelets {
    fn run(&mut self, now: Now) -> Next {
        let Kubelets {
            shard,
            shards,
            pods,
            lifecycle,
            faults,
        } = self;
        let mine = |node: &str| *shards == 1 || FIXED_STATE.hash_one(node) % *shards == *shard;
        let mut controller = faults.as_mut().and_then(|it| it.controller.as_mut());
        let nodes = controller.as_mut().map(|it| it.see_nodes(now));
        let next = pods.poll(now, |item| {
            let (ObjectEvent::Added(pod) | ObjectEvent::Modified(pod)) = item else {
                return;
            };
            if let Some(controller) = &mut controller {
                controller.see_pod(&pod, now);
            }
            if let Some(action) = pending_action(&pod)
                && pod.node_name.as_deref().is_some_and(mine)
            {
                lifecycle.schedule(action, pod, now);
            }
        });
        let next = next.or(nodes.unwrap_or(Next::Idle));
        let next = match faults {
            Some(faults) => next.or(faults.run(lifecycle, mine, now)),
            None => next,
        };
        next.or(lifecycle.run_due(now))
    }
}

impl Faults {
    /// Hears the news and lets the node controller do what is due.
    fn run(&mut self, lifecycle: &mut PodLifecycle, mine: impl Fn(&str) -> bool, now: Now) -> Next {
        while let Some(event) = self.control.next_event(self.inbox, &mut self.seen) {
            match (event, &mut self.controller) {
                (NodeEvent::Lost(node), Some(controller)) => controller.lost(node, now),
                (NodeEvent::Lost(_), None) => {}
                (NodeEvent::Back(node), controller) => {
                    if let Some(controller) = controller {
                        controller.back(&node, now);
                    }
                    if mine(&node) {
                        lifecycle.resume(&node, now);
                    }
                }
                (
                    NodeEvent::Order {
                        namespace,
                        name,
                        order,
                    },
                    _,
                ) => {
                    if let Ok(pod) = lifecycle.cluster.get::<Pod>(&namespace, &name)
                        && pod.node_name.as_deref().is_some_and(&mine)
                    {
                        lifecycle.execute(order, &pod, now);
                    }
                }
            }
        }
        match &mut self.controller {
            Some(controller) => controller.run(now),
            None => Next::Idle,
        }
    }
}

/// What a kubelet says of a pod that it refuses.
const REJECTED: Option<(&str, &str)> = Some((
    "OutOfpods",
    "Pod was rejected: Node didn't have enough resource: pods",
));

fn identity(pod: &Pod) -> (&str, &str, &Uid) {
    let meta = &pod.metadata;
    (&meta.namespace, &meta.name, &meta.uid)
}

/// What a pod in this state is waiting for from its kubelet.
fn pending_action(pod: &Pod) -> Option<PodAction> {
    let meta = &pod.metadata;
    if meta.is_deleting() {
        // Grace 0 is the kubelet's own final delete (or a forced one) on its way.
        return (meta.deletion_grace_period_seconds.get() != Some(0)).then_some(PodAction::End);
    }
    matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset).then_some(PodAction::Start)
}

impl PodLifecycle {
    /// Does what the pod waits for, now or after the time it takes.
    fn schedule(&mut self, action: PodAction, pod: Arc<Pod>, now: Now) {
        if self.is_lost(&pod) {
            return;
        }
        let delay_ns = match action {
            PodAction::Start if self.rejects(&pod) => 0,
            PodAction::Start | PodAction::Recover => self.startup.draw_ns(),
            PodAction::End => {
                let grace = pod
                    .metadata
                    .deletion_grace_period_seconds
                    .get()
                    .unwrap_or(0)
                    .max(0);
                self.termination
                    .draw_ns()
                    .min(grace.saturating_mul(1_000_000_000))
            }
        };
        if delay_ns == 0 {
            return self.perform(action, pod, now);
        }
        self.arrivals += 1;
        let due_ns = now.mono_ns.saturating_add(delay_ns);
        self.later.push(Reverse(ScheduledAction {
            due_ns,
            number: self.arrivals,
            action,
            pod,
        }));
    }

    /// Does everything whose time has come.
    fn run_due(&mut self, now: Now) -> Next {
        while let Some(Reverse(first)) = self.later.peek() {
            if first.due_ns > now.mono_ns {
                return Next::At(first.due_ns);
            }
            let Some(Reverse(ScheduledAction { action, pod, .. })) = self.later.pop() else {
                break;
            };
            self.perform(action, pod, now);
        }
        Next::Idle
    }

    fn perform(&mut self, action: PodAction, pod: Arc<Pod>, now: Now) {
        if self.is_lost(&pod) {
            return;
        }
        match action {
            PodAction::Start if self.rejects(&pod) => {
                self.finish(&pod, PodPhase::Failed, REJECTED, now)
            }
            PodAction::Start => self.start(pod, now),
            PodAction::End => self.end(&pod, now),
            PodAction::Recover => self.recover(&pod, now),
        }
    }

    /// Whether the pod's kubelet is silent. What it misses is found when it is back.
    fn is_lost(&self, pod: &Pod) -> bool {
        let Some(control) = &self.control else {
            return false;
        };
        pod.node_name
            .as_deref()
            .is_some_and(|node| control.is_lost(node))
    }

    fn rejects(&self, pod: &Pod) -> bool {
        let Some(control) = &self.control else {
            return false;
        };
        pod.node_name
            .as_deref()
            .is_some_and(|node| control.is_rejecting(node))
    }

    /// Takes up everything on a node whose kubelet is back.
    fn resume(&mut self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            match pending_action(&pod) {
                Some(action) => self.schedule(action, pod, now),
                None => self.recover(&pod, now),
            }
        }
    }

    /// Does to a pod what was ordered.
    fn execute(&mut self, order: PodCommand, pod: &Arc<Pod>, now: Now) {
        if self.is_lost(pod) {
            return;
        }
        let container = match order {
            PodCommand::Fail => return self.finish(pod, PodPhase::Failed, None, now),
            PodCommand::Succeed => return self.finish(pod, PodPhase::Succeeded, None, now),
            PodCommand::Restart(container) => container,
        };
        let written = change_status(&self.cluster, identity(pod), now, |live| {
            let runs = live.status.phase == PodPhase::Running && !live.metadata.is_deleting();
            runs.then(|| restarted(&live.status, container, now.wall()))?
        });
        if written {
            self.schedule(PodAction::Recover, Arc::clone(pod), now);
        }
    }

    /// Reports the pod ready again, if it runs.
    fn recover(&self, pod: &Pod, now: Now) {
        change_status(&self.cluster, identity(pod), now, |live| {
            let runs = live.status.phase == PodPhase::Running && !live.metadata.is_deleting();
            (runs && !live.is_ready()).then(|| recovered(&live.status, now.wall()))
        });
    }

    /// Reports the pod ended in that phase, if it has not and is not being deleted.
    fn finish(&self, pod: &Pod, phase: PodPhase, why: Option<(&str, &str)>, now: Now) {
        change_status(&self.cluster, identity(pod), now, |live| {
            live.is_active()
                .then(|| ended(&live.status, phase, why, now.wall()))
        });
    }

    /// Reports the pod running and ready.
    fn start(&mut self, mut pod: Arc<Pod>, now: Now) {
        for _ in 0..STATUS_ATTEMPTS {
            let Some(node) = pod.node_name.clone() else {
                return;
            };
            let status = self.statuses.of(&pod, &node, now.wall());
            let written = Pod {
                metadata: pod.metadata.clone(),
                spec: Arc::clone(&pod.spec),
                node_name: Some(node),
                token_volume: pod.token_volume,
                status,
            };
            match self.cluster.update_status(written, now) {
                Err(error) if error.code == 409 => {}
                // Written, or the pod is gone, or the server refuses it for good.
                _ => return,
            }
            let meta = &pod.metadata;
            match self.cluster.get::<Pod>(&meta.namespace, &meta.name) {
                Ok(live)
                    if live.metadata.uid == meta.uid
                        && pending_action(&live) == Some(PodAction::Start) =>
                {
                    pod = live;
                }
                _ => return,
            }
        }
    }

    /// Removes the pod for good.
    fn end(&mut self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            precondition_uid: Some(meta.uid.clone()),
            ..DeleteOptions::default()
        };
        // A refusal means that the pod is gone already, or is another one by now.
        let _gone = self
            .cluster
            .delete::<Pod>(&meta.namespace, &meta.name, &options, now);
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Time;

    use super::*;

    #[test]
    fn kubelets_act_on_pending_pods_and_on_graceful_deletions_only() {
        let mut pod = Pod::default();
        assert_eq!(pending_action(&pod), Some(PodAction::Start));
        pod.status.phase = PodPhase::Running;
        assert_eq!(pending_action(&pod), None);
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
        pod.metadata.deletion_grace_period_seconds = Some(30).into();
        assert_eq!(pending_action(&pod), Some(PodAction::End));
        pod.metadata.deletion_grace_period_seconds = Some(0).into();
        assert_eq!(pending_action(&pod), None);
    }
}
