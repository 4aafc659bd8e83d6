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
use podstorm::object::{Now, Pod, PodPhase, Str};

use super::status::RunningStatus;
use crate::cluster::{Cluster, DeleteOptions};
use crate::engine::executor::{Next, Part, Waker};
use crate::engine::seed::seed_for;
use crate::engine::stream::{Item, Stream};
use crate::latency::LatencySampler;
use crate::settings::LatencySettings;

/// Looks at the live pod before a status write is given up: each needs another writer in between.
const STATUS_ATTEMPTS: usize = 5;

/// What a kubelet does to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Start,
    End,
}

/// Something to do later.
#[derive(Debug)]
struct Later {
    due_ns: i64,
    number: u64,
    act: Act,
    pod: Arc<Pod>,
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Later {}

impl PartialOrd for Later {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Later {
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
    pods: Stream<Pod>,
    hands: Hands,
}

/// Everything of the kubelets but their ears.
#[derive(Debug)]
struct Hands {
    cluster: Arc<Cluster>,
    startup: LatencySampler,
    termination: LatencySampler,
    statuses: RunningStatus,
    later: BinaryHeap<Reverse<Later>>,
    arrivals: u64,
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
            pods: Stream::new(Arc::clone(&cluster), waker),
            hands: Hands {
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
            },
        }
    }
}

impl Part for Kubelets {
    fn run(&mut self, now: Now) -> Next {
        let Kubelets {
            shard,
            shards,
            pods,
            hands,
        } = self;
        let mine = |node: &str| *shards == 1 || FIXED_STATE.hash_one(node) % *shards == *shard;
        let next = pods.poll(now, |item| {
            if let Item::Added(pod) | Item::Modified(pod) = item
                && let Some(act) = cue(&pod)
                && pod.node_name.as_deref().is_some_and(mine)
            {
                hands.take_up(act, pod, now);
            }
        });
        next.or(hands.do_due(now))
    }
}

/// What a pod in this state is waiting for from its kubelet.
fn cue(pod: &Pod) -> Option<Act> {
    let meta = &pod.metadata;
    if meta.is_deleting() {
        // Grace 0 is the kubelet's own final delete (or a forced one) on its way.
        return (meta.deletion_grace_period_seconds.get() != Some(0)).then_some(Act::End);
    }
    matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset).then_some(Act::Start)
}

impl Hands {
    /// Does what the pod waits for, now or after the time it takes.
    fn take_up(&mut self, act: Act, pod: Arc<Pod>, now: Now) {
        let delay_ns = match act {
            Act::Start => self.startup.draw_ns(),
            Act::End => {
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
            return self.act(act, pod, now);
        }
        self.arrivals += 1;
        let due_ns = now.mono_ns.saturating_add(delay_ns);
        self.later.push(Reverse(Later {
            due_ns,
            number: self.arrivals,
            act,
            pod,
        }));
    }

    /// Does everything whose time has come.
    fn do_due(&mut self, now: Now) -> Next {
        while let Some(Reverse(first)) = self.later.peek() {
            if first.due_ns > now.mono_ns {
                return Next::At(first.due_ns);
            }
            let Some(Reverse(Later { act, pod, .. })) = self.later.pop() else {
                break;
            };
            self.act(act, pod, now);
        }
        Next::Idle
    }

    fn act(&mut self, act: Act, pod: Arc<Pod>, now: Now) {
        match act {
            Act::Start => self.start(pod, now),
            Act::End => self.end(&pod, now),
        }
    }

    /// Reports the pod running and ready.
    fn start(&mut self, mut pod: Arc<Pod>, now: Now) {
        for _ in 0..STATUS_ATTEMPTS {
            let Some(node) = pod.node_name.as_ref().map(Str::clone) else {
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
                Ok(live) if live.metadata.uid == meta.uid && cue(&live) == Some(Act::Start) => {
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
    use podstorm::object::Time;

    use super::*;

    #[test]
    fn kubelets_act_on_pending_pods_and_on_graceful_deletions_only() {
        let mut pod = Pod::default();
        assert_eq!(cue(&pod), Some(Act::Start));
        pod.status.phase = PodPhase::Running;
        assert_eq!(cue(&pod), None);
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
        pod.metadata.deletion_grace_period_seconds = Some(30).into();
        assert_eq!(cue(&pod), Some(Act::End));
        pod.metadata.deletion_grace_period_seconds = Some(0).into();
        assert_eq!(cue(&pod), None);
    }
}
