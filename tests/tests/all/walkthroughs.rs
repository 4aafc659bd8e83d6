//! Walkthroughs: what a ReplicaSet does for its user, from manifests, on both engines.

#![expect(
    clippy::unwrap_used,
    reason = "each walkthrough is a test, called from two modules"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::object::{
    Kind, Namespace, Object, Pod, Regarding, ReplicaSet, ReplicationController,
};
use podstorm_apiserver::{Cluster, DeleteOptions, Propagation};
use podstorm_loadgen::settings::{EngineKind, Latency};
use podstorm_tests::harness::{Harness, NAMESPACE, SECOND_NS, owned, pods};
use serde_json::json;

/// Makes each walkthrough a test on each engine.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod on_virtual {
            $(#[test] fn $name() { super::$name(podstorm_loadgen::settings::EngineKind::Virtual) })*
        }
        mod on_threads {
            $(#[test] fn $name() { super::$name(podstorm_loadgen::settings::EngineKind::Threads) })*
        }
    };
}

on_both_engines! {
    a_frontend_starts,
    later_pods_are_adopted_and_the_surplus_deleted,
    earlier_pods_are_kept_and_missing_ones_created,
    a_relabelled_pod_is_replaced_and_surplus_on_return,
    the_scale_subresource_scales,
    the_deletion_cost_decides_between_equals,
    background_deletion_deletes_the_pods,
    foreground_deletion_waits_for_the_pods,
    a_deleted_namespace_loses_everything_and_stays_empty,
    orphans_are_adopted_by_a_successor,
    a_recreated_replica_set_has_new_pods,
    pods_become_available_after_min_ready_seconds,
    a_replication_controller_does_the_same,
    two_with_one_selector_ignore_each_others_pods,
    many_replicas_arrive_in_bursts_of_500,
}

fn names(pods: &[Arc<Pod>]) -> BTreeSet<String> {
    pods.iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect()
}

fn frontend(engine: EngineKind) -> Harness {
    let mut harness = Harness::new(engine);
    harness.apply("frontend.yaml");
    harness.until_ready("frontend", 3);
    harness
}

fn is_gone(cluster: &Cluster) -> bool {
    cluster.get::<ReplicaSet>(NAMESPACE, "frontend").is_err()
}

fn a_frontend_starts(engine: EngineKind) {
    let harness = frontend(engine);
    let set = harness.replica_set("frontend");
    assert_eq!(set.status.fully_labeled_replicas, 3);
    assert!(set.status.conditions.is_empty());
    let pods = harness.pods();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        let [owner] = &pod.metadata.owner_references[..] else {
            panic!("{pod:?}")
        };
        assert_eq!(&*owner.api_version, "apps/v1");
        assert_eq!(&*owner.kind, "ReplicaSet");
        assert_eq!((&*owner.name, &owner.uid), ("frontend", &set.metadata.uid));
        assert_eq!(owner.controller, Some(true));
        assert_eq!(owner.block_owner_deletion, Some(true));
        let suffix = pod.metadata.name.strip_prefix("frontend-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .chars()
                .all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
            "{suffix}"
        );
        assert_eq!(pod.metadata.labels, set.spec.template.metadata.labels);
        assert!(pod.node_name.is_some());
    }
    let events = harness.events();
    assert_eq!(events.len(), 3);
    let told: BTreeSet<String> = events
        .iter()
        .map(|event| {
            let fields = event.to_json();
            assert_eq!(fields["type"], "Normal");
            assert_eq!(fields["reason"], "SuccessfulCreate");
            assert_eq!(fields["count"], 1);
            assert_eq!(fields["source"]["component"], "replicaset-controller");
            assert_eq!(fields["involvedObject"]["apiVersion"], "apps/v1");
            assert_eq!(fields["involvedObject"]["kind"], "ReplicaSet");
            assert_eq!(
                fields["involvedObject"]["uid"],
                set.metadata.uid.to_string()
            );
            assert!(event.metadata.name.starts_with("frontend."));
            let message = fields["message"].as_str().unwrap();
            message.strip_prefix("Created pod: ").unwrap().to_owned()
        })
        .collect();
    assert_eq!(told, names(&pods));
}

