//! `explain` against a real controller: random clusters are scaled down by a controller in a
//! running cluster, and the pods that remain are compared with the answers of `explain`.

use std::path::PathBuf;
use std::sync::Arc;

use podstorm::object::{
    Kind, Now, Object, ObjectMeta, ReplicaSet, ReplicationController, Selector, Time,
};
use podstorm::policy::Behaviour;
use podstorm::replicaset::ControllerOptions;
use podstorm_apiserver::Cluster;
use podstorm_loadgen::explain::order::{Fate, Outcome, Question, outcome};
use podstorm_loadgen::explain::selection::Preferred;
use podstorm_loadgen::explain::{Objects, find, prefer};
use podstorm_loadgen::input::InputObject;
use podstorm_loadgen::manifest;
use podstorm_loadgen::settings::{EngineKind, Latency};
use podstorm_tests::harness::{Harness, SECOND_NS};
use serde_json::{Value, json};

/// A random cluster: two ReplicaSets of one Deployment, one ReplicaSet without an owner, and a
/// ReplicationController, with pods in all states.
struct Drawn {
    random: fastrand::Rng,
    now: Now,
    items: Vec<Value>,
}

const OWNERS: [(&str, &str); 4] = [
    ("ReplicaSet", "web-new"),
    ("ReplicaSet", "web-old"),
    ("ReplicaSet", "alone"),
    ("ReplicationController", "classic"),
];

fn uid(number: u128) -> String {
    podstorm::object::Uid::from_u128(0x7f42_0cbd_206a_47ea_a64a_0000_0000_0000 + number).to_string()
}

impl Drawn {
    fn cluster(seed: u64, now: Now) -> Vec<InputObject> {
        let mut drawn = Drawn {
            random: fastrand::Rng::with_seed(seed),
            now,
            items: Vec::new(),
        };
        for number in 0..OWNERS.len() {
            drawn.owner(number);
        }
        for number in 0..80 {
            drawn.pod(number);
        }
        let list = json!({"kind": "List", "apiVersion": "v1", "items": drawn.items}).to_string();
        let loaded = manifest::load(&[PathBuf::from("-")], list.as_bytes());
        loaded.expect("drawn objects are valid").objects
    }

    fn owner(&mut self, number: usize) {
        let (kind, name) = OWNERS[number];
        let mut object = json!({
            "apiVersion": if kind == "ReplicaSet" { "apps/v1" } else { "v1" },
            "kind": kind,
            "metadata": {"name": name, "namespace": "default", "uid": uid(number as u128)},
            "spec": {
                "replicas": 40,
                "selector": {"app": name},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "registry.example/i"}]},
                },
            },
        });
        if kind == "ReplicaSet" {
            object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        }
        if name.starts_with("web") {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "uid": uid(999), "controller": true,
            }]);
        }
        self.items.push(object);
    }

    /// Returns one of a few past times, so that many pods share one.
    fn moment(&mut self, least_seconds: i64) -> String {
        let ago = least_seconds + [0, 1, 2, 400, 40_000, 900_000][self.random.usize(..6)];
        let now = self.now.wall().unix_seconds().expect("the present is set");
        Time::from_unix_seconds(now - ago).to_string()
    }

    fn pod(&mut self, number: usize) {
        let owner = self.random.usize(..OWNERS.len());
        let (kind, name) = OWNERS[owner];
        let ready = self.random.u8(..10) < 7;
        let phase = match self.random.u8(..20) {
            0 => "Pending",
            1 => "Unknown",
            2 => "Failed",
            _ => "Running",
        };
        let label = if self.random.u8(..30) == 0 {
            "other"
        } else {
            name
        };
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{number:03}"),
                "namespace": "default",
                "uid": uid(self.random.u128(..1 << 40) << 8 | number as u128),
                "creationTimestamp": self.moment(20_000),
                "labels": {"app": label, "tier": if self.random.bool() { "a" } else { "b" }},
            },
            "spec": {"containers": [{"name": "c", "image": "registry.example/i"}]},
            "status": {
                "phase": phase,
                "conditions": [{
                    "type": "Ready",
                    "status": if ready { "True" } else { "False" },
                    "lastTransitionTime": self.moment(19_000),
                }],
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "", "ready": ready,
                    "restartCount": if self.random.u8(..4) == 0 { 3 } else { 0 },
                }],
            },
        });
        if self.random.u8(..12) > 0 {
            let node = format!("node-{}", self.random.u8(..6));
            pod["spec"]["nodeName"] = json!(node);
        }
        if self.random.u8(..15) > 0 {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": if kind == "ReplicaSet" { "apps/v1" } else { "v1" },
                "kind": kind, "name": name, "uid": uid(owner as u128), "controller": true,
            }]);
        }
        if self.random.u8(..6) == 0 {
            let cost = self.random.i32(-2..3).to_string();
            pod["metadata"]["annotations"] =
                json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        }
        self.items.push(pod);
    }
}

