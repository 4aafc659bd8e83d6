//! The simulated kubelets, one task for many nodes. A bound pod starts after the start-up latency,
//! and is reported as running and ready in one status write. A pod that is being deleted ends after
//! the termination latency, limited by its grace period, and is then removed with grace 0 and its
//! UID as a precondition. Pods whose lives are [`played`] go through every step instead. So does
//! the end of a pod with a finalizer.
//!
//! A watch event starts an action, but the state on the server decides. A kubelet writes with the
//! version that it read, and reads the stored pod again after a conflict. A repeated or late event
//! therefore does not repeat an action.

mod admission;
mod foreign;
mod played;
mod preemption;

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::latency::LatencySampler;
use podstorm_objects::{ConditionType, Node, Now, Pod, PodPhase};

use super::change::{
    OUT_OF_PODS, STATUS_ATTEMPTS, change_status, ended, no_place, not_pulled, recovered, restarted,
};
use super::control::{NodeControl, NodeEvent, PodCommand};
use super::controller::{NodeController, pods_on};
use super::events::KubeletEvents;
use super::pod_life::PodEvent;
use super::rules::ClientRules;
use super::scheduler::DEFAULT_PODS_PER_NODE;
use super::status::{RunningStatus, internal_ip};
use super::stuck::StuckPods;
use crate::due_queue::DueQueue;
use crate::executor::seed::seed_for;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};
use crate::options::LatencySettings;
use admission::{Admission, Refusal};
use foreign::ForeignWrites;
use played::Lives;

/// A kubelet's action on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodAction {
    Start,
    End,
    /// Report the restarted containers as ready.
    Recover,
    /// Play the pod's life up to now.
    Play,
    /// Continue a life at the time for which it was queued.
    PlayOn,
    /// Compare the pod's status with the kubelet's state.
    Compare,
}

/// The kubelets of one shard: of all nodes whose names hash to `shard`.
#[derive(Debug)]
pub struct Kubelets {
    shard: u64,
    shards: u64,
    pods: ObjectStream<Pod>,
    lifecycle: PodLifecycle,
    faults: Option<Faults>,
}

/// The state of kubelets whose nodes can fail.
#[derive(Debug)]
struct Faults {
    inbox: Receiver<NodeEvent>,
    /// The node controller; only in the first shard, and only if no other controller handles silent
    /// nodes.
    controller: Option<NodeController>,
}

/// Starts and ends the pods of the kubelets.
#[derive(Debug)]
struct PodLifecycle {
    cluster: Arc<Cluster>,
    startup: LatencySampler,
    termination: LatencySampler,
    statuses: RunningStatus,
    later: DueQueue<(PodAction, Arc<Pod>)>,
    /// The control over the nodes; `None` if nodes can't fail.
    control: Option<Arc<NodeControl>>,
    /// The version of the cluster when the kubelets began; `None` before that, and in a cluster
    /// without arbitrary clients.
    began_at: Option<u64>,
    /// The pods of a dump that can't start, if there are any.
    stuck: Option<Arc<StuckPods>>,
    /// The lives in progress of the pods that are played.
    lives: Lives,
    /// Whether the lives of all pods are played.
    plays_all: bool,
    /// The writes of other clients to these pods; empty unless all lives are played.
    foreign: ForeignWrites,
    /// The kubelets' Events about pods; `None` if these are disabled.
    events: Option<KubeletEvents>,
}

impl Kubelets {
    /// Returns the kubelets of shard `shard` of `shards`; `waker` wakes their task.
    pub fn new(
        cluster: Arc<Cluster>,
        latency: &LatencySettings,
        seed: u64,
        shard: usize,
        shards: usize,
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
                later: DueQueue::default(),
                control: None,
                began_at: None,
                stuck: None,
                lives: Lives::default(),
                plays_all: false,
                foreign: ForeignWrites::default(),
                events: None,
            },
            faults: None,
        }
    }

    /// Connects the kubelets to `control`, which makes nodes fail. The first shard also runs the
    /// node controller, unless the cluster's own controllers handle silent nodes. `waker` wakes the
    /// task of these kubelets.
    #[must_use]
    pub fn controlled_by(mut self, control: &Arc<NodeControl>, waker: Waker) -> Kubelets {
        let cluster = Arc::clone(&self.lifecycle.cluster);
        self.lifecycle.control = Some(Arc::clone(control));
        self.lifecycle.plays_all = control.plays_pods();
        let tells = control.clients().is_some_and(|rules| rules.pod_events);
        self.lifecycle.events = tells.then(|| KubeletEvents::new(Arc::clone(&cluster)));
        self.faults = Some(Faults {
            inbox: control.open_inbox(Arc::clone(&waker)),
            controller: (self.shard == 0 && !control.keeps_alive())
                .then(|| NodeController::new(cluster, control, waker)),
        });
        self
    }
}