fn later_pods_are_adopted_and_the_surplus_deleted(engine: EngineKind) {
    // Pods start slowly enough that the new ones are not ready when the controller sees them.
    let mut harness = Harness::with(engine, |options| {
        options.latency.pod_startup = Latency::Constant(SECOND_NS);
    });
    harness.apply("frontend.yaml");
    harness.until_ready("frontend", 3);
    let before = names(&harness.pods());
    harness.apply("bare-pods.yaml");
    harness.until("the deletion of the surplus", |cluster| {
        cluster.write_counts().pods.deleted == 2
    });
    harness.until_ready("frontend", 3);
    // The new pods were not ready yet, so they were deleted first.
    assert_eq!(names(&harness.pods()), before);
    let totals = harness.cluster().write_counts().pods;
    assert_eq!((totals.adopted, totals.deleted, totals.created), (2, 2, 5));
}

fn earlier_pods_are_kept_and_missing_ones_created(engine: EngineKind) {
    let mut harness = Harness::new(engine);
    harness.apply("bare-pods.yaml");
    let ready = |cluster: &Cluster| pods(cluster).iter().filter(|pod| pod.is_ready()).count();
    harness.until("two ready pods", |cluster| ready(cluster) == 2);
    harness.apply("frontend.yaml");
    harness.until_ready("frontend", 3);
    let set = harness.replica_set("frontend");
    let pods = harness.pods();
    let names = names(&pods);
    assert!(
        names.contains("pod1") && names.contains("pod2"),
        "{names:?}"
    );
    assert_eq!(owned(&pods, &set.metadata.uid).len(), 3);
    // The bare pods lack a label of the template.
    assert_eq!(set.status.fully_labeled_replicas, 1);
    let totals = harness.cluster().write_counts().pods;
    assert_eq!((totals.adopted, totals.deleted, totals.created), (2, 0, 3));
}

fn a_relabelled_pod_is_replaced_and_surplus_on_return(engine: EngineKind) {
    let mut harness = frontend(engine);
    let name = harness.pods()[0].metadata.name.clone();
    harness.patch_pod(&name, &json!({"metadata": {"labels": {"tier": "debug"}}}));
    harness.until("a replacement", |cluster| pods(cluster).len() == 4);
    harness.until_ready("frontend", 3);
    let isolated: Arc<Pod> = harness.cluster().get(NAMESPACE, &name).unwrap();
    assert!(isolated.metadata.owner_references.is_empty());
    assert_eq!(harness.pods().len(), 4);

    harness.patch_pod(
        &name,
        &json!({"metadata": {"labels": {"tier": "frontend"}}}),
    );
    harness.until("the end of the surplus", |cluster| pods(cluster).len() == 3);
    harness.until_ready("frontend", 3);
    let totals = harness.cluster().write_counts().pods;
    assert_eq!((totals.released, totals.adopted, totals.deleted), (1, 1, 1));
}

fn the_scale_subresource_scales(engine: EngineKind) {
    let mut harness = frontend(engine);
    for replicas in [5, 2, 0, 1] {
        harness.scale("frontend", replicas);
        harness.until_ready("frontend", usize::try_from(replicas).unwrap());
        let scale = harness
            .cluster()
            .get_scale::<ReplicaSet>(NAMESPACE, "frontend")
            .unwrap();
        assert_eq!(scale.replicas, replicas);
        assert_eq!(scale.status_replicas, replicas);
        assert_eq!(scale.selector, "tier=frontend");
    }
}

fn the_deletion_cost_decides_between_equals(engine: EngineKind) {
    let mut harness = frontend(engine);
    let left = |harness: &Harness| -> Vec<String> {
        let pods = harness.pods().into_iter();
        pods.map(|pod| pod.metadata.name.to_string()).collect()
    };
    let names = left(&harness);
    let cost = |harness: &Harness, name: &str, cost: &str| {
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        harness.patch_pod(name, &json!({"metadata": {"annotations": annotations}}));
    };
    cost(&harness, &names[0], "10");
    cost(&harness, &names[1], "-1");
    // The controller must see the annotations before it chooses.
    harness.settle();
    harness.scale("frontend", 2);
    harness.until_ready("frontend", 2);
    assert_eq!(left(&harness), [names[0].clone(), names[2].clone()]);
    harness.scale("frontend", 1);
    harness.until_ready("frontend", 1);
    assert_eq!(left(&harness), names[..1]);
}

fn background_deletion_deletes_the_pods(engine: EngineKind) {
    let mut harness = frontend(engine);
    harness.delete_replica_set("frontend", Propagation::Background);
    assert!(is_gone(harness.cluster()));
    harness.until("no pods", |cluster| pods(cluster).is_empty());
    harness.settle();
    assert_not_replaced(&harness, engine);
    assert!(harness.pods().is_empty());
}

