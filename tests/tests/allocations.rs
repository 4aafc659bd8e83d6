//! Hot paths that claim to allocate nothing in the steady state, held to it: one allocation fails.
//!
//! One test alone in its process, because the counter counts every thread.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm::cache::{Delta, PodCache};
use podstorm::controller::{Controller, ControllerOptions, Step, Sync};
use podstorm::expectations::Expectations;
use podstorm::intern::KeyId;
use podstorm::object::{
    ConditionStatus, ConditionType, Kind, LabelSelector, Labels, Now, OwnerReference, Pod,
    PodCondition, PodPhase, PodTemplate, ReplicaSet, Time, Uid,
};
use podstorm::ranking::{NodeCounts, RankFields, RankOptions, Ranker};
use podstorm::workqueue::{RateLimitingQueue, Take};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Runs `work` twice to warm up, then counts the allocations of further rounds.
fn expect_none(what: &str, mut work: impl FnMut()) {
    work();
    work();
    let before = dhat::HeapStats::get().total_blocks;
    for _ in 0..10 {
        work();
    }
    let allocated = dhat::HeapStats::get().total_blocks - before;
    assert_eq!(allocated, 0, "{what} allocates in the steady state");
}

fn ready_pod(index: u32, version: u64, owner: &Arc<OwnerReference>, labels: &Labels) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = format!("web-{index:05}").into();
    pod.metadata.namespace = "ns".into();
    pod.metadata.uid = Uid::from_u128(u128::from(index) + 1);
    pod.metadata.resource_version = version.into();
    pod.metadata.creation_timestamp = Time::from_unix_seconds(1_000 + i64::from(index % 97));
    pod.metadata.labels = labels.clone();
    pod.metadata.owner_references.push(owner.clone());
    pod.node_name = Some(format!("node-{}", index % 40).into());
    pod.status.phase = PodPhase::Running;
    pod.status.conditions.push(PodCondition {
        kind: ConditionType::Ready,
        status: ConditionStatus::True,
        last_transition_time: Time::from_unix_seconds(2_000 + i64::from(index % 31)).into(),
        rest: None,
    });
    Arc::new(pod)
}

#[test]
fn hot_paths_allocate_nothing_in_the_steady_state() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let now = Now {
        mono_ns: 1,
        wall_ns: 1_000_000_000_000_000,
    };
    ranking();
    expectations();
    queue();
    controller(now);
}

fn ranking() {
    let labels = Labels::from_pairs([("app", "web")]);
    let owner = Arc::new(owner());
    let fields: Vec<RankFields> = (0..1000)
        .map(|index| RankFields::of(&ready_pod(index, 1, &owner, &labels), index % 40 + 1))
        .collect();
    let (mut ranker, mut counts) = (Ranker::new(), NodeCounts::new());
    expect_none("choosing 500 of 1,000 pods", || {
        counts.clear();
        fields.iter().for_each(|pod| counts.add(pod.node()));
        let candidates = (0u32..).zip(&fields);
        let options = RankOptions::at(10_000_000_000_000);
        let chosen = ranker.choose(candidates, |node| counts.get(node), &options, 500);
        assert_eq!(chosen.len(), 500);
    });
}

fn expectations() {
    let expectations = Expectations::<KeyId, CompactString>::new();
    let names: Vec<CompactString> = (0..500).map(|i| format!("web-{i:05}").into()).collect();
    let key = KeyId(7);
    expect_none("expecting and observing", || {
        expectations.expect_creations(key, 1, 0);
        expectations.creation_observed(key);
        assert!(expectations.satisfied(key, 1));
        expectations.expect_deletions(key, names.iter().cloned(), 0);
        for name in &names {
            assert!(expectations.deletion_observed(key, name));
        }
        assert!(expectations.satisfied(key, 1));
    });
}

fn queue() {
    let queue = RateLimitingQueue::<KeyId>::new();
    expect_none("a queue's cycle", || {
        for key in 0..1000 {
            queue.add(KeyId(key), 0);
            queue.add(KeyId(key), 0);
        }
        while let Take::Key(key) = queue.try_take(1) {
            queue.add_after(key, 5, 1);
            queue.forget(key);
            queue.done(key, 2);
        }
        queue.fire_due(10);
        while let Take::Key(key) = queue.try_take(11) {
            queue.done(key, 12);
        }
    });
}

fn controller(now: Now) {
    let pods = Arc::new(PodCache::new());
    let controller = Controller::new(ControllerOptions::new(Kind::ReplicaSet), pods.clone());
    let labels = Labels::from_pairs([("app", "web")]);
    let owner = Arc::new(owner());
    controller.parent_delta(Delta::Applied(Arc::new(replica_set(&labels, 50))), now);
    for index in 0..50 {
        let change = pods.apply(Delta::Applied(ready_pod(index, 10, &owner, &labels)));
        controller.pod_changed(&change, now);
    }
    let versions: Vec<Arc<Pod>> = (11..30)
        .map(|version| ready_pod(3, version, &owner, &labels))
        .collect();
    let mut next = versions.iter().cycle();
    expect_none("an owned pod's update", || {
        let pod = next.next().expect("a cycle has no end").clone();
        let change = pods.apply(Delta::Applied(pod));
        controller.pod_changed(&change, now);
        if let Take::Key(key) = controller.queue().try_take(2) {
            controller.queue().done(key, 3);
        }
    });
    let mut sync = Sync::new();
    let key = controller.parents().intern("ns", "web");
    expect_none("a sync with nothing to do", || {
        controller.queue().add(key, 4);
        assert_eq!(controller.queue().try_take(5), Take::Key(key));
        assert_eq!(controller.begin(key, &mut sync, now), Step::Finished);
        controller.finish(&mut sync, now);
    });
}

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: Uid::new("2fedf159-f6c1-420e-adec-e8e0f7d72a87"),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A ReplicaSet with that many pods, all ready, whose status says so.
fn replica_set(labels: &Labels, replicas: i32) -> ReplicaSet {
    let mut object = ReplicaSet::default();
    object.metadata.name = "web".into();
    object.metadata.namespace = "ns".into();
    object.metadata.uid = owner().uid;
    object.metadata.resource_version = 5.into();
    object.metadata.generation = 1;
    object.spec.replicas = Some(replicas);
    object.spec.selector = Some(Arc::new(LabelSelector {
        match_labels: labels.clone(),
        match_expressions: Arc::new([]),
    }));
    let mut template = PodTemplate::default();
    template.metadata.labels = labels.clone();
    object.spec.template = Arc::new(template);
    object.status.replicas = replicas;
    object.status.fully_labeled_replicas = replicas;
    object.status.ready_replicas = replicas;
    object.status.available_replicas = replicas;
    object.status.terminating_replicas = Some(0);
    object.status.observed_generation = 1;
    object
}
