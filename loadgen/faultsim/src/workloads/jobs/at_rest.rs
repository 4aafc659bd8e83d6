//! The requirements for Jobs at rest, which L1 checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::job::{Controller, pod::TRACKING_FINALIZER};
use podstorm_apiserver::Cluster;
use podstorm_objects::{Pod, PodPhase};
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::checker::JobJudge;
use super::status::{Read, index_of, is_tracked, owner_of};
use super::users::{jobs, selects};
use crate::objects::NAMESPACE;
use crate::simulation::Simulation;

/// Returns the first difference between a live controller's caches and the server, if there is any.
/// While there is one, pending events may cause more work.
pub(super) fn behind(harness: &FaultHarness) -> Option<String> {
    let (pods, _) = harness.cluster().list::<Pod>(Some(NAMESPACE));
    let all = jobs(harness.cluster());
    harness.controllers::<Controller>().find_map(|controller| {
        all.iter().find_map(|job| {
            let meta = &job.metadata;
            let behind = || Some(format!("a cache is stale: {}", meta.name));
            let key = controller.key(&meta.namespace, &meta.name);
            let Some((cached, cached_pods)) = controller.cached(key) else {
                return behind();
            };
            if cached.metadata.resource_version != meta.resource_version {
                return behind();
            }
            let is_candidate = |pod: &&Arc<Pod>| {
                let owner = pod.metadata.controller();
                owner.is_none_or(|owner| owner.uid == meta.uid)
            };
            let version = |pod: &Arc<Pod>| pod.metadata.resource_version.number();
            let there: BTreeSet<_> = pods.iter().filter(is_candidate).map(version).collect();
            let known: BTreeSet<_> = cached_pods.iter().map(version).collect();
            let text = || format!("a cache is stale: pods of {}", meta.name);
            (there != known).then(text)
        })
    })
}

/// Returns the first deviation from the required state at rest, if there is any.
pub(super) fn missing(judge: &JobJudge, simulation: &Simulation) -> Option<String> {
    let harness = &simulation.harness;
    let cluster = harness.cluster();
    let all = jobs(cluster);
    let of_job = || {
        all.iter()
            .find_map(|job| difference(judge, &Read::from_object(job), cluster))
    };
    let of_pods = || to_adopt(cluster).or_else(|| tracked(cluster));
    let found = of_job().or_else(of_pods);
    found.or_else(|| remembered(harness))
}

fn difference(judge: &JobJudge, job: &Read<'_>, cluster: &Cluster) -> Option<String> {
    let name = job.name();
    if job.job.metadata.is_deleting() {
        return Some(format!("{name} is still being deleted"));
    }
    let uid = &job.job.metadata.uid;
    let pods: Vec<_> = judge.owned(uid).collect();
    let active = pods.iter().filter(|pod| pod.is_active());
    let active: Vec<_> = active.collect();
    let is = active.len() as i64;
    let done = job.done_indexes();
    // As in upstream, a second pod of a finished index stays and counts as active. The pod was
    // adopted, or the controller never got the answer to the request that created it.
    let is_stray = |pod: &Arc<Pod>| {
        let may_be = judge.is_odd(pod) || judge.circumstances.may_exceed;
        job.is_indexed() && may_be && done.contains(&index_of(pod))
    };
    let ends = ["FailureTarget", "SuccessCriteriaMet"];
    let ends = ends.iter().any(|kind| job.condition(kind).is_some());
    if (ends || job.must_end()) && !job.has_finished() {
        return Some(format!("{name} should have finished"));
    }
    // As in upstream, pods that a controller with a stale cache creates for a finished Job keep
    // running, uncounted.
    let may_run_on = job.has_finished() && judge.circumstances.may_exceed;
    if job.has_finished() || job.is_suspended() {
        if is > 0 && !may_run_on {
            return Some(format!("{name} has {is} active pods instead of none"));
        }
    } else {
        let wanted = match job.number("completions") {
            // One pod has succeeded, so the other pods may end.
            None if job.succeeded() > 0 && is > 0 => is,
            _ => job.wanted(),
        };
        if job.number("completions").is_none() && job.succeeded() > 0 && is == 0 {
            return Some(format!("{name} should be complete"));
        }
        let strays = active.iter().filter(|pod| is_stray(pod)).count() as i64;
        if !(wanted..=wanted + strays).contains(&is) {
            return Some(format!("{name} has {is} active pods instead of {wanted}"));
        }
        if job.is_indexed() {
            let others = active.iter().filter(|pod| !is_stray(pod));
            let indexes: Vec<i64> = others.map(|pod| index_of(pod)).collect();
            let distinct: BTreeSet<i64> = indexes.iter().copied().collect();
            let is_apart = distinct.is_disjoint(&done) && !distinct.contains(&-1);
            if indexes.len() != distinct.len() || !is_apart {
                return Some(format!("{name} has pods with wrong indexes: {distinct:?}"));
            }
        }
    }
    let said = job.condition("Suspended").is_some();
    if !job.has_finished() && said != job.is_suspended() {
        return Some(format!("{name} has the wrong condition Suspended: {said}"));
    }
    let ready = active.iter().filter(|pod| pod.is_ready()).count() as i64;
    let terminating = pods.iter().filter(|pod| pod.is_terminating()).count() as i64;
    for (member, count) in [
        ("active", is),
        ("ready", ready),
        ("terminating", terminating),
    ] {
        let said = job.count(member);
        if said != count && !may_run_on {
            return Some(format!(
                "the status of {name} has {said} {member} instead of {count}"
            ));
        }
    }
    // As in upstream, a listed pod may still have to wait for a replacement.
    let waits = |pod: &&&Arc<Pod>| awaits_replacement(job, pod, cluster);
    let waiting: BTreeSet<_> = pods
        .iter()
        .filter(waits)
        .map(|pod| &pod.metadata.uid)
        .collect();
    for list in ["succeeded", "failed"] {
        if job.listed(list).iter().any(|pod| !waiting.contains(pod)) {
            return Some(format!("{name} still lists pods as {list}"));
        }
    }
    let mut recount = judge.recount(uid);
    if job.is_indexed() {
        recount[0] = job.indexes("completedIndexes").len() as i64;
    }
    let said = [job.count("succeeded"), job.failed()];
    (said != recount)
        .then(|| format!("the status of {name} has {said:?} ended pods instead of {recount:?}"))
}

