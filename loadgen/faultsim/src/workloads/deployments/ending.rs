//! The end of a run: the Deployments that have not converged, and how users help them.

use podstorm::deployment::annotations::DESIRED_REPLICAS;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Deployment, ReplicaSet};

use super::checker::RolloutChecker;
use super::limits::{is_same, selects};
use super::users::{BAD_TEMPLATES, DeploymentUsers, Strategy, UserAction, deployments, sets_of};
use crate::objects::NAMESPACE;
use crate::simulation::{Simulation, Users as _};

/// Returns the first deviation from the required state at rest, if there is any.
pub(super) fn missing(simulation: &Simulation, rollout_checker: &RolloutChecker) -> Option<String> {
    let cluster = simulation.harness.cluster();
    let all = deployments(cluster);
    let incomplete = || all.iter().find_map(|it| difference(cluster, it));
    let behind = || rollout_checker.behind(cluster);
    // The retry may write a state that is correct by chance once more.
    let retries = || simulation.harness.has_retries();
    let retries = || retries().then(|| "a failed sync is still waiting for its retry".to_owned());
    let missing = simulation.missing().or_else(incomplete).or_else(behind);
    missing.or_else(retries)
}

fn difference(cluster: &Cluster, deployment: &Deployment) -> Option<String> {
    let (name, spec) = (&deployment.metadata.name, &deployment.spec);
    if deployment.metadata.is_deleting() {
        return Some(format!("{name} is still being deleted"));
    }
    if let Some(unclaimed) = unclaimed(cluster, deployment) {
        return Some(unclaimed);
    }
    let wanted = deployment.replicas();
    let sets = sets_of(cluster, deployment);
    let is_new = |set: &ReplicaSet| is_same(&set.spec.template, &spec.template);
    let Some(at) = sets.iter().position(|set| is_new(set)) else {
        return Some(format!("{name} has no ReplicaSet with its template"));
    };
    for (number, set) in sets.iter().enumerate() {
        let size = if number == at { wanted } else { 0 };
        if set.replicas() != size {
            let (set, is) = (&set.metadata.name, set.replicas());
            return Some(format!("{set} should want {size} pods, but wants {is}"));
        }
    }
    let kept = spec.revision_history_limit.unwrap_or(i32::MAX);
    if (sets.len() - 1) as i64 > i64::from(kept) {
        return Some(format!(
            "{name} keeps {} old ReplicaSets instead of {kept}",
            sets.len() - 1
        ));
    }
    let status = &deployment.status;
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    ];
    if counts != [wanted; 4] || status.unavailable_replicas != 0 {
        return Some(format!(
            "the status of {name} has {counts:?}, but it wants {wanted}"
        ));
    }
    if status.observed_generation != deployment.metadata.generation {
        return Some(format!("the status of {name} has an older generation"));
    }
    let has_deadline = spec
        .progress_deadline_seconds
        .is_some_and(|it| it != i32::MAX);
    for (kind, reason) in [
        ("Available", Some("MinimumReplicasAvailable")),
        (
            "Progressing",
            has_deadline.then_some("NewReplicaSetAvailable"),
        ),
    ] {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|it| *it.kind == *kind);
        let is = condition.map(|it| &*it.reason);
        if is != reason {
            return Some(format!(
                "the condition {kind} of {name} has reason {is:?} instead of {reason:?}"
            ));
        }
    }
    let revision = podstorm::deployment::annotations::REVISION;
    let of_set = sets[at].metadata.annotations.get(revision);
    if deployment.metadata.annotations.get(revision) != of_set {
        return Some(format!("the revisions of {name} and its ReplicaSet differ"));
    }
    None
}

/// Returns the first ReplicaSet that should be adopted or released.
fn unclaimed(cluster: &Cluster, deployment: &Deployment) -> Option<String> {
    let (sets, _) = cluster.list::<ReplicaSet>(Some(NAMESPACE));
    let name = &deployment.metadata.name;
    sets.iter().find_map(|set| {
        let meta = &set.metadata;
        match meta.controller() {
            None if !meta.is_deleting() && selects(deployment, set) => {
                Some(format!("{name} has not adopted {}", meta.name))
            }
            Some(owner) if owner.uid == deployment.metadata.uid && !selects(deployment, set) => {
                Some(format!("{name} has not released {}", meta.name))
            }
            _ => None,
        }
    })
}

/// Replaces specs of users that can't be satisfied.
pub(super) fn put_right(simulation: &mut Simulation, users: &mut DeploymentUsers) {
    for planned in &*users.planned() {
        let name = || planned.name.clone();
        let there = deployments(simulation.harness.cluster());
        let Some(deployment) = there.iter().find(|it| *it.metadata.name == *planned.name) else {
            users.act(simulation, &UserAction::Create(name()));
            continue;
        };
        if deployment.spec.paused {
            users.act(simulation, &UserAction::Pause(name(), false));
        }
        let (sets, _) = simulation
            .harness
            .cluster()
            .list::<ReplicaSet>(Some(NAMESPACE));
        // A pending rollback may restore a template that can't run.
        let is_bad = !can_run(&deployment.spec.template)
            || sets.iter().any(|set| !can_run(&set.spec.template));
        if is_bad {
            users.act(simulation, &UserAction::Template(name(), BAD_TEMPLATES - 1));
        }
    }
}

fn can_run(template: &podstorm_objects::PodTemplate) -> bool {
    template.spec.scheduler_name.is_none()
}

/// Users touch every object, and help.
pub(super) fn touch(simulation: &mut Simulation, users: &mut DeploymentUsers) {
    for deployment in deployments(simulation.harness.cluster()) {
        let name = deployment.metadata.name.to_string();
        users.act(simulation, &UserAction::Touch(name.clone()));
        if !can_run(&deployment.spec.template) {
            users.act(
                simulation,
                &UserAction::Template(name.clone(), BAD_TEMPLATES - 1),
            );
        }
    }
    help(simulation, users);
    simulation.touch_all();
}

/// Helps the Deployments whose controller is known to wait for users. Returns whether there were
/// any.
pub(super) fn help(simulation: &mut Simulation, users: &mut DeploymentUsers) -> bool {
    let mut has_helped = false;
    for deployment in deployments(simulation.harness.cluster()) {
        let name = deployment.metadata.name.to_string();
        let sets = sets_of(simulation.harness.cluster(), &deployment);
        let replicas = deployment.replicas();
        let active = || sets.iter().filter(|set| set.replicas() > 0);
        let is_stale = active().any(|set| {
            let desired = set.metadata.annotations.get(DESIRED_REPLICAS);
            desired.is_some_and(|desired| **desired != *replicas.to_string())
        });
        if is_stale {
            let rolling = Strategy::Rolling {
                surge: "1".to_owned(),
                unavailable: "0".to_owned(),
            };
            let help = match active().count() {
                // H3: the size of the ReplicaSet is correct, but its annotation is not.
                1 => UserAction::Scale(name, replicas + 1),
                // H4: with several active ReplicaSets, upstream scales none of them.
                _ => UserAction::Strategy(name, rolling),
            };
            users.act(simulation, &help);
            has_helped = true;
        }
    }
    has_helped
}
