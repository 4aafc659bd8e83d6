//! The end of a run: everything is put right, comes to the wanted state, and stays so.

use podstorm::deployment::annotations::DESIRED_REPLICAS;
use podstorm::policy::Behaviour;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Deployment, ReplicaSet};

use super::super::objects::NAMESPACE;
use super::super::simulation::Simulation;
use super::checker::RolloutChecker;
use super::limits::{is_same, selects};
use super::users::{BAD_TEMPLATES, Strategy, UserAction, Users, deployments, sets_of};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

/// Users touch what has not come to rest so long after the end of faults: by then what a key that was
/// dropped, or a scale-down whose error upstream swallows, waits for is nothing but an event.
const TOUCH_AFTER: i64 = 90 * SECOND;

/// A rollout of a dozen pods, one after the other.
const ROLLOUT: i64 = 600 * SECOND;

/// Upstream's ReplicaSets: the longest delay of a retry, and two expectations that run out.
const RETRIES: i64 = 1_600 * SECOND;

/// With upstream's ReplicaSets these are touched when expectations have run out.
const EXPECTATIONS: i64 = 370 * SECOND;

/// Nothing may be written for so long, after a minute for the last writes.
const QUIET: i64 = 600 * SECOND;

/// What is not as it must be at rest, if anything.
pub(super) fn missing(simulation: &Simulation, rollout_checker: &RolloutChecker) -> Option<String> {
    let cluster = simulation.harness.cluster();
    let all = deployments(cluster);
    let incomplete = || all.iter().find_map(|it| difference(cluster, it));
    let behind = || rollout_checker.behind(cluster);
    // What is as wanted by chance may be written once more by the retry.
    let retries = || simulation.harness.has_retries();
    let retries = || retries().then(|| "a sync that failed is still to be retried".to_owned());
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
        return Some(format!("{name} has no ReplicaSet of its template"));
    };
    for (number, set) in sets.iter().enumerate() {
        let size = if number == at { wanted } else { 0 };
        if set.replicas() != size {
            let (set, is) = (&set.metadata.name, set.replicas());
            return Some(format!("{set} should have {size} pods, and wants {is}"));
        }
    }
    let kept = spec.revision_history_limit.unwrap_or(i32::MAX);
    if (sets.len() - 1) as i64 > i64::from(kept) {
        return Some(format!(
            "{name} keeps {} old ReplicaSets of {kept}",
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
            "{name}'s status says {counts:?}, and it wants {wanted}"
        ));
    }
    if status.observed_generation != deployment.metadata.generation {
        return Some(format!("{name}'s status is of an older generation"));
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
                "{name}'s condition {kind} says {is:?}, not {reason:?}"
            ));
        }
    }
    let revision = podstorm::deployment::annotations::REVISION;
    let of_set = sets[at].metadata.annotations.get(revision);
    if deployment.metadata.annotations.get(revision) != of_set {
        return Some(format!("{name} has another revision than its ReplicaSet"));
    }
    None
}

/// A ReplicaSet that is still to be adopted or released.
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

/// Goes on until all is as wanted and nothing is at work, for so long at most; whether it came to that.
pub(super) fn converges(
    simulation: &mut Simulation,
    rollout_checker: &RolloutChecker,
    limit_ns: i64,
) -> bool {
    let missing = |simulation: &Simulation| missing(simulation, rollout_checker);
    let since_ns = simulation.until_converged(limit_ns, false, missing);
    since_ns.is_some()
}

/// Puts everything right and lets the run end, checking L1 and L2; answers how long after the end of
/// faults everything was as wanted, ns.
pub(super) fn conclude(
    simulation: &mut Simulation,
    users: &mut Users<'_>,
    rollout_checker: &RolloutChecker,
    behaviour: Behaviour,
) -> Option<i64> {
    let checker = rollout_checker.checker();
    checker.phase("heal", simulation.harness.now());
    simulation.heal();
    put_right(simulation, users);
    simulation.run_to(simulation.harness.now().mono_ns + MS);
    let healed_ns = simulation
        .harness
        .now()
        .mono_ns
        .max(simulation.harness.network().over_ns());
    checker.healed(healed_ns);
    simulation.run_to(healed_ns);
    let touches = [TOUCH_AFTER, EXPECTATIONS - TOUCH_AFTER];
    let (touches, last) = match behaviour {
        Behaviour::Hardened => (&touches[..1], ROLLOUT),
        Behaviour::Upstream => (&touches[..], RETRIES),
    };
    let mut has_converged = false;
    for wait_ns in touches {
        has_converged = converges(simulation, rollout_checker, *wait_ns);
        if has_converged || checker.is_over() {
            break;
        }
        touch(simulation, users);
    }
    has_converged = has_converged || converges(simulation, rollout_checker, last);
    // What they were helped with, e.g. a rollback, may have come to where the controller waits again.
    if !has_converged && !checker.is_over() && help(simulation, users) {
        has_converged = converges(simulation, rollout_checker, ROLLOUT);
    }
    if !has_converged {
        let missing = missing(simulation, rollout_checker);
        let text = missing.unwrap_or_else(|| "a controller has not come to rest".to_owned());
        checker.fail(
            "L1",
            format!("not converged: {text}"),
            simulation.harness.now(),
        );
        return None;
    }
    let converged_after_ns = (simulation.harness.now().mono_ns - healed_ns).max(0);
    simulation.run_to(simulation.harness.now().mono_ns + 60 * SECOND);
    checker.phase("quiet", simulation.harness.now());
    rollout_checker.quiet_begins();
    let begun_ns = simulation.harness.now().mono_ns;
    simulation.run_to(begun_ns + QUIET);
    if let Some(missing) = missing(simulation, rollout_checker) {
        let text = format!("converged, and did not stay so: {missing}");
        checker.fail("L1", text, simulation.harness.now());
    }
    let restless = checker.restless(begun_ns);
    if let Some(text) = restless.or_else(|| rollout_checker.restless(begun_ns)) {
        checker.fail("L2", text, simulation.harness.now());
    }
    Some(converged_after_ns)
}

/// Users want nothing any more that can't be had.
fn put_right(simulation: &mut Simulation, users: &mut Users<'_>) {
    for planned in users.planned {
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
        // A rollback that is still to come may bring such a template back.
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

/// Users touch everything, and help.
fn touch(simulation: &mut Simulation, users: &mut Users<'_>) {
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

/// Users help where the controller is known to wait for them; whether there was such a Deployment.
fn help(simulation: &mut Simulation, users: &mut Users<'_>) -> bool {
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
                // H3: its size is right, and its annotation is not.
                1 => UserAction::Scale(name, replicas + 1),
                // H4: nothing scales several of them.
                _ => UserAction::Strategy(name, rolling),
            };
            users.act(simulation, &help);
            has_helped = true;
        }
    }
    has_helped
}