/// Asserts that the three pods of `frontend`, which was deleted with them, were not replaced.
///
/// Pods and ReplicaSets have separate watches without a common order. On threads the controller may
/// see the end of the pods before that of the ReplicaSet. Then it replaces the pods once, as
/// upstream does, and the replacements are collected too.
fn assert_not_replaced(harness: &Harness, engine: EngineKind) {
    let created = harness.cluster().write_counts().pods.created;
    match engine {
        EngineKind::Virtual => assert_eq!(created, 3),
        EngineKind::Threads => assert!(created == 3 || created == 6, "{created} created"),
    }
}

fn foreground_deletion_waits_for_the_pods(engine: EngineKind) {
    let mut harness = Harness::with(engine, |options| {
        options.latency.pod_termination = Latency::Constant(SECOND_NS);
    });
    harness.apply("frontend.yaml");
    harness.until_ready("frontend", 3);
    let set = harness.delete_replica_set("frontend", Propagation::Foreground);
    assert!(set.metadata.is_deleting());
    assert!(
        set.metadata
            .finalizers()
            .iter()
            .any(|name| &**name == "foregroundDeletion")
    );
    let mut last_seen = usize::MAX;
    harness.until("the end of the ReplicaSet", |cluster| {
        let gone = is_gone(cluster);
        // Read after the ReplicaSet, so pods that remain now also remained then.
        let left = pods(cluster).len();
        if gone {
            last_seen = left;
        }
        gone
    });
    assert_eq!(last_seen, 0, "the ReplicaSet ended before its pods");
    harness.settle();
    assert_not_replaced(&harness, engine);
    assert!(harness.pods().is_empty());
}

fn a_deleted_namespace_loses_everything_and_stays_empty(engine: EngineKind) {
    let mut harness = Harness::with(engine, |options| {
        options.latency.pod_termination = Latency::Constant(SECOND_NS);
    });
    harness.apply("frontend.yaml");
    harness.until_ready("frontend", 3);
    let options = DeleteOptions::default();
    let deletion = harness
        .cluster()
        .delete::<Namespace>("", NAMESPACE, &options, harness.now());
    assert!(!deletion.unwrap().removed);
    let mut left = 0;
    harness.until("the end of the namespace", |cluster| {
        let gone = cluster.get::<Namespace>("", NAMESPACE).is_err();
        left = pods(cluster).len();
        left += usize::from(!is_gone(cluster));
        gone
    });
    assert_eq!(left, 0, "the namespace ended before its content");
    harness.settle();
    assert!(harness.events().is_empty());
    // The controller could not replace the pods.
    assert_eq!(harness.cluster().write_counts().pods.created, 3);
}

fn orphans_are_adopted_by_a_successor(engine: EngineKind) {
    let mut harness = frontend(engine);
    let before = names(&harness.pods());
    harness.delete_replica_set("frontend", Propagation::Orphan);
    harness.until("the end of the ReplicaSet", is_gone);
    harness.settle();
    let orphans = harness.pods();
    assert_eq!(names(&orphans), before);
    assert!(
        orphans
            .iter()
            .all(|pod| pod.metadata.owner_references.is_empty())
    );

    harness.apply("frontend-next.yaml");
    harness.until_ready("frontend-next", 3);
    let pods = harness.pods();
    assert_eq!(names(&pods), before);
    // Pods are adopted unchanged: the new template applies only to future pods.
    assert!(
        pods.iter()
            .all(|pod| pod.metadata.labels.get("release").is_none())
    );
    assert_eq!(
        harness
            .replica_set("frontend-next")
            .status
            .fully_labeled_replicas,
        0
    );
    assert_eq!(harness.cluster().write_counts().pods.created, 3);
}

fn a_recreated_replica_set_has_new_pods(engine: EngineKind) {
    let mut harness = frontend(engine);
    let (old, before) = (harness.replica_set("frontend"), names(&harness.pods()));
    harness.delete_replica_set("frontend", Propagation::Background);
    harness.apply("frontend.yaml");
    let new = harness.replica_set("frontend");
    assert_ne!(old.metadata.uid, new.metadata.uid);
    harness.until("the end of the old pods", |cluster| {
        let pods = pods(cluster);
        owned(&pods, &old.metadata.uid).is_empty()
    });
    harness.until_ready("frontend", 3);
    assert!(names(&harness.pods()).is_disjoint(&before));
    assert_eq!(harness.pods().len(), 3);
}

