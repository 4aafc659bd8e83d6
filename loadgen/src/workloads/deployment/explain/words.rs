//! Describes in words why a Deployment's sync makes each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::Request;
use podstorm::deployment::annotations::DESIRED_REPLICAS;
use podstorm::deployment::sizes::{max_surge, max_unavailable};
use podstorm_apiserver::Cluster;
use podstorm_objects::{Deployment, Kind, ReplicaSet};
use podstorm_sim::engine::client::RequestInfo;

use super::Asked;
use crate::owned_pods::OwnedPods;
use crate::workloads::replicaset::explain::words::pods;

/// The state at the beginning of a sync, and its changes by the sync.
pub(super) struct SyncView {
    pub(super) deployment: Arc<Deployment>,
    /// The name of the ReplicaSet with the Deployment's template; `None` if there is none.
    pub(super) new: Option<String>,
    /// The total size of all ReplicaSets.
    pub(super) all: i32,
    /// The number of available pods of all ReplicaSets.
    pub(super) available: i32,
    /// The names of the ReplicaSets that the sync has already scaled down.
    pub(super) shrunk: BTreeSet<String>,
}

/// Describes a request before it is executed; `None` for a read.
pub(super) fn asked(cluster: &Cluster, counts: &mut SyncView, request: &Request) -> Option<Asked> {
    let what = |name: &str, replicas, why: String| {
        Some(Asked {
            request: RequestInfo::from_request(request).to_string(),
            name: name.to_owned(),
            replicas,
            why,
        })
    };
    match request {
        Request::Create { object } => {
            let set = object.downcast_ref::<ReplicaSet>()?;
            let size = set.replicas();
            let why = format!(
                "no ReplicaSet has this template; {}",
                counts.growth(0, size)
            );
            what(&set.metadata.name, Some((0, size)), why)
        }
        Request::Put { object } => {
            let name = object.metadata().name.as_str();
            let Some(set) = object.downcast_ref::<ReplicaSet>() else {
                let why = "its own annotations or template are corrected".to_owned();
                return what(name, None, why);
            };
            let before = cluster
                .get::<ReplicaSet>(&set.metadata.namespace, name)
                .ok()?;
            let (from, to) = (before.replicas(), set.replicas());
            if from == to {
                return what(
                    name,
                    None,
                    "annotations and minReadySeconds are corrected".to_owned(),
                );
            }
            let why = counts.why(&before, to);
            what(name, Some((from, to)), why)
        }
        Request::PutStatus { object } => {
            let deployment = Deployment::from_object(object)?;
            let told = deployment
                .status
                .conditions
                .iter()
                .find(|it| &*it.kind == "Progressing");
            let told = told.map_or_else(String::new, |it| format!(": {}", it.message));
            what(
                &deployment.metadata.name,
                None,
                format!("the status reports the progress{told}"),
            )
        }
        Request::Delete { name, kind, .. } if *kind == Kind::REPLICA_SET => {
            let why = "there are more old ones than revisionHistoryLimit allows".to_owned();
            what(name, None, why)
        }
        Request::PatchOwners { name, .. } => what(
            name,
            None,
            "adopted or released, depending on the selector".to_owned(),
        ),
        _ => None,
    }
}

impl SyncView {
    /// Describes why the new ReplicaSet grows from one size to another.
    fn growth(&self, from: i32, to: i32) -> String {
        let (replicas, surge) = (self.deployment.replicas(), max_surge(&self.deployment));
        let by = to - from;
        match replicas - from {
            _ if *self.deployment.spec.strategy.kind == *"Recreate" => {
                "Recreate: no old pod is left, so all new ones start".to_owned()
            }
            missing if missing == by => format!(
                "{} wanted, {missing} are missing; {} exist, and with maxSurge {} may",
                pods_of(replicas),
                self.all,
                replicas + surge
            ),
            _ => format!(
                "{} wanted, with maxSurge {} may exist; {} do, so {by} more fit",
                pods_of(replicas),
                replicas + surge,
                self.all
            ),
        }
    }

    /// Describes why a ReplicaSet gets the size `to`.
    fn why(&mut self, before: &ReplicaSet, to: i32) -> String {
        let (meta, from) = (&before.metadata, before.replicas());
        let deployment = &*self.deployment;
        let (replicas, missing) = (deployment.replicas(), max_unavailable(deployment));
        let sized_for = meta.annotations.get(DESIRED_REPLICAS);
        let sized_for = sized_for.and_then(|text| text.parse::<i32>().ok());
        if let Some(sized_for) = sized_for.filter(|sized_for| *sized_for != replicas) {
            return format!(
                "spec.replicas went from {sized_for} to {replicas}: every ReplicaSet gets its share"
            );
        }
        if to > from {
            return self.growth(from, to);
        }
        if self.new.as_deref() == Some(meta.name.as_str()) {
            return format!("{} wanted", pods_of(replicas));
        }
        if *deployment.spec.strategy.kind == *"Recreate" {
            return "Recreate: all old pods go before the first new one starts".to_owned();
        }
        let (available, by) = (before.status.available_replicas, from - to);
        let is_first = self.shrunk.insert(meta.name.to_string());
        if is_first && from > available {
            return format!(
                "{by} of {from} {} not available: {} first",
                verb(by),
                if by == 1 { "it goes" } else { "they go" }
            );
        }
        format!(
            "{} of {replicas} must stay available (maxUnavailable {missing}); {} are",
            replicas - missing,
            self.available
        )
    }
}

fn pods_of(count: i32) -> String {
    pods(usize::try_from(count).unwrap_or(0))
}

/// Describes problems of a Deployment that exist already: stuck pods, by ReplicaSet, and conditions
/// that report a problem.
pub(super) fn problems(deployment: &Deployment, pods: &BTreeMap<String, OwnedPods>) -> Vec<String> {
    let stuck = pods
        .iter()
        .filter_map(|(name, pods)| pods.problem(Some(name)));
    let conditions = deployment.status.conditions.iter().filter(|it| {
        matches!(
            (&*it.kind, &*it.status),
            ("Progressing", "False") | ("ReplicaFailure", "True")
        )
    });
    let told = conditions.map(|it| {
        format!(
            "Its condition {} is {}, {}: {}",
            it.kind, it.status, it.reason, it.message
        )
    });
    stuck.chain(told).collect()
}

/// Describes how a ReplicaSet's status will change while pods are created or removed; `available`
/// is the expected number of available pods. `None` if it will not change.
pub(super) fn waits(set: &ReplicaSet, available: i32) -> Option<String> {
    let (size, status, name) = (set.replicas(), &set.status, &set.metadata.name);
    if status.available_replicas < available {
        let missing = available - status.available_replicas;
        return Some(format!(
            "{missing} more of {name} {} available",
            verb(missing)
        ));
    }
    let surplus = status.replicas - size;
    (surplus > 0).then(|| format!("{surplus} of {name} {} gone", verb(surplus)))
}

fn verb(count: i32) -> &'static str {
    match count {
        1 => "is",
        _ => "are",
    }
}
