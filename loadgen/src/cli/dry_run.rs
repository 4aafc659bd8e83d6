//! `loadgen run -f FILE --dry-run`: what the files hold, what of it is left out, and what in it isn't as
//! wanted before anything has run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::deployment::find_new::new_and_old;
use podstorm::deployment::rollout::rollout_status;
use podstorm::intern::FIXED_STATE;
use podstorm::replicaset::TERMINATING_REPLICAS;
use podstorm::template::TemplateForm;
use podstorm_objects::{
    Deployment, ObjectMeta, OwnerReference, Pod, ReplicaSet, ReplicaSetStatus, Uid,
};
use podstorm_sim::nodes::why_unready;

use crate::input::InputObject;
use crate::manifest::Loaded;
use crate::owned_pods::OwnedPods;
use crate::report::terminal::workloads;
use crate::settings::Settings;
use crate::units::{count_for_people as count, counted};

/// Most lines of a kind of trouble.
const SHOWN_MAX: usize = 5;

/// What is known of the files.
#[derive(Default)]
struct Summary {
    /// Why active pods aren't ready.
    unready: BTreeMap<String, u64>,
    short: Vec<String>,
    too_many: Vec<String>,
    /// Owners and Deployments whose status isn't what their pods are.
    stale: Vec<String>,
    /// Rollouts that are not complete, by the pods and not by the status.
    rollouts: Vec<String>,
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
        "{} wanted, {}, {}{generated}, {}",
        counted(input.pods, "pod"),
        workloads(
            input.owners - input.replication_controllers,
            input.replication_controllers
        ),
        counted(input.nodes, "node"),
        counted(input.namespaces, "namespace"),
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
        ("rollouts", &found.rollouts),
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
            "{} whose owner isn't in the files, for the garbage collector to remove",
            counted(found.orphaned, "pod")
        );
        line("orphaned", &text);
    }
    let gate = TERMINATING_REPLICAS.is_on(&settings.controller.feature_gates);
    let lacks = |object: &&InputObject| match object {
        InputObject::ReplicaSet(set) => set.status.terminating_replicas.is_none(),
        _ => false,
    };
    let lacking = loaded.objects.iter().filter(lacks).count() as u64;
    if gate && lacking > 0 {
        let text = format!(
            "{} without status.terminatingReplicas, as before Kubernetes 1.36: the controller will \
             write each status once",
            counted(lacking, "ReplicaSet")
        );
        line("older", &text);
    }
    if found.is_as_wanted() {
        line(
            "as wanted",
            "every owner has its pods, every status is exact, every rollout complete",
        );
    }
    out.push_str("nothing was run\n");
    out
}

