//! `loadgen run -f FILE --dry-run`: what the files hold, what of it is left out, and what in it isn't as
//! wanted before anything has run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Object, ObjectMeta, OwnerReference, Pod, PodPhase, ReplicaSetStatus, Uid};
use serde_json::Value;

use crate::input::InputObject;
use crate::manifest::Loaded;
use crate::settings::Settings;
use crate::units::count_for_people as count;

/// Most lines of a kind of trouble.
const SHOWN_MAX: usize = 5;

/// The pods of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Owned {
    active: i32,
    ready: i32,
}

/// What is known of the files.
#[derive(Default)]
struct Summary {
    /// Why active pods aren't ready.
    unready: BTreeMap<String, u64>,
    short: Vec<String>,
    too_many: Vec<String>,
    /// Owners whose status isn't what their pods are.
    stale: Vec<String>,
    /// Pods whose owner isn't among the objects: a ReplicaSet or ReplicationController, or one of a kind without
    /// a type of its own of which there are others.
    orphaned: u64,
}

/// The summary as text.
pub(super) fn summary(loaded: &Loaded, settings: &Settings) -> String {
    let (size, input) = (&settings.size, &loaded.size);
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        let _infallible = writeln!(out, "  {label:13}{text}");
    };
    line("scenario", &settings.scenario.name);
    line("found", &listed(&loaded.counts.taken));
    if !loaded.counts.ignored.is_empty() {
        let ignored = listed(&loaded.counts.ignored);
        line("left out", &format!("{ignored} (not simulated)"));
    }
    let generated = match size.nodes {
        0 => String::new(),
        nodes => format!(" and {} generated ones", count(nodes)),
    };
    let wanted = format!(
        "{} pods wanted, {} ReplicaSets and ReplicationControllers, {} nodes{generated}, {} namespaces",
        count(input.pods),
        count(input.owners),
        count(input.nodes),
        count(input.namespaces),
    );
    line("cluster", &wanted);
    let pods = loaded.counts.pods.in_words();
    if !pods.is_empty() {
        line("pods", &pods);
    }
    let found = Summary::of(&loaded.objects);
    if !found.unready.is_empty() {
        line("not ready", &listed(&found.unready));
    }
    for (label, troubles) in [
        ("short", &found.short),
        ("too many", &found.too_many),
        ("status", &found.stale),
    ] {
        for (number, trouble) in troubles.iter().take(SHOWN_MAX).enumerate() {
            line(if number == 0 { label } else { "" }, trouble);
        }
        if let more @ 1.. = troubles.len().saturating_sub(SHOWN_MAX) {
            line("", &format!("and {} more", count(more as u64)));
        }
    }
    if found.orphaned > 0 {
        let text = format!(
            "{} pods whose owner isn't in the files: the garbage collector will remove them",
            count(found.orphaned)
        );
        line("orphaned", &text);
    }
    let gate = settings
        .controller
        .gate("DeploymentReplicaSetTerminatingReplicas");
    let lacks = |object: &&InputObject| match object {
        InputObject::ReplicaSet(set) => set.status.terminating_replicas.is_none(),
        _ => false,
    };
    let lacking = loaded.objects.iter().filter(lacks).count() as u64;
    if gate && lacking > 0 {
        let text = format!(
            "{} ReplicaSets have no status.terminatingReplicas, as before Kubernetes 1.36: the \
             controller will write each status once",
            count(lacking)
        );
        line("older", &text);
    }
    if found.is_as_wanted() {
        line("as wanted", "every owner has its pods, and an exact status");
    }
    out.push_str("nothing was run\n");
    out
}

/// `Pod: 5,000, ReplicaSet: 100`.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let counts = counts.iter();
    let counts: Vec<String> = counts
        .map(|(name, number)| format!("{name}: {}", count(*number)))
        .collect();
    counts.join(", ")
}