/// Lets a real controller scale the object down. Returns the names of the active pods that it
/// keeps.
fn scaled_down(input: &[InputObject], question: &Question) -> Vec<String> {
    let mut harness = Harness::without_nodes(EngineKind::Virtual, |options| {
        let burst = u32::try_from(question.options.burst_replicas);
        options.controller.burst_replicas = burst.expect("bursts are small here");
        options.policy = question.options.policy;
        // The controller must finish before a pending pod runs.
        options.latency.pod_startup = Latency::Constant(100 * SECOND_NS);
    });
    let now = harness.now();
    let asked = &question.object.metadata;
    for object in input.iter().cloned() {
        // Only the owner in question is scaled. The others serve for ranking and keep their pods.
        let imported = match object {
            InputObject::Pod(pod) => harness.cluster().import(*pod, now).map(drop),
            InputObject::Owner(owner) => {
                let owner: &dyn Object = &*owner;
                let replicas = match owner.metadata().uid == asked.uid {
                    true => question.replicas,
                    false => Some(claimed_by(input, owner.metadata())),
                };
                if let Some(mut set) = owner.downcast_ref::<ReplicaSet>().cloned() {
                    set.spec.replicas = replicas;
                    harness.cluster().import(set, now).map(drop)
                } else {
                    let rc = owner.downcast_ref::<ReplicationController>();
                    let mut rc = rc.expect("no other owner is drawn").clone();
                    rc.replicas = replicas;
                    harness.cluster().import(rc, now).map(drop)
                }
            }
            other => panic!("{} is not drawn", other.kind().name()),
        };
        imported.expect("the object is taken over");
    }
    harness.settle();
    kept(harness.cluster(), &question.object)
}

/// Returns the number of replicas at which an owner changes none of its pods, including those that
/// it adopts.
fn claimed_by(input: &[InputObject], owner: &ObjectMeta) -> i32 {
    let mut counted = 0;
    for object in input {
        if let InputObject::Pod(pod) = object {
            let controller = pod.metadata.controller();
            let may_be_own = controller.is_none_or(|controller| controller.uid == owner.uid);
            let label = pod.metadata.labels.get("app").map(|label| &**label);
            let matches = label == Some(owner.name.as_str());
            counted += i32::from(may_be_own && matches && pod.is_active());
        }
    }
    counted
}

fn kept(cluster: &Cluster, object: &ReplicaSet) -> Vec<String> {
    let mut names: Vec<String> = podstorm_tests::harness::pods(cluster)
        .iter()
        .filter(|pod| {
            let owner = pod.metadata.controller();
            pod.is_active() && owner.is_some_and(|owner| owner.uid == object.metadata.uid)
        })
        .map(|pod| pod.metadata.name.to_string())
        .collect();
    names.sort();
    names
}

