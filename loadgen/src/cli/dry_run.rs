//! `loadgen run -f FILE --dry-run`: a summary of the files. It counts their objects, lists the kinds
//! that are not simulated, and reports deviations from the desired state before the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{ObjectMeta, OwnerReference, Pod, Uid};
use podstorm_sim::nodes::why_unready;

use crate::input::InputObject;
use crate::manifest::Loaded;
use crate::owned_pods::{OwnedPods, PodsByOwner, pods};
use crate::settings::Settings;
use crate::units::{count_for_people as count, counted};
use crate::workloads::{self, Demand, Findings};

/// The maximum number of lines to print for one kind of deviation.
const SHOWN_MAX: usize = 5;

/// The findings about the files.
#[derive(Default)]
struct Summary {
    /// The reasons why active pods aren't ready, with the number of pods for each.
    unready: BTreeMap<String, u64>,
    short: Vec<String>,
    too_many: Vec<String>,
    /// Deviations found in statuses and rollouts.
    found: Findings,
    /// The number of pods whose owner should be in the files but isn't: a workload, or an object of
    /// an untyped kind of which the files contain other objects.
    orphaned: u64,
}

/// Formats the summary that `--dry-run` prints.
pub(super) fn summary(loaded: &Loaded, settings: &Settings) -> String {
    let (size, input, taken) = (&settings.size, &loaded.size, &loaded.counts.taken);
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
        workloads::owners_in_words(|kind| taken.get(kind.name()).copied().unwrap_or(0)),
        counted(input.nodes, "node"),
        counted(input.namespaces, "namespace"),
    );
    line("cluster", &wanted);
    let pods = loaded.counts.pods.in_words();
    if !pods.is_empty() {
        line("pods", &pods);
    }
    let found = Summary::from_objects(&loaded.objects);
    if !found.unready.is_empty() {
        line("not ready", &listed(&found.unready));
    }
    for (label, troubles) in [
        ("short", &found.short),
        ("too many", &found.too_many),
        ("status", &found.found.stale),
        ("rollouts", &found.found.rollouts),
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
            "{} whose owner isn't in the files: the garbage collector removes them",
            counted(found.orphaned, "pod")
        );
        line("orphaned", &text);
    }
    for workload in workloads::ALL {
        if let Some(text) = workload.older(&loaded.objects, &settings.controller.feature_gates) {
            line("older", &text);
        }
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

/// Formats the count of each kind: `Pod: 5,000, ReplicaSet: 100`.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let counts = counts.iter();
    let counts: Vec<String> = counts
        .map(|(name, number)| format!("{name}: {}", count(*number)))
        .collect();
    counts.join(", ")
}

impl Summary {
    fn from_objects(objects: &[InputObject]) -> Summary {
        let mut summary = Summary::default();
        let mut owned: PodsByOwner<'_> = HashMap::with_hasher(FIXED_STATE);
        for object in objects {
            if workloads::pods_of(object.kind()).is_some() {
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
            let demand = workloads::pods_of(object.kind());
            if let Some(demand) = demand.and_then(|pods| pods.demand(object.as_object())) {
                let meta = object.metadata();
                let none = OwnedPods::default();
                let pods = owned.get(&meta.uid).unwrap_or(&none);
                summary.add_owner(object.kind().name(), meta, demand, pods);
            }
        }
        let rollouts = workloads::ALL.into_iter().filter_map(|it| it.rollouts());
        rollouts.for_each(|rollouts| rollouts.examine(objects, &owned, &mut summary.found));
        summary
    }

    fn add_pod(&mut self, pod: &Pod, owned: &mut PodsByOwner<'_>) {
        let ready = pod.is_ready();
        if let Some((workload, owner)) = workloads::controller(&pod.metadata)
            && workload.pods().is_some()
        {
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
        Demand { replicas, status }: Demand,
        owned: &OwnedPods,
    ) {
        let name = format!("{kind} {}/{}", meta.namespace, meta.name);
        let trouble = format!("{name} wants {} and has {}", pods(replicas), owned.active);
        match owned.active.cmp(&replicas) {
            std::cmp::Ordering::Less => self.short.push(trouble),
            std::cmp::Ordering::Greater => self.too_many.push(trouble),
            std::cmp::Ordering::Equal => {}
        }
        let told = (status.replicas, status.ready);
        if told != (owned.active, owned.ready) {
            self.found.stale.push(format!(
                "{name} reports {}, {} ready, and has {}, {} ready",
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
            && self.found.stale.is_empty()
            && self.found.rollouts.is_empty()
            && self.orphaned == 0
    }
}