impl Summary {
    fn of(objects: &[InputObject]) -> Summary {
        let mut summary = Summary::default();
        let mut owned: HashMap<&Uid, Owned, RandomState> = HashMap::with_hasher(FIXED_STATE);
        for object in objects {
            if let InputObject::ReplicaSet(_) | InputObject::ReplicationController(_) = object {
                owned.insert(&object.metadata().uid, Owned::default());
            }
        }
        let dynamic = || {
            let all = objects.iter();
            all.filter(|object| matches!(object, InputObject::Dynamic(_)))
        };
        let kinds: BTreeSet<&str> = dynamic().map(|object| object.kind().name()).collect();
        let uids: BTreeSet<&Uid> = dynamic().map(|object| &object.metadata().uid).collect();
        for object in objects {
            if let InputObject::Pod(pod) = object {
                summary.add_pod(pod, &mut owned);
                let is_gone = |owner: &OwnerReference| {
                    kinds.contains(&*owner.kind) && !uids.contains(&owner.uid)
                };
                let owner = pod.metadata.controller();
                summary.orphaned += u64::from(owner.is_some_and(|owner| is_gone(owner)));
            }
        }
        for object in objects {
            let (replicas, status) = match object {
                InputObject::ReplicaSet(set) => (set.replicas(), &set.status),
                InputObject::ReplicationController(rc) => (rc.replicas.unwrap_or(1), &rc.status),
                _ => continue,
            };
            let meta = object.metadata();
            let pods = owned.get(&meta.uid).copied().unwrap_or_default();
            summary.add_owner(object.kind().name(), meta, replicas, status, pods);
        }
        summary
    }

    fn add_pod(&mut self, pod: &Pod, owned: &mut HashMap<&Uid, Owned, RandomState>) {
        let owner = pod
            .metadata
            .controller()
            .filter(|owner| matches!(&*owner.kind, "ReplicaSet" | "ReplicationController"));
        let ready = pod.is_ready();
        if let Some(owner) = owner {
            match owned.get_mut(&owner.uid) {
                None => self.orphaned += 1,
                Some(owned) if pod.is_active() => {
                    owned.active += 1;
                    owned.ready += i32::from(ready);
                }
                Some(_) => {}
            }
        }
        if pod.is_active() && !ready {
            *self.unready.entry(why_unready(pod)).or_default() += 1;
        }
    }

    fn add_owner(
        &mut self,
        kind: &str,
        meta: &ObjectMeta,
        replicas: i32,
        status: &ReplicaSetStatus,
        pods: Owned,
    ) {
        let name = format!("{kind} {}/{}", meta.namespace, meta.name);
        let trouble = format!("{name} wants {replicas} pods and has {}", pods.active);
        match pods.active.cmp(&replicas) {
            std::cmp::Ordering::Less => self.short.push(trouble),
            std::cmp::Ordering::Greater => self.too_many.push(trouble),
            std::cmp::Ordering::Equal => {}
        }
        let told = (status.replicas, status.ready_replicas);
        if told != (pods.active, pods.ready) {
            self.stale.push(format!(
                "{name} says {} pods, {} ready, and has {}, {} ready",
                told.0, told.1, pods.active, pods.ready
            ));
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.short.is_empty()
            && self.too_many.is_empty()
            && self.stale.is_empty()
            && self.orphaned == 0
    }
}

/// Why a pod isn't ready, as `kubectl get pods` has it in its column STATUS.
fn why_unready(pod: &Pod) -> String {
    let status = &pod.to_json()["status"];
    let reason = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let containers = status["containerStatuses"].as_array();
    let waiting = containers.into_iter().flatten().find_map(|container| {
        let state = &container["state"];
        reason(&state["waiting"]["reason"]).or_else(|| reason(&state["terminated"]["reason"]))
    });
    let why = reason(&status["reason"]).or(waiting).unwrap_or_else(|| {
        match (pod.status.phase, &pod.node_name) {
            (PodPhase::Pending | PodPhase::Unset, None) => "Pending without a node".to_owned(),
            (PodPhase::Pending | PodPhase::Unset, Some(_)) => "Pending".to_owned(),
            _ => "Running".to_owned(),
        }
    });
    why.chars().take(SHOWN_CHARS).collect()
}

/// Most characters of a reason.
const SHOWN_CHARS: usize = 60;