fn names(outcome: &Outcome, fates: &[Fate]) -> Vec<String> {
    let mut names: Vec<String> = (0..outcome.rows.len())
        .filter(|place| fates.contains(&outcome.fate(*place)))
        .map(|place| outcome.rows[place].ranked.pod.metadata.name.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn explain_names_the_pods_that_a_controller_deletes() {
    let now = Harness::new(EngineKind::Virtual).now();
    let (mut settled, mut open, mut rounds) = (0, 0, 0);
    for seed in 0..60 {
        let input = Drawn::cluster(seed, now);
        let objects = Objects::new(input.clone()).expect("objects with pods");
        let mut random = fastrand::Rng::with_seed(seed);
        let (kind, name) = OWNERS[random.usize(..OWNERS.len())];
        let kind = match kind {
            "ReplicaSet" => Kind::REPLICA_SET,
            _ => Kind::REPLICATION_CONTROLLER,
        };
        let mut options = ControllerOptions::new(kind);
        options.burst_replicas = if random.bool() { 4 } else { 500 };
        if random.u8(..4) == 0 {
            options.policy = Behaviour::Hardened.policy();
        }
        let question = Question {
            object: find::find(&objects, kind, name).expect("a generated object"),
            replicas: Some(random.i32(0..14)),
            options,
            now,
        };
        let told = outcome(&objects, &question, &[]).expect("the selector is valid");
        let left = scaled_down(&input, &question);
        let wanted = usize::try_from(told.replicas()).expect("a non-negative number");
        assert_eq!(
            told.rows.len() - told.to_delete,
            wanted.min(told.rows.len())
        );
        assert_eq!(
            left.len().min(told.rows.len()),
            told.rows.len() - told.to_delete,
            "seed {seed}"
        );
        let certain = names(&told, &[Fate::Kept]);
        let possible = names(
            &told,
            &[Fate::Kept, Fate::KeptOrDeleted, Fate::DeletedOrKept],
        );
        if told.to_delete > 0 {
            for name in &certain {
                assert!(
                    left.contains(name),
                    "seed {seed}: {name} should stay: {left:?}"
                );
            }
            for name in &left {
                assert!(
                    possible.contains(name),
                    "seed {seed}: {name} should go: {told:?}"
                );
            }
        }
        match told.open {
            None => settled += 1,
            Some(_) => open += 1,
        }
        rounds += usize::from(told.syncs > 1);
    }
    assert!(
        settled >= 20 && open >= 5 && rounds >= 10,
        "{settled} {open} {rounds}"
    );
}

#[test]
fn advised_annotations_make_the_wanted_pods_go() {
    let now = Harness::new(EngineKind::Virtual).now();
    let (mut annotated, mut more) = (0, 0);
    for seed in 100..150 {
        let input = Drawn::cluster(seed, now);
        let objects = Objects::new(input.clone()).expect("objects with pods");
        let mut random = fastrand::Rng::with_seed(seed);
        let question = Question {
            object: find::find(&objects, Kind::REPLICA_SET, OWNERS[random.usize(..3)].1)
                .expect("a generated object"),
            replicas: Some(random.i32(4..12)),
            options: ControllerOptions::new(Kind::REPLICA_SET),
            now,
        };
        let told = outcome(&objects, &question, &[]).expect("the selector is valid");
        let preferred = Preferred {
            pods: Some((
                "tier=a".to_owned(),
                Selector::parse("tier=a").expect("valid"),
            )),
            ..Preferred::default()
        };
        let wished = preferred.find(&objects, &told).expect("some are");
        let advice = prefer::advise(&objects, &question, &told, &wished).expect("an advice");
        // A real controller deletes at least the promised number of the wanted pods.
        let mut input = input;
        let mut wished_pods = Vec::new();
        for (place, row) in told.rows.iter().enumerate() {
            let name = &row.ranked.pod.metadata.name;
            if wished.rows[place] {
                wished_pods.push(name.to_string());
            }
            let Some((_, cost)) = advice.costs.iter().find(|(at, _)| *at == place) else {
                continue;
            };
            for object in &mut input {
                if let InputObject::Pod(pod) = object
                    && pod.metadata.name == *name
                {
                    pod.metadata.annotations = pod.metadata.annotations.with(
                        podstorm::ranking::DELETION_COST_ANNOTATION,
                        &cost.to_string(),
                    );
                }
            }
        }
        let left = scaled_down(&input, &question);
        let gone = wished_pods
            .iter()
            .filter(|name| !left.contains(name))
            .count();
        if told.to_delete > 0 {
            assert!(
                gone >= advice.after,
                "seed {seed}: {gone} of {}",
                advice.after
            );
            assert!(advice.after >= advice.before, "seed {seed}");
            let reached = advice.wished - advice.unreachable.len();
            assert!(reached >= advice.after, "seed {seed}");
        }
        annotated += usize::from(!advice.costs.is_empty());
        more += usize::from(advice.after > advice.before);
    }
    assert!(annotated >= 10 && more >= 10, "{annotated} {more}");
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let now = Harness::new(EngineKind::Virtual).now();
    let mut input = Drawn::cluster(5, now);
    let ask = |input: Vec<InputObject>| {
        let objects = Objects::new(input).expect("objects with pods");
        let question = Question {
            object: find::find(&objects, Kind::REPLICA_SET, "web-new").expect("a generated object"),
            replicas: Some(3),
            options: ControllerOptions::new(Kind::REPLICA_SET),
            now,
        };
        let told = outcome(&objects, &question, &[]).expect("the selector is valid");
        let rows = told.rows.iter();
        rows.map(|row| Arc::clone(&row.ranked.pod).metadata.name.to_string())
            .collect::<Vec<_>>()
    };
    let first = ask(input.clone());
    input.reverse();
    assert_eq!(ask(input), first);
    assert!(first.len() > 10);
}