/// `1 pod`, `3 pods`.
fn pods(number: i32) -> String {
    match u64::try_from(number) {
        Ok(number) => counted(number, "pod"),
        // A status may say anything.
        Err(_) => format!("{number} pods"),
    }
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
        let mut owned: HashMap<&Uid, OwnedPods, RandomState> = HashMap::with_hasher(FIXED_STATE);
        for object in objects {
            if let InputObject::ReplicaSet(_) | InputObject::ReplicationController(_) = object {
                owned.insert(&object.metadata().uid, OwnedPods::default());
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
            let none = OwnedPods::default();
            let pods = owned.get(&meta.uid).unwrap_or(&none);
            summary.add_owner(object.kind().name(), meta, replicas, status, pods);
        }
        summary.add_deployments(objects, &owned);
        summary
    }

    fn add_deployments(
        &mut self,
        objects: &[InputObject],
        owned: &HashMap<&Uid, OwnedPods, RandomState>,
    ) {
        let mut sets: HashMap<&Uid, Vec<&ReplicaSet>, RandomState> =
            HashMap::with_hasher(FIXED_STATE);
        for object in objects {
            if let InputObject::ReplicaSet(set) = object
                && let Some(owner) = set.metadata.controller()
            {
                sets.entry(&owner.uid).or_default().push(set);
            }
        }
        for object in objects {
            if let InputObject::Dynamic(object) = object
                && let Some(deployment) = Deployment::of_untyped(&**object)
            {
                let sets = sets.remove(&deployment.metadata.uid).unwrap_or_default();
                self.add_deployment(deployment, &sets, owned);
            }
        }
    }

    fn add_deployment(
        &mut self,
        mut deployment: Deployment,
        sets: &[&ReplicaSet],
        owned: &HashMap<&Uid, OwnedPods, RandomState>,
    ) {
        let none = OwnedPods::default();
        let pods_of = |set: &ReplicaSet| owned.get(&set.metadata.uid).unwrap_or(&none);
        let mut all = OwnedPods::default();
        sets.iter().for_each(|set| all.add(pods_of(set)));
        let template = &deployment.spec.template;
        let formed = sets.iter();
        let mut formed: Vec<(&ReplicaSet, TemplateForm)> = formed
            .map(|set| (*set, TemplateForm::of(&set.spec.template)))
            .collect();
        let form = TemplateForm::of(template);
        let new = new_and_old(&mut formed, |it| it.0, |it| &it.1, template, &form);
        let updated = new.map_or(0, |at| pods_of(formed[at].0).active);
        let meta = &deployment.metadata;
        let name = format!("Deployment {}/{}", meta.namespace, meta.name);
        let status = &mut deployment.status;
        if status.observed_generation != meta.generation {
            self.stale
                .push(format!("{name} has a status of an older spec"));
        } else if (status.replicas, status.ready_replicas) != (all.active, all.ready) {
            self.stale.push(format!(
                "{name} says {}, {} ready, and has {}, {} ready",
                pods(status.replicas),
                status.ready_replicas,
                all.active,
                all.ready
            ));
        }
        // As the controller will find it.
        status.replicas = all.active;
        status.updated_replicas = updated;
        status.available_replicas = all.ready;
        let why = match rollout_status(&deployment, 0) {
            Ok(status) if status.done => return,
            _ if deployment.spec.paused => "it is paused".to_owned(),
            Ok(status) => all.problem(None).unwrap_or(status.message),
            Err(error) => all.problem(None).unwrap_or_else(|| error.to_string()),
        };
        self.rollouts.push(format!("{name} is not complete: {why}"));
    }

    fn add_pod(&mut self, pod: &Pod, owned: &mut HashMap<&Uid, OwnedPods, RandomState>) {
        let owner = pod
            .metadata
            .controller()
            .filter(|owner| matches!(&*owner.kind, "ReplicaSet" | "ReplicationController"));
        let ready = pod.is_ready();
        if let Some(owner) = owner {
            match owned.get_mut(&owner.uid) {
                None => self.orphaned += 1,
                Some(owned) if pod.is_active() => owned.count(pod),
                Some(_) => {}
            }
        }
        if pod.is_active() && !ready {
            *self.unready.entry(why_unready(pod).into()).or_default() += 1;
        }
    }

    fn add_owner(
        &mut self,
        kind: &str,
        meta: &ObjectMeta,
        replicas: i32,
        status: &ReplicaSetStatus,
        owned: &OwnedPods,
    ) {
        let name = format!("{kind} {}/{}", meta.namespace, meta.name);
        let trouble = format!("{name} wants {} and has {}", pods(replicas), owned.active);
        match owned.active.cmp(&replicas) {
            std::cmp::Ordering::Less => self.short.push(trouble),
            std::cmp::Ordering::Greater => self.too_many.push(trouble),
            std::cmp::Ordering::Equal => {}
        }
        let told = (status.replicas, status.ready_replicas);
        if told != (owned.active, owned.ready) {
            self.stale.push(format!(
                "{name} says {}, {} ready, and has {}, {} ready",
                pods(told.0),
                told.1,
                owned.active,
                owned.ready
            ));
        }
    }

    fn is_as_wanted(&self) -> bool {
        self.short.is_empty()
            && self.too_many.is_empty()
            && self.stale.is_empty()
            && self.rollouts.is_empty()
            && self.orphaned == 0
    }
}