impl Kubelets {
    /// Leaves pods that were stuck in the dump unchanged, and gives the same status to new pods of
    /// workloads without ready pods.
    #[must_use]
    pub fn leaving(mut self, stuck: Option<&Arc<StuckPods>>) -> Kubelets {
        self.lifecycle.stuck = stuck.cloned();
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
        lifecycle.begin();
        let mine = |node: &str| *shards == 1 || FIXED_STATE.hash_one(node) % *shards == *shard;
        let mut controller = faults.as_mut().and_then(|it| it.controller.as_mut());
        let nodes = controller.as_mut().map(|it| it.see_nodes(now));
        let next = pods.poll(now, |item| {
            let (pod, is_foreign) = match item {
                ObjectEvent::Added(pod) => {
                    lifecycle.found(&pod);
                    (pod, false)
                }
                ObjectEvent::Modified(pod) => {
                    let is_foreign = lifecycle.is_foreign(&pod);
                    (pod, is_foreign)
                }
                ObjectEvent::Deleted(pod) => return lifecycle.forget(&pod),
                ObjectEvent::Reset => return lifecycle.foreign.reset(),
            };
            if let Some(controller) = &mut controller {
                controller.see_pod(&pod, now);
            }
            if pod.node_name.is_none() {
                return;
            }
            let action = lifecycle.action(&pod);
            if (action.is_some() || is_foreign) && pod.node_name.as_deref().is_some_and(mine) {
                match action {
                    Some(action) => lifecycle.schedule(action, pod, now),
                    None => lifecycle.compare_later(pod, now),
                }
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
    /// Handles the node events in the inbox, and runs the node controller.
    fn run(&mut self, lifecycle: &mut PodLifecycle, mine: impl Fn(&str) -> bool, now: Now) -> Next {
        while let Ok(event) = self.inbox.try_recv() {
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

/// Returns the start or end that a pod in this state waits for, if any.
fn pending_action(pod: &Pod) -> Option<PodAction> {
    let meta = &pod.metadata;
    if meta.is_deleting() {
        // Grace 0 means the kubelet's own final delete, or a forced one. Only a finalizer keeps
        // such a pod, whose life must still end.
        let is_final = meta.deletion_grace_period_seconds.get() == Some(0);
        let is_over = meta.finalizers().is_empty() || pod.status.phase.is_terminal();
        return (!is_final || !is_over).then_some(PodAction::End);
    }
    matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset).then_some(PodAction::Start)
}

impl PodLifecycle {
    /// Returns the rules of a cluster with arbitrary clients; `None` for any other cluster.
    fn clients(&self) -> Option<&ClientRules> {
        self.control.as_ref()?.clients()
    }

    /// Returns the action that a pod in this state needs, if any.
    fn action(&self, pod: &Pod) -> Option<PodAction> {
        match pending_action(pod) {
            // A finalizer keeps the pod, so clients can observe how its containers end.
            Some(PodAction::End) if !pod.metadata.finalizers().is_empty() => Some(PodAction::Play),
            Some(_) if self.is_played(pod) => Some(PodAction::Play),
            None if self.is_played(pod) && self.concerns_life(pod) => Some(PodAction::Play),
            action => action,
        }
    }

    /// Records the state in which the kubelets begin, on the first call.
    fn begin(&mut self) {
        if self.began_at.is_none() && self.clients().is_some() {
            self.began_at = Some(self.cluster.resource_version());
            self.events.iter_mut().for_each(KubeletEvents::begin);
        }
    }

    /// Reports whether the pod has not changed since the kubelets began.
    fn was_there(&self, pod: &Pod) -> bool {
        let version = pod.metadata.resource_version.number();
        let since = version.zip(self.began_at);
        since.is_some_and(|(version, began)| version <= began)
    }

    /// Returns how long a pod from before the kubelets has already waited for an action, ns, so
    /// that a restored cluster continues the wait. The time comes from the pod's timestamps, in
    /// whole seconds. Returns 0 for any other pod.
    fn waited_ns(&self, action: PodAction, pod: &Pod, now: Now) -> i64 {
        if !self.was_there(pod) {
            return 0;
        }
        let since = match action {
            PodAction::Start => {
                let bound = pod.status.conditions.first(ConditionType::PodScheduled);
                bound.and_then(|(_, since)| since.get().unix_seconds())
            }
            PodAction::End => {
                let grace = pod.metadata.deletion_grace_period_seconds.get();
                let end = pod.metadata.deletion_timestamp.unix_seconds();
                end.map(|end| end.saturating_sub(grace.unwrap_or(0)))
            }
            PodAction::Recover | PodAction::Play | PodAction::PlayOn | PodAction::Compare => None,
        };
        let now = now.wall().unix_seconds();
        let waited = now.zip(since).map_or(0, |(now, since)| now - since);
        waited.max(0).saturating_mul(1_000_000_000)
    }

    /// Performs an action on a pod after the action's latency.
    fn schedule(&mut self, action: PodAction, pod: Arc<Pod>, now: Now) {
        if self.is_lost(&pod) {
            return;
        }
        let delay_ns = match action {
            PodAction::Play | PodAction::PlayOn | PodAction::Compare => {
                return self.perform(action, pod, now);
            }
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
        let delay_ns = (delay_ns - self.waited_ns(action, &pod, now)).max(0);
        if delay_ns == 0 {
            return self.perform(action, pod, now);
        }
        let due_ns = now.mono_ns.saturating_add(delay_ns);
        self.later.push(due_ns, (action, pod));
    }

    /// Performs the actions that are due.
    fn run_due(&mut self, now: Now) -> Next {
        while let Some((action, pod)) = self.later.pop_due(now.mono_ns) {
            self.perform(action, pod, now);
        }
        self.later.next_due_ns().map_or(Next::Idle, Next::At)
    }

    fn perform(&mut self, action: PodAction, pod: Arc<Pod>, now: Now) {
        if action == PodAction::Compare {
            self.foreign.compares(&pod);
        }
        if self.is_lost(&pod) {
            return;
        }
        let starts = || pending_action(&pod) == Some(PodAction::Start);
        match action {
            PodAction::Start | PodAction::Play if starts() && self.rejects(&pod) => {
                let refusal = self.no_place(&pod);
                self.reject(&pod, &refusal, now);
            }
            PodAction::Start if self.waits_for_image(&pod) => self.report_image(&pod, now),
            PodAction::Start | PodAction::Play if starts() && self.is_stuck(&pod) => {
                self.report_stuck(&pod, now)
            }
            PodAction::Start => self.start(pod, now),
            PodAction::Play | PodAction::Compare => match self.admission(&pod) {
                Admission::Takes => self.play(&pod, now),
                Admission::After(victims) => self.preempt(&victims, pod, now),
                Admission::Refuses(refusal) => self.reject(&pod, &refusal, now),
            },
            PodAction::PlayOn => self.play_queued(&pod, now),
            PodAction::End => self.remove(&pod, now),
            PodAction::Recover => self.recover(&pod, now),
        }
    }

    /// Reports whether the pod's kubelet is silent. When the kubelet comes back, it finds the
    /// changes that it missed.
    fn is_lost(&self, pod: &Pod) -> bool {
        self.has_fault(pod, NodeControl::is_lost)
    }

    /// Reports whether the pod's kubelet rejects new pods.
    fn rejects(&self, pod: &Pod) -> bool {
        self.has_fault(pod, NodeControl::is_rejecting)
    }

    fn has_fault(&self, pod: &Pod, fault: fn(&NodeControl, &str) -> bool) -> bool {
        let (control, node) = (self.control.as_ref(), pod.node_name.as_deref());
        control.is_some_and(|control| node.is_some_and(|node| fault(control, node)))
    }

    /// Performs the pending actions on a node whose kubelet has come back.
    fn resume(&mut self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            match self.action(&pod) {
                Some(action) => self.schedule(action, pod, now),
                None if self.is_played(&pod) => self.play(&pod, now),
                None => self.recover(&pod, now),
            }
        }
    }

    /// Executes a command to a pod's kubelet.
    fn execute(&mut self, order: PodCommand, pod: &Arc<Pod>, now: Now) {
        if self.is_lost(pod) {
            return;
        }
        let container = match order {
            PodCommand::Fail => return self.finish(pod, PodPhase::Failed, now),
            PodCommand::Succeed => return self.finish(pod, PodPhase::Succeeded, now),
            PodCommand::Restart(container) => container,
        };
        let written = change_status(&self.cluster, pod, now, |live| {
            let runs = live.status.phase == PodPhase::Running && !live.metadata.is_deleting();
            runs.then(|| restarted(&live.status, container, now.wall()))?
        });
        if written {
            self.schedule(PodAction::Recover, Arc::clone(pod), now);
        }
    }

    /// Reports the pod as ready if it is running and not ready.
    fn recover(&self, pod: &Pod, now: Now) {
        change_status(&self.cluster, pod, now, |live| {
            let runs = live.status.phase == PodPhase::Running && !live.metadata.is_deleting();
            (runs && !live.is_ready()).then(|| recovered(&live.status, now.wall()))
        });
    }

    /// Reports that the pod has ended in the given phase, unless it has already ended or is being
    /// deleted.
    fn finish(&self, pod: &Pod, phase: PodPhase, now: Now) {
        change_status(&self.cluster, pod, now, |live| {
            live.is_active()
                .then(|| ended(&live.status, phase, now.wall()))
        });
    }

    /// Records Events about a pod, if they are enabled.
    fn tell(&mut self, pod: &Pod, events: Vec<PodEvent>, now: Now) {
        if let (Some(recorders), Some(control)) = (&mut self.events, &self.control)
            && !events.is_empty()
        {
            recorders.record(pod, events, &control.stamps, now);
        }
    }

    /// Returns the refusal with which the pod's node rejects the pod as one too many.
    fn no_place(&self, pod: &Pod) -> Refusal {
        let node = pod.node_name.as_deref().unwrap_or("");
        let node = self.cluster.get::<Node>("", node).ok();
        let places = node.and_then(|node| node.pods_allocatable);
        let places = places.unwrap_or(DEFAULT_PODS_PER_NODE);
        Refusal::new(OUT_OF_PODS, no_place(places))
    }

    /// Reports whether an image of the pod can't be pulled.
    fn waits_for_image(&self, pod: &Pod) -> bool {
        let mut images = pod.spec.containers.iter().map(|it| &it.image);
        self.clients()
            .is_some_and(|rules| images.any(|image| rules.is_unpullable(image)))
    }

    /// Reports in the pod's status that images can't be pulled.
    fn report_image(&self, pod: &Pod, now: Now) {
        let Some(rules) = self.clients() else {
            return;
        };
        change_status(&self.cluster, pod, now, |live| {
            let pending = pending_action(live) == Some(PodAction::Start);
            pending.then(|| not_pulled(live, |image| rules.is_unpullable(image), now.wall()))?
        });
    }

    /// Reports whether the pod can't start, like the stuck pods of the dump.
    fn is_stuck(&self, pod: &Pod) -> bool {
        self.stuck.as_ref().is_some_and(|stuck| stuck.holds(pod))
    }

    /// Writes the status that shows why the pod can't start.
    fn report_stuck(&self, pod: &Pod, now: Now) {
        change_status(&self.cluster, pod, now, |live| {
            let pending = pending_action(live) == Some(PodAction::Start);
            let stuck = self.stuck.as_ref().filter(|_| pending)?;
            stuck.written(live, now.wall())
        });
    }

    /// Reports the pod as running and ready.
    fn start(&mut self, mut pod: Arc<Pod>, now: Now) {
        for _ in 0..STATUS_ATTEMPTS {
            let Some(node) = pod.node_name.clone() else {
                return;
            };
            if self.clients().is_some()
                && !self.statuses.knows(&node)
                && let Some(address) = internal_ip(&self.cluster, &node)
            {
                self.statuses.introduce(&node, address);
            }
            let status = self.statuses.status(&pod, &node, now.wall());
            let written = Pod {
                metadata: pod.metadata.clone(),
                spec: Arc::clone(&pod.spec),
                node_name: Some(node),
                token_volume: pod.token_volume,
                hostname: pod.hostname,
                status,
            };
            match self.cluster.update_status(written, now) {
                Err(error) if error.code == 409 => {}
                // The status is written, the pod has been deleted, or the server rejects the write
                // permanently.
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
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Time;

    use super::*;

    #[test]
    fn kubelets_act_on_pending_and_terminating_pods() {
        let mut pod = Pod::default();
        assert_eq!(pending_action(&pod), Some(PodAction::Start));
        pod.status.phase = PodPhase::Running;
        assert_eq!(pending_action(&pod), None);
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
        pod.metadata.deletion_grace_period_seconds = Some(30).into();
        assert_eq!(pending_action(&pod), Some(PodAction::End));
        pod.metadata.deletion_grace_period_seconds = Some(0).into();
        assert_eq!(pending_action(&pod), None);
        pod.metadata.finalizers = Some(vec!["example.com/hold".into()].into());
        assert_eq!(pending_action(&pod), Some(PodAction::End));
        pod.status.phase = PodPhase::Failed;
        assert_eq!(pending_action(&pod), None);
    }
}