fn pods_become_available_after_min_ready_seconds(engine: EngineKind) {
    let mut harness = Harness::new(engine);
    harness.apply("slow.yaml");
    let status = |cluster: &Cluster| {
        cluster
            .get::<ReplicaSet>(NAMESPACE, "slow")
            .unwrap()
            .status
            .clone()
    };
    harness.until("two ready pods", |cluster| {
        status(cluster).ready_replicas == 2
    });
    assert_eq!(status(harness.cluster()).available_replicas, 0);
    let ready_at = harness.now();
    harness.until("two available pods", |cluster| {
        status(cluster).available_replicas == 2
    });
    // Timestamps have whole seconds, so up to one of the three may have elapsed already.
    let waited_ns = harness.now().mono_ns - ready_at.mono_ns;
    assert!(
        waited_ns > 3 * SECOND_NS / 2,
        "available after {waited_ns} ns"
    );
    harness.until_ready("slow", 2);
}

fn a_replication_controller_does_the_same(engine: EngineKind) {
    let mut harness = Harness::new(engine);
    harness.apply("nginx-rc.yaml");
    let get = |cluster: &Cluster| {
        cluster
            .get::<ReplicationController>(NAMESPACE, "nginx")
            .unwrap()
    };
    harness.until("three ready pods", |cluster| {
        get(cluster).status.available_replicas == 3
    });
    harness.settle();
    let controller = get(harness.cluster());
    assert_eq!(controller.status.replicas, 3);
    assert_eq!(controller.status.terminating_replicas, None);
    let pods = harness.pods();
    assert_eq!(owned(&pods, &controller.metadata.uid).len(), 3);
    for pod in &pods {
        let owner = pod.metadata.controller().unwrap();
        let kind = Kind::REPLICATION_CONTROLLER;
        assert_eq!((&*owner.api_version, &*owner.kind), ("v1", kind.name()));
        assert!(pod.metadata.name.starts_with("nginx-"));
    }
    for event in harness.events() {
        assert_eq!(&*event.topic.component, "replication-controller");
        let Some(Regarding::Object(about)) = &event.regarding else {
            panic!("{event:?}")
        };
        assert_eq!(about.kind, Kind::REPLICATION_CONTROLLER);
    }
    assert_eq!(harness.events().len(), 3);
}

fn two_with_one_selector_ignore_each_others_pods(engine: EngineKind) {
    let mut harness = frontend(engine);
    let before = names(&harness.pods());
    harness.apply("frontend-next.yaml");
    harness.until_ready("frontend-next", 3);
    harness.until_ready("frontend", 3);
    let pods = harness.pods();
    assert_eq!(pods.len(), 6);
    let first = owned(&pods, &harness.replica_set("frontend").metadata.uid);
    assert_eq!(names(&first), before);
    harness.scale("frontend-next", 1);
    harness.until_ready("frontend-next", 1);
    harness.until_ready("frontend", 3);
    let first = owned(
        &harness.pods(),
        &harness.replica_set("frontend").metadata.uid,
    );
    assert_eq!(names(&first), before);
    let totals = harness.cluster().write_counts().pods;
    assert_eq!((totals.adopted, totals.released, totals.created), (0, 0, 6));
}

fn many_replicas_arrive_in_bursts_of_500(engine: EngineKind) {
    // The controller continues when it has seen its pods, two seconds later.
    let mut harness = Harness::with(engine, |options| {
        options.latency.watch = Latency::Constant(2 * SECOND_NS);
    });
    harness.apply("large.yaml");
    harness.until("1200 pods", |cluster| cluster.count::<Pod>() == 1200);
    let mut created: Vec<i64> = harness
        .pods()
        .iter()
        .map(|pod| pod.metadata.creation_timestamp.unix_seconds().unwrap())
        .collect();
    created.sort_unstable();
    let bursts: Vec<usize> = created
        .chunk_by(|a, b| b - a < 2)
        .map(<[i64]>::len)
        .collect();
    assert_eq!(bursts, [500, 500, 200]);
    // All watches lag. Waiting for them is cheap only on virtual time.
    if engine == EngineKind::Virtual {
        harness.until_ready("large", 1200);
        assert_eq!(harness.cluster().write_counts().pods.created, 1200);
    }
}
