//! Realistic pods of a ReplicaSet, drawn from a seed.

use fastrand::Rng;
use podstorm::object::{
    ConditionStatus, ConditionType, ContainerStatus, Labels, Pod, PodCondition, PodPhase, Str,
    Time, Uid,
};
use podstorm::ranking::{DELETION_COST_ANNOTATION, NodeCounts, RankFields};

/// The current time for all drawn pods, in seconds since the Unix epoch.
pub const NOW_SECONDS: i64 = 1_772_921_233;
/// The current time for all drawn pods, in nanoseconds since the Unix epoch.
pub const NOW_NS: i64 = NOW_SECONDS * 1_000_000_000 + 958_781_165;

const DAY_SECONDS: i64 = 86_400;

/// How the pods of a ReplicaSet came into existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Over thirty days: 95 % of the pods are ready, 5 % have a deletion cost, 8 % have restarted.
    /// The number of nodes is a tenth of the number of pods.
    Month,
    /// Within one minute, less than ten hours ago: all pods are ready, without costs and restarts,
    /// and each is on a node of its own. Neither rules 1 to 5 nor the age bucket distinguishes
    /// them.
    Burst,
}

/// Returns `count` active pods of one ReplicaSet.
pub fn drawn_pods(count: usize, growth: Growth, seed: u64) -> Vec<Pod> {
    let mut rng = Rng::with_seed(seed);
    let nodes = match growth {
        Growth::Month => (count / 10).max(1),
        Growth::Burst => count,
    };
    let names: Vec<Str> = (0..nodes)
        .map(|node| format!("node-{node:05}").into())
        .collect();
    (0..count)
        .map(|index| drawn_pod(index, growth, &names, &mut rng))
        .collect()
}

fn drawn_pod(index: usize, growth: Growth, nodes: &[Str], rng: &mut Rng) -> Pod {
    let month = growth == Growth::Month;
    let created = match growth {
        Growth::Month => NOW_SECONDS - rng.i64(60..30 * DAY_SECONDS),
        Growth::Burst => NOW_SECONDS - 6 * 3_600 - rng.i64(0..3),
    };
    let ready = !month || rng.u32(0..100) < 95;
    let mut pod = Pod::default();
    pod.metadata.name = format!("web-7d4b9c6f5d-{index:05}").into();
    pod.metadata.uid = Uid::from_u128(rng.u128(..));
    pod.metadata.creation_timestamp = Time::from_unix_seconds(created);
    if month && rng.u32(0..100) < 5 {
        let cost = rng.i32(-10..100).to_string();
        pod.metadata.annotations = Labels::from_pairs([
            ("kubectl.kubernetes.io/restartedAt", "2026-02-01T00:00:00Z"),
            (DELETION_COST_ANNOTATION, &cost),
        ]);
    }
    let node = if month {
        rng.usize(0..nodes.len())
    } else {
        index
    };
    pod.node_name = (ready || rng.bool()).then(|| nodes[node].clone());
    pod.status.phase = if ready || rng.bool() {
        PodPhase::Running
    } else {
        PodPhase::Pending
    };
    pod.status.conditions = [
        ConditionType::PodScheduled,
        ConditionType::Initialized,
        ConditionType::Ready,
    ]
    .into_iter()
    .map(|kind| PodCondition {
        kind,
        status: if ready {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        last_transition_time: Time::from_unix_seconds(created + rng.i64(2..60)).into(),
        rest: podstorm::object::Rest::NONE,
    })
    .collect();
    pod.status.container_statuses.push(ContainerStatus {
        name: "web".into(),
        restart_count: if month && rng.u32(0..100) < 8 {
            rng.i32(1..10)
        } else {
            0
        },
        ready,
        details: None,
    });
    pod
}

/// Returns the number of a drawn pod's node; 0 if the pod has no node.
pub fn node_number(pod: &Pod) -> u32 {
    let digits = |name: &Str| name[5..].parse::<u32>().expect("drawn names end in digits");
    pod.node_name.as_ref().map_or(0, |name| 1 + digits(name))
}

/// Returns the ranking fields of drawn pods, as a cache keeps them.
pub fn fields(pods: &[Pod]) -> Vec<RankFields> {
    pods.iter()
        .map(|pod| RankFields::from_pod(pod, node_number(pod)))
        .collect()
}

/// Returns the number of these pods on each node.
pub fn counts(fields: &[RankFields]) -> NodeCounts {
    let mut counts = NodeCounts::new();
    fields.iter().for_each(|fields| counts.add(fields.node()));
    counts
}