/// Reports whether a pod keeps the tracking finalizer until another pod of its index is active,
/// which then takes over its number of failures. The pod waits while the Job is suspended or has no
/// room for the other pod.
pub(super) fn awaits_replacement(job: &Read<'_>, pod: &Pod, cluster: &Cluster) -> bool {
    let index = index_of(pod);
    let is_open = !job.done_indexes().contains(&index);
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let mut others = pods
        .iter()
        .filter(|other| owner_of(other) == Some(&job.job.metadata.uid) && index_of(other) == index);
    pod.status.phase == PodPhase::Failed
        && is_tracked(pod)
        && is_open
        && job.number("backoffLimitPerIndex").is_some()
        && !job.has_finished()
        && !others.any(|other| other.is_active())
}

/// Describes the first pod that a Job should adopt, if there is one.
fn to_adopt(cluster: &Cluster) -> Option<String> {
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let all = jobs(cluster);
    let mut alone = pods
        .iter()
        .filter(|pod| pod.metadata.controller().is_none() && !pod.metadata.is_deleting());
    alone.find_map(|pod| {
        let job = all.iter().find(|job| {
            let is_open = !job.metadata.is_deleting() && !Read::from_object(job).has_finished();
            is_open && selects(job, pod)
        })?;
        let (pod, job) = (&pod.metadata.name, &job.metadata.name);
        Some(format!("{job} has not adopted {pod}"))
    })
}

/// Describes the first pod that is tracked without a reason, if there is one.
fn tracked(cluster: &Cluster) -> Option<String> {
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let all = jobs(cluster);
    let mut tracked = pods.iter().filter(|pod| is_tracked(pod));
    tracked.find_map(|pod| {
        let owner = owner_of(pod);
        let job = all.iter().find(|job| Some(&job.metadata.uid) == owner);
        let text = |why| {
            Some(format!(
                "{} has {TRACKING_FINALIZER}: {why}",
                pod.metadata.name
            ))
        };
        let Some(job) = job.map(|job| Read::from_object(job)) else {
            return text("it belongs to no Job");
        };
        if job.has_finished() {
            return text("its Job has finished");
        }
        if pod.status.phase.is_terminal() && !awaits_replacement(&job, pod, cluster) {
            return text("it has ended");
        }
        None
    })
}

/// Describes the first state that a controller should have forgotten, if there is any.
fn remembered(harness: &FaultHarness) -> Option<String> {
    let all = jobs(harness.cluster());
    let (pods, _) = harness.cluster().list::<Pod>(Some(NAMESPACE));
    harness.controllers::<Controller>().find_map(|controller| {
        let unfinished = all
            .iter()
            .filter(|job| !Read::from_object(job).has_finished());
        unfinished.into_iter().find_map(|job| {
            let meta = &job.metadata;
            let key = controller.key(&meta.namespace, &meta.name);
            let state = controller.remembered(key);
            // State about a pod that was deleted or is not tracked does no harm.
            let is_released = |pod: &Arc<Pod>| {
                let released = state.released.as_ref();
                is_tracked(pod) && released.is_some_and(|it| it.contains(&pod.metadata.uid))
            };
            let waits = pods.iter().any(is_released);
            let text = || format!("the controller still waits for pods of {}", meta.name);
            (waits || state.finished.contains(&meta.uid)).then(text)
        })
    })
}
